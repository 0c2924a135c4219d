"""The feature cache: found by content, never used when stale or damaged, never in the way."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fox_env.features import Inputs, cache, evaluate, evaluation

LENGTH = 300


def inputs(**change: Any) -> Inputs:
    rng = np.random.default_rng(0)
    close = 400.0 + np.cumsum(rng.integers(-3, 4, LENGTH)).astype(np.float64)
    series = Inputs(
        ts=1_704_205_800_000_000_000 + np.arange(LENGTH, dtype=np.int64) * 60_000_000_000,
        session_start=np.arange(LENGTH) % 100 == 0,
        timezone="America/Chicago",
        open=close,
        high=close + 2.0,
        low=close - 1.0,
        close=close,
        volume=rng.integers(1, 99, LENGTH).astype(np.float64),
        atr=np.full(LENGTH, 4.0),
        mean_volume=np.full(LENGTH, 50.0),
        extra={},
    )
    return replace(series, **change)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fox"


def forbid_building(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(series: Inputs, write: Any) -> None:
        raise AssertionError("the table was built again")

    monkeypatch.setattr(cache, "stream", build)


def test_second_call_reads_the_same_bits_from_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = cache.load_or_build(inputs())
    forbid_building(monkeypatch)
    read = cache.load_or_build(inputs())
    np.testing.assert_array_equal(read.view(np.uint32), built.view(np.uint32))
    assert all(isinstance(table.base, np.memmap) and not table.flags.writeable for table in (built, read))
    np.testing.assert_array_equal(read, evaluate(inputs()))
    assert [path.suffix for path in folder.iterdir()] == [".npy"]


CHANGES: dict[str, Any] = {
    "ts": inputs().ts + 1,
    "session_start": np.arange(LENGTH) % 50 == 0,
    "timezone": "UTC",
    **{
        name: getattr(inputs(), name) + 1.0 for name in ("open", "high", "low", "close", "atr", "mean_volume")
    },
    "volume": None,
    "extra": {"signal": np.zeros(LENGTH)},
    "observed": (np.zeros(LENGTH),),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_input_is_part_of_the_key(name: str) -> None:
    assert cache.content_hash(inputs(**{name: CHANGES[name]})) != cache.content_hash(inputs())


def test_key_is_the_content_and_nothing_else() -> None:
    assert cache.content_hash(inputs()) == cache.content_hash(inputs(close=inputs().close.copy()))
    swapped = {"bid": np.zeros(LENGTH), "ask": np.ones(LENGTH)}
    assert cache.content_hash(inputs(extra=swapped)) == cache.content_hash(
        inputs(extra=dict(reversed(swapped.items())))
    )


def test_other_formulas_make_a_cached_table_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.load_or_build(inputs())
    monkeypatch.setattr(cache, "_code_hash", lambda: "another version")
    forbid_building(monkeypatch)
    with pytest.raises(AssertionError, match="built again"):
        cache.load_or_build(inputs())


def flip_a_bit(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_bit,
        lambda content: content[:-1],
        lambda content: content[:1000],
        lambda content: content + b"\0",
        lambda content: b"",
        lambda content: b"not an array",
    ],
    ids=["flipped bit", "byte missing", "truncated", "byte added", "empty", "other content"],
)
def test_damaged_table_is_built_again(folder: Path, damage: Any, caplog: pytest.LogCaptureFixture) -> None:
    built = cache.load_or_build(inputs()).copy()
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        again = cache.load_or_build(inputs())
    np.testing.assert_array_equal(again, built)
    assert "built again" in caplog.text
    caplog.clear()
    cache.load_or_build(inputs())
    assert not caplog.records, "the damaged file was not replaced"


def test_sound_file_of_another_shape_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = cache.load_or_build(inputs()).copy()
    (path,) = folder.iterdir()
    shorter = Inputs(**{**vars(inputs().rows(0, LENGTH - 1)), "whole": None})
    cache.load_or_build(shorter)
    os.replace(folder / f"features-{cache.content_hash(shorter)}.npy", path)
    np.testing.assert_array_equal(cache.load_or_build(inputs()), built)


def test_unusable_directory_only_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        table = cache.load_or_build(inputs())
    np.testing.assert_array_equal(table, evaluate(inputs()))
    assert len(caplog.records) == 1 and "stay in memory" in caplog.text
    assert str(tmp_path) in caplog.text


def test_missing_home_directory_only_costs_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    np.testing.assert_array_equal(cache.load_or_build(inputs()), evaluate(inputs()))
    assert len(caplog.records) == 1 and "set XDG_CACHE_HOME" in caplog.text


def test_table_in_a_directory_that_may_only_be_read_is_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    built = cache.load_or_build(inputs())
    forbid_building(monkeypatch)

    def refused(path: Path) -> None:
        raise PermissionError("Read-only file system")

    monkeypatch.setattr(os, "utime", refused)
    np.testing.assert_array_equal(cache.load_or_build(inputs()), built)
    assert not caplog.records


def test_table_is_an_ordinary_array_file(folder: Path) -> None:
    built = cache.load_or_build(inputs())
    (path,) = folder.iterdir()
    np.testing.assert_array_equal(np.load(path), built)


def test_runs_of_rows_give_the_bits_of_one_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    length = 2_500
    rng = np.random.default_rng(1)
    close = 400.0 + np.cumsum(rng.normal(size=length))
    names = ("buy_volume", "sell_volume", "bid_size", "ask_size", "ofi")
    series = Inputs(
        ts=1_704_205_800_000_000_000 + np.arange(length, dtype=np.int64) * 60_000_000_000,
        session_start=np.arange(length) % 333 == 0,
        timezone="America/Chicago",
        open=close,
        high=close + 2.0 * rng.random(length),
        low=close - rng.random(length),
        close=close,
        volume=rng.integers(1, 99, length).astype(np.float64),
        atr=1.0 + rng.random(length),
        mean_volume=np.full(length, 50.0),
        extra={name: rng.random(length) for name in names} | {"bid": close - 1.0, "ask": close + 1.0},
        observed=(rng.normal(size=length),),
    )
    whole = evaluate(series)
    monkeypatch.setattr(evaluation, "ROWS", 170)
    monkeypatch.setattr(cache, "ROWS", 170)
    np.testing.assert_array_equal(evaluate(series).view(np.uint32), whole.view(np.uint32))
    for table in (cache.load_or_build(series), cache.load_or_build(series)):
        np.testing.assert_array_equal(table.view(np.uint32), whole.view(np.uint32))
    (path,) = folder.iterdir()
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + content[middle + 344 :] + content[middle : middle + 344])
    np.testing.assert_array_equal(cache.load_or_build(series).view(np.uint32), whole.view(np.uint32))


def test_writers_at_the_same_time_do_not_meet(folder: Path) -> None:
    expected = evaluate(inputs())
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_feature_cache import *\n"
        "for _ in range(8):\n"
        "    [path.unlink(missing_ok=True) for path in cache.cache_dir().glob('features-*')]\n"
        "    assert (cache.load_or_build(inputs()) == evaluate(inputs())).all()"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for writer in writers:
        _, error = writer.communicate(timeout=120)
        assert writer.returncode == 0, error
    np.testing.assert_array_equal(cache.load_or_build(inputs()), expected)
    assert len(list(folder.iterdir())) == 1


def test_file_of_a_killed_writer_goes_after_a_day(folder: Path) -> None:
    folder.mkdir()
    killed, at_work = folder / "writing-a.npy", folder / "writing-b.npy"
    for path, age in ((killed, 2 * cache.ABANDONED_SECONDS), (at_work, 60.0)):
        path.write_bytes(b"part of a table")
        os.utime(path, (time.time() - age,) * 2)
    cache.load_or_build(inputs())
    assert not killed.exists() and at_work.exists()


def test_failed_write_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full_disk(source: str, target: Path) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    assert cache.load_or_build(inputs()).shape == (LENGTH, 86)
    assert list(folder.iterdir()) == []
    assert "No space left" in caplog.text


def test_least_recently_used_tables_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for number in range(3):
        series = inputs(ts=inputs().ts + number)
        held = cache.load_or_build(series)
        names.append(f"features-{cache.content_hash(series)}.npy")
        os.utime(folder / names[-1], (number, number))
    cache.load_or_build(inputs())  # the oldest is used again
    size = (folder / names[0]).stat().st_size
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3 * size)
    cache.load_or_build(inputs(ts=inputs().ts + 3))
    left = {path.name for path in folder.iterdir()}
    assert len(left) == 3 and names[0] in left and names[1] not in left
    assert np.isfinite(held).all()


def test_rows_that_changed_places_are_noticed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    built = np.array(cache.load_or_build(inputs()))
    (path,) = folder.glob("features-*.npy")
    content = bytearray(path.read_bytes())
    start, row = len(content) - (LENGTH + 1) * built.shape[1] * 4, built.shape[1] * 4
    one, two = (slice(start + number * row, start + (number + 1) * row) for number in (250, 251))
    content[one], content[two] = content[two], content[one]
    path.write_bytes(content)
    np.testing.assert_array_equal(cache.load_or_build(inputs()), built)
    assert "a checksum differs" in caplog.text
