"""The record of trials survives kills, resumes without doubles, and joins only what can be compared."""

import json
from pathlib import Path

import numpy as np
import pytest

from fox_agents.stats import TrialLog, read_trials
from fox_agents.stats.trials import TRIALS_FILE
from fox_env import metrics
from fox_env.errors import ConfigError


def returns_of(step: int, bars: int = 100) -> np.ndarray:
    return np.random.default_rng(step).standard_normal(bars) * 1e-3


def test_what_is_recorded_is_read(tmp_path: Path) -> None:
    log = TrialLog(tmp_path, "lr=1e-3")
    for step in (100, 200):
        log.record(step, returns_of(step))
    trials = read_trials([tmp_path])
    assert len(trials) == 2 and trials.steps.tolist() == [100, 200]
    assert trials.configurations == ("lr=1e-3", "lr=1e-3")
    assert trials.blocks.shape == (2, 16, 3)
    assert trials.blocks[:, :, 0].sum(axis=1).tolist() == [100.0, 100.0]
    assert set(trials.blocks[0, :, 0]) == {6.0, 7.0}
    first = returns_of(100)[:7]
    assert trials.blocks[0, 0, 1:].tolist() == [first.sum(), (first**2).sum()]
    sharpes = [metrics.summary(returns_of(step), bars_per_year=1.0)["sharpe"] for step in (100, 200)]
    assert trials.sharpes == pytest.approx(sharpes)
    assert trials.sharpe_variance == pytest.approx(np.var(sharpes, ddof=1))


def test_a_resume_purges_what_came_later(tmp_path: Path) -> None:
    log = TrialLog(tmp_path)
    for step in range(10, 160, 10):
        log.record(step, returns_of(step))
    again = TrialLog(tmp_path, step=100)
    for step in range(110, 210, 10):
        again.record(step, returns_of(step))
    assert read_trials([tmp_path]).steps.tolist() == list(range(10, 210, 10))
    assert list(tmp_path.iterdir()) == [tmp_path / TRIALS_FILE]
    TrialLog(tmp_path)
    assert len(read_trials([tmp_path])) == 0


def test_a_step_gone_through_twice_is_one_trial(tmp_path: Path) -> None:
    """The best checkpoint may be later than the last one that a killed run saved."""
    log = TrialLog(tmp_path)
    for step in (10, 20, 30):
        log.record(step, returns_of(step))
    again = TrialLog(tmp_path, step=20)
    for step in (20, 30):
        again.record(step, returns_of(step + 1))
    trials = read_trials([tmp_path])
    assert trials.steps.tolist() == [10, 20, 30]
    sums = [returns_of(step)[:7].sum() for step in (10, 21, 31)]
    assert trials.blocks[:, 0, 1].tolist() == sums


def test_a_kill_in_the_middle_of_a_line_costs_that_line_only(tmp_path: Path) -> None:
    log = TrialLog(tmp_path)
    for step in (1, 2, 3):
        log.record(step, returns_of(step))
    path = tmp_path / TRIALS_FILE
    whole = path.read_text()
    for cut in (1, 2, 40):
        path.write_text(whole[:-cut])
        assert read_trials([tmp_path]).steps.tolist() == [1, 2]
    TrialLog(tmp_path, step=3).record(3, returns_of(3))
    assert path.read_text() == whole


def test_several_runs_are_joined(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        TrialLog(tmp_path / name).record(7, returns_of(7))
    trials = read_trials([tmp_path / "a", tmp_path / "b", tmp_path / "without"])
    assert trials.configurations == ("a", "b") and len(trials) == 2
    assert len(read_trials([])) == 0 and read_trials([]).sharpe_variance == 0.0


def test_runs_of_other_validation_periods_are_not(tmp_path: Path) -> None:
    for name, bars in (("a", 100), ("b", 101)):
        (tmp_path / name).mkdir()
        TrialLog(tmp_path / name).record(7, returns_of(7, bars))
    with pytest.raises(ConfigError, match="101 bars and other trials on 100"):
        read_trials([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize("line", ["no json", "[]", json.dumps({"step": 1, "blocks": [[1, 2, 3]]})])
def test_a_broken_record_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / TRIALS_FILE).write_text(line + "\n")
    with pytest.raises(ConfigError, match=r"trials\.jsonl is no record of trials"):
        read_trials([tmp_path])
