"""Missing and misplaced bars against the sessions of a contract, for every length of bar."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pytest
from checked_bars import MINUTE, SPEC, T0, columns

from fox_env.bars import PRICES, Bars
from fox_env.calendars import find_sessions
from fox_env.contracts import ContractSpec
from fox_env.validation import DataReport, validate_bars

pytest.importorskip("pandas_market_calendars")

DAY = 24 * 60 * MINUTE
STOCK = ContractSpec("S", tick_size=0.01, multiplier=1.0, session="NYSE", timezone="America/New_York")


def at(ts: Any) -> dict[str, Any]:
    """Return clean bars at the times given."""
    stamps = np.asarray(ts)
    if stamps.dtype.kind == "U":
        stamps = stamps.astype("datetime64[ns]").astype(np.int64)
    return {name: values[: len(stamps)] for name, values in columns(max(len(stamps), 200)).items()} | {
        "ts": stamps
    }


def every(minutes: int, first: str, last: str, spec: ContractSpec = SPEC) -> np.ndarray:
    """Return the closes of all bars of a length that end in a session."""
    start, stop = (np.datetime64(day, "ns").astype(np.int64) for day in (first, last))
    ts = np.arange(start, stop + 1, minutes * MINUTE)
    sessions = find_sessions(spec, ts)
    assert sessions is not None
    piece = sessions.piece_of(ts)
    return ts[(piece >= 0) & (ts <= sessions.closes[piece])]


@pytest.mark.parametrize("minutes", [1, 5, 15, 30, 60])
@pytest.mark.parametrize(("first", "last"), [("2023-11-17", "2023-11-29"), ("2024-03-07", "2024-03-14")])
def test_complete_sessions_have_no_gaps_over_holidays_and_clock_changes(
    minutes: int, first: str, last: str
) -> None:
    ts = every(minutes, first, last)
    assert validate_bars(at(ts), SPEC).counts == {}


@pytest.mark.parametrize("minutes", [1, 5, 30])
def test_bars_missing_at_both_ends_of_a_session_are_one_gap(minutes: int) -> None:
    """The last two bars of one session and the first three of the next."""
    ts = every(minutes, "2024-01-08", "2024-01-20")
    opening = int(np.searchsorted(ts, np.datetime64("2024-01-11T23:00", "ns").astype(np.int64), side="right"))
    cut = np.delete(ts, np.arange(opening - 2, opening + 3))
    report = validate_bars(at(cut), SPEC)
    assert report.counts == {"gap": 1}
    assert report.problems[0].row == opening - 2
    assert report.problems[0].message == "5 bars are missing before it, within a session"


def test_missing_sessions_and_missing_bars_are_counted_apart() -> None:
    ts = every(1, "2024-01-08", "2024-01-20")
    hole = slice(
        *np.searchsorted(ts, np.array(["2024-01-10T21:58", "2024-01-13"], "datetime64[ns]").astype(np.int64))
    )
    report = validate_bars(at(np.delete(ts, hole)), SPEC)
    assert report.counts == {"gap": 1, "missing_session": 1}
    assert report.first_of("gap").message == "3 bars are missing before it, within a session"
    assert report.first_of("missing_session").message == "2 sessions have no bars before it"


def test_data_of_regular_hours_have_no_gaps_at_night() -> None:
    ts = every(1, "2024-01-08", "2024-01-27")
    minute = ts % DAY // MINUTE
    regular = ts[(minute > 14 * 60 + 30) & (minute <= 21 * 60)]
    assert validate_bars(at(regular), SPEC).counts == {}


def test_bars_after_an_early_close_are_outside() -> None:
    ts = every(1, "2023-11-20", "2023-11-29")
    late = np.datetime64("2023-11-24T18:15", "ns").astype(np.int64) + np.arange(1, 4) * MINUTE
    report = validate_bars(at(np.sort(np.append(ts, late))), SPEC)
    assert report.counts == {"outside_session": 3}
    assert report.problems[0].message == "2023-11-24T18:16:00 UTC lies outside the sessions CME_EQUITY"


def test_irregular_bars_are_held_against_sessions_but_not_counted() -> None:
    """Bars of equal volume end whenever they end."""
    rng = np.random.default_rng(0)
    ts = np.cumsum(rng.integers(1, 120 * 10**9, 190)) + T0
    ts = np.append(ts, T0 + 2 * DAY)
    assert validate_bars(at(ts), SPEC).counts == {"outside_session": 1}


def daily(dates: list[str], clock: str) -> DataReport:
    return validate_bars(at(np.array([f"{date}T{clock}" for date in dates])), STOCK)


JANUARY = ["2024-01-10", "2024-01-11", "2024-01-12", "2024-01-16", "2024-01-17", "2024-01-18", "2024-01-19"]


@pytest.mark.parametrize("clock", ["21:00", "23:59"])
def test_daily_bars_over_a_holiday_are_complete(clock: str) -> None:
    """The exchange was closed on Monday 15 January; a bar may close in the afternoon or late at night."""
    assert daily(JANUARY, clock).counts == {}


def test_daily_bars_that_close_at_midnight_belong_to_the_day_before() -> None:
    for hour in ("00:00", "05:00"):  # UTC and New York
        next_days = [str(np.datetime64(date) + 1) for date in JANUARY]
        assert daily(next_days, hour).counts == {}


def test_a_missing_day_and_a_weekend_are_found_in_daily_bars() -> None:
    report = daily(JANUARY[:4] + JANUARY[5:], "21:00")
    assert [problem[:2] for problem in report.problems] == [("missing_session", 4)]
    assert report.problems[0].message == "1 session has no bar before it"
    many = [
        str(day) for day in np.arange("2024-01-02", "2024-02-29", dtype="datetime64[D]") if np.is_busday(day)
    ]
    trading = [day for day in many if day not in ("2024-01-15", "2024-02-19")]
    with_sunday = [*trading[:13], "2024-01-21", *trading[13:]]
    assert [p[:2] for p in daily(with_sunday, "21:00").problems] == [("outside_session", 13)]


def test_weekly_bars_are_not_held_against_sessions() -> None:
    report = validate_bars(at(T0 + np.arange(20) * 7 * DAY), SPEC)
    assert report.counts == {} and report.sessions == "nothing, as the bars are 7 days apart"


def test_an_unknown_session_is_judged_by_the_spacing_and_said() -> None:
    spec = ContractSpec("T", tick_size=0.25, multiplier=50.0, session="nowhere")
    data = columns()
    data["ts"][10:] += 4 * MINUTE
    report = validate_bars(data, spec)
    assert report.counts == {"gap": 1}
    assert report.sessions == "the spacing of the bars, as the session 'nowhere' is not known"


def test_without_the_library_the_spacing_judges_and_the_report_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas_market_calendars", None)
    spec = ContractSpec("T", tick_size=0.25, multiplier=50.0, session="a calendar of the library")
    report = validate_bars(columns(), spec)
    assert report.ok and report.counts == {}
    assert report.sessions.endswith("pip install 'fox-futures[data]' adds it.")


def test_years_without_a_calendar_are_judged_by_the_spacing() -> None:
    data = columns()
    data["ts"] = data["ts"] + 80 * 365 * DAY
    assert validate_bars(data, SPEC).sessions == "the spacing of the bars, as no calendar reaches their years"


def test_a_single_bar_is_fine() -> None:
    data = {name: values[:1] for name, values in columns().items()}
    assert validate_bars(data, SPEC).counts == {}


def test_a_million_minutes_are_checked_in_two_seconds() -> None:
    ts = every(1, "2019-01-01", "2021-12-15")
    assert len(ts) > 1_000_000
    cycle = columns(200_000)
    data = {name: np.resize(cycle[name], len(ts)) for name in (*PRICES, "volume")}
    bars = Bars.from_arrays(ts, **{name: values + 10_000.0 for name, values in data.items()})
    begun = time.process_time()  # not the wall clock: other processes may hold the cores
    report = validate_bars(bars, SPEC)
    assert time.process_time() - begun < 2.0
    assert report.rows == len(ts) and set(report.counts) <= {"jump"}
