"""Who may work in a directory: one process at a time, a killed one locks nothing, and no directory of others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fox_agents.lock import require_own, run_lock
from fox_env.errors import ConfigError

HOLDER = """
import sys
from pathlib import Path
from fox_agents.lock import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def hold(directory: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_with_the_number_of_the_first(tmp_path: Path) -> None:
    process = hold(tmp_path)
    try:
        with (
            pytest.raises(ConfigError, match=f"process {process.pid} is training in {tmp_path}"),
            run_lock(tmp_path),
        ):
            pytest.fail("locked twice")
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(30) == 0
        with run_lock(tmp_path):
            assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
        assert not list(tmp_path.iterdir())
    finally:
        process.kill()
        process.communicate()


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    process = hold(tmp_path)
    process.kill()
    process.communicate()
    assert (tmp_path / ".lock").read_text() == f"{process.pid}\n"
    with run_lock(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"


def test_a_failure_inside_gives_the_directory_back(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="disk"), run_lock(tmp_path):
        raise OSError("disk full")
    with run_lock(tmp_path):
        pass


@pytest.mark.parametrize("names", [[], [".lock"], ["begun-1"], ["mark", "notes.txt"]])
def test_an_absent_an_empty_and_an_own_directory_may_be_written_to(names: list[str], tmp_path: Path) -> None:
    require_own(tmp_path / "absent", "mark", ["begun-*"], "--logdir")
    for name in names:
        (tmp_path / name).touch()
    require_own(tmp_path, "mark", ["begun-*"], "--logdir")


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "mark.old"])
def test_a_directory_of_something_else_is_refused(name: str, tmp_path: Path) -> None:
    for each in (name, "begun-1", ".lock"):
        (tmp_path / each).touch()
    with pytest.raises(ConfigError) as caught:
        require_own(tmp_path, "mark", ["begun-*"], "--logdir")
    assert str(caught.value) == (
        f"{tmp_path} holds {name} of something else; give --logdir a new or empty directory"
    )
