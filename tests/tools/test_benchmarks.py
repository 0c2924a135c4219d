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


def test_feature_benchmark_measures_time_and_memory(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    command = [sys.executable, ROOT / "benchmarks" / "features.py", "--quick", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = {row["way"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) == {"build", "cached", "in memory"}
    assert all(row["bars"] == 100_000 and 0.05 < row["peak_gib"] < 1.0 for row in rows.values())
    assert rows["cached"]["cpu_s"] < rows["build"]["cpu_s"]


@pytest.mark.slow
def test_peers_are_measured_or_named_with_their_installation(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the benchmark draws a plot")
    out = tmp_path / "peers.json"
    command = [sys.executable, ROOT / "benchmarks" / "env_peers.py", "--quick", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    named = {row["library"] for row in (*result["rows"], *result["missing"])}
    assert named == {"fox", "gym-trading-env", "gym-anytrading", "torchtrade"}
    assert all(row["env_steps_per_s"] > 0 for row in result["rows"])
    assert all(row["install"].startswith("pip install ") for row in result["missing"])
    assert {row["peer"] for row in result["ratios"]} == {row["library"] for row in result["rows"]} - {"fox"}
    assert out.with_suffix(".png").stat().st_size > 10_000
