"""Which dialect a table follows, which column is which, and what its rows are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fox_env.errors import ConfigError, DataError
from fox_env.reading.dialect import Dialect
from fox_env.reading.dialects import DIALECTS, NAMED
from fox_env.reading.names import BAR_ROLES, NAMES, ROLES, field_kind, plain
from fox_env.reading.rows import are_bars, are_counted_bars, are_quotes
from fox_env.reading.table import Kind, Table
from fox_env.reading.timestamps import check_zone

if TYPE_CHECKING:
    import polars as pl

_STORED = (*BAR_ROLES, "volume", "roll_gap")
_PLAIN = next(dialect for dialect in DIALECTS if dialect.name == "csv" and not dialect.certain)


@dataclass(frozen=True)
class Hints:
    """What a caller says about a source beyond its content; see :func:`fox_env.readers.read_bars`."""

    tz: str | None = None
    label: str | None = None
    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    price_scale: float | None = None
    date_order: str | None = None

    def check(self) -> None:
        """Refuse values that no source could take, with a :class:`ConfigError`."""
        if self.tz is not None:
            check_zone(self.tz)
        if self.label not in (None, "open", "close"):
            raise ConfigError(f"Unknown label={self.label!r}; use 'open' or 'close'.")
        if self.date_order not in (None, "ymd", "dmy", "mdy"):
            raise ConfigError(f"Unknown date_order={self.date_order!r}; use 'ymd', 'dmy' or 'mdy'.")
        scale = self.price_scale
        if scale is not None and not (isinstance(scale, int | float) and 0 < scale < np.inf):
            raise ConfigError(
                f"price_scale={scale!r} is not a positive number; use such as 1e-4 for prices times 10000."
            )
        if not isinstance(self.columns, Mapping):
            raise ConfigError(f"columns={self.columns!r} is not a dict such as {{'close': 'Settle'}}.")
        for role in self.columns:
            if role not in ROLES:
                raise ConfigError(f"Unknown role {role!r} in columns=; use {', '.join(ROLES)}.")


@dataclass(frozen=True)
class Layout:
    """How to read a table: its dialect, the column of each role, and what its rows are.

    `told` is the end of a bar that sources read together mark, and whether that is certain.
    """

    dialect: Dialect
    roles: Mapping[str, str]
    kind: Kind
    told: tuple[str, bool] | None = None

    @property
    def times(self) -> list[str]:
        """The column of the time, or those of the date and of the time of day."""
        if "time" in self.roles:
            return [self.roles["time"]]
        return [self.roles[role] for role in ("date", "clock") if role in self.roles]


def find_layout(
    table: Table, hints: Hints, row: Sequence[str] | None = None, given: Dialect | None = None
) -> tuple[Table, Layout]:
    """Recognise a table; columns of a file without a header get the names of their roles.

    Parameters
    ----------
    table : Table
    hints : Hints
    row : sequence of str, optional
        The fields of the first row as written, where the columns have no names of their own.
    given : Dialect, optional
        Where the container has told it already.

    Raises
    ------
    DataError
        There is no time, price bar, trade or quote in the table, or it is not of the format asked for.
    """
    if table.exact and not hints.columns:
        exact = {"time": "ts", **{role: role for role in _STORED if role in table.frame.columns}}
        return table, Layout(_PLAIN, exact, _kind(table, exact))
    for dialect in _candidates(table, hints, row, given):
        named = table
        if row is not None and not hints.columns:
            names = dialect.order[: table.frame.width]
            named = replace(
                table, frame=table.frame.rename(dict(zip(table.frame.columns, names, strict=False)))
            )
        elif dialect.renamed:
            new = {name: dialect.renamed.get(plain(name), name) for name in table.frame.columns}
            named = replace(table, frame=table.frame.rename(new))
        roles = _roles(named, dialect, hints)
        if not dialect.check or _passes(dialect.check, named.frame, roles):
            return named, Layout(dialect, roles, _kind(named, roles))
    if hints.format is not None:
        raise DataError(
            f"{table.source}: is not in the format {hints.format!r}; drop format= to have the format told."
        )
    header = table.delimiter.join(("timestamp", *BAR_ROLES, "volume"))
    raise DataError(
        f"{table.source}: has no header line and its rows, such as {table.delimiter.join(row or ())[:80]}, are of no "
        f"known layout; add a header line such as {header}."
    )


def _candidates(
    table: Table, hints: Hints, row: Sequence[str] | None, given: Dialect | None
) -> Iterator[Dialect]:
    if row is not None and hints.columns:
        yield _PLAIN
        return
    for dialect in [given] if given else DIALECTS:
        if hints.format in _TEXT_FORMATS and dialect.name != hints.format:
            continue
        if row is None:
            fits = given is not None or dialect.fits_header(table.frame.columns)
        else:
            fits = dialect.fits_row(row, table.delimiter)
        if fits:
            yield dialect


_TEXT_FORMATS = frozenset(dialect.name for dialect in NAMED if dialect.name != "csv")


def _roles(table: Table, dialect: Dialect, hints: Hints) -> dict[str, str]:
    """Map roles to columns: by the caller's word, by the dialect's names, then by the usual names."""
    by_name: dict[str, str] = {}
    for column in table.frame.columns:
        by_name.setdefault(plain(column), column)
    roles = {role: role for role in dialect.order if role in ROLES and role in table.frame.columns}
    for name, role in dialect.roles.items():
        if name in by_name:
            roles.setdefault(role, by_name[name])
    for role, names in NAMES.items():
        variants = (variant for name in names for variant in (f"{name}_utc", name))
        found = next((by_name[name] for name in variants if name in by_name), None)
        if found is not None:
            roles.setdefault(role, found)
    _prefer_traded_volume(table.frame, by_name, roles)
    if "time" in roles:
        roles.pop("date", None)
        roles.pop("clock", None)
    elif "date" not in roles and "clock" in roles:
        roles["time"] = roles.pop("clock")
    if not {"time", "date"} & roles.keys() and "column_0" in by_name and _is_time(table.frame["column_0"]):
        roles["time"] = by_name["column_0"]
    return _override(table, roles, hints)


def _prefer_traded_volume(frame: pl.DataFrame, by_name: Mapping[str, str], roles: dict[str, str]) -> None:
    """Take the tick volume where the traded volume beside it is 0 in every row, as MetaTrader writes it."""
    ticks = by_name.get("tickvol", by_name.get("tick_volume"))
    volume = roles.get("volume")
    if ticks is not None and volume not in (None, ticks) and _all_zero(frame[volume]):
        roles["volume"] = ticks


def _override(table: Table, roles: dict[str, str], hints: Hints) -> dict[str, str]:
    """Apply the caller's columns."""
    given = hints.columns
    for role, column in given.items():
        if column not in table.frame.columns:
            shown = _shown(table)
            raise DataError(
                f"{table.source}: has no column {column!r} for {role}, only {shown}; check columns=."
            )
    if "time" in given:
        roles = {role: column for role, column in roles.items() if role not in ("date", "clock")}
    elif "date" in given:
        roles = {role: column for role, column in roles.items() if role not in ("time", "clock")}
    roles |= given
    if "close" in given and not {"open", "high", "low"} & roles.keys():
        roles |= dict.fromkeys(("open", "high", "low"), given["close"])
    if {"price", "bid"} & given.keys():
        roles = {role: column for role, column in roles.items() if role in given or role not in BAR_ROLES}
    return roles


