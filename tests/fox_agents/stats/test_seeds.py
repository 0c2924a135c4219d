"""Intervals over seeds cover what they claim, and paired ones see through what both runs of a pair share."""

import math

import numpy as np
import pytest

from fox_agents.stats.seeds import (
    interquartile_mean,
    interval,
    paired_difference,
    paired_ratio,
    paired_spread_ratio,
    probability_of_improvement,
)
from fox_env.errors import ConfigError


def test_an_interval_is_students() -> None:
    assert interval([1.0]) == (None, None)
    assert interval([1.0, 2.0, 3.0]) == pytest.approx((2.0 - 4.303 / 3**0.5, 2.0 + 4.303 / 3**0.5))
    twelve = np.arange(12.0)
    half = 2.201 * twelve.std(ddof=1) / 12**0.5
    assert interval(twelve.tolist()) == pytest.approx((5.5 - half, 5.5 + half), rel=1e-3)


def test_a_paired_difference_sees_through_the_luck_of_the_seed() -> None:
    luck = [0.0, 50.0, -30.0, 80.0]
    found = paired_difference([x + d for x, d in zip(luck, [1.0, 2.0, 1.0, 2.0], strict=True)], luck)
    assert found.value == pytest.approx(1.5)
    assert found.low is not None and found.low == pytest.approx(1.5 - 3.182 * 3**-0.5 / 2)
    assert paired_difference([2.0], [1.0]) == (1.0, None, None)
    with pytest.raises(ValueError, match="zip"):
        paired_difference([1.0], [1.0, 2.0])


def test_a_paired_ratio_is_geometric() -> None:
    found = paired_ratio([2.0, 8.0], [1.0, 1.0])
    assert found.value == pytest.approx(4.0)
    assert found.low is not None and found.high is not None
    assert found.low * found.high == pytest.approx(16.0)
    assert math.log(found.high / 4.0) == pytest.approx(12.706 * math.log(2.0))


def test_the_ratio_of_two_spreads() -> None:
    a, b = [1.0, 2.0, 4.0, 3.5], [0.0, 3.0, 5.0, 1.0]
    found, turned = paired_spread_ratio(a, b), paired_spread_ratio(b, a)
    assert found is not None and turned is not None
    assert found.value == pytest.approx(np.std(a, ddof=1) / np.std(b, ddof=1))
    assert turned.high == pytest.approx(1.0 / found.low)  # type: ignore[operator]
    assert paired_spread_ratio([1.0, 1.0], b[:2]) is None and paired_spread_ratio([1.0], [2.0]) is None
    two = paired_spread_ratio([1.0, 2.0], [1.0, 3.0])
    assert two is not None and two[1:] == (None, None)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_its_interval_covers_the_truth_at_its_level(correlation: float) -> None:
    rng = np.random.default_rng(0)
    hits, trials = 0, 1500
    for _ in range(trials):
        x, e = rng.standard_normal((2, 4))
        y = correlation * x + math.sqrt(1.0 - correlation**2) * e
        found = paired_spread_ratio((3.0 * y).tolist(), x.tolist())
        assert found is not None and found.low is not None and found.high is not None
        hits += found.low < 3.0 < found.high
    assert 0.935 < hits / trials < 0.965


# Four and five runs on three tasks, and what rliable 1.2.0 found: 50,000 and 5,000 resamples, NumPy's seed 0.
OURS = [[0.1, 2.0, 5.0], [0.4, 2.5, 3.0], [0.2, 1.0, 4.0], [0.9, 3.0, 8.0], [0.3, 2.2, 4.4]]
THEIRS = [[0.2, 1.5, 5.0], [0.1, 2.5, 2.0], [0.5, 0.5, 3.5], [0.4, 2.0, 6.0]]


def test_aggregates_and_their_intervals_are_those_of_rliable() -> None:
    found = interquartile_mean(OURS)
    assert found.value == pytest.approx(2.111111, abs=1e-6)
    assert found[1:] == pytest.approx((1.722222, 2.544444), abs=0.03)
    found = interquartile_mean(THEIRS)
    assert found.value == pytest.approx(1.5)
    assert found[1:] == pytest.approx((1.0, 2.166667), abs=0.03)
    found = probability_of_improvement(OURS, THEIRS)
    assert found.value == pytest.approx(0.6)
    assert found[1:] == pytest.approx((0.366667, 0.808333), abs=0.03)


def test_the_interquartile_mean_leaves_out_the_outer_quarters() -> None:
    """A single absurd run moves the mean and not this; tasks are pooled, as the paper has it."""
    scores = np.arange(12.0).reshape(4, 3)
    expected = np.sort(scores.ravel())[3:9].mean()
    assert interquartile_mean(scores).value == pytest.approx(expected)
    scores[3, 2] = 1e9
    assert interquartile_mean(scores).value == pytest.approx(expected)


def test_ties_are_half_an_improvement_and_a_strict_one_is_certain() -> None:
    same = probability_of_improvement(OURS, OURS)
    assert same.value == 0.5
    assert probability_of_improvement(np.add(OURS, 10.0), OURS) == (1.0, 1.0, 1.0)
    assert probability_of_improvement(np.zeros((3, 2)), np.zeros((4, 2))) == (0.5, 0.5, 0.5)


def test_a_single_run_has_no_interval() -> None:
    for found in (interquartile_mean(OURS[:1]), probability_of_improvement(OURS[:1], THEIRS)):
        assert math.isfinite(found.value) and math.isnan(found.low) and math.isnan(found.high)


def test_scores_of_another_shape_are_refused() -> None:
    for scores in (np.zeros(3), np.zeros((0, 3)), [[math.nan]]):
        with pytest.raises(ConfigError, match=r"\(runs, tasks\)"):
            interquartile_mean(scores)
    with pytest.raises(ConfigError, match="3 tasks and the baseline of 2"):
        probability_of_improvement(OURS, np.zeros((4, 2)))
