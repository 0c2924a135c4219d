"""Pieces to bars: repaired, checked and joined in time order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import PRICES, Bars, Int, first_fault
from fox_env.checks.times import SPREADSHEET_ROWS
from fox_env.errors import ConfigError, DataError
from fox_env.reading.columns import BarColumns, canonical_events, parse_bars
from fox_env.reading.labels import ASSUMED
from fox_env.reading.layout import Hints
from fox_env.reading.names import plain
from fox_env.reading.sources import Piece
from fox_env.reading.stamps import read_stamps
from fox_env.reading.table import Table
from fox_env.repair import repair_columns

Arrays = dict[str, NDArray[Any]]

_MENDS = {
    "order": "sort the rows by time or pass repair=('sort',)",
    "duplicate": "keep one row per time or pass repair=('keep_first',) or repair=('keep_last',)",
    "ohlc": "correct the row or pass repair=('widen',) or repair=('drop_bad_ohlc',)",
    "non_finite": "correct or remove the row or pass repair=('drop_non_finite',)",
}
_HOUR_NS = 3_600_000_000_000
_NIGHT_NS = (20 * _HOUR_NS, 24 * _HOUR_NS)
"""How far the time steps back at midnight where a night session is dated by the next trading day."""
_TOLD_SPACINGS = 12
_FURTHER = "further "
"""Marks flags and further columns in the arrays that are repaired, as their names may be those of prices."""


def piece_columns(piece: Piece, hints: Hints) -> BarColumns:
    """Parse a piece that holds bars."""
    stamps = read_stamps(piece.table, piece.layout, hints, piece.interval)
    return parse_bars(stamps, piece.layout, hints)


def piece_bars(piece: Piece, hints: Hints, repairs: Sequence[str] = ()) -> Bars:
    """Return the bars of one piece.

    Raises
    ------
    DataError
        A row is one that bars may not have and no repair answers it.
    """
    columns = piece_columns(piece, hints)
    table, arrays, notes = columns.table, _arrays(columns), list(columns.table.notes)
    if repairs:
        arrays["position"] = np.arange(len(columns.ts))
        arrays, sentences = repair_columns(arrays, repairs, table.rows, table.source)
        notes += sentences
        table = table.take(arrays.pop("position"))
    prices = {name: arrays[name] for name in PRICES}
    found = first_fault(arrays["ts"], prices, arrays.get("volume"))
    if found is not None:
        fault, row = found
        mend = _MENDS.get(fault.kind, "correct or remove the row")
        if fault.kind == "order" and _NIGHT_NS[0] < arrays["ts"][row - 1] - arrays["ts"][row] <= _NIGHT_NS[1]:
            mend = f"write calendar dates if nights bear the date of the next trading day, else {mend}"
        raise table.error(row, fault.column, f"{fault.describe(row)}; {mend}")
    rolls = arrays.get("roll_gap")
    if rolls is not None and (bad := np.flatnonzero(~np.isfinite(rolls))).size:
        raise table.error(int(bad[0]), "roll_gap", "the value is not finite; write 0 for no roll")
    return Bars.from_arrays(
        arrays["ts"],
        prices["open"],
        prices["high"],
        prices["low"],
        prices["close"],
        volume=arrays.get("volume"),
        roll_gap=rolls,
        session_end=arrays.get(_FURTHER + "session_end") if "session_end" in columns.flags else None,
        gap=arrays.get(_FURTHER + "gap") if "gap" in columns.flags else None,
        extra={name: arrays[_FURTHER + name] for name in columns.extra},
        repairs=notes,
        adjusted=table.adjusted,
    )


def _arrays(columns: BarColumns) -> Arrays:
    arrays: Arrays = {"ts": columns.ts, **columns.prices}
    if columns.volume is not None:
        arrays["volume"] = columns.volume
    if columns.roll_gap is not None:
        arrays["roll_gap"] = columns.roll_gap
    further: Mapping[str, NDArray[Any]] = {**columns.extra, **columns.flags}
    return arrays | {_FURTHER + name: values for name, values in further.items()}


def _told_interval(ts: Int) -> int:
    """Return the length of bars in ns if their times leave no doubt of it, else 0.

    They do where one spacing makes up half of them or more and the others are its multiples, in a dozen bars;
    in three where it is most of a day.
    """
    spacing = np.diff(ts)
    if spacing.size < 2:
        return 0
    values, counts = np.unique(spacing, return_counts=True)
    usual = int(values[counts.argmax()])
    enough = spacing.size >= _TOLD_SPACINGS or usual >= _NIGHT_NS[0]
    regular = 2 * counts.max() >= spacing.size and not (values % usual).any()
    return usual if enough and regular else 0


def _check_alike(parts: Sequence[tuple[str, Bars]]) -> None:
    """Refuse sources that do not continue each other: other columns, adjustment or length of bars."""
    first_source, first = parts[0]
    lengths: dict[int, str] = {}
    for source, bars in parts:
        for name in ("volume", "roll_gap"):
            if (getattr(bars, name) is None) != (getattr(first, name) is None):
                raise DataError(
                    f"{source}: has {'no' if getattr(bars, name) is None else 'a'} {name}, unlike {first_source}; "
                    "give sources of the same columns."
                )
        if bars.adjusted != first.adjusted:
            raise DataError(
                f"{source}: has prices adjusted by {bars.adjusted}, {first_source} by {first.adjusted}; "
                "give sources of one adjustment."
            )
        if interval := _told_interval(bars.ts):
            lengths.setdefault(interval, source)
    if len(lengths) > 1:
        (one, one_source), (other, other_source) = list(lengths.items())[:2]
        raise DataError(
            f"{other_source}: has bars of {other / 1e9:g} s, {one_source} of {one / 1e9:g} s; read them apart and "
            "bring them to one length with fox_env.resample."
        )


def join_bars(parts: Sequence[tuple[str, Bars]]) -> Bars:
    """Join bars of several sources in time order.

    Parameters
    ----------
    parts : sequence of (str, Bars)
        The name of each source and its bars.

    Raises
    ------
    DataError
        Two sources differ at the same time, in having a volume or roll gaps, in their adjustment, or in the
        length of their bars.
    """
    if len(parts) == 1:
        return parts[0][1]
    parts = sorted(parts, key=lambda part: int(part[1].ts[0]))
    _check_alike(parts)
    first = parts[0][1]
    ts = np.concatenate([bars.ts for _, bars in parts])
    order = np.argsort(ts, kind="stable")
    ts = ts[order]
    origin = np.concatenate([np.full(len(bars), number) for number, (_, bars) in enumerate(parts)])[order]
    again = np.flatnonzero(np.diff(ts) == 0) + 1

    def joined(arrays: Sequence[NDArray[Any]], name: str) -> NDArray[Any]:
        values = np.concatenate(arrays)[order]
        differs = values[again] != values[again - 1]
        differs &= ~(np.isnan(values[again]) & np.isnan(values[again - 1]))
        if differs.any():
            row = int(again[differs.argmax()])
            one, two = (parts[origin[i]][0] for i in (row - 1, row))
            raise DataError(
                f"{two}: column {name} at {np.datetime64(int(ts[row]), 'ns')} UTC is {values[row]:g}, but "
                f"{values[row - 1]:g} in {one}; give sources that agree where they overlap."
            )
        return np.delete(values, again)

    def column(name: str) -> NDArray[Any] | None:
        if getattr(first, name) is None:
            return None
        return joined([getattr(bars, name) for _, bars in parts], name)

    extra = {
        name: joined([bars.extra.get(name, np.full(len(bars), np.nan)) for _, bars in parts], name)
        for name in dict.fromkeys(name for _, bars in parts for name in bars.extra)
    }
    open_, high, low, close = (joined([getattr(bars, name) for _, bars in parts], name) for name in PRICES)
    return Bars.from_arrays(
        np.delete(ts, again),
        open_,
        high,
        low,
        close,
        volume=column("volume"),
        roll_gap=column("roll_gap"),
        extra=extra,
        repairs=_once([sentence for _, bars in parts for sentence in bars.repairs]),
        adjusted=first.adjusted,
    )


def volume_note(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """Say which columns the volume was taken from where several sources name it differently."""
    columns: dict[str, str] = {}
    for piece in pieces:
        if "volume" in piece.layout.roles:
            columns.setdefault(plain(piece.layout.roles["volume"]), piece.table.source)
    if len(columns) < 2:
        return ()
    places = ", ".join(f"{column} in {source}" for column, source in columns.items())
    return (f"volume is column {places}: their units may differ",)


def _once(sentences: Sequence[str]) -> list[str]:
    """Keep a sentence on what was assumed of all sources alike once."""
    return [
        sentence
        for i, sentence in enumerate(sentences)
        if not sentence.startswith(ASSUMED) or sentence not in sentences[:i]
    ]


def joined_events(pieces: Sequence[Piece], hints: Hints, repairs: Sequence[str]) -> Table:
    """Return the trades or quotes of several pieces as one table in time order.

    Raises
    ------
    DataError
        Pieces overlap in time, so that the order of their rows is unknown.
    ConfigError
        A repair is asked for that is for bars.
    """
    import polars as pl

    if wrong := [name for name in repairs if name != "sort"]:
        raise ConfigError(f"The repair {wrong[0]!r} is for bars; trades and quotes take 'sort' only.")
    tables = [
        _note_limit(canonical_events(piece.table, piece.layout, hints), piece.table) for piece in pieces
    ]
    if "sort" in repairs:
        tables = [_sorted(table) for table in tables]
    if len(tables) == 1:
        return tables[0]
    tables.sort(key=lambda table: table.frame["ts"][0])
    for before, after in pairwise(tables):
        if after.frame["ts"][0] < before.frame["ts"][-1]:
            raise DataError(
                f"{after.source}: its trades or quotes overlap in time with those of {before.source}; give files "
                "that follow one another."
            )
        if after.frame.columns != before.frame.columns:
            raise DataError(
                f"{after.source}: has other columns than {before.source}; give files of one kind."
            )
    frame = pl.concat([table.frame for table in tables])
    notes = tuple(note for table in tables for note in table.notes)
    return replace(tables[0], frame=frame, lines=None, rows=None, notes=notes)


def _note_limit(events: Table, source: Table) -> Table:
    """Note a source of events that a spreadsheet has cut; of bars the data checks report it."""
    if (rows := source.frame.height) not in SPREADSHEET_ROWS:
        return events
    note = (
        f"{source.source} ends at {rows:,} rows, the limit of a spreadsheet: later rows are probably cut off"
    )
    return replace(events, notes=(*events.notes, note))


def _sorted(table: Table) -> Table:
    """Put rows into time order; equal times keep the order of the rows."""
    ts = table.frame["ts"].to_physical().to_numpy()
    back = int(np.count_nonzero(np.diff(ts) < 0))
    if not back:
        return table
    first = int(np.argmax(np.diff(ts) < 0)) + 1
    rows = f"{back:,} row{'s' if back > 1 else ''}"
    note = f"sort: {rows} earlier than the row before, first row {first}: all rows put in time order"
    table = table.take(np.argsort(ts, kind="stable"))
    return replace(table, notes=(*table.notes, note))
