"""The bars under check, in time order, and the form of a finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fox_env.bars import Fault, Flag, Float, Int
from fox_env.contracts import ContractSpec

__all__ = ["Series", "finding", "usual_range"]

_ATR_BARS = 14


@dataclass(frozen=True)
class Series:
    """Columns of bars sorted by time; values may be faulty.

    Attributes
    ----------
    ts : int64 (T,)
        Bar closes in ns UTC, ascending; equal times are possible.
    prices : dict of str to float64 (T,)
    volume : float64 (T,) or None
    extra : mapping of str to float64 (T,)
        Further columns.
    after_break : bool (T,)
        First bar after a session break.
    roll_gap : float64 (T,) or None
        As in :class:`fox_env.Bars`.
    interval : int
        Median spacing in ns.
    spec : ContractSpec or None
    """

    ts: Int
    prices: Mapping[str, Float]
    volume: Float | None
    extra: Mapping[str, Float]
    after_break: Flag
    roll_gap: Float | None
    interval: int
    spec: ContractSpec | None


def usual_range(high: Float, low: Float, close: Float) -> Float | None:
    """Return the average true range up to each bar, at least its median over the data.

    Parameters
    ----------
    high, low, close : float64 (T,)

    Returns
    -------
    float64 (T,) or None
        Wilder's average over 14 bars (TA-Lib); None for fewer than 16 bars, values that are not finite (a NaN
        would hide everything after it), and prices that never move.
    """
    if len(close) <= _ATR_BARS + 1 or not all(np.isfinite(values).all() for values in (high, low, close)):
        return None
    import talib  # here, as it may pull in pandas

    average: Float = talib.ATR(np.array(high), np.array(low), np.array(close), timeperiod=_ATR_BARS)
    moves = average[np.isfinite(average) & (average > 0)]
    return np.fmax(average, np.median(moves)) if moves.size else None


def finding(kind: str, bad: Flag | Int, column: str, describe: Callable[[int], str]) -> list[Fault]:
    """Return the fault of the rows given as a mask or as numbers, or nothing where there are none."""
    rows = np.flatnonzero(bad) if bad.dtype == np.bool_ else bad.astype(np.int64)
    return [Fault(kind, rows, column, describe)] if rows.size else []
