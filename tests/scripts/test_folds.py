"""Walk-forward studies as a user runs them: trained in folds, interrupted and resumed, and each fold evaluated."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

Script = Callable[..., "subprocess.CompletedProcess[str]"]
TRAIN = Path(__file__).parents[2] / "scripts" / "train_dqn.py"
SMALL = ["--preset=smoke", "--synthetic=regimes:seed=0,sessions=4", "--device=cpu"]
SMALL += [
    f"--set={setting}"
    for setting in (
        "data.embargo=20",
        "env.horizon=50",
        "agent.hidden=8",
        "agent.atoms=11",
        "agent.quantiles=4",
        "agent.experts=2",
        "agent.batch_size=8",
        "agent.updates=1",
        "agent.replay_size=400",
        "agent.learning_starts=64",
        "agent.epoch_steps=80",
        "train.num_envs=8",
        "train.validation_envs=4",
        "train.baselines=flat,buy_and_hold",
        "train.cost_multiples=()",
    )
]
BARS = 4 * 390
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    directory = tmp_path_factory.mktemp("runs") / "study"
    options = [*SMALL, "--set=train.total_steps=160", "--folds=2", f"--logdir={directory}"]
    done = subprocess.run(
        [sys.executable, str(TRAIN), *options],
        capture_output=True, text=True, check=False, timeout=250, env=ENVIRONMENT,
    )  # fmt: skip
    return directory, done


def test_every_fold_is_trained_and_the_joined_test_windows_are_shown(finished: tuple[Path, Any]) -> None:
    directory, done = finished
    assert done.returncode == 0, done.stderr
    for words in (
        "fold 1 of 2: tested on ",
        "fold 2 of 2: tested on ",
        "Out of sample: the joined test windows",
    ):
        assert words in done.stdout, words
    assert "bdq or flat" in done.stdout and str(directory / "report.html") in done.stdout
    assert (directory / "report.html").is_file()
    found = json.loads((directory / "metrics.json").read_text())
    assert [fold["test"] for fold in found["folds"]] == [[780, 1170], [1170, BARS]]
    assert {name: result["bars"] for name, result in found["test"].items()} == dict.fromkeys(
        ("bdq", "bdq or flat", "flat", "buy_and_hold"), 780
    )


def test_resuming_a_finished_study_shows_its_results_again(finished: tuple[Path, Any], here: Script) -> None:
    directory, _ = finished
    before = json.loads((directory / "metrics.json").read_text())
    done = here("train_dqn.py", f"--resume={directory}", "--device=cpu", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == before


def test_a_fold_is_evaluated_like_any_run(finished: tuple[Path, Any], here: Script) -> None:
    directory, _ = finished
    done = here("evaluate.py", f"--run={directory / 'fold-0'}", "--agents=flat", "--json")
    assert done.returncode == 0, done.stderr
    trained = json.loads((directory / "fold-0" / "metrics.json").read_text())["validation"]
    results = json.loads(done.stdout)
    assert list(results) == ["bdq (fold-0)", "flat"] and results["bdq (fold-0)"] == trained["bdq"]


def test_a_whole_study_is_no_agent_and_the_message_says_which_to_give(
    finished: tuple[Path, Any], here: Script
) -> None:
    directory, _ = finished
    done = here("evaluate.py", f"--run={directory}")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stdout == ""
    assert "walk-forward study" in done.stderr and str(directory / "fold-0") in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--folds=200"], "use fewer folds"),
        (["--folds=0"], "--folds"),
        (["--folds=2", "--set=data.embargo=1000"], "a lower embargo"),
        (["--folds=2", "--set=folds.test=1000"], "use fewer folds or smaller windows"),
        (["--folds=2", "--set=folds.number=2"], "folds.number"),
        (["--folds=2", "--set=train.baselines=flat,momentun"], "did you mean 'momentum'"),
        (
            ["--folds=2", "--set=train.baselines=flat,ppo"],
            "train.baselines names ppo, which has to be trained",
        ),
    ],
)
def test_folds_that_do_not_fit_are_one_line_and_code_2(
    arguments: list[str], words: str, tmp_path: Path, here: Script
) -> None:
    directory = tmp_path / "study"
    done = here("train_dqn.py", *SMALL, f"--logdir={directory}", *arguments)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == "" and not directory.exists()


def test_folds_of_a_study_that_goes_on_are_its_own(finished: tuple[Path, Any], here: Script) -> None:
    done = here("train_dqn.py", f"--resume={finished[0]}", "--folds=3")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--resume" in done.stderr


def test_an_interrupted_study_saves_and_goes_on(
    finished: tuple[Path, Any], tmp_path: Path, here: Script
) -> None:
    """The first fold is finished already; the stop comes while the second one learns."""
    directory = tmp_path / "study"
    shutil.copytree(finished[0], directory)
    (directory / "metrics.json").unlink()
    shutil.rmtree(directory / "fold-1")
    kept = json.loads((directory / "fold-0" / "metrics.json").read_text())
    text = (directory / "config.toml").read_text()
    (directory / "config.toml").write_text(text.replace("total_steps = 160", "total_steps = 100000000"))
    process = subprocess.Popen(
        [sys.executable, str(TRAIN), f"--resume={directory}", "--device=cpu"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    index = directory / "fold-1" / "checkpoints" / "index.json"
    deadline = time.monotonic() + 200
    while not index.exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert f"saved at fold 1; go on with --resume {directory}" in out.replace("\n", " ")
    assert not (directory / "metrics.json").exists()
    saved = json.loads(index.read_text())["last"]["step"]
    done = here("train_dqn.py", f"--resume={directory}", "--device=cpu", "--time-limit=0.5", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [fold["number"] for fold in found["folds"]] == [0, 1] and found["test"]["bdq"]["bars"] == 780
    assert json.loads((directory / "fold-1" / "metrics.json").read_text())["env_steps"] > saved
    assert json.loads((directory / "fold-0" / "metrics.json").read_text()) == kept
