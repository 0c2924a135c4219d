"""Files without a header: columns are taken where the rows leave no doubt, and refused otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from market_files import put, utc

from fox_env.errors import DataError
from fox_env.readers import read_bars


@pytest.mark.parametrize(
    "rows",
    [
        # an adjusted close before the volume
        "20240102,10,11,9,10.5,9.75,1000\n20240103,10.5,12,10,11.5,10.68,900\n20240104,11,12,10,11,10.21,800\n",
        "2024-01-02,10,11,9,10.5,10.5,1000\n2024-01-03,10.5,12,10,11.5,11.5,900\n",
        # a volume before the prices, which could be a time of day
        "20240102,100,10,11,9,10.5\n20240103,230,10.5,12,10,11.5\n20240104,145,11,12,10,11\n",
        # the low first
        "1704067200,9,11,10,10.5,35.92\n1704067260,10,12,10.5,11.5,12.5\n",
        # a seventh number of unknown meaning
        "1704067200,10,11,9,10.5,35,10.25\n1704067260,10.5,12,10,11.5,12,11.5\n",
        "1704067200,10,11,9,10.5,35,100\n1704067260,10.5,12,10,11.5,12,90\n",
    ],
    ids=["adjusted", "not adjusted yet", "volume first", "low first", "average", "trades or open interest"],
)
def test_columns_in_doubt_are_refused_with_the_mend(tmp_path: Path, rows: str) -> None:
    with pytest.raises(DataError, match="are of no known layout; add a header line such as timestamp,open"):
        read_bars(put(tmp_path, rows), tz="UTC")


@pytest.mark.parametrize("clock", [("930", "931"), ("93000", "93100"), ("09:30", "09:31")])
def test_numbers_that_are_times_of_day_are_read_as_such(tmp_path: Path, clock: tuple[str, str]) -> None:
    rows = "".join(f"20240102,{time},10,11,9,10.5,7\n" for time in clock)
    assert read_bars(put(tmp_path, rows), tz="UTC").ts.tolist() == utc("2024-01-02T09:30", "2024-01-02T09:31")


DAYS = ("04/03/2024", "05/03/2024", "06/03/2024")


@pytest.mark.parametrize("clock", ["", ",09:30"])
def test_days_and_months_in_doubt_are_refused_without_a_header_too(tmp_path: Path, clock: str) -> None:
    path = put(tmp_path, "".join(f"{day}{clock},10,11,9,10.5,7\n" for day in DAYS))
    with pytest.raises(DataError, match=r"row 0 \(line 1\).*pass date_order='dmy' or date_order='mdy'"):
        read_bars(path, tz="UTC")
    first = "2024-03-05" if not clock else "2024-03-05T09:30"
    assert read_bars(path, tz="UTC", date_order="dmy").ts[0] >= utc("2024-03-04")[0]
    assert read_bars(path, tz="UTC", date_order="dmy", label="close").ts[1] == utc(first)[0]


HEADED = "Date,Time,Open,High,Low,Close\n"


@pytest.mark.parametrize(
    ("dates", "options"),
    [
        (("01/02/24", "01/22/24"), {}),
        (("01/02/24", "01/03/24"), {"date_order": "mdy"}),
        (("02.01.24", "03.01.24"), {"date_order": "dmy"}),
        (("24-01-02", "24-01-03"), {"date_order": "ymd"}),
    ],
)
def test_years_of_two_digits_are_read_where_the_order_is_settled(
    tmp_path: Path, dates: tuple[str, str], options: dict[str, Any]
) -> None:
    path = put(tmp_path, HEADED + "".join(f"{date},09:30,1,2,0.5,1.5\n" for date in dates))
    assert read_bars(path, tz="UTC", label="close", **options).ts[0] == utc("2024-01-02T09:30")[0]


@pytest.mark.parametrize("dates", [("01/02/24", "01/03/24"), ("22/01/24", "23/01/24")])
def test_years_of_two_digits_are_refused_where_the_first_number_may_be_the_year(
    tmp_path: Path, dates: tuple[str, str]
) -> None:
    path = put(tmp_path, HEADED + "".join(f"{date},09:30,1,2,0.5,1.5\n" for date in dates))
    with pytest.raises(
        DataError, match="may begin with the day, month or year; pass date_order='dmy', 'mdy' or"
    ):
        read_bars(path, tz="UTC")


EVENTS = {
    "Kibot ticks": ("01/22/2024,09:30:01,10.25,10,10.25,2\n01/22/2024,09:30:02,10.5,10.25,10.5,1\n", {}, 10.5, 3.0),
    "TrueFX": ("EUR/USD,20240122 09:30:01.123,10,10.5\nEUR/USD,20240122 09:30:02.5,10.25,10.75\n", {}, 10.5, None),
    "Dukascopy ticks": ("Gmt time,Ask,Bid,AskVolume,BidVolume\n22.01.2024 09:30:01.123,10.5,10,1.5,0.75\n"
                        "22.01.2024 09:30:02.123,10.75,10.25,1.5,0.75\n", {}, 10.5, None),
    "Tardis": ("exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n"
               "deribit,BTC,1705915801000000,1705915801000100,1,buy,10.25,2\n"
               "deribit,BTC,1705915802000000,1705915802000100,2,sell,10.5,1\n", {}, 10.5, 3.0),
    "Binance aggregate trades": ("agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,"
                                 "is_buyer_maker\n1,10.25,2,1,1,1705915801000,true\n"
                                 "2,10.5,1,2,2,1705915802000,false\n", {}, 10.5, 3.0),
    "Binance aggregate trades without header": (
        "26129,10.25,2,27781,27781,1705915801000,True,True\n26130,10.5,1,27782,27782,1705915802000,False,True\n",
        {}, 10.5, 3.0),
    "Binance trades without header": (
        "26129,10.25,2,20.5,1705915801000,True,True\n26130,10.5,1,10.5,1705915802000,False,True\n", {}, 10.5, 3.0),
    "BitMEX": ("timestamp,symbol,side,size,price\n2024-01-22D09:30:01.123456789,XBTUSD,Buy,2,10.25\n"
               "2024-01-22D09:30:02.5,XBTUSD,Sell,1,10.5\n", {}, 10.5, 3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", EVENTS)
def test_exports_of_trades_and_quotes_make_bars(tmp_path: Path, name: str) -> None:
    text, options, close, volume = EVENTS[name]
    bars = read_bars(put(tmp_path, text), tz="UTC", bars="1min", **options)
    assert (bars.ts.tolist(), bars.close.tolist()) == (utc("2024-01-22T09:31"), [close])
    assert (None if bars.volume is None else bars.volume.tolist()) == (None if volume is None else [volume])
