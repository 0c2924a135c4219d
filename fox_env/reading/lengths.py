"""How long a bar is: as the source records it, else as its times tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import Int
from fox_env.reading.dialect import Dialect
from fox_env.reading.names import plain
from fox_env.reading.table import Table, shown

if TYPE_CHECKING:
    import polars as pl

MINUTE_NS = 60_000_000_000
HOUR_NS = 60 * MINUTE_NS
DAY_NS = 24 * HOUR_NS
_RTYPE_NS = {32: 1_000_000_000, 33: MINUTE_NS, 34: HOUR_NS, 35: DAY_NS, 36: DAY_NS}
"""Length of a bar by Databento's record type."""
_UNITS_NS = {"s": 1_000_000_000, "sec": 1_000_000_000, "m": MINUTE_NS, "min": MINUTE_NS, "t": MINUTE_NS,
             "h": HOUR_NS, "hour": HOUR_NS, "d": DAY_NS, "day": DAY_NS}  # fmt: skip
_LENGTH = re.compile(r"(\d{0,4})\s*([a-z]*?)s?", re.IGNORECASE)
_OFF_GRID = 0.1


def recorded_length(table: Table, dialect: Dialect) -> int:
    """Return the length of a bar in ns as a column of the source records it; 0 where none does.

    Read are Databento's record type, ``<PER>`` of Finam and Stooq in minutes or as D, and a column of text
    named interval such as ``1m`` or ``1h``.

    Raises
    ------
    DataError
        The bars of ``<PER>`` or of the intervals are of several lengths.
    """
    import polars as pl

    columns = {plain(name): name for name in reversed(table.frame.columns)}
    if dialect.name == "databento":
        return _record_type(table.frame[columns["rtype"]]) if "rtype" in columns else 0
    column = columns.get("per") if dialect.name == "finam" else columns.get("interval")
    if column is None:
        return 0
    cells = table.frame[column].cast(pl.String).str.strip_chars().str.replace(r"\.0$", "")
    first = _length_of(cells[0] or "", dialect.name == "finam")
    if first and (other := (cells != cells[0]).fill_null(True).to_numpy()).any():
        row = int(other.argmax())
        message = (
            f"{shown(cells[row])} is another length of a bar than {shown(cells[0])} in row 0; split the file"
        )
        raise table.error(row, column, message)
    return first


def _length_of(text: str, minutes: bool) -> int:
    """Return the length in ns that ``5``, ``D``, ``1min`` or ``1h`` stand for, 0 for anything else."""
    match = _LENGTH.fullmatch(text)
    if match is None or not (match[1] or match[2].casefold() == "d"):
        return 0
    unit = match[2].casefold() or ("m" if minutes else "")
    month = match[2] == "M"  # 1M is a month beside 1m
    return 0 if month else int(match[1] or 1) * _UNITS_NS.get(unit, 0)


def _record_type(series: pl.Series) -> int:
    import polars as pl

    kinds = series.cast(pl.Float64, strict=False).unique().to_list()
    return _RTYPE_NS.get(kinds[0], 0) if len(kinds) == 1 and kinds[0] is not None else 0


def day_length(ns: Int) -> int:
    """Return the length of bars that bear dates: a day, unless all dates are a week or more apart."""
    spacing = np.diff(np.sort(ns))
    spacing = spacing[spacing > 0]
    if not spacing.size or spacing.min() < 6 * DAY_NS:
        return DAY_NS
    return usual_interval(ns)


def usual_interval(ns: Int) -> int:
    """Return the spacing of bars in ns: the most frequent one, the shortest of several; 0 for fewer than two times.

    Unlike the median it is always a spacing that occurs, and pauses of thin trading do not lengthen it. Where
    bars shorter than an hour do not stay on the grid of that spacing it is the largest one that divides all.
    """
    times = np.sort(ns)  # np.unique hashes, which takes a second for a million rows
    times = times[np.append(True, times[1:] != times[:-1])]
    spacing = np.diff(times)
    if not spacing.size:
        return 0
    values, counts = np.unique(spacing, return_counts=True)
    usual = int(values[counts.argmax()])
    if usual >= HOUR_NS or usual % MINUTE_NS:
        return usual
    # The first bar after a pause may be off the grid of the others, as 09:30 before 10:00.
    within = times[1:][spacing <= max(usual, HOUR_NS // 2)]
    places = np.unique(within % usual, return_counts=True)[1]
    if places.max() >= (1 - _OFF_GRID) * len(within):
        return usual
    common = int(np.gcd.reduce(spacing))
    return usual if common % MINUTE_NS else common
