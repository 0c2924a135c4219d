"""Features do not depend on the machine's time zone, locale or threads, nor on the file's format or time unit."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from feature_cases import COLUMN, SPEC, assert_same_bits, features, random_bars

from fox_env.contracts import ContractSpec
from fox_env.features import evaluation
from fox_env.readers import read_bars, write_bars

NEW_YORK = ContractSpec("T", tick_size=0.25, multiplier=1.0, timezone="America/New_York")

CODE = """
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
from feature_cases import features, random_bars
from test_feature_machine import NEW_YORK
from fox_env.readers import read_bars
bars = read_bars(sys.argv[2], tz="America/New_York", label="close")
tables = features(random_bars(500)), features(bars, NEW_YORK)
print(json.dumps([[hashlib.sha256(table.tobytes()).hexdigest() for table in tables], bars.ts.tolist()]))
"""


def run_elsewhere(path: Path, **environment: str) -> Any:
    command = [sys.executable, "-c", CODE, os.path.dirname(__file__), os.fspath(path)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "environment",
    [
        {"TZ": "Asia/Tokyo", "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"},
        {"TZ": "America/New_York", "LC_ALL": "C"},
        {"TZ": "UTC", "LC_ALL": "tr_TR.UTF-8", "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"},
    ],
    ids=["Tokyo in German", "New York", "one thread in Turkish"],
)
def test_machine_zone_locale_and_threads_change_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(
        "timestamp,open,high,low,close,volume\n"
        "2024-03-08 09:30,100.5,101,100,100.25,10\n2024-03-11 09:30,100.5,101,100,100.75,20\n"
    )
    (digest, naive), ts = run_elsewhere(path, **environment)
    assert ts == [1_709_908_200_000_000_000, 1_710_163_800_000_000_000]  # 14:30 and 13:30 UTC
    assert digest == hashlib.sha256(features(random_bars(500)).tobytes()).hexdigest()
    bars = read_bars(path, tz="America/New_York", label="close")
    table = features(bars, NEW_YORK)
    assert naive == hashlib.sha256(table.tobytes()).hexdigest()
    half_past_nine = math.sin(2 * math.pi * 9.5 / 24)
    assert table[:, COLUMN["day_sin"]] == pytest.approx([half_past_nine] * 2, abs=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
def test_number_of_threads_changes_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bars = random_bars(2_000)
    expected = features(bars)
    monkeypatch.setattr(evaluation, "ROWS", 600)
    monkeypatch.setattr("fox_env._native.max_threads", lambda: threads)
    assert_same_bits(features(bars), expected)


def test_formats_and_time_units_give_the_same_features(tmp_path: Path) -> None:
    bars = random_bars(600)
    expected = features(bars)
    columns = {name: getattr(bars, name) for name in ("open", "high", "low", "close", "volume")}
    stamps = bars.ts.astype("datetime64[ns]")
    paths = [tmp_path / "written.parquet"]
    write_bars(bars, paths[0])
    for unit in ("ms", "us", "ns"):
        frame = pl.DataFrame({"timestamp": stamps.astype(f"datetime64[{unit}]"), **columns})
        paths.append(tmp_path / f"{unit}.parquet")
        frame.with_columns(pl.col("timestamp").dt.replace_time_zone("UTC")).write_parquet(paths[-1])
    for name, times in {
        "seconds": bars.ts // 1_000_000_000,
        "nanoseconds": bars.ts,
        "iso": np.datetime_as_string(stamps, timezone="UTC"),
    }.items():
        paths.append(tmp_path / f"{name}.csv")
        pl.DataFrame({"timestamp": times, **columns}).write_csv(paths[-1])
    for path in paths:
        read = read_bars(path, label="close")
        np.testing.assert_array_equal(read.ts, bars.ts, err_msg=path.name)
        assert_same_bits(features(read, SPEC), expected)
