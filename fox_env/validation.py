"""Data checks: a report of everything in price bars that is wrong, doubtful or worth knowing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fox_env.bars import (
    PRICES,
    Bars,
    Fault,
    Flag,
    Float,
    Int,
    as_nanoseconds,
    find_faults,
    median_interval,
    session_breaks,
)
from fox_env.contracts import ContractSpec
from fox_env.contracts import contract as find_contract
from fox_env.errors import DataError

_ROWS_PER_KIND = 20
"""Rows that a report lists per kind and column; the counts are always complete."""

_JUMP_ATR = 25.0
"""A move within a session beyond this many average true ranges is reported."""

_BREAK_JUMP_ATR = 100.0
"""The same across a session break, where larger moves are ordinary."""

_ATR_BARS = 14
_GRID_TOLERANCE = 0.02
"""Distance from the price grid, in ticks, that counts as float32 noise and is snapped when a market is
built."""

_EARLIEST_NS = int(np.datetime64("1970-06-01", "ns").astype(np.int64))
"""Times before this are counts in another unit taken for ns more often than they are real."""

SEVERITY = {
    "order": "error",
    "duplicate": "error",
    "non_finite": "error",
    "ohlc": "error",
    "negative_volume": "error",
    "time_unit": "warning",
    "off_tick": "warning",
    "jump": "warning",
    "zero_price": "warning",
    "no_volume": "warning",
    "zero_volume": "note",
    "gap": "note",
    "negative_price": "note",
}
"""Every kind of problem: an error makes bars unusable, a warning asks for a look, a note is legal."""


class Problem(NamedTuple):
    """One finding: its kind, the row (from 0), the column and a sentence."""

    kind: str
    row: int
    column: str
    message: str


@dataclass(frozen=True)
class DataReport:
    """What :func:`validate_bars` found.

    Attributes
    ----------
    rows : int
        Rows checked.
    problems : list of Problem
        ``(kind, row, column, message)``, errors first, then warnings and notes; for each kind and column the
        first 20 rows.
    counts : dict of str to int
        Rows with each kind of problem, all of them.
    """

    rows: int
    problems: list[Problem] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is no error: the values can be made into bars. Warnings and notes do not count."""
        return not any(SEVERITY[kind] == "error" for kind in self.counts)

    def __str__(self) -> str:
        lines = [f"{self.rows:,} bars: {'ok' if self.ok else 'not usable'}"]
        first = {problem.kind: problem for problem in reversed(self.problems)}
        for kind in sorted(self.counts, key=list(SEVERITY).index):
            problem = first[kind]
            lines.append(
                f"  {SEVERITY[kind]}: {kind} in {self.counts[kind]:,} rows, "
                f"first row {problem.row}, column {problem.column}: {problem.message}"
            )
        return "\n".join(lines)


def validate_bars(
    bars: Bars | Mapping[str, ArrayLike], contract: str | ContractSpec | None = None
) -> DataReport:
    """Check price bars and report every fault, in all rows.

    Errors are rows out of time order, repeated times, non-finite values, a high or low inside the body, and
    negative volume. Warnings are times that look like another unit than ns, prices off the contract's tick
    grid (beyond 0.02 tick), moves of more than 25 average true ranges (100 across a session break), and
    volume 0 everywhere. Notes are single bars without volume, missing bars within a session, and negative
    prices, which are legal. The average true range is that of the 14 bars before (TA-Lib), at least its
    median over the data.

    Parameters
    ----------
    bars : Bars, or mapping of str to array
        Bars, which hold no errors, or the columns of :func:`fox_env.readers.read_columns`: ``ts``, ``open``,
        ``high``, ``low``, ``close`` and optionally ``volume``.
    contract : str or ContractSpec, optional
        Contract whose tick grid the prices should keep.

    Returns
    -------
    DataReport
        ``report.ok`` is True when there is no error.

    Raises
    ------
    DataError
        A column is missing, empty, or of another length than ``ts``.
    ConfigError
        The contract is unknown.
    """
    ts, prices, volume = _unpack(bars)
    rolls = bars.roll_gap if isinstance(bars, Bars) else None
    after_break = bars.gap if isinstance(bars, Bars) else session_breaks(ts)
    faults = list(find_faults(ts, prices, volume))
    broken = {fault.kind for fault in faults}
    faults += _time_faults(ts, after_break)
    faults += _price_faults(prices)
    if volume is not None:
        faults += _volume_faults(volume)
    if contract is not None:
        faults += _grid_faults(prices, find_contract(contract))
    if "non_finite" not in broken:  # a NaN would hide every later move from the average
        faults += _jump_faults(prices, after_break, rolls)
    return _report(len(ts), faults)


