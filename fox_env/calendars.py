"""Trading sessions: when a market is open, from exchange calendars and a small table of what they lack."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import Bars, Flag, Int, known_intervals
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError

__all__ = [
    "ALIASES",
    "TEMPLATES",
    "Sessions",
    "Template",
    "evening_day",
    "find_sessions",
    "to_monday",
    "trading_days",
    "wall_clock",
]

Days = NDArray[np.datetime64]
_DAY_NS = 86_400_000_000_000
_EVENING_NS = 59_400_000_000_000
"""16:30 at the exchange: a session that opens from then on belongs to the next trading day (17:00 in Chicago, 18:00 in
New York, 21:00 in Shanghai)."""

_EVENING_UTC_NS = 73_800_000_000_000
"""20:30 UTC, in place of it where the exchange is not known: between the sessions of America and of Asia."""
_LIBRARY = "pandas_market_calendars"


class Pause(NamedTuple):
    """A daily halt: local wall time from and to, and the first day without it."""

    start: str
    stop: str
    until: str


@dataclass(frozen=True)
class Template:
    """The sessions of a group of contracts: the trading days of a library calendar, and its hours or others."""

    calendar: str
    """Name in pandas_market_calendars: trading days, holidays, early closes, and hours where `hours` is empty."""
    source: str
    """Where the hours come from."""
    hours: tuple[tuple[str, str], ...] = ()
    """Local wall times between which the market trades, in place of the library's."""
    night: tuple[str, str] | None = None
    """A night session, on the evening before a trading day unless a holiday lies between them."""
    late: tuple[str, str, str] | None = None
    """Regular close in the library, the close that held before, and the first day without it."""
    pause: Pause | None = None
    extended: bool = False
    """The library also knows trading before and after the regular hours."""
    closed: tuple[str, ...] = ()
    """Days on which the exchange was closed though the library opens it."""
    monday_first: bool = False
    """Leave out the session that the library opens on Saturday."""


_LIBRARY_HOURS = "hours of pandas_market_calendars"
_CHINA = "trading hours of the exchanges' rule books; holidays of the Shanghai stock exchange"
_COMMODITIES = Template(
    "SSE",
    _CHINA,
    hours=(("09:00", "10:15"), ("10:30", "11:30"), ("13:30", "15:00")),
    night=("21:00", "02:30"),  # the latest end of any product; the data say which end holds
)
_GOOD_FRIDAYS = ("2024-03-29", "2025-04-18")
"""No report of the labour market fell on them, so CME held no short session."""

_GLOBEX_LATE = ("16:00", "16:15", "2015-09-21")

