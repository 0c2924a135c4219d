"""Which rows of a source are one instrument, in which order, and which sources continue each other."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from market_files import put

from fox_env.bars import Bars
from fox_env.errors import DataError
from fox_env.readers import list_symbols, read_bars, write_bars
from fox_env.validation import validate_bars

HEADER = "timestamp_utc,open,high,low,close,volume\n"


def stamped(minutes: range, volume: str = "volume", close: float = 1.5) -> str:
    """Write bars some minutes after 2024-01-02 09:00 UTC."""
    times = np.datetime64("2024-01-02T09:00") + np.array(minutes).astype("timedelta64[m]")
    return HEADER.replace("volume", volume) + "".join(f"{time},1,2,0.5,{close},7\n" for time in times)


# --- instruments -------------------------------------------------------------------------------------


def test_every_column_that_varies_names_the_instrument(tmp_path: Path) -> None:
    rows = "".join(
        f"2024-01-02 09:0{minute},{symbol},{expiry},{price},{price},{price},{price}\n"
        for minute in range(2)
        for symbol, expiry, price in (("ES", 202403, 4700), ("ES", 202406, 4760), ("NQ", 202403, 16000))
    )
    path = put(tmp_path, "timestamp_utc,symbol,expiry,open,high,low,close\n" + rows)
    assert list_symbols(path) == ["ES_202403", "ES_202406", "NQ_202403"]
    assert read_bars(path, symbol="ES_202406").close.tolist() == [4760.0, 4760.0]


def test_a_column_that_tells_no_more_instruments_apart_is_no_part_of_their_names(tmp_path: Path) -> None:
    rows = "".join(
        f"2024-01-02 09:0{minute},{symbol},{expiry},1,1,1,1\n"
        for minute in range(2)
        for symbol, expiry in (("ESH4", 202403), ("ESM4", 202406))
    )
    path = put(tmp_path, "timestamp_utc,symbol,expiry,open,high,low,close\n" + rows)
    assert list_symbols(path) == ["ESH4", "ESM4"]


def test_a_continuous_symbol_over_several_numbers_is_one_instrument(tmp_path: Path) -> None:
    rows = "".join(
        f"{1704205800000000000 + 60_000_000_000 * i},33,1,{number},1.0,1.0,1.0,1.0,5,ES.c.0\n"
        for i, number in enumerate((118, 118, 119, 119))
    )
    header = "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol\n"
    path = put(tmp_path, header + rows)
    assert list_symbols(path) == ["ES.c.0"]
    bars = read_bars(path)
    assert len(bars) == 4
    note = "ES.c.0 passes to another instrument in 1 rows, first row 2: the price gaps there are no moves of the market"
    assert note in bars.repairs


# --- order -------------------------------------------------------------------------------------------

NEWEST_FIRST = HEADER + (
    "2024-01-02 09:04,1,2,0.5,1.5,40\n2024-01-02 09:03,1,2,0.5,1.5,30\n2024-01-02 09:02,1,2,0.5,1.5,10\n"
    "2024-01-02 09:02,1,2,0.5,1.5,20\n2024-01-02 09:01,1,2,0.5,1.5,5\n"
)


@pytest.mark.parametrize(("repair", "volume", "row"), [("keep_first", 10.0, 3), ("keep_last", 20.0, 2)])
def test_first_and_last_are_those_of_the_file_where_it_is_newest_first(
    tmp_path: Path, repair: str, volume: float, row: int
) -> None:
    bars = read_bars(put(tmp_path, NEWEST_FIRST), repair=(repair,))
    assert bars.volume is not None and bars.volume.tolist() == [5.0, volume, 30.0, 40.0]
    assert f", first row {row}: dropped" in bars.repairs[-1]


def test_repairs_count_the_rows_of_a_newest_first_file_as_it_does(tmp_path: Path) -> None:
    text = NEWEST_FIRST.replace("02,1,2,0.5,1.5,20", "02,0,2,0,1.5,20")
    bars = read_bars(put(tmp_path, text), repair=("drop_zero_price",))
    assert bars.repairs[-1] == "drop_zero_price: 1 row with a price of 0, first row 3: dropped"


def test_a_report_counts_the_rows_of_a_newest_first_file_as_it_does(tmp_path: Path) -> None:
    text = NEWEST_FIRST.replace("04,1,2", "04,,2").replace("02,1,2,0.5,1.5,20", "00,1,2,0.5,1.5,20")
    report = validate_bars(put(tmp_path, text.replace("09:01,", "08:59,")))
    assert [problem.row for problem in report.problems if problem.kind == "non_finite"] == [0]


def test_a_repair_that_leaves_nothing_names_the_source(tmp_path: Path) -> None:
    path = put(tmp_path, HEADER + "2024-01-02 09:04,0,2,0,1.5,40\n")
    with pytest.raises(DataError, match=r"bars.csv: the repair drop_zero_price drops all of the 1 rows"):
        read_bars(path, repair=("drop_zero_price",))


# --- several sources ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("later", "length"), [(range(100, 200, 5), "300 s"), (range(1440, 8000, 1440), "86400 s")]
)
def test_sources_of_different_bar_lengths_are_refused(tmp_path: Path, later: range, length: str) -> None:
    paths = [put(tmp_path, stamped(range(30)), "a.csv"), put(tmp_path, stamped(later), "b.csv")]
    with pytest.raises(DataError, match=rf"b.csv: has bars of {length}, .*a.csv of 60 s; read them apart"):
        read_bars(paths)


def test_a_thin_source_may_follow_one_of_the_same_bars(tmp_path: Path) -> None:
    thin = HEADER + "".join(f"2024-01-02 1{i}:0{i},1,2,0.5,1.5,7\n" for i in range(5))
    assert len(read_bars([put(tmp_path, stamped(range(30)), "a.csv"), put(tmp_path, thin, "b.csv")])) == 35


def test_volumes_of_different_columns_are_noted(tmp_path: Path) -> None:
    paths = [
        put(tmp_path, stamped(range(5)), "a.csv"),
        put(tmp_path, stamped(range(5, 9), volume="tick_volume"), "b.csv"),
    ]
    note = read_bars(paths).repairs[-1]
    assert "volume is column volume in" in note and "b.csv: their units may differ" in note
    assert not any("units" in sentence for sentence in read_bars(paths[:1]).repairs)


# --- quotes and gaps ---------------------------------------------------------------------------------


def test_a_quote_of_0_without_size_is_no_quote(tmp_path: Path) -> None:
    ticks = (
        "timestamp_utc,bid,ask,bid_size,ask_size\n2024-01-02 09:00:01,4,5,1,1\n2024-01-02 09:00:02,4,0,1,0\n"
    )
    bars = read_bars(put(tmp_path, ticks), bars="1min")
    assert (bars.low.tolist(), bars.close.tolist()) == ([4.5], [4.5])
    assert "1 rows without both a bid and an ask set no mid price" in bars.repairs
    crossed = ticks.replace(",bid_size,ask_size", "").replace(",1,1\n", "\n").replace(",1,0\n", "\n")
    assert read_bars(put(tmp_path, crossed), bars="1min").low.tolist() == [4.5]


def test_a_bid_of_0_with_a_size_is_a_price(tmp_path: Path) -> None:
    ticks = "timestamp_utc,bid,ask,bid_size,ask_size\n2024-01-02 09:00:01,0,0.25,3,1\n"
    assert read_bars(put(tmp_path, ticks), bars="1min").close.tolist() == [0.125]


def test_quote_bars_without_an_ask_make_no_bar(tmp_path: Path) -> None:
    names = [f"{side}_{part}" for side in ("bid", "ask") for part in ("open", "high", "low", "close", "size")]
    text = (
        f"datetime_utc,{','.join(names)}\n2024-01-02 09:30,4,4,4,4,1,5,5,5,5,1\n"
        "2024-01-02 09:31,4,4,4,4,1,0,0,0,0,0\n2024-01-02 09:32,4,4,4,4,1,5,5,5,5,1\n"
    )
    bars = read_bars(put(tmp_path, text))
    assert bars.low.tolist() == [4.5, 4.5]
    assert "1 rows without both a bid and an ask made no bar, first row 1" in bars.repairs


def test_an_hour_without_trades_is_a_missing_bar_of_an_hour_and_no_break() -> None:
    hours = np.delete(np.arange(30), 12)
    ts = np.datetime64("2024-01-02T00:30", "ns") + hours.astype("timedelta64[h]")
    trades = pl.DataFrame({"timestamp_utc": ts, "price": 1.0, "size": 1.0})
    assert not read_bars(trades, bars="1h").gap.any()


# --- what is no row ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "again", [HEADER.strip() + " \n2024-01-02 10:00,1,2,0.5,1.5,7\n", HEADER.strip(), HEADER]
)
def test_a_repeated_header_is_named_with_a_blank_after_it_and_on_the_last_line(
    tmp_path: Path, again: str
) -> None:
    with pytest.raises(DataError, match="line 5 repeats the header line; remove that line"):
        read_bars(put(tmp_path, stamped(range(3)) + again))


def test_a_readme_without_a_suffix_is_left_out_of_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "bars.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", "hello\n")
        archive.writestr("ES.csv", stamped(range(3)))
    bars = read_bars(path)
    assert len(bars) == 3 and "README in the archive left out" in bars.repairs


def test_a_path_with_a_line_end_gives_a_message_of_one_line() -> None:
    with pytest.raises(DataError, match="there is no such file") as caught:
        read_bars("no\nfile.csv")
    assert "\n" not in str(caught.value)


def test_daily_bars_that_were_written_keep_their_closes_at_midnight(tmp_path: Path) -> None:
    ts = np.datetime64("2024-01-02", "ns") + np.arange(5) * np.timedelta64(1, "D")
    bars = Bars.from_arrays(ts, *np.ones((4, 5)))
    write_bars(bars, tmp_path / "days.parquet")
    again = read_bars(tmp_path / "days.parquet")
    assert again.ts.tolist() == bars.ts.tolist() and again.repairs == ()
