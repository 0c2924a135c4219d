"""Features of every real file that loads: finite, causal to the bit, free of scale, equal to TA-Lib."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import talib
from feature_cases import BY_TALIB, COLUMN, SHARED, assert_same_bits, scaled
from hypothesis import given, settings
from hypothesis import strategies as st

from fox_env.bars import Bars
from fox_env.contracts import ContractSpec
from fox_env.errors import DataError
from fox_env.features import WARMUP
from fox_env.market import Market
from fox_env.readers import read_bars

pytestmark = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the shared market data are not beside the project"
)

HINTS: dict[str, dict[str, Any]] = {
    "BT": {"tz": "Europe/Berlin"},
    "FRD_NQ": {"tz": "America/New_York", "label": "open"},
    "HOT": {"tz": "Asia/Shanghai"},
    "LEAN": {"symbol": "201312"},
    "orderflow": {"tz": "UTC", "bars": "5t", "repair": ["sort"]},
    "lean_raw_zip": {"tz": "America/New_York", "symbol": "ES_201312"},
    **{kind: {"bars": "1s"} for kind in ("mbp", "tbbo", "trades")},
    "LOBSTER": {"tz": "America/New_York", "bars": "50t", "price_scale": 1e-4},
    "2024-05-09": {"symbol": "ESM4"},
    "ohlcv-1m_2024-07-01": {"symbol": "ESU4"},
}
TICKS = {"HOT": 1.0, "6E": 5e-5, "gbpusd": 1e-5, "CFFEX": 0.2, "FESX": 1.0} | dict.fromkeys(
    ("FRD_NQ", "LEAN_ES_minute_trade", "lean_raw_zip", "orderflow", "nautilus__futures"), 0.25
)
MOST_ROWS = 60_000
FILES = sorted(path.name for path in SHARED.glob("*.gz"))
SAMPLES = sorted(f"{path.parent.name}/{path.name}" for path in SHARED.glob("*/*"))
"""Vendors' samples of a few records each, and files of one day."""


def chosen(table: dict[str, Any], name: str, default: Any) -> Any:
    """The last entry of `table` whose key is a part of `name`."""
    return next((value for key, value in reversed(table.items()) if key in name), default)


@cache
def load(name: str) -> tuple[Bars, ContractSpec, Market]:
    """Bars of a file, its contract and market; a file that is refused skips the test with the reason."""
    try:
        bars = read_bars(SHARED / name, **chosen(HINTS, name, {} if "dbn" in name else {"tz": "UTC"}))
    except DataError as error:
        pytest.skip(f"not bars: {error}")
    bars = bars[:MOST_ROWS]
    spec = ContractSpec("ANY", tick_size=chosen(TICKS, name, 0.01), multiplier=1.0)
    return bars, spec, Market.from_bars(bars, spec, warmup=0, cache=False)


def features(bars: Bars, spec: ContractSpec) -> Any:
    return Market.from_bars(bars, spec, warmup=0, cache=False).features


@pytest.mark.parametrize("name", FILES)
def test_values_are_finite_and_within_their_limits(name: str) -> None:
    table = load(name)[2].features
    assert np.isfinite(table).all() and np.abs(table).max() <= 10.0
    if len(table) > 1_000:
        assert 0.2 < table[WARMUP:, COLUMN["range"]].mean() < 3.0  # range / ATR
        assert table[WARMUP:, :42].any(axis=0).sum() >= 36  # five need a volume, one a gap between bars


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=2, deadline=None)
@given(share=st.floats(0.0, 1.0))
def test_later_bars_change_no_bit(name: str, share: float) -> None:
    bars, spec, market = load(name)
    cut = 1 + round(share * (len(bars) - 1))
    assert_same_bits(features(bars[:cut], spec), market.features[:cut])


@pytest.mark.parametrize("name", FILES)
def test_scaling_prices_and_tick_together_changes_no_bit(name: str) -> None:
    bars, spec, market = load(name)
    quotes = {n: 8.0 * column if n in ("bid", "ask") else column for n, column in bars.extra.items()}
    larger = replace(scaled(bars, 8.0), extra=quotes)
    assert_same_bits(features(larger, replace(spec, tick_size=8.0 * spec.tick_size)), market.features)


@pytest.mark.parametrize("name", FILES)
def test_indicators_agree_with_talib(name: str) -> None:
    bars, _, market = load(name)
    if len(bars) <= WARMUP + 1:
        pytest.skip(f"{len(bars)} bars are too few")
    moving = (talib.MAX(market.columns.high, 14) > talib.MIN(market.columns.low, 14))[WARMUP:]
    for feature, formula in BY_TALIB.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = formula(market.columns)[WARMUP:]
        found = market.features[WARMUP:, COLUMN[feature]]
        known = np.isfinite(expected) & moving  # TA-Lib has other values where prices or volume stand still
        np.testing.assert_allclose(
            found[known], np.clip(expected[known], -10.0, 10.0), rtol=1e-4, atol=1e-4, err_msg=feature
        )


def test_samples_of_vendors_give_finite_features_that_do_not_look_ahead() -> None:
    for name in SAMPLES:
        try:
            bars, spec, market = load(name)
        except pytest.skip.Exception:  # no bars in it
            continue
        assert np.isfinite(market.features).all(), name
        for cut in {1, len(bars) // 2 + 1}:
            assert_same_bits(features(bars[:cut], spec), market.features[:cut])


def test_most_of_the_files_are_bars() -> None:
    loaded = []
    for name in FILES:
        with contextlib.suppress(pytest.skip.Exception):
            loaded.append(len(load(name)[0]))
    assert len(loaded) >= 16 and sum(loaded) > 400_000, f"only {len(loaded)} of {len(FILES)} files load"
