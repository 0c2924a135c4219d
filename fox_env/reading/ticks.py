"""Ticks of last price, bid and ask, whose columns say what has changed or how much was traded so far."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fox_env.bars import Flag, Float
from fox_env.errors import DataError
from fox_env.reading.layout import Hints, Layout
from fox_env.reading.names import plain
from fox_env.reading.numbers import numbers
from fox_env.reading.table import Table

if TYPE_CHECKING:
    import polars as pl

_LAST = ("last_price", "last")
_VOLUME = ("volume", "vol")
"""Names of a column that may count the day's trades; ``size`` and ``qty`` are those of a trade."""

_RUNNING = {"open_interest", "openinterest", "turnover", "amount", "average", "average_price"}
"""Columns beside the volume in feeds of exchanges whose volume counts the day's trades so far."""

_MAKER = ("is_buyer_maker", "isbuyermaker", "buyer_maker")
_MOST, _FEW = 0.75, 12
_BUY, _SELL = 32, 64
"""Flags of MetaTrader 5: the trade was by a buy or a sell order."""


def tick_rows(table: Table, layout: Layout, hints: Hints) -> tuple[Table, Layout]:
    """Give ticks one price, one size and one side for every trade.

    A last price beside quotes is that of trades. In ticks of MetaTrader 5 an empty cell means "unchanged". A volume
    that counts up through the day becomes its differences.

    Raises
    ------
    DataError
        A volume seems to count up and nothing beside it makes that certain.
    """
    names = {plain(name): name for name in reversed(table.frame.columns)}
    if layout.dialect.name == "metatrader" and {"bid", "ask"} <= layout.roles.keys():
        return _metatrader(table, layout, names)
    if layout.kind == "quotes" and "last" in names and "price" not in layout.roles and "size" in layout.roles:
        layout = replace(layout, roles={**layout.roles, "price": names["last"]}, kind="trades")
        table = replace(table, kind="trades")
    if layout.kind != "trades":
        return table, layout
    maker = next((names[name] for name in _MAKER if name in names), None)
    if maker is not None and "side" not in layout.roles:
        table = replace(table, frame=table.frame.with_columns(_taker(table.frame[maker])))
        layout = replace(layout, roles={**layout.roles, "side": "side"})
    if plain(layout.roles.get("size", "")) in _VOLUME and not {"price", "size"} & hints.columns.keys():
        table = _of_single_trades(table, layout.roles["size"], layout.roles["price"], set(names))
    return table, layout


def _taker(maker: pl.Series) -> pl.Series:
    """Return the aggressor: the seller where the buyer's order rested in the book."""
    import polars as pl

    words = {"true": -1, "1": -1, "1.0": -1, "false": 1, "0": 1, "0.0": 1}
    cells = maker.cast(pl.String).str.strip_chars().str.to_lowercase()
    return cells.replace_strict(words, default=0, return_dtype=pl.Int8).fill_null(0).alias("side")


def _of_single_trades(table: Table, size: str, price: str, names: set[str]) -> Table:
    """Turn a volume that counts up through the day into the sizes of single trades."""
    import polars as pl

    volume = numbers(table, size)
    step = np.diff(volume)
    rises, falls = int((step > 0).sum()), int((step < 0).sum())
    certain = plain(price) in _LAST and not _RUNNING.isdisjoint(names)
    restarts = not ((step < 0) & (volume[1:] > 0.5 * volume[:-1])).any()  # a day begins with few trades
    share = rises / max(rises + falls, 1)
    if certain and share >= _MOST and restarts:
        sizes = np.append(0.0, np.where(step >= 0, step, volume[1:]))
        note = f"column {size} counts up through the day: its differences are the sizes, and the first row has none"
        frame = table.frame.with_columns(pl.Series(size, sizes))
        return replace(table, frame=frame, notes=(*table.notes, note))
    enough = rises >= (_FEW if plain(price) != "last_price" else 1)
    if (enough or certain) and rises + falls and (share == 1 or (certain and not 1 - _MOST < share < _MOST)):
        raise DataError(
            f"{table.source}: column {size} seems to count the volume since the start of the day; put the rows in "
            f"time order and store its differences, or pass columns={{'size': {size!r}}} if it holds sizes of trades."
        )
    return table


def _metatrader(table: Table, layout: Layout, names: dict[str, str]) -> tuple[Table, Layout]:
    """Read ticks of MetaTrader 5: quotes last until they change, and a filled last price or volume is a trade."""
    import polars as pl

    roles = dict(layout.roles)
    filled: dict[str, Float] = {side: _last_known(numbers(table, roles[side])) for side in ("bid", "ask")}
    extra: list[pl.Series] = []
    kind = layout.kind
    if {"last", "volume"} <= names.keys():
        last, volume = (numbers(table, names[name]) for name in ("last", "volume"))
        traded: Flag = (last > 0) | (volume > 0)
        if traded.any():
            kind = "trades"
            filled["price"] = np.where(traded, _last_known(np.where(last > 0, last, np.nan)), np.nan)
            filled["size"] = np.where(traded, _last_known(np.where(volume > 0, volume, np.nan)), 0.0)
            if "flags" in names:
                extra = [_flagged(np.nan_to_num(numbers(table, names["flags"])), traded)]
    roles = {
        role: column for role, column in roles.items() if role not in ("price", "size", "volume", "close")
    }
    roles |= {name: name for name in filled} | {series.name: series.name for series in extra}
    keep = {roles[role] for role in ("time", "date", "clock", "symbol") if role in roles}
    frame = table.frame.select(keep).with_columns(
        *extra, **{name: pl.Series(v) for name, v in filled.items()}
    )
    return replace(table, frame=frame, kind=kind), replace(layout, roles=roles, kind=kind)


def _flagged(flags: Float, traded: Flag) -> pl.Series:
    """Return the aggressor by the flags of a tick; a tick with both or neither does not tell."""
    import polars as pl

    bits = flags.astype(np.int64)
    side = (bits & _BUY != 0).astype(np.int8) - (bits & _SELL != 0).astype(np.int8)
    return pl.Series("side", np.where(traded, side, 0).astype(np.int8))


def _last_known(values: Float) -> Float:
    """Carry values forward over the missing ones after them."""
    rows = np.maximum.accumulate(np.where(np.isnan(values), 0, np.arange(len(values))))
    return values[rows]
