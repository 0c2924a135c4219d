"""Evidence puts the statistics together, and says None where a number cannot be known."""

from pathlib import Path

import numpy as np
import pytest

import fox_agents
from fox_agents import EvaluationResult, evaluate
from fox_agents.evidence import CostPoint
from fox_agents.rules import BuyAndHold, Flat
from fox_agents.stats import TrialLog, bootstrap, evidence, read_trials
from fox_agents.stats.sharpe import moments, probabilistic_sharpe
from fox_env import Market, synthetic


@pytest.fixture(scope="module")
def market() -> Market:
    return synthetic.momentum(seed=1, sessions=3)


@pytest.fixture(scope="module")
def held(market: Market) -> EvaluationResult:
    return evaluate(BuyAndHold(), market)


def test_the_values_are_those_of_the_result(held: EvaluationResult) -> None:
    point = CostPoint(2.0, 0.1, 1.0, 50.0)
    found = evidence(held, costs=[point], seed=3)
    assert found.agent == "buy_and_hold" and found.costs == (point,)
    assert set(found.intervals) == set(bootstrap.FIGURES)
    for name in ("sharpe", "total_return", "max_drawdown"):
        interval = found.intervals[name]
        assert interval.value == held.metrics[name] and interval.low < interval.high
    known = moments(held.returns)
    assert known is not None and found.probabilistic_sharpe == probabilistic_sharpe(known)
    assert found == evidence(held, costs=[point], seed=3)


def test_nothing_is_said_of_a_choice_that_is_not_known(held: EvaluationResult, tmp_path: Path) -> None:
    for trials in (None, read_trials([tmp_path])):
        found = evidence(held, trials=trials)
        assert found.deflated_sharpe is None and found.overfitting is None and found.trials == 1


def test_more_trials_deflate_more(held: EvaluationResult, tmp_path: Path) -> None:
    log, rng = TrialLog(tmp_path), np.random.default_rng(0)
    log.record(0, held.returns)
    one = evidence(held, trials=read_trials([tmp_path]))
    assert one.deflated_sharpe == one.probabilistic_sharpe and one.overfitting is None
    for step in range(1, 30):
        log.record(step, rng.permutation(held.returns) * rng.choice([-1.0, 1.0], len(held.returns)))
    many = evidence(held, trials=read_trials([tmp_path]))
    assert many.trials == 30 and many.overfitting is not None
    assert many.deflated_sharpe is not None and one.deflated_sharpe is not None
    assert many.deflated_sharpe < one.deflated_sharpe


def test_never_trading_is_certain_and_has_no_sharpe_ratio_to_doubt(market: Market) -> None:
    found = evidence(evaluate(Flat(), market))
    assert set(found.intervals.values()) == {(0.0, 0.0, 0.0)}
    assert found.probabilistic_sharpe is None and found.least_track_record is None
    assert found.break_even is None


def test_a_loser_has_no_track_record_that_would_do(market: Market) -> None:
    losing = evaluate(fox_agents.make("random", config={"seed": 0}), market)
    assert losing.metrics["sharpe"] < 0.0
    found = evidence(losing)
    assert found.least_track_record is None
    assert found.probabilistic_sharpe is not None and found.probabilistic_sharpe < 0.1
