"""The scripts as a user runs them: exit codes, one-line mistakes, results, and interruption."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

Script = Callable[..., "subprocess.CompletedProcess[str]"]
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


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


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
    for word in ("bdq", "flat", "random", "buy_and_hold", "Sharpe", "Model selection: ", "step        640"):
        assert word in done.stdout, word
    assert str(directory / "report.html") in done.stdout
    assert f"tensorboard --logdir {directory / 'tb'}" in done.stdout
    assert "\x1b" not in done.stdout  # no terminal, no colours and no bar
    assert "seed = 3" in (directory / "config.toml").read_text()


def test_a_finished_run_is_evaluated_beside_the_rules(
    finished: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path, here: Script
) -> None:
    directory, _ = finished
    out = tmp_path / "report.html"
    common = [f"--run={directory}", "--agents=flat, buy_and_hold", "--json"]
    done = here("evaluate.py", *common, f"--out={out}")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert list(results) == ["bdq (one)", "flat", "buy_and_hold"]
    assert "<svg" in out.read_text()
    # The same numbers as at the end of training, which used the same bars.
    trained = json.loads((directory / "metrics.json").read_text())["validation"]
    assert results["bdq (one)"] == trained["bdq"]
    assert results["buy_and_hold"] == trained["buy_and_hold"]
    other = here("evaluate.py", *common, "--synthetic=regimes:seed=1,sessions=3")
    assert other.returncode == 0, other.stderr
    assert json.loads(other.stdout)["flat"]["bars"] != results["flat"]["bars"]


def test_a_rule_plays_with_its_settings_after_training_and_in_an_evaluation(
    tmp_path: Path, here: Script
) -> None:
    run = tmp_path / "run"
    settings = [
        "--set=train.total_steps=320",
        "--set=train.baselines=flat,momentum",
        "--set=momentum.lookback=5",
    ]
    trained = here("train_dqn.py", *SMALL, *settings, f"--logdir={run}", "--json")
    assert trained.returncode == 0, trained.stderr
    at_the_end = json.loads(trained.stdout)["validation"]["momentum"]
    played = []
    for more in ([], ["--set=momentum.lookback=5"], ["--set=momentum.lookback=90"]):
        done = here("evaluate.py", f"--run={run}", "--agents=momentum", "--json", *more)
        assert done.returncode == 0, done.stderr
        played.append(json.loads(done.stdout)["momentum"])
    assert played[0] == played[1] == at_the_end != played[2]


def test_runs_of_one_name_are_told_apart_and_a_repeated_one_counts_once(
    finished: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path, here: Script
) -> None:
    directory, _ = finished
    twin = tmp_path / directory.name
    shutil.copytree(directory, twin)
    done = here(
        "evaluate.py", f"--run={directory}", f"--run={twin}", f"--run={twin}/", "--agents=flat,flat", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)) == [f"bdq ({directory})", f"bdq ({twin})", "flat"]


def test_runs_under_other_rules_are_said_to_be(
    finished: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path, here: Script
) -> None:
    other = tmp_path / "dear"
    settings = ["--set=train.total_steps=320", "--set=env.half_spread_ticks=2", f"--logdir={other}"]
    assert here("train_dqn.py", *SMALL, *settings).returncode == 0
    done = here("evaluate.py", f"--run={finished[0]}", f"--run={other}")
    assert done.returncode == 0, done.stderr
    assert (
        "bdq (dear) was trained and is scored with half_spread_ticks=2.0, bdq (one) with 0.5" in done.stdout
    )
    assert "impact" in done.stdout and "filled long" in done.stdout


def test_json_is_the_only_output(here: Script) -> None:
    done = here("evaluate.py", "--agents=flat", "--synthetic=regimes:sessions=3", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["flat"]["total_return"] == 0.0
    quiet = here("evaluate.py", "--agents=flat", "--synthetic=regimes:sessions=3", "--quiet")
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
        ("evaluate.py", ["--agents=momentum", "--set=mometum.lookback=9"], "did you mean 'momentum'"),
        (
            "evaluate.py",
            ["--agents=flat", "--set=momentum.lookback=9"],
            "name one of mean_reversion, momentum",
        ),
        ("evaluate.py", ["--agents=momentum", "--set=momentum.window=9"], "unknown key momentum.window"),
        ("evaluate.py", ["--agents=momentum", "--set=env.margin=false"], "'env' is no rule with settings"),
        ("evaluate.py", ["--run=nowhere"], "no run and no checkpoint in"),
        ("evaluate.py", ["--run="], "--run is empty"),
        ("evaluate.py", ["--agents=flat", "--synthetic=regimes:sessions=3", "--out="], "--out is empty"),
        ("train_dqn.py", ["--preset=smoke", "--logdir="], "--logdir is empty"),
        ("train_dqn.py", ["--preset=smoke", "--data="], "--data is empty"),
        ("train_dqn.py", ["--resume="], "--resume is empty"),
        ("train_dqn.py", ["--preset=smoke", "--set=train.num_envs=1e9"], "train.num_envs"),
        ("train_dqn.py", ["--preset=smoke", "--set=agent.v_max=1e300"], "agent.v_max"),
        ("train_dqn.py", ["--preset=smoke", "--set=agent.replay_size=1e13"], "agent.replay_size"),
    ],
)
def test_a_users_mistake_is_one_line_and_code_2(
    name: str,
    arguments: list[str],
    words: str,
    tmp_path: Path,
    here: Script,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = here(name, *arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_a_bad_bar_file_is_one_line_and_code_2(
    tmp_path: Path, here: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bars.csv").write_text("hello\nworld\n")
    done = here("train_dqn.py", "--preset=smoke", "--data=bars.csv", "--contract=ES")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "bars.csv" in done.stderr


def test_a_damaged_checkpoint_is_one_line_and_code_2(
    finished: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path, here: Script
) -> None:
    (tmp_path / "state.json").write_text("{")
    done = here("evaluate.py", f"--run={tmp_path}", "--synthetic=regimes:sessions=3")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_leaves_with_0_and_can_be_resumed(
    number: int, tmp_path: Path, here: Script
) -> None:
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
    second = here("train_dqn.py", f"--resume={directory}", "--device=cpu")
    assert second.returncode == 2 and f"process {process.pid} is training in" in second.stderr
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"--resume {directory}" in out.replace("\n", "")
    saved = json.loads((directory / "checkpoints" / "index.json").read_text())["last"]["step"]
    done = here("train_dqn.py", f"--resume={directory}", "--device=cpu", "--time-limit=0.5", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["env_steps"] > saved


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_of_what_cannot_be_saved_is_one_line_and_code_1(number: int, tmp_path: Path) -> None:
    """An evaluation has nothing to save: it stops at once."""
    program = (
        f"import os, sys; sys.path.insert(0, {str(ROOT / 'scripts')!r}); sys.argv = ['evaluate.py', '--agents=flat']; "
        "import evaluate; from fox_agents import cli; "
        f"evaluate.load_run_config = lambda *a: os.kill(os.getpid(), {number}); cli.run(evaluate.main)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "error: interrupted\n")


def test_a_mistake_in_the_data_does_not_use_up_the_run_directory(tmp_path: Path, here: Script) -> None:
    directory = tmp_path / "r"
    wrong = here(
        "train_dqn.py", "--preset=smoke", f"--data={tmp_path / 'missing.csv'}", f"--logdir={directory}"
    )
    assert wrong.returncode == 2 and "missing.csv" in wrong.stderr and not directory.exists()


@pytest.mark.parametrize(
    "more", [["train_dqn.py"], ["train_dqn.py", "--folds=2"], ["train_sb3.py", "--algo=ppo"]]
)
def test_a_run_is_not_mixed_with_files_of_others(more: list[str], tmp_path: Path, here: Script) -> None:
    (tmp_path / "notes.txt").touch()
    name, *options = more
    settings = ["--preset=smoke", "--synthetic=regimes:seed=0,sessions=4", "--set=data.embargo=20"]
    done = here(name, *options, *settings, f"--logdir={tmp_path}")
    assert done.returncode == 2 and f"{tmp_path} holds notes.txt" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
