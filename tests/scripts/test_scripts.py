"""The scripts as a user runs them: exit codes, one-line mistakes, results, and interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
SMALL = [
    "--preset=smoke",
    "--synthetic=regimes:seed=0,sessions=4",
    "--device=cpu",
    *(
        f"--set={setting}"
        for setting in (
            "data.embargo=20",
            "agent.hidden=16",
            "agent.atoms=11",
            "agent.batch_size=16",
            "agent.learning_starts=64",
            "agent.epoch_steps=320",
            "agent.replay_size=1e3",
            "train.num_envs=8",
            "train.validation_envs=4",
        )
    ),
]


def script(name: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=200)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    directory = tmp_path_factory.mktemp("runs") / "one"
    done = script("train_dqn.py", *SMALL, "--set=train.total_steps=640", "--seed=3", f"--logdir={directory}")
    return directory, done


def test_training_prints_the_comparison_and_where_things_are(
    finished: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    directory, done = finished
    assert done.returncode == 0, done.stderr
    for word in ("bdq", "flat", "random", "buy_and_hold", "Sharpe", "model selection", "step        640"):
        assert word in done.stdout, word
    assert str(directory / "report.html") in done.stdout
    assert f"tensorboard --logdir {directory / 'tb'}" in done.stdout
    assert "\x1b" not in done.stdout  # no terminal, no colours and no bar
    assert "seed = 3" in (directory / "config.toml").read_text()


def test_a_finished_run_is_evaluated_beside_the_rules(
    finished: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    directory, _ = finished
    out = tmp_path / "report.html"
    common = [f"--run={directory}", "--agents=flat, buy_and_hold", "--json"]
    done = script("evaluate.py", *common, f"--out={out}")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert list(results) == ["bdq (one)", "flat", "buy_and_hold"]
    assert "<svg" in out.read_text()
    # The same numbers as at the end of training, which used the same bars.
    trained = json.loads((directory / "metrics.json").read_text())["validation"]
    assert results["bdq (one)"] == trained["bdq"]
    assert results["buy_and_hold"] == trained["buy_and_hold"]
    other = script("evaluate.py", *common, "--synthetic=regimes:seed=1,sessions=3")
    assert other.returncode == 0, other.stderr
    assert json.loads(other.stdout)["flat"]["bars"] != results["flat"]["bars"]


def test_json_is_the_only_output() -> None:
    done = script("evaluate.py", "--agents=flat", "--synthetic=regimes:sessions=3", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["flat"]["total_return"] == 0.0
    quiet = script("evaluate.py", "--agents=flat", "--synthetic=regimes:sessions=3", "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("train_dqn.py", ["--preset=smoek"], "did you mean 'smoke'"),
        ("train_dqn.py", ["--preset=missing.toml"], "missing.toml"),
        ("train_dqn.py", ["--no-such-option"], "--no-such-option"),
        ("train_dqn.py", ["--preset=smoke", "--set=agent.lrr=1"], "agent.lrr"),
        ("train_dqn.py", ["--preset=smoke", "--set=env.random_start=maybe"], "env.random_start"),
        ("train_dqn.py", ["--preset=smoke", "--seed=x"], "seed"),
        ("train_dqn.py", ["--preset=smoke", "--data=nowhere.csv"], "nowhere.csv"),
        ("train_dqn.py", ["--preset=smoke", "--data=a", "--synthetic=b"], "exclude each other"),
        ("train_dqn.py", ["--preset=smoke", "--synthetic=regmes"], "regimes"),
        ("train_dqn.py", ["--preset=smoke", "--device=gpu"], "--device"),
        ("train_dqn.py", ["--resume=nowhere"], "nowhere"),
        ("train_dqn.py", ["--resume=nowhere", "--seed=1"], "--resume"),
        ("evaluate.py", [], "--run"),
        ("evaluate.py", ["--agents=flat"], "--data"),
        ("evaluate.py", ["--agents=flatt", "--synthetic=regimes:sessions=3"], "did you mean 'flat'"),
        ("evaluate.py", ["--agents=bdq", "--synthetic=regimes:sessions=3"], "trained first"),
        ("evaluate.py", ["--run=nowhere"], "nowhere"),
    ],
)
def test_a_users_mistake_is_one_line_and_code_2(
    name: str, arguments: list[str], words: str, tmp_path: Path
) -> None:
    done = script(name, *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_a_bad_bar_file_is_one_line_and_code_2(tmp_path: Path) -> None:
    (tmp_path / "bars.csv").write_text("hello\nworld\n")
    done = script("train_dqn.py", "--preset=smoke", "--data=bars.csv", "--contract=ES", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "bars.csv" in done.stderr


def test_a_damaged_checkpoint_is_one_line_and_code_2(
    finished: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "state.json").write_text("{")
    done = script("evaluate.py", f"--run={tmp_path}", "--synthetic=regimes:sessions=3")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_an_interrupt_saves_leaves_with_0_and_can_be_resumed(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    options = [*SMALL, "--set=train.total_steps=1e8", f"--logdir={directory}"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "scripts" / "train_dqn.py"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (directory / "checkpoints" / "index.json").exists() and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"--resume {directory}" in out.replace("\n", "")
    saved = json.loads((directory / "checkpoints" / "index.json").read_text())["last"]["step"]
    done = script("train_dqn.py", f"--resume={directory}", "--device=cpu", "--time-limit=1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["env_steps"] > saved


def test_a_mistake_in_the_data_does_not_use_up_the_run_directory(tmp_path: Path) -> None:
    directory = tmp_path / "r"
    wrong = script(
        "train_dqn.py", "--preset=smoke", f"--data={tmp_path / 'missing.csv'}", f"--logdir={directory}"
    )
    assert wrong.returncode == 2 and "missing.csv" in wrong.stderr and not directory.exists()
