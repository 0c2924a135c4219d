"""Data checks: a report of everything in price bars that is wrong, doubtful or worth knowing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fox_env.bars import (
    PRICES,
    Bars,
    Fault,
    Float,
    Int,
    as_nanoseconds,
    find_faults,
    median_interval,
    session_breaks,
)
from fox_env.checks.grid import grid_faults, volume_faults
from fox_env.checks.kinds import KINDS, Kind, repairs_of
from fox_env.checks.prices import price_faults
from fox_env.checks.report import DataReport, Problem
from fox_env.checks.rolls import roll_faults, suspected_roll_gap
from fox_env.checks.series import Series
from fox_env.checks.sessions import session_faults
from fox_env.checks.times import time_faults
from fox_env.contracts import ContractSpec
from fox_env.contracts import contract as find_contract
from fox_env.errors import ConfigError, DataError
from fox_env.prepared import stored_contract
from fox_env.readers import read_columns
from fox_env.repair import ROW_NUMBER

__all__ = [
    "KINDS",
    "DataReport",
    "Kind",
    "Problem",
    "repairs_of",
    "suspected_roll_gap",
    "validate_bars",
]

_ROWS_PER_KIND = 20
"""Rows that a report lists per kind and column; the counts are always complete."""


def validate_bars(
    bars: object,
    contract: str | ContractSpec | None = None,
    **hints: Any,
) -> DataReport:
    """Check price bars and report every fault, in all rows.

    The kinds of problems and their mends are those of :data:`KINDS` (``docs/data-checks.md``): errors make
    bars unusable, warnings ask for a look, notes are legal. Moves are measured in average true ranges of the
    14 bars before (TA-Lib), at least their median over the data. With a contract the prices are held against
    its tick grid and missing bars against its sessions and holidays; without one, a pause of up to 30 minutes
    is a gap.

    Parameters
    ----------
    bars : Bars, mapping of str to array, or source
        Bars, which hold no errors; or columns: ``ts``, ``open``, ``high``, ``low``, ``close``, optionally
        ``volume``, and further ones; or a path, frame or list of these as for :func:`fox_env.read_bars`.
    contract : str or ContractSpec, optional
        Contract whose tick grid and sessions the bars should keep. None: the one that a prepared file holds.
    **hints
        Of a source: ``tz``, ``label``, ``format``, ``symbol``, ... as for :func:`fox_env.read_bars`, but no
        ``bars`` or ``repair``.

    Returns
    -------
    DataReport
        ``report.ok`` is True when there is no error.

    Raises
    ------
    DataError
        A column is missing, empty, of another length than ``ts`` or not of numbers; or the file cannot be read.
    ConfigError
        The contract is unknown, or a hint is given with bars that need no reading.
    """
    spec = stored_contract(bars) if contract is None else find_contract(contract)
    if isinstance(bars, Bars | Mapping):
        if hints:
            raise ConfigError(
                f"Bars to check: {next(iter(hints))}= is for reading a path or a frame; leave it out, as these are "
                f"{'bars' if isinstance(bars, Bars) else 'columns'} already."
            )
    else:
        bars = read_columns(bars, **hints)
    numbers = None
    if isinstance(bars, Mapping):
        numbers = np.asarray(bars[ROW_NUMBER]) if ROW_NUMBER in bars else None
        bars = {name: values for name, values in bars.items() if name != ROW_NUMBER}
    with np.errstate(
        invalid="ignore", divide="ignore", over="ignore"
    ):  # faulty values are what is looked for
        return _check(bars, spec, numbers)


def _check(
    bars: Bars | Mapping[str, ArrayLike], spec: ContractSpec | None, numbers: Int | None
) -> DataReport:
    """Check bars; `numbers` are their rows in the source where it has others or another order."""
    columns = _columns(bars)
    ts: Int = columns["ts"]
    order = None if (ts[1:] >= ts[:-1]).all() else np.argsort(ts, kind="stable")
    faults = list(find_faults(ts, {name: columns[name] for name in PRICES}, columns.get("volume")))
    series = _series(bars, columns, order, spec)
    judged, sessions = session_faults(series)
    doubts = [
        *time_faults(series), *judged, *price_faults(series),
        *grid_faults(series), *volume_faults(series), *roll_faults(series),
    ]  # fmt: skip
    if order is not None:
        position = np.argsort(order)
        doubts = [_in_file_order(fault, order, position) for fault in doubts]
    faults += doubts
    return _report(series, faults, bars.repairs if isinstance(bars, Bars) else (), sessions, numbers)


def _columns(bars: Bars | Mapping[str, ArrayLike]) -> dict[str, Any]:
    """Return the columns as arrays of one length."""
    if isinstance(bars, Bars):
        columns: dict[str, Any] = {"ts": bars.ts} | {name: getattr(bars, name) for name in PRICES}
        return columns | ({} if bars.volume is None else {"volume": bars.volume}) | dict(bars.extra)
    if missing := [name for name in ("ts", *PRICES) if name not in bars]:
        raise DataError(f"Bars to check lack the column {missing[0]}; give ts, open, high, low and close.")
    ts = as_nanoseconds(bars["ts"])
    if len(ts) == 0:
        raise DataError("Bars to check: there are no rows; give at least one bar.")
    needed = {name: _numbers(name, bars[name]) for name in (*PRICES, "volume") if name in bars}
    further = {name: np.asarray(bars[name]) for name in bars if name not in needed and name != "ts"}
    numbers = needed | {name: values for name, values in further.items() if values.dtype.kind in "biuf"}
    for name, values in numbers.items():
        if values.shape != ts.shape:
            raise DataError(
                f"Bars to check: column {name} has shape {values.shape}, but ts has {len(ts)} rows."
            )
    return {"ts": ts} | numbers


def _numbers(name: str, values: ArrayLike) -> Float:
    array = np.asarray(values)
    if array.dtype.kind in "biufO":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError):
            pass  # objects that are no numbers
    raise DataError(
        f"Bars to check: column {name} holds {array.dtype} values, which are no numbers; convert it."
    )


def _series(
    bars: Bars | Mapping[str, ArrayLike],
    columns: dict[str, Any],
    order: Int | None,
    spec: ContractSpec | None,
) -> Series:
    """Put the columns into time order."""
    if order is not None:
        columns = {name: values[order] for name, values in columns.items()}
    ts = columns["ts"]
    rolls = bars.roll_gap if isinstance(bars, Bars) else columns.get("roll_gap")
    taken = {"ts", *PRICES, "volume", "roll_gap"}
    return Series(
        ts=ts,
        prices={name: columns[name] for name in PRICES},
        volume=columns.get("volume"),
        extra={name: values for name, values in columns.items() if name not in taken},
        after_break=bars.gap if isinstance(bars, Bars) else session_breaks(ts),
        roll_gap=rolls,
        interval=median_interval(ts),
        spec=spec,
    )


def _in_file_order(fault: Fault, order: Int, position: Int) -> Fault:
    """Give a fault of the sorted rows the row numbers of the file; `position` is where each row was sorted to."""
    rows = np.sort(order[fault.rows])
    return Fault(fault.kind, rows, fault.column, lambda row: fault.describe(int(position[row])))


def _report(
    series: Series, faults: list[Fault], repairs: tuple[str, ...], sessions: str, numbers: Int | None
) -> DataReport:
    kinds = list(KINDS)
    faults.sort(key=lambda fault: kinds.index(fault.kind))
    by_kind: dict[str, list[Int]] = {}
    problems: list[Problem] = []
    for fault in faults:
        by_kind.setdefault(fault.kind, []).append(fault.rows)
        for row in fault.rows[:_ROWS_PER_KIND].tolist():
            number = row if numbers is None else int(numbers[row])
            problems.append(Problem(fault.kind, number, fault.column, fault.describe(row)))
    counts = {kind: int(np.unique(np.concatenate(parts)).size) for kind, parts in by_kind.items()}
    first, last = (str(series.ts[i].astype("datetime64[ns]").astype("datetime64[s]")) for i in (0, -1))
    return DataReport(
        rows=len(series.ts),
        problems=problems,
        counts=counts,
        repairs=repairs,
        first=first,
        last=last,
        interval_s=series.interval / 1e9,
        contract=None if series.spec is None else series.spec.symbol,
        sessions=sessions,
    )
