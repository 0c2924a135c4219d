"""Bars to coarser bars: by time, never across a session break, or by trading day; neither across a roll."""

from __future__ import annotations

import numpy as np

from fox_env.bars import Bars, Float, Int
from fox_env.calendars import trading_days
from fox_env.contracts import ContractSpec
from fox_env.contracts import contract as find_contract
from fox_env.errors import ConfigError
from fox_env.reading.sizes import BarSize, parse_size

_DAY_NS = 86_400_000_000_000
_SUMS = frozenset(("buy_volume", "sell_volume", "ofi", "trades"))
"""Extra columns that count what happened within a bar; of all others the last value stands."""


def resample(bars: Bars, size: str, contract: str | ContractSpec | None = None) -> Bars:
    """Combine bars into coarser ones.

    A coarse bar holds the bars that close within (start, end], where the intervals start at multiples of the
    size since 1970 UTC; its time is ``end``. It crosses no session break and no roll; where one ends early and
    another follows within the same interval, its time is the close of its last bar. Intervals without bars make
    none; the last bar may be incomplete.

    "1d" makes one bar for every trading day, whatever breaks it has; its time is the close of its last bar. A
    session belongs to the day at the exchange on which it opens, from 16:30 on to the next one, and on a weekend to
    the Monday: so a night session is part of the day that follows. A session that lasts longer than a day is divided
    every 24 hours since the day opened, one of a contract that trades around the clock every day at midnight.
    Without a contract the day is that of UTC, from 20:30 on the next one. This suits exchanges of America and
    Europe; a night session in Asia would count to the day before, so name the contract.

    Parameters
    ----------
    bars : Bars
    size : str
        A time such as "5min" or "1h", or "1d".
    contract : str or ContractSpec, optional
        What is traded: its time zone decides which trading day a session belongs to.

    Returns
    -------
    Bars
        First open, highest high, lowest low, last close, summed volume; ``roll_gap`` of the first bar. By time,
        ``gap`` is that of the first bar and ``session_end`` that of the last; of days they are derived as
        :meth:`Bars.from_arrays` does for daily bars of any origin. Of the extra columns, ``buy_volume``,
        ``sell_volume``, ``ofi`` and ``trades`` are summed (a missing value counts 0 unless all are missing); of
        all others the last value stands.

    Raises
    ------
    ConfigError
        The size is unknown, counts trades, volume or money, or is not a multiple of the bars' interval; or the
        contract is unknown.
    """
    wanted = parse_size(size)
    _check(bars, wanted)
    spec = None if contract is None else find_contract(contract)
    by_day = wanted.kind == "day"
    end = trading_days(bars, spec) if by_day else -(-bars.ts // wanted.amount) * wanted.amount
    cut = np.diff(end, prepend=end[0] - 1) != 0
    if not by_day:
        cut |= bars.gap
    if bars.roll_gap is not None:
        cut |= bars.roll_gap != 0
    starts = np.flatnonzero(cut)
    last = np.append(starts[1:], len(bars)) - 1
    close = bars.ts[last]
    if not by_day:
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
        session_end=None if by_day else bars.session_end[last],
        gap=None if by_day else bars.gap[starts],
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


def _combine(name: str, values: Float, starts: Int, last: Int) -> Float:
    if name not in _SUMS:
        return values[last]
    known = np.logical_or.reduceat(np.isfinite(values), starts)
    return np.where(known, np.add.reduceat(np.nan_to_num(values, nan=0.0), starts), np.nan)
