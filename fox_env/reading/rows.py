"""Whether the rows of a file without a header are what the order of a layout says they are."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import Float

if TYPE_CHECKING:
    import polars as pl

_CHECKED_ROWS = 1_000
_ADJUSTED_SPREAD = 1.5


def are_bars(frame: pl.DataFrame, roles: Mapping[str, str]) -> bool:
    """Whether prices lie between low and high, and the columns beside them can be what they are taken for.

    A number beside the date is a time of day, not a volume, if it is one in every row and dates occur again
    or it is the same in all rows. Beside a seventh number the sixth is a volume, not an adjusted close, if it
    does not follow the close; open interest is a whole number.
    """
    head = frame.head(_CHECKED_ROWS)
    if not _ordered(head, roles, "low", "open", "high") or not _ordered(head, roles, "low", "close", "high"):
        return False
    if "clock" in roles and "date" in roles and not _is_clock(head, roles["date"], roles["clock"]):
        return False
    if "open_interest" not in head.columns:
        return True
    interest, volume, close = (
        _values(head[name]) for name in ("open_interest", roles["volume"], roles["close"])
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = volume / close
    follows = len(ratio) > 1 and bool(
        (ratio > 0.2).all() and ratio.max() < 5 and ratio.max() < _ADJUSTED_SPREAD * ratio.min()
    )
    return not follows and _are_whole(interest)


def are_counted_bars(frame: pl.DataFrame, roles: Mapping[str, str]) -> bool:
    """Whether rows are bars with a volume in fractions and a whole number of trades."""
    head = frame.head(_CHECKED_ROWS)
    counted = _are_whole(_values(head["trades"])) and not _are_whole(_values(head[roles["volume"]]))
    return counted and are_bars(frame, roles)


def are_quotes(frame: pl.DataFrame, roles: Mapping[str, str]) -> bool:
    """Whether bids lie below asks."""
    return _ordered(frame.head(_CHECKED_ROWS), roles, "bid", "ask")


def _values(series: pl.Series) -> Float:
    import polars as pl

    cells = series.cast(pl.String).str.strip_chars()
    return cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()


def _are_whole(values: Float) -> bool:
    known = values[~np.isnan(values)]
    return bool((known == np.rint(known)).all())


def _ordered(head: pl.DataFrame, roles: Mapping[str, str], *names: str) -> bool:
    """Whether the values of some roles rise in most rows, so that the columns are where they seem."""
    values = [_values(head[roles[name]]) for name in names]
    rises = np.logical_and.reduce([lower <= upper for lower, upper in pairwise(values)])
    return float(np.mean(rises)) >= 0.5


def _is_clock(head: pl.DataFrame, date: str, clock: str) -> bool:
    import polars as pl

    cells = head[clock].cast(pl.String).str.strip_chars()
    if cells.str.contains(":", literal=True).any():
        return True
    times = _values(cells)
    digits = np.where(times.max() < 2_400, times * 100, times)
    valid = _are_whole(times) and bool(
        ((digits >= 0) & (digits < 240_000) & (digits // 100 % 100 < 60) & (digits % 100 < 60)).all()
    )
    return valid and (head[date].n_unique() < head.height or len(np.unique(times)) == 1)
