"""Small files in the layouts of many producers, with invented numbers, and what each must give."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fox_env.reading.labels import assumed_label

CLOSES = (100.25, 100.5, 100.0, 101.75, 101.5, 102.25)
VOLUMES = (12, 7, 31, 4, 19, 8)
START = datetime(2024, 1, 2, 9, 30)


@dataclass(frozen=True)
class LookAlike:
    """A file and what it must give.

    Attributes
    ----------
    name : str
        Producer and variant.
    dialect : str
        Name of the dialect that must be told.
    content : bytes
    options : dict
        Arguments of ``read_bars`` that the file needs.
    first : str
        Close of the first bar in UTC.
    minutes : int
        Length of a bar.
    volume : tuple of float or None
    extra : frozenset of str
        Names of the further columns.
    file : str
        Name of the file.
    notes : tuple of str
        What ``Bars.repairs`` must say.
    """

    name: str
    dialect: str
    content: bytes
    options: dict[str, Any]
    first: str
    minutes: int = 1
    volume: tuple[float, ...] | None = VOLUMES
    extra: frozenset[str] = frozenset()
    file: str = "bars.csv"
    notes: tuple[str, ...] = ()


def prices(close: float) -> tuple[float, float, float, float]:
    """Return open, high, low and close of an invented bar."""
    return close - 0.25, close + 0.5, close - 0.75, close


def rows(
    write: Callable[[datetime, tuple[float, float, float, float], int], str],
    minutes: int = 1,
    start: datetime = START,
) -> list[str]:
    """Write six bars, one line each; `write` gets the start of the bar, its prices and its volume."""
    return [
        write(start + i * timedelta(minutes=minutes), prices(close), volume)
        for i, (close, volume) in enumerate(zip(CLOSES, VOLUMES, strict=True))
    ]


def text(header: str | None, lines: list[str], end: str = "\n") -> bytes:
    """Join a header and lines."""
    return (end.join([*([] if header is None else [header]), *lines]) + end).encode()


def ohlc(values: tuple[float, ...], mark: str = ",", digits: int = 2) -> str:
    """Write prices."""
    return mark.join(f"{value:.{digits}f}" for value in values)


def _archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _fixed(values: tuple[float, ...]) -> str:
    return ",".join(str(int(value * 1_000_000_000)) for value in values)


def _comma(values: tuple[float, ...]) -> str:
    return ohlc(values, ";").replace(".", ",")


def _epoch(t: datetime, scale: int = 1) -> int:
    return int((t - datetime(1970, 1, 1)).total_seconds()) * scale


CHICAGO, NEW_YORK, UTC = ({"tz": zone} for zone in ("America/Chicago", "America/New_York", "UTC"))
AMERICAN = {**NEW_YORK, "date_order": "mdy"}
BINANCE = frozenset(("quote_volume", "count", "taker_buy_volume", "taker_buy_quote_volume"))
OI = frozenset(("open_interest",))
CLOSE_ASSUMED, OPEN_ASSUMED = ((assumed_label(label, False),) for label in ("close", "open"))

LOOK_ALIKES = [
    LookAlike("CME minutes", "csv",
        text("timestamp_utc,open,high,low,close,volume",
             rows(lambda t, p, v: f"{t + timedelta(minutes=1)},{ohlc(p)},{v}")),
        {}, "2024-01-02T09:31", notes=CLOSE_ASSUMED),
    LookAlike("FirstRate without header", "firstrate",
        text(None, rows(lambda t, p, v: f"{t},{ohlc(p)},{v}")), NEW_YORK, "2024-01-02T14:31", notes=OPEN_ASSUMED),
    LookAlike("Kibot minutes", "kibot",
        text(None, rows(lambda t, p, v: f"{t:%m/%d/%Y,%H:%M},{ohlc(p)},{v}")), AMERICAN, "2024-01-02T14:31"),
    LookAlike("Kibot daily", "kibot",
        text(None, rows(lambda t, p, v: f"{t:%m/%d/%Y},{ohlc(p)},{v}", 1440)), AMERICAN, "2024-01-03T05:00", 1440),
    LookAlike("NinjaTrader", "ninjatrader",
        text(None, rows(lambda t, p, v: f"{t:%Y%m%d %H%M%S};{ohlc(p, ';')};{v}")), UTC, "2024-01-02T09:30"),
    LookAlike("HistData", "histdata",
        text(None, rows(lambda t, p, v: f"{t:%Y%m%d %H%M%S};{ohlc(p, ';', 5)};0"), "\r\n"),
        {}, "2024-01-02T14:31", volume=None),
    LookAlike("TradingView epochs", "tradingview",
        text('time,open,high,low,close,"MA (9, close)",Plot,Plot,Volume',
             rows(lambda t, p, v: f"{_epoch(t)},{ohlc(p)},NaN,,1,{v}")),
        {}, "2024-01-02T09:31", extra=frozenset(("MA (9, close)", "Plot", "Plot_2"))),
    LookAlike("TradingView offsets, no volume", "tradingview",
        text("time,open,high,low,close", rows(lambda t, p, v: f"{t:%Y-%m-%dT%H:%M:%S}-05:00,{ohlc(p)}")),
        {}, "2024-01-02T14:31", volume=None),
    LookAlike("yfinance daily", "yfinance",
        b"Price,Adj Close,Close,High,Low,Open,Volume\nTicker,ES=F,ES=F,ES=F,ES=F,ES=F,ES=F\nDate,,,,,,\n"
        + text(None, rows(lambda t, p, v: f"{t:%Y-%m-%d},{p[3]},{p[3]},{p[1]},{p[2]},{p[0]},{v}", 1440)),
        NEW_YORK, "2024-01-03T05:00", 1440, extra=frozenset(("Adj Close",))),
    LookAlike("yfinance minutes", "yfinance",
        b"Price,Close,High,Low,Open,Volume\nTicker,ES=F,ES=F,ES=F,ES=F,ES=F\nDatetime,,,,,\n"
        + text(None, rows(lambda t, p, v: f"{t}+00:00,{p[3]},{p[1]},{p[2]},{p[0]},{v}")), {}, "2024-01-02T09:31"),
    LookAlike("Yahoo daily with offsets", "csv",
        text("Date,Open,High,Low,Close,Volume,Dividends,Stock Splits",
             rows(lambda t, p, v: f"{t:%Y-%m-%d} 00:00:00+00:00,{ohlc(p)},{v},0.0,0.0", 1440)),
        {}, "2024-01-03", 1440, extra=frozenset(("Dividends", "Stock Splits"))),
    LookAlike("Stooq daily", "csv",
        text("Date,Open,High,Low,Close,Volume", rows(lambda t, p, v: f"{t:%Y-%m-%d},{ohlc(p)},{v}", 1440)),
        UTC, "2024-01-03", 1440),
    LookAlike("Stooq ASCII", "finam",
        text("<TICKER>,<PER>,<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>,<OPENINT>",
             rows(lambda t, p, v: f"ES.F,5,{t:%Y%m%d,%H%M%S},{ohlc(p)},{v},0", 5)), UTC, "2024-01-02T09:35", 5,
        extra=frozenset(("<OPENINT>",))),
    LookAlike("MetaTrader 5", "metatrader",
        text("<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>",
             rows(lambda t, p, v: f"{t:%Y.%m.%d}\t{t:%H:%M:%S}\t" + ohlc(p, "\t") + f"\t{v}\t0\t2"), "\r\n"),
        {"tz": "Europe/Athens"}, "2024-01-02T07:31", extra=frozenset(("<VOL>", "<SPREAD>"))),
    LookAlike("MetaTrader 5 with traded volume", "metatrader",
        text("<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>",
             rows(lambda t, p, v: f"{t:%Y.%m.%d}\t{t:%H:%M:%S}\t" + ohlc(p, "\t") + f"\t3\t{v}\t2")),
        UTC, "2024-01-02T09:31", extra=frozenset(("<TICKVOL>", "<SPREAD>"))),
    LookAlike("MetaTrader 5 in UTF-16", "metatrader",
        text("<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>",
             rows(lambda t, p, v: f"{t:%Y.%m.%d}\t{t:%H:%M:%S}\t" + ohlc(p, "\t") + f"\t{v}"),
             "\r\n").decode().encode("utf-16"), UTC, "2024-01-02T09:31"),
    LookAlike("MetaTrader 4", "metatrader",
        text(None, rows(lambda t, p, v: f"{t:%Y.%m.%d,%H:%M},{ohlc(p)},{v}")), UTC, "2024-01-02T09:31"),
    LookAlike("MetaTrader 5 without header", "metatrader",
        text(None, rows(lambda t, p, v: f"{t:%Y.%m.%d}\t{t:%H:%M:%S}\t{ohlc(p, chr(9))}\t{v}\t0\t2")), UTC,
        "2024-01-02T09:31", extra=frozenset(("real_volume", "spread"))),
    LookAlike("Kraken", "kraken",
        text(None, rows(lambda t, p, v: f"{_epoch(t)},{ohlc(p)},{v}.5,40")), {}, "2024-01-02T09:31",
        volume=tuple(volume + 0.5 for volume in VOLUMES), extra=frozenset(("trades",))),
    LookAlike("MultiCharts", "multicharts",
        text("<Date>, <Time>, <Open>, <High>, <Low>, <Close>, <Volume>",
             rows(lambda t, p, v: f"{t.year}/{t.month}/{t.day}, {t:%H:%M:%S}, {ohlc(p, ', ')}, {v}")),
        {"tz": "Asia/Shanghai"}, "2024-01-02T01:30"),
    LookAlike("Sierra Chart", "sierra",
        text("Date, Time, Open, High, Low, Last, Volume, # of Trades, OHLC Avg, HLC Avg, HL Avg, Bid Volume, "
             "Ask Volume",
             rows(lambda t, p, v: f"{t.year}/{t.month}/{t.day}, {t:%H:%M:%S}, {ohlc(p, ', ')}, {v}, 3, 1, 1, "
                                  "3.4028234663852886e+38, 1, 2")),
        CHICAGO, "2024-01-02T15:31",
        extra=frozenset(("# of Trades", "OHLC Avg", "HLC Avg", "HL Avg", "sell_volume", "buy_volume"))),
    LookAlike("Brazilian terminal, newest first", "brazil",
        b"\xef\xbb\xbf" + text("Data;Abertura;Máxima;Mínima;Fechamento",
             rows(lambda t, p, v: f"{t:%d/%m/%Y %H:%M};{_comma(p)}")[::-1], "\r\n"),
        {"tz": "America/Sao_Paulo"}, "2024-01-02T12:31", volume=None),
    LookAlike("Brazilian terminal, Windows code page", "brazil",
        text("Data;Hora;Abertura;Máxima;Mínima;Fechamento;Quantidade",
             rows(lambda t, p, v: f"{t:%d/%m/%Y;%H:%M};{ohlc(p, ';')};{v}")).decode().encode("cp1252"),
        {"tz": "America/Sao_Paulo"}, "2024-01-02T12:31"),
    LookAlike("Chinese names in GB18030", "csv",
        text("合约代码,日期,时间,开盘价,最高价,最低价,收盘价,成交量,持仓量",
             rows(lambda t, p, v: f"rb2405,{t:%Y%m%d},{t:%H:%M},{ohlc(p)},{v},100")).decode().encode("gb18030"),
        {"tz": "Asia/Shanghai"}, "2024-01-02T01:30", extra=frozenset(("持仓量",)), notes=CLOSE_ASSUMED),
    LookAlike("backtrader", "backtrader",
        text("Date,Open,High,Low,Close,Volume,OpenInterest",
             rows(lambda t, p, v: f"{t:%Y-%m-%d,%H:%M:%S},{ohlc(p)},{v},0")), UTC, "2024-01-02T09:30",
        extra=frozenset(("OpenInterest",))),
    LookAlike("integer dates", "dated",
        text(None, rows(lambda t, p, v: f"{t:%Y%m%d},{ohlc(p, digits=6)},{v},250", 1440)), UTC, "2024-01-03", 1440,
        extra=OI),
    LookAlike("integer dates and times", "dated",
        text(None, rows(lambda t, p, v: f"{t:%Y%m%d},{t.hour * 10_000 + t.minute * 100},{ohlc(p)},{v}")), UTC,
        "2024-01-02T09:30", notes=CLOSE_ASSUMED),
    LookAlike("epochs in ms without a header", "headerless",
        text(None, rows(lambda t, p, v: f"{_epoch(t, 1_000)},{ohlc(p)},{v}")), {}, "2024-01-02T09:30",
        notes=CLOSE_ASSUMED),
    LookAlike("Binance", "binance",
        text(None, rows(lambda t, p, v: f"{_epoch(t)}000,{ohlc(p)},{v},{_epoch(t)}999,9,8,4,5,0")),
        {}, "2024-01-02T09:31", extra=BINANCE),
    LookAlike("Databento, fixed point", "databento",
        text("ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol",
             rows(lambda t, p, v: f"{_epoch(t, 10**9)},33,1,5482,{_fixed(p)},{v},ESH4")), {}, "2024-01-02T09:31"),
    LookAlike("Databento, pretty", "databento",
        text("ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol",
             rows(lambda t, p, v: f"{t:%Y-%m-%dT%H:%M:%S}.000000000Z,33,1,5482,{ohlc(p, digits=9)},{v},ESH4")),
        {}, "2024-01-02T09:31"),
    LookAlike("Polygon flat file", "polygon",
        text("ticker,volume,open,close,high,low,window_start,transactions",
             rows(lambda t, p, v: f"ESH4,{v},{p[0]},{p[3]},{p[1]},{p[2]},{_epoch(t, 10**9)},3")),
        {}, "2024-01-02T09:31", extra=frozenset(("transactions",))),
    LookAlike("pandas with an unnamed time index", "csv",
        text(",Open,High,Low,Close,Volume", rows(lambda t, p, v: f"{t}+00:00,{ohlc(p)},{v}")), {}, "2024-01-02T09:30",
        notes=CLOSE_ASSUMED),
    LookAlike("event bars", "csv",
        text("ts,open,high,low,close,cum_vol",
             rows(lambda t, p, v: f"{t:%Y-%m-%d %H:%M:%S}.25Z,{ohlc(p)},{v}")), {}, "2024-01-02T09:30:00.250",
        volume=None, extra=frozenset(("cum_vol",)),
        notes=(
            *CLOSE_ASSUMED, "no volume was taken from column cum_vol; pass columns={'volume': 'cum_vol'} if it is one",
        )),
    LookAlike("LEAN minutes", "lean",
        _archive({"20240102_es_minute_trade_202403.csv": text(None, rows(
            lambda t, p, v: f"{t.hour * 3_600_000 + t.minute * 60_000},{ohlc(p)},{v}"))}),
        UTC, "2024-01-02T09:31", file="20240102_trade.zip"),
    LookAlike("a title above the header, gzip", "csv",
        gzip.compress(b"Continuous contract of an invented index\n" + text("Date;Time;Open;High;Low;Close;Volume",
            rows(lambda t, p, v: f"{t:%d.%m.%Y;%H:%M};{ohlc(p, ';')};{v}"))),
        {"tz": "Europe/Berlin", "date_order": "dmy"}, "2024-01-02T08:30",
        notes=("1 line above the header left out", *CLOSE_ASSUMED)),
    LookAlike("Interactive Brokers, saved frame", "ibkr",
        text(",date,open,high,low,close,volume,average,barCount",
             rows(lambda t, p, v: f"{t.minute - 30},{t}-05:00,{ohlc(p)},{v}.0,100.25,3")), {}, "2024-01-02T14:31",
        extra=frozenset(("average", "barCount"))),
    LookAlike("Interactive Brokers, two blanks", "ibkr",
        text("date,open,high,low,close,volume,average,barCount",
             rows(lambda t, p, v: f"{t:%Y%m%d  %H:%M:%S},{ohlc(p)},{v},100.25,3")), NEW_YORK, "2024-01-02T14:31",
        extra=frozenset(("average", "barCount"))),
    LookAlike("Interactive Brokers, zone in the cells", "ibkr",
        text("date,open,high,low,close,volume,average,barCount",
             rows(lambda t, p, v: f"{t:%Y%m%d %H:%M:%S} US/Central,{ohlc(p)},{v},100.25,3")), {}, "2024-01-02T15:31",
        extra=frozenset(("average", "barCount"))),
    LookAlike("yfinance history minutes", "yfinance",
        text("Datetime,Open,High,Low,Close,Volume,Dividends,Stock Splits",
             rows(lambda t, p, v: f"{t}-05:00,{ohlc(p)},{v},0.0,0.0")), {}, "2024-01-02T14:31",
        extra=frozenset(("Dividends", "Stock Splits"))),
    LookAlike("yfinance minutes with adjusted closes", "yfinance",
        text("Datetime,Open,High,Low,Close,Adj Close,Volume",
             rows(lambda t, p, v: f"{t}-05:00,{ohlc(p)},{p[3]},{v}")), {}, "2024-01-02T14:31",
        extra=frozenset(("Adj Close",))),
    LookAlike("yfinance minutes in one header row", "yfinance",
        text("Datetime,Close,High,Low,Open,Volume",
             rows(lambda t, p, v: f"{t}-05:00,{p[3]},{p[1]},{p[2]},{p[0]},{v}")), {}, "2024-01-02T14:31"),
    LookAlike("Alpaca", "alpaca",
        text("symbol,timestamp,open,high,low,close,volume,trade_count,vwap",
             rows(lambda t, p, v: f"SPY,{t}+00:00,{ohlc(p)},{v},3,100.2")), {}, "2024-01-02T09:31",
        extra=frozenset(("trade_count", "vwap"))),
    LookAlike("Oanda", "oanda",
        text("time,volume,o,h,l,c",
             rows(lambda t, p, v: f"{t:%Y-%m-%dT%H:%M:%S}.000000000Z,{v},{ohlc(p)}")), {}, "2024-01-02T09:31"),
    LookAlike("Dukascopy in GMT", "dukascopy",
        text("Gmt time,Open,High,Low,Close,Volume",
             rows(lambda t, p, v: f"{t:%d.%m.%Y %H:%M:%S}.000,{ohlc(p)},{v}")), {}, "2024-01-02T09:31"),
    LookAlike("Dukascopy in local time", "dukascopy",
        text("Local time,Open,High,Low,Close,Volume",
             rows(lambda t, p, v: f"{t:%d.%m.%Y %H:%M:%S}.000 GMT+0100,{ohlc(p)},{v}")), {}, "2024-01-02T08:31"),
    LookAlike("Dukascopy in UTC", "dukascopy",
        text("Time (UTC),Open,High,Low,Close,Volume",
             rows(lambda t, p, v: f"{t:%Y.%m.%d %H:%M:%S},{ohlc(p)},{v}")), {}, "2024-01-02T09:31"),
    LookAlike("Barchart history service", "barchart",
        text("symbol,timestamp,tradingDay,open,high,low,close,volume,openInterest",
             rows(lambda t, p, v: f"ESH24,{t:%Y-%m-%dT%H:%M:%S}-06:00,2024-01-02,{ohlc(p)},{v},9")), {},
        "2024-01-02T15:31", extra=frozenset(("openInterest",))),
    LookAlike("Barchart download", "barchart",
        text("Time,Open,High,Low,Latest,Change,%Change,Volume",
             [*rows(lambda t, p, v: f'"{t:%m/%d/%Y %H:%M}",{ohlc(p)},0.25,0.01%,{v}')[::-1],
              '"Downloaded from Barchart.com as of 01-17-2024 10:00am CST"']),
        {**CHICAGO, "date_order": "mdy"}, "2024-01-02T15:31", extra=frozenset(("Change",)),
        notes=("1 line below the rows left out",)),
    LookAlike("CryptoDataDownload", "cryptodatadownload",
        text("https://www.CryptoDataDownload.com\nunix,date,symbol,open,high,low,close,Volume BTC,Volume USD",
             rows(lambda t, p, v: f"{_epoch(t, 1_000)},{t},BTC/USD,{ohlc(p)},{v},900")[::-1]), {}, "2024-01-02T09:31",
        extra=frozenset(("Volume USD",)),
        notes=("1 line above the header left out", "volume is column Volume BTC")),
    LookAlike("Coinbase", "coinbase",
        text("time,low,high,open,close,volume",
             rows(lambda t, p, v: f"{_epoch(t)},{p[2]},{p[1]},{p[0]},{p[3]},{v}")), {}, "2024-01-02T09:31"),
    LookAlike("CoinAPI", "coinapi",
        text("time_period_start,time_period_end,time_open,time_close,price_open,price_high,price_low,price_close,"
             "volume_traded,trades_count",
             rows(lambda t, p, v: f"{t:%Y-%m-%dT%H:%M:%S}.0000000Z,{t}Z,{t}Z,{t}Z,{ohlc(p)},{v},3")), {},
        "2024-01-02T09:31", extra=frozenset(("trades_count",))),
    LookAlike("TqSdk", "tqsdk",
        text("datetime,open,high,low,close,volume,open_oi,close_oi",
             rows(lambda t, p, v: f"{t}.000000000,{ohlc(p)},{v},90,91")), {"tz": "Asia/Shanghai"},
        "2024-01-02T01:31", extra=frozenset(("open_oi", "open_interest"))),
    LookAlike("VeighNa", "vnpy",
        text("datetime,symbol,exchange,interval,volume,turnover,open_interest,open_price,high_price,low_price,"
             "close_price", rows(lambda t, p, v: f"{t},rb2405,SHFE,1m,{v},100,9,{ohlc(p)}")),
        {"tz": "Asia/Shanghai"}, "2024-01-02T01:31", extra=frozenset(("turnover", "open_interest"))),
    LookAlike("MetaTrader 5 for Python", "metatrader",
        text("time,open,high,low,close,tick_volume,spread,real_volume",
             rows(lambda t, p, v: f"{t},{ohlc(p)},{v},1,0")), UTC, "2024-01-02T09:31",
        extra=frozenset(("spread", "real_volume"))),
    LookAlike("Investing.com", "investing",
        text("Date,Price,Open,High,Low,Vol.,Change %",
             rows(lambda t, p, v: f'{t:%m/%d/%Y},{p[3]},{p[0]},{p[1]},"{p[2]}","{v / 1000}K","0.10%"', 1440)[::-1]),
        AMERICAN, "2024-01-03T05:00", 1440),
    LookAlike("Investing.com with names of months", "investing",
        text("Date,Price,Open,High,Low,Vol.,Change %",
             rows(lambda t, p, v: f'"{t:%b %d, %Y}","{p[3]}","{p[0]}","{p[1]}","{p[2]}","{v}","0.10%"', 1440)[::-1]),
        NEW_YORK, "2024-01-03T05:00", 1440),
    LookAlike("Nasdaq", "csv",
        text("Date,Close/Last,Volume,Open,High,Low",
             rows(lambda t, p, v: f"{t:%m/%d/%Y},${p[3]},{v},${p[0]},${p[1]},${p[2]}", 1440)[::-1]),
        AMERICAN, "2024-01-03T05:00", 1440),
    LookAlike("Yahoo page", "csv",
        text("Date,Open,High,Low,Close*,Adj Close**,Volume",
             rows(lambda t, p, v: f'"{t:%b} {t.day}, {t.year}",{ohlc(p)},{p[3]},{v}', 1440)[::-1]),
        NEW_YORK, "2024-01-03T05:00", 1440, extra=frozenset(("Adj Close**",))),
    LookAlike("dates with names of months", "csv",
        text("Date,Open,High,Low,Close,Volume", rows(lambda t, p, v: f"{t:%d-%b-%Y},{ohlc(p)},{v}", 1440)),
        UTC, "2024-01-03", 1440),
    LookAlike("MetaStock", "metastock",
        text("<TICKER>,<PER>,<DTYYYYMMDD>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>",
             rows(lambda t, p, v: f"ES,I,{t:%Y%m%d,%H%M%S},{ohlc(p)},{v}")), UTC, "2024-01-02T09:31",
        notes=OPEN_ASSUMED),
    LookAlike("Chinese terminal with a title and a source", "csv",
        text("沪铜主力 (CUL8)\n日期\t时间\t开盘\t最高\t最低\t收盘\t成交量\t持仓量",
             [*rows(lambda t, p, v: f"{t:%Y/%m/%d}\t{t:%H%M}\t{ohlc(p, chr(9))}\t{v}\t9"), "#数据来源:通达信"]
             ).decode().encode("gb18030"), {"tz": "Asia/Shanghai"}, "2024-01-02T01:30",
        extra=frozenset(("持仓量",)),
        notes=("1 line above the header left out", "1 line below the rows left out", *CLOSE_ASSUMED)),
]  # fmt: skip
