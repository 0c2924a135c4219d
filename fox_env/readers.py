"""Read price bars from files and frames of every kind, recognised by content; write them as Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import PRICES, Bars
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError, DataError
from fox_env.reading.agreement import with_one_label
from fox_env.reading.columns import BarColumns
from fox_env.reading.joining import join_bars, joined_events, piece_bars, piece_columns, volume_note
from fox_env.reading.layout import Hints
from fox_env.reading.sources import Piece, check_format, pieces_of, shortest_interval
from fox_env.reading.stored import stored_metadata
from fox_env.repair import ROW_NUMBER, check_repairs

__all__ = ["list_symbols", "read_bars", "read_columns", "read_symbols", "write_bars"]

_SHOWN_SYMBOLS = 10


def read_bars(
    source: object,
    tz: str | None = None,
    label: str | None = None,
    format: str | None = None,
    *,
    symbol: str | None = None,
    bars: str | None = None,
    columns: Mapping[str, str] | None = None,
    price_scale: float | None = None,
    date_order: str | None = None,
    repair: Iterable[str] = (),
    contract: str | ContractSpec | None = None,
) -> Bars:
    """Read the price bars of one instrument; the format follows from the content, never from the suffix.

    Read are text tables (CSV and its relatives, plain, gzip, Zstandard or in a zip), Parquet, Arrow IPC,
    Databento's DBN, and frames of polars, pandas and pyarrow. docs/reading.md lists the layouts of vendors
    that are recognised, with the zone and the end of the bar that their times mark. Every numeric column
    that is not a price or volume is kept in ``Bars.extra``; columns of text are left out, and so is a volume
    column without any value. A file whose rows run from the newest to the oldest is read in time order.

    Parameters
    ----------
    source : str, Path, frame, or list or tuple of these
        Where the bars are. Several sources are joined in time order; rows that overlap must agree.
    tz : str, optional
        IANA zone of wall-clock times. Needed unless the times are epochs, carry offsets, their column's name
        ends in ``_utc``, or the layout fixes it; ignored where the times are in UTC already. An hour that
        occurs twice is resolved by row order or refused.
    label : {"close", "open"}, optional
        Which end of a bar its time marks, by default as the layout has it, else as sessions tell; what had to
        be assumed stands in ``Bars.repairs``. Times of the open are moved to the close by the length of the
        bar: as recorded, else the most frequent interval, and in a source of several instruments the shortest
        of theirs. Bare dates, and midnights a day or more apart, close on the next midnight.
    format : str, optional
        Insist on a container ("csv", "parquet", "arrow", "dbn") or on a layout such as "metatrader".
    symbol : str, optional
        Instrument to pick from a source of several; see :func:`list_symbols`.
    bars : str, optional
        Size of the bars to make: needed for trades and quotes, and makes coarser bars of bars. A time
        ("1min", "5min", "1h", "1d"), trades ("500t"), contracts ("1000v") or money ("1000000d").
    columns : mapping of str to str, optional
        Roles and the columns that have them, such as ``{"time": "Stamp", "close": "Settle"}``. Bars of the
        closes alone need ``{"close": ...}``.
    price_scale : float, optional
        Multiply prices by this, such as 1e-4 for prices stored times 10000.
    date_order : {"ymd", "dmy", "mdy"}, optional
        Order in dates such as 01/02/2024; needed where the file leaves it open.
    repair : iterable of str, optional
        Repairs of :data:`fox_env.repair.REPAIRS`; what they changed is kept in ``Bars.repairs``.
    contract : str or ContractSpec, optional
        What is traded. Its exchange tells which sessions ``bars="1d"`` takes for one trading day
        (:func:`fox_env.resample`); nothing else depends on it.

    Returns
    -------
    Bars
        Times are bar closes in UTC.

    Raises
    ------
    DataError
        A source cannot be read, holds several instruments and none is picked, or has rows that bars may not
        have; the message names the file, row (from 0), line and column, and the mend.
    ConfigError
        An option has an unknown value.
    """
    hints = _hints(tz, label, format, columns, price_scale, date_order)
    repairs = check_repairs(repair)
    pieces = _pick(_pieces(source, hints), symbol)
    return _build(pieces, hints, bars, repairs, contract)


def read_symbols(
    source: object,
    tz: str | None = None,
    label: str | None = None,
    format: str | None = None,
    *,
    bars: str | None = None,
    columns: Mapping[str, str] | None = None,
    price_scale: float | None = None,
    date_order: str | None = None,
    repair: Iterable[str] = (),
    contract: str | ContractSpec | None = None,
) -> dict[str, Bars]:
    """Read the bars of every instrument of a source; the options are those of :func:`read_bars`.

    Returns
    -------
    dict of str to Bars
        In the order in which the instruments first occur. A source that names none has the name "".
    """
    hints = _hints(tz, label, format, columns, price_scale, date_order)
    repairs = check_repairs(repair)
    named = _pieces(source, hints)
    return {name: _build(pieces, hints, bars, repairs, contract) for name, pieces in named.items()}


def list_symbols(source: object) -> list[str]:
    """Return the instruments of a source in the order in which they first occur; empty where it names none.

    Raises
    ------
    DataError
        The source cannot be read.
    """
    return [name for name in _pieces(source, Hints(), timed=False) if name]


def read_columns(
    source: object,
    tz: str | None = None,
    label: str | None = None,
    format: str | None = None,
    *,
    symbol: str | None = None,
    columns: Mapping[str, str] | None = None,
    price_scale: float | None = None,
    date_order: str | None = None,
) -> dict[str, NDArray[Any]]:
    """Read bars as :func:`read_bars` does, but without refusing faulty rows, for :func:`validate_bars`.

    Returns
    -------
    dict of str to array, shape (T,)
        ``ts`` (int64 ns UTC at the bar's close), ``open``, ``high``, ``low``, ``close`` and, where the file
        has it, ``volume`` (float64; NaN where a cell is empty), and the further columns by name. Where the
        rows of one source are in another order than its own, or not all of them, :data:`ROW_NUMBER` is the row
        of the source of each.
    """
    hints = _hints(tz, label, format, columns, price_scale, date_order)
    pieces = _pick(_pieces(source, hints), symbol)
    if not_bars := {piece.layout.kind for piece in pieces} - {"bars"}:
        raise _lacks_size(pieces[0].table.source, not_bars)
    parsed = [piece_columns(piece, hints) for piece in pieces]
    found: dict[str, NDArray[Any]] = {}
    for name in ("ts", *PRICES, "volume"):
        arrays = [_column(columns, name) for columns in parsed]
        if not any(values is None for values in arrays):
            found[name] = np.concatenate([values for values in arrays if values is not None])
    for name in parsed[0].extra:
        if name not in found and all(name in columns.extra for columns in parsed):
            found[name] = np.concatenate([columns.extra[name] for columns in parsed])
    if len(parsed) == 1 and parsed[0].table.rows is not None:
        found[ROW_NUMBER] = parsed[0].table.rows
    return found


def _column(columns: BarColumns, name: str) -> NDArray[Any] | None:
    if name in PRICES:
        return columns.prices[name]
    return columns.ts if name == "ts" else columns.volume


def write_bars(bars: Bars, path: str | Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write bars as a Parquet file that :func:`read_bars` reads back unchanged.

    The file appears complete or not at all: it is written beside its place and renamed.

    Parameters
    ----------
    bars : Bars
    path : str or Path
    metadata : mapping of str to str, optional
        Further key-value metadata of the Parquet file.

    Raises
    ------
    DataError
        The file cannot be written, or a further column has the name of a column that every bar has.
    """
    import polars as pl

    from fox_env.reading.guard import remember_written

    columns: dict[str, NDArray[Any]] = {name: getattr(bars, name) for name in PRICES}
    columns |= {"session_end": bars.session_end, "gap": bars.gap}
    if bars.volume is not None:
        columns["volume"] = bars.volume
    if bars.roll_gap is not None:
        columns["roll_gap"] = bars.roll_gap
    if taken := [name for name in bars.extra if name in columns or name in ("ts", "volume", "roll_gap")]:
        raise DataError(
            f"{path}: the further column {taken[0]} has the name of a column of every bar; rename it in Bars.extra."
        )
    time = pl.Series("ts", bars.ts).cast(pl.Datetime("ns", "UTC"))
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        pl.DataFrame([time]).with_columns(**bars.extra, **columns).write_parquet(
            partial, metadata={**stored_metadata(bars), **(metadata or {})}
        )
        os.replace(partial, path)
    except OSError as error:
        raise DataError(f"{path}: the file cannot be written: {error.strerror or error}.") from error
    finally:
        partial.unlink(missing_ok=True)
    remember_written(path)


def _hints(
    tz: str | None,
    label: str | None,
    format: str | None,
    columns: Mapping[str, str] | None,
    price_scale: float | None,
    date_order: str | None,
) -> Hints:
    check_format(format)
    hints = Hints(tz, label, format, {} if columns is None else columns, price_scale, date_order)
    hints.check()
    return hints


def _pieces(source: object, hints: Hints, timed: bool = True) -> dict[str, list[Piece]]:
    """Return the pieces of every instrument by name, of all sources in turn."""
    sources = source if isinstance(source, list | tuple) else [source]
    if not sources:
        raise ConfigError("The list of sources is empty; give at least one path or frame.")
    named: dict[str, list[Piece]] = {}
    for one in sources:
        pieces = list(pieces_of(one, hints))
        if timed and len(pieces) > 1:
            interval = shortest_interval(pieces, hints)
            pieces = [replace(piece, interval=piece.interval or interval) for piece in pieces]
        for piece in pieces:
            named.setdefault(piece.table.symbol or "", []).append(piece)
    return with_one_label(named, hints) if timed else named


def _pick(named: Mapping[str, list[Piece]], symbol: str | None) -> list[Piece]:
    """Return the pieces of the instrument asked for, or of the only one."""
    source = next(iter(named.values()))[0].table.source
    shown = ", ".join(list(named)[:_SHOWN_SYMBOLS])
    shown += f" and {len(named) - _SHOWN_SYMBOLS} more" if len(named) > _SHOWN_SYMBOLS else ""
    if symbol is None:
        if len(named) > 1:
            raise DataError(
                f"{source}: holds {len(named)} instruments ({shown}); pass symbol= with one of them, or use "
                "read_symbols."
            )
        return next(iter(named.values()))
    if symbol not in named:
        holds = f"holds {shown}" if list(named) != [""] else "names no instrument"
        raise DataError(
            f"{source}: {holds}, not symbol={symbol!r}; use one that list_symbols gives, or none."
        )
    return named[symbol]


def _lacks_size(source: str, kinds: Iterable[str]) -> DataError:
    what = " and ".join(sorted(kinds))
    return DataError(f"{source}: holds {what}, not bars; pass bars= with a size such as bars='1min'.")


def _build(
    pieces: Sequence[Piece],
    hints: Hints,
    size: str | None,
    repairs: Sequence[str],
    contract: str | ContractSpec | None,
) -> Bars:
    """Make the bars of one instrument."""
    from fox_env.reading.events import bars_from_events, events_of
    from fox_env.reading.resample import resample

    kinds = {piece.layout.kind for piece in pieces}
    source = pieces[0].table.source
    if kinds == {"bars"}:
        made = join_bars([(piece.table.source, piece_bars(piece, hints, repairs)) for piece in pieces])
        made = replace(made, repairs=(*made.repairs, *volume_note(pieces)))
        return made if size is None else resample(made, size, contract)
    if "bars" in kinds:
        raise DataError(f"{source}: is joined with a source of another kind; give bars only, or trades only.")
    if size is None:
        raise _lacks_size(source, kinds)
    return bars_from_events(events_of(joined_events(pieces, hints, repairs)), size, contract)