TEMPLATES: Mapping[str, Template] = MappingProxyType(
    {
        "CME_EQUITY": Template(
            "CME Globex Equity",
            f"{_LIBRARY_HOURS}; CME: close 16:15 until 2015-09-20, halt 15:15 to 15:30 until 2021-06-27",
            late=_GLOBEX_LATE,
            pause=Pause("15:15", "15:30", "2021-06-28"),
            closed=_GOOD_FRIDAYS,
        ),
        "CME_FX": Template("CMEGlobex_FX", _LIBRARY_HOURS, closed=_GOOD_FRIDAYS),
        "CME_RATES": Template("CME Globex Interest Rate Products", _LIBRARY_HOURS, closed=_GOOD_FRIDAYS),
        "CME_ENERGY": Template(
            "CMEGlobex_Energy", f"{_LIBRARY_HOURS}; CME: close 16:15 until 2015-09-20", late=_GLOBEX_LATE
        ),
        "CME_METALS": Template(
            "CMEGlobex_Metals", f"{_LIBRARY_HOURS}; CME: close 16:15 until 2015-09-20", late=_GLOBEX_LATE
        ),
        "CME_LIVESTOCK": Template("CMEGlobex_Livestock", _LIBRARY_HOURS),
        "CME_CRYPTO": Template("CME Globex Crypto", _LIBRARY_HOURS),
        "CBOT_GRAINS": Template("CMEGlobex_Grains", _LIBRARY_HOURS),
        "ICE_US": Template("ICEUS", _LIBRARY_HOURS),
        "EUREX": Template(
            "EUREX",
            "Eurex: 01:10 to 22:00 at most, the opening moved several times; holidays of the library",
            hours=(("01:00", "22:00"),),
        ),
        "SHFE": _COMMODITIES,
        "INE": _COMMODITIES,
        "DCE": _COMMODITIES,
        "CZCE": _COMMODITIES,
        "GFEX": replace(_COMMODITIES, night=None),
        "CFFEX": Template("SSE", _CHINA, hours=(("09:15", "11:30"), ("13:00", "15:15"))),
        "NYSE": Template("NYSE", _LIBRARY_HOURS, extended=True),
        "FX": Template("FX", f"{_LIBRARY_HOURS}: Sunday 17:00 to Friday 17:00 New York", monday_first=True),
        "24/7": Template("24/7", "always open"),
    }
)
"""Session templates by the name that ``ContractSpec.session`` gives; other names are tried in the library itself.

Hours that differ between products or years, such as the end of the Chinese night sessions or the opening of
Eurex, are the widest ones here and narrowed to those in use by :meth:`Sessions.in_use`."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {"CME": "CME_EQUITY", "EQUITY": "NYSE", "NASDAQ": "NYSE", "FOREX": "FX", "CRYPTO": "24/7"}
)
"""Other names of templates."""


@dataclass(frozen=True)
class Sessions:
    """Times at which a market is open, as pieces in time order; a break within a session divides it.

    Attributes
    ----------
    name : str
        Template or calendar.
    opens, closes : int64 (K,)
        Start and end of each piece, ns UTC; a bar belongs to it when it ends in ``(open, close]``.
    session : int64 (K,)
        Number of the session that the piece is part of, ascending.
    day : datetime64[D] (K,)
        Trading day.
    night : bool (K,)
        The piece belongs to a night session.
    """

    name: str
    opens: Int
    closes: Int
    session: Int
    day: Days
    night: Flag

    def piece_of(self, ts: Int) -> Int:
        """Return the last piece that opened before each time; -1 before the first one."""
        return np.searchsorted(self.opens, ts, side="left").astype(np.int64) - 1

    def covers(self, ts: Int, interval: int) -> Flag:
        """Whether each bar, from `interval` ns before its time up to it, meets a session."""
        piece = self.piece_of(ts)
        return (piece >= 0) & (ts - interval < self.closes[piece])

    def in_use(self, ts: Int, interval: int) -> Sessions:
        """Narrow the sessions to the hours in which the data have bars, month by month.

        The widest hours of a template are not those of every product, and data may hold regular hours only.
        In each month a session starts at the time, counted from its opening, by which a fifth of the sessions
        had their first bar, and ends where at most a fifth had a later last bar. A month that has day sessions
        but no night session has none.

        Parameters
        ----------
        ts : int64 (T,)
            Bar closes in ns UTC, ascending.
        interval : int
            Length of a bar in ns.
        """
        piece = self.piece_of(ts)
        inside = (piece >= 0) & (ts <= self.closes[piece])
        first_piece = np.flatnonzero(np.diff(self.session, prepend=-1))
        start = self.opens[first_piece]
        number = self.session[piece[inside]]
        numbers, first = np.unique(number, return_index=True)
        last = np.append(first[1:], len(number)) - 1
        begun = ts[inside][first] - start[numbers] - interval
        ended = ts[inside][last] - start[numbers]
        month = self.day[first_piece].astype("datetime64[M]").astype(np.int64) * 2 + self.night[first_piece]
        skip = np.zeros(len(start), dtype=np.int64)
        length = np.full(len(start), 2 * _DAY_NS)  # longer than any session: no limit
        for group in np.unique(month[numbers]):
            own, seen = month == group, month[numbers] == group
            skip[own] = max(int(np.quantile(begun[seen], 0.2, method="lower")), 0)
            length[own] = np.quantile(ended[seen], 0.8, method="higher")
        no_night = (month % 2 == 1) & ~np.isin(month, month[numbers]) & np.isin(month - 1, month[numbers])
        opens = np.maximum(self.opens, (start + skip)[self.session])
        closes = np.minimum(self.closes, (start + length)[self.session])
        keep = (opens < closes) & ~no_night[self.session]
        kept = np.unique(self.session[keep], return_inverse=True)[1]
        return Sessions(self.name, opens[keep], closes[keep], kept, self.day[keep], self.night[keep])


def find_sessions(spec: ContractSpec, ts: Int) -> Sessions | None:
    """Return the sessions of a contract around the times of its bars, or None for an unknown template.

    Parameters
    ----------
    spec : ContractSpec
        Its ``session`` names a template of :data:`TEMPLATES` or a calendar of pandas_market_calendars.
    ts : int64 (T,)
        Bar closes in ns UTC, ascending.

    Raises
    ------
    ConfigError
        The calendar library is not installed.
    """
    name = ALIASES.get(spec.session, spec.session)
    template = TEMPLATES.get(name)
    if template is None:
        if name not in _library().get_calendar_names():
            return None
        template = Template(name, _LIBRARY_HOURS)
    first, last = (np.datetime64(int(t), "ns").astype("datetime64[Y]") for t in (ts[0], ts[-1]))
    years = int(first.astype(int)) + 1970, int(last.astype(int)) + 1970  # whole years, for the cache
    sessions = _build(name, template, *years, extended=False)
    if template.extended and np.mean(sessions.covers(ts, 1)) < 0.98:
        sessions = _build(name, template, *years, extended=True)
    return sessions


def _library() -> Any:
    """Import the calendar library, which takes seconds."""
    try:
        return importlib.import_module(_LIBRARY)
    except ModuleNotFoundError:
        raise ConfigError(
            "Sessions and holidays need the package pandas_market_calendars; "
            "pip install 'fox-futures[data]' adds it."
        ) from None


@functools.lru_cache(maxsize=16)
def _build(name: str, template: Template, first: int, last: int, *, extended: bool) -> Sessions:
    """Lay out the sessions of whole years, with some days on either side."""
    calendar = _library().get_calendar(template.calendar)
    span = f"{first - 1}-12-20", f"{last + 1}-01-10"
    around = {"start": "pre", "end": "post"} if extended else {}
    schedule = calendar.schedule(*span, **around)
    days = schedule.index.to_numpy().astype("datetime64[D]")
    open_days = ~np.isin(days, np.array(template.closed, dtype="datetime64[D]"))
    schedule, days = schedule[open_days], days[open_days]
    zone = str(calendar.tz)
    if template.hours:
        opens, closes, day = _own_hours(days, zone, template.hours)
        closes = np.minimum(closes, _early_closes(schedule, zone)[np.searchsorted(days, day)])
        opens, closes, day = opens[opens < closes], closes[opens < closes], day[opens < closes]
    else:
        opens, closes, day = _library_hours(schedule, days)
    if template.late:
        closes = _apply_late_close(closes, day, zone, template.late)
    if template.pause:
        opens, closes, day = _apply_pause(opens, closes, day, zone, template.pause)
    night = np.zeros(len(day), dtype=np.bool_)
    if template.night:
        before = days[1:][np.is_busday(days[1:]) & (np.busday_count(days[:-1], days[1:]) == 1)]
        evening = np.busday_offset(before, -1)
        more_opens, more_closes, _ = _own_hours(evening, zone, (template.night,))
        opens, closes = np.append(opens, more_opens), np.append(closes, more_closes)
        day, night = np.append(day, before), np.append(night, np.ones(len(before), dtype=np.bool_))
    order = np.argsort(opens, kind="stable")
    if template.monday_first:
        order = order[np.is_busday(day[order])]
    opens, closes, day, night = opens[order], closes[order], day[order], night[order]
    changes = (np.diff(day, prepend=day[:1]) != np.timedelta64(0)) | (np.diff(night, prepend=night[:1]) != 0)
    return Sessions(name, opens, closes, np.cumsum(changes), day, night)


def _library_hours(schedule: Any, days: Days) -> tuple[Int, Int, Days]:
    """Read the pieces of a schedule, divided by its breaks."""
    opening = "pre" if "pre" in schedule else "market_open"
    closing = "post" if "post" in schedule else "market_close"
    opens, closes = _column(schedule, opening), _column(schedule, closing)
    if "break_start" not in schedule:
        return opens, closes, days
    pauses, resumes = _column(schedule, "break_start"), _column(schedule, "break_end")
    broken = (pauses > opens) & (pauses < resumes) & (resumes < closes)  # NaT is the smallest integer
    firsts = np.where(broken, pauses, closes)
    return (
        np.append(opens, resumes[broken]),
        np.append(firsts, closes[broken]),
        np.append(days, days[broken]),
    )


def _column(schedule: Any, name: str) -> Int:
    """Read a column of a schedule in ns UTC."""
    times: Int = schedule[name].dt.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    return times


def _early_closes(schedule: Any, zone: str) -> Int:
    """Return the close of every day that closes earlier than most do; the last moment there is for the others."""
    closes = _column(schedule, "market_close")
    times, place, count = np.unique(
        wall_clock(closes, zone) % _DAY_NS, return_inverse=True, return_counts=True
    )
    early = times[place] < times[count.argmax()]
    return np.where(early, closes, np.iinfo(np.int64).max)


def _own_hours(days: Days, zone: str, hours: tuple[tuple[str, str], ...]) -> tuple[Int, Int, Days]:
    """Lay hours of the wall clock on days; an end that is not after its start falls on the next day."""
    opens, closes = [], []
    for start, stop in hours:
        opens.append(_at(days, start, zone))
        closes.append(_at(days + (stop <= start), stop, zone))
    return np.concatenate(opens), np.concatenate(closes), np.tile(days, len(hours))


def _apply_late_close(closes: Int, day: Days, zone: str, late: tuple[str, str, str]) -> Int:
    """Move regular closes to the later one that held before a date; early closes stay."""
    regular, later, until = late
    moved = (closes == _at(day, regular, zone)) & (day < np.datetime64(until))
    return np.where(moved, _at(day, later, zone), closes)


def _apply_pause(opens: Int, closes: Int, day: Days, zone: str, pause: Pause) -> tuple[Int, Int, Days]:
    """Divide the sessions that trade through a daily halt."""
    stops, resumes = _at(day, pause.start, zone), _at(day, pause.stop, zone)
    broken = (day < np.datetime64(pause.until)) & (opens < stops) & (resumes < closes)
    return (
        np.append(opens, resumes[broken]),
        np.append(np.where(broken, stops, closes), closes[broken]),
        np.append(day, day[broken]),
    )


def trading_days(bars: Bars, spec: ContractSpec | None) -> Int:
    """Return the trading day of each bar, in days since 1970.

    Parameters
    ----------
    bars : Bars
    spec : ContractSpec or None
        A session belongs to the day at the exchange on which it opens, from 16:30 on to the next one, and on a
        weekend to the Monday. None: the day of UTC, from 20:30 on the next one. A session that lasts longer than a
        day is divided every 24 hours since the day opened; a market that is always open, at midnight.
    """
    if spec is not None and ALIASES.get(spec.session, spec.session) == "24/7":
        return wall_clock(bars.ts - 1, spec.timezone) // _DAY_NS
    opened = (bars.ts - known_intervals(bars.ts))[bars.session_start]
    session = np.cumsum(bars.session_start) - 1
    last = bars.ts[np.append(np.flatnonzero(bars.session_start)[1:], len(bars)) - 1]
    first: list[int] = []
    phase: list[int] = []
    today, clock = -1, 0
    for day, start, stop in zip(
        _opening_days(opened, spec).tolist(), opened.tolist(), last.tolist(), strict=True
    ):
        if not first or day > today:  # else the day goes on after a break
            today, clock = day, start % _DAY_NS
        first.append(today)
        phase.append(clock)
        today += (stop - 1 - clock) // _DAY_NS - (start - clock) // _DAY_NS
    clocks = np.array(phase, dtype=np.int64)
    begun = np.array(first, dtype=np.int64) - (opened - clocks) // _DAY_NS
    days: Int = begun[session] + (bars.ts - 1 - clocks[session]) // _DAY_NS
    return days


def _opening_days(opened: Int, spec: ContractSpec | None) -> Int:
    """Return the trading day on which sessions that open at these times begin."""
    if spec is None:
        return (opened + _DAY_NS - _EVENING_UTC_NS) // _DAY_NS
    return to_monday(evening_day(wall_clock(opened, spec.timezone)))


def evening_day(opened: Int) -> Int:
    """Return the day, since 1970, of a session that opens at this wall-clock time (ns): from 16:30 on the next one."""
    day: Int = (opened + _DAY_NS - _EVENING_NS) // _DAY_NS
    return day


def to_monday(day: Int) -> Int:
    """Return days since 1970, those of a weekend moved to the Monday after."""
    weekday = (day + 3) % 7  # 1970-01-01 was a Thursday
    moved: Int = day + np.where(weekday >= 5, 7 - weekday, 0)
    return moved


def wall_clock(ts: Int, timezone: str) -> Int:
    """Return the wall clock of UTC times, both as ns since 1970.

    Parameters
    ----------
    ts : int64 (T,)
        ns UTC.
    timezone : str
        IANA zone.
    """
    import polars as pl

    stamps = pl.Series(ts).cast(pl.Datetime("ns", "UTC")).dt.convert_time_zone(timezone)
    wall: Int = stamps.dt.replace_time_zone(None).to_physical().to_numpy()
    return wall


def _at(days: Days, clock: str, zone: str) -> Int:
    """Return a wall-clock time on every day in ns UTC."""
    import polars as pl

    hours, minutes = (int(part) for part in clock.split(":"))
    wall = days.astype("datetime64[ns]") + np.timedelta64(hours * 60 + minutes, "m")
    local = pl.Series(wall).dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return local.dt.timestamp("ns").to_numpy()
