"""Features: one declared table, causal to the last bit, scale-free, equal to TA-Lib where it is used."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import talib
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.bars import Bars
from fox_env.contracts import ContractSpec, contract
from fox_env.errors import DataError
from fox_env.features import FEATURES, N_FEATURES, RECORDED, WARMUP, Inputs, as_markdown, evaluate
from fox_env.features.calendar import local_seconds_of_week, session_clock, sin_cos_turns
from fox_env.features.timeframes import coarse_bars
from fox_env.features.windows import window_deviation, window_max_suffix, window_slope, window_sum
from fox_env.market import Market
from fox_env.market_columns import convert
from fox_env.readers import read_bars

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
MINUTE = 60_000_000_000
SPEC = ContractSpec("T", tick_size=0.25, multiplier=50.0)
COLUMN = {feature.name: index for index, feature in enumerate(FEATURES)}


def random_bars(
    length: int,
    seed: int = 0,
    *,
    session: int = 100,
    level: float = 5000.0,
    volume: bool = True,
    calm: int = 0,
) -> Bars:
    """On-grid bars in sessions of `session` minutes; `calm` rows at the start do not move at all."""
    rng = np.random.default_rng(seed)
    step = rng.integers(-8, 9, length)
    step[:calm] = 0
    close = level + 0.25 * np.cumsum(step)
    moving = np.arange(length) >= calm
    open_ = np.concatenate(([level], close[:-1])) + 0.25 * rng.integers(-1, 2, length) * moving
    wick = 0.25 * rng.integers(0, 5, (2, length)) * moving
    row = np.arange(length)
    ts = 1_704_205_800_000_000_000 + (row // session) * 86_400_000_000_000 + (row % session) * MINUTE
    return Bars.from_arrays(
        ts,
        open_,
        np.maximum(open_, close) + wick[0],
        np.minimum(open_, close) - wick[1],
        close,
        rng.integers(0, 3000, length) if volume else None,
    )


def features(bars: Bars, spec: str | ContractSpec = SPEC) -> NDArray[np.float32]:
    return Market.from_bars(bars, spec, warmup=0, cache=False).features


def scaled(bars: Bars, factor: float = 1.0, shift: float = 0.0) -> Bars:
    prices = {name: getattr(bars, name) * factor + shift for name in ("open", "high", "low", "close")}
    return replace(bars, **prices)


def assert_same_bits(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
    differs = np.argwhere(a.view(np.uint32) != b.view(np.uint32))
    assert not len(differs), [(int(row), FEATURES[column].name) for row, column in differs[:5]]


# ---- the table --------------------------------------------------------------------------------------------


def test_table_has_the_blocks_of_the_observation() -> None:
    sizes = {
        block: sum(f.block == block for f in FEATURES) for block in ("market", "order_flow", "timeframes")
    }
    assert sizes == {"market": 42, "order_flow": 20, "timeframes": 24}
    assert [f.block for f in FEATURES] == sorted((f.block for f in FEATURES), key=list(sizes).index)
    assert len({f.name for f in FEATURES}) == N_FEATURES == int(_layout.Observation.FEATURES)
    assert COLUMN["adx_14"] == 40 and COLUMN["cusum_regime"] == 41
    assert COLUMN["signal_or_imbalance"] == int(_layout.Observation.ORDER_FLOW)
    assert COLUMN["return_5_bars"] == int(_layout.Observation.TIMEFRAMES)


def test_document_is_generated_from_the_table() -> None:
    assert (ROOT / "docs" / "features.md").read_text(encoding="utf-8") == as_markdown(), (
        "run: python -m fox_env.features > docs/features.md"
    )


def test_market_block_is_ready_by_bar_240_and_not_before_its_own_rows() -> None:
    assert WARMUP == 240
    table = features(random_bars(400, session=390))
    for index, feature in enumerate(FEATURES[:42]):
        assert not table[: feature.ready, index].any(), feature.name
        assert table[feature.ready : feature.ready + 60, index].any(), feature.name


# ---- causality --------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(2, 900),
    session=st.integers(1, 120),
    level=st.sampled_from([5000.0, 0.0, -37.5]),
    volume=st.booleans(),
    calm=st.sampled_from([0, 30, 400]),
    data=st.data(),
)
def test_removing_later_bars_changes_no_bit(
    seed: int, length: int, session: int, level: float, volume: bool, calm: int, data: Any
) -> None:
    bars = random_bars(length, seed, session=session, level=level, volume=volume, calm=calm)
    table = features(bars)
    assert np.isfinite(table).all() and np.abs(table).max() <= 10.0
    cut = data.draw(st.integers(1, length), label="cut")
    assert_same_bits(features(bars[:cut]), table[:cut])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([1e-9, 1.0, 1e11]),
    volume=st.sampled_from([0.0, 5e-324, 1e-300, 1e-8, 1.0, 1e15]),
    record=st.sampled_from([np.nan, np.inf, -1e308, 1e308, 5e-324, 0.0]),
)
def test_extreme_values_stay_finite(seed: int, scale: float, volume: float, record: float) -> None:
    bars = scaled(random_bars(300, seed), scale, -5000.0 * scale)
    rng = np.random.default_rng(seed)
    amounts = np.where(rng.random(300) < 0.5, volume, rng.integers(0, 2, 300))
    names = sorted(RECORDED - {"signal"})
    chosen = {name: np.where(rng.random(300) < 0.5, record, rng.random(300)) for name in names}
    extra = chosen if seed % 2 else {}
    with np.errstate(all="raise", under="ignore"):
        table = features(replace(bars, volume=amounts, extra=extra))
    assert np.isfinite(table).all() and np.abs(table).max() <= 10.0


def test_changing_later_bars_changes_no_bit() -> None:
    bars = random_bars(3000, session=390)
    table = features(bars)
    later = scaled(bars, 1.0)
    for name in ("open", "high", "low", "close"):
        getattr(later, name)[2000:] += 40.0
    changed = features(later)
    assert_same_bits(changed[:2000], table[:2000])
    assert (changed[2000] != table[2000]).any()


def readable_files() -> dict[str, Bars]:
    hints = {"FRD_NQ": {"tz": "America/New_York", "label": "open"}, "HOT": {"tz": "Asia/Shanghai"}}
    found: dict[str, Bars] = {}
    for path in sorted(SHARED.glob("*.gz")):
        hint = next((hint for part, hint in hints.items() if part in path.name), {"tz": "UTC"})
        try:
            found[path.name] = read_bars(path, **hint)
        except DataError:  # ticks, books, several expiries: not bars
            continue
    return found


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared market data are not beside the project")
def test_real_data_give_finite_features_that_do_not_look_ahead() -> None:
    files = readable_files()
    assert len(files) >= 7, sorted(files)
    rng = np.random.default_rng(1)
    for name, bars in files.items():
        spec = ContractSpec("ANY", tick_size=1e-5 if bars.close[0] < 10 else 0.01, multiplier=1.0)
        table = features(bars, spec)
        assert np.isfinite(table).all() and np.abs(table).max() <= 10.0, name
        for cut in rng.integers(2, len(bars), 2):
            assert_same_bits(features(bars[:cut], spec), table[:cut])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared market data are not beside the project")
def test_a_month_of_real_minutes_does_not_look_ahead() -> None:
    bars = read_bars(SHARED / "6EH4_1min_202401.csv.gz", tz="UTC")
    table = features(bars, "6E")
    assert np.isfinite(table).all()
    assert 0.2 < table[WARMUP:, 12].mean() < 3.0  # range / ATR
    for cut in (241, 7_777, 20_001):
        assert_same_bits(features(bars[:cut], "6E"), table[:cut])


# ---- scale and sign of prices -----------------------------------------------------------------------------


def test_scaling_prices_and_tick_together_changes_no_bit() -> None:
    bars = random_bars(1500)
    spec = replace(SPEC, tick_size=0.25 * 4.0)
    assert_same_bits(features(scaled(bars, 4.0), spec), features(bars))


@pytest.mark.parametrize("factor", [8.0, 3.0])
def test_scaling_prices_alone_changes_nothing(factor: float) -> None:
    bars = random_bars(1500)
    np.testing.assert_allclose(features(scaled(bars, factor)), features(bars), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shift", [-5000.0, -9000.0])
def test_the_level_of_prices_does_not_matter(shift: float) -> None:
    bars = random_bars(1500)
    np.testing.assert_allclose(features(scaled(bars, shift=shift)), features(bars), rtol=1e-4, atol=1e-4)


def test_negative_price_gives_finite_returns_of_the_right_sign() -> None:
    close = np.array([10.0, -37.63, 10.01, 0.0])
    open_ = np.array([10.0, 10.0, -37.63, 10.01])
    ts = np.datetime64("2020-04-20T15:00", "ns") + np.arange(4) * np.timedelta64(1, "m")
    bars = Bars.from_arrays(ts, open_, np.maximum(open_, close), np.minimum(open_, close), close, np.ones(4))
    table = features(bars, "CL")
    assert np.isfinite(table).all()
    assert np.sign(table[:, COLUMN["return_1"]]).tolist() == [0.0, -1.0, 1.0, -1.0]


# ---- rolls ------------------------------------------------------------------------------------------------


def rolled(bars: Bars, rows: list[int], gaps: list[float]) -> Bars:
    """The same bars, but traded in new contracts from `rows` on, `gaps` above the contract before."""
    roll_gap = np.zeros(len(bars))
    roll_gap[rows] = gaps
    shift = np.cumsum(roll_gap)
    prices = {name: getattr(bars, name) + shift for name in ("open", "high", "low", "close")}
    extra = {n: column + shift if n in ("bid", "ask") else column for n, column in bars.extra.items()}
    return replace(bars, **prices, roll_gap=roll_gap, extra=extra)


def test_a_roll_is_seen_by_no_feature_and_no_true_range() -> None:
    bars = random_bars(1500)
    quotes = {"bid": bars.close - 0.25, "ask": bars.close + 0.5}
    sizes = {"bid_size": bars.close % 7, "ask_size": bars.close % 5}
    bars = replace(bars, extra=quotes | sizes)
    (columns, inputs), (plain, _) = (
        convert(b, SPEC) for b in (rolled(bars, [0, 300, 700, 1499], [3.0, 61.25, -17.5, 100.0]), bars)
    )
    assert_same_bits(evaluate(inputs), features(bars))
    np.testing.assert_array_equal(columns.atr, plain.atr)
    assert columns.close[-1] == plain.close[-1] + 4 * (3.0 + 61.25 - 17.5 + 100.0)  # as it was traded
    assert columns.roll_gap[[299, 300, 301, 700]].tolist() == [0.0, 245.0, 0.0, -70.0]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), gap=st.floats(-500.0, 500.0), at=st.integers(0, 599), data=st.data())
def test_later_bars_do_not_change_features_of_rolled_bars(seed: int, gap: float, at: int, data: Any) -> None:
    bars = rolled(random_bars(600, seed), [at], [gap])  # the gap is not on the tick grid
    table = evaluate(convert(bars, SPEC)[1])
    cut = data.draw(st.integers(1, 600), label="cut")
    assert_same_bits(evaluate(convert(bars[:cut], SPEC)[1]), table[:cut])


# ---- agreement with the sources ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample() -> tuple[Market, Any]:
    market = Market.from_bars(random_bars(4000, 3, session=390), SPEC, cache=False)
    return market, market.columns


def hlc(c: Any) -> tuple[Any, Any, Any]:
    return c.high, c.low, c.close


def moves(c: Any) -> NDArray[np.float64]:
    return np.diff(c.close, prepend=c.close[0])


def column(market: Market, name: str) -> NDArray[np.float32]:
    return market.features[WARMUP:, COLUMN[name]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("adx_14", lambda c: talib.ADX(c.high, c.low, c.close, 14) / 100),
        ("rsi_14", lambda c: talib.RSI(c.close, 14) / 50 - 1),
        ("cci_20", lambda c: talib.CCI(c.high, c.low, c.close, 20) / 100),
        ("aroon_25", lambda c: talib.AROONOSC(c.high, c.low, 25) / 100),
        ("stochastic_14", lambda c: talib.STOCHF(c.high, c.low, c.close, 14, 1)[0] / 50 - 1),
        ("ema_distance_30", lambda c: (c.close - talib.EMA(c.close, 30)) / c.atr / np.sqrt(30)),
        ("macd_histogram", lambda c: talib.MACD(c.close)[2] / c.atr),
        ("slope_20", lambda c: talib.LINEARREG_SLOPE(c.close, 20) / c.atr * np.sqrt(20)),
        ("directional_14", lambda c: (talib.PLUS_DI(*hlc(c)) - talib.MINUS_DI(*hlc(c))) / 100),
        ("obv_slope_20", lambda c: talib.LINEARREG_SLOPE(talib.OBV(c.close, c.volume), 20) / c.mean_volume),
        ("volume_score_120", lambda c: (c.volume - talib.SMA(c.volume, 120)) / talib.STDDEV(c.volume, 120)),
        ("realised_20", lambda c: np.sqrt(talib.SMA(np.square(moves(c)), 20)) / c.atr),
        ("efficiency_20", lambda c: talib.MOM(c.close, 20) / talib.SUM(np.abs(moves(c)), 20)),
    ],
)  # fmt: skip
def test_agrees_with_talib(sample: tuple[Market, Any], name: str, expected: Any) -> None:
    market, columns = sample
    np.testing.assert_allclose(column(market, name), expected(columns)[WARMUP:], rtol=1e-5, atol=1e-6)


def test_parkinson_of_a_constant_range() -> None:
    bars = scaled(random_bars(300), 0.0, 100.0)
    bars = replace(bars, high=bars.close + 1.0, low=bars.close - 1.0)
    expected = 8.0 / math.sqrt(4.0 * math.log(2.0)) / 8.0
    assert features(bars)[250, COLUMN["parkinson_20"]] == pytest.approx(expected, rel=1e-6)


def test_prices_that_stand_still_are_neutral() -> None:
    bars = scaled(random_bars(600, volume=False), 0.0, 100.0)
    table = features(bars)
    clock = [COLUMN[n] for n in ("day_sin", "day_cos", "week_sin", "week_cos", "minutes_to_session_end")]
    ratios = {COLUMN["realised_ratio_5_60"]: -1.0, COLUMN["realised_ratio_20_120"]: -1.0}
    for index in range(42):
        if index not in clock and index != COLUMN["range_ratio_14_240"]:
            assert table[-1, index] == ratios.get(index, 0.0), FEATURES[index].name


def test_recorded_order_flow_replaces_the_proxies() -> None:
    bars = random_bars(200)
    buys, sells = np.full(200, 30.0), np.full(200, 10.0)
    buys[150] = np.nan
    extra = {"buy_volume": buys, "sell_volume": sells, "bid": bars.close - 0.25, "ask": bars.close + 0.25}
    extra |= {"bid_size": np.full(200, 3.0), "ask_size": np.full(200, 1.0)}
    market = Market.from_bars(replace(bars, extra=extra), SPEC, warmup=0, cache=False)
    table, atr = market.features, market.columns.atr
    assert table[140, COLUMN["imbalance_20"]] == pytest.approx(0.5)
    assert table[190, COLUMN["order_flow_source"]] == 0.625
    assert table[190, COLUMN["spread"]] == pytest.approx(2.0 / atr[190])
    assert table[190, COLUMN["book_imbalance"]] == pytest.approx(0.5)
    assert table[190, COLUMN["microprice"]] == pytest.approx(0.5 / atr[190])
    assert np.isfinite(table).all()


def test_order_flow_source_and_signal() -> None:
    bars = random_bars(100)
    planted = np.random.default_rng(0).normal(size=100)
    table = features(replace(bars, extra={"signal": planted}))
    np.testing.assert_array_equal(table[:, 42], planted.astype(np.float32))
    assert table[0, COLUMN["order_flow_source"]] == 1.0
    assert features(bars)[0, COLUMN["order_flow_source"]] == 0.25
    without = features(random_bars(100, volume=False))
    assert without[0, COLUMN["order_flow_source"]] == 0.0
    assert not without[:, COLUMN["imbalance_5"]].any()


# ---- clock and sessions -----------------------------------------------------------------------------------


def test_sine_and_cosine_need_no_library() -> None:
    turns = np.linspace(0.0, 1.0, 10_001)
    sine, cosine = sin_cos_turns(turns)
    np.testing.assert_allclose(sine, np.sin(2 * np.pi * turns), atol=1e-14)
    np.testing.assert_allclose(cosine, np.cos(2 * np.pi * turns), atol=1e-14)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_time_features_do_not_depend_on_the_unit_of_the_stamps(unit: str) -> None:
    ts = np.array(["2024-05-09T10:00", "2024-05-09T10:01"], dtype=f"datetime64[{unit}]")
    one = np.ones(2)
    table = features(Bars.from_arrays(ts, one, one, one, one, one), replace(SPEC, timezone="UTC"))
    for row, minute in enumerate((600, 601)):
        assert table[row, COLUMN["day_sin"]] == pytest.approx(math.sin(2 * math.pi * minute / 1440), abs=1e-6)
        week = (3 * 1440 + minute) / (7 * 1440)  # a Thursday
        assert table[row, COLUMN["week_cos"]] == pytest.approx(math.cos(2 * math.pi * week), abs=1e-6)


def test_clock_follows_daylight_saving_of_the_exchange() -> None:
    stamps = np.array(["2024-03-08T14:30", "2024-03-11T13:30"], dtype="datetime64[ns]").astype(np.int64)
    seconds = local_seconds_of_week(stamps, "America/New_York") % 86_400
    assert seconds.tolist() == [9.5 * 3600] * 2


def test_session_progress_uses_completed_sessions_only() -> None:
    lengths = (61, 61, 31, 61)  # bars; the third closes early
    days = [
        np.int64(1_704_205_800_000_000_000) + d * 86_400_000_000_000 + np.arange(n) * MINUTE
        for d, n in enumerate(lengths)
    ]
    ts = np.concatenate(days)
    starts = np.zeros(len(ts), dtype=bool)
    first = np.cumsum((0, *lengths))[:-1]
    starts[first] = True
    clock = session_clock(ts, starts, "America/Chicago")
    assert clock.progress[first].tolist() == [0.0] * 4
    assert clock.progress[60] == 60 / 1440  # nothing is known in the first session
    assert clock.progress[first[1] + 30] == 0.5 and clock.progress[first[1] + 60] == 1.0
    assert clock.progress[first[2] + 30] == 0.5  # the early close is not known in advance
    assert clock.progress[first[3] + 30] == 0.5  # nor does it shorten the next session
    assert clock.minutes_left[first[3] + 20] == 40.0


def test_coarse_bars_count_only_when_complete() -> None:
    market = Market.from_bars(random_bars(250, session=100), SPEC, warmup=0, cache=False)
    c = market.columns
    series = (c.open, c.high, c.low, c.close, c.volume, c.atr, c.mean_volume)
    inputs = Inputs(market.bars.ts, market.bars.session_start, "UTC", *series, extra={})
    coarse = coarse_bars(inputs, 15)
    # 100 bars are six coarse bars of 15 and one of 10, which is complete when the next session opens.
    assert coarse.last[[13, 14, 15, 28, 29]].tolist() == [-1, 0, 0, 0, 1]
    assert coarse.last[[89, 98, 99, 100, 114]].tolist() == [5, 5, 5, 6, 7]
    assert coarse.high[1] == c.high[15:30].max() and coarse.low[6] == c.low[90:100].min()
    assert coarse.close[6] == c.close[99]
    session = coarse_bars(inputs, 0)
    assert session.last[[0, 99, 100, 199, 200, 249]].tolist() == [-1, -1, 0, 0, 1, 1]


def test_timeframe_features_match_the_indicator_on_coarse_bars() -> None:
    market = Market.from_bars(random_bars(1950, session=390), SPEC, warmup=0, cache=False)
    closes = market.columns.close.reshape(-1, 15)[:, -1]  # 390 is 26 x 15
    expected = talib.RSI(closes, 14) / 50 - 1
    got = market.features[14::15, COLUMN["rsi_15_bars"]]
    assert not got[:14].any() and not market.features[: 15 * 15 - 1, COLUMN["valid_15_bars"]].any()
    np.testing.assert_allclose(got[14:], expected[14:], rtol=1e-5, atol=1e-6)
    assert market.features[15 * 15 - 1 :, COLUMN["valid_15_bars"]].all()


# ---- windows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 7, 20, 64, 240])
def test_window_sum_is_exact_on_integers(window: int) -> None:
    x = np.random.default_rng(window).integers(-99, 99, 500).astype(np.float64)
    expected = [x[max(0, t + 1 - window) : t + 1].sum() for t in range(500)]
    np.testing.assert_array_equal(window_sum(x, window), expected)


def test_window_deviation_and_slope() -> None:
    x = np.random.default_rng(0).normal(100.0, 2.0, 400)
    deviation, slope = window_deviation(x, 30), window_slope(x, 30)
    total = np.cumsum(x)
    for t in (29, 100, 399):
        rows = slice(t - 29, t + 1)
        assert deviation[t] == pytest.approx(x[rows].std(), rel=1e-9)
        if t > 29:
            assert slope[t] == pytest.approx(np.polyfit(np.arange(30.0), total[rows], 1)[0], rel=1e-9)
    assert window_deviation(np.full(50, 1e9 / 3), 30)[-1] == 0.0


def test_window_max_suffix_is_page_cusum() -> None:
    x = np.random.default_rng(2).normal(-0.3, 1.0, 300)
    cusum, page = window_max_suffix(x, 128), 0.0
    for t, step in enumerate(x):
        page = max(0.0, page + step)  # excursions of this sample are shorter than the window
        assert cusum[t] == pytest.approx(page, abs=1e-12)


def test_contract_zone_is_the_clock() -> None:
    bars = random_bars(50)
    chicago, shanghai = (
        features(bars, contract("ES")),
        features(bars, replace(contract("ES"), timezone="Asia/Shanghai")),
    )
    assert (chicago[:, COLUMN["day_sin"]] != shanghai[:, COLUMN["day_sin"]]).all()
    np.testing.assert_array_equal(chicago[:, :35], shanghai[:, :35])


def test_evaluate_returns_a_read_only_table() -> None:
    table = features(random_bars(10))
    assert table.dtype == np.float32 and table.shape == (10, 86) and table.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 1.0
