"""The benchmarks run from start to end and write what they promise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["env_throughput", "train_throughput"])
def test_benchmark_runs_and_writes_machine_facts(name: str, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    command = [
        sys.executable,
        ROOT / "benchmarks" / f"{name}.py",
        "--backend",
        "cpu",
        "--quick",
        "--out",
        out,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert {"cpu", "cores", "commit", "versions"} <= result["machine"].keys()
    rows = result["cpu"] if name == "env_throughput" else result["rows"]
    assert all(row["env_steps_per_s"] > 0 for row in rows)
