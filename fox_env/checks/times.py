"""Checks of the time stamps alone: unit, year, and the marks of a spreadsheet."""

from __future__ import annotations

import time

import numpy as np

from fox_env.bars import Fault
from fox_env.checks.series import Series, finding

__all__ = ["SPREADSHEET_ROWS", "time_faults"]

_DAY_NS = 86_400_000_000_000
_EARLIEST_NS = int(np.datetime64("1970-06-01", "ns").astype(np.int64))
"""Times before this are counts in another unit taken for ns more often than they are real."""

_LEAP_NS = 300 * _DAY_NS
"""A longer pause than any closure of an exchange: a year was mistyped or rows are missing."""

SPREADSHEET_ROWS = (1_048_576, 1_048_575, 65_536, 65_535)
"""Rows at which a spreadsheet cuts a table, with and without a header."""


def time_faults(series: Series) -> list[Fault]:
    """Report times that look like another unit or year, and tables cut at a spreadsheet's limit."""
    ts = series.ts
    early = np.flatnonzero(ts < _EARLIEST_NS)[:1]
    faults = finding(
        "time_unit",
        early,
        "ts",
        lambda _: "the time is in or before early 1970: are these seconds, ms or us taken for ns?",
    )
    if early.size:
        return faults  # years mean nothing then
    step = np.diff(ts, prepend=ts[0])
    faults += finding(
        "year",
        step > max(_LEAP_NS, 3 * series.interval),
        "ts",
        lambda i: f"{step[i] / _DAY_NS:,.0f} days after the bar before",
    )
    faults += finding(
        "year",
        np.flatnonzero(ts > time.time_ns() + _DAY_NS)[:1],
        "ts",
        lambda i: f"{ts[i].astype('datetime64[ns]').astype('datetime64[s]')} UTC lies ahead of today",
    )
    if len(ts) in SPREADSHEET_ROWS:
        faults += finding(
            "row_limit",
            np.array([len(ts) - 1]),
            "ts",
            lambda _: f"the data end at {len(ts):,} rows, the limit of a spreadsheet",
        )
    return faults
