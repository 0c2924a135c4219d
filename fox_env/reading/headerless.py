"""The layouts of files without a header, told by the kinds of the fields of their first row."""

from __future__ import annotations

from fox_env.reading.dialect import Dialect

_OHLCV = ("open", "high", "low", "close", "volume")
_NEW_YORK = "tz= needed (US Eastern)"

HEADERLESS: tuple[Dialect, ...] = (
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
        "metatrader", "MetaTrader 5", "no header, `2024.01.02`, `09:30:00` and seven numbers", "open",
        "2024.01.02\\t09:30:00\\t1.09450\\t1.09460\\t1.09440\\t1.09455\\t57\\t0\\t2",
        zone_note="tz= needed (the broker's server)", fields="PTNNNNNNN",
        order=("date", "clock", "open", "high", "low", "close", "tick_volume", "real_volume", "spread"), check="body",
    ),
    Dialect(
        "truefx", "TrueFX", "no header, the pair, `yyyyMMdd HH:mm:ss.fff`, bid, ask", "close",
        "EUR/USD,20240102 00:00:00.123,1.09450,1.09460", zone="UTC", zone_note="UTC", fields="W[CX]NN",
        delimiter=",", order=("symbol", "time", "bid", "ask"), check="spread",
    ),
    Dialect(
        "kibot", "Kibot", "no header, `mm/dd/yyyy,hh:mm`", "open", "01/02/2024,09:30,4780.25,4781,4780,4780.75,512",
        zone_note=_NEW_YORK, fields="UTNNNNN?", delimiter=",", order=("date", "clock", *_OHLCV), check="body",
    ),
    Dialect(
        "kibot_ticks", "Kibot ticks", "no header, `mm/dd/yyyy,hh:mm:ss`, price, bid, ask, size", "close",
        "01/02/2024,09:30:00,4780.25,4780,4780.25,2", zone_note=_NEW_YORK, fields="UTNNNN", delimiter=",",
        order=("date", "clock", "price", "bid", "ask", "size"), check="spread",
    ),
    Dialect(
        "kibot", "Kibot daily", "no header, `mm/dd/yyyy`", "open", "01/02/2024,4780.25,4781,4780,4780.75,51200",
        zone_note=_NEW_YORK, fields="UNNNNN?", delimiter=",", order=("date", *_OHLCV), check="body",
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
        "binance_trades", "Binance aggregate trades", "no header, an epoch behind five numbers, True or False", "close",
        "26129,42283.58,0.1,27781,27781,1704067200000,True,True", zone_note="epochs",
        fields="[NE]NN[NE][NE]EWW?", delimiter=",",
        order=(
            "agg_trade_id", "price", "size", "first_trade_id", "last_trade_id", "time", "is_buyer_maker",
            "is_best_match",
        ),
    ),
    Dialect(
        "binance_trades", "Binance trades", "no header, an epoch behind four numbers, True or False", "close",
        "26129,42283.58,0.1,4228.358,1704067200000,True,True", zone_note="epochs", fields="[NE]NNNEWW?",
        delimiter=",", order=("id", "price", "size", "quote_qty", "time", "is_buyer_maker", "is_best_match"),
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
        fields="[DIPS][TN]NNNNN?N?", order=("date", "clock", *_OHLCV, "open_interest"), check="body", certain=False,
    ),
    Dialect(
        "kraken", "Kraken", "no header, an epoch, a volume in fractions and a whole number of trades", "open",
        "1704067200,42283.5,42298.6,42261.0,42298.6,35.92,100", zone_note="epochs", fields="ENNNNNN", delimiter=",",
        order=("time", *_OHLCV, "trades"), check="counted",
    ),
    Dialect(
        "headerless", "Other bars without a header", "no header, an epoch or a time", "close",
        "1704188400,4780.25,4781,4780,4780.75,512", zone_note="offsets or epochs, else tz=",
        fields="[ECX]NNNNN?", order=("time", *_OHLCV), check="body", certain=False,
    ),
)  # fmt: skip
