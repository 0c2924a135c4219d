"""The feature cache: found by content, never used when stale or damaged, never in the way."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fox_env.features import Inputs, cache

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
    def build(series: Inputs) -> None:
        raise AssertionError("the table was built again")

    monkeypatch.setattr(cache, "evaluate", build)


def test_second_call_reads_the_same_bits_from_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = cache.load_or_build(inputs())
    forbid_building(monkeypatch)
    read = cache.load_or_build(inputs())
    np.testing.assert_array_equal(read.view(np.uint32), built.view(np.uint32))
    assert isinstance(read.base, np.memmap) and not read.flags.writeable
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
    built = cache.load_or_build(inputs())
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
    built = cache.load_or_build(inputs())
    (path,) = folder.iterdir()
    cache._store(path, built[:-1])
    np.testing.assert_array_equal(cache.load_or_build(inputs()), built)


def test_unusable_directory_only_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        table = cache.load_or_build(inputs())
    assert table.shape == (LENGTH, 86)
    assert "stay in memory" in caplog.text


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
