"""The volume of a table of bars: which column it is, and a sentence where the names or values leave doubt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import Float
from fox_env.reading.names import plain
from fox_env.reading.numbers import extra_numbers, numbers
from fox_env.reading.table import Table

if TYPE_CHECKING:
    import polars as pl

_TOTALS = ("total_volume", "volume_contracts", "contract_volume", "total_vol")
_MONEY = re.compile(r"(?:volume|vol)_(?:usd[tc]?|busd|eur|gbp|jpy|krw|quote|currency)")
_UNIT = re.compile(r"(?:volume|vol)_[a-z]{2,6}")
"""A volume by its unit, such as ``Volume BTC``, which stands beside the money paid, ``Volume USD``."""


def traded_volume(table: Table, roles: Mapping[str, str]) -> tuple[Table, Float | None, list[str]]:
    """Return the volume of every bar, None where it is unknown.

    Parameters
    ----------
    table : Table
    roles : mapping of str to str

    Returns
    -------
    table : Table
        With a note where the choice is not obvious.
    volume : float64 array or None
    taken : list of str
        The columns that are no further columns, as they hold nothing but the volume.
    """
    column = roles.get("volume")
    names = {plain(name): name for name in reversed(table.frame.columns)}
    if column is None and (both := _up_and_down(table, roles)) is not None:
        return _noted(table, "volume is the sum of columns Up and Down"), both, []
    if column is None:
        column = next((names[name] for name in _TOTALS if name in names), None)
    if column is None:
        paid = [name for known, name in names.items() if _MONEY.fullmatch(known)]
        units = [name for known, name in names.items() if _UNIT.fullmatch(known) and name not in paid]
        column = units[0] if paid and len(units) == 1 else None
    if column is None:
        return _without(table), None, []
    if column != roles.get("volume"):
        table = _noted(table, f"volume is column {column}")
    volume = numbers(table, column)
    if np.isnan(volume).all():
        return table, None, [column]
    if (volume == -1).all():
        note = f"column {column} is -1 in every row, which stands for no volume"
        return _noted(table, note), None, [column]
    return table, volume, [column]


def _up_and_down(table: Table, roles: Mapping[str, str]) -> Float | None:
    """Return the sum of TradeStation's columns, which follow the close; None for others of these names."""
    columns = table.frame.columns
    place = columns.index(roles["close"]) + 1
    if [plain(name) for name in columns[place : place + 2]] != ["up", "down"]:
        return None
    up, down = (extra_numbers(table, name) for name in columns[place : place + 2])
    if up is None or down is None:
        return None
    total = up + down
    counts = bool(((up >= 0) & (down >= 0) & (total == np.rint(total))).all())
    return total if counts and total.max() > 1 else None


def _without(table: Table) -> Table:
    """Name the columns that may be a volume where none was taken."""
    seen = [
        name
        for name in table.frame.columns
        if re.search(r"vol(?!at)", plain(name)) and _holds_numbers(table.frame[name])
    ]
    if not seen:
        return table
    columns = f"column{'s' if len(seen) > 1 else ''} {', '.join(seen)}"
    return _noted(
        table, f"no volume was taken from {columns}; pass columns={{'volume': {seen[0]!r}}} if it is one"
    )


def _holds_numbers(series: pl.Series) -> bool:
    import polars as pl

    return series.dtype.is_numeric() or (series.dtype == pl.String and bool(series.str.contains(r"\d").any()))


def _noted(table: Table, note: str) -> Table:
    return replace(table, notes=(*table.notes, note))
