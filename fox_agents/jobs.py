"""Jobs of an experiment: each a process of its own with a result file, kept for as long as it is of the same making."""

import functools
import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Job", "finished", "run_jobs", "source_digest", "write_result"]

_PACKAGES = Path(__file__).resolve().parents[1]
_SOURCES = tuple(_PACKAGES / name for name in ("cuda_src", "fox_agents", "fox_env"))


@dataclass(frozen=True)
class Job:
    """One process and where its result goes."""

    label: str
    """What a user sees of it."""
    file: Path
    """JSON file that the process writes by `write_result`; its log lies beside it."""
    command: Sequence[str]
    """Program and arguments."""
    options: Mapping[str, Any]
    """Plain values that the result's entry ``options`` must equal for the result to count."""


@functools.cache
def source_digest(*more: Path) -> str:
    """Hash of the sources that a result depends on: those of Fox, and the folders ``more``."""
    digest = hashlib.sha256()
    for folder in sorted((*_SOURCES, *more)):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".cuh", ".cu", ".cpp", ".h", ".toml"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def write_result(file: Path, result: Mapping[str, Any]) -> None:
    """Write a result at once, so that a file that is there is whole."""
    whole = file.with_name(f"{file.name}.tmp")
    whole.write_text(json.dumps(result, indent=1, default=float) + "\n", encoding="utf-8")
    whole.replace(file)


def finished(job: Job) -> dict[str, Any] | None:
    """The result of a job that was run with the same options, or None."""
    if not job.file.exists():
        return None
    result: dict[str, Any] = json.loads(job.file.read_text(encoding="utf-8"))
    return result if result["options"] == json.loads(json.dumps(job.options)) else None


def run_jobs(
    jobs: Sequence[Job],
    parallel: int,
    describe: Callable[[dict[str, Any]], str],
    say: Callable[[str], object],
) -> Iterator[dict[str, Any]]:
    """Run the jobs that have no result yet, some side by side; yield the result of each that has one.

    Processes that still run when the caller stops asking, as on an interrupt, are ended.

    Parameters
    ----------
    jobs : Sequence[Job]
        In the order in which they begin.
    parallel : int
        Most processes at a time; they share the cores.
    describe : Callable
        A few words on a result.
    say : Callable
        Takes a line of progress.
    """
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    environment["OMP_NUM_THREADS"] = str(max(len(os.sched_getaffinity(0)) // parallel, 1))
    waiting, running, number = list(jobs), list[tuple[subprocess.Popen[bytes], Job]](), 0
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                job = waiting.pop(0)
                found = finished(job)
                if found is not None:
                    number += 1
                    say(f"[{number}/{len(jobs)}] kept: {job.label}")
                    yield found
                    continue
                running.append((_start(job, environment), job))
            for entry in [each for each in running if each[0].poll() is not None]:
                running.remove(entry)
                number += 1
                found, why = _outcome(*entry)
                said = f"failed: {entry[1].label}: {why}"
                if found is not None:
                    said = f"done: {entry[1].label}: {describe(found)}"
                say(f"[{number}/{len(jobs)}] {said}")
                if found is not None:
                    yield found
            time.sleep(0.05)
    finally:
        for process, _ in running:
            process.terminate()
        for process, _ in running:
            process.wait()


def _start(job: Job, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    job.file.parent.mkdir(parents=True, exist_ok=True)
    with job.file.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(list(job.command), stdout=log, stderr=log, env=environment)


def _outcome(process: subprocess.Popen[bytes], job: Job) -> tuple[dict[str, Any] | None, str]:
    """The result of a process that ended, or None and why there is none."""
    log = job.file.with_suffix(".log")
    if process.returncode:
        lines = log.read_text(errors="replace").strip().splitlines()
        return None, f"{lines[-1] if lines else f'exit status {process.returncode}'} ({log})"
    found = finished(job)
    return found, "" if found is not None else f"the sources changed meanwhile ({log})"
