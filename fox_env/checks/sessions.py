"""Checks against trading sessions: missing bars and sessions, and bars while the market is closed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fox_env.bars import Fault, Int
from fox_env.calendars import Sessions, find_sessions, wall_clock
from fox_env.checks.series import Series, finding
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError

__all__ = ["session_faults"]

_DAY_NS = 86_400_000_000_000
_OUTSIDE_SHARE = 0.05
"""Share of bars outside the sessions from which on the sessions are wrong rather than the bars."""

_GRID_SHARE = 0.9
_FULL_SHARE = 0.9
_YEARS = (
    np.datetime64("1970-06-01", "ns").astype(np.int64),
    np.datetime64("2100-01-01", "ns").astype(np.int64),
)


class _Missing(NamedTuple):
    """What is missing before each bar."""

    bars: Int
    """Bars within sessions that have some."""
    sessions: Int
    """Whole sessions."""


def session_faults(series: Series) -> tuple[list[Fault], str]:
    """Report missing and misplaced bars, and say what they were judged by."""
    spec = series.spec
    if spec is None:
        return _spacing_faults(series), "the spacing of the bars, as no contract is named"
    if not (_YEARS[0] <= series.ts[0] and series.ts[-1] < _YEARS[1]):
        return _spacing_faults(series), "the spacing of the bars, as no calendar reaches their years"
    try:
        sessions = find_sessions(spec, series.ts)
    except ConfigError as error:
        return _spacing_faults(series), f"the spacing of the bars. {error}"
    if sessions is None:
        return _spacing_faults(
            series
        ), f"the spacing of the bars, as the session {spec.session!r} is not known"
    if series.interval > 1.5 * _DAY_NS:
        return [], f"nothing, as the bars are {series.interval / _DAY_NS:g} days apart"
    daily = series.interval > 0.9 * _DAY_NS
    faults = _daily_faults(series, spec, sessions) if daily else _intraday_faults(series, sessions)
    if sum(fault.rows.size for fault in faults if fault.kind == "outside_session") > _OUTSIDE_SHARE * len(
        series.ts
    ):
        return _mismatch(
            series, sessions, faults
        ), f"the spacing of the bars, as the sessions {sessions.name} do not fit"
    return faults, f"the sessions {sessions.name}"


def _spacing_faults(series: Series) -> list[Fault]:
    """Without a calendar a pause of up to 30 minutes is a gap, and a longer one ends the session."""
    step = np.diff(series.ts, prepend=series.ts[0])
    holes = (step > series.interval) & ~series.after_break & (series.interval > 0)
    return finding(
        "gap", holes, "ts", lambda i: f"{step[i] / 1e9:g} s since the bar before, within a session"
    )


def _mismatch(series: Series, sessions: Sessions, faults: list[Fault]) -> list[Fault]:
    outside = next(fault.rows for fault in faults if fault.kind == "outside_session")
    message = f"{outside.size / len(series.ts):.0%} of the bars lie outside the sessions {sessions.name}"
    return finding("session_mismatch", outside[:1], "ts", lambda _: message) + _spacing_faults(series)


def _outside(series: Series, sessions: Sessions, rows: Int) -> list[Fault]:
    def describe(row: int) -> str:
        time = series.ts[row].astype("datetime64[ns]").astype("datetime64[s]")
        if series.ts[row] in sessions.opens:
            return f"{time} UTC is when a session opens: is the bar stamped at its open (label='open')?"
        return f"{time} UTC lies outside the sessions {sessions.name}"

    return finding("outside_session", rows, "ts", describe)


def _intraday_faults(series: Series, sessions: Sessions) -> list[Fault]:
    inside = sessions.covers(series.ts, series.interval)
    faults = _outside(series, sessions, np.flatnonzero(~inside))
    rows = np.flatnonzero(inside)
    if len(rows) < 2 or series.interval == 0:
        return faults
    in_use = sessions.in_use(series.ts[rows], series.interval)
    missing = _missing(series.ts[rows], series.interval, in_use)

    def describe_gap(row: int) -> str:
        count = missing.bars[np.searchsorted(rows, row)]
        return f"{count:,} bar{'s are' if count > 1 else ' is'} missing before it, within a session"

    def describe_sessions(row: int) -> str:
        count = missing.sessions[np.searchsorted(rows, row)]
        return f"{count:,} session{'s have' if count > 1 else ' has'} no bars before it"

    faults += finding("gap", rows[missing.bars > 0], "ts", describe_gap)
    return faults + finding("missing_session", rows[missing.sessions > 0], "ts", describe_sessions)


def _missing(ts: Int, interval: int, sessions: Sessions) -> _Missing:
    """Count the bars that end in a session between each bar and the one before it."""
    expected = (sessions.closes - sessions.opens) // interval  # bars of each piece
    piece = np.maximum(sessions.piece_of(ts), 0)
    session = sessions.session[piece]
    whole = np.diff(session, prepend=session[0]) - 1
    whole = np.maximum(whole, 0)
    elapsed = np.clip((ts - sessions.opens[piece]) // interval, 0, expected[piece])
    on_grid = (ts - sessions.opens[piece]) % interval == 0
    if np.mean(on_grid) < _GRID_SHARE:
        return _Missing(np.zeros(len(ts), dtype=np.int64), whole)
    before = np.concatenate(([0], np.cumsum(expected)))
    between = np.diff(before[piece] + elapsed, prepend=0) - 1
    between[0] = 0
    per_session = np.bincount(sessions.session, expected).astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(per_session)))
    in_whole = np.zeros(len(ts), dtype=np.int64)
    after = np.flatnonzero(whole)
    in_whole[after] = starts[session[after]] - starts[session[after - 1] + 1]
    return _Missing(np.maximum(between - in_whole, 0), whole)


def _daily_faults(series: Series, spec: ContractSpec, sessions: Sessions) -> list[Fault]:
    """Compare the dates of daily bars with the trading days, whatever time of the day stamps them."""
    # A bar that ends at midnight is of the day before.
    dates = ((wall_clock(series.ts, spec.timezone) - _DAY_NS // 2) // _DAY_NS).astype("datetime64[D]")
    trading, piece_day = np.unique(sessions.day, return_inverse=True)
    inside = np.isin(dates, trading)
    rows = np.flatnonzero(inside)
    number = np.searchsorted(trading, dates[rows])
    # Shortened holiday sessions often count towards the next day, so only full ones are missed.
    length = np.bincount(piece_day, sessions.closes - sessions.opens)
    full = np.concatenate(([0], np.cumsum(length > _FULL_SHARE * np.median(length))))
    absent = np.zeros(len(rows), dtype=np.int64)
    absent[1:] = full[number[1:]] - full[number[:-1] + 1]

    def describe(row: int) -> str:
        count = absent[np.searchsorted(rows, row)]
        return f"{count:,} session{'s have' if count > 1 else ' has'} no bar before it"

    faults = _outside(series, sessions, np.flatnonzero(~inside))
    return faults + finding("missing_session", rows[absent > 0], "ts", describe)
