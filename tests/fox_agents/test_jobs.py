"""Jobs run beside each other, are kept while nothing changed, say why they failed, and end with their caller."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from fox_agents.jobs import Job, finished, run_jobs, source_digest, write_result

WRITE = (
    "import json, pathlib, sys; "
    "pathlib.Path(sys.argv[1]).write_text(json.dumps({'options': json.loads(sys.argv[2]), 'value': 7}))"
)


def job(folder: Path, name: str, program: str = WRITE, options: Any = None) -> Job:
    options = {"a": [1, 2]} if options is None else options
    file = folder / f"{name}.json"
    return Job(name, file, [sys.executable, "-c", program, str(file), json.dumps(options)], options)


def run(jobs: list[Job], parallel: int = 2) -> tuple[list[dict[str, Any]], list[str]]:
    said: list[str] = []
    return list(run_jobs(jobs, parallel, lambda result: f"value {result['value']}", said.append)), said


def test_results_come_back_and_are_kept_while_their_options_are_the_same(tmp_path: Path) -> None:
    results, said = run([job(tmp_path / "new", "a"), job(tmp_path / "new", "b")])
    assert [result["value"] for result in results] == [7, 7]
    assert sorted(line[6:] for line in said) == ["done: a: value 7", "done: b: value 7"]
    assert [line[:5] for line in said] == ["[1/2]", "[2/2]"]
    again, said = run([job(tmp_path / "new", "a", "raise SystemExit(1)")])
    assert again == results[:1] and said == ["[1/1] kept: a"]
    _, said = run([job(tmp_path / "new", "a", options={"a": [1, 3]})])
    assert said == ["[1/1] done: a: value 7"]


def test_tuples_in_the_options_count_as_the_lists_that_json_makes_of_them(tmp_path: Path) -> None:
    it = Job("a", tmp_path / "a.json", ["true"], {"a": (1, 2)})
    write_result(it.file, {"options": it.options})
    assert finished(it) is not None and not list(tmp_path.glob("*.tmp"))


def test_a_failure_is_told_by_its_last_line_and_the_others_go_on(tmp_path: Path) -> None:
    bad = job(tmp_path, "bad", "print('first'); raise ValueError('no such thing')")
    silent = job(tmp_path, "silent", "pass")
    results, said = run([bad, silent, job(tmp_path, "good")], parallel=1)
    assert len(results) == 1
    assert said[0] == f"[1/3] failed: bad: ValueError: no such thing ({tmp_path / 'bad.log'})"
    assert said[1] == f"[2/3] failed: silent: the sources changed meanwhile ({tmp_path / 'silent.log'})"


def test_jobs_run_side_by_side(tmp_path: Path) -> None:
    """Each waits for the other's file, so one after the other they would never end."""
    wait = (
        "import pathlib, sys, time; here = pathlib.Path(sys.argv[1]); here.with_suffix('.here').touch()\n"
        "while len(list(here.parent.glob('*.here'))) < 2: time.sleep(0.01)\n"
    )
    results, _ = run([job(tmp_path, name, wait + WRITE) for name in "ab"])
    assert len(results) == 2


def test_processes_end_with_their_caller(tmp_path: Path) -> None:
    forever = (
        "import pathlib, sys, time; here = pathlib.Path(sys.argv[1])\n"
        "while True: here.with_suffix('.beat').write_text(str(time.time())); time.sleep(0.01)"
    )
    results = run_jobs([job(tmp_path, "slow", forever), job(tmp_path, "fast")], 2, str, str)
    next(results)
    deadline = time.monotonic() + 5.0
    while not (tmp_path / "slow.beat").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    results.close()  # type: ignore[attr-defined]
    beat = (tmp_path / "slow.beat").read_text()
    time.sleep(0.1)
    assert (tmp_path / "slow.beat").read_text() == beat


def test_the_digest_sees_other_folders(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    assert source_digest() == source_digest() != source_digest(tmp_path)
