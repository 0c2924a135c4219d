"""DBN data for tests, written with the vendor's own record types and metadata."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from types import SimpleNamespace
from typing import Any

import databento_dbn as vendor

START = 1_715_248_800_000_000_000  # 2024-05-09 10:00:00 UTC
MINUTE = 60_000_000_000
ES, NQ = 5602, 13743


def mapping(symbol: str, *spans: tuple[str, str, int]) -> SimpleNamespace:
    """Map a symbol to instrument numbers from one date to another."""
    intervals = [
        SimpleNamespace(
            start_date=date.fromisoformat(start), end_date=date.fromisoformat(end), symbol=str(number)
        )
        for start, end, number in spans
    ]
    return SimpleNamespace(raw_symbol=symbol, intervals=intervals)


def dbn(schema: str | None, records: Iterable[Any], mappings: Iterable[Any] = ()) -> bytes:
    """Return a DBN file of the current version."""
    metadata = vendor.Metadata(
        dataset="GLBX.MDP3",
        start=START,
        stype_in=vendor.SType.RAW_SYMBOL if schema else None,
        stype_out=vendor.SType.INSTRUMENT_ID,
        schema=vendor.Schema.from_str(schema) if schema else None,
        symbols=[],
        mappings=list(mappings),
    )
    return metadata.encode() + b"".join(map(bytes, records))


def fixed(price: float) -> int:
    """Return a price in units of 1e-9."""
    return round(price * 1_000_000_000)


def bar(
    minute: int,
    prices: tuple[float, float, float, float],
    volume: int,
    instrument: int = ES,
    rtype: Any = vendor.RType.OHLCV_1M,
) -> Any:
    """Return a bar, of one minute by default, that opens `minute` minutes after the start."""
    names = ("open", "high", "low", "close")
    return vendor.OHLCVMsg(
        rtype=rtype,
        publisher_id=1,
        instrument_id=instrument,
        ts_event=START + minute * MINUTE,
        volume=volume,
        **{name: fixed(price) for name, price in zip(names, prices, strict=True)},
    )


def trade(after_ns: int, price: float, size: int, side: str = "N", instrument: int = ES) -> Any:
    """Return a trade received `after_ns` after the start; side B: bought by the aggressor, A: sold."""
    return vendor.TradeMsg(
        publisher_id=1,
        instrument_id=instrument,
        ts_event=START + after_ns - 100,
        price=fixed(price),
        size=size,
        action=vendor.Action.TRADE,
        side=vendor.Side.from_str(side),
        depth=0,
        ts_recv=START + after_ns,
    )


def book(
    after_ns: int,
    bid: tuple[float | None, int],
    ask: tuple[float | None, int],
    traded: tuple[float, int, str] | None = None,
    flags: int = 128,
) -> Any:
    """Return an mbp-1 record: the book after it, and the trade that it reports if there is one."""
    price, size, side = traded or (bid[0] or 0.0, 1, "B")

    def level(value: float | None) -> int:
        return vendor.UNDEF_PRICE if value is None else fixed(value)

    return vendor.MBP1Msg(
        publisher_id=1,
        instrument_id=ES,
        ts_event=START + after_ns - 100,
        price=fixed(price),
        size=size,
        action=vendor.Action.TRADE if traded else vendor.Action.ADD,
        side=vendor.Side.from_str(side),
        depth=0,
        ts_recv=START + after_ns,
        flags=flags,
        levels=vendor.BidAskPair(level(bid[0]), level(ask[0]), bid[1], ask[1], 1, 1),
    )
