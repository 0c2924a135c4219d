"""Walk-forward training: runs in folds, test windows played once, one joined curve, and going on after a stop."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from fox_agents import fold_training, make, training
from fox_agents.callbacks import Interrupt
from fox_agents.config import FoldConfig, RunConfig, run_config_from_dict
from fox_agents.evaluation import evaluate
from fox_agents.evidence import CostPoint
from fox_agents.fold_training import WalkForwardOutcome, train_folds
from fox_agents.rule_config import MomentumConfig
from fox_agents.training import folds_of, load_best, load_market, load_run, new_run
from fox_env import Market
from fox_env.errors import ConfigError

CONFIG: RunConfig = run_config_from_dict(
    {
        "data": {"synthetic": "regimes:seed=0,sessions=6", "embargo": 20},
        "folds": {"count": 2},
        "env": {"reward": "risk", "horizon": 50},
        "agent": {
            "hidden": 8,
            "atoms": 11,
            "experts": 2,
            "expert_width": 4,
            "batch_size": 8,
            "replay_size": 200,
            "learning_starts": 32,
            "epoch_steps": 80,
        },
        "train": {"num_envs": 8, "total_steps": 160, "validation_envs": 4},
    }
)


def run(directory: Path, **options: Any) -> WalkForwardOutcome:
    if not (directory / "config.toml").exists():
        new_run(directory, CONFIG)
    return train_folds(load_run(directory), directory, backend="cpu", **options)


@pytest.fixture(scope="module")
def market() -> Market:
    return load_market(CONFIG.data)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> WalkForwardOutcome:
    return run(tmp_path_factory.mktemp("folds") / "study")


def test_the_joined_curve_covers_every_test_window(finished: WalkForwardOutcome, market: Market) -> None:
    folds = folds_of(market, CONFIG)
    assert len(finished.folds) == len(folds) == 2
    first, last = folds[0].test[0], folds[-1].test[1]
    for result in finished.results:
        assert len(result.returns) == last - first, result.agent
        assert result.market.bars.ts[1] == market.bars.ts[first]
    names = [result.agent for result in finished.results]
    assert names == ["bdq", "bdq or flat", "flat", "random", "buy_and_hold"]
    returns = np.concatenate([fold.test["bdq"].returns for fold in finished.folds])
    np.testing.assert_array_equal(finished.results[0].returns, returns)


def test_the_selected_curve_is_flat_where_validation_says_so(finished: WalkForwardOutcome) -> None:
    expected = np.concatenate([fold.test[fold.selected].returns for fold in finished.folds])
    np.testing.assert_array_equal(finished.results[1].returns, expected)
    for fold in finished.folds:
        kept = json.loads((fold.directory / "metrics.json").read_text())
        bound = kept["validation"]["bdq"]["mean_return_lower_bound"]
        assert fold.selected == ("bdq" if bound > 0.0 else "flat")


def test_each_fold_learns_and_is_chosen_on_its_own_windows(
    finished: WalkForwardOutcome, market: Market
) -> None:
    for fold in finished.folds:
        config = load_run(fold.directory)
        assert config.folds.number == fold.fold.number
        learned, validation = training.split_market(market, config)
        assert (len(learned), len(validation)) == (
            fold.fold.train[1] - fold.fold.train[0],
            fold.fold.validation[1] - fold.fold.validation[0] + 1,
        )
        best = load_best(fold.directory)
        played = evaluate(best, fold.fold.markets(market).test)
        np.testing.assert_array_equal(played.returns, fold.test["bdq"].returns)


def test_a_rule_plays_with_its_settings_beside_the_agent(tmp_path: Path, market: Market) -> None:
    train = dataclasses.replace(
        CONFIG.train, baselines=("flat", "momentum"), total_steps=80, cost_multiples=()
    )
    settings = MomentumConfig(lookback=5)
    folds = dataclasses.replace(CONFIG.folds, count=1, validation=300)
    config = dataclasses.replace(CONFIG, folds=folds, train=train, momentum=settings)
    new_run(tmp_path / "study", config)
    (fold,) = train_folds(load_run(tmp_path / "study"), tmp_path / "study", backend="cpu").folds
    test = fold.fold.markets(market).test
    expected = evaluate(make("momentum", config=settings), test, CONFIG.env).returns
    np.testing.assert_array_equal(fold.test["momentum"].returns, expected)
    assert not np.array_equal(evaluate(make("momentum"), test, CONFIG.env).returns, expected)


def test_a_second_call_reads_what_is_there_and_plays_nothing(
    finished: WalkForwardOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touched(*_: Any, **__: Any) -> None:
        raise AssertionError("a test window was played a second time")

    monkeypatch.setattr(fold_training, "evaluate", touched)
    monkeypatch.setattr(fold_training, "train", touched)
    again = run(finished.directory)
    for first, second in zip(finished.results, again.results, strict=True):
        np.testing.assert_array_equal(first.returns, second.returns)


def test_a_stop_in_a_fold_saves_and_a_second_call_goes_on(
    tmp_path: Path, finished: WalkForwardOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {"iterations": 0}
    whole = Interrupt.on_iteration

    def stop_in_the_second_fold(self: Interrupt, agent: Any) -> bool:
        seen["iterations"] += 1
        if seen["iterations"] == 30:
            self.requested = True
        return whole(self, agent)

    monkeypatch.setattr(Interrupt, "on_iteration", stop_in_the_second_fold)
    stopped = run(tmp_path / "study")
    assert stopped.interrupted and len(stopped.folds) == 1 and stopped.results == []
    monkeypatch.undo()
    for first, second in zip(finished.results, run(tmp_path / "study").results, strict=True):
        np.testing.assert_array_equal(first.returns, second.returns)


def test_folds_that_do_not_fit_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    too_many = dataclasses.replace(CONFIG, folds=FoldConfig(count=200))
    with pytest.raises(ConfigError, match="use fewer folds"):
        train_folds(too_many, tmp_path / "study", backend="cpu")
    assert not (tmp_path / "study").exists()


def test_the_number_of_a_fold_is_one_of_them() -> None:
    with pytest.raises(ConfigError, match=r"folds\.number"):
        FoldConfig(count=2, number=2)


def test_costs_as_trained_are_one_point_even_if_they_are_asked_for(finished: WalkForwardOutcome) -> None:
    result = finished.results[0]
    points = training.costs_around(result, [CostPoint(m, 0.0, 0.0, 0.0) for m in (2.0, 1.0, 2.0, 0.0)])
    assert [point.multiple for point in points] == [0.0, 1.0, 2.0]
    assert points[1].costs == result.metrics["costs"]
