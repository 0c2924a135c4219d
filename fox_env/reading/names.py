"""Names of columns and the kinds of their cells: what a column can be, told by its name or its looks."""

from __future__ import annotations

import re
from collections.abc import Mapping

BAR_ROLES = ("open", "high", "low", "close")
ROLES = (
    "time", "date", "clock", *BAR_ROLES, "volume", "roll_gap", "symbol",
    "price", "size", "side", "bid", "ask", "bid_size", "ask_size",
)  # fmt: skip
"""What a column can be; ``clock`` is a time of day beside a ``date``."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "time": (
        "ts", "timestamp", "datetime", "date_time", "ts_event", "open_time", "close_time", "unix", "epoch",
        "__index_level_0__", "日期时间", "data_hora",
    ),
    "date": ("date", "data", "日期", "交易日期", "fecha", "datum", "trade_date", "dtyyyymmdd"),
    "clock": ("clock", "time", "hora", "horário", "时间", "交易时间", "zeit"),
    "open": ("open", "o", "open_price", "abertura", "开盘价", "开盘", "apertura", "eröffnung"),
    "high": ("high", "h", "high_price", "máxima", "maxima", "máximo", "maximo", "最高价", "最高", "hoch"),
    "low": ("low", "l", "low_price", "mínima", "minima", "mínimo", "minimo", "最低价", "最低", "tief"),
    "close": (
        "close", "c", "close_price", "close/last", "fechamento", "收盘价", "收盘", "cierre", "schluss", "last",
        "último",
    ),
    "volume": (
        "volume", "vol", "v", "real_volume", "tick_volume", "tickvol", "成交量", "quantidade", "volumen",
    ),
    "roll_gap": ("roll_gap",),
    "symbol": (
        "symbol", "ticker", "contract", "instrument", "expiry", "合约", "合约代码", "ativo", "ts_code", "order_book_id",
        "instrument_id",
    ),
    "price": ("price", "last_price", "trade_price", "px"),
    "size": ("size", "volume", "vol", "qty", "quantity", "last_size", "trade_size"),
    "side": ("side", "aggressor", "tradetype"),
    "bid": ("bid", "bid_price", "bidprice", "bid_px_00", "best_bid"),
    "ask": ("ask", "ask_price", "askprice", "ask_px_00", "best_ask", "offer"),
    "bid_size": ("bid_size", "bidsize", "bid_sz_00", "bid_volume", "best_bid_size"),
    "ask_size": ("ask_size", "asksize", "ask_sz_00", "ask_volume", "best_ask_size"),
}  # fmt: skip
"""Names of columns after :func:`plain`, the preferred one first."""


_BRACKETS = re.compile(r"[<>\[\]()\"']")


def plain(name: str) -> str:
    """Reduce ``<DATE>``, ``1. Open``, ``Date Time``, ``Close*`` to ``date``, ``open``, ``date_time``, ``close``."""
    name = re.sub(r"^\d+\.\s*|[*.]+$", "", _BRACKETS.sub("", name.strip()).strip())
    return re.sub(r"[\s_-]+", "_", name).casefold()


_KINDS = (
    ("B", r"\s*"),
    ("C", r"(?:19|20)\d{6}[ T]?(?:\d{4}|\d{6}(?: \d{1,9}|\d{3})?)"),
    ("D", r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"),
    ("I", r"\d{4}-\d{1,2}-\d{1,2}"),
    ("P", r"\d{4}\.\d{1,2}\.\d{1,2}"),
    ("S", r"\d{4}/\d{1,2}/\d{1,2}"),
    ("U", r"\d{1,2}[/.-]\d{1,2}[/.-]\d{4}"),
    ("T", r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp][Mm])?"),
    ("X", r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[/.-]\d{1,2}[/.-]\d{4}|\d{8})[ T]+\d.*"),
    ("E", r"\d{9,10}\.\d+|1\d{9}|1\d{12}|1\d{15}|1\d{18}"),
    ("N", r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d+)?|[Nn]a[Nn]|null|-"),
)


def field_kind(text: str) -> str:
    """Return one letter for what a field looks like.

    B blank, C compact date and time, D compact date, I ``2024-01-31``, P ``2024.01.31``, S ``2024/1/31``,
    U ``31/01/2024`` in either order, T time of day, X other date and time, E seconds or fractions since
    1970, N another number, W anything else.
    """
    text = text.strip().strip('"')
    return next((kind for kind, pattern in _KINDS if re.fullmatch(pattern, text)), "W")


_ROLE_OF = {name: role for role, names in reversed(list(NAMES.items())) for name in names}


def role_of(name: str) -> str | None:
    """Return the usual role of a column by its name, or None."""
    known = plain(name)
    return _ROLE_OF.get(known) or _ROLE_OF.get(known.removesuffix("_utc"))
