"""Signs in the cells of numbers that are certain: a currency before prices, K, M and B behind volumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fox_env.reading.names import BAR_ROLES
from fox_env.reading.table import Table

if TYPE_CHECKING:
    import polars as pl

_CURRENCY = r"^[$€£¥]\s?"
_SHORTENED = r"^(?:\d+(?:\.\d+)?[KMB]?|-)?$"
_SCALES = {"K": 1e3, "M": 1e6, "B": 1e9}


def without_signs(table: Table, roles: Mapping[str, str]) -> Table:
    """Return a table without a currency sign before its prices and with volumes such as ``1.23M`` in full.

    A column is rewritten where all its cells are of that kind; a volume becomes numbers, as exact as they were.
    """
    import polars as pl

    frame = table.frame
    for role in (*BAR_ROLES, "volume"):
        column = roles.get(role)
        if column is None or frame[column].dtype != pl.String:
            continue
        cells = frame[column].str.strip_chars()
        if role != "volume" and cells.str.contains(_CURRENCY).fill_null(True).all():
            frame = frame.with_columns(cells.str.replace(_CURRENCY, ""))
        elif role == "volume" and cells.str.contains("[KMB]$").any() and cells.str.contains(_SHORTENED).all():
            frame = frame.with_columns(_in_full(cells))
    return table if frame is table.frame else replace(table, frame=frame)


def _in_full(cells: pl.Series) -> pl.Series:
    """Return shortened volumes as numbers, rounded to what was written."""
    import polars as pl

    amount = cells.str.strip_chars_end("KMB").cast(pl.Float64, strict=False)
    scale = cells.str.extract("([KMB])$").replace_strict(_SCALES, default=None, return_dtype=pl.Float64)
    return (amount * scale.fill_null(1.0)).round(3)
