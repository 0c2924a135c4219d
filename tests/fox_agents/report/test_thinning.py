"""Thinned curves keep every extreme and both ends; short ones keep everything."""

import numpy as np
import pytest

from fox_agents.report.thinning import POINTS, kept


@pytest.mark.parametrize("seed", range(5))
def test_extremes_and_ends_survive(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.normal(size=100_003))
    values[rng.integers(100_003)] += 1_000.0  # one bar's spike
    chosen = kept(values)
    assert len(chosen) <= POINTS and (np.diff(chosen) > 0).all()
    assert {0, values.argmax(), values.argmin(), len(values) - 1} <= set(chosen.tolist())


def test_every_stretch_keeps_its_own_extremes() -> None:
    values = np.random.default_rng(0).normal(size=40_000)
    chosen = kept(values, 400)
    for run in np.array_split(np.arange(40_000), 50):  # each two of the buckets
        inside = chosen[(chosen >= run[0]) & (chosen <= run[-1])]
        assert values[inside].max() == values[run].max() and values[inside].min() == values[run].min()


@pytest.mark.parametrize("length", [1, 2, POINTS])
def test_short_curves_keep_every_point(length: int) -> None:
    assert kept(np.zeros(length)).tolist() == list(range(length))
