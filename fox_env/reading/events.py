"""Trades and quotes to bars by time, trades, volume or money, with recorded order flow.

An event belongs to the bar whose interval [start, end) holds its time, and the bar's time is ``end``.
Intervals start at multiples of the bar size since 1970 UTC; one without a trade makes no bar. A bar of
trades, volume or money ends with the trade that completes it, or with the last before a pause of more than
30 minutes, and its time is that trade's, moved on by 1 ns where it would repeat the bar before. The last bar
of the data may be incomplete. No trade is split or dropped, so that volume is conserved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import SESSION_BREAK_NS, Bars, Flag, Float, Int
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError, DataError
from fox_env.reading.flow import QUOTES, quote_columns, trade_columns
from fox_env.reading.quotes import without_empty_sides
from fox_env.reading.resample import resample
from fox_env.reading.sizes import BarSize, parse_size
from fox_env.reading.table import Table


@dataclass(frozen=True, eq=False)
class Events:
    """Trades and quotes of one instrument in file order; columns that a source lacks are None.

    Attributes
    ----------
    table : Table
        Where they come from, for errors.
    ts : int64, shape (N,)
        ns since 1970 UTC.
    price, size : float64, shape (N,)
        Price and contracts of a trade; the price is NaN where the row is not a trade.
    side : int8, shape (N,)
        1 where the buyer was the aggressor, -1 where the seller was, 0 where it is unknown.
    bid, ask, bid_size, ask_size, bid_depth, ask_depth : float64, shape (N,)
        Best quotes, contracts at them and over all recorded levels, in force after the row; NaN: none.
    reset : bool, shape (N,)
        The quotes do not follow from the row before (a snapshot, or the book was cleared).
    """

    table: Table
    ts: Int
    price: Float | None = None
    size: Float | None = None
    side: NDArray[np.int8] | None = None
    bid: Float | None = None
    ask: Float | None = None
    bid_size: Float | None = None
    ask_size: Float | None = None
    bid_depth: Float | None = None
    ask_depth: Float | None = None
    reset: Flag | None = None

    def __len__(self) -> int:
        return len(self.ts)


_NUMBERS = ("price", "size", *QUOTES)


def events_of(table: Table) -> Events:
    """Take the columns of :class:`Events` out of a table that has them under these names and types."""
    import polars as pl

    frame = table.frame
    columns: dict[str, NDArray[Any]] = {
        name: frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        for name in _NUMBERS
        if name in frame.columns
    }
    if "side" in frame.columns:
        columns["side"] = frame["side"].cast(pl.Int8).fill_null(0).to_numpy()
    if {"bid", "ask"} <= columns.keys():
        columns["bid"], columns["ask"] = without_empty_sides(
            columns["bid"], columns["ask"], columns.get("bid_size"), columns.get("ask_size")
        )
    if "reset" in frame.columns:
        columns["reset"] = frame["reset"].fill_null(False).to_numpy()
    return Events(table, frame["ts"].dt.cast_time_unit("ns").dt.timestamp("ns").to_numpy(), **columns)


def bars_from_events(events: Events, size: str, contract: str | ContractSpec | None = None) -> Bars:
    """Make bars of trades, or of mid prices where the source has quotes only.

    Parameters
    ----------
    events : Events
        In time order; equal times keep the order of the rows.
    size : str
        As :func:`fox_env.reading.sizes.parse_size` takes it. Quotes alone make bars by time only.
    contract : str or ContractSpec, optional
        Of trading days, as :func:`fox_env.resample` takes it.

    Returns
    -------
    Bars
        ``volume`` is None for quotes alone. ``extra`` holds, as far as the source has them, the recorded
        columns of :mod:`fox_env.features.order_flow`, and ``trades``, their number. ``repairs`` says how many
        rows made no bar.

    Raises
    ------
    DataError
        Times go back, a price or size is not usable, or there is nothing to make a bar of.
    ConfigError
        The size is unknown, or does not suit quotes.
    """
    wanted = parse_size(size)
    if wanted.kind == "day":
        return resample(bars_from_events(events, "1min"), size, contract)
    _check(events)
    priced = _priced(events)
    if (wanted.kind == "trades" and events.price is None) or (
        wanted.kind in ("volume", "money") and priced.size is None
    ):
        raise ConfigError(
            f"Bar size {size!r} needs trades with sizes, which {events.table.source} lacks; use a time "
            "such as '1min'."
        )
    ts = events.ts[priced.rows]
    starts = _starts(ts, priced, wanted)
    last = np.append(starts[1:], len(ts)) - 1
    if wanted.kind == "time":
        close = (ts[last] // wanted.amount + 1) * wanted.amount
        first_row = np.searchsorted(events.ts, close - wanted.amount)
        end_row = np.searchsorted(events.ts, close)
        gap = None  # as bars of time of any origin
    else:
        steps = np.arange(len(last))
        close = np.maximum.accumulate(ts[last] - steps) + steps
        end_row = priced.rows[last] + 1
        first_row = np.append(0, end_row[:-1])
        gap = np.isin(starts, _after_pause(ts))
    extra = {} if priced.size is None else trade_columns(priced.price, priced.size, priced.side, starts)
    quotes = {name: values for name in QUOTES if (values := getattr(events, name)) is not None}
    if {"bid", "ask"} <= quotes.keys():
        extra |= quote_columns(quotes, events.ts, events.reset, first_row, end_row)
    return Bars.from_arrays(
        close,
        priced.price[starts],
        np.maximum.reduceat(priced.price, starts),
        np.minimum.reduceat(priced.price, starts),
        priced.price[last],
        volume=None if priced.size is None else np.add.reduceat(priced.size, starts),
        gap=gap,
        extra=extra,
        repairs=(*events.table.notes, *priced.notes),
    )


def _check(events: Events) -> None:
    """Refuse times that go back, and prices and sizes that a trade or quote cannot have."""
    table, ts = events.table, events.ts
    if (back := np.flatnonzero(np.diff(ts) < 0)).size:
        row = int(back[0]) + 1
        seconds = (ts[row - 1] - ts[row]) / 1e9
        raise table.error(
            row, "ts", f"the time is {seconds:g} s before the row before; pass repair=('sort',)"
        )
    for name in ("price", *QUOTES, "size"):
        values = getattr(events, name)
        if values is None:
            continue
        bad = np.isinf(values)
        if name.endswith("size"):
            bad |= values < 0
        if bad.any():
            row = int(np.argmax(bad))
            raise table.error(row, name, f"the value is {values[row]:g}; correct or remove the row")


@dataclass(frozen=True, eq=False)
class _Priced:
    """The rows that set a price: trades, or mid prices of quotes; sizes are None where they are unknown."""

    rows: Int
    price: Float
    size: Float | None
    side: NDArray[np.int8] | None
    notes: tuple[str, ...]


def _priced(events: Events) -> _Priced:
    return _mids(events) if events.price is None else _trades(events, events.price)


def _mids(events: Events) -> _Priced:
    source = events.table.source
    if events.bid is None or events.ask is None:
        raise DataError(f"{source}: holds neither trades nor both sides of quotes; give other columns.")
    middle = 0.5 * (events.bid + events.ask)
    rows = np.flatnonzero(np.isfinite(middle))
    if rows.size == 0:
        raise DataError(f"{source}: no row has both a bid and an ask, so there is no mid price.")
    missing = len(events) - rows.size
    note = f"{missing:,} rows without both a bid and an ask set no mid price"
    return _Priced(rows, middle[rows], None, None, (note,) if missing else ())


def _trades(events: Events, price: Float) -> _Priced:
    traded = np.isfinite(price)
    notes: tuple[str, ...] = ()
    size = events.size
    if size is not None:
        if (lost := np.flatnonzero(traded & np.isnan(size))).size:
            raise events.table.error(int(lost[0]), "size", "the trade has no size; correct or remove the row")
        if (empty := np.flatnonzero(traded & (size == 0))).size:
            notes = (f"{empty.size:,} rows of size 0 are no trades and made no bar, first row {empty[0]}",)
        traded &= size > 0
    rows = np.flatnonzero(traded)
    if rows.size == 0:
        raise DataError(f"{events.table.source}: holds no trade; give a period with trades.")
    side = None if events.side is None else events.side[rows]
    return _Priced(rows, price[rows], None if size is None else size[rows], side, notes)


def _starts(ts: Int, priced: _Priced, size: BarSize) -> Int:
    """Return the first priced row of every bar."""
    if size.kind == "time":
        interval = ts // size.amount
        return np.flatnonzero(np.diff(interval, prepend=interval[0] - 1))
    if size.kind == "trades":
        amounts = np.ones(len(ts))
    else:
        assert priced.size is not None  # the caller refuses sizes that need volume
        amounts = priced.size if size.kind == "volume" else np.abs(priced.price) * priced.size
    total = np.cumsum(amounts)
    starts = []
    after_pause = _after_pause(ts)
    for first, end in zip([0, *after_pause], [*after_pause, len(ts)], strict=True):
        start = int(first)
        while start < end:
            starts.append(start)
            reached = (total[start - 1] if start else 0.0) + size.amount
            start = min(int(np.searchsorted(total, reached)) + 1, int(end))
    return np.array(starts, dtype=np.int64)


def _after_pause(ts: Int) -> Int:
    """Return the rows after a pause that ends a session; the spacing of bars of trades does not show it."""
    return np.flatnonzero(np.diff(ts) > SESSION_BREAK_NS) + 1
