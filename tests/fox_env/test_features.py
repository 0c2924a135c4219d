"""Features: one declared table, causal to the last bit, scale-free, equal to TA-Lib where it is used."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import talib
from feature_cases import BY_TALIB, COLUMN, MINUTE, ROOT, SPEC, features, random_bars, scaled

from fox_env import _layout
from fox_env.bars import Bars
from fox_env.contracts import contract
from fox_env.features import FEATURES, N_FEATURES, WARMUP, Inputs, as_markdown
from fox_env.features.calendar import local_seconds_of_week, session_clock, sin_cos_turns
from fox_env.features.timeframes import coarse_bars
from fox_env.features.windows import window_deviation, window_max_suffix, window_slope, window_sum
from fox_env.market import Market

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


# ---- agreement with the sources ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample() -> Market:
    return Market.from_bars(random_bars(4000, 3, session=390), SPEC, cache=False)


@pytest.mark.parametrize("name", BY_TALIB)
def test_agrees_with_talib(sample: Market, name: str) -> None:
    found, expected = sample.features[:, COLUMN[name]], BY_TALIB[name](sample.columns)
    np.testing.assert_allclose(found[WARMUP:], expected[WARMUP:], rtol=1e-5, atol=1e-6)


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