def _unpack(bars: Bars | Mapping[str, ArrayLike]) -> tuple[Int, dict[str, Float], Float | None]:
    if isinstance(bars, Bars):
        return bars.ts, {name: getattr(bars, name) for name in PRICES}, bars.volume
    if missing := [name for name in ("ts", *PRICES) if name not in bars]:
        raise DataError(f"Bars to check lack the column {missing[0]}; give ts, open, high, low and close.")
    ts = as_nanoseconds(bars["ts"])
    if len(ts) == 0:
        raise DataError("Bars to check: there are no rows; give at least one bar.")
    numbers = {name: np.asarray(bars[name], dtype=np.float64) for name in (*PRICES, "volume") if name in bars}
    for name, values in numbers.items():
        if values.shape != ts.shape:
            raise DataError(
                f"Bars to check: column {name} has shape {values.shape}, but ts has {len(ts)} rows."
            )
    return ts, {name: numbers[name] for name in PRICES}, numbers.get("volume")


def _report(rows: int, faults: list[Fault]) -> DataReport:
    faults.sort(key=lambda fault: list(SEVERITY).index(fault.kind))
    by_kind: dict[str, list[Int]] = {}
    problems: list[Problem] = []
    for fault in faults:
        by_kind.setdefault(fault.kind, []).append(fault.rows)
        shown = [int(row) for row in fault.rows[:_ROWS_PER_KIND]]
        problems += [Problem(fault.kind, row, fault.column, fault.describe(row)) for row in shown]
    counts = {kind: int(np.unique(np.concatenate(parts)).size) for kind, parts in by_kind.items()}
    return DataReport(rows, problems, counts)


def _time_faults(ts: Int, after_break: Flag) -> list[Fault]:
    faults = []
    early = np.flatnonzero(ts < _EARLIEST_NS)
    if early.size:
        message = "the time is in or before early 1970: are these seconds, ms or us taken for ns?"
        faults.append(Fault("time_unit", early[:1], "ts", lambda _: message))
    interval = median_interval(ts)
    step = np.diff(ts, prepend=ts[0])
    holes = np.flatnonzero((step > interval) & ~after_break)
    if interval and holes.size:
        faults.append(
            Fault("gap", holes, "ts", lambda i: f"{step[i] / 1e9:g} s since the bar before, within a session")
        )
    return faults


def _price_faults(prices: Mapping[str, Float]) -> list[Fault]:
    low = prices["low"]
    rows = np.flatnonzero(low < 0)
    return (
        [Fault("negative_price", rows, "low", lambda i: f"price {low[i]:g} is negative")] if rows.size else []
    )


def _volume_faults(volume: Float) -> list[Fault]:
    idle = np.flatnonzero(volume == 0)
    if idle.size == volume.size:
        message = "volume is 0 in every row, so nothing can be filled; drop the column where it is unknown"
        return [Fault("no_volume", idle, "volume", lambda _: message)]
    return [Fault("zero_volume", idle, "volume", lambda _: "nothing traded")] if idle.size else []


def _grid_faults(prices: Mapping[str, Float], spec: ContractSpec) -> list[Fault]:
    faults = []
    for name in PRICES:
        values = prices[name]
        with np.errstate(invalid="ignore"):
            ticks = values / spec.tick_size
            rows = np.flatnonzero(np.abs(ticks - np.rint(ticks)) > _GRID_TOLERANCE)

        def describe(row: int, values: Float = values) -> str:
            return f"price {values[row]:g} is not a multiple of {spec.symbol}'s tick {spec.tick_size:g}"

        if rows.size:
            faults.append(Fault("off_tick", rows, name, describe))
    return faults


def _jump_faults(prices: Mapping[str, Float], after_break: Flag, rolls: Float | None) -> list[Fault]:
    """Compare each bar's reach from the close before it with the average true range up to that close."""
    high, low, close = (np.array(prices[name]) for name in ("high", "low", "close"))
    if len(close) <= _ATR_BARS + 1:
        return []
    import talib  # here, as it may pull in pandas

    before = close[:-1] + (0.0 if rolls is None else rolls[1:])
    reach = np.maximum(np.abs(high[1:] - before), np.abs(low[1:] - before))
    atr = talib.ATR(high, low, close, timeperiod=_ATR_BARS)[:-1]
    if not (moves := atr[np.isfinite(atr) & (atr > 0)]).size:
        return []
    usual = np.fmax(atr, np.median(moves))
    limit = usual * np.where(after_break[1:], _BREAK_JUMP_ATR, _JUMP_ATR)
    rows = np.flatnonzero(reach > limit) + 1

    def describe(row: int) -> str:
        multiple = reach[row - 1] / usual[row - 1]
        return f"the bar reaches {reach[row - 1]:g} from the close before, {multiple:.0f} ATR"

    return [Fault("jump", rows, "close", describe)] if rows.size else []
