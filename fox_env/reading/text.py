"""CSV-like text as tables: encoding, delimiter, header or none, and rows that do not fit."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fox_env.errors import DataError
from fox_env.reading.content import Content
from fox_env.reading.dialect import Dialect
from fox_env.reading.dialects import BACKTRADER, YFINANCE
from fox_env.reading.encoding import HEAD_BYTES, clean_utf8, line_of
from fox_env.reading.names import field_kind, role_of
from fox_env.reading.table import Table

if TYPE_CHECKING:
    import polars as pl

_DELIMITERS = "\t;|,"
_SAMPLE_LINES = 200
_PREAMBLE_LINES = 20
_MAX_COLUMNS = 2_000
_NUMBER = re.compile(r"\s*-?(?:\d{1,7}|\d{1,12}\.\d{0,9})\s*")
_COMMA_NUMBER = r"^\s*[-+]?[\d.]*,\d[\d,.]*\s*$"
_FOOTER = re.compile('"?Downloaded from Barchart|#数据来源'.encode())
_STRING_ROLES = ("time", "date", "clock", "symbol", "side")


@dataclass(frozen=True)
class TextRows:
    r"""The rows of a text file and what its first lines say of them.

    Attributes
    ----------
    source : str
    rows : bytes
        UTF-8 with ``\\n`` as line end, without the header.
    first_line : int
        Line of the file at which `rows` begins, from 1.
    names : list of str
        Distinct names of the columns; ``column_0``, ... where the file has no header.
    written : list of str
        The names as written.
    headed : bool
    delimiter : str
    sample : list of list of str
        The fields of the first rows.
    skipped : int
        Lines above the header that are none of the table.
    footer : int
        Lines below the rows in which a vendor names itself.
    dialect : Dialect or None
        Where the first lines alone decide it.
    instruments : dict of str to list of int
        Positions of the columns of each instrument where they stand side by side; else empty.
    """

    source: str
    rows: bytes
    first_line: int
    names: list[str]
    written: list[str]
    headed: bool
    delimiter: str
    sample: list[list[str]]
    skipped: int = 0
    footer: int = 0
    dialect: Dialect | None = None
    instruments: dict[str, list[int]] | None = None


def open_text(content: Content) -> TextRows:
    """Find the encoding, the delimiter and the header of a text.

    Raises
    ------
    DataError
        The text has no rows, is not text, or has a header that cannot be understood.
    """
    source = content.source
    data, footer = _without_footer(clean_utf8(content.data, source))
    start = _first_line(data, source)
    if b'{"' in data[start : start + HEAD_BYTES].partition(b"\n")[0]:
        raise DataError(f"{source}: holds JSON records, not a table; write a table as CSV or Parquet.")
    delimiter = _delimiter(data[start : start + HEAD_BYTES])
    top = start
    start, fields = _skip_preamble(data, start, delimiter)
    if _is_headless(fields):
        sample = _split(data, start, delimiter, _SAMPLE_LINES)
        names = [f"column_{i}" for i in range(len(fields))]
        line = line_of(data, start)
        return TextRows(source, data[start:], line, names, names, False, delimiter, sample, footer=footer)
    skipped = sum(bool(line.strip()) for line in data[top:start].split(b"\n"))
    return replace(_headed(data, start, delimiter, source), skipped=skipped, footer=footer)


def _without_footer(data: bytes) -> tuple[bytes, int]:
    """Cut off a last line in which a vendor names itself, and return how many lines that were."""
    tail = data[-HEAD_BYTES:]
    start = data.rfind(b"\n", 0, len(data) - len(tail) + len(tail.rstrip())) + 1
    return (data[:start], 1) if start and _FOOTER.match(data, start) else (data, 0)


def _headed(data: bytes, start: int, delimiter: str, source: str) -> TextRows:
    """Read the header line, which starts at a position, and see how the first row fits to it."""
    end = data.find(b"\n", start)
    end = len(data) if end < 0 else end
    header = data[start:end]
    if len(header) > HEAD_BYTES or header.count(delimiter.encode()) >= _MAX_COLUMNS:
        raise DataError(
            f"{source}: line {line_of(data, start)} is too long for the header of a table; check what the file is."
        )
    written = [name.strip() for name in next(csv.reader([header.decode()], delimiter=delimiter), [""])]
    rows_at, dialect, instruments = end + 1, None, None
    sample = _split(data, rows_at, delimiter, _SAMPLE_LINES)
    if written[0] == "Price" and sample and sample[0][0].strip() == "Ticker":
        rows_at, written, instruments = _three_row_header(data, rows_at, written, sample)
        sample, dialect = sample[2:], YFINANCE
    if not sample:
        raise DataError(f"{source}: has a header line but no rows; give at least one bar.")
    again = re.compile(rb"\n[ \t]*" + re.escape(header.strip()) + rb"[ \t]*(?:\n|$)")
    if (repeated := again.search(data, rows_at - 1)) is not None:
        line = line_of(data, repeated.start() + 1)
        raise DataError(f"{source}: line {line} repeats the header line; remove that line.")
    width = len(sample[0])
    if width == len(written) + 1:
        if not sample[0][-1].strip():
            written = [*written, ""]
        elif _lacks_time(written, sample[0]):
            position = next(i for i, name in enumerate(written) if role_of(name) == "date") + 1
            written = [*written[:position], "Time", *written[position:]]
            dialect = BACKTRADER
    elif width == len(written) - 1 and not written[-1]:
        written = written[:-1]
    line = line_of(data, rows_at)
    return TextRows(
        source,
        data[rows_at:],
        line,
        distinct(written),
        written,
        True,
        delimiter,
        sample,
        dialect=dialect,
        instruments=instruments,
    )


def _lacks_time(written: list[str], row: list[str]) -> bool:
    """Whether the header names a date but not the time of day that follows it in the rows."""
    roles = [role_of(name) for name in written]
    if "date" not in roles or "clock" in roles:
        return False
    return field_kind(row[roles.index("date") + 1]) == "T"


def _three_row_header(
    data: bytes, rows_at: int, written: list[str], sample: list[list[str]]
) -> tuple[int, list[str], dict[str, list[int]] | None]:
    """Read ``Price,Close,...`` / ``Ticker,ES=F,...`` / ``Date,,...``: the position of the rows, and the names."""
    for _ in range(2):
        rows_at = data.find(b"\n", rows_at) + 1 or len(data)
    tickers = [ticker.strip() for ticker in sample[0]]
    third = sample[1][0].strip() if len(sample) > 1 else "Date"
    names = [third, *written[1:]]
    if len(tickers) != len(written):
        return rows_at, names, None
    positions: dict[str, list[int]] = {}
    for position, ticker in enumerate(tickers[1:], start=1):
        positions.setdefault(ticker, [0]).append(position)
    return rows_at, names, positions


def read_rows(text: TextRows, strings: Iterable[str] = ()) -> Table:
    """Read all rows into a table.

    Columns of plain numbers become Float64 at once, which saves memory; where a cell does not fit, all
    columns stay text, so that the cell can be shown as it stands.

    Parameters
    ----------
    text : TextRows
    strings : iterable of str
        Columns that stay text.

    Raises
    ------
    DataError
        A row has too many or too few fields.
    """
    import polars as pl

    keep = set(strings)
    schema: dict[str, pl.DataType] = {
        f"{i}": pl.Float64() if name not in keep and _is_numeric(text, i) else pl.String()
        for i, name in enumerate(text.names)
    }
    faults = (pl.exceptions.PolarsError, pl.exceptions.PanicException)  # a lone quote makes polars panic
    try:
        frame = _polars_csv(text, schema)
        if _has_comma_numbers(frame, text.names):  # then the points of other columns may part thousands
            frame = _polars_csv(text, dict.fromkeys(schema, pl.String()))
    except faults:
        try:
            frame = _polars_csv(text, dict.fromkeys(schema, pl.String()))
        except faults as error:
            _check_lines(text)
            raise DataError(
                f"{text.source}: is not a regular table: {str(error).splitlines()[0]}; export it again."
            ) from None
    frame.columns = text.names
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    ends = text.rows.count(b"\n") + (not text.rows.endswith(b"\n"))
    lines = np.flatnonzero(~blank).astype(np.int64) + text.first_line
    full = len(lines) * (len(text.names) - 1)
    notes = []
    if text.skipped:
        notes.append(f"{text.skipped} line{'s' if text.skipped > 1 else ''} above the header left out")
    if text.footer:
        notes.append(f"{text.footer} line below the rows left out")
    regular = text.rows.count(text.delimiter.encode()) == full and b'"' not in text.rows
    if not regular and (empty := _check_lines(text)):
        notes.append(f"{empty:,} line{'s' if empty > 1 else ''} of delimiters only left out")
    if blank.any():
        frame = frame.filter(~pl.Series(blank))
    if frame.height == 0:
        raise DataError(f"{text.source}: there are no rows; give at least one bar.")
    # A quoted cell that spans lines makes the line of a row unknown.
    known = lines if ends == len(blank) else None
    return Table(text.source, frame, known, notes=tuple(notes), delimiter=text.delimiter)


def _polars_csv(text: TextRows, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    import polars as pl

    # Numbers as names: the file's own may repeat, and without a header polars takes the width from row 0.
    head = text.delimiter.join(schema).encode() + b"\n"
    quote = '"' if b'"' in text.rows else None
    return pl.read_csv(head + text.rows, separator=text.delimiter, schema=schema, quote_char=quote)


def _has_comma_numbers(frame: pl.DataFrame, names: list[str]) -> bool:
    """Whether cells beside the times and words are numbers with a comma."""
    import polars as pl

    cells = [
        frame.to_series(i)
        for i, name in enumerate(names)
        if frame.dtypes[i] == pl.String and role_of(name) not in _STRING_ROLES
    ]
    return any(series.str.contains(_COMMA_NUMBER).any() for series in cells)


def _is_numeric(text: TextRows, position: int) -> bool:
    """Whether the first cells of a column are numbers short enough to be neither dates nor epochs."""
    if role_of(text.names[position]) in _STRING_ROLES or (not text.headed and position < 2):
        return False
    cells = [row[position] for row in text.sample if position < len(row) and row[position].strip()]
    if "ts_event" in text.names and not all("." in cell for cell in cells):
        return False  # Databento's prices without a point count units of 1e-9
    return bool(cells) and all(_NUMBER.fullmatch(cell) for cell in cells)


def _check_lines(text: TextRows) -> int:
    """Refuse the first line whose number of fields is not that of the columns; count lines of delimiters only."""
    width = len(text.names)
    what = "the header names" if text.headed else "the first row has"
    reader = csv.reader(_lines(text.rows), delimiter=text.delimiter, strict=True)
    line, empty = text.first_line, 0
    try:
        for fields in reader:
            blank = not any(field.strip() for field in fields)
            empty += blank and len(fields) > 1
            if len(fields) != width and not blank:
                raise DataError(
                    f"{text.source}: {what} {width} columns but line {line} has {len(fields)} "
                    f"field{'s' if len(fields) > 1 else ''}; correct or remove the line."
                )
            line = text.first_line + reader.line_num
    except csv.Error as error:
        line = text.first_line + reader.line_num - 1
        raise DataError(
            f"{text.source}: line {line} is not a regular row: {error}; correct or remove the line."
        ) from None
    return empty


def _lines(rows: bytes) -> Iterator[str]:
    """Yield the lines of a text one by one, without a second copy of it."""
    return (line.decode() for line in io.BytesIO(rows))


def _split(data: bytes, start: int, delimiter: str, count: int) -> list[list[str]]:
    """Return the fields of the first rows from a position on that are not blank."""
    cut = data[start : start + count * 2_048]
    if start + len(cut) < len(data) and (end := cut.rfind(b"\n")) >= 0:
        cut = cut[:end]
    found: list[list[str]] = []
    try:
        for fields in csv.reader(cut.decode(errors="ignore").split("\n"), delimiter=delimiter):
            if any(field.strip() for field in fields):
                found.append(fields)
            if len(found) == count:
                break
    except csv.Error:
        return found  # the whole file is judged when it is read
    return found


def _first_line(data: bytes, source: str) -> int:
    """Return where the first line that is not blank starts."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if data[start:end].strip():
            return start
        start = end + 1
    raise DataError(f"{source}: the file is empty; give a file with rows.")


