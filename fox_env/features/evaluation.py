"""Evaluation of the feature table in runs of rows: on several threads, in memory that stays small.

A formula reads back over at most `REACH` rows, so a run of rows is evaluated from its own rows and those before
it. The few sequential formulas pass over the whole series first. Both give the same bits as one pass would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fox_env import _native
from fox_env.features.declare import Feature, Inputs
from fox_env.features.table import CLIP, FEATURES, N_FEATURES
from fox_env.features.timeframes import FACTORS, coarse
from fox_env.features.windows import F64

F32 = NDArray[np.float32]
Item = TypeVar("Item")
Result = TypeVar("Result")

ROWS = 30_000
"""Rows of a run: the series of a formula stay in the processor's cache."""
REACH = 512
"""Rows before a run that its formulas may read; the longest chain of windows has 241."""
_MOST_THREADS = 8


def evaluate(inputs: Inputs) -> F32:
    """Compute the whole table in float64 and store it in float32, in memory.

    Parameters
    ----------
    inputs : Inputs
        The series of T bars, prices in ticks.

    Returns
    -------
    float32 array (T, 86)
        Read-only, finite, within +-10; a feature is zero before its window is full.
    """
    table = np.empty((len(inputs), N_FEATURES), dtype=np.float32)

    def write(first: int, rows: F32) -> None:
        table[first : first + len(rows)] = rows

    stream(inputs, write)
    table.flags.writeable = False
    return table


def stream(inputs: Inputs, write: Callable[[int, F32], None]) -> None:
    """Compute the table in runs of `ROWS` rows.

    Parameters
    ----------
    inputs : Inputs
        The series of T bars, prices in ticks.
    write : callable
        Called once for every run with its first row and its float32 (rows, 86) values, from several threads
        and in any order.
    """
    prepared = [lambda factor=factor: coarse(inputs, factor) for factor in FACTORS]
    each(lambda prepare: prepare(), prepared, len(inputs))
    sequential = [feature for feature in FEATURES if feature.sequential]
    columns = each(lambda feature: _whole(inputs, feature), sequential, len(inputs))
    whole = dict(zip(sequential, columns, strict=True))
    each(lambda first: write(first, _run(inputs, whole, first)), range(0, len(inputs), ROWS), len(inputs))


def each(work: Callable[[Item], Result], items: Iterable[Item], length: int) -> list[Result]:
    """Return ``work(item)`` of every item; on several threads for series longer than one run of rows."""
    if length <= ROWS:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(_MOST_THREADS, _native.max_threads())) as pool:
        return list(pool.map(work, items))


def _whole(inputs: Inputs, feature: Feature) -> F32:
    column = np.empty(len(inputs), dtype=np.float32)
    _finish(feature, feature.compute(inputs), 0, column)
    return column


def _run(inputs: Inputs, whole: dict[Feature, F32], first: int) -> F32:
    """Return the rows of one run, from the rows of its inputs and `REACH` more before them."""
    start, stop = max(first - REACH, 0), min(first + ROWS, len(inputs))
    part = inputs.rows(start, stop)
    columns = np.empty((N_FEATURES, stop - first), dtype=np.float32)
    for column, feature in zip(columns, FEATURES, strict=True):
        if feature in whole:
            column[:] = whole[feature][first:stop]
        else:
            _finish(feature, feature.compute(part)[first - start :], first, column)
    return np.ascontiguousarray(columns.T)


def _finish(feature: Feature, values: F64, first: int, out: F32) -> None:
    """Clip and round the values of rows from `first` on, and clear those before the window is full."""
    np.clip(values, -CLIP, CLIP, out=out, casting="same_kind")
    out[: max(feature.ready - first, 0)] = 0.0
