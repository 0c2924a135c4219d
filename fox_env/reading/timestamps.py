"""Time stamps of data files: text, epochs and wall-clock times to ns since 1970 UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fox_env.errors import ConfigError, DataError
from fox_env.reading.spellings import respelled
from fox_env.reading.table import shown

if TYPE_CHECKING:
    import polars as pl

Int = NDArray[np.int64]
RowError = Callable[[int, str], DataError]
"""Makes the error for a row (from 0) and a message."""

_CALENDAR = (
    r"^(?:(?P<year>\d{4})(?:[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})|(?P<month2>\d{2})(?P<day2>\d{2}))"
    r"|(?P<one>\d{1,2})[-/.](?P<two>\d{1,2})[-/.](?P<year2>\d{4}|\d{2}))"
    r"(?:[T ]+(?P<hour>\d{1,2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,: ](?P<fraction>\d{1,9})\d*)?)?"
    r"\s*(?P<half>[AaPp][Mm])?)?"
    r"\s*(?P<offset>Z|[+-]\d{2}(?::?\d{2})?)?$"
)
_COMPACT = r"^((?:19|20)\d{6})(\d{4}|\d{6})$"
_COMPACT_MS = r"^((?:19|20)\d{6}) ?(\d{6})(\d{3})$"
_MIDNIGHT = (
    r"(?i)(?:(?:^\d{8}|[T ])\s*(?:00?:00(?::00(?:[.,]0+)?)?|0000(?:00)?)|[T ]12:00(?::00)? ?AM)"
    r"\s*(?:Z|[+-]\d{2}(?::?\d{2})?)?$"
)
_EPOCH = r"^-?\d{9,20}(?:\.\d+)?$"
_UNITS = ((1e11, 1_000_000_000, "s"), (1e14, 1_000_000, "ms"), (1e17, 1_000, "us"), (np.inf, 1, "ns"))
_PIVOT = 70
"""Years of two digits below it are of this century."""

_YEARS = (1678, 2261)
_LIMIT_NS = 9.2e18
_HOUR_NS = 3_600_000_000_000
_FAST = re.compile(
    r"(?P<date>\d{4}(?P<mark>[-/.])\d{2}(?P=mark)\d{2}|\d{8})(?:(?P<gap>[T ])(?P<time>\d{2}:\d{2}(?::\d{2})?|\d{6}))?"
    r"(?P<offset>Z|[+-]\d{2}:?\d{2})?"
)
_ORDERS = {"dmy": "day first", "mdy": "month first"}


class ParsedTimes(NamedTuple):
    """Times before a zone is applied.

    They are in ns, in UTC already or by a wall clock, bare dates, or all at midnight of the clock that the
    source shows; `zone` is the IANA zone that the cells name, if they do.
    """

    ns: Int
    utc: bool
    date_only: bool
    midnights: bool = False
    zone: str | None = None


def check_zone(tz: str) -> str:
    """Return a time-zone name or refuse it with a :class:`ConfigError`."""
    try:
        ZoneInfo(tz)
    except (ValueError, OSError, KeyError, TypeError):
        raise ConfigError(
            f"Unknown time zone tz={tz!r}; use an IANA name such as 'America/Chicago'."
        ) from None
    return tz


def parse_text(
    text: pl.Series, error: RowError, date_order: str | None = None, microseconds: bool = False
) -> ParsedTimes:
    """Parse a text column of epochs, or of calendar times.

    Parameters
    ----------
    text : polars.Series of String
    error : callable
        Makes the error for a row.
    date_order : {"ymd", "dmy", "mdy"}, optional
        Order of the numbers in dates that end in the year; refused where the column leaves it open.
    microseconds : bool
        Digits behind the second count microseconds instead of being a decimal fraction.
    """
    text = text.str.strip_chars()
    empty = (text.is_null() | (text == "")).to_numpy()
    if empty.any():
        raise error(int(np.argmax(empty)), "the time is missing; fill or remove the row")
    if (fast := _parse_regular(text)) is not None:
        return fast._replace(midnights=_at_midnight(text))
    text, zone = respelled(text, error)
    text = text.str.replace(_COMPACT, "$1 $2").str.replace(_COMPACT_MS, "$1 $2.$3")
    if text.head(1).str.contains(_EPOCH).item():
        return _parse_epoch_text(text, error)
    parsed = _parse_calendar(text, error, date_order, microseconds)
    return parsed._replace(midnights=_at_midnight(text), zone=zone and check_zone(zone))


def _at_midnight(text: pl.Series) -> bool:
    """Whether all times of day are midnight, whatever the offset."""
    return bool(text.head(1).str.contains(_MIDNIGHT).all() and text.str.contains(_MIDNIGHT).all())


def _parse_epoch_text(text: pl.Series, error: RowError) -> ParsedTimes:
    import polars as pl

    wrong = ~text.str.contains(_EPOCH).to_numpy()
    whole = not text.str.contains(".", literal=True).any()
    values = text.cast(pl.Int64 if whole else pl.Float64, strict=False)
    wrong |= values.is_null().to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise error(
            row, f"{shown(text[row])} is not a number of seconds or fractions since 1970 like the rows before"
        )
    return parse_epoch(values.to_numpy(), error)


def parse_epoch(values: NDArray[np.int64] | NDArray[np.float64], error: RowError) -> ParsedTimes:
    """Convert counts since 1970 UTC; the unit (s, ms, us, ns) follows from their size and must not change."""
    units = np.searchsorted([limit for limit, _, _ in _UNITS], values, side="right")
    mixed = (units != units[0]) | ~np.isfinite(values)
    if mixed.any():
        row, first = int(np.argmax(mixed)), _UNITS[min(units[0], 3)][2]
        here = _UNITS[min(units[row], 3)][2]
        raise error(row, f"{values[row]} is a time in {here}, but row 0 is in {first}; use one unit")
    ns = to_nanoseconds(values, _UNITS[units[0]][1], error)
    return ParsedTimes(ns, utc=True, date_only=False, midnights=bool((ns % (24 * _HOUR_NS) == 0).all()))


def to_nanoseconds(counts: NDArray[np.int64] | NDArray[np.float64], scale: int, error: RowError) -> Int:
    """Convert counts of a unit of `scale` ns; refuse those that int64 cannot hold in ns."""
    far = np.abs(counts.astype(np.float64) * scale) > _LIMIT_NS
    if far.any():
        row = int(np.argmax(far))
        raise error(row, f"{counts[row]} is outside the years 1678 to 2261; correct the time")
    if counts.dtype.kind == "f":
        # Microseconds are what a float64 of today's seconds resolves.
        return np.rint(counts * (scale / 1_000)).astype(np.int64) * 1_000
    return counts.astype(np.int64) * scale


def _parse_regular(text: pl.Series) -> ParsedTimes | None:
    """Parse a column whose cells all look like the first, fast; None where one does not."""
    match = _FAST.fullmatch(text[0])
    if match is None or text.str.contains(":60", literal=True).any():
        return None
    mark, gap, time, offset = match["mark"], match["gap"] or "", match["time"] or "", match["offset"]
    if (not time and (offset or not mark)) or (mark is None and ":" not in time and len(text[0]) == 14):
        return None
    clock = "%H:%M:%S"[: 5 if len(time) == 5 else 8] if ":" in time else "%H%M%S"
    pattern = f"%Y{mark}%m{mark}%d" if mark else "%Y%m%d"
    pattern += f"{gap}{clock}" if time else ""
    pattern += "Z" if offset == "Z" else "%z" if offset else ""
    if time:
        times = text.str.to_datetime(pattern, time_unit="us", strict=False)
        microseconds = times.dt.timestamp("us")
    else:
        microseconds = text.str.to_date(pattern, strict=False).to_physical().cast(int) * 86_400_000_000
    if microseconds.null_count():
        return None
    values = microseconds.to_numpy()
    if np.abs(values).max() > _LIMIT_NS / 1_000:
        return None
    return ParsedTimes(values * 1_000, utc=offset is not None, date_only=not time)


def _parse_calendar(
    text: pl.Series, error: RowError, date_order: str | None, microseconds: bool
) -> ParsedTimes:
    """Parse ``2024-01-02T09:30:00.5+01:00``, ``2024/1/2 9:30``, ``20240102 093000``, ``31/01/2024 9:30 PM``."""
    import polars as pl

    parts = text.str.extract_groups(_CALENDAR).struct.unnest()

    def integers(name: str) -> Int:
        return parts[name].cast(pl.Int64).fill_null(0).to_numpy()

    hour, minute, second = (integers(name) for name in ("hour", "minute", "second"))
    year = integers("year") + integers("year2")
    short = (parts["year2"].str.len_chars() == 2).fill_null(False).to_numpy()
    month, day = integers("month") + integers("month2"), integers("day") + integers("day2")
    year_last = parts["year2"].is_not_null().to_numpy()
    if year_last.any():
        one, two = integers("one"), integers("two")
        if short.any() and date_order == "ymd":
            one, two, year = np.where(short, two, one), np.where(short, year, two), np.where(short, one, year)
        first = one if _day_first(one, two, year_last, text, error, date_order, short) else two
        day, month = day + first, month + (one + two - first)
        year = year + short * np.where(year < _PIVOT, 2_000, 1_900)
    bad = parts["half"].is_not_null().to_numpy() & ((hour < 1) | (hour > 12))
    if parts["half"].null_count() < len(parts):
        after_noon = parts["half"].str.to_lowercase().eq("pm").fill_null(False).to_numpy()
        halved = parts["half"].is_not_null().to_numpy()
        hour = np.where(halved, hour % 12 + 12 * after_noon, hour)
    days, wrong = _days(year, month, day)
    bad |= wrong | (hour > 23) | (minute > 59) | (second > 59)
    if bad.any():
        row = int(np.argmax(bad))
        raise error(
            row, f"{shown(text[row])} is not a time; write it as 2024-01-31 15:30:00 (year first, 24 hours)"
        )
    digits = parts["fraction"].fill_null("0")
    fraction = (digits if microseconds else digits.str.pad_end(9, "0")).cast(pl.Int64).to_numpy()
    if microseconds:
        fraction = fraction * 1_000
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second
    zoned = parts["offset"].is_not_null().to_numpy()
    if (zoned != zoned[0]).any():
        row = int(np.argmax(zoned != zoned[0]))
        raise error(
            row,
            f"{shown(text[row])} and row 0 differ in having a zone offset; give it in all rows or in none",
        )
    if zoned[0]:
        seconds = seconds - _offset_seconds(parts["offset"])
    date_only = bool(parts["hour"].is_null().all())
    return ParsedTimes(seconds * 1_000_000_000 + fraction, utc=bool(zoned[0]), date_only=date_only)


def _days(year: Int, month: Int, day: Int) -> tuple[Int, NDArray[np.bool_]]:
    """Return days since 1970 and which dates do not exist."""
    months = (year - 1970) * 12 + month - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]") + (day - 1)
    bad = (year < _YEARS[0]) | (year > _YEARS[1]) | (month < 1) | (month > 12) | (day < 1)
    bad |= days.astype("datetime64[M]").astype(np.int64) != months
    return days.astype(np.int64), bad


def _day_first(
    one: Int,
    two: Int,
    rows: NDArray[np.bool_],
    text: pl.Series,
    error: RowError,
    date_order: str | None,
    short: NDArray[np.bool_],
) -> bool:
    """Whether dates that end in the year begin with the day; refuse them where nothing tells.

    Of dates with a year of two digits the first number may be the year, too.
    """
    if date_order in _ORDERS:
        return date_order == "dmy"
    if short.any() and date_order == "ymd":
        return False  # month and day are what the caller's order left
    if short.any() and not (rows & (two > 12)).any():
        row = int(np.argmax(short))
        raise error(
            row,
            f"{shown(text[row])} may begin with the day, month or year; pass date_order='dmy', 'mdy' or 'ymd'",
        )
    day_first, month_first = rows & (one > 12), rows & (two > 12)
    if day_first.any() and month_first.any():
        row = int(np.argmax(day_first if np.argmax(day_first) > np.argmax(month_first) else month_first))
        raise error(
            row,
            f"{shown(text[row])} has day and month in another order than the rows before; write the year first",
        )
    if not day_first.any() and not month_first.any():
        row = int(np.argmax(rows))
        raise error(
            row,
            f"{shown(text[row])} may begin with the day or the month; pass date_order='dmy' or date_order='mdy'",
        )
    return bool(day_first.any())


def _offset_seconds(offset: pl.Series) -> Int:
    """Return ``Z``, ``+01``, ``+0100`` and ``+01:00`` in seconds."""
    import polars as pl

    groups = offset.str.extract_groups(r"^(?P<sign>[+-])(?P<hour>\d{2}):?(?P<minute>\d{2})?$").struct.unnest()
    hours, minutes = (groups[name].cast(pl.Int64).fill_null(0).to_numpy() for name in ("hour", "minute"))
    sign = np.where((groups["sign"] == "-").fill_null(False).to_numpy(), -1, 1)
    seconds: Int = sign * (hours * 3_600 + minutes * 60)
    return seconds


def wall_to_utc(wall: Int, tz: str, error: RowError, dates: bool = False) -> Int:
    """Convert wall-clock times of a zone to UTC.

    An hour that occurs twice when the clocks go back is resolved by the order of the rows: times belong to
    its first pass until one does not advance. Without such a step back the pass is unknown and refused.

    Parameters
    ----------
    wall : int64 array, shape (T,)
        Wall-clock ns, as if the zone were UTC, in file order.
    tz : str
        IANA name of the zone.
    error : callable
        Makes the error for a row.
    dates : bool
        The times are midnights that stand for dates: where the clocks skip or repeat midnight, the day starts
        at the first instant that follows.

    Returns
    -------
    int64 array, shape (T,)
        ns since 1970 UTC.
    """
    import polars as pl

    times = pl.Series(wall).cast(pl.Datetime("ns"))
    try:
        early = times.dt.replace_time_zone(tz, ambiguous="earliest", non_existent="null")
        late = times.dt.replace_time_zone(tz, ambiguous="latest", non_existent="null")
    except pl.exceptions.PolarsError:
        raise ConfigError(
            f"Time zone tz={tz!r} has no rules; use an IANA name such as 'America/Chicago'."
        ) from None
    if dates:
        after = times.dt.offset_by("1h").dt.replace_time_zone(tz, ambiguous="earliest", non_existent="null")
        starts: Int = early.fill_null(after).dt.timestamp("ns").to_numpy()
        return starts
    skipped = early.is_null().to_numpy()
    if skipped.any():
        row = int(np.argmax(skipped))
        raise error(row, f"{times[row]} does not exist in {tz} (the clocks go forward there); check tz=")
    first, second = (series.dt.timestamp("ns").to_numpy() for series in (early, late))
    twice = np.flatnonzero(first != second)
    if twice.size == 0:
        return first
    utc = first.copy()
    # A run is one repeated hour: neighbouring rows that are close in time.
    apart = (np.diff(twice) != 1) | (np.abs(np.diff(wall[twice])) > 3 * _HOUR_NS)
    for run in np.split(twice, np.flatnonzero(apart) + 1):
        back = np.flatnonzero(np.diff(wall[run]) <= 0)
        if back.size == 0:
            raise error(
                int(run[0]),
                f"{times[int(run[0])]} occurs twice in {tz} and the rows do not show which one is meant; "
                "write UTC times or zone offsets",
            )
        later = run[back[0] + 1 :]
        utc[later] = second[later]
    return utc