def _delimiter(head: bytes) -> str:
    """Return the delimiter that parts most of the first lines; a comma only where no other one does."""
    lines = [
        re.sub(r'"[^"]*"', "", line)
        for line in head.decode(errors="ignore").split("\n")[: _PREAMBLE_LINES + 10]
        if line.strip()
    ]
    if len(lines) > 2:
        lines = lines[: max(2, len(lines) - 1)]  # the last one may be cut
    if not lines:
        return ","
    counts = {mark: sorted(line.count(mark) for line in lines)[len(lines) // 2] for mark in _DELIMITERS}
    for mark in _DELIMITERS:
        if counts[mark] >= 3:
            return mark
    return max(_DELIMITERS, key=lambda mark: (lines[0].count(mark), counts[mark]))


def _skip_preamble(data: bytes, start: int, delimiter: str) -> tuple[int, list[str]]:
    """Return where the header or the first row starts, after lines such as a title, and its fields."""
    first: tuple[int, list[str]] | None = None
    position = start
    for _ in range(_PREAMBLE_LINES):
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        fields = _split(data[position:end], 0, delimiter, 1)
        if fields:
            first = first or (position, fields[0])
            roles = {role_of(name) for name in fields[0]} - {None}
            if len(roles) >= 3:
                return position, fields[0]
            if _is_headless(fields[0]):
                break
        position = end + 1
        if position >= len(data):
            break
    return first or (start, [""])


def _is_headless(fields: list[str]) -> bool:
    """Whether a first line holds values rather than names."""
    kinds = [field_kind(field) for field in fields]
    values = sum(kind not in "WB" for kind in kinds)
    return values >= 3 and kinds.count("W") <= 2 and not any(role_of(field) for field in fields)


def distinct(written: list[str]) -> list[str]:
    """Give repeated and empty column names a number, as polars wants distinct ones."""
    names: list[str] = []
    seen: set[str] = set()
    for position, name in enumerate(written):
        unique, count = name or f"column_{position}", 1
        while unique in seen:
            count += 1
            unique = f"{name or 'column'}_{count}"
        seen.add(unique)
        names.append(unique)
    return names
