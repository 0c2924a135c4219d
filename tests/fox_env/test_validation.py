"""The data report: every planted fault is found with its row, and clean bars give none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checked_bars import MINUTE, SPEC, T0, columns
from hypothesis import given, settings
from hypothesis import strategies as st

from fox_env.bars import PRICES, Bars
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError, DataError
from fox_env.prepared import write_prepared
from fox_env.readers import read_bars, read_columns
from fox_env.validation import KINDS, validate_bars


def test_clean_bars_give_an_empty_report() -> None:
    report = validate_bars(Bars.from_arrays(**columns()), SPEC)
    assert report.ok and report.problems == [] and report.counts == {}
    assert str(report) == "200 bars: ok"


def test_faults_of_every_kind_are_reported_together_errors_first() -> None:
    data = columns()
    data["volume"][3] = 0.0
    data["high"][5] = 90.0
    data["ts"][7] = data["ts"][6]
    report = validate_bars(data, SPEC)
    order = [("error", "warning", "note").index(KINDS[problem.kind].severity) for problem in report.problems]
    assert order == sorted(order)
    assert {"duplicate", "ohlc", "zero_volume"} <= set(report.counts)
    assert not report.ok


def test_off_tick_needs_a_contract_and_forgives_float32_noise() -> None:
    data = columns()
    noisy = {name: data[name].astype(np.float32).astype(np.float64) + 1e-4 for name in PRICES}
    assert validate_bars(data | noisy, SPEC).counts == {"float32": 200}
    assert "off_tick" not in validate_bars(data | {"low": data["low"] - 0.1}).counts
    assert validate_bars(data | {"low": data["low"] - 0.1}, SPEC).counts["off_tick"] == 200


def test_a_contract_is_known_by_name() -> None:
    assert validate_bars(columns(), "ES").counts == {}
    assert validate_bars(columns(), "YM").counts["off_tick"] > 0
    with pytest.raises(ConfigError, match="Unknown contract"):
        validate_bars(columns(), "nothing")


def test_missing_minutes_are_gaps_and_session_breaks_are_not() -> None:
    data = columns()
    data["ts"][10:] += 4 * MINUTE
    data["ts"][20:] += 60 * MINUTE
    report = validate_bars(Bars.from_arrays(**data))
    assert [problem[:3] for problem in report.problems] == [("gap", 10, "ts")]
    assert report.problems[0].message == "300 s since the bar before, within a session"


def test_the_same_move_is_a_jump_within_a_session_but_not_after_a_break() -> None:
    data = columns()
    for name in PRICES:
        data[name][100:] += 60.0  # the range is about 1.5, so 40 of them
    assert validate_bars(data).counts == {"jump": 1}
    data["ts"][100:] += 60 * MINUTE
    assert validate_bars(data).counts == {}


def test_a_roll_is_not_a_jump() -> None:
    data = columns()
    for name in PRICES:
        data[name][100:] += 60.0
    rolls = np.zeros(200)
    rolls[100] = 60.0
    assert validate_bars(Bars.from_arrays(**data, roll_gap=rolls)).counts == {}


def test_flat_bars_do_not_make_the_next_move_a_jump() -> None:
    data = columns()
    for name in PRICES:
        data[name][50:90] = data["close"][49]
        data[name][90:] += data["close"][49] - data["open"][90]
    assert "jump" not in validate_bars(data).counts


def test_no_volume_anywhere_is_one_warning() -> None:
    report = validate_bars(columns() | {"volume": np.zeros(200)})
    assert report.counts == {"no_volume": 200} and report.ok
    assert validate_bars(Bars.from_arrays(**(columns() | {"volume": None}))).counts == {}


def test_negative_prices_are_legal() -> None:
    data = columns()
    for name in PRICES:
        data[name] -= 100.0
    report = validate_bars(Bars.from_arrays(**data), SPEC)
    assert report.ok and set(report.counts) == {"negative_price"}


def test_a_flood_of_one_kind_is_listed_in_part_and_counted_in_full() -> None:
    data = columns()
    data["high"][:150] = 0.0
    report = validate_bars(data)
    assert report.counts["ohlc"] == 150
    assert [problem.row for problem in report.problems if problem.kind == "ohlc"] == list(range(20))


@given(rows=st.lists(st.integers(0, 199), min_size=1, max_size=15, unique=True))
def test_every_bad_row_is_counted(rows: list[int]) -> None:
    data = columns()
    data["close"][rows] = np.nan
    report = validate_bars(data)
    assert [p.row for p in report.problems if p.kind == "non_finite"] == sorted(rows)
    with pytest.raises(DataError, match=f"row {min(rows)}, column close"):
        Bars.from_arrays(**data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"ts": [1, 2], "open": [1, 1]}, "lack the column high"),
        (
            {name: [] for name in PRICES} | {"ts": np.zeros(0, np.int64)},
            "there are no rows",
        ),
        (
            {name: [1.0] for name in PRICES} | {"ts": [1, 2]},
            "column open has shape",
        ),
    ],
)
def test_incomplete_columns_are_refused(data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        validate_bars(data)


def test_a_faulty_file_is_reported_in_full(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(
        "timestamp_utc,open,high,low,close,volume\n"
        "2024-05-09 10:00,1,2,0.5,1.5,1\n2024-05-09 10:01,1,2,0.5,,1\n"
        "2024-05-09 10:00,1,2,0.5,1.5,1\n2024-05-09 10:03,1,1.25,0.5,1.5,0\n"
    )
    with pytest.raises(DataError, match="row 1 "):
        read_bars(path)
    report = validate_bars(read_columns(path))
    found = {(problem.kind, problem.row) for problem in report.problems}
    assert {("non_finite", 1), ("order", 2), ("ohlc", 3), ("zero_volume", 3)} <= found


VALUES = st.one_of(st.floats(), st.sampled_from([0.0, -37.63, 100.0, 100.25, 1000.0, 3.4028234663852886e38]))
STAMPS = st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(0, 60).map(lambda i: T0 + i * MINUTE))


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(STAMPS, *[VALUES] * 6), min_size=1, max_size=40),
    contract=st.sampled_from([None, SPEC]),
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_any_numbers_give_a_report(rows: list[tuple[float, ...]], contract: ContractSpec | None) -> None:
    names = ("ts", *PRICES, "volume", "open_interest")
    data = {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    report = validate_bars(data, contract)
    assert report.rows == len(rows)
    assert json.loads(report.to_json())["ok"] == report.ok
    usable = True
    try:
        Bars.from_arrays(*(data[name] for name in names[:-1]))
    except DataError:
        usable = False
    assert report.ok == usable


@pytest.mark.parametrize(("rows", "noted"), [(65_535, True), (65_536, True), (65_534, False)])
def test_trades_cut_by_a_spreadsheet_are_noted(tmp_path: Path, rows: int, noted: bool) -> None:
    path = tmp_path / "trades.csv"
    second = np.datetime64("2024-05-09T10:00:00") + np.arange(rows)
    path.write_text("timestamp_utc,price,size\n" + "".join(f"{time},5200.25,1\n" for time in second))
    report = validate_bars(read_bars(path, bars="1min"))
    sentence = f"{path} ends at {rows:,} rows, the limit of a spreadsheet: later rows are probably cut off"
    assert (sentence in report.repairs) == noted
    assert (f"reading: {sentence}" in str(report)) == noted


@pytest.mark.parametrize("values", [["1.0"] * 200, np.full(200, 1 + 2j), np.full(200, object())])
def test_prices_that_are_no_numbers_are_refused(values: Any) -> None:
    with pytest.raises(DataError, match=r"column close holds .* values, which are no numbers; convert it"):
        validate_bars(columns() | {"close": values})


@pytest.mark.parametrize("bars", [columns(), Bars.from_arrays(**columns())], ids=["columns", "bars"])
def test_hints_of_reading_are_refused_where_nothing_is_read(bars: Any) -> None:
    with pytest.raises(ConfigError, match=r"tz= is for reading a path or a frame; leave it out"):
        validate_bars(bars, tz="UTC")


def test_a_prepared_file_is_held_against_its_contract(tmp_path: Path) -> None:
    path = tmp_path / "market.parquet"
    write_prepared(Bars.from_arrays(**columns()), path, SPEC)
    assert validate_bars(path).contract == SPEC.symbol
    assert validate_bars(path, "CL").contract == "CL"
