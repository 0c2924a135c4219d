"""Parquet, Arrow and Feather data, and frames of polars, pandas and pyarrow, as tables."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

import numpy as np

from fox_env.errors import DataError
from fox_env.reading.guard import is_readable
from fox_env.reading.stored import restore
from fox_env.reading.table import Table

if TYPE_CHECKING:
    import polars as pl

_MAX_CELLS = 1 << 30
"""Most cells of a file: bounds the memory that a few highly compressed bytes can claim."""

_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"


def is_frame(source: object) -> bool:
    """Whether an object is a frame that :func:`frame_table` takes, told without importing its library."""
    return _library_of(source) is not None


def parquet_table(data: bytes, source: str) -> Table:
    """Read the bytes of a Parquet file.

    Raises
    ------
    DataError
        The data are cut short or damaged, too large, or hold no rows.
    """
    import polars as pl

    try:
        width = len(pl.read_parquet_schema(io.BytesIO(data)))
        rows = pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item()
        if rows * width > _MAX_CELLS:
            raise DataError(f"{source}: holds more than {_MAX_CELLS:,} cells; split it.")
        if not is_readable("read_parquet", data):
            raise OSError
        frame = pl.read_parquet(io.BytesIO(data))
        metadata = pl.read_parquet_metadata(io.BytesIO(data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise DataError(
            f"{source}: the Parquet data are cut short or damaged; write the file again."
        ) from None
    return restore(polars_table(frame, source), metadata)


def arrow_table(data: bytes, source: str) -> Table:
    """Read the bytes of an Arrow IPC file (Feather version 2) or stream.

    Raises
    ------
    DataError
        The data are cut short or damaged, or hold no rows.
    """
    import polars as pl

    file = data.startswith(b"ARROW1")
    read = pl.read_ipc if file else pl.read_ipc_stream
    try:
        if not file and not data.endswith(_STREAM_END):  # else a stream cut between batches lacks rows
            raise OSError
        if not is_readable(read.__name__, data):
            raise OSError
        frame = read(io.BytesIO(data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise DataError(f"{source}: the Arrow data are cut short or damaged; write the file again.") from None
    return polars_table(frame, source)


def frame_table(frame: object) -> Table:
    """Take a polars or pandas frame, or a pyarrow table, as a table.

    Raises
    ------
    DataError
        It has no rows, or columns that cannot be told apart or understood.
    """
    library = _library_of(frame)
    held: Any = frame
    import polars as pl

    source = f"the {library} frame"
    if library == "pandas":
        return polars_table(_from_pandas(held, source), source)
    if library == "pyarrow":
        return polars_table(pl.DataFrame(held), source)
    return polars_table(held.collect() if isinstance(held, pl.LazyFrame) else held, source)


def polars_table(frame: pl.DataFrame, source: str) -> Table:
    """Take a frame, with categories as text and decimals as floats; other types stay as they are.

    Raises
    ------
    DataError
        The frame has no rows.
    """
    import polars as pl
    import polars.selectors as cs

    if frame.height == 0:
        raise DataError(f"{source}: there are no rows; give at least one bar.")
    frame = frame.with_columns(
        cs.categorical().cast(pl.String), cs.enum().cast(pl.String), cs.decimal().cast(pl.Float64)
    )
    return Table(source, frame)


def _library_of(source: object) -> str | None:
    """Return the library of a frame, or None for another object."""
    kind = type(source)
    library = kind.__module__.partition(".")[0]
    frames = {
        "polars": ("DataFrame", "LazyFrame"),
        "pandas": ("DataFrame",),
        "pyarrow": ("Table", "RecordBatch"),
    }
    return library if kind.__name__ in frames.get(library, ()) else None


def _from_pandas(frame: Any, source: str) -> pl.DataFrame:
    """Convert column by column through NumPy, which needs no further package; a named or time index first."""
    import polars as pl

    names = [str(name) for name in _flat(frame.columns, source)]
    columns = [(name, frame.iloc[:, i]) for i, name in enumerate(names)]
    index = frame.index
    levels = [index.get_level_values(i) for i in range(index.nlevels)]
    for level in reversed(levels):
        times = level.dtype.kind == "M"
        name = str(level.name) if level.name is not None else "timestamp"
        if (times or level.name is not None) and name not in names:
            columns.insert(0, (name, level.to_series()))
    series = [_series(name, values, source) for name, values in columns]
    taken: dict[str, pl.Series] = {}
    for column in series:  # pandas allows a name twice
        name, count = column.name, 1
        while name in taken:
            count += 1
            name = f"{column.name}_{count}"
        taken[name] = column.alias(name)
    return pl.DataFrame(list(taken.values()))


def _flat(columns: Any, source: str) -> list[Any]:
    """Reduce column names of several levels, as of price and ticker, to the one level that varies."""
    if columns.nlevels == 1:
        return list(columns)
    varying = [i for i in range(columns.nlevels) if columns.get_level_values(i).nunique() > 1]
    if len(varying) > 1:
        held = ", ".join(str(name) for name in columns.get_level_values(varying[-1]).unique()[:10])
        raise DataError(
            f"{source}: the columns have several levels with several names ({held}); select one, such as by "
            "frame.xs(name, axis=1, level=1)."
        )
    return list(columns.get_level_values(varying[0] if varying else 0))


def _series(name: str, values: Any, source: str) -> pl.Series:
    """Convert one pandas column; missing values of any kind become null or NaN."""
    import polars as pl

    if hasattr(values.dtype, "categories"):
        values = values.astype(values.dtype.categories.dtype)
    dtype = values.dtype
    if getattr(dtype, "tz", None) is not None:
        utc = _datetimes(name, values.dt.tz_convert("UTC").dt.tz_localize(None)).dt.replace_time_zone("UTC")
        zone = str(dtype.tz)
        return utc.dt.convert_time_zone(zone) if zone in available_timezones() else utc
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return _datetimes(name, values)
    if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
        return pl.Series(name, values.to_numpy())
    if hasattr(dtype, "pyarrow_dtype"):
        return pl.Series(name, values.array.__arrow_array__())
    if not isinstance(dtype, np.dtype) and dtype.kind in "iufb":
        return pl.Series(name, values.to_numpy(dtype=np.float64, na_value=np.nan))
    cells = values.astype(object)
    try:
        return pl.Series(name, cells.where(cells.notna(), None).tolist())
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise DataError(
            f"{source}: column {name} has type {dtype} and mixed cells; convert it to numbers, text or datetime64."
        ) from None


def _datetimes(name: str, values: Any) -> pl.Series:
    import polars as pl

    stamps = values.to_numpy()
    if np.datetime_data(stamps.dtype)[0] not in ("ms", "us", "ns"):
        stamps = stamps.astype("datetime64[ms]")
    return pl.Series(name, stamps)
