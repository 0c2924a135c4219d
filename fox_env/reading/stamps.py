"""Times of the rows of a table: parsed from its columns, which end of a bar they mark, and how long a bar is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import Int
from fox_env.errors import DataError
from fox_env.reading.labels import assumed_label, told_label
from fox_env.reading.layout import Hints, Layout
from fox_env.reading.lengths import DAY_NS, HOUR_NS, day_length, recorded_length, usual_interval
from fox_env.reading.names import plain
from fox_env.reading.table import Table, shown
from fox_env.reading.timestamps import (
    ParsedTimes,
    parse_epoch,
    parse_text,
    to_nanoseconds,
    wall_to_utc,
)

if TYPE_CHECKING:
    import polars as pl

_UNIT_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_DIGITS = r"^(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?$"
"""A date and a time of day written as one whole number: yyyymmddHHMM or yyyymmddHHMMSS."""


@dataclass(frozen=True)
class Stamps:
    """Times of the rows of one instrument before bars marked by their open are moved to the close."""

    table: Table  # in time order where the file is newest first
    ns: Int  # UTC, or the wall clock of `zone`
    label: str
    interval: int  # ns; 0 where the rows do not tell it
    zone: str | None = None  # for days, whose length in UTC varies
    dates: bool = False  # whether they are bare dates


def read_stamps(table: Table, layout: Layout, hints: Hints, interval: int = 0) -> Stamps:
    """Parse the times of bars or events.

    Parameters
    ----------
    table : Table
        Rows of one instrument.
    layout : Layout
    hints : Hints
    interval : int
        Length of a bar in ns where the container tells it, else 0.
    """
    times = layout.times
    parsed = _parse_times(table, layout, hints)
    if _is_newest_first(parsed.ns):
        table, parsed = table.reversed(), parsed._replace(ns=parsed.ns[::-1])
    column = " and ".join(times)
    interval = interval or recorded_length(table, layout.dialect)
    dated = not table.closes and _are_days(parsed, layout, interval)
    label, note = _label(table, parsed, layout, hints, dated)
    if note:
        table = replace(table, notes=(*table.notes, note))
    counted = label == "open" and not interval
    if counted:
        interval = day_length(parsed.ns) if dated else usual_interval(parsed.ns)
    if parsed.utc or plain(times[-1]).endswith("_utc"):
        return Stamps(table, parsed.ns, label, interval)
    zone = parsed.zone or hints.tz or layout.dialect.zone
    if zone is None:
        raise DataError(
            f"{table.source}: the times in column {column} have no zone; pass tz=, such as "
            "tz='America/Chicago' for exchange time, or tz='UTC'."
        )
    if dated or (label == "open" and interval >= DAY_NS):
        return Stamps(table, parsed.ns, label, interval, zone, dated)
    utc = wall_to_utc(parsed.ns, zone, lambda row, message: table.error(row, column, message))
    return Stamps(table, utc, label, usual_interval(utc) if counted else interval)


def _are_days(parsed: ParsedTimes, layout: Layout, interval: int) -> bool:
    """Whether times stand for whole days: bare dates, or midnights a day or more apart.

    A single midnight is a day in a column of dates, and where the source records bars of a day.
    """
    if parsed.date_only:
        return True
    dates = "date" in layout.roles and len(layout.times) == 1
    spacing = interval or usual_interval(parsed.ns)
    long = spacing >= 20 * HOUR_NS
    return (long and (dates or parsed.midnights)) or (len(parsed.ns) == 1 and dates and parsed.midnights)


def _label(
    table: Table, parsed: ParsedTimes, layout: Layout, hints: Hints, dated: bool
) -> tuple[str, str | None]:
    """Return which end of a bar the times mark, and a sentence where that is an assumption."""
    if hints.label:
        return hints.label, None
    if dated and (parsed.date_only or "date" in layout.roles):
        return "open", None
    if table.closes or layout.dialect.certain:
        return ("open" if dated else layout.dialect.label), None
    if dated:
        return "open", assumed_label("open", dated)
    told, certain = layout.told or told_label(parsed.ns)
    label = told or layout.dialect.label
    return label, None if told and certain else assumed_label(label, dated)


def label_told_by(table: Table, layout: Layout, hints: Hints) -> tuple[str | None, bool]:
    """Return the end of a bar that the times of a table mark, None where they do not tell, and if it is certain."""
    parsed = _parse_times(table, layout, hints)
    if _are_days(parsed, layout, recorded_length(table, layout.dialect)):
        return None, False
    return told_label(parsed.ns[::-1] if _is_newest_first(parsed.ns) else parsed.ns)


def bar_closes(stamps: Stamps) -> Int:
    """Return the close of every bar in ns UTC."""
    if stamps.label == "open" and stamps.interval == 0:
        raise DataError(
            f"{stamps.table.source}: times of the bar's open need at least two rows to find the interval; "
            "give more rows or pass label='close'."
        )
    closes = stamps.ns + (stamps.interval if stamps.label == "open" else 0)
    if stamps.zone is None:
        return closes
    return wall_to_utc(
        closes, stamps.zone, lambda row, message: stamps.table.error(row, "time", message), stamps.dates
    )


def _parse_times(table: Table, layout: Layout, hints: Hints) -> ParsedTimes:
    """Parse the time column, or the date and time-of-day columns together."""
    import polars as pl

    times = layout.times
    column = " and ".join(times)

    def error(row: int, message: str) -> DataError:
        return table.error(row, column, message)

    order = hints.date_order or layout.dialect.date_order
    series = table.frame[times[0]]
    if len(times) == 2:
        date = series.dt.date() if isinstance(series.dtype, pl.Datetime) else series
        clock = _clock(table, times[1])
        text = date.cast(pl.String).str.strip_chars() + " " + clock
        return parse_text(text, error, order, layout.dialect.check == "microseconds")
    if series.dtype == pl.String:
        return parse_text(series, error, order)
    if series.null_count():
        raise error(int(series.is_null().to_numpy().argmax()), "the time is missing; fill or remove the row")
    if isinstance(series.dtype, pl.Datetime):
        counts = series.to_physical().to_numpy()
        unit, zone = _UNIT_NS[series.dtype.time_unit], series.dtype.time_zone
        wall = series if zone is None else series.dt.replace_time_zone(None)
        midnights = bool((wall.dt.time().cast(pl.Int64) == 0).all())
        if zone is not None and midnights:  # days of a zone, whose length varies
            return ParsedTimes(
                to_nanoseconds(wall.to_physical().to_numpy(), unit, error), False, False, True, zone
            )
        return ParsedTimes(to_nanoseconds(counts, unit, error), zone is not None, False, midnights)
    if series.dtype == pl.Date:
        days = series.to_physical().cast(pl.Int64).to_numpy()
        return ParsedTimes(to_nanoseconds(days, DAY_NS, error), utc=False, date_only=True)
    if series.dtype.is_integer():
        text = series.cast(pl.String)
        if int(series.abs().max() or 0) < 100_000_000 or text.str.contains(_DIGITS).all():  # type: ignore[arg-type]
            return parse_text(text, error, order)
        epochs = series.cast(pl.Int64, strict=False)
        if epochs.null_count():
            row = int(epochs.is_null().to_numpy().argmax())
            raise error(row, f"{series[row]} is outside the years 1678 to 2261; correct the time")
        return parse_epoch(epochs.to_numpy(), error)
    raise DataError(
        f"{table.source}: column {column} has type {series.dtype}, which is not a time; store a datetime."
    )


def _clock(table: Table, column: str) -> pl.Series:
    """Return times of day as text; those written as numbers get back the zeros they have lost."""
    import polars as pl

    series = table.frame[column]
    if isinstance(series.dtype, pl.Duration):
        ns = series.dt.total_nanoseconds()
        bad = (ns.is_null() | (ns < 0) | (ns >= DAY_NS)).fill_null(True).to_numpy()
        if bad.any():
            row = int(bad.argmax())
            raise table.error(row, column, f"{shown(series[row])} is not a time of day; store a time")
        return ns.cast(pl.Time).cast(pl.String)
    if series.dtype.is_numeric() or series.dtype in (pl.String, pl.Time):
        text = series.cast(pl.String).str.strip_chars()
    else:
        raise DataError(
            f"{table.source}: column {column} has type {series.dtype}, which is not a time of day; store a time."
        )
    if not text.str.contains(r"^\d{1,6}$").fill_null(False).all():
        return text
    width = int(text.str.len_chars().max() or 0)  # type: ignore[arg-type]
    return text.str.zfill(6 if width > 4 else 4)


def _is_newest_first(ns: Int) -> bool:
    """Whether rows run backwards throughout; an hour that occurs twice may step forward."""
    if len(ns) < 2 or ns[0] <= ns[-1]:
        return False
    step = np.diff(ns)
    return bool((step <= HOUR_NS).all() and np.mean(step < 0) > 0.99) or bool((step <= 0).all())
