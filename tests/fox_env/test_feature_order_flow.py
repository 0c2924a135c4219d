"""Order-flow features: equal to a direct computation in polars, from recorded columns and from proxies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from feature_cases import COLUMN, SHARED, SPEC, features, random_bars
from numpy.typing import NDArray

from fox_env.bars import Bars
from fox_env.features import FEATURES, RECORDED
from fox_env.market import Market
from fox_env.readers import read_bars

LENGTH = 3_000
TICK = SPEC.tick_size

C, V, ATR, MEAN_V = (pl.col(name) for name in ("close", "volume", "atr", "mean_volume"))
D, Q, QV = (pl.col(name) for name in ("move", "q", "q_volume"))
MIDDLE = (pl.col("high") + pl.col("low")) / 2
BID, ASK, B, A = (pl.col(name) for name in ("bid", "ask", "bid_size", "ask_size"))
BOOK = (B - A) / (B + A)


def total(x: pl.Expr, window: int) -> pl.Expr:
    return x.rolling_sum(window)


def relative(x: pl.Expr) -> pl.Expr:
    return x / x.rolling_mean(20) - 1


def root_of_positive(x: pl.Expr) -> pl.Expr:
    return pl.max_horizontal(x, 0.0).sqrt()


FLOW = {
    "signal_or_imbalance": Q / QV,
    **{f"imbalance_{n}": total(Q, n) / total(QV, n) for n in (5, 20, 60)},
    "flow_to_volume": Q / MEAN_V,
    "flow_toxicity_50": total(Q.abs(), 50) / total(QV, 50),
    "impact_slope_60": total(D * Q, 60) / total(Q * Q, 60) * MEAN_V / ATR,
    "flow_correlation_60": total(D * Q, 60) / (total(D * D, 60) * total(Q * Q, 60)).sqrt(),
    "roll_spread_60": 2 * root_of_positive(-(D * D.shift(1)).rolling_mean(60)) / ATR,
    "illiquidity": total(D.abs(), 20) / total(V, 20) * total(V, 120) / total(D.abs(), 120) - 1,
}
PROXIES = FLOW | {
    "spread": 2
    * root_of_positive(
        ((C.shift(1) - MIDDLE.shift(1)) * (C.shift(1) - MIDDLE)).rolling_mean(60),
    )
    / ATR,
    "depth": relative(V / (pl.col("high") - pl.col("low") + ATR)),
}
RECORDS = FLOW | {
    "spread": (ASK - BID) / ATR,
    "depth": relative(B + A),
    "book_imbalance": BOOK,
    "microprice": ((ASK * B + BID * A) / (B + A) - (ASK + BID) / 2) / ATR,
}


@pytest.fixture(scope="module")
def recorded() -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng(8)
    close = random_bars(LENGTH, 8).close
    names = ("buy_volume", "sell_volume", "bid_size", "ask_size")
    sizes = {name: rng.integers(1, 400, LENGTH).astype(np.float64) for name in names}
    ticks = rng.integers(0, 4, (2, LENGTH))
    return sizes | {"bid": close - TICK * ticks[0], "ask": close + TICK * (1 + ticks[1])}


def market(extra: Mapping[str, NDArray[np.float64]]) -> Market:
    return Market.from_bars(replace(random_bars(LENGTH, 8), extra=extra), SPEC, cache=False)


def frame(of: Market) -> pl.DataFrame:
    names = ("high", "low", "close", "volume", "atr", "mean_volume")
    prices = {name: x / TICK for name, x in of.bars.extra.items() if name in ("bid", "ask")}
    columns = {name: getattr(of.columns, name) for name in names} | dict(of.bars.extra) | prices
    table = pl.DataFrame(columns).with_columns(C.diff().alias("move"))
    if "buy_volume" in table.columns:
        buys, sells = pl.col("buy_volume"), pl.col("sell_volume")
        return table.with_columns((buys - sells).alias("q"), (buys + sells).alias("q_volume"))
    z = D / (D * D).rolling_mean(60).sqrt()
    return table.with_columns((V * z / (2 + z * z).sqrt()).alias("q"), V.alias("q_volume"))


def assert_agrees(of: Market, expected: Mapping[str, pl.Expr]) -> None:
    direct = frame(of).select(**expected).fill_nan(0.0)  # 0 / 0 is 0 in the table
    for name in expected:
        found, right = of.features[240:, COLUMN[name]], direct[name].to_numpy()[240:]
        np.testing.assert_allclose(found, np.clip(right, -10, 10), rtol=1e-5, atol=2e-6, err_msg=name)
        assert found.any(), name


def test_recorded_trades_and_quotes_agree_with_polars(recorded: dict[str, NDArray[np.float64]]) -> None:
    assert_agrees(market(recorded), RECORDS)


def test_proxies_agree_with_polars() -> None:
    of = market({})
    assert_agrees(of, PROXIES)
    for name in ("book_imbalance", "microprice", "book_flow"):
        assert not of.features[:, COLUMN[name]].any(), name


def test_depth_of_the_whole_book_is_preferred(recorded: dict[str, NDArray[np.float64]]) -> None:
    rng = np.random.default_rng(9)
    deep = {f"{side}_depth": rng.integers(1, 4000, LENGTH).astype(np.float64) for side in ("bid", "ask")}
    expected = relative(pl.col("bid_depth") + pl.col("ask_depth"))
    assert_agrees(market(recorded | deep), {"depth": expected, "book_imbalance": BOOK})


def test_recorded_order_flow_imbalance_is_preferred(recorded: dict[str, NDArray[np.float64]]) -> None:
    flow = np.random.default_rng(10).normal(size=LENGTH) * 300.0
    expected = pl.col("ofi") / (pl.col("ofi") ** 2).rolling_mean(60).sqrt()
    assert_agrees(market(recorded | {"ofi": flow}), {"book_flow": expected})


def test_order_flow_imbalance_of_closing_quotes(recorded: dict[str, NDArray[np.float64]]) -> None:
    """Cont, Kukanov, Stoikov (2014), equation 2, on the quotes at the closes."""

    def flow(price: pl.Expr, size: pl.Expr, side: int) -> pl.Expr:
        better = side * price.diff()
        return pl.when(better >= 0).then(size).otherwise(0) - pl.when(better <= 0).then(
            size.shift(1)
        ).otherwise(0)

    step = flow(BID, B, 1) - flow(ASK, A, -1)
    assert_agrees(market(recorded), {"book_flow": step / (step**2).rolling_mean(60).sqrt()})


def test_a_missing_quote_moves_nothing(recorded: dict[str, NDArray[np.float64]]) -> None:
    holes = {name: column.copy() for name, column in recorded.items()}
    for name in ("bid", "bid_size"):
        holes[name][1_000] = np.nan
    table = market(holes).features
    assert table[1_000, COLUMN["spread"]] == 0.0 and table[1_000, COLUMN["microprice"]] == 0.0
    assert not table[1_000:1_002, COLUMN["book_flow"]].any() and table[1_002, COLUMN["book_flow"]] != 0.0
    assert np.isfinite(table).all()


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared market data are not beside the project")
def test_a_real_book_agrees_with_polars() -> None:
    path = SHARED / "orderflow_ES_tbt_dom_20220124_1min.txt.gz"
    bars = read_bars(path, tz="UTC", bars="5t", repair=["sort"])
    of = Market.from_bars(bars, SPEC, warmup=0, cache=False)
    deep, flow = pl.col("bid_depth") + pl.col("ask_depth"), pl.col("ofi")
    book = {"depth": relative(deep), "book_flow": flow / (flow**2).rolling_mean(60).sqrt()}
    assert_agrees(of, RECORDS | book)
    assert (of.features[:, COLUMN["order_flow_source"]] == 0.625).all()


SOURCES = {
    "a planted signal": ({"signal", "buy_volume", "sell_volume", "bid", "ask"}, True, 1.0),
    "trades and quotes": ({"buy_volume", "sell_volume", "bid", "ask"}, True, 0.625),
    "trades": ({"buy_volume", "sell_volume"}, True, 0.5),
    "trades of unknown side": ({"buy_volume", "sell_volume", "side_inferred"}, True, 0.75),
    "quotes": ({"bid", "ask"}, True, 0.375),
    "half of a pair": ({"bid", "buy_volume"}, True, 0.25),
    "bars": (set(), True, 0.25),
    "quotes without volume": ({"bid", "ask"}, False, 0.125),
    "bars without volume": (set(), False, 0.0),
}


@pytest.mark.parametrize("case", SOURCES)
def test_one_entry_says_where_the_order_flow_comes_from(case: str) -> None:
    names, volume, code = SOURCES[case]
    bars = replace(random_bars(100, volume=volume), extra={name: np.ones(100) for name in sorted(names)})
    assert (features(bars)[:, COLUMN["order_flow_source"]] == np.float32(code)).all()


def test_every_recorded_column_changes_a_feature(recorded: dict[str, NDArray[np.float64]]) -> None:
    rng = np.random.default_rng(11)
    names = sorted(RECORDED - recorded.keys())
    complete = recorded | {name: rng.random(LENGTH) for name in names}
    for name in sorted(RECORDED):
        extra = {n: x for n, x in complete.items() if n != "signal" or name == "signal"}
        plain = market(extra).features
        changed = market(extra | {name: extra[name] + TICK * rng.integers(-4, 5, LENGTH)}).features
        columns = {FEATURES[i].block for i in np.flatnonzero((changed != plain).any(axis=0))}
        assert columns == {"order_flow"}, name


def test_columns_of_other_names_change_nothing() -> None:
    bars: Bars = random_bars(300)
    np.testing.assert_array_equal(
        features(replace(bars, extra={"open_interest": np.arange(300.0)})), features(bars)
    )
