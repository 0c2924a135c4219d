"""What every benchmark shares: facts about the machine, medians of timings, a table and a JSON file."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium as gym

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "numpy",
    "polars",
    "TA-Lib",
    "gymnasium",
    "torch",
    "cuda-core",
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
)


def arguments(description: str) -> argparse.ArgumentParser:
    """Parser with the options that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--backend", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--quick", action="store_true", help="small sizes, few repetitions")
    parser.add_argument("--out", type=Path, help="JSON file (default: runs/benchmarks/NAME.json)")
    return parser


def single_stepper(env: "gym.Env[Any, Any]", actions: list[Any]) -> Callable[[], None]:
    """One reading's worth of steps of a single environment, with its resets."""
    env.reset(seed=0)

    def work() -> None:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return work


def cuda_present() -> bool:
    """Return whether torch sees an NVIDIA GPU."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def machine_facts() -> dict[str, Any]:
    """Where a figure was measured: hardware, versions and the commit of the code."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    facts: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "system": platform.platform(),
        "python": platform.python_version(),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": versions,
    }
    if cuda_present():
        import torch

        gpu = torch.cuda.get_device_properties(0)
        facts["gpu"] = {"name": gpu.name, "memory_gib": round(gpu.total_memory / 2**30, 1)}
        facts["torch_cuda"] = torch.version.cuda
    return facts


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def host_seconds(work: Callable[[], None], repeats: int) -> float:
    """Median wall time of ``work``, after one warm-up."""
    work()
    return statistics.median(_wall_time(work) for _ in range(repeats))


def launch_seconds(work: Callable[[], None], repeats: int) -> float:
    """Median time that the host spends in ``work`` on an idle GPU, without waiting for the GPU's end.

    Well below the device's own time where nothing in ``work`` synchronises.
    """
    import torch

    work()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        times.append(_wall_time(work))
    torch.cuda.synchronize()
    return statistics.median(times)


def _wall_time(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def device_seconds(work: Callable[[], object], repeats: int) -> float:
    """Median time of ``work`` on the GPU by CUDA events, after one warm-up."""
    import torch

    work()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(float(begin.elapsed_time(end)) / 1e3)
    return statistics.median(times)


def print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows of equal keys as an aligned table."""
    if not rows:
        return
    heads = list(rows[0])
    cells = [[_cell(row[h]) for h in heads] for row in rows]
    widths = [max(len(h), *(len(line[i]) for line in cells)) for i, h in enumerate(heads)]
    print(f"\n{title}")
    print("  ".join(h.rjust(w) for h, w in zip(heads, widths, strict=True)))
    for line in cells:
        print("  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e4 else f"{value:.3e}"
    return "-" if value is None else str(value)


def write_json(name: str, out: Path | None, tables: dict[str, Any]) -> None:
    """Write the tables with the machine's facts and the command line."""
    path = out or ROOT / "runs" / "benchmarks" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    command = " ".join(["python", f"benchmarks/{name}.py", *sys.argv[1:]])
    path.write_text(json.dumps({"command": command, "machine": machine_facts(), **tables}, indent=1) + "\n")
    print(f"\nwritten: {path}")
