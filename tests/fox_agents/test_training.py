"""A training run end to end: files, curves, resume without doubled steps, model selection, interruption."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

from fox_agents import callbacks, training  # noqa: E402
from fox_agents.api import Agent  # noqa: E402
from fox_agents.checkpoint import CheckpointError, CheckpointStore  # noqa: E402
from fox_agents.config import DataConfig, RunConfig, run_config_from_dict  # noqa: E402
from fox_agents.evaluation import evaluate  # noqa: E402
from fox_agents.lock import run_lock  # noqa: E402
from fox_agents.run_log import RunLog  # noqa: E402
from fox_agents.stats import read_trials  # noqa: E402
from fox_agents.training import load_best, load_market, load_run, new_run, split_market, train  # noqa: E402
from fox_env.errors import ConfigError  # noqa: E402


def config(total: int = 640) -> RunConfig:
    return run_config_from_dict(
        {
            "data": {"synthetic": "regimes:seed=0,sessions=4", "embargo": 20},
            "env": {"reward": "risk", "horizon": 50, "exploration_scale": 1.0},
            "agent": {
                "hidden": 16,
                "atoms": 11,
                "experts": 2,
                "expert_width": 8,
                "batch_size": 16,
                "replay_size": 400,
                "learning_starts": 64,
                "epoch_steps": 160,
                "schedule_steps": 400,
            },
            "train": {"num_envs": 8, "total_steps": total, "validation_envs": 4, "checkpoint_seconds": 0.0},
        }
    )


def run(directory: Path, settings: RunConfig | None = None, **options: Any) -> training.Outcome:
    settings = settings or config()
    if not options.get("resume"):
        new_run(directory, settings)
    return train(settings, directory, backend="cpu", **options)


def curves(directory: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(directory / "tb"), size_guidance={"scalars": 0}).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def parameters(directory: Path) -> bytes:
    last = CheckpointStore(directory / "checkpoints").find("last")
    assert last is not None
    return (last / "learner.safetensors").read_bytes()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, training.Outcome]:
    directory = tmp_path_factory.mktemp("runs") / "whole"
    return directory, run(directory)


def test_a_run_directory_holds_what_it_should(finished: tuple[Path, training.Outcome]) -> None:
    directory, outcome = finished
    names = {path.name for path in directory.iterdir()}
    assert names == {
        "config.toml",
        "checkpoints",
        "tb",
        "health.jsonl",
        "trials.jsonl",
        "metrics.json",
        "report.html",
    }
    assert load_run(directory) == config()
    written = json.loads((directory / "metrics.json").read_text())
    assert written["selected"] == outcome.selected
    assert list(written["validation"]) == ["bdq", "flat", "random", "buy_and_hold"]
    assert written["validation"]["flat"]["total_return"] == 0.0
    assert written["env_steps"] == 640
    report = (directory / "report.html").read_text()
    assert f"Model selection: {outcome.selected}." in report and "this same validation period" in report
    assert sum(written["validation"]["random"]["executed"]["fill"].values()) == len(
        outcome.results[0].returns
    )


def test_curves_have_one_value_per_step(finished: tuple[Path, training.Outcome]) -> None:
    found = curves(finished[0])
    assert {tag.split("/")[0] for tag in found} == {"train", "val", "perf", "replay", "signals", "final"}
    for tag in ("train/quantile", "train/epsilon", "val/total_return", "perf/env_steps_per_second"):
        assert [step for step, _ in found[tag]] == [160, 320, 480, 640], tag
    assert [step for step, _ in found["final/sharpe"]] == [640]


def test_tensorboard_has_histograms_a_picture_and_the_settings(
    finished: tuple[Path, training.Outcome],
) -> None:
    directory, outcome = finished
    train(
        config(), directory, backend="cpu", resume=True
    )  # asks for the results again, and logs nothing twice
    events = EventAccumulator(str(directory / "tb"), size_guidance={"histograms": 0, "images": 0}).Reload()
    tags = events.Tags()
    steps = [160, 320, 480, 640]
    for tag in ("train/values", "train/value_gaps", "val/actions_direction", "val/actions_urgency"):
        assert [event.step for event in events.Histograms(tag)] == steps, tag
    direction = events.Histograms("val/actions_direction")[-1].histogram_value
    assert direction.num == len(outcome.results[0].returns)
    assert tags["images"] == ["val/equity"] and len(events.Images("val/equity")) == 1
    plugin = events.summary_metadata["_hparams_/session_start_info"].plugin_data
    assert b"agent.hidden" in plugin.content


def test_every_validated_checkpoint_is_a_trial(finished: tuple[Path, training.Outcome]) -> None:
    directory, outcome = finished
    trials = read_trials([directory])
    assert trials.steps.tolist() == [160, 320, 480, 640]
    found = outcome.evidence["bdq"]
    assert found.trials == 4 and outcome.evidence["flat"].trials == 1
    assert [point.multiple for point in found.costs] == [0.0, 1.0, 2.0]
    assert found.costs[0].costs == 0.0
    written = json.loads((directory / "metrics.json").read_text())["evidence"]["bdq"]
    assert written["trials"] == 4
    assert written["intervals"]["sharpe"]["value"] == pytest.approx(outcome.results[0].metrics["sharpe"])


def test_flat_wins_the_selection_unless_the_agent_earns(finished: tuple[Path, training.Outcome]) -> None:
    outcome = finished[1]
    earns = outcome.results[0].metrics["mean_return_lower_bound"] > 0.0
    assert outcome.selected == ("bdq" if earns else "flat")


def test_the_best_agent_can_be_loaded(finished: tuple[Path, training.Outcome]) -> None:
    best = load_best(finished[0])
    assert best.name == "bdq"
    store = CheckpointStore(finished[0] / "checkpoints")
    entry = store.entry("best")
    scores = [
        json.loads(line)["mean_return_lower_bound"]
        for line in (finished[0] / "health.jsonl").read_text().splitlines()
        if json.loads(line)["group"] == "val"
    ]
    assert entry is not None and entry["score"] == max(scores)
    assert best.env_steps == entry["step"]


def test_the_results_are_the_best_checkpoints_on_the_validation_period(
    finished: tuple[Path, training.Outcome],
) -> None:
    """Not the last checkpoint's, and not on the bars that were learned from."""
    directory, outcome = finished
    market = training.load_market(config().data)
    _, validation = training.split_market(market, config())
    assert all(result.market.bars.ts[0] == validation.bars.ts[0] for result in outcome.results)
    assert all(len(result.market) == len(validation) for result in outcome.results)
    again = evaluate(load_best(directory), validation, config().env)
    np.testing.assert_array_equal(outcome.results[0].returns, again.returns)


