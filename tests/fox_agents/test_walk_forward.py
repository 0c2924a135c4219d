"""Walk-forward windows: where folds begin and end, what they may see, and what is refused."""

import logging
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fox_agents import walk_forward
from fox_agents.stats.bootstrap import LEAST_BARS, bootstrap_intervals
from fox_agents.walk_forward import Fold, WalkForward, periods
from fox_env import synthetic
from fox_env.errors import ConfigError

MARKET = synthetic.regimes(seed=0, sessions=12)


def test_the_embargo_is_taken_from_the_training_side() -> None:
    """20 bars, 12 to train, 4 to test, 3 purged: known answers."""
    first, second = WalkForward(2, train=12, validation=0, test=4, embargo=3).split(20)
    assert (first.train, first.test) == ((0, 9), (12, 16))
    assert (second.train, second.test) == ((4, 13), (16, 20))


def test_validation_lies_between_with_an_embargo_on_both_sides() -> None:
    (fold,) = WalkForward(1, train=10, validation=6, test=4, embargo=2).split(20)
    assert fold == Fold(0, (0, 8), (10, 14), (16, 20))


def test_by_default_the_later_half_is_tested_and_all_before_it_learned_from() -> None:
    folds = WalkForward(4).split(1_000)
    assert [fold.test for fold in folds] == [(500, 625), (625, 750), (750, 875), (875, 1_000)]
    assert [fold.validation for fold in folds] == [(375, 500), (500, 625), (625, 750), (750, 875)]
    assert [fold.train for fold in folds] == [(0, 375), (125, 500), (250, 625), (375, 750)]


def test_anchored_folds_begin_where_the_first_one_does() -> None:
    folds = WalkForward(3, train=100, validation=50, test=50, anchored=True).split(400)
    assert [fold.train for fold in folds] == [(100, 200), (100, 250), (100, 300)]


@given(
    folds=st.integers(1, 6),
    sizes=st.tuples(*[st.integers(8, 40)] * 3),
    embargo=st.integers(0, 6),
    spare=st.integers(0, 50),
    anchored=st.booleans(),
)
def test_windows_are_apart_contiguous_and_full(
    folds: int, sizes: tuple[int, int, int], embargo: int, spare: int, anchored: bool
) -> None:
    train, validation, test = sizes
    bars = train + validation + folds * test + spare
    found = WalkForward(folds, train, validation, test, embargo, anchored).split(bars)
    assert len(found) == folds and found[-1].test[1] == bars
    assert all(a.test[1] == b.test[0] for a, b in pairwise(found))
    for fold in found:
        assert fold.test[1] - fold.test[0] == test
        assert fold.validation[1] == fold.test[0] - embargo
        assert fold.train[1] == fold.validation[0] - embargo
        assert fold.validation[1] - fold.validation[0] == validation - embargo
        if not anchored:
            assert fold.train[1] - fold.train[0] == train - embargo


def test_every_bar_of_a_test_window_is_earned_in_it() -> None:
    fold = WalkForward(2, train=1_000, validation=500, test=300, embargo=60).split(MARKET)[1]
    training, validation, test = fold.markets(MARKET)
    assert len(training) == 940
    for part, rows in ((validation, fold.validation), (test, fold.test)):
        steps = len(part) - 1 - part.first_ready
        assert steps == rows[1] - rows[0]
        np.testing.assert_array_equal(part.bars.ts[1:], MARKET.bars.ts[slice(*rows)])
    assert training.bars.ts[-1] < validation.bars.ts[0] < test.bars.ts[0]


def test_a_fold_without_a_validation_window_has_no_market_for_it() -> None:
    fold = WalkForward(2, train=1_000, validation=0, test=300, embargo=60).split(MARKET)[0]
    training, validation, test = fold.markets(MARKET)
    assert (len(training), validation, len(test)) == (940, None, 301)


def test_windows_in_time_have_that_length() -> None:
    day = timedelta(days=1)
    for fold in WalkForward(2, train=5 * day, validation=2 * day, test=2 * day).split(MARKET):
        times = MARKET.bars.ts
        begin, end = times[fold.test[0]], times[fold.test[1] - 1]
        assert end - begin <= 2 * 86_400 * 10**9
        assert fold.train[0] < fold.train[1] == fold.validation[0] < fold.validation[1] == fold.test[0]


@pytest.mark.parametrize(
    ("options", "bars", "message"),
    [
        ({"folds": 0}, 100, "folds must be a whole number from 1"),
        ({"folds": 2, "embargo": -1}, 100, "embargo must be"),
        ({"folds": 2, "test": 0}, 100, "test must be"),
        ({"folds": 2, "train": timedelta(0)}, 100, "train must be"),
        (
            {"folds": 3, "train": 50, "validation": 20, "test": 20},
            100,
            "reach back beyond the first of 100 bars",
        ),
        ({"folds": 2, "embargo": 30}, 100, r"fold 0 would have 0 bars to \w+ after an embargo of 30"),
        ({"folds": 2, "test": timedelta(days=1)}, 100, "needs a market"),
    ],
)
def test_what_cannot_be_cut_is_refused(options: dict[str, Any], bars: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WalkForward(**options).split(bars)


def test_a_study_in_time_that_is_too_long_is_refused() -> None:
    with pytest.raises(ConfigError, match="reach back beyond the first"):
        WalkForward(2, train=timedelta(days=300), test=timedelta(days=2)).split(MARKET)


def test_test_windows_that_are_too_short_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """The shortest of them is named; known answers: 29 bars, and the later 50 of 100 cut into 17, 16, 17."""
    walk_forward._warn.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            WalkForward(2, train=60, test=29).split(1_003)
            WalkForward(3).split(100)
    assert [record.name for record in caplog.records] == ["fox_agents.walk_forward"] * 2
    first, second = (record.getMessage() for record in caplog.records)
    assert "test window of fold 0 has 29 bars" in first and "fewer than 30" in first
    assert "use fewer folds, larger test windows or more bars" in first
    assert "test window of fold 1 has 16 bars" in second


def test_no_test_window_that_has_an_interval_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    returns = np.random.default_rng(0).normal(size=LEAST_BARS)
    assert np.isfinite(bootstrap_intervals(returns, 252.0)["sharpe"].low)
    assert np.isnan(bootstrap_intervals(returns[1:], 252.0)["sharpe"].low)
    with caplog.at_level(logging.WARNING):
        WalkForward(2, train=60, test=LEAST_BARS).split(1_005)
    assert caplog.text == ""


def test_periods_are_named_by_their_days() -> None:
    assert periods(MARKET.bars.ts, [(0, 1), (5, 5)])[0].count("2020-01-06") == 2
    assert periods(MARKET.bars.ts, [(5, 5)]) == ["-"]
