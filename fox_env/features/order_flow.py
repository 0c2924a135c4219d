"""The 20 order-flow features: recorded order flow where the data have it, else proxies from bars and volume.

Recorded columns are taken by name from ``Bars.extra``; NaN marks a bar without the value:

===============================  ==========================================================================
``signal``                       planted by a synthetic market, taken as it is
``buy_volume``, ``sell_volume``  contracts bought and sold by the aggressor within the bar
``side_inferred``                1 where the aggressor of these was guessed from price changes, else 0
``bid``, ``ask``                 best prices in price units, at the bar's close
``bid_size``, ``ask_size``       contracts at the best prices, at the bar's close
``bid_depth``, ``ask_depth``     contracts over all recorded levels of the book, at the bar's close
``ofi``                          order-flow imbalance of Cont, Kukanov, Stoikov 2014, in contracts: the sum
                                 over the bar's changes of the best quotes of
                                 [b >= b'] B - [b <= b'] B' - [a <= a'] A + [a >= a'] A'
===============================  ==========================================================================

q: signed volume of a bar (see ``Inputs.flow``). A user's own columns take the reserved entries.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fox_env.features.declare import Feature, Inputs, recorded
from fox_env.features.windows import F64, change, lag, ratio, window_mean, window_sum

SIGNAL, INFERRED, TRADES, BULK, NOTHING, BOOK = 1.0, 0.75, 0.5, 0.25, 0.0, 0.125
QUOTES = frozenset(("bid", "ask"))
SIZES = frozenset(("bid_size", "ask_size"))
DEPTHS = frozenset(("bid_depth", "ask_depth"))
RECORDED = QUOTES | SIZES | DEPTHS | {"signal", "buy_volume", "sell_volume", "side_inferred", "ofi"}
"""The columns of ``Bars.extra`` that are read."""
N_RESERVED = 4
"""Entries that stay zero until a user's own columns take them."""

_BVC = "bulk-volume classification, Easley, Lopez de Prado, O'Hara 2012"


def _row(name: str, ready: int, formula: str, source: str, compute: Callable[[Inputs], F64]) -> Feature:
    return Feature(name, "order_flow", ready, formula, source, compute)


def _first(x: Inputs) -> F64:
    if "signal" in x.extra:
        return recorded(x.extra["signal"])
    imbalance = ratio(x.flow, x.flow_volume)
    imbalance[:60] = 0.0
    return imbalance


def _imbalance(x: Inputs, window: int) -> F64:
    return ratio(window_sum(x.flow, window), window_sum(x.flow_volume, window))


def _imbalance_row(window: int) -> Feature:
    return _row(
        f"imbalance_{window}",
        59 + window,
        f"sum of q / sum of V, over {window} bars",
        _BVC,
        lambda x: _imbalance(x, window),
    )


def _impact_slope(x: Inputs) -> F64:
    slope = ratio(window_sum(x.delta * x.flow, 60), window_sum(x.flow * x.flow, 60))
    return slope * x.mean_volume / x.atr


def _flow_correlation(x: Inputs) -> F64:
    scale = window_sum(x.delta * x.delta, 60) * window_sum(x.flow * x.flow, 60)
    return ratio(window_sum(x.delta * x.flow, 60), np.sqrt(scale))


def _roll_spread(x: Inputs) -> F64:
    covariance = window_mean(x.delta * lag(x.delta, 1), 60)
    return 2.0 * np.sqrt(np.maximum(-covariance, 0.0)) / x.atr


def _spread(x: Inputs) -> F64:
    if x.extra.keys() >= QUOTES:
        return _quoted_spread(x)
    middle = 0.5 * (x.high + x.low)
    before = lag(x.close, 1)
    product = window_mean((before - lag(middle, 1)) * (before - middle), 60)
    estimate = 2.0 * np.sqrt(np.maximum(product, 0.0)) / x.atr
    estimate[:60] = 0.0
    return estimate


def _quoted_spread(x: Inputs) -> F64:
    with np.errstate(invalid="ignore"):  # a side without a price makes the spread missing, not wrong
        return recorded(x.extra["ask"] - x.extra["bid"]) / x.atr


def _illiquidity(x: Inputs) -> F64:
    recent = ratio(window_sum(np.abs(x.delta), 20), window_sum(x.traded, 20))
    usual = ratio(window_sum(np.abs(x.delta), 120), window_sum(x.traded, 120))
    return np.where(usual > 0.0, ratio(recent, usual) - 1.0, 0.0)


def _depth(x: Inputs) -> F64:
    levels = next((pair for pair in (DEPTHS, SIZES) if x.extra.keys() >= pair), None)
    if levels is None:
        now = x.traded / (x.range + x.atr)
    else:
        bid, ask = sorted(levels, reverse=True)
        now = recorded(x.extra[bid]) + recorded(x.extra[ask])
    usual = window_mean(now, 20)
    return np.where(usual > 0.0, ratio(now, usual) - 1.0, 0.0)


def _book_imbalance(x: Inputs) -> F64:
    if not x.extra.keys() >= SIZES:
        return x.zeros
    bid, ask = recorded(x.extra["bid_size"]), recorded(x.extra["ask_size"])
    return ratio(bid - ask, bid + ask)


def _microprice(x: Inputs) -> F64:
    return 0.5 * _quoted_spread(x) * _book_imbalance(x) if x.extra.keys() >= QUOTES | SIZES else x.zeros


