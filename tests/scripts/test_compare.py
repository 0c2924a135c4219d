"""The comparison script as a user runs it: tables, finished processes kept, failures and mistakes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

Script = Callable[..., "subprocess.CompletedProcess[str]"]
SCRIPT = Path(__file__).parents[2] / "scripts" / "compare.py"
SMALL = ["--synthetic=regimes:seed=0,sessions=4", "--folds=2", "--seeds=1", "--steps=160", "--device=cpu"]
SMALL += [f"--set={s}" for s in ("data.embargo=20", "env.horizon=50", "train.num_envs=8")]
LEARNER = [
    f"--set=qrdqn_ref:agent.{s}"
    for s in ("hidden=8", "quantiles=4", "batch_size=8", "replay_size=400", "learning_starts=64")
]
BOTH = ["--agents=qrdqn_ref,flat", *SMALL, *LEARNER]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    folder = tmp_path_factory.mktemp("comparison") / "out"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *BOTH, f"--out={folder}", "--json"],
        capture_output=True, text=True, check=False, timeout=250, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return folder, done


def test_the_json_is_all_that_is_printed(finished: tuple[Path, Any]) -> None:
    folder, done = finished
    assert done.returncode == 0 and done.stderr == "", done.stderr
    found = json.loads(done.stdout)
    assert [(row["agent"], row["seeds"]) for row in found["markets"]] == [("qrdqn_ref", 1), ("flat", 1)]
    assert [row["agent"] for row in found["overall"]] == ["qrdqn_ref", "flat"]
    learner, flat = found["markets"]
    assert learner["env_steps"] == 320 and learner["sharpe"]["low"] <= learner["sharpe"]["high"]
    assert flat["total_return"] == flat["costs"] == flat["n_trades"] == 0
    written = json.loads((folder / "comparison.json").read_text())
    assert {name: written[name] for name in found} == found and len(written["runs"]) == 2
    assert "| qrdqn_ref | 1 |" in (folder / "comparison.md").read_text()


def test_finished_processes_are_kept_and_the_table_is_printed(
    finished: tuple[Path, Any], here: Script
) -> None:
    folder, first = finished
    again = here("compare.py", *BOTH, f"--out={folder}")
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("kept: ") == 2 and "done: " not in again.stdout
    assert "Out of sample, net of costs" in again.stdout and str(folder / "comparison.md") in again.stdout
    written = json.loads((folder / "comparison.json").read_text())
    assert written["markets"] == json.loads(first.stdout)["markets"]
    quiet = here("compare.py", *BOTH, f"--out={folder}", "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_a_failed_process_is_exit_code_1_and_the_rest_is_shown(tmp_path: Path, here: Script) -> None:
    arguments = ["--agents=flat", *SMALL, "--synthetic=martingale:sessions=4", f"--out={tmp_path}"]
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "martingale_sessions_4-flat-0-steps").touch()  # where the process wants a directory
    done = here("compare.py", *arguments)
    assert done.returncode == 1 and done.stderr == f"error: 1 runs failed, see {runs}; run again to go on\n"
    assert "failed: martingale:sessions=4 flat 0 steps: " in done.stdout
    assert "done: regimes:seed=0,sessions=4 flat 0 steps" in done.stdout
    assert "| regimes:seed=0,sessions=4 | steps | flat |" in (tmp_path / "comparison.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agents="], "give --agents NAMES"),
        (["--agents=flat,flatt"], "given to --agents: did you mean 'flat'"),
        (["--preset=smoek"], "given to --preset: did you mean 'smoke'"),
        (["--folds=0"], "--folds"),
        (["--folds=200"], "as --folds asks"),
        (["--seeds=0"], "--seeds"),
        (["--steps=inf"], "--steps"),
        (["--seconds=0"], "--seconds"),
        (["--jobs=0"], "--jobs"),
        (["--data=nowhere.csv"], "nowhere.csv"),
        (["--data="], "--data is empty"),
        (["--data=a/x.csv", "--data=b/x.csv"], "two markets would be called x"),
        (["--synthetic=regmes"], "regimes"),
        (["--set=agent.lrr=1"], "agent.lrr"),
        (["--set=bdq:agent.lr=1"], "'bdq' is none of the --agents"),
        (["--device=gpu"], "--device"),
        (["--out="], "--out is empty"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(
    arguments: list[str], words: str, tmp_path: Path, here: Script
) -> None:
    out = tmp_path / "out"
    done = here("compare.py", "--agents=flat", *SMALL, f"--out={out}", *arguments)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == "" and not out.exists()


def test_a_comparison_is_not_mixed_with_files_of_others(tmp_path: Path, here: Script) -> None:
    (tmp_path / "runs" / "one").mkdir(parents=True)  # as the folder that training writes to
    (tmp_path / "notes.txt").touch()
    done = here("compare.py", "--agents=flat", *SMALL, f"--out={tmp_path}")
    words = f"error: {tmp_path} holds notes.txt of something else; give --out a new or empty directory\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "runs"]


def test_without_a_market_there_is_nothing_to_compare_on(tmp_path: Path, here: Script) -> None:
    done = here("compare.py", "--agents=flat", f"--out={tmp_path / 'out'}")
    assert done.returncode == 2 and "give --data FILE or --synthetic NAME" in done.stderr
