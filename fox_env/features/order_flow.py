"""The 20 order-flow features: recorded order flow where the data have it, else proxies from bars and volume.

Recorded columns are taken by name from ``Bars.extra``: ``signal``; ``buy_volume`` and ``sell_volume``;
``bid`` and ``ask``; ``bid_size`` and ``ask_size``. q: signed volume of a bar (see ``Inputs.flow``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fox_env.features.declare import Feature, Inputs, recorded
from fox_env.features.windows import F64, change, lag, ratio, window_mean, window_sum

SIGNAL, TRADES, BULK, NOTHING = 1.0, 0.5, 0.25, 0.0
QUOTES = frozenset(("bid", "ask"))
SIZES = frozenset(("bid_size", "ask_size"))
RECORDED = QUOTES | SIZES | {"signal", "buy_volume", "sell_volume"}
"""The columns of ``Bars.extra`` that are read."""

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


def _abdi_ranaldo(x: Inputs) -> F64:
    middle = 0.5 * (x.high + x.low)
    before = lag(x.close, 1)
    product = window_mean((before - lag(middle, 1)) * (before - middle), 60)
    return 2.0 * np.sqrt(np.maximum(product, 0.0)) / x.atr


def _illiquidity(x: Inputs) -> F64:
    recent = ratio(window_sum(np.abs(x.delta), 20), window_sum(x.traded, 20))
    usual = ratio(window_sum(np.abs(x.delta), 120), window_sum(x.traded, 120))
    return np.where(usual > 0.0, ratio(recent, usual) - 1.0, 0.0)


def _depth(x: Inputs) -> F64:
    per_tick = x.traded / (x.range + x.atr)
    usual = window_mean(per_tick, 20)
    return np.where(usual > 0.0, ratio(per_tick, usual) - 1.0, 0.0)


def _volume_trend(x: Inputs) -> F64:
    short, long = window_mean(x.traded, 5), window_mean(x.traded, 60)
    return np.where(long > 0.0, ratio(short, long) - 1.0, 0.0)


def _spread(x: Inputs) -> F64:
    if not x.extra.keys() >= QUOTES:
        return x.zeros
    with np.errstate(invalid="ignore"):  # a side without a price makes the spread missing, not wrong
        return recorded(x.extra["ask"] - x.extra["bid"]) / x.atr


def _book_imbalance(x: Inputs, window: int) -> F64:
    if not x.extra.keys() >= SIZES:
        return x.zeros
    bid, ask = recorded(x.extra["bid_size"]), recorded(x.extra["ask_size"])
    return ratio(window_sum(bid - ask, window), window_sum(bid + ask, window))


def _microprice(x: Inputs) -> F64:
    return 0.5 * _spread(x) * _book_imbalance(x, 1) if x.extra.keys() >= QUOTES | SIZES else x.zeros


def _book_flow(x: Inputs) -> F64:
    if not x.extra.keys() >= QUOTES | SIZES:
        return x.zeros
    bid_move, ask_move = change(recorded(x.extra["bid"])), change(recorded(x.extra["ask"]))
    bid, ask = recorded(x.extra["bid_size"]), recorded(x.extra["ask_size"])
    bid_before, ask_before = lag(bid, 1), lag(ask, 1)
    bought = np.where(bid_move >= 0.0, bid, 0.0) - np.where(bid_move <= 0.0, bid_before, 0.0)
    sold = np.where(ask_move <= 0.0, ask, 0.0) - np.where(ask_move >= 0.0, ask_before, 0.0)
    return ratio(bought - sold, bid + bid_before + ask + ask_before)


def source_of(x: Inputs) -> float:
    """Return the code of the best order-flow source in the data, the value of the block's last entry."""
    if "signal" in x.extra:
        return SIGNAL
    if x.has_trades:
        return TRADES
    return NOTHING if x.volume is None else BULK


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
        "imbalance_shift",
        119,
        "imbalance over 5 bars - imbalance over 60 bars",
        _BVC,
        lambda x: _imbalance(x, 5) - _imbalance(x, 60),
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
        "close_range_spread_60",
        60,
        "2 sqrt(max(0, mean over 60 bars of (C_t-1 - M_t-1)(C_t-1 - M_t))) / ATR, M = (H + L) / 2",
        "Abdi, Ranaldo 2017, in differences",
        _abdi_ranaldo,
    ),
    _row(
        "illiquidity",
        120,
        "(sum |dC| / sum V over 20 bars) / (the same over 120 bars) - 1",
        "Amihud 2002, in differences",
        _illiquidity,
    ),
    _row("depth_per_tick", 19, "V / (H - L + ATR) against its mean of 20 bars, - 1", "depth proxy", _depth),
    _row("volume_trend", 59, "mean V of 5 bars / mean V of 60 bars - 1", "trade intensity", _volume_trend),
    _row("spread", 0, "(ask - bid) / ATR where recorded, else 0", "quotes", _spread),
    _row(
        "book_imbalance",
        0,
        "(bid size - ask size) / (their sum) where recorded, else 0",
        "order book",
        lambda x: _book_imbalance(x, 1),
    ),
    _row(
        "book_imbalance_20",
        19,
        "the same from sums over 20 bars",
        "order book",
        lambda x: _book_imbalance(x, 20),
    ),
    _row("microprice", 0, "(microprice - mid) / ATR where recorded, else 0", "Stoikov 2018", _microprice),
    _row(
        "book_flow",
        1,
        "([b >= b'] B - [b <= b'] B' - [a <= a'] A + [a >= a'] A') / (B + B' + A + A') where recorded, "
        "else 0; b, a: bid, ask; B, A: their sizes; ': the bar before",
        "order-flow imbalance, Cont, Kukanov, Stoikov 2014",
        _book_flow,
    ),
    _row(
        "order_flow_source",
        0,
        "1: planted signal, 0.5: recorded buy and sell volume, 0.25: bulk-volume proxies, 0: volume unknown",
        "flag",
        lambda x: np.full(len(x), source_of(x)),
    ),
]