def test_scores_while_training_are_of_the_validation_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(agent: Any, market: Any, *arguments: Any, **options: Any) -> Any:
        seen.append((market.bars.ts[0], len(market)))
        return evaluate(agent, market, *arguments, **options)

    monkeypatch.setattr(training, "evaluate", spy)
    run(tmp_path / "spied", config(320))
    _, validation = training.split_market(training.load_market(config().data), config())
    assert len(seen) >= 2 + 4 and set(seen) == {(validation.bars.ts[0], len(validation))}


def test_training_explores_costs_and_validation_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    original = training.FoxFuturesVectorEnv

    def spy(*arguments: Any, **options: Any) -> Any:
        made.append(original(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(training, "FoxFuturesVectorEnv", spy)
    settings = config(160)
    outcome = run(tmp_path / "spied", settings)
    assert settings.env.exploration_scale == 1.0
    assert [env.knobs["exploration_scale"]["value"] for env in made] == [1.0]
    assert all(result.config.exploration_scale == 0.0 for result in outcome.results)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_resumed_run_equals_the_whole_one(
    number: int, finished: tuple[Path, training.Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopping(callbacks.TrainingCurves):
        def on_iteration(self, agent: Agent) -> bool:
            if agent.env_steps == 400:  # in the middle of an epoch
                os.kill(os.getpid(), number)
            return True

    before = signal.getsignal(number)
    with monkeypatch.context() as patch:
        patch.setattr(training, "TrainingCurves", Stopping)
        outcome = run(tmp_path / "cut")
    assert outcome.interrupted and outcome.env_steps == 400 and outcome.selected is None
    assert signal.getsignal(number) is before
    again = run(tmp_path / "cut", resume=True)
    assert not again.interrupted and again.env_steps == 640
    assert parameters(tmp_path / "cut") == parameters(finished[0])
    assert again.selected == finished[1].selected
    ours, whole = curves(tmp_path / "cut"), curves(finished[0])
    for tag in ("train/quantile", "train/reward", "val/total_return"):
        assert ours[tag] == whole[tag], tag


def test_a_kill_after_later_epochs_purges_what_they_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is ahead of the checkpoint: the run dies while it saves the third epoch."""

    def die(self: Any, agent: Agent) -> None:
        if agent.env_steps == 480:
            raise KeyboardInterrupt
        original(self, agent)

    original = callbacks.Validation.save_last
    with monkeypatch.context() as patch:
        patch.setattr(callbacks.Validation, "save_last", die)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "killed")
    assert [s for s, _ in curves(tmp_path / "killed")["train/quantile"]] == [160, 320, 480]
    run(tmp_path / "killed", resume=True)
    found = curves(tmp_path / "killed")
    for tag, values in found.items():
        steps = [640] if tag.startswith("final/") else [160, 320, 480, 640]
        assert [step for step, _ in values] == steps, tag
    lines = [json.loads(line) for line in (tmp_path / "killed" / "health.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["group"] == "train"] == [160, 320, 480, 640]


def test_the_time_limit_stops_and_still_reports(tmp_path: Path) -> None:
    outcome = run(tmp_path / "short", config(total=10_000_000), time_limit=0.5)
    assert not outcome.interrupted and 0 < outcome.env_steps < 10_000_000
    steps = [step for step, _ in curves(tmp_path / "short")["val/total_return"]]
    assert steps == sorted(set(steps)) and steps[-1] == outcome.env_steps
    assert [r.agent for r in outcome.results] == ["bdq", "flat", "random", "buy_and_hold"]


def test_a_run_directory_is_never_mixed(tmp_path: Path, finished: tuple[Path, training.Outcome]) -> None:
    with pytest.raises(ConfigError, match="already holds a run"):
        new_run(finished[0], config())
    assert load_run(finished[0]) == config()
    new_run(tmp_path / "r", config())
    with pytest.raises(ConfigError, match="already holds a run"):  # also before the first checkpoint
        new_run(tmp_path / "r", config(320))
    assert load_run(tmp_path / "r") == config()
    with pytest.raises(ConfigError, match="no run in"):
        load_run(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("of someone else")
    with pytest.raises(ConfigError, match=r"holds notes\.txt .* give --logdir a new or empty directory"):
        new_run(tmp_path / "other", config())
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["notes.txt"]
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / ".config.toml.tmp-1").touch()  # of a process that was killed while it wrote
    new_run(tmp_path / "cut", config())
    assert load_run(tmp_path / "cut") == config()
    with pytest.raises(CheckpointError, match="no checkpoint yet; go on with --resume"):
        load_best(tmp_path / "r")
    with pytest.raises(CheckpointError, match="no run and no checkpoint in"):
        load_best(tmp_path / "other")


def test_a_run_stopped_before_its_first_checkpoint_is_resumed_from_the_beginning(
    tmp_path: Path, finished: tuple[Path, training.Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    for place in ("load_market", "RunLog"):
        with monkeypatch.context() as patch:
            patch.setattr(training, place, interrupted)
            with pytest.raises(KeyboardInterrupt):
                run(tmp_path / place)
        assert not (tmp_path / place / ".lock").exists()
        outcome = run(tmp_path / place, resume=True)
        assert not outcome.interrupted and outcome.env_steps == 640
        assert parameters(tmp_path / place) == parameters(finished[0])


def test_an_interrupt_of_the_final_evaluation_loses_nothing(
    tmp_path: Path, finished: tuple[Path, training.Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "_conclude", interrupted)
        outcome = run(tmp_path / "cut")
    assert outcome.interrupted and outcome.env_steps == 640 and outcome.results == []
    again = run(tmp_path / "cut", resume=True)
    assert not again.interrupted and again.selected == finished[1].selected
    assert parameters(tmp_path / "cut") == parameters(finished[0])
    for tag, values in curves(tmp_path / "cut").items():
        steps = [640] if tag.startswith("final/") else [160, 320, 480, 640]
        assert [step for step, _ in values] == steps, tag  # not judged a second time


def test_two_processes_cannot_train_in_one_directory(tmp_path: Path) -> None:
    new_run(tmp_path / "r", config(160))
    with run_lock(tmp_path / "r"), pytest.raises(ConfigError, match=f"process {os.getpid()} is training in"):
        train(config(160), tmp_path / "r", backend="cpu", resume=True)
    assert train(config(160), tmp_path / "r", backend="cpu", resume=True).env_steps == 160


def test_a_run_killed_at_any_moment_resumes_bit_for_bit(
    tmp_path: Path, finished: tuple[Path, training.Outcome]
) -> None:
    """Early, before a checkpoint, and later, wherever that falls: learning, validating or saving."""
    program = """
        import os, signal, sys, threading
        from pathlib import Path
        from fox_agents import training
        directory, seconds = Path(sys.argv[1]), float(sys.argv[2])
        threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
        training.train(training.load_run(directory), directory, backend="cpu", resume=True)
    """
    directory = tmp_path / "killed"
    new_run(directory, config())
    kills = 0
    for seconds in (0.4, 0.9, 1.3):
        command = [sys.executable, "-c", textwrap.dedent(program), str(directory), str(seconds)]
        kills += subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert kills > 0
    train(config(), directory, backend="cpu", resume=True)
    assert parameters(directory) == parameters(finished[0])
    for tag in ("train/quantile", "val/total_return"):
        assert curves(directory)[tag] == curves(finished[0])[tag]


def patient(total: int, patience: int) -> RunConfig:
    settings = config(total)
    return dataclasses.replace(settings, train=dataclasses.replace(settings.train, patience=patience))


def test_training_stops_after_as_many_worse_epochs_as_the_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first epoch is the best, so a patience of two ends the run with the third, also over a resume."""
    scores = iter([5.0, 1.0, 2.0, 3.0, 4.0])
    whole = callbacks.Validation.on_epoch

    def falling(self: callbacks.Validation, agent: Agent, diagnostics: Mapping[str, float]) -> None:
        kept = self._evaluate

        def scored(player: Agent) -> Any:
            found = kept(player)
            found.metrics["mean_return_lower_bound"] = next(scores)
            return found

        self._evaluate = scored
        whole(self, agent, diagnostics)
        self._evaluate = kept

    monkeypatch.setattr(callbacks.Validation, "on_epoch", falling)
    new_run(tmp_path / "a", patient(320, 2))
    assert train(patient(320, 2), tmp_path / "a", backend="cpu").env_steps == 320
    longer = patient(960, 2)
    assert train(longer, tmp_path / "a", backend="cpu", resume=True).env_steps == 480
    best = CheckpointStore(tmp_path / "a" / "checkpoints").entry("best")
    assert best is not None and best["step"] == 160


def test_the_speed_leaves_validation_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds of learning, a hundred of validation, twenty of learning."""
    clock, written = [0.0], []

    class Log:
        def write(self, group: str, values: Mapping[str, float], step: int) -> None:
            if group == "perf":
                written.append(values["env_steps_per_second"])

    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: clock[0])
    agent: Any = types.SimpleNamespace(env_steps=0)
    timer = callbacks.TrainingCurves(Log(), agent)  # type: ignore[arg-type]
    for learning in (10.0, 20.0):
        for _ in range(2):
            timer.on_iteration(agent)
            clock[0] += learning / 2
        agent.env_steps += 1000
        timer.on_epoch(agent, {})
        clock[0] += 100.0
    assert written == [100.0, 50.0]


def test_validation_comes_after_training_and_the_embargo() -> None:
    market = load_market(config().data)
    before, after = split_market(market, config())
    assert len(before) + len(after) + 20 == len(market)
    gap = after.bars.ts[0] - before.bars.ts[-1]
    position = int((market.bars.ts == after.bars.ts[0]).argmax())
    assert position == len(before) + 20 and gap > 0
    assert after.first_ready == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DataConfig(), "exactly one of"),
        (DataConfig(file="a.csv", synthetic="regimes"), "exactly one of"),
        (DataConfig(file="/no/such/bars.csv"), "no data file /no/such/bars.csv"),
        (DataConfig(synthetic="regime"), "regimes"),
        (
            DataConfig(synthetic="regimes", symbol="ES", bars="5min"),
            r"data\.symbol, data\.bars describe a file",
        ),
    ],
)
def test_data_mistakes_are_named(data: DataConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_market(data)


def test_what_is_not_finite_stays_out_of_the_curves(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 0)
    values: Mapping[str, Any] = {"a": 1.0, "b": float("nan"), "notes": {"b": "why"}}
    log.write("val", values, 10)
    log.close()
    assert set(curves(tmp_path)) == {"val/a"}
    assert json.loads((tmp_path / "health.jsonl").read_text()) == {"step": 10, "group": "val", "a": 1.0}
