"""Order flow of bars from trades and from states of the best quotes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import SESSION_BREAK_NS, Flag, Float, Int

QUOTES = ("bid", "ask", "bid_size", "ask_size", "bid_depth", "ask_depth")


def trade_columns(price: Float, size: Float, side: NDArray[np.int8] | None, starts: Int) -> dict[str, Float]:
    """Return the traded volume by the side of the aggressor, and the number of trades, of every bar.

    Where no trade has a side, the tick rule gives it: a price above the last different one was bought, one
    below it sold. Trades without a side count on neither (as do those before the first change of price).

    Parameters
    ----------
    price, size : float64 arrays, shape (N,)
    side : int8 array, shape (N,), or None
        1: bought by the aggressor, -1: sold, 0: unknown.
    starts : int64 array, shape (T,)
        First trade of every bar.
    """
    inferred = side is None or not side.any()
    if side is None or inferred:
        side = tick_rule(price)
    ends = np.append(starts[1:], len(price))
    return {
        "buy_volume": np.add.reduceat(np.where(side > 0, size, 0.0), starts),
        "sell_volume": np.add.reduceat(np.where(side < 0, size, 0.0), starts),
        "trades": (ends - starts).astype(np.float64),
        "side_inferred": np.full(len(starts), float(inferred)),
    }


def tick_rule(price: Float) -> NDArray[np.int8]:
    """Return the sign of the last change of price at every trade; 0 before the first change."""
    step = np.sign(np.diff(price, prepend=price[:1])).astype(np.int8)
    changed = np.maximum.accumulate(np.where(step != 0, np.arange(len(price)), 0))
    return step[changed]


def quote_columns(
    quotes: Mapping[str, Float], ts: Int, reset: Flag | None, first: Int, end: Int
) -> dict[str, Float]:
    """Return the quotes in force at the end of every bar, and the order-flow imbalance within it.

    Parameters
    ----------
    quotes : mapping of str to float64 arrays, shape (N,)
        ``bid`` and ``ask``, and optionally their ``_size`` and ``_depth``, after every row; NaN: none.
    ts : int64 array, shape (N,)
    reset : bool array, shape (N,), or None
        Rows whose quotes do not follow from the row before.
    first, end : int64 arrays, shape (T,)
        The rows of every bar, `end` excluded; none is empty.
    """
    columns = {name: values[end - 1] for name, values in quotes.items()}
    if {"bid_size", "ask_size"} <= quotes.keys():
        flow = np.append(best_level_flow(quotes, ts, reset), 0.0)
        columns["ofi"] = np.add.reduceat(flow, np.column_stack((first, end)).ravel())[::2]
    return columns


def best_level_flow(quotes: Mapping[str, Float], ts: Int, reset: Flag | None) -> Float:
    """Return the order-flow imbalance of every row, in contracts (Cont, Kukanov, Stoikov 2014, e_n).

    e = [b >= b'] B - [b <= b'] B' - [a <= a'] A + [a >= a'] A', with bid b, ask a, their sizes B and A, and
    ' for the row before. A side without orders has no size and the worst of prices. The first row, a row
    with `reset` and one after a pause of more than 30 minutes start anew: 0.
    """
    bid = np.nan_to_num(quotes["bid"], nan=-np.inf)
    ask = np.nan_to_num(quotes["ask"], nan=np.inf)
    bids = np.where(np.isneginf(bid), 0.0, np.nan_to_num(quotes["bid_size"]))
    asks = np.where(np.isposinf(ask), 0.0, np.nan_to_num(quotes["ask_size"]))
    flow = np.zeros(len(ts))
    bought: Float = (bid[1:] >= bid[:-1]) * bids[1:] - (bid[1:] <= bid[:-1]) * bids[:-1]
    sold: Float = (ask[1:] <= ask[:-1]) * asks[1:] - (ask[1:] >= ask[:-1]) * asks[:-1]
    flow[1:] = np.where(np.diff(ts) > SESSION_BREAK_NS, 0.0, bought - sold)
    return flow if reset is None else np.where(reset, 0.0, flow)
