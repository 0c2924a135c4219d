"""Files as tables: recognise the content of a market-data file and read its cells."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from pathlib import Path
from typing import NoReturn

import numpy as np

from fox_env.bars import PRICES
from fox_env.errors import DataError
from fox_env.reading.table import Table

_MAX_BYTES = 2 * 1024**3
"""Largest content that is read, after decompression: bounds the memory that a hostile archive can claim."""

_UNREAD = (
    (b"PK\x03\x04", "a zip archive", "extract the CSV file inside and read that"),
    (b"DBN", "a DBN file", "convert it to CSV or Parquet with Databento's tools"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data (as DBN files are)", "unpack and convert them to CSV or Parquet"),
    (b"ARROW1", "an Arrow IPC file", "write it as Parquet"),
    (b"\xff\xfe", "UTF-16 text", "save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "save it as UTF-8"),
)  # fmt: skip


def read_table(path: Path, format: str | None) -> Table:
    """Read a file into a frame; cells of text files stay text, so that a bad one can be shown as it stands.

    Parameters
    ----------
    path : Path
        A CSV file (plain or gzip) with a header line, or a Parquet file; recognised by content.
    format : {"csv", "parquet"} or None
        Refuse a file whose content is something else.

    Raises
    ------
    DataError
        The file cannot be read or is of another kind.
    """
    source = str(path)
    data = _content(path, source)
    kind = "parquet" if data.startswith(b"PAR1") else "csv"
    if format not in (None, kind):
        raise DataError(
            f"{source}: format={format!r} was asked for, but the content is {kind}; drop the format."
        )
    return _parquet_table(data, source) if kind == "parquet" else _csv_table(data, source)


def _content(path: Path, source: str) -> bytes:
    """Return the bytes of a file, decompressed if they are gzip; refuse what no reader here understands."""
    if path.is_dir():
        raise DataError(f"{source}: is a directory; name a file in it.")
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise DataError(f"{source}: there is no such file; check the path.") from None
    except OSError as error:
        raise DataError(f"{source}: the file cannot be read: {error.strerror}.") from error
    if data.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(io.BytesIO(data)) as unpacked:
                data = unpacked.read(_MAX_BYTES + 1)
        except (EOFError, OSError, zlib.error):
            raise DataError(
                f"{source}: the gzip data are cut short or damaged; fetch the file again."
            ) from None
    if len(data) > _MAX_BYTES:
        raise DataError(f"{source}: holds more than {_MAX_BYTES:,} bytes; split it.")
    if not data.strip():
        raise DataError(f"{source}: the file is empty; give a file with a header line and rows.")
    for magic, what, mend in _UNREAD:
        if data.startswith(magic):
            raise DataError(f"{source}: is {what}, which is not read yet; {mend}.")
    return data


def _parquet_table(data: bytes, source: str) -> Table:
    import polars as pl

    try:
        frame = pl.read_parquet(io.BytesIO(data))
    except (pl.exceptions.PolarsError, OSError):
        raise DataError(
            f"{source}: the Parquet data are cut short or damaged; write the file again."
        ) from None
    if frame.height == 0:
        raise DataError(f"{source}: there are no rows; give at least one bar.")
    return Table(source, frame, None)


def _csv_table(data: bytes, source: str) -> Table:
    """Find the delimiter and the header line, and read the cells."""
    import polars as pl

    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if (position := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, position) + 1
        raise DataError(
            f"{source}: line {line} holds a NUL byte, so this is not a clean text file; export it again."
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{source}: line {line} is not UTF-8 text; save the file as UTF-8.") from None
    body = text.lstrip("\n")
    header_line = len(text) - len(body) + 1
    header, _, rows = body.partition("\n")
    delimiter = max(",;\t", key=header.count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter))]
    if all(_is_datum(name) for name in names):
        raise DataError(
            f"{source}: has no header line, which is not read yet; add one such as "
            f"{delimiter.join(('timestamp', *PRICES, 'volume'))} above line {header_line}."
        )
    if not rows.strip():
        raise DataError(f"{source}: has a header line but no rows; give at least one bar.")
    schema = {f"{i}": pl.String for i in range(len(names))}
    # Numbers as names: the file's own may repeat, and without a header polars takes the width from row 0.
    numbered = f"{delimiter.join(schema)}\n{rows}".encode()
    try:
        frame = pl.read_csv(numbered, separator=delimiter, schema=schema)
    except pl.exceptions.PolarsError as error:
        _refuse_ragged(rows, delimiter, len(names), header_line, source, error)
    frame.columns = _distinct(names)
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    lines = np.flatnonzero(~blank.to_numpy()) + header_line + 1
    return Table(source, frame.filter(~blank), lines.astype(np.int64))


def _is_datum(field: str) -> bool:
    """Whether a field of the first line is a number or a time rather than a name."""
    return re.fullmatch(r"[-+\d.:/\sTZeE]*", field) is not None and any(map(str.isdigit, field))


def _refuse_ragged(
    rows: str, delimiter: str, width: int, header_line: int, source: str, error: Exception
) -> NoReturn:
    """Explain why polars refused the rows: the first line with too many fields, or its own first line."""
    try:
        for offset, fields in enumerate(csv.reader(rows.split("\n"), delimiter=delimiter)):
            if len(fields) > width:
                line = header_line + 1 + offset
                raise DataError(
                    f"{source}: the header names {width} columns but line {line} has {len(fields)} fields; "
                    "correct the header or the line."
                ) from None
    except csv.Error:
        pass  # the sentence below says what polars met
    raise DataError(
        f"{source}: is not a regular table: {str(error).splitlines()[0]}; export it again."
    ) from None


def _distinct(names: list[str]) -> list[str]:
    """Give repeated and empty column names a number, as polars wants distinct ones."""
    seen: set[str] = set()
    for position, name in enumerate(names):
        unique, count = name or f"column_{position}", 1
        while unique in seen:
            count += 1
            unique = f"{name or 'column'}_{count}"
        seen.add(unique)
        names[position] = unique
    return names
