"""Cells to float64: decimal commas, cells for "none", and values that are no numbers or look scaled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import Float
from fox_env.errors import DataError
from fox_env.reading.dialect import Dialect
from fox_env.reading.names import plain, role_of
from fox_env.reading.table import Table, shown

if TYPE_CHECKING:
    import polars as pl

_NONE_VALUES = (3.4028234663852886e38, 1.7976931348623157e308, 9.223372036854775807e18)
"""The largest float32, float64 and int64 (Databento's UNDEF_PRICE), which stand for "no value"."""

_NONE_WORDS = r"(?i)^(?:null|none|nan|n/?a|#n/a|--?)?$"
_COMMA = r"^[-+]?(?:\d*,\d+|\d+|\d{1,3}(?:\.\d{3})+(?:,\d+)?)(?:[eE][-+]?\d+)?$"
_THOUSANDS_COMMA = r"^[-+]?[1-9]\d{0,2}(?:,\d{3})+$"
_THOUSANDS_POINT = r"^[-+]?[1-9]\d{0,2}(?:\.\d{3})+$"
_GROUPED = r"^[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?$"
_GROUPED_SHARE = 0.25
_GROUPED_PRICE = r",\d{3}\.\d"
_COMMA_TELLS = r"^[-+]?(?:\d*,\d+|[1-9]\d{0,2}(?:\.\d{3})+,\d+|[1-9]\d{0,2}(?:\.\d{3}){2,})$"
_POINT_TELLS = r"^[-+]?(?:\d*\.\d+|[1-9]\d{0,2}(?:,\d{3})+\.\d+|[1-9]\d{0,2}(?:,\d{3}){2,})$"
_COMMA_LANGUAGES = {"abertura", "fechamento", "eröffnung", "schluss", "hoch", "apertura", "cierre"}
"""Names of prices in languages that write a decimal comma and part thousands by points."""

_PRICE_ROLES = ("open", "high", "low", "close", "price", "bid", "ask")
_WORDS = ("time", "date", "clock", "symbol", "side")
_FIXED_POINT_FLOOR = 1e6
_SCALED_ROWS = 20
_SCALED_FLOOR = 1e5


def with_decimal_mark(table: Table, roles: Mapping[str, str]) -> Table:
    """Tell for all columns of a source alike whether decimals follow a point or a comma.

    The prices decide by the cells that can be read in one way only, else the other columns do. Where no cell
    tells, a comma in prices alone is a decimal comma if ``;`` parts the fields, and else the mark stays unknown.
    """
    import polars as pl

    prices = [roles[role] for role in _PRICE_ROLES if role in roles]
    others = [name for name in table.frame.columns if name not in prices and role_of(name) not in _WORDS]
    if not any(table.frame[name].dtype == pl.String for name in (*prices, *others)):
        return table
    for names in (prices, others):
        commas = points = 0
        for series in (table.frame[name] for name in names):
            if series.dtype == pl.String:
                cells = series.drop_nulls().str.strip_chars()
                commas += _count(cells, _COMMA_TELLS, _THOUSANDS_COMMA)
                points += _count(cells, _POINT_TELLS, _THOUSANDS_POINT)
            elif series.dtype.is_float() and names is prices:
                points += len(series)
        if commas != points:
            return replace(table, decimal="," if commas > points else ".")
    doubtful = {name for name in (*prices, *others) if _has_groups(table.frame[name])}
    if table.delimiter == ";" and doubtful and doubtful <= set(prices):
        return replace(table, decimal=",")
    return table


def _has_groups(series: pl.Series) -> bool:
    """Whether a cell may be a whole number with commas between thousands."""
    import polars as pl

    return series.dtype == pl.String and bool(series.str.strip_chars().str.contains(_THOUSANDS_COMMA).any())


def _count(cells: pl.Series, tells: str, doubtful: str) -> int:
    """Count the cells that only one mark explains; two groups of three digits are thousands beyond doubt."""
    return int((cells.str.contains(tells) & ~cells.str.contains(doubtful)).sum())


def is_comma_language(names: Iterable[str]) -> bool:
    """Whether the names of columns are of a language that parts thousands by points."""
    return not _COMMA_LANGUAGES.isdisjoint(map(plain, names))


def numbers(table: Table, column: str, scaled: bool | None = None) -> Float:
    """Return a column as float64 with NaN for empty cells; refuse a cell that is not a number.

    Parameters
    ----------
    table : Table
    column : str
    scaled : bool, optional
        For prices: whether the caller has said how they are scaled. None: the column holds whole numbers.
    """
    import polars as pl

    series = table.frame[column]
    if series.dtype == pl.String:
        series = _decimal_points(table, _blanks_to_null(series), column, scaled)
    elif series.dtype == pl.Null:
        return np.full(len(series), np.nan)
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


def extra_numbers(table: Table, column: str) -> Float | None:
    """Return a further column as float64 if all its filled cells are numbers, else None."""
    import polars as pl

    series = cells = table.frame[column]
    if series.dtype == pl.String:
        series = cells = _blanks_to_null(series)
        commas = series.str.contains(",", literal=True).any()
        if table.decimal == "," and (commas or series.str.contains(_THOUSANDS_POINT).all()):
            series = _comma_to_point(series)
        elif table.decimal == "." and commas:
            series = _without_groups(series)
    elif not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        return None
    values = series.cast(pl.Float64, strict=False)
    if values.null_count() != cells.null_count():
        return None
    return _nones_to_nan(values.fill_null(np.nan).to_numpy())


def is_fixed_point(table: Table, columns: Iterable[str]) -> bool:
    """Whether Databento's prices count units of 1e-9: whole numbers, written without a point.

    A record type beside them says that they are as exported; else the largest one must be 0.001 or more.
    """
    import polars as pl

    prices = [table.frame[column] for column in columns]
    for series in prices:
        pointed = series.dtype == pl.String and bool(series.str.contains(r"[.,eE]").any())
        if pointed or not (series.dtype == pl.String or series.dtype.is_integer()):
            return False
    if any(plain(name) == "rtype" for name in table.frame.columns):
        return True
    return any(
        float(series.cast(pl.Float64, strict=False).abs().max() or 0) >= _FIXED_POINT_FLOOR  # type: ignore[arg-type]
        for series in prices
    )


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
    """Turn decimal commas into points; a cell that is not written so stays, with a comma that refuses it."""
    import polars as pl

    written = series.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    frame = pl.DataFrame({"cell": series, "written": written})
    fits = pl.col("cell").str.contains(_COMMA)
    return frame.select(pl.when(fits).then("written").otherwise(pl.col("cell") + ",")).to_series()


def _without_groups(series: pl.Series) -> pl.Series:
    """Take out the commas that part thousands; a cell with other commas stays, which refuses it."""
    import polars as pl

    frame = pl.DataFrame({"cell": series, "written": series.str.replace_all(",", "", literal=True)})
    grouped = pl.col("cell").str.contains(_GROUPED)
    return frame.select(pl.when(grouped).then("written").otherwise("cell")).to_series()


def _decimal_points(table: Table, series: pl.Series, column: str, scaled: bool | None) -> pl.Series:
    """Turn decimal commas into points, and take out separators of thousands, where they can be nothing else."""
    if table.decimal == ",":
        return _comma_to_point(series)
    if table.decimal == ".":
        # A lone 1,000 or 1,100.25 among prices is rather a misplaced comma.
        grouped = scaled is None or series.str.contains(_GROUPED_PRICE).mean() or 0.0
        return _without_groups(series) if float(grouped) >= _GROUPED_SHARE else series  # type: ignore[arg-type]
    if not is_comma_language(table.frame.columns):
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
