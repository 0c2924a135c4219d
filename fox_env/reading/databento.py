"""Databento's trades and quotes as text or frames, to the same rows as their DBN files give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import PRICES, Flag
from fox_env.errors import DataError
from fox_env.reading.layout import Layout
from fox_env.reading.names import ROLES, plain
from fox_env.reading.numbers import is_fixed_point, numbers
from fox_env.reading.quotes import two_sided
from fox_env.reading.records import BBO, MBO, MBP, SAMPLED, SNAPSHOT, TRADES, single_type
from fox_env.reading.table import Kind, Table

Arrays = dict[str, NDArray[Any]]


def vendor_events(table: Table, layout: Layout) -> tuple[Table, Layout]:
    """Keep of Databento's records what :func:`fox_env.reading.dbn.read_dbn` keeps of them.

    The time is that of receipt, in whose order the records are; only records of trades have a price; a
    snapshot or a cleared book starts anew; sampled quotes are bars of the mid price.

    Raises
    ------
    DataError
        The records are of a schema that yields no bars, or of several.
    """
    columns = {plain(name): name for name in table.frame.columns}
    named = dict(layout.roles)
    roles: dict[str, str] = {role: named[role] for role in ("time", "symbol") if role in named}
    roles["time"] = columns.get("ts_recv", roles["time"])
    rtype = _record_type(table, columns)
    values: Arrays = {
        name: numbers(table, named[name])
        for name in ("price", "bid", "ask", "size", "bid_size", "ask_size")
        if name in named
    }
    needed = ("bid", "ask") if rtype in SAMPLED else ("price", "size")
    if lacking := [name for name in needed if name not in values]:
        raise DataError(f"{table.source}: no column for {' and '.join(lacking)}; export all columns.")
    priced = [name for name in ("price", "bid", "ask") if name in values]
    if is_fixed_point(table, [named[name] for name in priced]):
        values |= {name: values[name] / 1e9 for name in priced}
    if rtype in SAMPLED:
        found: Arrays = dict.fromkeys(PRICES, 0.5 * (values["bid"] + values["ask"]))
        found |= {name: array for name, array in values.items() if name not in ("price", "size")}
        roles |= {price: price for price in PRICES}
    else:
        found = _events(table, columns, values)
        roles |= {name: name for name in found if name in ROLES}
    kind: Kind = "bars" if rtype in SAMPLED else "quotes" if "bid" in values else "trades"
    depths: dict[str, str | None] = {name: name for name in ("bid_depth", "ask_depth") if name in found}
    dialect = replace(layout.dialect, check="", extra=depths)  # prices are in price units now
    frame = table.frame.select(roles[role] for role in ("time", "symbol") if role in roles)
    table = replace(table, frame=frame.with_columns(**found), kind=kind)
    return two_sided(table) if kind == "bars" else table, Layout(dialect, roles, kind)


def _events(table: Table, columns: Mapping[str, str], values: Arrays) -> Arrays:
    """Return the columns of trades and of the states of the book."""
    traded = _is(table, columns, "action", "T")
    bought, sold = (_is(table, columns, "side", letter) & traded for letter in "BA")
    found: Arrays = {
        **values,
        "price": np.where(traded, values["price"], np.nan),
        "size": np.where(traded, values["size"], 0.0),
        "side": bought.astype(np.int8) - sold.astype(np.int8),
    }
    if "bid" not in values:
        return found
    found["reset"] = _is(table, columns, "action", "R")
    if "flags" in columns:
        flags = np.nan_to_num(numbers(table, columns["flags"])).astype(np.int64)
        found["reset"] = found["reset"] | (flags & SNAPSHOT != 0)
    for quote in ("bid", "ask"):
        levels = [name for key, name in columns.items() if key.startswith(f"{quote}_sz_")]
        if len(levels) > 1:
            found[f"{quote}_depth"] = np.sum([numbers(table, name) for name in levels], axis=0)
    return found


def _record_type(table: Table, columns: Mapping[str, str]) -> int:
    """Return the type of the records, by their own word or by the columns they have."""
    if "rtype" in columns:
        types, counts = np.unique(numbers(table, columns["rtype"]), return_counts=True)
        known = {int(rtype): int(count) for rtype, count in zip(types, counts, strict=True) if rtype >= 0}
        return single_type(Counter(known), None, table.source)
    found = TRADES if "bid_px_00" not in columns else MBP if "action" in columns else BBO
    return single_type(
        Counter({MBO if "order_id" in columns else found: table.frame.height}), None, table.source
    )


def _is(table: Table, columns: Mapping[str, str], name: str, letter: str) -> Flag:
    """Return where a column of letters holds one; everywhere where there is no such column and it is T."""
    import polars as pl

    if name not in columns:
        return np.full(table.frame.height, letter == "T")
    cells = table.frame[columns[name]].cast(pl.String).str.strip_chars()
    return (cells == letter).fill_null(False).to_numpy()