def _kind(table: Table, roles: Mapping[str, str]) -> Kind:
    """Tell bars, trades and quotes apart by the columns there are."""
    timed = bool({"time", "date"} & roles.keys())
    if table.kind != "bars":
        return table.kind
    if timed and roles.keys() >= set(BAR_ROLES):
        return "bars"
    if timed and {"price", "size"} <= roles.keys():
        return "trades"
    if timed and {"bid", "ask"} <= roles.keys():
        return "quotes"
    lacking = ([] if timed else ["a time"]) + [name for name in BAR_ROLES if name not in roles]
    closes = "; pass columns= to name them"
    if "close" in roles and lacking == ["open", "high", "low"]:
        closes = f"; pass columns={{'close': {roles['close']!r}}} to make flat bars of closes alone"
    raise DataError(
        f"{table.source}: no column for {', '.join(lacking)} among {_shown(table)}; needed are a time (timestamp, or "
        f"date and time), open, high, low, close, and optionally volume{closes}."
    )


def _shown(table: Table) -> str:
    columns = table.frame.columns
    more = f" and {len(columns) - 12} more" if len(columns) > 12 else ""
    return ", ".join(column[:30] for column in columns[:12]) + more


def _passes(check: str, frame: pl.DataFrame, roles: Mapping[str, str]) -> bool:
    """Whether the rows meet the further condition of a dialect; see there."""
    if check == "zero_volume":
        return "volume" in roles and _all_zero(frame[roles["volume"]])
    if check == "volume_name":
        return "volume" not in frame.columns
    if check == "body":
        return are_bars(frame, roles)
    if check == "counted":
        return are_counted_bars(frame, roles)
    if check == "spread":
        return are_quotes(frame, roles)
    return True  # "fixed_point" and "microseconds" say how to read, not whether


def _all_zero(series: pl.Series) -> bool:
    import polars as pl

    values = series.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    return bool((values == 0).fill_null(False).all())


def _is_time(series: pl.Series) -> bool:
    import polars as pl

    if series.dtype != pl.String:
        return series.dtype == pl.Date or isinstance(series.dtype, pl.Datetime)
    return field_kind(series[0] or "") in "CDIPSUXE"
