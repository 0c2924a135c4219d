"""Checks of the prices: zeros, spikes, jumps, negative prices, and prices that stand still."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fox_env.bars import PRICES, Fault, Flag, Float, Int
from fox_env.checks.series import Series, finding, usual_range

__all__ = ["price_faults"]

_JUMP_ATR = 25.0
"""A move within a session beyond this many average true ranges is reported."""

_BREAK_JUMP_ATR = 100.0
"""The same across a session break, where larger moves are ordinary."""

_SPIKE = 5.0
"""A price this many times its neighbours is a slip of the decimal point rather than a move."""

_FLAT_BARS = 10


def price_faults(series: Series) -> list[Fault]:
    """Report prices that are unlikely, in the order zero, spike, jump, negative, flat."""
    prices = series.prices
    ranges = prices["high"] - prices["low"]
    known = ranges[np.isfinite(ranges)]
    reach = _JUMP_ATR * np.median(known) if known.size else np.inf
    before, after = _neighbours(prices["close"])
    negative = any((prices[name] < 0).any() for name in PRICES)
    odd = np.zeros(len(series.ts), dtype=np.bool_)  # rows whose jump has a better name
    faults: list[Fault] = []
    for name in PRICES:
        values = prices[name]
        far = np.abs(values - before) > reach
        zero = (values == 0.0) & (far | (not negative))
        faults += finding("zero_price", zero, name, lambda _: "the price is 0")
        spike = far & _spikes(values, before, after)
        faults += finding("spike", spike, name, _describe_spike(values, before))
        odd |= zero | spike
    faults += _jumps(series, odd)
    low = prices["low"]
    faults += finding("negative_price", low < 0, "low", lambda i: f"price {low[i]:g} is negative")
    return faults + _flat_runs(prices)


def _neighbours(close: Float) -> tuple[Float, Float]:
    """Return the closes before and after each bar; at the ends the one neighbour twice."""
    if len(close) < 2:
        return close, close
    before, after = np.roll(close, 1), np.roll(close, -1)
    before[0], after[-1] = close[1], close[-2]
    return before, after


def _spikes(values: Float, before: Float, after: Float) -> Flag:
    """Find prices far above or below the closes on both sides, where ratios mean something."""
    ratios = np.stack((values / before, values / after))
    comparable = (values > 0) & (before > 0) & (after > 0)
    spike: Flag = comparable & ((ratios >= _SPIKE).all(0) | (ratios <= 1 / _SPIKE).all(0))
    return spike


def _describe_spike(values: Float, before: Float) -> Callable[[int], str]:
    return lambda i: (
        f"price {values[i]:g} is {float(values[i]) / float(before[i]):.3g} times the close beside it"
    )


def _jumps(series: Series, odd: Flag) -> list[Fault]:
    """Compare each bar's reach from the close before it with the usual range up to that close."""
    high, low, close = (series.prices[name] for name in ("high", "low", "close"))
    usual = usual_range(high, low, close)
    if usual is None:
        return []
    usual = usual[:-1]
    before = close[:-1] + (0.0 if series.roll_gap is None else series.roll_gap[1:])
    reach = np.maximum(np.abs(high[1:] - before), np.abs(low[1:] - before))
    limit = usual * np.where(series.after_break[1:], _BREAK_JUMP_ATR, _JUMP_ATR)
    rows = np.flatnonzero((reach > limit) & ~odd[1:] & ~odd[:-1]) + 1

    def describe(row: int) -> str:
        multiple = reach[row - 1] / usual[row - 1]
        return f"the bar reaches {reach[row - 1]:g} from the close before, {multiple:.0f} ATR"

    return finding("jump", rows, "close", describe)


def _flat_runs(prices: Mapping[str, Float]) -> list[Fault]:
    """Report the first bar of every run of bars at one single price."""
    high, low = prices["high"], prices["low"]
    still = np.concatenate(([False], (high[1:] == low[1:]) & (low[1:] == low[:-1]) & (low[:-1] == high[:-1])))
    edges = np.flatnonzero(np.diff(np.concatenate((still, [False])).astype(np.int8), prepend=0))
    starts: Int = edges[::2] - 1
    lengths = edges[1::2] - starts
    length_of = dict(zip(starts.tolist(), lengths.tolist(), strict=True))
    return finding(
        "flat",
        starts[lengths >= _FLAT_BARS],
        "close",
        lambda i: f"the price stands still at {low[i]:g} for {length_of[i]} bars",
    )
