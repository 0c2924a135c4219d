"""Prepared files: bars come back unchanged, with their contract and where they came from, or not at all."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checked_bars import columns

from fox_env import read_bars
from fox_env.bars import Bars
from fox_env.contracts import ContractSpec, contract
from fox_env.errors import DataError
from fox_env.prepared import Source, stored_contract, stored_provenance, write_prepared
from fox_env.readers import write_bars


def bars(**further: Any) -> Bars:
    roll_gap = np.zeros(200)
    roll_gap[7] = 2.5 if further.get("adjusted", "none") == "none" else 0.0
    extra = {"open_interest": np.where(np.arange(200) % 9, np.arange(200.0), np.nan)}
    return Bars.from_arrays(**columns(), roll_gap=roll_gap, extra=extra, **further)


def test_bars_come_back_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "market.parquet"
    written = bars()
    write_prepared(written, path, contract("ES"))
    again = read_bars(path)
    for name in ("ts", "open", "high", "low", "close", "volume", "session_end", "gap", "roll_gap"):
        np.testing.assert_array_equal(getattr(again, name), getattr(written, name), err_msg=name)
    np.testing.assert_array_equal(again.extra["open_interest"], written.extra["open_interest"])
    assert list(again.extra) == ["open_interest"]


@pytest.mark.parametrize("adjusted", ["none", "difference", "ratio"])
def test_repairs_and_the_adjustment_come_back_too(tmp_path: Path, adjusted: str) -> None:
    path = tmp_path / "market.parquet"
    sentences = ["widen: 1 row whose high or low lies inside the body", "sort: 2 rows"]
    written = bars(adjusted=adjusted, repairs=sentences)
    write_prepared(written, path)
    again = read_bars(path)
    assert (again.repairs, again.adjusted) == (tuple(sentences), adjusted)
    write_bars(again, path)
    assert (read_bars(path).repairs, read_bars(path).adjusted) == (tuple(sentences), adjusted)


def test_parts_of_different_adjustment_are_not_joined(tmp_path: Path) -> None:
    parts = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    write_bars(bars()[:100], parts[0])
    write_bars(bars(adjusted="ratio")[100:], parts[1])
    with pytest.raises(
        DataError, match=r"b.parquet: has prices adjusted by ratio, .*a.parquet by none; give"
    ):
        read_bars(parts)
    write_bars(bars(adjusted="ratio")[:100], parts[0])
    assert read_bars(parts).adjusted == "ratio"


@pytest.mark.parametrize("entry", [{"fox_adjusted": "somehow"}, {"fox_repairs": "{"}, {"fox_repairs": "[1]"}])
def test_metadata_of_another_version_are_refused(tmp_path: Path, entry: dict[str, str]) -> None:
    path = tmp_path / "market.parquet"
    write_bars(bars(), path, entry)
    with pytest.raises(
        DataError, match=rf"market.parquet: the metadata entry {next(iter(entry))} cannot be read"
    ):
        read_bars(path)


def test_the_contract_is_kept_with_every_field(tmp_path: Path) -> None:
    path = tmp_path / "market.parquet"
    own = ContractSpec(
        "MINE", 0.3, 7.0, maker_fee=-0.5, currency="EUR", timezone="Europe/Berlin", session="EUREX"
    )
    for spec in (own, contract("rb")):
        write_prepared(bars(), path, spec)
        assert stored_contract(path) == spec
    write_prepared(bars(), path)
    assert stored_contract(path) is None


def test_the_provenance_names_sources_hints_repairs_and_versions(tmp_path: Path) -> None:
    raw = tmp_path / "raw.csv"
    raw.write_bytes(b"anything")
    path = tmp_path / "market.parquet"
    write_prepared(bars(repairs=["sort: 1 row"]), path, sources=[Source.of(raw)], hints={"tz": "UTC"})
    found = stored_provenance(path)
    assert found is not None
    digest = hashlib.sha256(b"anything").hexdigest()
    assert found["sources"] == [{"file": str(raw), "bytes": 8, "sha256": digest}]
    assert (found["hints"], found["repairs"], found["rows"]) == ({"tz": "UTC"}, ["sort: 1 row"], 200)
    assert set(found["versions"]) == {"fox-futures", "numpy", "polars"}


def test_the_same_bars_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for path in (first, second):
        write_prepared(bars(), path, contract("ES"))
    assert first.read_bytes() == second.read_bytes()


def test_other_files_hold_neither(tmp_path: Path) -> None:
    plain, text, broken = (tmp_path / name for name in ("plain.parquet", "text.csv", "broken.parquet"))
    write_bars(bars(), plain)
    text.write_text("a,b\n1,2\n")
    broken.write_bytes(b"PAR1 and nothing more")
    for path in (plain, text, broken):
        assert stored_contract(path) is None and stored_provenance(path) is None
    with pytest.raises(DataError, match="cannot be read"):
        stored_contract(tmp_path / "absent.parquet")


@pytest.mark.parametrize(
    "text", ["{", '{"symbol": "X"}', '{"symbol": "X", "tick_size": 1, "multiplier": 1, "new": 2}']
)
def test_a_contract_of_another_version_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "market.parquet"
    write_bars(bars(), path, {"fox_contract": text})
    with pytest.raises(DataError, match=r"the contract in the file cannot be read .*; prepare it again"):
        stored_contract(path)


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "market.parquet"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(
        DataError, match=r"market.parquet: the file cannot be written: No space left on device"
    ):
        write_prepared(bars(), path)
    with pytest.raises(DataError, match=r"market.parquet: the file cannot be written"):
        write_bars(bars(), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_source_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    raw = tmp_path / "raw.csv"
    raw.write_text("one")
    source = Source.of(raw)
    source.check_unchanged()
    raw.write_text("one two")
    with pytest.raises(DataError, match=r"raw.csv: the file changed while it was read"):
        source.check_unchanged()
    with pytest.raises(DataError, match="the file cannot be read"):
        Source.of(tmp_path)


def test_files_of_one_contract_have_it_and_of_several_are_refused(tmp_path: Path) -> None:
    rb, more, plain, other, dearer = (
        tmp_path / f"{name}.parquet" for name in ("rb", "more", "plain", "cu", "rb2")
    )
    write_prepared(bars(), rb, contract("rb"))
    write_prepared(bars(), more, contract("rb"))
    write_prepared(bars(), other, contract("cu"))
    write_prepared(bars(), dearer, replace(contract("rb"), fee_rate=0.5))
    write_bars(bars(), plain)
    assert stored_contract([plain, rb, str(more)]) == contract("rb")
    assert stored_contract([plain]) is None
    with pytest.raises(
        DataError, match=r"cu.parquet: holds the contract cu, .*rb.parquet the contract rb; give"
    ):
        stored_contract((rb, other))
    with pytest.raises(DataError, match=r"rb2.parquet: holds the contract rb, .* with other terms; give"):
        stored_contract((rb, dearer))
