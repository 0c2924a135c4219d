"""The volume of a table of bars: which column it is, and a sentence where the names or values leave doubt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import Float
from fox_env.reading.names import plain
from fox_env.reading.numbers import numbers
from fox_env.reading.table import Table

if TYPE_CHECKING:
    import polars as pl

_TOTALS = ("total_volume", "volume_contracts", "contract_volume", "total_vol")
_MONEY = r"usd[tc]?|busd|eur|gbp|jpy|cny|krw|quote|currency|money|ma|avg|average|sma|ema|osc\w*|profile|delta"
_UNIT = re.compile(rf"(?:volume|vol)_(?!(?:{_MONEY})$)[a-z]{{2,6}}")
"""A volume with its unit that is not the money paid, such as ``Volume BTC``."""


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
    if column is None and {"up", "down"} <= names.keys():
        up, down = (numbers(table, names[side]) for side in ("up", "down"))
        return _noted(table, f"volume is the sum of columns {names['up']} and {names['down']}"), up + down, []
    if column is None:
        column = next((names[name] for name in _TOTALS if name in names), None)
    if column is None:
        units = [name for known, name in names.items() if _UNIT.fullmatch(known)]
        column = units[0] if len(units) == 1 else None
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
