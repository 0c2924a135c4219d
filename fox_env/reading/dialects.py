"""The layouts in which vendors and platforms write bars, trades and quotes: one table, and how each is told.

A dialect says which columns are which, which end of a bar its time marks, and in which zone the clock runs.
Order matters: the first dialect that fits is taken, and the last ones fit every table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fox_env.reading.names import BAR_ROLES, field_kind, plain

Label = Literal["open", "close"]
DateOrder = Literal["ymd", "dmy", "mdy"]


@dataclass(frozen=True)
class Dialect:
    """One layout.

    Attributes
    ----------
    name, title : str
        The name for ``format=``, and the producer.
    recognised : str
        How it is told from the others, in words.
    label : {"open", "close"}
        Which end of a bar its time marks.
    certain : bool
        Whether the producer is known to mark that end; else sessions may tell, or it is an assumption.
    example : str
        A header and a row, or a row.
    zone : str, optional
        Zone of its wall-clock times where the layout fixes it.
    zone_note : str
        What to say of the zone in the documentation.
    starts : tuple of str
        The first names of the header, as written.
    has : frozenset of str
        Plain names that the header must hold.
    fields : str
        For layouts without a header: a pattern over the kinds of the fields, see
        :func:`fox_env.reading.names.field_kind`.
    delimiter : str, optional
        The only delimiter.
    order : tuple of str
        Without a header: the roles of the fields in order, an own name for those without a role.
    roles : mapping of str to str
        Plain names with a role, before those of `NAMES`.
    extra : mapping of str to str
        Plain names of further columns to the names they get in ``Bars.extra``; None leaves one out.
    date_order : {"ymd", "dmy", "mdy"}, optional
        Order of numbers in slashed dates where the layout fixes it.
    check : str
        A further condition on the rows, see :mod:`fox_env.reading.layout`.
    """

    name: str
    title: str
    recognised: str
    label: Label
    example: str
    zone: str | None = None
    zone_note: str = "tz= needed"
    starts: tuple[str, ...] = ()
    has: frozenset[str] = frozenset()
    fields: str = ""
    delimiter: str | None = None
    order: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str | None] = field(default_factory=dict)
    date_order: DateOrder | None = None
    check: str = ""
    certain: bool = True

    def fits_header(self, names: Sequence[str]) -> bool:
        """Whether a header belongs to this dialect; `names` as written, without surrounding blanks."""
        if self.fields:
            return False
        known = {plain(name) for name in names}
        start = tuple(names[: len(self.starts)])
        return start == self.starts and self.has <= known

    def fits_row(self, fields: Sequence[str], delimiter: str) -> bool:
        """Whether a row of a file without a header belongs to this dialect."""
        if not self.fields or self.delimiter not in (None, delimiter):
            return False
        return re.fullmatch(self.fields, "".join(map(field_kind, fields))) is not None


_OHLCV = ("open", "high", "low", "close", "volume")
_NEW_YORK = "tz= needed (US Eastern)"

DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        "databento", "Databento CSV, bars", "`ts_event` with open, high, low and close", "open",
        "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol",
        zone="UTC", zone_note="UTC", has=frozenset(("ts_event", *BAR_ROLES)),
        roles={"ts_event": "time"},
        extra={"rtype": None, "publisher_id": None, "instrument_id": None, "ts_recv": None},
        check="fixed_point",
    ),
    Dialect(
        "databento_events", "Databento CSV, trades and quotes", "`ts_event` with price or bid_px_00", "close",
        "ts_recv,ts_event,rtype,publisher_id,instrument_id,action,side,depth,price,size,flags,symbol",
        zone="UTC", zone_note="UTC", has=frozenset(("ts_event", "publisher_id")),
        roles={"ts_event": "time"}, check="fixed_point",
    ),
    Dialect(
        "binance", "Binance klines", "`open_time` with `close_time`", "open",
        "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume",
        zone="UTC", zone_note="UTC", has=frozenset(("open_time", "close_time", *BAR_ROLES)),
        roles={"open_time": "time"}, extra={"close_time": None, "ignore": None},
    ),
    Dialect(
        "polygon", "Polygon flat files", "`window_start`", "open",
        "ticker,volume,open,close,high,low,window_start,transactions",
        zone="UTC", zone_note="UTC", has=frozenset(("window_start", *BAR_ROLES)), roles={"window_start": "time"},
    ),
    Dialect(
        "metatrader", "MetaTrader 5", "header starts with `<DATE>`", "open",
        "<DATE>\\t<TIME>\\t<OPEN>\\t<HIGH>\\t<LOW>\\t<CLOSE>\\t<TICKVOL>\\t<VOL>\\t<SPREAD>",
        zone_note="tz= needed (the broker's server)", starts=("<DATE>",),
    ),
    Dialect(
        "finam", "Finam, Stooq ASCII", "header starts with `<TICKER>`", "open",
        "<TICKER>,<PER>,<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>",
        starts=("<TICKER>",), extra={"per": None},
    ),
    Dialect(
        "multicharts", "MultiCharts, Chinese terminals", "header starts with `<Date>`", "close",
        "<Date>, <Time>, <Open>, <High>, <Low>, <Close>, <Volume>", starts=("<Date>",),
    ),
    Dialect(
        "sierra", "Sierra Chart text", "`Last` with `# of Trades` or `NumberOfTrades`", "open",
        "Date, Time, Open, High, Low, Last, Volume, # of Trades, OHLC Avg, HLC Avg, HL Avg, Bid Volume, Ask Volume",
        zone_note="tz= needed (the chart's)", has=frozenset(("#_of_trades", "last")),
        roles={"last": "close"}, extra={"bid_volume": "sell_volume", "ask_volume": "buy_volume"},
    ),
    Dialect(
        "sierra", "Sierra Chart text", "`Last` with `# of Trades` or `NumberOfTrades`", "open",
        "Date, Time, Open, High, Low, Last, Volume, NumberOfTrades, BidVolume, AskVolume",
        zone_note="tz= needed (the chart's)", has=frozenset(("numberoftrades", "last")),
        roles={"last": "close"}, extra={"bidvolume": "sell_volume", "askvolume": "buy_volume"},
    ),
    Dialect(
        "brazil", "Brazilian terminals", "Portuguese names (`Data`, `Abertura`, ...)", "open",
        "Data;Abertura;Máxima;Mínima;Fechamento", has=frozenset(("data", "abertura")),
        zone_note="tz= needed (America/Sao_Paulo)", roles={"quantidade": "volume"}, date_order="dmy",
    ),
    Dialect(
        "tradingview", "TradingView export",
        "header starts with `time,open,high,low,close` and has no lower-case `volume`", "open",
        "time,open,high,low,close,Volume", zone_note="epoch or offsets in the file, else tz=",
        starts=("time", *BAR_ROLES), check="volume_name",
    ),
    Dialect(
        "trades_with_depth", "Trades with the book", "`DepthSequence` with `TradeType`", "close",
        "Date;Time;Sequence;DepthSequence;Price;Volume;TradeType;AskPrice;BidPrice;AskSize;BidSize",
        has=frozenset(("depthsequence", "tradetype")),
        extra={"totalbiddepth": "bid_depth", "totalaskdepth": "ask_depth"}, check="microseconds",
    ),
    Dialect(
        "lean_quote_bars", "LEAN quote bars", "`bid_close` with `ask_close`", "open",
        "datetime_utc,expiry,bid_open,bid_high,bid_low,bid_close,bid_size,ask_open,ask_high,ask_low,ask_close,ask_size",
        has=frozenset(f"{side}_{price}" for side in ("bid", "ask") for price in BAR_ROLES),
        zone_note="UTC by a `_utc` name, else tz=",
        roles={"bid_close": "bid", "ask_close": "ask"},
    ),
    Dialect(
        "csv", "Any table with the times of the open", "`open_time`", "open",
        "open_time,open,high,low,close,volume", zone_note="offsets, epochs or a `_utc` name, else tz=",
        has=frozenset(("open_time",)),
    ),
    Dialect(
        "csv", "Any table with the times of the close", "`close_time`", "close",
        "close_time,open,high,low,close,volume", zone_note="offsets, epochs or a `_utc` name, else tz=",
        has=frozenset(("close_time",)),
    ),
    Dialect(
        "csv", "Any other table with a header", "names of the columns", "close",
        "timestamp,open,high,low,close,volume", zone_note="offsets, epochs or a `_utc` name, else tz=",
        extra={"bid_depth": "bid_depth", "ask_depth": "ask_depth"}, certain=False,
    ),
    # Layouts without a header.
    Dialect(
        "histdata", "HistData", "as NinjaTrader, and volume 0 in every row", "open",
        "20240102 170000;1.09450;1.09460;1.09440;1.09455;0",
        zone="Etc/GMT+5", zone_note="UTC-5 without daylight saving", fields="CNNNNN", delimiter=";",
        order=("time", *_OHLCV), check="zero_volume",
    ),
    Dialect(
        "histdata_ticks", "HistData ticks", "compact stamp with ms, bid, ask, 0", "close",
        "20240102 170000123,1.09450,1.09460,0", zone="Etc/GMT+5",
        zone_note="UTC-5 without daylight saving", fields="[CX]NNN", delimiter=",",
        order=("time", "bid", "ask", "volume"), check="zero_volume",
    ),
    Dialect(
        "ninjatrader", "NinjaTrader", "no header, `;`, `yyyyMMdd HHmmss` or `yyyyMMdd`", "close",
        "20240102 093100;4780.25;4781;4780;4780.75;512", zone_note="tz= needed (UTC or the exchange's)",
        fields="[CDX]NNNNN", delimiter=";", order=("time", *_OHLCV),
    ),
    Dialect(
        "ninjatrader_ticks", "NinjaTrader ticks", "no header, `;`, stamp, last, bid, ask, volume", "close",
        "20240102 093100 1230000;4780.25;4780;4780.25;2", zone_note="tz= needed (UTC or the exchange's)",
        fields="[CX]NNNN", delimiter=";", order=("time", "price", "bid", "ask", "size"),
        check="spread",
    ),
    Dialect(
        "metatrader", "MetaTrader 4", "no header, `2024.01.02,09:30`", "open",
        "2024.01.02,09:30,1.09450,1.09460,1.09440,1.09455,57",
        zone_note="tz= needed (the broker's server)", fields="PTNNNNN?", order=("date", "clock", *_OHLCV),
    ),
    Dialect(
        "kibot", "Kibot", "no header, `mm/dd/yyyy,hh:mm`", "open", "01/02/2024,09:30,4780.25,4781,4780,4780.75,512",
        zone_note=_NEW_YORK, fields="UTNNNNN?", delimiter=",", order=("date", "clock", *_OHLCV), date_order="mdy",
    ),
    Dialect(
        "kibot", "Kibot daily", "no header, `mm/dd/yyyy`", "open", "01/02/2024,4780.25,4781,4780,4780.75,51200",
        zone_note=_NEW_YORK, fields="UNNNNN?", delimiter=",", order=("date", *_OHLCV), date_order="mdy",
    ),
    Dialect(
        "binance", "Binance klines", "no header, twelve fields with two epochs", "open",
        "1704067200000,42283.58,42298.62,42261.02,42298.61,35.92,1704067259999,1519032.3,1327,20.37,861580.3,0",
        zone="UTC", zone_note="UTC", fields="ENNNNNENNNNN",
        order=(
            "time", *_OHLCV, "close_time", "quote_volume", "count", "taker_buy_volume", "taker_buy_quote_volume",
            "ignore",
        ),
        extra={"close_time": None, "ignore": None},
    ),
    Dialect(
        "firstrate", "FirstRate", "no header, `,`, `2024-01-02 09:30:00`", "open",
        "2024-01-02 09:30:00,4780.25,4781,4780,4780.75,512", zone_note=_NEW_YORK,
        fields="XNNNNN?", delimiter=",", order=("time", *_OHLCV), check="body", certain=False,
    ),
    Dialect(
        "dated", "Bars by date without a header", "no header, a date (`20240102`, `2024-01-02`, `2024/1/2`)", "open",
        "20240102,71.65,72.10,70.02,70.38,312450,298112",
        fields="[DIPS]NNNNN?N?", order=("date", *_OHLCV, "open_interest"), check="body",
    ),
    Dialect(
        "dated", "Bars by date and time without a header", "no header, a date and a time of day", "close",
        "2024-01-02,09:31:00,4780.25,4781,4780,4780.75,512,0",
        fields="[DIPS][TND]NNNNN?N?", order=("date", "clock", *_OHLCV, "open_interest"),
    ),
    Dialect(
        "headerless", "Other bars without a header", "no header, an epoch or a time", "close",
        "1704188400,4780.25,4781,4780,4780.75,512", zone_note="offsets or epochs, else tz=",
        fields="[ECX]NNNNN?N?", order=("time", *_OHLCV, "open_interest"),
    ),
)  # fmt: skip

LEAN = Dialect(
    "lean", "LEAN zip, bars", "members such as `20131007_es_minute_trade_201312.csv`, no header", "open",
    "60000,1676.5,1676.75,1676.5,1676.75,19", zone_note="tz= needed (UTC for CME)",
    order=("time", *_OHLCV),
)  # fmt: skip
LEAN_QUOTES = Dialect(
    "lean_quote_bars", "LEAN zip, quote bars", "members such as `20131007_es_minute_quote_201312.csv`, no header",
    "open", "0,1676.5,1676.5,1676.5,1676.5,86,1676.75,1676.75,1676.75,1676.75,97",
    zone_note="tz= needed (UTC for CME)",
    order=(
        "time", "bid_open", "bid_high", "bid_low", "bid_close", "bid_size",
        "ask_open", "ask_high", "ask_low", "ask_close", "ask_size",
    ),
    roles={"bid_close": "bid", "ask_close": "ask"},
)  # fmt: skip
YFINANCE = Dialect(
    "yfinance", "yfinance", "three header rows: `Price`, `Ticker`, `Date`", "open",
    "Price,Adj Close,Close,High,Low,Open,Volume",
)  # fmt: skip
BACKTRADER = Dialect(
    "backtrader", "backtrader samples", "the header lacks the name of the time beside `Date`", "close",
    "Date,Open,High,Low,Close,Volume,OpenInterest",
)  # fmt: skip

NAMED = (*DIALECTS, LEAN, LEAN_QUOTES, YFINANCE, BACKTRADER)
FORMATS = tuple(dict.fromkeys(dialect.name for dialect in NAMED))
"""Every name that ``format=`` takes for a text file."""
