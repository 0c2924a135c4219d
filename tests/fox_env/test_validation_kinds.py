"""Every kind of problem has a smallest case that gives it and no other, in the row it was planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checked_bars import MINUTE, SPEC, T0, columns

from fox_env.bars import PRICES
from fox_env.validation import KINDS, repairs_of, validate_bars

pytest.importorskip("pandas_market_calendars")

DAY = 24 * 60 * MINUTE
Data = dict[str, Any]


def put(row: int, **values: float) -> Callable[[Data], None]:
    """Return an edit that sets values in one row."""

    def edit(data: Data) -> None:
        for name, value in values.items():
            data[name][row] = value

    return edit


def order(data: Data) -> None:
    for values in data.values():
        values[[50, 51]] = values[[51, 50]]


def duplicate(data: Data) -> None:
    data["ts"][50:] -= MINUTE


def microseconds(data: Data) -> None:
    data["ts"] //= 1_000


def next_year(data: Data) -> None:
    """Thursday 10:00 UTC again, 52 weeks later; whole sessions are missing as well, so no contract."""
    data["ts"][50:] += 364 * DAY


def wrong_contract(data: Data) -> None:
    """Data of a Saturday."""
    data["ts"] += 2 * DAY


def saturday_print(data: Data) -> None:
    data["ts"][199] = T0 + 2 * DAY


def scale(row: int) -> Callable[[Data], None]:
    def edit(data: Data) -> None:
        for name in PRICES:
            data[name][row] *= 10

    return edit


def zero(data: Data) -> None:
    for name in PRICES:
        data[name][50] = 0.0


def shift(data: Data) -> None:
    for name in PRICES:
        data[name][100:] += 60.0


def index(data: Data) -> None:
    data["volume"][:] = 0.0
    for name in PRICES:
        data[name] += 0.11


def idle(data: Data) -> None:
    data["volume"][:] = 0.0


def roll(data: Data) -> None:
    """Open interest grows by half and the price by 5 points over the daily halt."""
    for name in PRICES:
        data[name][100:] += 5.0
    data["ts"][100:] = T0 + np.arange(100) * MINUTE + 13 * 60 * MINUTE
    data["ts"][:100] = T0 + np.arange(100) * MINUTE + 9 * 60 * MINUTE + 21 * MINUTE
    data["open_interest"] = np.where(np.arange(200) < 100, 1000.0, 1500.0)


def halve(data: Data) -> None:
    roll(data)
    data["open_interest"][100:] = 500.0


def hole(data: Data) -> None:
    data["ts"][50:] += 3 * MINUTE


def missing_friday(data: Data) -> None:
    """The last 100 bars are those of Monday morning, 13 May."""
    data["ts"][100:] += 4 * DAY - 100 * MINUTE


def below_zero(data: Data) -> None:
    for name in PRICES:
        data[name] -= 300.0


def still(data: Data) -> None:
    price = data["close"][49]
    change = price - data["open"][62]
    for name in PRICES:
        data[name][49:62] = price
        data[name][62:] += change


def noise(data: Data) -> None:
    for name in PRICES:
        data[name] += 1e-3


def cut(data: Data) -> None:
    rows = np.resize(np.arange(200), 65_536)
    for name, values in data.items():
        data[name] = values[rows]
    data["ts"] = T0 + np.arange(65_536) * MINUTE


CASES: dict[str, tuple[Callable[[Data], None], int, str, int]] = {
    # kind: edit, first row, column, rows
    "order": (order, 51, "ts", 1),
    "duplicate": (duplicate, 50, "ts", 1),
    "non_finite": (put(50, volume=np.nan), 50, "volume", 1),
    "ohlc": (put(50, high=90.0), 50, "high", 1),
    "negative_volume": (put(50, volume=-1.0), 50, "volume", 1),
    "time_unit": (microseconds, 0, "ts", 1),
    "year": (next_year, 50, "ts", 1),
    "row_limit": (cut, 65_535, "ts", 1),
    "session_mismatch": (wrong_contract, 0, "ts", 1),
    "outside_session": (saturday_print, 199, "ts", 1),
    "zero_price": (zero, 50, "open", 1),
    "spike": (scale(50), 50, "open", 1),
    "jump": (shift, 100, "close", 1),
    "off_tick": (put(50, low=98.1), 50, "low", 1),
    "cash_index": (index, 0, "close", 200),
    "no_volume": (idle, 0, "volume", 200),
    "roll": (roll, 100, "open_interest", 1),
    "open_interest_break": (halve, 100, "open_interest", 1),
    "zero_volume": (put(50, volume=0.0), 50, "volume", 1),
    "gap": (hole, 50, "ts", 1),
    "missing_session": (missing_friday, 100, "ts", 1),
    "negative_price": (below_zero, 0, "low", 200),
    "flat": (still, 49, "close", 1),
    "float32": (noise, 0, "close", 200),
}
WITHOUT_CONTRACT = ("time_unit", "year", "row_limit")


def test_clean_bars_give_no_problem_of_any_kind() -> None:
    data = columns() | {"open_interest": np.linspace(1000.0, 1100.0, 200)}
    report = validate_bars(data, SPEC)
    assert report.counts == {} and report.problems == [] and report.ok
    assert report.sessions == "the sessions CME_EQUITY"


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_fault_is_found_and_nothing_else(kind: str) -> None:
    edit, row, column, rows = CASES[kind]
    data = columns()
    edit(data)
    report = validate_bars(data, None if kind in WITHOUT_CONTRACT else SPEC)
    assert report.counts == {kind: rows}, report
    assert report.first_of(kind)[:3] == (kind, row, column)
    severity = KINDS[kind].severity
    assert report.ok == (severity != "error")
    text = str(report)
    assert f"{severity}: {kind} in {rows:,} rows, first row {row}, column {column}: " in text
    assert f"mend: {KINDS[kind].mend}" in text
    for name in repairs_of(kind):
        assert f"repair={name!r}" in text


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("order", "time 2024-05-09T10:50:00 UTC is earlier than 2024-05-09T10:51:00 in the row before"),
        ("year", "364 days after the bar before"),
        ("row_limit", "the data end at 65,536 rows, the limit of a spreadsheet"),
        ("session_mismatch", "100% of the bars lie outside the sessions CME_EQUITY"),
        ("outside_session", "2024-05-11T10:00:00 UTC lies outside the sessions CME_EQUITY"),
        ("off_tick", "price 98.1 is not a multiple of T's tick 0.25; the tick 0.05 would fit"),
        ("cash_index", "no bar has volume and most closes lie off T's tick 0.25"),
        ("gap", "3 bars are missing before it, within a session"),
        ("missing_session", "1 session has no bars before it"),
        ("roll", "open interest changes by +50.0% and the price by +5 over the session break"),
        ("open_interest_break", "open interest changes by -50.0% and the price by +5 over the session break"),
    ],
)
def test_messages_say_what_was_found(kind: str, message: str) -> None:
    data = columns()
    CASES[kind][0](data)
    report = validate_bars(data, None if kind in WITHOUT_CONTRACT else SPEC)
    assert report.first_of(kind).message == message


def test_times_ahead_of_today_are_doubted() -> None:
    data = columns()
    data["ts"] += 3000 * 7 * DAY
    report = validate_bars(data)
    assert report.counts == {"year": 1}
    assert report.problems[0].message == "2081-11-06T10:00:00 UTC lies ahead of today"


@pytest.mark.parametrize("rows", [1_048_576, 1_048_575, 65_536, 65_535])
def test_every_limit_of_a_spreadsheet_is_known(rows: int) -> None:
    data = {name: np.ones(rows) for name in PRICES}
    data["ts"] = T0 + np.arange(rows) * MINUTE
    assert "row_limit" in validate_bars(data).counts
    assert "row_limit" not in validate_bars({name: values[:-2] for name, values in data.items()}).counts


def test_a_spike_in_a_single_column_is_named_there() -> None:
    data = columns()
    data["high"][50] *= 10
    report = validate_bars(data, SPEC)
    assert report.counts == {"spike": 1}
    assert report.problems[0][:3] == ("spike", 50, "high")
    assert "times the close beside it" in report.problems[0].message


def test_small_prices_of_an_ordinary_walk_are_no_spikes() -> None:
    """Ratios mean nothing near zero: crude oil crossed it within minutes."""
    data = columns()
    for name in PRICES:
        data[name] -= 100.0
    assert set(validate_bars(data, SPEC).counts) == {"negative_price"}


def test_a_marked_roll_is_not_reported() -> None:
    from fox_env.bars import Bars

    data = columns()
    roll(data)
    held = data.pop("open_interest")
    marked = np.zeros(200)
    marked[100] = 0.5
    bars = Bars.from_arrays(**data, roll_gap=marked, extra={"Open Interest": held})
    assert validate_bars(bars, SPEC).counts == {}
    assert validate_bars(Bars.from_arrays(**data, extra={"OI": held}), SPEC).counts == {"roll": 1}


def test_the_suspected_rolls_make_a_roll_column() -> None:
    from fox_env.bars import Bars
    from fox_env.validation import suspected_roll_gap

    data = columns()
    roll(data)
    held = data.pop("open_interest")
    bars = Bars.from_arrays(**data, extra={"open_interest": held})
    gaps = suspected_roll_gap(bars)
    assert gaps is not None
    assert np.flatnonzero(gaps).tolist() == [100]
    assert gaps[100] == bars.open[100] - bars.close[99] == 5.0
    assert suspected_roll_gap(bars[:100]) is None
    assert suspected_roll_gap(Bars.from_arrays(**data)) is None


@pytest.mark.parametrize(
    ("step", "tick"), [(0.1, "0.1"), (0.01, "0.01"), (1 / 32, "0.03125"), (1 / 3, None), (0.05, "0.05")]
)
def test_the_tick_that_would_fit_is_named(step: float, tick: str | None) -> None:
    data = columns()
    for name in PRICES:
        data[name] = np.rint(data[name] * 4) * step
    message = validate_bars(data, SPEC).first_of("off_tick").message
    assert message.endswith(f"the tick {tick} would fit" if tick else "tick 0.25")


def test_faults_in_rows_out_of_order_are_named_by_the_rows_of_the_file() -> None:
    data = columns()
    data["volume"][30] = 0.0
    data["low"][40] = 98.1
    reversed_rows = {name: values[::-1] for name, values in data.items()}
    report = validate_bars(reversed_rows, SPEC)
    assert report.counts == {"order": 199, "off_tick": 1, "zero_volume": 1}
    assert report.first_of("zero_volume").row == 169
    assert report.first_of("off_tick").row == 159
    assert "price 98.1 " in report.first_of("off_tick").message


@pytest.mark.parametrize(("factor", "found"), [(0.86, False), (1.14, False), (0.84, True), (1.16, True)])
def test_open_interest_may_change_by_fifteen_percent(factor: float, found: bool) -> None:
    data = columns()
    roll(data)
    data["open_interest"][100:] = 1000.0 * factor
    assert ("roll" in validate_bars(data, SPEC).counts) == found


def test_open_interest_that_changes_without_the_price_is_no_roll() -> None:
    data = columns()
    roll(data)
    for name in PRICES:
        data[name][100:] -= 5.0
    assert validate_bars(data, SPEC).counts == {}


@pytest.mark.parametrize(("bars", "found"), [(9, False), (10, True)])
def test_ten_bars_at_one_price_are_flat(bars: int, found: bool) -> None:
    data = columns()
    change = data["close"][49] - data["open"][50 + bars - 1]
    for name in PRICES:
        data[name][50 + bars - 1 :] += change
    for name in PRICES:
        data[name][50 : 50 + bars - 1] = data["close"][49]
        data[name][49] = data["close"][49]
    assert validate_bars(data, SPEC).counts == ({"flat": 1} if found else {})


@pytest.mark.parametrize(("factor", "found"), [(4.9, False), (5.1, True), (0.21, False), (0.19, True)])
def test_a_spike_is_five_times_its_neighbours(factor: float, found: bool) -> None:
    data = columns()
    for name in PRICES:
        data[name][50] = factor * data["close"][49]
    assert ("spike" in validate_bars(data).counts) == found


@pytest.mark.parametrize(("misplaced", "kind"), [(9, "outside_session"), (11, "session_mismatch")])
def test_sessions_are_doubted_when_more_than_five_percent_lie_outside(misplaced: int, kind: str) -> None:
    data = columns()
    data["ts"][-misplaced:] += 2 * DAY
    counts = validate_bars(data, SPEC).counts
    assert counts[kind] == (misplaced if kind == "outside_session" else 1)
    assert len({"outside_session", "session_mismatch"} & set(counts)) == 1
