"""Tables to parsed columns: bar closes in UTC, prices and volume as numbers, and the canonical events."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import PRICE_EXTRAS, PRICES, Flag, Float, Int
from fox_env.reading.layout import Hints, Layout
from fox_env.reading.names import plain
from fox_env.reading.numbers import extra_numbers, is_fixed_point, numbers, refuse_scaled
from fox_env.reading.stamps import Stamps, bar_closes, read_stamps
from fox_env.reading.table import Table
from fox_env.reading.volume import traded_volume

if TYPE_CHECKING:
    import polars as pl

_FIXED_POINT = 1e9


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
            extra[name] = factor(further) if name in PRICE_EXTRAS else further
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
