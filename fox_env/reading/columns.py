"""Tables to parsed columns: bar closes in UTC, prices and volume as numbers, and the canonical events."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import PRICES, Flag, Float, Int
from fox_env.errors import DataError
from fox_env.reading.dialects import plain
from fox_env.reading.layout import Hints, Layout
from fox_env.reading.numbers import extra_numbers, is_fixed_point, numbers, refuse_scaled
from fox_env.reading.table import Table
from fox_env.reading.timestamps import (
    ParsedTimes,
    parse_epoch,
    parse_text,
    to_nanoseconds,
    wall_to_utc,
)
from fox_env.reading.volume import traded_volume

if TYPE_CHECKING:
    import polars as pl

_HOUR_NS = 3_600_000_000_000
_DAY_NS = 24 * _HOUR_NS
_RTYPE_NS = {32: 1_000_000_000, 33: 60_000_000_000, 34: _HOUR_NS, 35: _DAY_NS, 36: _DAY_NS}
"""Length of a bar by Databento's record type."""
_UNIT_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_FIXED_POINT = 1e9


@dataclass(frozen=True)
class Stamps:
    """Times of the rows of one instrument before bars marked by their open are moved to the close."""

    table: Table  # in time order where the file is newest first
    ns: Int  # UTC, or the wall clock of `zone`
    label: str
    interval: int  # ns; 0 where the rows do not tell it
    zone: str | None = None  # for days, whose length in UTC varies
    dates: bool = False  # whether they are bare dates


@dataclass(frozen=True)
class BarColumns:
    """Parsed, not yet checked, columns of the bars of one instrument."""

    table: Table
    ts: Int
    prices: dict[str, Float]
    volume: Float | None
    roll_gap: Float | None
    flags: dict[str, Flag]
    extra: dict[str, Float]


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
    dated = parsed.date_only or (
        "date" in layout.roles and len(times) == 1 and usual_interval(parsed.ns) >= 20 * _HOUR_NS
    )
    label = hints.label or ("open" if dated else layout.dialect.label)
    if layout.dialect.name == "databento":
        interval = interval or _record_length(table)
    counted = label == "open" and not interval
    if counted:
        interval = usual_interval(parsed.ns)
    if parsed.utc or plain(times[-1]).endswith("_utc"):
        return Stamps(table, parsed.ns, label, interval)
    zone = hints.tz or layout.dialect.zone
    if zone is None:
        raise DataError(
            f"{table.source}: the times in column {column} have no zone; pass tz=, such as "
            "tz='America/Chicago' for exchange time, or tz='UTC'."
        )
    if dated or (label == "open" and interval >= _DAY_NS):
        return Stamps(table, parsed.ns, label, interval, zone, dated)
    utc = wall_to_utc(parsed.ns, zone, lambda row, message: table.error(row, column, message))
    return Stamps(table, utc, label, usual_interval(utc) if counted else interval)


def usual_interval(ns: Int) -> int:
    """Return the most frequent spacing of times in ns, the shortest of several; 0 for fewer than two times.

    Unlike the median it is always a spacing that occurs, and pauses of thin trading do not lengthen it.
    """
    spacing = np.diff(np.sort(ns))
    spacing = spacing[spacing > 0]
    if not spacing.size:
        return 0
    values, counts = np.unique(spacing, return_counts=True)
    return int(values[counts.argmax()])


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


def parse_bars(stamps: Stamps, layout: Layout, hints: Hints) -> BarColumns:
    """Parse all columns of bars.

    Raises
    ------
    DataError
        A cell is not a number, or prices look scaled and nobody has said so.
    """
    table, roles = stamps.table, layout.roles
    ts = bar_closes(stamps)
    scaled = hints.price_scale is not None
    values = {role: numbers(table, roles[role], scaled) for role in (*PRICES, "roll_gap") if role in roles}
    factor = _price_factor(table, {roles[name]: values[name] for name in PRICES}, layout, hints)
    prices = {name: factor(values[name]) for name in PRICES}
    roll_gap = factor(values["roll_gap"]) if "roll_gap" in values else None
    table, volume, counted = traded_volume(table, roles)
    if layout.dialect.check == "zero_volume":
        volume = None
    taken = {*layout.times, *counted}
    taken |= {roles[role] for role in (*PRICES, "roll_gap", "symbol") if role in roles}
    flags: dict[str, Flag] = {}
    extra: dict[str, Float] = {}
    for column in table.frame.columns:
        name = layout.dialect.extra.get(plain(column), column)
        if column in taken or name is None or (re.fullmatch(r"column_\d+", column) and not table.exact):
            continue
        series = table.frame[column]
        if column in ("session_end", "gap") and _is_boolean(series):
            flags[column] = series.fill_null(False).to_numpy()
        elif (further := extra_numbers(table, column)) is not None:
            extra[name] = factor(further) if name in ("bid", "ask") else further
    return BarColumns(table, ts, prices, volume, roll_gap, flags, extra)


