"""The layouts in which vendors and platforms write bars, trades and quotes: one table, and how each is told.

A dialect says which columns are which, which end of a bar its time marks, and in which zone the clock runs.
Order matters: the first dialect that fits is taken, and the last ones fit every table.
"""

from __future__ import annotations

from fox_env.reading.dialect import Dialect
from fox_env.reading.headerless import HEADERLESS
from fox_env.reading.names import BAR_ROLES

_OHLCV = ("open", "high", "low", "close", "volume")
_IN_CELLS = "offsets or epochs in the file, else tz="
_NEW_YORK = "tz= needed (US Eastern)"

_HEADED: tuple[Dialect, ...] = (
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
        "ibkr", "Interactive Brokers", "`average` with `barCount`", "open",
        "date,open,high,low,close,volume,average,barCount", zone_note=_IN_CELLS,
        has=frozenset(("average", "barcount", *BAR_ROLES)),
    ),
    Dialect(
        "yfinance", "yfinance, one header row", "header starts with `Datetime,Close,High,Low,Open`", "open",
        "Datetime,Close,High,Low,Open,Volume", zone_note=_IN_CELLS,
        starts=("Datetime", "Close", "High", "Low", "Open"),
    ),
    Dialect(
        "yfinance", "yfinance, one header row", "`Datetime` with `Adj Close`", "open",
        "Datetime,Open,High,Low,Close,Adj Close,Volume", zone_note=_IN_CELLS,
        has=frozenset(("datetime", "adj_close", *BAR_ROLES)),
    ),
    Dialect(
        "yfinance", "yfinance, history", "`Datetime` with `Stock Splits`", "open",
        "Datetime,Open,High,Low,Close,Volume,Dividends,Stock Splits", zone_note=_IN_CELLS,
        has=frozenset(("datetime", "stock_splits", *BAR_ROLES)),
    ),
    Dialect(
        "alpaca", "Alpaca", "`trade_count` with `vwap`", "open",
        "symbol,timestamp,open,high,low,close,volume,trade_count,vwap", zone_note=_IN_CELLS,
        has=frozenset(("trade_count", "vwap", *BAR_ROLES)),
    ),
    Dialect(
        "oanda", "Oanda v20 candles", "`time` with `o`, `h`, `l` and `c`", "open",
        "time,volume,o,h,l,c", zone_note=_IN_CELLS, has=frozenset(("time", "o", "h", "l", "c")),
    ),
    Dialect(
        "dukascopy", "Dukascopy", "header starts with `Gmt time`", "open", "Gmt time,Open,High,Low,Close,Volume",
        zone="UTC", zone_note="UTC", starts=("Gmt time",), date_order="dmy",
        roles={"gmt_time": "time", "askvolume": "ask_size", "bidvolume": "bid_size"},
    ),
    Dialect(
        "dukascopy", "Dukascopy", "header starts with `Local time`", "open",
        "Local time,Open,High,Low,Close,Volume", zone_note=_IN_CELLS, starts=("Local time",), date_order="dmy",
        roles={"local_time": "time", "askvolume": "ask_size", "bidvolume": "bid_size"},
    ),
    Dialect(
        "dukascopy", "Dukascopy", "header starts with `Time (UTC)`", "open",
        "Time (UTC),Open,High,Low,Close,Volume", zone_note="UTC", starts=("Time (UTC)",),
    ),
    Dialect(
        "barchart", "Barchart history service", "`tradingDay`", "open",
        "symbol,timestamp,tradingDay,open,high,low,close,volume,openInterest", zone_note=_IN_CELLS,
        has=frozenset(("tradingday", *BAR_ROLES)), extra={"tradingday": None},
    ),
    Dialect(
        "barchart", "Barchart download", "`Latest` with `%Change`", "open",
        "Time,Open,High,Low,Latest,Change,%Change,Volume", zone_note="tz= needed (US Central)",
        has=frozenset(("latest", "%change")), roles={"latest": "close"},
    ),
    Dialect(
        "cryptodatadownload", "CryptoDataDownload", "header starts with `unix,date,symbol,open`", "open",
        "unix,date,symbol,open,high,low,close,Volume BTC,Volume USD", zone="UTC", zone_note="UTC",
        starts=("unix", "date", "symbol", "open"),
    ),
    Dialect(
        "coinbase", "Coinbase candles", "header starts with `time,low,high,open,close`", "open",
        "time,low,high,open,close,volume", zone_note="epochs", starts=("time", "low", "high", "open", "close"),
    ),
    Dialect(
        "coinapi", "CoinAPI", "`time_period_start`", "open",
        "time_period_start,time_period_end,price_open,price_high,price_low,price_close,volume_traded,trades_count",
        zone="UTC", zone_note="UTC", has=frozenset(("time_period_start", "price_open")),
        roles={
            "time_period_start": "time", "price_open": "open", "price_high": "high", "price_low": "low",
            "price_close": "close", "volume_traded": "volume",
        },
    ),
    Dialect(
        "tqsdk", "TqSdk", "`open_oi` with `close_oi`", "open",
        "datetime,open,high,low,close,volume,open_oi,close_oi", zone_note="tz= needed (Asia/Shanghai)",
        has=frozenset(("open_oi", "close_oi", *BAR_ROLES)), extra={"close_oi": "open_interest", "datetime_nano": None},
    ),
    Dialect(
        "vnpy", "VeighNa", "`open_price` with `turnover` and `interval`", "open",
        "datetime,symbol,exchange,interval,volume,turnover,open_interest,open_price,high_price,low_price,close_price",
        zone_note="tz= needed (Asia/Shanghai)", has=frozenset(("open_price", "turnover", "interval")),
    ),
    Dialect(
        "metatrader", "MetaTrader 5 for Python", "`tick_volume` with `spread` and `real_volume`", "open",
        "time,open,high,low,close,tick_volume,spread,real_volume", zone_note="epochs, else tz= needed",
        has=frozenset(("tick_volume", "spread", "real_volume")),
    ),
    Dialect(
        "investing", "Investing.com", "`Price` with `Change %`", "open",
        "Date,Price,Open,High,Low,Vol.,Change %", has=frozenset(("price", "open", "high", "low", "change_%")),
        roles={"price": "close"},
    ),
    Dialect(
        "tardis", "Tardis trades", "`local_timestamp` with `amount`", "close",
        "exchange,symbol,timestamp,local_timestamp,id,side,price,amount", zone_note="epochs",
        has=frozenset(("local_timestamp", "amount", "price")), roles={"amount": "size"},
    ),
    Dialect(
        "binance_trades", "Binance aggregate trades", "`agg_trade_id` with `transact_time`", "close",
        "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker", zone_note="epochs",
        has=frozenset(("agg_trade_id", "transact_time")), roles={"transact_time": "time"},
    ),
    Dialect(
        "metatrader", "MetaTrader 5", "header starts with `<DATE>`", "open",
        "<DATE>\\t<TIME>\\t<OPEN>\\t<HIGH>\\t<LOW>\\t<CLOSE>\\t<TICKVOL>\\t<VOL>\\t<SPREAD>",
        zone_note="tz= needed (the broker's server)", starts=("<DATE>",),
    ),
    Dialect(
        "metastock", "MetaStock, Forex Tester", "`<DTYYYYMMDD>`", "open",
        "<TICKER>,<DTYYYYMMDD>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>",
        has=frozenset(("dtyyyymmdd",)), extra={"per": None}, certain=False,
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
        "fxcm", "FXCM candles", "`BidOpen` with `AskOpen`", "open",
        "DateTime,BidOpen,BidHigh,BidLow,BidClose,AskOpen,AskHigh,AskLow,AskClose", zone="UTC", zone_note="UTC",
        has=frozenset(f"{side}{price}" for side in ("bid", "ask") for price in BAR_ROLES),
        renamed={f"{side}{price}": f"{side}_{price}" for side in ("bid", "ask") for price in BAR_ROLES},
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
)  # fmt: skip

DIALECTS = (*_HEADED, *HEADERLESS)

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
