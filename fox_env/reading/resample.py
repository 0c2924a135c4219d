"""Bars to coarser bars: by time or by trading day, never across a session break or a roll."""

from __future__ import annotations

import numpy as np

from fox_env.bars import Bars, Flag, Float, Int
from fox_env.errors import ConfigError
from fox_env.reading.sizes import BarSize, parse_size

_DAY_NS = 86_400_000_000_000
_SUMS = frozenset(("buy_volume", "sell_volume", "ofi", "trades"))
"""Extra columns that count what happened within a bar; of all others the last value stands."""


def resample(bars: Bars, size: str) -> Bars:
    """Combine bars into coarser ones.

    A coarse bar holds the bars that close within (start, end], where the intervals start at multiples of the
    size since 1970 UTC; its time is ``end``. "1d" is a trading day: the bars of one session, and of at most
    24 hours since its first bar opened; its time is the close of its last bar. No coarse bar crosses a
    session break or a roll; where one ends early and another follows within the same interval, its time is
    the close of its last bar. Intervals without bars make none; the last bar may be incomplete.

    Parameters
    ----------
    bars : Bars
    size : str
        A time such as "5min" or "1h", or "1d".

    Returns
    -------
    Bars
        First open, highest high, lowest low, last close, summed volume; ``gap`` and ``roll_gap`` of the
        first bar, ``session_end`` of the last. Of the extra columns, ``buy_volume``, ``sell_volume``, ``ofi``
        and ``trades`` are summed (a missing value counts 0 unless all are missing); of all others the last
        value stands.

    Raises
    ------
    ConfigError
        The size is unknown, counts trades, volume or money, or is not a multiple of the bars' interval.
    """
    wanted = parse_size(size)
    _check(bars, wanted)
    cut = bars.gap.copy()
    if bars.roll_gap is not None:
        cut |= bars.roll_gap != 0
    cut[0] = True
    if wanted.kind == "day":
        starts = np.flatnonzero(cut | _day_starts(bars, wanted))
    else:
        end = -(-bars.ts // wanted.amount) * wanted.amount
        starts = np.flatnonzero(cut | (np.diff(end, prepend=end[0]) != 0))
    last = np.append(starts[1:], len(bars)) - 1
    close = bars.ts[last]
    if wanted.kind == "time":
        follows = np.append(np.diff(end[last]) == 0, False)
        close = np.where(follows, close, end[last])
    return Bars.from_arrays(
        close,
        bars.open[starts],
        np.maximum.reduceat(bars.high, starts),
        np.minimum.reduceat(bars.low, starts),
        bars.close[last],
        volume=None if bars.volume is None else np.add.reduceat(bars.volume, starts),
        roll_gap=None if bars.roll_gap is None else bars.roll_gap[starts],
        session_end=bars.session_end[last],
        gap=bars.gap[starts],
        extra={name: _combine(name, values, starts, last) for name, values in bars.extra.items()},
        repairs=bars.repairs,
        adjusted=bars.adjusted,
    )


def _check(bars: Bars, size: BarSize) -> None:
    if size.kind not in ("time", "day"):
        raise ConfigError(
            f"Bar size {size.text!r} needs trades, but these are bars; use a time such as '5min'."
        )
    grid = int(np.gcd.reduce(bars.ts, initial=_DAY_NS))  # all closes are multiples of it
    if size.amount % grid:
        raise ConfigError(
            f"Bar size {size.text!r} is not a multiple of the bars' interval of {grid / 1e9:g} s."
        )


def _day_starts(bars: Bars, size: BarSize) -> Flag:
    """Return where a session has lasted another 24 hours since its first bar opened."""
    session = np.cumsum(bars.session_start) - 1
    opened = bars.ts[bars.session_start] - bars.interval_ns
    day: Int = (bars.ts - 1 - opened[session]) // size.amount
    starts: Flag = np.diff(day, prepend=day[0]) != 0
    return starts


def _combine(name: str, values: Float, starts: Int, last: Int) -> Float:
    if name not in _SUMS:
        return values[last]
    known = np.logical_or.reduceat(np.isfinite(values), starts)
    return np.where(known, np.add.reduceat(np.nan_to_num(values, nan=0.0), starts), np.nan)
