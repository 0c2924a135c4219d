"""Checks of open interest: unmarked rolls of a continuous series and changes of the counting rule."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fox_env.bars import PRICES, Bars, Fault, Flag, Float
from fox_env.checks.series import Series, finding, usual_range
from fox_env.rolls import open_interest_column

__all__ = ["roll_faults", "suspected_roll_gap"]

_CHANGE = 0.15
"""Share by which open interest does not change overnight while it counts the same contract."""

_HALVED = (0.48, 0.52)
"""Ratio left by counting one side of each position instead of both, as Chinese exchanges do since 2020."""

_DAY_NS = 86_400_000_000_000


def roll_faults(series: Series) -> list[Fault]:
    """Report overnight changes of open interest that a roll or a new counting rule would leave."""
    name = open_interest_column(series.extra)
    if name is None:
        return []
    held = series.extra[name]
    overnight = _overnight(series.after_break, series.interval)
    rolls, halved = _changes(held, overnight, series.prices)
    if series.roll_gap is not None:
        rolls &= series.roll_gap == 0
    open_, close = series.prices["open"], series.prices["close"]

    def describe(row: int) -> str:
        change = float(held[row]) / float(held[row - 1]) - 1
        move = open_[row] - close[row - 1]
        return f"open interest changes by {change:+.1%} and the price by {move:+g} over the session break"

    return finding("roll", rolls, name, describe) + finding("open_interest_break", halved, name, describe)


def suspected_roll_gap(bars: Bars) -> Float | None:
    """Return a roll column for a continuous series that has none, from its open interest.

    Parameters
    ----------
    bars : Bars
        A series whose ``extra`` holds open interest.

    Returns
    -------
    float64 (T,) or None
        At each suspected roll the open minus the close before, which holds the overnight move of the market
        as well as the difference between the contracts; 0 elsewhere. None where no roll is suspected.
    """
    name = open_interest_column(bars.extra)
    if name is None:
        return None
    prices = {column: getattr(bars, column) for column in PRICES}
    with np.errstate(invalid="ignore", divide="ignore"):  # a count of 0
        rolls, _ = _changes(bars.extra[name], _overnight(bars.gap, bars.interval_ns), prices)
    if not rolls.any():
        return None
    return np.where(rolls, bars.open - np.concatenate((bars.open[:1], bars.close[:-1])), 0.0)


def _overnight(after_break: Flag, interval: int) -> Flag:
    """Every bar of daily data is one session; the first bar has nothing before it."""
    overnight = after_break | (interval >= _DAY_NS)
    overnight[:1] = False
    return overnight


def _changes(held: Float, overnight: Flag, prices: Mapping[str, Float]) -> tuple[Flag, Flag]:
    """Return the rows of rolls, where the price jumps as well, and those of a halved count."""
    before = np.concatenate((held[:1], held[:-1]))
    ratio = held / before
    known = overnight & (before > 0) & (held > 0)
    halved: Flag = known & (ratio >= _HALVED[0]) & (ratio <= _HALVED[1])
    usual = usual_range(prices["high"], prices["low"], prices["close"])
    if usual is None:
        return np.zeros(len(held), dtype=np.bool_), halved
    moved = np.zeros(len(held), dtype=np.bool_)
    moved[1:] = np.abs(prices["open"][1:] - prices["close"][:-1]) > usual[:-1]
    rolls: Flag = known & moved & (np.abs(ratio - 1) > _CHANGE) & ~halved
    return rolls, halved
