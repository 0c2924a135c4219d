"""Files as bytes: what is unpacked, with how much memory, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from market_files import MINUTE, T0, put, table

from fox_env.errors import DataError
from fox_env.readers import read_bars
from fox_env.reading import content


def test_gzip_is_recognised_by_content(tmp_path: Path) -> None:
    text = table(["1715248800", "1715248860"])
    assert read_bars(put(tmp_path, gzip.compress(text.encode()), "wrong.parquet")).ts.tolist() == [
        T0,
        T0 + MINUTE,
    ]


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        read_bars(tmp_path / "absent.csv")
    with pytest.raises(DataError, match="is a directory"):
        read_bars(tmp_path)


def test_content_beyond_the_limit_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "FREE_BYTES", 10_000)
    with pytest.raises(DataError, match="unpacks to more than"):
        read_bars(put(tmp_path, gzip.compress(b"0" * 1_000_000)))
