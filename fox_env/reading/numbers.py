"""Cells to float64: decimal commas, cells for "none", and values that are no numbers or look scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import Float
from fox_env.errors import DataError
from fox_env.reading.dialects import Dialect
from fox_env.reading.table import Table, shown

if TYPE_CHECKING:
    import polars as pl

_NONE_VALUES = (3.4028234663852886e38, 1.7976931348623157e308, 9.223372036854775807e18)
"""The largest float32, float64 and int64 (Databento's UNDEF_PRICE), which stand for "no value"."""

_NONE_WORDS = r"(?i)^(?:null|none|nan|n/?a|#n/a|--?)?$"
_COMMA = r"^[-+]?(?:\d*,\d+|\d+|\d{1,3}(?:\.\d{3})+(?:,\d+)?)$"
_THOUSANDS_COMMA = r"^[-+]?\d{1,3}(?:,\d{3})+$"
_THOUSANDS_POINT = r"^[-+]?\d{1,3}(?:\.\d{3})+$"
_SCALED_ROWS = 20
_SCALED_FLOOR = 1e5


def numbers(table: Table, column: str, dialect: Dialect, scaled: bool | None = None) -> Float:
    """Return a column as float64 with NaN for empty cells; refuse a cell that is not a number.

    Parameters
    ----------
    table : Table
    column : str
    dialect : Dialect
    scaled : bool, optional
        For prices: whether the caller has said how they are scaled. None: the column holds whole numbers.
    """
    import polars as pl

    series = table.frame[column]
    if series.dtype == pl.String:
        series = _decimal_points(table, _blanks_to_null(series), column, dialect, scaled)
    elif not series.dtype.is_numeric():
        raise DataError(f"{table.source}: column {column} has type {series.dtype}, which is not a number.")
    values = series.cast(pl.Float64, strict=False)
    wrong = (values.is_null() & series.is_not_null()).to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        raise table.error(
            row,
            column,
            f"{shown(table.frame[column][row])} is not a number; write it with a decimal point and no thousands "
            "separators, or correct the row",
        )
    return _nones_to_nan(values.fill_null(np.nan).to_numpy())


def extra_numbers(series: pl.Series) -> Float | None:
    """Return a further column as float64 if all its filled cells are numbers, else None."""
    import polars as pl

    if series.dtype == pl.String:
        series = _blanks_to_null(series)
        if series.str.contains(_COMMA).all() and series.str.contains(",", literal=True).any():
            series = _comma_to_point(series)
    elif not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        return None
    values = series.cast(pl.Float64, strict=False)
    if values.null_count() != series.null_count():
        return None
    return _nones_to_nan(values.fill_null(np.nan).to_numpy())


def refuse_scaled(table: Table, prices: Float, dialect: Dialect) -> None:
    """Refuse whole prices that look like prices times 10000, as nobody has said which they are.

    Parameters
    ----------
    table : Table
    prices : float64 array
        Absolute finite prices, all of them whole numbers.
    dialect : Dialect
    """
    middle = float(np.median(prices))
    equity = dialect.name == "lean" and "_" not in (table.symbol or "") and middle >= 10_000
    hundreds = middle >= _SCALED_FLOOR and float(np.mean(prices % 100 == 0)) > 0.9
    enough = table.lines is not None and table.frame.height >= _SCALED_ROWS
    if equity or (hundreds and enough):
        raise DataError(
            f"{table.source}: prices such as {prices[0]:.0f} may be prices times 10000; pass price_scale=1e-4 if "
            "they are, else price_scale=1."
        )


def _blanks_to_null(series: pl.Series) -> pl.Series:
    series = series.str.strip_chars()
    return series.set(series.str.contains(_NONE_WORDS), None)


def _comma_to_point(series: pl.Series) -> pl.Series:
    return series.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)


def _decimal_points(
    table: Table, series: pl.Series, column: str, dialect: Dialect, scaled: bool | None
) -> pl.Series:
    """Turn decimal commas into points where they can be nothing else."""
    comma = series.str.contains(",", literal=True).fill_null(False)
    if comma.any():
        fits = series.str.contains(_COMMA).fill_null(True)
        open_to_doubt = series.filter(comma).str.contains(_THOUSANDS_COMMA).all()
        if not fits.all() or (open_to_doubt and table.delimiter != ";"):
            return series  # the cell is refused as it stands
        return _comma_to_point(series)
    if dialect.name != "brazil":
        return series
    pointed = series.str.contains(".", literal=True).fill_null(False)
    if not pointed.any() or not series.filter(pointed).str.contains(_THOUSANDS_POINT).all():
        return series
    if scaled is None:
        return series.str.replace_all(".", "", literal=True)
    if not scaled:
        row = int(pointed.to_numpy().argmax())
        raise table.error(
            row,
            column,
            f"the point in {shown(series[row])} may be a decimal point or part thousands; pass price_scale=1 for a "
            "decimal point or price_scale=1000 for thousands",
        )
    return series


def _nones_to_nan(values: Float) -> Float:
    """Replace the values that stand for "none"."""
    huge = np.abs(values) >= _NONE_VALUES[2]
    if not huge.any():
        return values
    return np.where(np.isin(np.abs(values), _NONE_VALUES), np.nan, values)
