"""Files and frames as pieces: the rows of one instrument each, with the layout that says how to read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import PRICES
from fox_env.errors import ConfigError, DataError
from fox_env.reading.content import Content, read_contents
from fox_env.reading.dialects import FORMATS, LEAN, LEAN_QUOTES
from fox_env.reading.layout import Hints, Layout, find_layout
from fox_env.reading.names import NAMES, plain, role_of
from fox_env.reading.numbers import is_comma_language, with_decimal_mark
from fox_env.reading.signs import without_signs
from fox_env.reading.stamps import read_stamps
from fox_env.reading.table import Table, shown
from fox_env.reading.text import TextRows, distinct, open_text, read_rows

if TYPE_CHECKING:
    import polars as pl

CONTAINERS = ("csv", "parquet", "arrow", "dbn")
_DAY_MS = 86_400_000
_MAX_INSTRUMENTS = 10_000
_NUMBER = "instrument_id"
_LEAN_DAY = re.compile(
    r"(?P<day>(?:19|20)\d{6})_(?P<ticker>[^_]+)_(?P<step>second|minute)_(?P<kind>trade|quote|openinterest)"
    r"(?:_(?:.*_)?(?P<expiry>\d{6,8}))?\.csv",
    re.IGNORECASE,
)
_LEAN_HOURS = re.compile(
    r"(?P<ticker>[a-z0-9.]+?)(?:_(?P<kind>trade|quote|openinterest))?(?:_(?:.*_)?(?P<expiry>\d{6,8}))?\.csv",
    re.IGNORECASE,
)
_STEP_NS = {"second": 1_000_000_000, "minute": 60_000_000_000}


@dataclass(frozen=True)
class Piece:
    """Rows of one instrument and how to read them.

    Attributes
    ----------
    table : Table
    layout : Layout
    interval : int
        Length of a bar in ns where the container tells it, else 0.
    """

    table: Table
    layout: Layout
    interval: int = 0


def check_format(format: str | None) -> None:
    """Refuse an unknown format with a :class:`ConfigError`."""
    if format is not None and format not in CONTAINERS and format not in FORMATS:
        known = ", ".join(dict.fromkeys((*CONTAINERS, *FORMATS)))
        raise ConfigError(f"Unknown format={format!r}; use one of {known}.")


def pieces_of(source: object, hints: Hints) -> Iterator[Piece]:
    """Read a path or frame and yield its instruments in the order of their first rows.

    Raises
    ------
    DataError
        The source cannot be read or understood.
    ConfigError
        `source` is neither a path nor a frame.
    """
    from fox_env.reading.frames import frame_table, is_frame

    if is_frame(source):
        for piece in _by_instrument(*find_layout(frame_table(source), hints)):
            yield _of_the_vendor(piece, hints)
        return
    if not isinstance(source, str | Path):
        raise ConfigError(
            f"The source of bars must be a path, several paths or a frame, not {type(source).__name__}."
        )
    contents = read_contents(Path(source))
    if hints.format in CONTAINERS:
        contents = _insist(contents, hints.format)
    for content in contents:
        for found in _content_pieces(content, hints):
            piece = _of_the_vendor(found, hints)
            notes = (*piece.table.notes, content.note) if content.note else piece.table.notes
            yield replace(piece, table=replace(piece.table, notes=notes))


def _of_the_vendor(piece: Piece, hints: Hints) -> Piece:
    """Give the rows of dialects that need more than names of columns the form that all others have."""
    from fox_env.reading.databento import vendor_events
    from fox_env.reading.quotes import mid_bars
    from fox_env.reading.ticks import tick_rows

    layout = piece.layout
    if layout.dialect.name == "databento_events":
        table, layout = vendor_events(piece.table, layout)
    elif layout.dialect.name in ("lean_quote_bars", "fxcm"):
        roles = {role: column for role, column in layout.roles.items() if role not in ("bid", "ask")}
        layout = replace(layout, roles=roles | {price: price for price in PRICES}, kind="bars")
        table = mid_bars(piece.table)
    elif layout.kind != "bars":
        table, layout = tick_rows(piece.table, layout, hints)
    else:
        return piece
    return replace(piece, table=table, layout=layout)


def _insist(contents: Iterator[Content], format: str) -> Iterator[Content]:
    for content in contents:
        kind = "csv" if content.kind == "text" else content.kind
        if kind != format:
            raise DataError(
                f"{content.source}: format={format!r} was asked for, but the content is {kind}; drop the format."
            )
        yield content


def _content_pieces(content: Content, hints: Hints) -> Iterator[Piece]:
    from fox_env.reading.dbn import read_dbn
    from fox_env.reading.frames import arrow_table, parquet_table

    if content.kind == "text":
        yield from _text_pieces(content, hints)
        return
    read = {"dbn": read_dbn, "parquet": parquet_table, "arrow": arrow_table}[content.kind]
    table = read(content.data, content.source)
    yield from _by_instrument(*find_layout(table, hints))


def _text_pieces(content: Content, hints: Hints) -> Iterator[Piece]:
    text = open_text(content)
    member = Path(content.name).stem if content.member else None
    if not text.headed and not hints.columns and (lean := _lean_piece(text, hints)) is not None:
        yield lean
        return
    words = text.headed and is_comma_language(text.names)
    table = read_rows(text, text.names if words else _text_columns(hints))
    if text.instruments is not None:
        for symbol, positions in text.instruments.items():
            columns = [text.names[i] for i in positions]
            written = dict(zip(columns, distinct([text.written[i] for i in positions]), strict=True))
            side = replace(table, frame=table.frame.select(columns).rename(written), symbol=symbol)
            yield Piece(*find_layout(_without_empty_rows(side), hints, given=text.dialect))
        return
    found, layout = find_layout(table, hints, None if text.headed else text.sample[0], text.dialect)
    for piece in _by_instrument(found, layout):
        named = piece.table.symbol is not None or member is None
        yield piece if named else replace(piece, table=replace(piece.table, symbol=member))


def _text_columns(hints: Hints) -> list[str]:
    """Return the columns that the caller has named as times or instruments, which stay text."""
    return [hints.columns[role] for role in ("time", "date", "clock", "symbol") if role in hints.columns]


def _without_empty_rows(table: Table) -> Table:
    """Leave out the rows in which an instrument beside others has no value at all, and say so."""
    import polars as pl

    empty = table.frame.select(pl.all_horizontal(pl.all().exclude(table.frame.columns[0]).is_null()))
    rows = np.flatnonzero(~empty.to_series().to_numpy())
    missing = table.frame.height - len(rows)
    if not missing:
        return table
    if not len(rows):
        raise DataError(f"{table.source}: {table.symbol} has no value in any row; drop its columns.")
    note = f"{missing:,} rows without a value of {table.symbol} left out"
    return replace(table.take(rows), notes=(*table.notes, note))


def _lean_piece(text: TextRows, hints: Hints) -> Piece | None:
    """Read a member of a LEAN zip: the date and the contract stand in its name."""
    name = Path(text.source).name
    match = _LEAN_DAY.fullmatch(name)
    hourly = re.match(r"(?:19|20)\d{6} \d{2}:\d{2}$", text.sample[0][0].strip()) if match is None else None
    if hourly is not None and len(text.names) in (6, 11):
        match = _LEAN_HOURS.fullmatch(name)
    if match is None or len(text.names) not in (6, 11):
        return None
    if match["kind"] == "openinterest":
        raise DataError(f"{text.source}: holds open interest, no prices; read the trade file.")
    dialect = LEAN if len(text.names) == 6 else LEAN_QUOTES
    table = read_rows(text, text.names[:1])
    table = replace(table, frame=table.frame.rename(dict(zip(text.names, dialect.order, strict=True))))
    if hourly is None:
        table = replace(table, frame=table.frame.with_columns(_since_midnight(table, match["day"])))
    expiry = f"_{match['expiry']}" if match["expiry"] else ""
    table = replace(table, symbol=match["ticker"].upper() + expiry)
    step = _STEP_NS[match["step"].lower()] if hourly is None else 0
    return Piece(*find_layout(table, hints, given=dialect), step)


def _since_midnight(table: Table, day: str) -> pl.Series:
    """Return the time of rows that count milliseconds since midnight of a day."""
    import polars as pl

    counts = table.frame["time"].str.strip_chars().cast(pl.Int64, strict=False)
    bad = (counts.is_null() | (counts < 0) | (counts >= _DAY_MS)).fill_null(True).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise table.error(
            row, "time", f"{shown(table.frame['time'][row])} is not a count of ms since midnight"
        )
    midnight = pl.Series([day]).str.to_date("%Y%m%d", strict=False)[0]
    if midnight is None:
        raise DataError(f"{table.source}: the date {day} in its name does not exist; correct the name.")
    start = pl.Series([midnight]).cast(pl.Datetime("ms")).dt.timestamp("ms")[0]
    return pl.Series("time", counts + start).cast(pl.Datetime("ms")).dt.cast_time_unit("ns")


def _by_instrument(table: Table, layout: Layout) -> Iterator[Piece]:
    """Part the rows by the columns that name the instrument, if there are any."""
    import polars as pl

    table = with_decimal_mark(without_signs(table, layout.roles), layout.roles)
    columns = _symbol_columns(table.frame, layout)
    if not columns:
        yield Piece(table, layout)
        return
    layout = replace(layout, roles={**layout.roles, "symbol": columns[0]})
    parts = [table.frame[column].cast(pl.String).str.strip_chars() for column in columns]
    for column, cells in zip(columns, parts, strict=True):
        if cells.null_count() or (cells == "").any():
            row = int((cells.is_null() | (cells == "").fill_null(True)).to_numpy().argmax())
            raise table.error(row, column, "the instrument is missing; fill or remove the row")
    names = pl.select(pl.concat_str(parts, separator="_")).to_series()
    if (count := names.n_unique()) > _MAX_INSTRUMENTS:
        raise DataError(
            f"{table.source}: column {' and '.join(columns)} holds {count:,} instruments; rename it if it names none, "
            "or split the source."
        )
    places = pl.DataFrame({"name": names, "row": np.arange(len(names))})
    for name, rows in places.group_by("name", maintain_order=True).agg("row").iter_rows():
        piece = table if count == 1 else table.take(np.asarray(rows))
        yield Piece(_note_passing(replace(piece, symbol=name)), layout)


def _symbol_columns(frame: pl.DataFrame, layout: Layout) -> list[str]:
    """Return the columns that together name the instrument: those that vary, else the first one.

    The number of an instrument counts only where there is no name, and a column that tells no more rows apart
    than those before it (an expiry beside ``ESH4``) does not.
    """
    if "symbol" not in layout.roles:
        return []
    order = NAMES["symbol"]
    columns = [column for column in frame.columns if role_of(column) == "symbol"]
    columns.sort(key=lambda column: order.index(plain(column)) if plain(column) in order else len(order))
    given = layout.roles["symbol"]
    if given not in columns:
        return [given]
    named = [column for column in columns if plain(column) != _NUMBER]
    chosen: list[str] = []
    count = 1
    for column in named or columns:
        if (together := frame.n_unique([*chosen, column])) > count:
            chosen, count = [*chosen, column], together
    return chosen or (named or columns)[:1]


def _note_passing(table: Table) -> Table:
    """Say where a symbol passes from one instrument to another, as continuous ones do."""
    column = next((name for name in table.frame.columns if plain(name) == _NUMBER), None)
    if column is None or table.frame[column].n_unique() == 1:
        return table
    numbers = table.frame[column]
    changes = np.flatnonzero((numbers != numbers.shift(1)).fill_null(False).to_numpy())
    first = changes[0] if table.rows is None else table.rows[changes[0]]
    note = (
        f"{table.symbol} passes to another instrument in {len(changes):,} rows, first row {first}: the price gaps "
        "there are no moves of the market"
    )
    return replace(table, notes=(*table.notes, note))


def shortest_interval(pieces: list[Piece], hints: Hints) -> int:
    """Return the bar length in ns of pieces of one source: that of the most liquid instrument among them.

    An instrument that seldom trades has longer pauses than bars.
    """
    known = [piece.interval for piece in pieces if piece.interval]
    if known:
        return min(known)
    found = []
    for piece in pieces:
        try:
            found.append(read_stamps(piece.table, piece.layout, hints).interval)
        except DataError:
            continue  # the instrument asked for is judged when it is read
    return min((interval for interval in found if interval), default=0)
