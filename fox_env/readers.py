"""Read bars from CSV (plain or gzip) and Parquet files, recognised by content; write them as Parquet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import PRICES, Bars, Flag, Float, Int, first_fault, median_interval
from fox_env.errors import ConfigError, DataError
from fox_env.reading.table import Table
from fox_env.reading.text import read_table
from fox_env.reading.timestamps import ParsedTimes, check_zone, parse_epoch, parse_text, wall_to_utc

if TYPE_CHECKING:
    import polars as pl

_NAMES: dict[str, tuple[str, ...]] = {
    "open": ("open", "o", "open_price"),
    "high": ("high", "h", "high_price"),
    "low": ("low", "l", "low_price"),
    "close": ("close", "c", "close_price", "last"),
    "volume": ("volume", "vol", "v", "tick_volume", "tickvol"),
    "roll_gap": ("roll_gap",),
}
_FULL_TIMES = (
    "ts", "timestamp", "datetime", "date_time", "ts_event", "close_time", "open_time", "__index_level_0__",
)  # fmt: skip
_OPENING_TIMES = ("ts_event", "open_time")
_CONTRACT_NAMES = ("symbol", "ticker", "contract", "instrument", "instrument_id", "expiry")


@dataclass(frozen=True)
class _Columns:
    """Parsed, not yet checked, columns of one table."""

    table: Table
    ts: Int
    prices: dict[str, Float]
    volume: Float | None
    roll_gap: Float | None
    flags: dict[str, Flag]
    extra: dict[str, Float]


def read_bars(
    path: str | Path, tz: str | None = None, label: str | None = None, format: str | None = None
) -> Bars:
    """Read price bars from a file; the format follows from the content, never from the suffix.

    Read are CSV with a header line (comma, semicolon or tab; plain or gzip) and Parquet. Column names count
    in any case: a time (``timestamp``, ``datetime``, ``date`` with or without ``time``, ...; ISO, compact or
    slashed with the year first, or an epoch in s, ms, us or ns), ``open``, ``high``, ``low``, ``close`` (or
    ``last``), and optionally ``volume`` and ``roll_gap``. Every other numeric column is kept in
    ``Bars.extra``; columns of text are left out, and so is a volume column without any value.

    Parameters
    ----------
    path : str or Path
        The file.
    tz : str, optional
        IANA zone of wall-clock times. Needed unless the times are epochs, carry offsets, or their column's
        name ends in ``_utc``; ignored then. An hour that occurs twice is resolved by row order or refused.
    label : {"close", "open"}, optional
        Which end of a bar its time marks. Times of the open are moved to the close by the median interval.
        Default "close", except "open" for bare dates and for the columns ``ts_event`` and ``open_time``.
    format : {"csv", "parquet"}, optional
        Refuse a file whose content is something else.

    Returns
    -------
    Bars
        Times are bar closes in UTC.

    Raises
    ------
    DataError
        The file cannot be read, or holds rows that bars may not have; the message names row (from 0), line
        and column.
    ConfigError
        `tz`, `label` or `format` is not a known value.
    """
    columns = _read(path, tz, label, format)
    found = first_fault(columns.ts, columns.prices, columns.volume)
    if found is not None:
        fault, row = found
        mend = "correct or remove the row"
        if fault.kind in ("order", "duplicate"):
            mend = _order_mend(columns.table.frame)
        raise columns.table.error(row, fault.column, f"{fault.describe(row)}; {mend}")
    if columns.roll_gap is not None and (bad := np.flatnonzero(~np.isfinite(columns.roll_gap))).size:
        raise columns.table.error(int(bad[0]), "roll_gap", "the value is not finite; write 0 for no roll")
    return Bars.from_arrays(
        columns.ts,
        **columns.prices,
        volume=columns.volume,
        roll_gap=columns.roll_gap,
        session_end=columns.flags.get("session_end"),
        gap=columns.flags.get("gap"),
        extra=columns.extra,
    )


def read_columns(
    path: str | Path, tz: str | None = None, label: str | None = None, format: str | None = None
) -> dict[str, NDArray[Any]]:
    """Read a file as :func:`read_bars` does, but without refusing faulty rows, for :func:`validate_bars`.

    Returns
    -------
    dict of str to array, shape (T,)
        ``ts`` (int64 ns UTC at the bar's close), ``open``, ``high``, ``low``, ``close`` and, where the file
        has them, ``volume`` and further columns of numbers (float64; NaN where a cell is empty).
    """
    columns = _read(path, tz, label, format)
    arrays: dict[str, NDArray[Any]] = {**columns.extra, "ts": columns.ts, **columns.prices}
    if columns.volume is not None:
        arrays["volume"] = columns.volume
    return arrays


def write_bars(bars: Bars, path: str | Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write bars as a Parquet file that :func:`read_bars` reads back unchanged.

    Parameters
    ----------
    bars : Bars
    path : str or Path
    metadata : mapping of str to str, optional
        Further key-value metadata of the Parquet file.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    import polars as pl

    columns: dict[str, NDArray[Any]] = {name: getattr(bars, name) for name in PRICES}
    columns |= {"session_end": bars.session_end, "gap": bars.gap}
    if bars.volume is not None:
        columns["volume"] = bars.volume
    if bars.roll_gap is not None:
        columns["roll_gap"] = bars.roll_gap
    time = pl.Series("ts", bars.ts).cast(pl.Datetime("ns", "UTC"))
    try:
        pl.DataFrame([time]).with_columns(**bars.extra, **columns).write_parquet(
            path, metadata=dict(metadata or {})
        )
    except OSError as error:
        raise DataError(f"{path}: the file cannot be written: {error.strerror or error}.") from error


def _read(path: str | Path, tz: str | None, label: str | None, format: str | None) -> _Columns:
    if tz is not None:
        check_zone(tz)
    if label not in (None, "open", "close"):
        raise ConfigError(f"Unknown label={label!r}; use 'open' or 'close'.")
    if format not in (None, "csv", "parquet"):
        raise ConfigError(f"Unknown format={format!r}; use 'csv' or 'parquet'.")
    return _columns(read_table(Path(path), format), tz, label)


def _plain(name: str) -> str:
    """Reduce ``<DATE>``, ``1. Open``, ``Date Time`` to ``date``, ``open``, ``date_time``."""
    name = re.sub(r"^\d+\.\s*", "", name.strip().strip("\"'<>").strip())
    return re.sub(r"[\s_-]+", "_", name).casefold()


def _columns(table: Table, tz: str | None, label: str | None) -> _Columns:
    """Find the columns by name and parse them."""
    by_name: dict[str, str] = {}
    for column in table.frame.columns:
        by_name.setdefault(_plain(column), column)
    times = _time_columns(by_name)
    roles = {
        role: next(by_name[n] for n in names if n in by_name)
        for role, names in _NAMES.items()
        if any(n in by_name for n in names)
    }
    lacking = ([] if times else ["a time"]) + [name for name in PRICES if name not in roles]
    if lacking:
        shown = ", ".join(column[:30] for column in table.frame.columns[:12])
        more = f" and {table.frame.width - 12} more" if table.frame.width > 12 else ""
        raise DataError(
            f"{table.source}: no column for {', '.join(lacking)} among {shown}{more}; needed are a time "
            "(timestamp, or date and time), open, high, low, close, and optionally volume."
        )
    ts = _bar_closes(table, times, tz, label)
    numbers = {role: _numbers(table, column) for role, column in roles.items()}
    volume = numbers.get("volume")
    taken = {*times, *roles.values()}
    flags: dict[str, Flag] = {}
    extra: dict[str, Float] = {}
    for column in table.frame.columns:
        if column in taken:
            continue
        if column in ("session_end", "gap") and table.frame.schema[column].is_(_boolean()):
            flags[column] = table.frame[column].fill_null(False).to_numpy()
        elif (values := _extra_numbers(table.frame[column])) is not None:
            extra[column] = values
    return _Columns(
        table,
        ts,
        {name: numbers[name] for name in PRICES},
        None if volume is None or np.isnan(volume).all() else volume,
        numbers.get("roll_gap"),
        flags,
        extra,
    )


def _boolean() -> pl.DataType:
    import polars as pl

    return pl.Boolean()


def _time_columns(by_name: dict[str, str]) -> list[str]:
    """Return the column that holds the time, or a date column and a time-of-day column, or nothing."""
    for name in _FULL_TIMES:
        for variant in (f"{name}_utc", name):
            if variant in by_name:
                return [by_name[variant]]
    date, time = (by_name.get(f"{name}_utc", by_name.get(name)) for name in ("date", "time"))
    return [column for column in (date, time) if column is not None]


def _bar_closes(table: Table, times: list[str], tz: str | None, label: str | None) -> Int:
    """Return the close of every bar in ns since 1970 UTC."""
    column = " and ".join(times)
    parsed = _parse_times(table, times)
    ts = parsed.ns
    if not parsed.utc and not _plain(times[-1]).endswith("_utc"):
        if tz is None:
            raise DataError(
                f"{table.source}: the times in column {column} have no zone; pass tz=, such as "
                "tz='America/Chicago' for exchange time, or tz='UTC'."
            )
        ts = wall_to_utc(ts, tz, lambda row, message: table.error(row, column, message))
    opening = parsed.date_only or _plain(times[0]).removesuffix("_utc") in _OPENING_TIMES
    if (label or ("open" if opening else "close")) == "close":
        return ts
    interval = median_interval(ts)
    if interval == 0:
        raise DataError(
            f"{table.source}: times of the bar's open need at least two rows to find the interval; "
            "give more rows or pass label='close'."
        )
    return ts + interval


def _parse_times(table: Table, times: list[str]) -> ParsedTimes:
    """Parse the time column, or the date and time-of-day columns together."""
    import polars as pl

    column = " and ".join(times)

    def error(row: int, message: str) -> DataError:
        return table.error(row, column, message)

    series = table.frame[times[0]]
    dtype = series.dtype
    if len(times) == 2:
        parts = [table.frame[name].cast(pl.String).str.strip_chars() for name in times]
        return parse_text(parts[0] + " " + parts[1], error)
    if dtype == pl.String:
        return parse_text(series, error)
    if series.null_count():
        raise error(int(series.is_null().to_numpy().argmax()), "the time is missing; fill or remove the row")
    if isinstance(dtype, pl.Datetime):
        ns = series.dt.cast_time_unit("ns").dt.timestamp("ns").to_numpy()
        return ParsedTimes(ns, utc=dtype.time_zone is not None, date_only=False)
    if dtype == pl.Date:
        ns = series.cast(pl.Datetime("ns")).dt.timestamp("ns").to_numpy()
        return ParsedTimes(ns, utc=False, date_only=True)
    if dtype.is_integer():
        return parse_epoch(series.cast(pl.Int64).to_numpy(), error)
    raise DataError(
        f"{table.source}: column {column} has type {dtype}, which is not a time; store a datetime."
    )


def _numbers(table: Table, column: str) -> Float:
    """Return a column as float64 with NaN for empty cells; refuse a cell that is not a number."""
    import polars as pl

    series = table.frame[column]
    if series.dtype == pl.String:
        series = series.str.strip_chars()
        series = series.set(series == "", None)
    elif not series.dtype.is_numeric():
        raise DataError(f"{table.source}: column {column} has type {series.dtype}, which is not a number.")
    values = series.cast(pl.Float64, strict=False)
    wrong = (values.is_null() & series.is_not_null()).to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        raise table.error(
            row,
            column,
            f"{series[row]!r} is not a number; write it with a decimal point and no thousands separators",
        )
    return values.fill_null(np.nan).to_numpy()


def _extra_numbers(series: pl.Series) -> Float | None:
    """Return a further column as float64 if all its filled cells are numbers, else None."""
    import polars as pl

    if series.dtype == pl.String:
        series = series.str.strip_chars()
        series = series.set(series == "", None)
    elif not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        return None
    values = series.cast(pl.Float64, strict=False)
    return None if values.null_count() != series.null_count() else values.fill_null(np.nan).to_numpy()


def _order_mend(frame: pl.DataFrame) -> str:
    """Say how to bring rows into order; several contracts in one file are the usual cause."""
    for column in frame.columns:
        if _plain(column) in _CONTRACT_NAMES and (count := frame[column].n_unique()) > 1:
            return f"column {column} holds {count} values: keep the rows of one contract"
    return "sort the rows by time and keep one row per time"
