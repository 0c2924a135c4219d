"""Bars from trades and quotes: what belongs to which bar, what is conserved, and the recorded order flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fox_env.bars import Bars
from fox_env.errors import ConfigError, DataError
from fox_env.features import RECORDED
from fox_env.reading.content import read_contents
from fox_env.reading.events import Events, bars_from_events, events_of
from fox_env.reading.resample import resample
from fox_env.reading.table import Table

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "dbn"
T0 = 1_715_248_800_000_000_000  # 2024-05-09 10:00:00 UTC
SECOND, MINUTE = 1_000_000_000, 60_000_000_000
SIZES = ("1s", "1min", "5min", "1h", "1d", "1t", "3t", "10v", "2000d")


def events(after_s: list[float], **columns: Any) -> Events:
    """Return events some seconds after 10:00 UTC; columns by name."""
    ts = T0 + np.rint(np.array(after_s) * SECOND).astype(np.int64)
    arrays = {
        name: np.array(values, dtype={"side": np.int8, "reset": bool}.get(name, np.float64))
        for name, values in columns.items()
    }
    frame = pl.DataFrame({"ts": pl.Series(ts).cast(pl.Datetime("ns", "UTC")), **arrays})
    return events_of(Table("events", frame, kind="trades"))


def minutes(bars: Bars) -> list[float]:
    """Return the closes in minutes after 10:00 UTC."""
    return ((bars.ts - T0) / MINUTE).tolist()


def test_a_bar_of_time_holds_its_start_and_not_its_end_and_empty_ones_make_no_bar() -> None:
    bars = bars_from_events(
        events([0, 59.999999999, 60, 61, 180], price=[10, 12, 11, 9, 5], size=[1, 2, 3, 4, 5]), "1min"
    )
    assert minutes(bars) == [1, 2, 4]
    assert bars.open.tolist() == [10, 11, 5]
    assert bars.high.tolist() == [12, 11, 5]
    assert bars.low.tolist() == [10, 9, 5]
    assert bars.close.tolist() == [12, 9, 5]
    assert bars.volume is not None and bars.volume.tolist() == [3, 7, 5]


def test_bars_of_trades_volume_and_money_end_with_the_trade_that_completes_them() -> None:
    trades = events([1, 2, 3, 4, 5], price=[10, 11, 12, 11, 10], size=[4, 3, 3, 9, 1])
    for size, volumes, closes in (
        ("2t", [7, 12, 1], [11, 11, 10]),
        ("5v", [7, 12, 1], [11, 11, 10]),
        ("70d", [7, 12, 1], [11, 11, 10]),  # 40 + 33, 36 + 99, 10
        ("10v", [10, 10], [12, 10]),
    ):
        bars = bars_from_events(trades, size)
        assert bars.volume is not None and bars.volume.tolist() == volumes
        assert bars.close.tolist() == closes
    assert (bars_from_events(trades, "2t").ts - T0).tolist() == [2 * SECOND, 4 * SECOND, 5 * SECOND]


def test_trades_at_one_time_keep_their_order_and_their_bars_get_increasing_times() -> None:
    bars = bars_from_events(events([1, 1, 1, 1], price=[1, 2, 3, 4], size=[1, 1, 1, 1]), "1t")
    assert bars.close.tolist() == [1, 2, 3, 4]
    assert (bars.ts - T0 - SECOND).tolist() == [0, 1, 2, 3]


def test_a_pause_of_more_than_half_an_hour_ends_a_bar_of_trades_and_a_session() -> None:
    bars = bars_from_events(events([1, 1802, 1803], price=[1, 2, 3], size=[1, 1, 1]), "10t")
    assert bars.close.tolist() == [1, 3]
    assert bars.gap.tolist() == [False, True]


def test_rows_of_size_0_are_no_trades_and_are_counted() -> None:
    bars = bars_from_events(events([1, 2, 61], price=[10, 99, 11], size=[1, 0, 1]), "1min")
    assert bars.high.tolist() == [10, 11]
    assert bars.repairs == ("1 rows of size 0 are no trades and made no bar, first row 1",)


def test_the_side_of_the_aggressor_is_used_where_it_was_recorded() -> None:
    bars = bars_from_events(
        events([1, 2, 3, 4], price=[10, 11, 10, 10], size=[1, 2, 4, 8], side=[1, -1, 0, 1]), "1min"
    )
    extra = bars.extra
    assert (extra["buy_volume"][0], extra["sell_volume"][0], extra["trades"][0]) == (9, 2, 4)
    assert extra["side_inferred"].tolist() == [0]


def test_else_the_tick_rule_gives_the_side_and_a_column_says_so() -> None:
    bars = bars_from_events(
        events([1, 2, 3, 4, 61], price=[10, 10, 11, 11, 10.5], size=[1, 2, 4, 8, 16]), "1min"
    )
    assert bars.extra["buy_volume"].tolist() == [12, 0]
    assert bars.extra["sell_volume"].tolist() == [0, 16]
    assert bars.extra["side_inferred"].tolist() == [1, 1]


BOOK = {
    "bid": [99, 99, 100, 100, 99, 99],
    "ask": [101, 101, 101, 102, 102, 101],
    "bid_size": [5, 8, 3, 3, 7, 7],
    "ask_size": [4, 4, 6, 9, 9, 2],
}


def test_order_flow_imbalance_follows_cont_kukanov_stoikov() -> None:
    # +3 (bid grows), +3 - 2 (better bid, ask grows), +6 (ask lifted), -3 (bid falls), -2 (ask falls)
    steps = [0, 3, 1, 6, -3, -2]
    prices = [np.nan, np.nan, 100, np.nan, np.nan, 101]
    for until in range(3, 7):
        columns = {name: values[:until] for name, values in BOOK.items()}
        sizes = [0, 0, 1, 0, 0, 1][:until]
        bars = bars_from_events(
            events(list(range(until)), price=prices[:until], size=sizes, **columns), "1min"
        )
        assert bars.extra["ofi"].tolist() == [sum(steps[:until])]
        for name, values in columns.items():
            assert bars.extra[name].tolist() == [values[-1]]


def test_order_flow_starts_anew_at_a_snapshot_and_after_a_pause() -> None:
    after = [0, 1, 2, 3, 4, 5]
    reset = [False, True, False, False, False, False]
    assert bars_from_events(events(after, reset=reset, **BOOK), "1min").extra["ofi"].tolist() == [5 - 3]
    pause = [0, 1, 2, 2000, 2001, 2002]
    bars = bars_from_events(events(pause, **BOOK), "1min")
    assert bars.extra["ofi"].tolist() == [4, -5]


def test_a_side_without_orders_counts_as_size_0_at_the_worst_price() -> None:
    nan = np.nan
    quotes = {"bid": [99, nan, 98, 98], "ask": [101] * 4, "bid_size": [5, 0, 4, 4], "ask_size": [3] * 4}
    bars = bars_from_events(events([0, 1, 2, 3], **quotes), "1min")
    assert bars.extra["ofi"].tolist() == [-5 + 4]
    assert bars.repairs == ("1 rows without both a bid and an ask set no mid price",)


def test_quotes_alone_make_bars_of_the_mid_price_without_volume() -> None:
    bars = bars_from_events(events([0, 1, 2, 61, 62, 63], **BOOK), "1min")
    assert bars.volume is None
    assert bars.open.tolist() == [100, 101] and bars.close.tolist() == [100.5, 100]
    assert bars.high.tolist() == [100.5, 101] and bars.low.tolist() == [100, 100]
    assert not {"buy_volume", "trades"} & bars.extra.keys()


def test_the_columns_are_those_that_the_features_read() -> None:
    depths = {"bid_depth": [50] * 6, "ask_depth": [60] * 6}
    bars = bars_from_events(
        events([0, 1, 2, 3, 4, 5], price=[100] * 6, size=[1] * 6, **BOOK, **depths), "1min"
    )
    assert bars.extra.keys() - {"trades"} == RECORDED - {"signal"}


@pytest.mark.parametrize(
    ("made", "size", "words"),
    [
        (
            ([1, 0.5],),
            "1min",
            "row 1, column ts: the time is 0.5 s before the row before; pass repair=('sort',)",
        ),
        (
            ([1, 2], {"size": [1, -1]}),
            "1min",
            "row 1, column size: the value is -1; correct or remove the row",
        ),
        (([1, 2], {"size": [1, np.nan]}), "1min", "row 1, column size: the trade has no size"),
        (([1, 2], {"price": [np.inf, 1]}), "1min", "row 0, column price: the value is inf"),
        (([1, 2], {"size": [0, 0]}), "1min", "events: holds no trade; give a period with trades."),
    ],
)
def test_unusable_rows_are_refused_with_their_place(made: Any, size: str, words: str) -> None:
    after, *changes = made
    columns = {"price": [10, 11], "size": [1, 1]} | (changes[0] if changes else {})
    with pytest.raises(DataError) as caught:
        bars_from_events(events(after, **columns), size)
    assert words in str(caught.value)


@pytest.mark.parametrize("size", ["", "0min", "7min", "5m", "25h", "-1t", "1.5v", "1D", "min", 5])
def test_an_unknown_size_names_those_that_are_known(size: Any) -> None:
    with pytest.raises(ConfigError, match=r"[Bb]ar size"):
        bars_from_events(events([1], price=[1], size=[1]), size)


@pytest.mark.parametrize("size", ["10t", "10v", "10d"])
def test_quotes_alone_make_no_bars_by_trades(size: str) -> None:
    with pytest.raises(ConfigError, match="needs trades with sizes, which events lacks"):
        bars_from_events(events([0, 1, 2, 3, 4, 5], **BOOK), size)


trade_lists = st.lists(
    st.tuples(
        st.sampled_from((0.0, 0.0, 0.25, 1.0, 30.0, 400.0, 4000.0)),
        st.integers(-40, 400),
        st.integers(0, 9),
        st.sampled_from((-1, 0, 1)),
    ),
    min_size=1,
    max_size=60,
).filter(lambda rows: any(size for _, _, size, _ in rows))


def made_of(rows: list[tuple[float, int, int, int]]) -> Events:
    """Return trades from their pauses in seconds, prices in quarters, sizes and sides."""
    pauses, prices, sizes, sides = (list(column) for column in zip(*rows, strict=True))
    after = np.cumsum(pauses).tolist()
    return events(after, price=[price / 4 for price in prices], size=sizes, side=sides)


@given(trade_lists, st.sampled_from(SIZES))
def test_volume_trades_and_prices_are_conserved(rows: list[tuple[float, int, int, int]], size: str) -> None:
    bars = bars_from_events(made_of(rows), size)
    traded = [(price / 4, count, side) for _, price, count, side in rows if count]
    assert bars.volume is not None
    assert bars.volume.sum() == sum(count for _, count, _ in traded)
    assert bars.extra["trades"].sum() == len(traded)
    assert (bars.open[0], bars.close[-1]) == (traded[0][0], traded[-1][0])
    assert (bars.low.min(), bars.high.max()) == (min(traded)[0], max(traded)[0])
    if any(side for *_, side in traded):
        assert bars.extra["buy_volume"].sum() == sum(count for _, count, side in traded if side == 1)
        assert bars.extra["sell_volume"].sum() == sum(count for _, count, side in traded if side == -1)


@given(trade_lists, st.sampled_from(SIZES), st.data())
def test_later_trades_change_no_bar_but_the_last(
    rows: list[tuple[float, int, int, int]], size: str, data: st.DataObject
) -> None:
    whole = bars_from_events(made_of(rows), size)
    first = next(i for i, row in enumerate(rows) if row[2])
    part = bars_from_events(made_of(rows[: data.draw(st.integers(first + 1, len(rows)))]), size)
    same = len(part) - 1
    assert len(part) <= len(whole)
    for name in ("ts", "open", "high", "low", "close", "volume"):
        assert np.array_equal(getattr(part, name)[:same], getattr(whole, name)[:same])


@given(trade_lists, st.sampled_from(("5min", "15min", "30min")))
def test_resampled_minutes_are_the_bars_made_at_once(
    rows: list[tuple[float, int, int, int]], size: str
) -> None:
    made = made_of([(0.0, 1, 1, 1), (60.0, 1, 1, 1), *rows])  # two minutes in a row, to tell the interval
    twice, once = resample(bars_from_events(made, "1min"), size), bars_from_events(made, size)
    for name in ("ts", "open", "high", "low", "close", "volume"):
        assert np.array_equal(getattr(twice, name), getattr(once, name))
    for name in ("buy_volume", "sell_volume", "trades", "side_inferred"):
        assert np.array_equal(twice.extra[name], once.extra[name])


def shared(schema: str) -> pl.DataFrame:
    """Return the columns of a shared file of ESU4, 2024-07-01 23:58 to 24:02, or skip."""
    pytest.importorskip("databento_dbn", reason="reading DBN needs fox-futures[data]")
    from fox_env.reading.dbn import read_dbn

    window = "23-40_2024-07-02T00-10" if schema == "ohlcv-1m" else "23-58_2024-07-02T00-02"
    path = DATA / f"nautilus__futures_{schema}_2024-07-01T{window}.dbn.zst"
    if not path.exists():
        pytest.skip("no shared market data beside the project")
    frame = read_dbn(next(read_contents(path)).data, path.name).frame
    return frame.filter(pl.col("symbol") == "ESU4")


@pytest.mark.parametrize("schema", ["trades", "mbp-1"])
def test_bars_of_recorded_trades_are_the_vendors_own_bars(schema: str) -> None:
    bars = bars_from_events(events_of(Table("f", shared(schema))), "1min")
    expected = shared("ohlcv-1m").filter(pl.col("ts").dt.timestamp("ns").is_in(bars.ts.tolist()))
    assert expected.height == len(bars) == 4
    for name in ("open", "high", "low", "close", "volume"):
        assert getattr(bars, name).tolist() == expected[name].to_list()


def test_order_flow_columns_agree_with_a_direct_computation_in_polars() -> None:
    frame = shared("mbp-1")
    bars = bars_from_events(events_of(Table("f", frame)), "1min")
    b, a, bids, asks = (pl.col(name) for name in ("bid", "ask", "bid_size", "ask_size"))
    step = (
        pl.when(b > b.shift()).then(bids).when(b < b.shift()).then(-bids.shift()).otherwise(bids - bids.shift())
        - pl.when(a < a.shift()).then(asks).when(a > a.shift()).then(-asks.shift()).otherwise(asks - asks.shift())
    )  # fmt: skip
    expected = (
        frame.with_columns(step.fill_null(0.0).alias("ofi"), pl.col("ts").dt.truncate("1m").alias("minute"))
        .group_by("minute", maintain_order=True)
        .agg(
            pl.col("ofi").sum(),
            pl.col("size").filter(pl.col("side") == 1).sum().alias("buy_volume"),
            pl.col("size").filter(pl.col("side") == -1).sum().alias("sell_volume"),
            pl.col("price").is_not_nan().sum().cast(pl.Float64).alias("trades"),
            pl.col("bid", "ask", "bid_size", "ask_size").last(),
        )
    )
    for name in ("ofi", "buy_volume", "sell_volume", "trades", "bid", "ask", "bid_size", "ask_size"):
        assert bars.extra[name].tolist() == expected[name].to_list()
    assert bars.extra["ofi"].any()
