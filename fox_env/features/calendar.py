"""Exchange clock and session progress of a bar series, each known at the close of its own bar."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fox_env.calendars import wall_clock
from fox_env.features.windows import F64

DAY_SECONDS = 86_400.0
WEEK_SECONDS = 7 * DAY_SECONDS
REMEMBERED_SESSIONS = 5
FIRST_SESSION_MINUTES = 1_440.0

_MINUTE_NS = 60_000_000_000
_WEEK_NS = 604_800_000_000_000
_MONDAY_SHIFT_NS = 259_200_000_000_000  # the epoch was a Thursday
_TWO_PI = 6.283185307179586
_SIN = (-1 / 6, 1 / 120, -1 / 5_040, 1 / 362_880, -1 / 39_916_800, 1 / 6_227_020_800)
_COS = (-1 / 2, 1 / 24, -1 / 720, 1 / 40_320, -1 / 3_628_800, 1 / 479_001_600)


def sin_cos_turns(turns: F64) -> tuple[F64, F64]:
    """Return sine and cosine of ``2 pi turns``, accurate to 1e-14.

    Only + - * and rounding are used (Taylor series on an eighth of a turn), so the bits are the same on every
    machine; those of a mathematical library are not.
    """
    quarter = np.rint(4.0 * turns)
    angle = (turns - 0.25 * quarter) * _TWO_PI
    square = angle * angle
    sine, cosine = np.zeros_like(angle), np.zeros_like(angle)
    for s, c in zip(reversed(_SIN), reversed(_COS), strict=True):
        sine = (sine + s) * square
        cosine = (cosine + c) * square
    sine, cosine = angle + angle * sine, 1.0 + cosine
    turn = quarter.astype(np.int64) & 3
    return (
        np.choose(turn, [sine, cosine, -sine, -cosine]),
        np.choose(turn, [cosine, -sine, -cosine, sine]),
    )


def local_seconds_of_week(ts: NDArray[np.int64], timezone: str) -> F64:
    """Return seconds since Monday 00:00 on the wall clock of `timezone` for UTC nanosecond stamps."""
    return ((wall_clock(ts, timezone) + _MONDAY_SHIFT_NS) % _WEEK_NS) / 1e9


@dataclass(frozen=True)
class SessionClock:
    """Where every bar stands in its trading session; nothing here reads a later bar.

    Attributes
    ----------
    start : int64 array (T,)
        Row of the first bar of the session of each bar.
    progress : float64 array (T,)
        Share of the expected session that has passed, 0 at its first bar and at most 1.
    minutes_left : float64 array (T,)
        Expected minutes to the last bar of the session, at least 0.
    """

    start: NDArray[np.int64]
    progress: F64
    minutes_left: F64

    def __getitem__(self, rows: slice) -> SessionClock:
        """Return a run of rows as views; `start` still counts from the first row of the whole series."""
        return SessionClock(self.start[rows], self.progress[rows], self.minutes_left[rows])


def session_clock(ts: NDArray[np.int64], session_start: NDArray[np.bool_], timezone: str) -> SessionClock:
    """Derive the session position of every bar from the sessions that were complete before it.

    Parameters
    ----------
    ts : int64 array (T,)
        Bar closes, UTC nanoseconds.
    session_start : bool array (T,)
        True at the first bar after a break of trading; row 0 always starts a session.
    timezone : str
        IANA zone of the exchange, in which sessions that open at the same minute are recognised.

    Notes
    -----
    The expected length (first to last bar) is the longest of the last five completed sessions that opened at
    the same local minute, so that one early close does not shorten the next day; failing that, of the last
    five completed sessions of any kind; failing that, 24 hours.
    """
    begins = session_start.copy()
    begins[0] = True
    first = np.flatnonzero(begins)
    index = np.cumsum(begins, dtype=np.int64) - 1
    last = np.append(first[1:], len(ts)) - 1
    minutes = (ts[last] - ts[first]) / _MINUTE_NS
    opening = (local_seconds_of_week(ts[first], timezone) % DAY_SECONDS) // 60.0
    expected = _expected_minutes(opening.tolist(), minutes.tolist())[index]
    elapsed = (ts - ts[first][index]) / _MINUTE_NS
    return SessionClock(
        start=first[index],
        progress=np.minimum(elapsed / expected, 1.0),
        minutes_left=np.maximum(expected - elapsed, 0.0),
    )


def _expected_minutes(opening: list[float], minutes: list[float]) -> F64:
    """Return the expected length of each session from the lengths of those before it."""
    recent: deque[float] = deque(maxlen=REMEMBERED_SESSIONS)
    alike: dict[float, deque[float]] = {}
    expected = []
    for opens, length in zip(opening, minutes, strict=True):
        past = alike.setdefault(opens, deque(maxlen=REMEMBERED_SESSIONS))
        longest = max(past or recent, default=0.0)
        expected.append(longest if longest > 0.0 else FIRST_SESSION_MINUTES)
        past.append(length)
        recent.append(length)
    return np.asarray(expected, dtype=np.float64)
