"""Quotes that come as bars: mid prices from bids and asks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import PRICES
from fox_env.errors import DataError
from fox_env.reading.table import Table

if TYPE_CHECKING:
    import polars as pl

QUOTE_BARS = tuple(f"{side}_{price}" for side in ("bid", "ask") for price in PRICES)
"""The columns by which quote bars are recognised."""


def mid_bars(table: Table) -> Table:
    """Turn bars of bids and of asks into bars of their mid price.

    Parameters
    ----------
    table : Table
        Columns ``bid_open``, ..., ``bid_close``, ``ask_open``, ..., ``ask_close`` (numbers or text) and
        optionally ``bid_size`` and ``ask_size``; further columns are kept.

    Returns
    -------
    Table
        ``open``, ``high``, ``low`` and ``close`` are the means of bid and ask (so the high is an upper bound
        of the mid price); ``bid`` and ``ask`` the closes. A row that lacks a side has no mid price and makes
        no bar: it is left out and counted in the notes.

    Raises
    ------
    DataError
        A cell is not a number, or no row has both sides.
    """
    quotes = {name: _numbers(table, name) for name in QUOTE_BARS}
    means = [((quotes[f"bid_{price}"] + quotes[f"ask_{price}"]) / 2).alias(price) for price in PRICES]
    frame = table.frame.drop(QUOTE_BARS).with_columns(
        *means, quotes["bid_close"].alias("bid"), quotes["ask_close"].alias("ask")
    )
    return two_sided(replace(table, frame=frame))


def two_sided(table: Table) -> Table:
    """Leave out the rows without both a ``bid`` and an ``ask``, and say how many there were.

    Raises
    ------
    DataError
        There is no row with both.
    """
    whole = (table.frame["bid"] + table.frame["ask"]).fill_null(np.nan).is_finite()
    missing = np.flatnonzero(~whole.to_numpy())
    if missing.size == 0:
        return table
    if missing.size == table.frame.height:
        raise DataError(
            f"{table.source}: no row has both a bid and an ask, so there is no mid price; give other rows."
        )
    note = f"{missing.size:,} rows without both a bid and an ask made no bar, first row {missing[0]}"
    return replace(
        table,
        frame=table.frame.filter(whole),
        lines=None if table.lines is None else table.lines[whole.to_numpy()],
        notes=(*table.notes, note),
    )


def _numbers(table: Table, column: str) -> pl.Series:
    """Return a column as float64, with null for an empty cell."""
    import polars as pl

    cells = table.frame[column]
    if cells.dtype == pl.String:
        cells = cells.str.strip_chars()
        cells = cells.set(cells == "", None)
    values = cells.cast(pl.Float64, strict=False)
    if (wrong := np.flatnonzero((values.is_null() & cells.is_not_null()).to_numpy())).size:
        row = int(wrong[0])
        raise table.error(row, column, f"{cells[row]!r} is not a number; correct or remove the row")
    return values