def canonical_events(table: Table, layout: Layout, hints: Hints) -> Table:
    """Return trades or quotes under the names and types of :func:`fox_env.reading.events.events_of`."""
    import polars as pl

    stamps = read_stamps(table, layout, replace(hints, label="close"))  # an event has no length
    table, roles = stamps.table, layout.roles
    scaled = hints.price_scale is not None
    values = {
        name: numbers(table, roles[name], None if "size" in name else scaled)
        for name in ("price", "size", "bid", "ask", "bid_size", "ask_size")
        if name in roles
    }
    if layout.dialect.check == "zero_volume":
        values.pop("size", None)
    quoted = [name for name in values if "size" not in name]
    factor = _price_factor(table, {roles[name]: values[name] for name in quoted}, layout, hints)
    columns = [pl.Series("ts", bar_closes(stamps)).cast(pl.Datetime("ns", "UTC"))]
    columns += [pl.Series(name, factor(array) if name in quoted else array) for name, array in values.items()]
    for column in table.frame.columns:
        name = layout.dialect.extra.get(plain(column))
        if name is not None:
            columns.append(pl.Series(name, numbers(table, column)))
    if "side" in roles and (sides := _sides(table, roles["side"], layout)) is not None:
        columns.append(sides)
    if "reset" in table.frame.columns and _is_boolean(table.frame["reset"]):
        columns.append(table.frame["reset"])
    return replace(table, frame=pl.DataFrame(columns), kind="trades" if "price" in values else "quotes")


_SIDES = {"b": 1, "buy": 1, "buyer": 1, "s": -1, "sell": -1, "seller": -1}
_SIGNS = {"1": 1, "+1": 1, "-1": -1}
_AT_QUOTES = {"2": 1, "1": -1}
"""At the ask and at the bid, in files of trades with depth."""


def _sides(table: Table, column: str, layout: Layout) -> pl.Series | None:
    """Return the aggressor: 1 buyer, -1 seller, 0 unknown; None where the column's words are not certain."""
    import polars as pl

    series = table.frame[column]
    if series.dtype == pl.Int8:
        return series.alias("side")
    text = series.cast(pl.String).str.strip_chars().str.to_lowercase()
    words = set(text.drop_nulls().unique().to_list())
    codes = _SIGNS if "-1" in words else _SIDES
    if layout.dialect.check == "microseconds":
        codes = _AT_QUOTES
    if not words & codes.keys():
        return None
    mapped = [0 if word is None else codes.get(word, 0) for word in text.to_list()]
    return pl.Series("side", mapped, dtype=pl.Int8)


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
        date = series.cast(pl.String).str.strip_chars()
        text = date + " " + _clock(table.frame[times[1]])
        return parse_text(text, error, order, layout.dialect.check == "microseconds")
    if series.dtype == pl.String:
        return parse_text(series, error, order)
    if series.null_count():
        raise error(int(series.is_null().to_numpy().argmax()), "the time is missing; fill or remove the row")
    if isinstance(series.dtype, pl.Datetime):
        counts = series.to_physical().to_numpy()
        return ParsedTimes(
            to_nanoseconds(counts, _UNIT_NS[series.dtype.time_unit], error),
            utc=series.dtype.time_zone is not None,
            date_only=False,
        )
    if series.dtype == pl.Date:
        days = series.to_physical().cast(pl.Int64).to_numpy()
        return ParsedTimes(to_nanoseconds(days, _DAY_NS, error), utc=False, date_only=True)
    if series.dtype.is_integer():
        if int(series.abs().max() or 0) < 100_000_000:  # type: ignore[arg-type]
            return parse_text(series.cast(pl.String), error, order)
        return parse_epoch(series.cast(pl.Int64).to_numpy(), error)
    raise DataError(
        f"{table.source}: column {column} has type {series.dtype}, which is not a time; store a datetime."
    )


def _clock(series: pl.Series) -> pl.Series:
    """Return times of day as text; those written as numbers get back the zeros they have lost."""
    import polars as pl

    text = series.cast(pl.String).str.strip_chars()
    if not text.str.contains(r"^\d{1,6}$").fill_null(False).all():
        return text
    width = int(text.str.len_chars().max() or 0)  # type: ignore[arg-type]
    return text.str.zfill(6 if width > 4 else 4)


def _is_newest_first(ns: Int) -> bool:
    """Whether rows run backwards throughout; an hour that occurs twice may step forward."""
    if len(ns) < 3 or ns[0] <= ns[-1]:
        return False
    step = np.diff(ns)
    return bool((step <= _HOUR_NS).all() and np.mean(step < 0) > 0.99) or bool((step <= 0).all())


def _record_length(table: Table) -> int:
    """Return the length of a bar by the column rtype, 0 where it is absent or varies."""
    import polars as pl

    column = next((name for name in table.frame.columns if plain(name) == "rtype"), None)
    if column is None:
        return 0
    kinds = table.frame[column].cast(pl.Float64, strict=False).unique().to_list()
    return _RTYPE_NS.get(kinds[0], 0) if len(kinds) == 1 and kinds[0] is not None else 0


def _price_factor(
    table: Table, prices: dict[str, Float], layout: Layout, hints: Hints
) -> Callable[[Float], Float]:
    """Return how to bring price cells into price units; `prices` by their columns."""
    if hints.price_scale is not None:
        scale = hints.price_scale
        inverse = round(1 / scale)
        if abs(1 / scale - inverse) < 1e-9 * inverse:  # dividing by 10000 is exact where times 1e-4 is not
            return lambda values: values / inverse
        return lambda values: values * scale
    every = np.concatenate(list(prices.values()))
    every = np.abs(every[np.isfinite(every)])
    whole = bool(every.size) and bool((every == np.rint(every)).all())
    if layout.dialect.check == "fixed_point" and is_fixed_point(table, prices):
        return lambda values: values / _FIXED_POINT
    if whole:
        refuse_scaled(table, every, layout.dialect)
    return lambda values: values


def _is_boolean(series: pl.Series) -> bool:
    import polars as pl

    return series.dtype == pl.Boolean
