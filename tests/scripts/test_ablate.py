"""The ablation script as a user runs it: a table, finished runs kept, mistakes in one line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

Script = Callable[..., "subprocess.CompletedProcess[str]"]
SCRIPT = Path(__file__).parents[2] / "scripts" / "ablate.py"
SMALL = ["--quick", "--device=cpu", "--seeds=1", "--steps=160", "--bars=1000", "--jobs=2"]
SMALL += ["--set=train.num_envs=8"]
SMALL += [
    f"--set=agent.{x}" for x in ("hidden=8", "batch_size=8", "learning_starts=32", "experts=2", "noisy=true")
]


def ablate(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True, text=True, check=False, timeout=200, env=environment,
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("ablation")
    return folder, ablate(folder, *SMALL, "--mechanisms=noisy=false", f"--out={folder / 'a'}")


def test_it_writes_a_table(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = finished
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done: signal / ") == 2 and "| noisy=false | 1 |" in done.stdout
    assert str(folder / "a" / "ablation.md") in done.stdout
    found = json.loads((folder / "a" / "ablation.json").read_text())
    assert [row["variant"] for row in found["rows"]] == ["baseline", "noisy=false"]


def test_it_goes_on_from_finished_runs_and_a_failure_is_exit_code_1(
    finished: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, _ = finished
    rows = json.loads((folder / "a" / "ablation.json").read_text())["rows"]
    (folder / "a" / "runs" / "signal-noisy_false-0.json").write_text('{"options": {}}')
    done = ablate(folder, *SMALL, "--mechanisms=noisy=false,lr=1e9", f"--out={folder / 'a'}")
    assert done.stdout.count("kept: ") == 1 and done.stdout.count("done: ") == 1
    assert done.returncode == 1 and "failed: signal / lr=1000000000.0 / seed 0" in done.stdout
    assert "training diverged" in done.stdout and "1 of 3 runs failed" in done.stderr
    found = json.loads((folder / "a" / "ablation.json").read_text())["rows"]
    again = [row["final"] for row in found if row["variant"] != "lr=1e+30"]
    assert again == [row["final"] for row in rows]


def test_the_json_of_finished_runs_is_all_that_is_printed(
    finished: tuple[Path, subprocess.CompletedProcess[str]], here: Script
) -> None:
    folder, _ = finished
    done = here("ablate.py", *SMALL, "--mechanisms=noisy=false", f"--out={folder / 'a'}", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == json.loads((folder / "a" / "ablation.json").read_text())["rows"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mechanisms=nosy"], "did you mean 'noisy'"),
        (["--markets=signl"], "unknown reference market 'signl'"),
        (["--set=agent.lrr=1"], "did you mean 'lr'"),
        (["--preset=missing.toml"], "missing.toml"),
        (["--seeds=0"], "--seeds"),
        (["--steps=10"], "where learning starts"),
        (["--device=gpu"], "--device"),
        (["--out="], "--out is empty"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    here: Script,
) -> None:
    done = here("ablate.py", f"--out={tmp_path / 'a'}", *arguments)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "a").exists()
