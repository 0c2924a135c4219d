"""Named repairs of faulty rows: what each one changes, in which order, and how many rows it changed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import PRICES, Flag
from fox_env.errors import ConfigError, DataError

__all__ = ["REPAIRS", "ROW_NUMBER", "check_repairs", "repair_columns"]

Columns = dict[str, NDArray[Any]]

ROW_NUMBER = "row number"
"""The column of the row of the source, from 0."""


class Repair(NamedTuple):
    """One repair: how it finds its rows, what it does with them, and the words for both."""

    find: Callable[[Columns], Flag]
    finding: str
    """What is wrong with the rows found, after "3 rows"."""
    change: str
    """What was done, after the finding."""
    mend: Callable[[Columns], None] | None = None
    """Correct the rows in place; None: drop them."""
    excludes: str | None = None
    """The repair that answers the same fault otherwise."""
    kinds: tuple[str, ...] = ()
    """Kinds of :mod:`fox_env.validation` that it removes."""


def _numbers(columns: Columns) -> list[NDArray[Any]]:
    return [columns[name] for name in (*PRICES, "volume") if name in columns]


def _not_finite(columns: Columns) -> Flag:
    bad: Flag = ~np.logical_and.reduce([np.isfinite(values) for values in _numbers(columns)])
    return bad


def _zero_price(columns: Columns) -> Flag:
    zero: Flag = np.logical_or.reduce([columns[name] == 0 for name in PRICES])
    return zero


def _bad_range(columns: Columns) -> Flag:
    upper, lower = (reach(columns["open"], columns["close"]) for reach in (np.maximum, np.minimum))
    bad: Flag = (columns["high"] < upper) | (columns["low"] > lower)
    return bad


def _widen(columns: Columns) -> None:
    body = columns["open"], columns["close"]
    rows = _bad_range(columns)  # a NaN compares false, so a row with one stays as it is
    for name, reach in (("high", np.maximum), ("low", np.minimum)):
        values = columns[name].copy()
        values[rows] = reach(values, reach(*body))[rows]
        columns[name] = values


def _backward(columns: Columns) -> Flag:
    earlier: Flag = np.diff(columns["ts"], prepend=columns["ts"][:1]) < 0
    return earlier


def _sort(columns: Columns) -> None:
    order = np.argsort(columns["ts"], kind="stable")
    for name, values in columns.items():
        columns[name] = values[order]


def _repeats(columns: Columns) -> Flag:
    """Find the rows whose time occurred in a row before, as the source counts its rows."""
    return _but_one_of_each_time(columns["ts"], columns[ROW_NUMBER])


def _repeated_later(columns: Columns) -> Flag:
    """Find the rows whose time occurs again in a later row, as the source counts its rows."""
    return _but_one_of_each_time(columns["ts"], -columns[ROW_NUMBER])


def _but_one_of_each_time(ts: NDArray[Any], rank: NDArray[Any]) -> Flag:
    order = np.lexsort((rank, ts))
    repeated = np.zeros(len(ts), dtype=np.bool_)
    repeated[order[1:]] = ts[order[1:]] == ts[order[:-1]]
    return repeated


REPAIRS: Mapping[str, Repair] = {
    "drop_non_finite": Repair(
        _not_finite, "with a price or volume that is not a finite number", "dropped", kinds=("non_finite",)
    ),
    "drop_zero_price": Repair(_zero_price, "with a price of 0", "dropped", kinds=("zero_price",)),
    "widen": Repair(
        _bad_range,
        "whose high or low lies inside the body",
        "high and low extended to contain open and close",
        mend=_widen,
        excludes="drop_bad_ohlc",
        kinds=("ohlc",),
    ),
    "drop_bad_ohlc": Repair(
        _bad_range, "whose high or low lies inside the body", "dropped", excludes="widen", kinds=("ohlc",)
    ),
    "sort": Repair(
        _backward, "earlier than the row before", "all rows put in time order", mend=_sort, kinds=("order",)
    ),
    "keep_first": Repair(
        _repeats,
        "repeating the time of an earlier row",
        "dropped, the first row of each time kept",
        excludes="keep_last",
        kinds=("duplicate",),
    ),
    "keep_last": Repair(
        _repeated_later,
        "whose time occurs again in a later row",
        "dropped, the last row of each time kept",
        excludes="keep_first",
        kinds=("duplicate",),
    ),
}
"""Every repair in the order in which they are applied, whatever the order of the names given: rows are dropped
before the rest is sorted, and only then one row per time is kept."""


def check_repairs(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of repairs in the order in which they are applied, each once.

    Raises
    ------
    ConfigError
        A name is unknown (the message gives the nearest), or two repairs answer the same fault.
    """
    if isinstance(names, str):
        names = (names,)
    wanted = list(names)
    for name in wanted:
        if name not in REPAIRS:
            near = difflib.get_close_matches(str(name), REPAIRS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(REPAIRS)}."
            raise ConfigError(f"Unknown repair {name!r}: {hint}")
    chosen = tuple(name for name in REPAIRS if name in wanted)
    for name in chosen:
        if (other := REPAIRS[name].excludes) in chosen:
            raise ConfigError(f"The repairs {name} and {other} exclude each other; give one.")
    return chosen


def repair_columns(
    columns: Mapping[str, NDArray[Any]],
    names: Iterable[str],
    rows: NDArray[Any] | None = None,
    source: str = "the rows",
) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Apply named repairs to the columns of bars and say what each one changed.

    Parameters
    ----------
    columns : mapping of str to array, shape (T,)
        ``ts`` (int64 ns), ``open``, ``high``, ``low``, ``close`` (float64), optionally ``volume``, and any
        further columns, which move and drop with their rows.
    names : iterable of str
        Keys of :data:`REPAIRS`; applied in the order of that table.
    rows : int array, shape (T,), optional
        Row of the source of every row, from 0, where they are not all rows of it in their order. The first of
        several rows of one time is the one that the source has first.
    source : str
        What the error calls it.

    Returns
    -------
    columns : dict of str to array
        New columns; the arrays given are not changed.
    sentences : list of str
        One for every repair that changed something: how many rows, and the first of them in the source.

    Raises
    ------
    ConfigError
        A name is unknown, or two repairs exclude each other.
    DataError
        No row is left.
    """
    chosen = check_repairs(names)
    repaired = dict(columns)
    count = len(repaired["ts"])
    repaired[ROW_NUMBER] = np.arange(count) if rows is None else rows
    sentences = []
    for name in chosen:
        repair = REPAIRS[name]
        bad = repair.find(repaired)
        if not bad.any():
            continue
        first, many = int(repaired[ROW_NUMBER][bad].min()), int(np.count_nonzero(bad))
        found = f"{many:,} row{'s' if many > 1 else ''}"
        sentences.append(f"{name}: {found} {repair.finding}, first row {first}: {repair.change}")
        if repair.mend is not None:
            repair.mend(repaired)
        else:
            repaired = {column: values[~bad] for column, values in repaired.items()}
        if not len(repaired["ts"]):
            raise DataError(
                f"{source}: the repair {name} drops all of the {count:,} rows; look at the data instead."
            )
    del repaired[ROW_NUMBER]
    return repaired, sentences
