"""Time stamps of data files: text, epochs and wall-clock times to ns since 1970 UTC."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fox_env.errors import ConfigError, DataError

if TYPE_CHECKING:
    import polars as pl

Int = NDArray[np.int64]
RowError = Callable[[int, str], DataError]
"""Makes the error for a row (from 0) and a message."""

_CALENDAR = (
    r"^(?P<year>\d{4})(?:[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})|(?P<month2>\d{2})(?P<day2>\d{2}))"
    r"(?:[T ]+(?P<hour>\d{1,2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9})\d*)?)?)?"
    r"\s*(?P<offset>Z|[+-]\d{2}(?::?\d{2})?)?$"
)
_COMPACT = r"^((?:19|20)\d{6})(\d{4}|\d{6})$"
_EPOCH = r"^\d{9,19}(?:\.\d+)?$"
_UNITS = ((1e11, 1_000_000_000, "s"), (1e14, 1_000_000, "ms"), (1e17, 1_000, "us"), (np.inf, 1, "ns"))
_YEARS = (1678, 2261)
_HOUR_NS = 3_600_000_000_000


class ParsedTimes(NamedTuple):
    """Times before a zone is applied: ns, whether they are UTC already, whether they are bare dates."""

    ns: Int
    utc: bool
    date_only: bool


def check_zone(tz: str) -> str:
    """Return a time-zone name or refuse it with a :class:`ConfigError`."""
    try:
        ZoneInfo(tz)
    except (ValueError, OSError, KeyError, TypeError):
        raise ConfigError(
            f"Unknown time zone tz={tz!r}; use an IANA name such as 'America/Chicago'."
        ) from None
    return tz


def parse_text(text: pl.Series, error: RowError) -> ParsedTimes:
    """Parse a text column of epochs, or of calendar times (ISO, compact or slashed; the year first)."""
    import polars as pl

    text = text.str.strip_chars().str.replace(_COMPACT, "$1 $2")
    empty = (text.is_null() | (text == "")).to_numpy()
    if empty.any():
        raise error(int(np.argmax(empty)), "the time is missing; fill or remove the row")
    if text.head(1).str.contains(_EPOCH).item():
        wrong = ~text.str.contains(_EPOCH).to_numpy()
        if wrong.any():
            row = int(np.argmax(wrong))
            raise error(
                row, f"{text[row]!r} is not a number of seconds or fractions since 1970 like the rows before"
            )
        whole = not text.str.contains(".", literal=True).any()
        return parse_epoch(text.cast(pl.Int64 if whole else pl.Float64).to_numpy(), error)
    return _parse_calendar(text, error)


def parse_epoch(values: NDArray[np.int64] | NDArray[np.float64], error: RowError) -> ParsedTimes:
    """Convert counts since 1970 UTC; the unit (s, ms, us, ns) follows from their size and must not change."""
    units = np.searchsorted([limit for limit, _, _ in _UNITS], values, side="right")
    mixed = units != units[0]
    if mixed.any():
        row, first = int(np.argmax(mixed)), _UNITS[units[0]][2]
        raise error(
            row, f"{values[row]} is a time in {_UNITS[units[row]][2]}, but row 0 is in {first}; use one unit"
        )
    scale = _UNITS[units[0]][1]
    if values.dtype.kind == "f":
        # Microseconds are what a float64 of today's seconds resolves.
        ns = np.rint(values * (scale / 1_000)).astype(np.int64) * 1_000
    else:
        ns = values.astype(np.int64) * scale
    return ParsedTimes(ns, utc=True, date_only=False)


def _parse_calendar(text: pl.Series, error: RowError) -> ParsedTimes:
    """Parse ``2024-01-02``, ``2024-01-02T09:30:00.5+01:00``, ``2024/1/2 9:30``, ``20240102 093000``."""
    import polars as pl

    parts = text.str.extract_groups(_CALENDAR).struct.unnest()

    def integers(name: str) -> Int:
        return parts[name].cast(pl.Int64).fill_null(0).to_numpy()

    month = integers("month") + integers("month2")
    day = integers("day") + integers("day2")
    year, hour, minute, second = (integers(name) for name in ("year", "hour", "minute", "second"))
    months = (year - 1970) * 12 + month - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]") + (day - 1)
    bad = (year < _YEARS[0]) | (year > _YEARS[1]) | (month < 1) | (month > 12) | (day < 1)
    bad |= (
        (days.astype("datetime64[M]").astype(np.int64) != months)
        | (hour > 23)
        | (minute > 59)
        | (second > 59)
    )
    if bad.any():
        row = int(np.argmax(bad))
        raise error(
            row, f"{text[row]!r} is not a time; write it as 2024-01-31 15:30:00 (year first, 24 hours)"
        )
    fraction = parts["fraction"].fill_null("0").str.pad_end(9, "0").cast(pl.Int64).to_numpy()
    seconds = days.astype(np.int64) * 86_400 + hour * 3_600 + minute * 60 + second
    zoned = parts["offset"].is_not_null().to_numpy()
    if (zoned != zoned[0]).any():
        row = int(np.argmax(zoned != zoned[0]))
        raise error(
            row, f"{text[row]!r} and row 0 differ in having a zone offset; give it in all rows or in none"
        )
    if zoned[0]:
        seconds = seconds - _offset_seconds(parts["offset"])
    date_only = bool(parts["hour"].is_null().all())
    return ParsedTimes(seconds * 1_000_000_000 + fraction, utc=bool(zoned[0]), date_only=date_only)


def _offset_seconds(offset: pl.Series) -> Int:
    """Return ``Z``, ``+01``, ``+0100`` and ``+01:00`` in seconds."""
    import polars as pl

    groups = offset.str.extract_groups(r"^(?P<sign>[+-])(?P<hour>\d{2}):?(?P<minute>\d{2})?$").struct.unnest()
    hours, minutes = (groups[name].cast(pl.Int64).fill_null(0).to_numpy() for name in ("hour", "minute"))
    sign = np.where((groups["sign"] == "-").fill_null(False).to_numpy(), -1, 1)
    seconds: Int = sign * (hours * 3_600 + minutes * 60)
    return seconds


def wall_to_utc(wall: Int, tz: str, error: RowError) -> Int:
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
