"""Quotes that come as bars: mid prices from bids and asks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fox_env.bars import PRICES, Float
from fox_env.errors import DataError
from fox_env.reading.numbers import numbers
from fox_env.reading.table import Table


def mid_bars(table: Table) -> Table:
    """Turn bars of bids and of asks into bars of their mid price.

    Parameters
    ----------
    table : Table
        Columns ``bid_open``, ..., ``bid_close``, ``ask_open``, ..., ``ask_close`` (numbers or text); further
        columns, such as the sizes, are kept.

    Returns
    -------
    Table
        ``open``, ``high``, ``low`` and ``close`` are the means of bid and ask, so that the high and low bound
        the mid price; ``bid`` and ``ask`` are the closes. Rows without both sides are left out and counted.

    Raises
    ------
    DataError
        A cell is not a number, or no row has both sides.
    """
    bid, ask = ({price: numbers(table, f"{side}_{price}") for price in PRICES} for side in ("bid", "ask"))
    sizes = {
        side: numbers(table, f"{side}_size") if f"{side}_size" in table.frame.columns else None
        for side in ("bid", "ask")
    }
    for price in PRICES:
        bid[price], ask[price] = without_empty_sides(bid[price], ask[price], sizes["bid"], sizes["ask"])
    frame = table.frame.drop(f"{side}_{price}" for side in ("bid", "ask") for price in PRICES)
    means = {price: 0.5 * (bid[price] + ask[price]) for price in PRICES}
    return two_sided(replace(table, frame=frame.with_columns(bid=bid["close"], ask=ask["close"], **means)))


def without_empty_sides(
    bid: Float, ask: Float, bid_size: Float | None, ask_size: Float | None
) -> tuple[Float, Float]:
    """Return bids and asks with NaN where a price of 0 stands for no quote.

    It does where its size is 0, and where the quotes would cross: an ask of 0 above which there is a bid, or a
    bid of 0 below which there is an ask. A size of 0 beside another price says nothing: some feeds lack sizes.
    """
    no_bid, no_ask = (bid == 0) & (ask < 0), (ask == 0) & (bid > 0)
    if bid_size is not None:
        no_bid |= (bid == 0) & (bid_size == 0)
    if ask_size is not None:
        no_ask |= (ask == 0) & (ask_size == 0)
    return np.where(no_bid, np.nan, bid), np.where(no_ask, np.nan, ask)


def two_sided(table: Table) -> Table:
    """Leave out the rows without both a ``bid`` and an ``ask``, and say how many there were.

    Raises
    ------
    DataError
        There is no row with both.
    """
    whole = (table.frame["bid"] + table.frame["ask"]).is_finite().to_numpy()
    missing = np.flatnonzero(~whole)
    if missing.size == 0:
        return table
    if missing.size == len(whole):
        raise DataError(
            f"{table.source}: no row has both a bid and an ask, so there is no mid price; give other rows."
        )
    first = missing[0] if table.rows is None else table.rows[missing[0]]
    note = f"{missing.size:,} rows without both a bid and an ask made no bar, first row {first}"
    return replace(table.take(np.flatnonzero(whole)), notes=(*table.notes, note))
