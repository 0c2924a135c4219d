"""Several instruments, several sources, frames and hints: which rows become which bars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from market_files import GOOD, HEADER, MINUTE, T0, put

from fox_env.bars import Bars
from fox_env.errors import ConfigError, DataError
from fox_env.readers import list_symbols, read_bars, read_columns, read_symbols


def rows(first: int, count: int, close: float = 1.5, volume: str = ",7") -> str:
    """Write minutes from 2024-05-09 10:00 UTC on."""
    return "".join(f"{1715248800 + 60 * i},1,2,0.5,{close}{volume}\n" for i in range(first, first + count))


def files(folder: Path, *contents: str) -> list[Path]:
    return [put(folder, content, f"part{i}.csv") for i, content in enumerate(contents)]


def same(one: Bars, other: Bars) -> bool:
    """Whether two sets of bars are equal to the last bit."""
    names = ("ts", "open", "high", "low", "close", "session_end", "gap")
    equal = all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in names)
    equal &= (one.volume is None) == (other.volume is None) and list(one.extra) == list(other.extra)
    return equal and all(one.extra[name].tobytes() == other.extra[name].tobytes() for name in one.extra)


# --- several instruments -------------------------------------------------------------------------

TWO = "ts,symbol,open,high,low,close\n" + "".join(
    f"{1715248800 + 60 * (i // 2)},{'ESM4' if i % 2 else 'ESH4'},1,2,0.5,{1 + i / 8}\n" for i in range(8)
)


def test_an_instrument_is_picked_by_its_name_and_others_are_left_alone(tmp_path: Path) -> None:
    path = put(tmp_path, TWO)
    assert list_symbols(path) == ["ESH4", "ESM4"]
    assert read_bars(path, symbol="ESM4").close.tolist() == [1.125, 1.375, 1.625, 1.875]
    assert {name: len(bars) for name, bars in read_symbols(path).items()} == {"ESH4": 4, "ESM4": 4}
    with pytest.raises(
        DataError, match=r"holds ESH4, ESM4, not symbol='NQM4'; use one that list_symbols gives"
    ):
        read_bars(path, symbol="NQM4")


def test_a_fault_names_its_row_in_the_file_not_in_the_instrument(tmp_path: Path) -> None:
    path = put(tmp_path, TWO.replace("1.625", "x"))
    with pytest.raises(DataError, match=r"row 5 \(line 7\), column close: 'x' is not a number"):
        read_bars(path, symbol="ESM4")
    assert len(read_bars(path, symbol="ESH4")) == 4


def test_many_instruments_are_named_up_to_ten(tmp_path: Path) -> None:
    text = "ts,ticker,open,high,low,close\n" + "".join(f"1715248800,S{i},1,2,0.5,1\n" for i in range(12))
    with pytest.raises(DataError, match=r"holds 12 instruments \(S0, .*, S9 and 2 more\); pass symbol="):
        read_bars(put(tmp_path, text))


def test_a_row_without_its_instrument_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 3 \(line 5\), column symbol: the instrument is missing"):
        list_symbols(put(tmp_path, TWO.replace("860,ESM4", "860,")))


def test_a_file_that_names_no_instrument_has_none_to_pick(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD)
    assert list_symbols(path) == []
    assert list(read_symbols(path)) == [""]
    with pytest.raises(DataError, match="names no instrument, not symbol='ES'"):
        read_bars(path, symbol="ES")


def test_a_thinly_traded_instrument_closes_its_bars_as_the_others_do(tmp_path: Path) -> None:
    text = "ts,symbol,open,high,low,close\n" + "".join(
        f"{1715248800 + 60 * i},A,1,2,0.5,1\n" for i in range(9)
    )
    path = put(tmp_path, text + "1715248800,B,1,2,0.5,1\n1715249160,B,1,2,0.5,1\n")
    assert read_bars(path, label="open", symbol="B").ts.tolist() == [T0 + MINUTE, T0 + 7 * MINUTE]


def test_tickers_side_by_side_are_instruments(tmp_path: Path) -> None:
    text = (
        "Price,Close,Close,High,High,Low,Low,Open,Open,Volume,Volume\nTicker,ES=F,NQ=F,ES=F,NQ=F,ES=F,NQ=F,ES=F,NQ=F,"
        "ES=F,NQ=F\nDate,,,,,,,,,,\n2024-01-02,1,5,2,6,0.5,4,1,5,10,20\n2024-01-03,1,,2,,0.5,,1,,11,\n"
        "2024-01-04,1,5,2,6,0.5,4,1,5,12,22\n"
    )
    path = put(tmp_path, text)
    assert list_symbols(path) == ["ES=F", "NQ=F"]
    assert read_bars(path, tz="UTC", symbol="ES=F").close.tolist() == [1.0, 1.0, 1.0]
    other = read_bars(path, tz="UTC", symbol="NQ=F")
    assert (
        other.close.tolist() == [5.0, 5.0] and other.volume is not None and other.volume.tolist() == [20, 22]
    )
    assert other.repairs == ("1 rows without a value of NQ=F left out",)


# --- several sources -------------------------------------------------------------------------------


def test_files_are_joined_in_time_order_whatever_their_order(tmp_path: Path) -> None:
    one, two, three = files(tmp_path, HEADER + rows(0, 3), HEADER + rows(3, 2, 1.25), HEADER + rows(5, 2))
    joined = read_bars([three, one, two])
    assert joined.ts.tolist() == [T0 + i * MINUTE for i in range(7)]
    assert joined.close.tolist() == [1.5] * 3 + [1.25] * 2 + [1.5] * 2
    assert same(joined, read_bars((one, two, three)))


def test_rows_that_overlap_and_agree_are_taken_once(tmp_path: Path) -> None:
    joined = read_bars(files(tmp_path, HEADER + rows(0, 4), HEADER + rows(2, 4)))
    assert joined.ts.tolist() == [T0 + i * MINUTE for i in range(6)]


def test_rows_that_overlap_and_differ_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"part1.csv: column close at 2024-05-09T10:02.* UTC is 1.25, but 1.5 in .*part0"
    ):
        read_bars(files(tmp_path, HEADER + rows(0, 4), HEADER + rows(2, 4, 1.25)))


def test_files_of_unlike_columns_are_refused(tmp_path: Path) -> None:
    parts = files(tmp_path, HEADER + rows(0, 3), "time,open,high,low,close\n" + rows(3, 3, volume=""))
    with pytest.raises(
        DataError, match=r"part1.csv: has no volume, unlike .*part0.csv; give sources of the same"
    ):
        read_bars(parts)


def test_contracts_in_files_of_their_own_are_not_joined(tmp_path: Path) -> None:
    header = "time,symbol,open,high,low,close\n"
    parts = files(tmp_path, header + "1715248800,ESH4,1,2,0.5,1\n", header + "1715248860,ESM4,1,2,0.5,1\n")
    with pytest.raises(DataError, match=r"holds 2 instruments \(ESH4, ESM4\)"):
        read_bars(parts)
    assert list(read_symbols(parts)) == ["ESH4", "ESM4"]


def test_sources_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="list of sources is empty"):
        read_bars([])
    with pytest.raises(ConfigError, match="must be a path, several paths or a frame, not int"):
        read_bars(3)


# --- frames ----------------------------------------------------------------------------------------


def test_the_same_bars_come_from_text_and_frames_of_every_library(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    close = 100 + rng.normal(size=290).cumsum()
    ts = pl.Series(T0 + MINUTE * np.arange(290)).cast(pl.Datetime("ns", "UTC"))
    frame = pl.DataFrame({"ts": ts, "open": close, "high": close + 0.3, "low": close - 0.7, "close": close,
                          "volume": rng.integers(0, 99, 290), "oi": rng.normal(size=290)})  # fmt: skip
    frame.write_csv(tmp_path / "bars.csv")
    expected = read_bars(tmp_path / "bars.csv")
    assert expected.ts.tolist() == (T0 + MINUTE * np.arange(290)).tolist()
    frame.write_parquet(tmp_path / "ns.parquet")
    frame.with_columns(pl.col("ts").dt.cast_time_unit("us")).write_parquet(tmp_path / "us.parquet")
    frame.write_ipc(tmp_path / "bars.arrow")
    pandas = pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns[1:]})
    pandas.index = pd.DatetimeIndex(frame["ts"].to_numpy(), name="ts", tz="UTC")
    sources: list[Any] = [tmp_path / "ns.parquet", tmp_path / "us.parquet", tmp_path / "bars.arrow", frame, pandas,
                          pandas.reset_index(), frame.to_arrow()]  # fmt: skip
    for source in sources:
        assert same(read_bars(source), expected), type(source)


# --- hints -----------------------------------------------------------------------------------------


def test_columns_of_any_name_are_read_when_the_caller_names_them(tmp_path: Path) -> None:
    path = put(tmp_path, "When,P,Q,R,S,T\n" + rows(0, 3))
    with pytest.raises(DataError, match="no column for a time, open, high, low, close among When, P, Q"):
        read_bars(path)
    roles = {"time": "When", "open": "P", "high": "Q", "low": "R", "close": "S", "volume": "T"}
    assert same(read_bars(path, columns=roles), read_bars(put(tmp_path, HEADER + rows(0, 3), "named.csv")))
    headless = put(tmp_path, rows(0, 3), "headless.csv")
    numbered = {role: f"column_{i}" for i, role in enumerate(roles)}
    assert same(read_bars(headless, columns=numbered), read_bars(path, columns=roles))


def test_closes_alone_are_bars_only_when_the_caller_says_so(tmp_path: Path) -> None:
    path = put(tmp_path, "Date,Close\n2024-01-02,-5.5\n2024-01-03,-6\n")
    with pytest.raises(
        DataError, match=r"pass columns=\{'close': 'Close'\} to make flat bars of closes alone"
    ):
        read_bars(path, tz="UTC")
    bars = read_bars(path, tz="UTC", columns={"close": "Close"})
    assert bars.close.tolist() == bars.high.tolist() == bars.open.tolist() == [-5.5, -6.0]


def test_prices_times_ten_thousand_need_the_callers_word(tmp_path: Path) -> None:
    text = HEADER + "".join(f"{1715248800 + 60 * i},1234500,1234600,1234400,1234500,7\n" for i in range(30))
    path = put(tmp_path, text)
    with pytest.raises(
        DataError, match=r"prices such as 1234500 may be prices times 10000; pass price_scale=1e-4"
    ):
        read_bars(path)
    assert read_bars(path, price_scale=1e-4).high[0] == 123.46
    assert read_bars(path, price_scale=1).high[0] == 1_234_600


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        ({"columns": {"settle": "Close"}}, "Unknown role 'settle' in columns=; use time, date"),
        ({"columns": "close"}, "columns='close' is not a dict such as"),
        ({"price_scale": 0}, "price_scale=0 is not a positive number"),
        ({"price_scale": float("nan")}, "price_scale=nan is not a positive number"),
        ({"date_order": "dym"}, "Unknown date_order='dym'; use 'ymd', 'dmy' or 'mdy'"),
        ({"repair": ("mend",)}, "Unknown repair 'mend'"),
        ({"bars": "5 parsecs"}, "5 parsecs"),
    ],
)
def test_hints_of_unknown_values_are_refused(tmp_path: Path, hints: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_bars(put(tmp_path, GOOD), **hints)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match="has no column 'Settle' for close, only time, open, high, low, close"
    ):
        read_bars(put(tmp_path, GOOD), columns={"close": "Settle"})


def test_a_format_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not in the format 'metatrader'; drop format="):
        read_bars(put(tmp_path, GOOD), format="metatrader")
    with pytest.raises(DataError, match="format='dbn' was asked for, but the content is csv"):
        read_bars(put(tmp_path, GOOD), format="dbn")


def test_repairs_are_applied_and_told(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD.replace("860,1,2,0.5,1.5", "860,1,2,0.5,nan").replace("920,1,2", "920,1,1.25"))
    bars = read_bars(path, label="close", repair=("widen", "drop_non_finite"))
    assert bars.ts.tolist() == [T0, T0 + 2 * MINUTE, T0 + 3 * MINUTE]
    assert bars.high[1] == 1.5
    assert [sentence.partition(":")[0] for sentence in bars.repairs] == ["drop_non_finite", "widen"]


def test_a_fault_that_is_left_after_a_repair_names_its_row_in_the_file(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD.replace("860,1,2,0.5,1.5", "860,1,2,0.5,nan").replace("980,1,2", "980,1,1.25"))
    with pytest.raises(DataError, match=r"row 3 \(line 5\), column high"):
        read_bars(path, repair=("drop_non_finite",))


# --- trades and quotes -----------------------------------------------------------------------------

TRADES = "time,price,size\n" + "".join(f"{1715248800 + 20 * i}.5,{100 + i % 3},{i + 1}\n" for i in range(9))


def test_trades_in_text_become_bars(tmp_path: Path) -> None:
    bars = read_bars(put(tmp_path, TRADES), bars="1min")
    assert bars.ts.tolist() == [T0 + i * MINUTE for i in (1, 2, 3)]
    assert bars.open.tolist() == [100.0] * 3 and bars.high.tolist() == [102.0] * 3
    assert bars.volume is not None and bars.volume.tolist() == [6.0, 15.0, 24.0]
    with pytest.raises(DataError, match="holds trades, not bars"):
        read_columns(put(tmp_path, TRADES))
    with pytest.raises(
        ConfigError, match="The repair 'widen' is for bars; trades and quotes take 'sort' only"
    ):
        read_bars(put(tmp_path, TRADES), bars="1min", repair=("widen",))


def test_trades_out_of_order_are_sorted_on_request_only(tmp_path: Path) -> None:
    lines = TRADES.splitlines(keepends=True)
    path = put(tmp_path, "".join([*lines[:3], lines[4], lines[3], *lines[5:]]))
    with pytest.raises(DataError, match=r"repair=\('sort',\)"):
        read_bars(path, bars="1min")
    bars = read_bars(path, bars="1min", repair=("sort",))
    assert same(bars, read_bars(put(tmp_path, TRADES, "sound.csv"), bars="1min"))
    assert bars.repairs == (
        "sort: 1 row earlier than the row before, first row 3: all rows put in time order",
    )


def test_files_of_trades_follow_one_another_or_are_refused(tmp_path: Path) -> None:
    lines = TRADES.splitlines(keepends=True)
    one, two = files(tmp_path, "".join(lines[:5]), "".join([lines[0], *lines[5:]]))
    assert same(read_bars([two, one], bars="1min"), read_bars(put(tmp_path, TRADES), bars="1min"))
    with pytest.raises(DataError, match="overlap in time with those of"):
        read_bars([one, put(tmp_path, TRADES, "whole.csv")], bars="1min")


@pytest.mark.parametrize(
    ("text", "options", "close", "bid"),
    [
        ("20240102 093000 1230000;100.5;100.25;100.5;3\n20240102 093001 0000000;101;100.75;101;2\n", {"tz": "UTC"},
         101.0, 100.75),
        ("20240102 043000123,100.25,100.75,0\n20240102 043001456,100.5,101.5,0\n", {}, 101.0, 100.5),
    ],
    ids=["NinjaTrader ticks", "HistData ticks"],
)  # fmt: skip
def test_tick_files_without_a_header_become_bars(
    tmp_path: Path, text: str, options: dict[str, Any], close: float, bid: float
) -> None:
    bars = read_bars(put(tmp_path, text), bars="1min", **options)
    assert bars.ts.tolist() == [int(np.datetime64("2024-01-02T09:31", "ns").astype(np.int64))]
    assert bars.close.tolist() == [close] and bars.extra["bid"].tolist() == [bid]


def test_a_column_of_too_many_instruments_is_refused(tmp_path: Path) -> None:
    text = "ts,contract,open,high,low,close\n" + "".join(f"1715248800,{i},1,2,0.5,1\n" for i in range(10_001))
    with pytest.raises(
        DataError, match="column contract holds 10,001 instruments; rename it if it names none"
    ):
        read_symbols(put(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "refused"),
    [("20240102_spy_minute_trade.csv", True), ("20240102_nq_minute_trade_202403.csv", False)],
)
def test_lean_equities_need_the_callers_word_on_their_scale_and_futures_do_not(
    tmp_path: Path, name: str, refused: bool
) -> None:
    path = put(
        tmp_path,
        "34200000,4712500,4713000,4712000,4712500,10\n34260000,4712500,4713000,4712000,4712500,10\n",
        name,
    )
    if refused:
        with pytest.raises(
            DataError, match="prices such as 4712500 may be prices times 10000; pass price_scale=1e-4"
        ):
            read_bars(path, tz="America/New_York")
    else:
        assert read_bars(path, tz="UTC").close[0] == 4_712_500
    bars = read_bars(path, tz="America/New_York", price_scale=1e-4)
    assert bars.close.tolist() == [471.25, 471.25]
    assert bars.ts[0] == np.datetime64("2024-01-02T14:31", "ns").astype(np.int64)


@pytest.mark.parametrize(
    ("words", "bought"),
    [(("buy", "SELL", "buy"), 4.0), (("B", "S", "B"), 4.0), (("1", "-1", "1"), 4.0), (("x", "y", "x"), None)],
)
def test_the_aggressor_is_taken_from_words_that_are_certain(
    tmp_path: Path, words: tuple[str, ...], bought: float | None
) -> None:
    text = "time,price,size,side\n" + "".join(
        f"{1715248800 + i},{100 - i},{i + 1},{word}\n" for i, word in enumerate(words)
    )
    bars = read_bars(put(tmp_path, text), bars="1min")
    assert bars.extra["side_inferred"].tolist() == [0.0 if bought else 1.0]
    if bought:
        assert bars.extra["buy_volume"].tolist() == [bought]


def test_ticks_of_metatrader_keep_their_times(tmp_path: Path) -> None:
    text = "<DATE>\t<TIME>\t<BID>\t<ASK>\n" + "".join(
        f"2024.05.09\t10:00:{second:02}.250\t{100 + second}\t{101 + second}\n" for second in (1, 2, 59)
    )
    bars = read_bars(put(tmp_path, text), tz="UTC", bars="1min")
    assert bars.ts.tolist() == [T0 + MINUTE] and bars.close.tolist() == [159.5]
