"""train_sb3.py as a user runs it: a whole run directory, the tags of TensorBoard, resuming, and mistakes."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

from fox_agents.config import load_run_config

Script = Callable[..., "subprocess.CompletedProcess[str]"]
SMALL = [
    "--preset=smoke",
    "--synthetic=regimes:seed=0,sessions=4",
    "--device=cpu",
    "--set=data.embargo=20",
    "--set=agent.hidden=16",
    "--set=agent.epoch_steps=320",
    "--set=train.num_envs=8",
    "--set=train.validation_envs=4",
]
DQN = ["--set=agent.learning_starts=64", "--set=agent.batch_size=16", "--set=agent.replay_size=1e3"]
PPO = ["--set=agent.rollout_steps=20", "--set=agent.batch_size=80", "--set=agent.n_epochs=2"]


def tags(directory: Path) -> dict[str, list[int]]:
    """Steps of every curve."""
    accumulator: Any = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(directory / "tb"))
    events.Reload()
    return {tag: [e.step for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.mark.parametrize(("algo", "options"), [("ppo", PPO), ("qrdqn", DQN)])
def test_a_run_leaves_what_the_branching_agent_leaves(
    algo: str, options: list[str], tmp_path: Path, here: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    total = "--set=train.total_steps=640"
    done = here("train_sb3.py", f"--algo={algo}", *SMALL, *options, total, "--seed=3")
    assert done.returncode == 0, done.stderr
    for word in (algo, "flat", "random", "buy_and_hold", "Model selection: ", "step        640"):
        assert word in done.stdout, word
    [directory] = (tmp_path / "runs").iterdir()
    assert directory.name.startswith(f"{algo}-20")
    found = {path.name for path in directory.iterdir()} - {".lock"}
    assert found == {
        "config.toml",
        "checkpoints",
        "tb",
        "health.jsonl",
        "trials.jsonl",
        "metrics.json",
        "report.html",
    }
    config = load_run_config(directory / "config.toml")
    assert (config.train.algorithm, config.agent.seed, config.env.counterfactual) == (algo, 3, False)
    curves = tags(directory)
    same = {"train/loss", "train/reward", "train/share_long", "signals/lr", "val/sharpe"}
    same |= {"perf/env_steps_per_second", "perf/updates_per_second", "train/updates"}
    assert same <= curves.keys()
    for tag, steps in curves.items():
        assert steps == ([640] if tag.startswith("final/") else [320, 640]), tag
    scored = here("evaluate.py", f"--run={directory}", "--agents=flat,momentum,mean_reversion", "--json")
    assert scored.returncode == 0, scored.stderr
    results = json.loads(scored.stdout)
    assert list(results) == [f"{algo} ({directory.name})", "flat", "momentum", "mean_reversion"]
    trained = json.loads((directory / "metrics.json").read_text())["validation"]
    assert results[f"{algo} ({directory.name})"] == trained[algo]


def test_a_stopped_run_goes_on_and_is_the_uninterrupted_one(tmp_path: Path, here: Script) -> None:
    options = ["--algo=a2c", *SMALL, "--set=train.total_steps=960", "--quiet"]
    for name, limit in (("whole", []), ("parts", ["--time-limit=0"])):
        done = here("train_sb3.py", *options, f"--logdir={tmp_path / name}", *limit)
        assert done.returncode == 0, done.stderr
    done = here("train_sb3.py", f"--resume={tmp_path / 'parts'}", "--device=cpu", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["env_steps"] == 960
    one, other = (
        next((tmp_path / name / "checkpoints").glob("last-*/policy.safetensors")).read_bytes()
        for name in ("whole", "parts")
    )
    assert one == other


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--preset=smoke"], "which agent? give --algo with one of a2c, dqn"),
        (["--algo=pppo"], "unknown algorithm 'pppo' given to --algo: did you mean 'ppo'?"),
        (["--algo=bdq"], "unknown algorithm 'bdq' given to --algo"),
        (["--algo=ppo", "--preset=smoek"], "did you mean 'smoke'"),
        (["--algo=ppo", "--preset=smoke", "--set=agent.atoms=3"], "unknown key agent.atoms"),
        (["--algo=ppo", "--preset=smoke", "--set=agent.n_epochs=0"], "agent.n_epochs = 0"),
        (["--algo=dqn", "--preset=smoke", "--set=agent.replay_size=1e12"], "lower agent.replay_size"),
        (["--algo=ppo", "--preset=smoke", "--set=train.algorithm=bdq"], "the agent is that of --algo"),
        (["--resume=nowhere"], "no run in nowhere"),
        (["--algo=ppo", "--resume=nowhere"], "leave out algo"),
    ],
)
def test_a_users_mistake_is_one_line_and_code_2(
    arguments: list[str], words: str, tmp_path: Path, here: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = here("train_sb3.py", *arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""
    assert not (tmp_path / "runs").exists()
