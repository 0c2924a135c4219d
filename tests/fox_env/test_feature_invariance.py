"""Features neither look ahead nor see the level or scale of prices, the zone of the machine, or a roll."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from feature_cases import COLUMN, SPEC, assert_same_bits, features, random_bars, scaled
from hypothesis import given, settings
from hypothesis import strategies as st

from fox_env import synthetic
from fox_env.bars import Bars
from fox_env.features import RECORDED, evaluate
from fox_env.market_columns import convert

# ---- causality --------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(2, 900),
    session=st.integers(1, 120),
    level=st.sampled_from([5000.0, 0.0, -37.5]),
    volume=st.booleans(),
    calm=st.sampled_from([0, 30, 400]),
    recorded=st.sets(st.sampled_from(sorted(RECORDED))),
    data=st.data(),
)
def test_removing_later_bars_changes_no_bit(
    seed: int,
    length: int,
    session: int,
    level: float,
    volume: bool,
    calm: int,
    recorded: set[str],
    data: Any,
) -> None:
    bars = random_bars(length, seed, session=session, level=level, volume=volume, calm=calm)
    rng = np.random.default_rng(seed)
    columns = {name: rng.normal(size=length) for name in sorted(recorded)}
    bars = replace(bars, extra={n: np.where(rng.random(length) < 0.1, np.nan, x) for n, x in columns.items()})
    table = features(bars)
    assert np.isfinite(table).all() and np.abs(table).max() <= 10.0
    cut = data.draw(st.integers(1, length), label="cut")
    assert_same_bits(features(bars[:cut]), table[:cut])


@pytest.mark.parametrize("name", synthetic.MARKETS)
def test_synthetic_markets_have_finite_features_that_do_not_look_ahead(name: str) -> None:
    market = synthetic.from_name(f"{name}:seed=3,sessions=4")
    assert np.isfinite(market.features).all() and np.abs(market.features).max() <= 10.0
    for cut in (1, 391, 1_100):
        assert_same_bits(features(market.bars[:cut], market.contract), market.features[:cut])


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