def _book_flow(x: Inputs) -> F64:
    if "ofi" in x.extra:
        flow = recorded(x.extra["ofi"])
    elif x.extra.keys() >= QUOTES | SIZES:
        flow = _close_to_close_flow(x)
    else:
        return x.zeros
    return ratio(flow, np.sqrt(window_mean(flow * flow, 60)))


def _close_to_close_flow(x: Inputs) -> F64:
    """Order-flow imbalance from the quotes at the closes alone; zero beside a missing quote."""
    columns = [recorded(x.extra[name]) for name in ("bid", "ask", "bid_size", "ask_size")]
    bid_move, ask_move = (change(price) for price in columns[:2])
    bid, ask = columns[2:]
    bid_before, ask_before = lag(bid, 1), lag(ask, 1)
    bought = np.where(bid_move >= 0.0, bid, 0.0) - np.where(bid_move <= 0.0, bid_before, 0.0)
    sold = np.where(ask_move <= 0.0, ask, 0.0) - np.where(ask_move >= 0.0, ask_before, 0.0)
    known = np.isfinite(x.extra["bid"]) & np.isfinite(x.extra["ask"])
    known[1:] &= known[:-1]
    known[0] = False
    return np.where(known, bought - sold, 0.0)


def _source(x: Inputs) -> F64:
    if "signal" in x.extra:
        return np.full(len(x), SIGNAL)
    book = BOOK if x.extra.keys() >= QUOTES else NOTHING
    if x.has_trades:
        guessed = recorded(x.extra["side_inferred"]) if "side_inferred" in x.extra else x.zeros
        return np.where(guessed > 0.0, INFERRED, TRADES) + book
    return np.full(len(x), book if x.volume is None else BULK + book)


def _reserved(number: int) -> Feature:
    return _row(
        f"reserved_{number + 1}",
        0,
        f"column {number + 1} of `observe` as it is, else 0",
        "the user",
        lambda x: x.observed[number] if number < len(x.observed) else x.zeros,
    )


ORDER_FLOW = [
    _row(
        "signal_or_imbalance",
        0,
        "the `signal` column as it is, else q / V (0 for the first 60 bars)",
        f"synthetic markets; {_BVC}",
        _first,
    ),
    *(_imbalance_row(window) for window in (5, 20, 60)),
    _row(
        "flow_to_volume",
        60,
        "q / mean V of 20 bars",
        _BVC,
        lambda x: ratio(x.flow, x.mean_volume),
    ),
    _row(
        "flow_toxicity_50",
        109,
        "sum of |q| / sum of V, over 50 bars",
        "VPIN, Easley, Lopez de Prado, O'Hara 2012",
        lambda x: ratio(window_sum(np.abs(x.flow), 50), window_sum(x.flow_volume, 50)),
    ),
    _row(
        "impact_slope_60",
        119,
        "(sum of dC q / sum of q^2, over 60 bars) x mean V / ATR",
        "Kyle 1985, lambda by regression",
        _impact_slope,
    ),
    _row(
        "flow_correlation_60",
        119,
        "correlation of dC and q about zero, over 60 bars",
        "Kyle 1985",
        _flow_correlation,
    ),
    _row(
        "roll_spread_60",
        61,
        "2 sqrt(max(0, -mean of dC_t dC_t-1 over 60 bars)) / ATR",
        "Roll 1984",
        _roll_spread,
    ),
    _row(
        "spread",
        0,
        "(ask - bid) / ATR where recorded, else 2 sqrt(max(0, mean over 60 bars of "
        "(C_t-1 - M_t-1)(C_t-1 - M_t))) / ATR, M = (H + L) / 2 (0 for the first 60 bars)",
        "quotes; Abdi, Ranaldo 2017, in differences",
        _spread,
    ),
    _row(
        "illiquidity",
        120,
        "(sum |dC| / sum V over 20 bars) / (the same over 120 bars) - 1",
        "Amihud 2002, in differences",
        _illiquidity,
    ),
    _row(
        "depth",
        19,
        "D / mean D of 20 bars - 1; D: contracts in the book (all levels, else the best) where recorded, "
        "else V / (H - L + ATR)",
        "order book; depth proxy",
        _depth,
    ),
    _row(
        "book_imbalance",
        0,
        "(bid size - ask size) / (their sum) where recorded, else 0",
        "order book",
        _book_imbalance,
    ),
    _row("microprice", 0, "(microprice - mid) / ATR where recorded, else 0", "Stoikov 2018", _microprice),
    _row(
        "book_flow",
        60,
        "e / rms of e over 60 bars; e: order-flow imbalance of the bar where recorded, else from its closing "
        "quotes: [b >= b'] B - [b <= b'] B' - [a <= a'] A + [a >= a'] A'; else 0; b, a: bid, ask; B, A: their "
        "sizes; ': the bar before",
        "Cont, Kukanov, Stoikov 2014",
        _book_flow,
    ),
    _row(
        "order_flow_source",
        0,
        "1: planted signal; else 0.75: buy and sell volume by a guessed aggressor, 0.5: recorded buy and sell "
        "volume, 0.25: bulk-volume proxies, 0: volume unknown; plus 0.125 where bid and ask are recorded",
        "flag",
        _source,
    ),
    *(_reserved(number) for number in range(N_RESERVED)),
]
