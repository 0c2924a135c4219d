"""Intervals over seeds cover what they claim, and paired ones see through what both runs of a pair share."""

import math

import numpy as np
import pytest

from fox_agents.stats.seeds import interval, paired_difference, paired_ratio, paired_spread_ratio


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
