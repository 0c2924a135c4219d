"""Real files of many producers: the bars that each gives, cell by cell, or the sentence that refuses it."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from market_files import MINUTE, SHARED, utc

from fox_env.bars import PRICES
from fox_env.errors import DataError
from fox_env.readers import list_symbols, read_bars, read_symbols


def shared(name: str) -> Path:
    """Return the path of a real file, or skip the test where there is none."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"market data file {name} is not at hand")
    return path


class Real(NamedTuple):
    """What a text file holds: options, rows, first and last close, minutes, and the positions of OHLCV."""

    name: str
    options: dict[str, Any]
    rows: int
    first: str
    last: str
    minutes: int
    positions: tuple[int, ...]
    header: int = 1
    delimiter: str = ","
    extra: frozenset[str] = frozenset()


SHANGHAI = {"tz": "Asia/Shanghai"}
CHINA = frozenset(("money", "open_interest", "oi_change"))
CHINESE = (1, 2, 3, 4, 6)
REAL = [
    Real("6EH4_1min_202401.csv.gz", {}, 29_996, "2024-01-01T23:01", "2024-01-31T23:59", 1, (1, 2, 3, 4, 5)),
    Real("BT_2006_min5.txt.gz", {"tz": "Europe/Berlin"}, 2_142, "2006-01-02T08:05", "2006-01-30T16:30", 5,
         (2, 3, 4, 5, 6), extra=frozenset(("OpenInterest",))),
    Real("BT_FESX_1min_2006_badheader.txt.gz", {"tz": "Europe/Berlin"}, 30_889, "2006-01-02T08:01",
         "2006-02-27T21:00", 1, (2, 3, 4, 5, 6), extra=frozenset(("OpenInterest",))),
    Real("CFFEX_IF_HOT_5min.csv.gz", SHANGHAI, 67_329, "2016-01-04T01:35", "2021-10-13T07:00", 5, CHINESE, extra=CHINA),
    Real("CL_daily_backadjusted_noheader_yyyymmdd.csv.gz", {"tz": "UTC"}, 4_075, "2000-01-05", "2016-04-02", 1440,
         (1, 2, 3, 4, 5), header=0, extra=frozenset(("open_interest",))),
    Real("CZCE_TA_HOT_5min.csv.gz", SHANGHAI, 94_413, "2016-01-04T01:05", "2021-10-13T07:00", 5, CHINESE, extra=CHINA),
    Real("DCE_m_HOT_5min.csv.gz", SHANGHAI, 94_410, "2016-01-04T01:05", "2021-10-13T07:00", 5, CHINESE, extra=CHINA),
    Real("FRD_NQ_1min_20231119-20231204.csv.gz", {"tz": "America/New_York"}, 14_714, "2023-11-19T23:01",
         "2023-12-04T22:00", 1, (1, 2, 3, 4, 5)),
    Real("NT_SPY_1min_201103_semicolon.csv.gz", {"tz": "UTC"}, 17_577, "2011-03-01T09:01", "2011-03-31T23:59", 1,
         (1, 2, 3, 4, 5), header=0, delimiter=";"),
    Real("SHFE_cu_HOT_5min.csv.gz", SHANGHAI, 125_703, "2016-01-04T01:05", "2021-10-13T07:00", 5, CHINESE, extra=CHINA),
    Real("SHFE_rb_HOT_5min.csv.gz", SHANGHAI, 94_432, "2016-01-04T01:05", "2021-10-13T07:00", 5, CHINESE, extra=CHINA),
    Real("nautilus_fxcm_gbpusd-m1-bid-2012.csv.gz", {}, 30_117, "2012-02-01", "2012-03-01", 1, (1, 2, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("real", REAL, ids=lambda real: real.name)
def test_every_cell_of_a_real_file_of_bars_arrives(real: Real) -> None:
    path = shared(real.name)
    bars = read_bars(path, **real.options)
    assert len(bars) == real.rows
    assert [bars.ts[0], bars.ts[-1]] == utc(real.first, real.last)
    assert bars.interval_ns == real.minutes * MINUTE
    assert set(bars.extra) == real.extra
    with gzip.open(path, "rt") as file:
        rows = list(csv.reader(file, delimiter=real.delimiter))[real.header :]
    names = (*PRICES, "volume")[: len(real.positions)]
    for name, position in zip(names, real.positions, strict=True):
        np.testing.assert_array_equal(
            getattr(bars, name), [float(row[position]) for row in rows], err_msg=name
        )
    assert (bars.volume is None) == (len(real.positions) == 4)


def test_every_contract_of_a_file_of_several_is_read_whole() -> None:
    path = shared("LEAN_ES_minute_trade.csv.gz")
    rows = {"201312": 16_673, "201403": 5_116, "201406": 442, "201409": 6, "201412": 9, "202003": 1_425,
            "202006": 272, "202009": 5}  # fmt: skip
    read = read_symbols(path, label="open")
    assert list_symbols(path) == list(read) == list(rows)
    assert {name: len(bars) for name, bars in read.items()} == rows
    # The thinly traded contracts take the interval of the liquid ones.
    assert read["201409"].ts[0] == utc("2013-10-08T08:30")[0]
    assert not any("expiry" in bars.extra for bars in read.values())
    assert len(read_bars(path, symbol="202003")) == 1_425
    with pytest.raises(DataError, match=r"holds 8 instruments \(201312, 201403, .*\); pass symbol="):
        read_bars(path)


@pytest.mark.parametrize(
    ("name", "rows", "first", "last"),
    [
        ("hour__es_trade", [40, 1, 1, 147, 142, 24, 1, 1], "2020-01-02T15:00", "2020-01-08T22:00"),
        ("minute__es__20131007_trade", [1_344, 325, 2], "2013-10-07T00:01", "2013-10-08T00:00"),
    ],
)
def test_a_lean_archive_gives_each_member_as_a_contract(
    name: str, rows: list[int], first: str, last: str
) -> None:
    path = shared(f"lean_raw_zip/Data__future__cme__{name}.zip")
    read = read_symbols(path, tz="UTC")
    assert [len(bars) for bars in read.values()] == rows
    bars = next(iter(read.values()))
    assert [bars.ts[0], bars.ts[-1]] == utc(first, last)
    with zipfile.ZipFile(path) as archive:
        for member, (symbol, bars) in zip(archive.infolist(), read.items(), strict=True):
            cells = list(csv.reader(io.TextIOWrapper(archive.open(member))))
            assert symbol == "ES_" + member.filename[-10:-4]
            np.testing.assert_array_equal(bars.close, [float(row[4]) for row in cells])


@pytest.mark.parametrize(
    ("name", "options", "bars", "first", "last"),
    [
        ("LOBSTER_AMZN_20120621_trades.csv.gz", {"tz": "America/New_York", "price_scale": 1e-4}, 387,
         "2012-06-21T13:31", "2012-06-21T20:00"),
        ("orderflow_ES_tbt_dom_20220124_1min.txt.gz", {"tz": "UTC"}, 2, "2022-01-24T13:31", "2022-01-24T13:32"),
    ],
)  # fmt: skip
def test_trades_and_quotes_become_bars_of_the_size_asked_for(
    name: str, options: dict[str, Any], bars: int | None, first: str | None, last: str
) -> None:
    path = shared(name)
    with pytest.raises(DataError, match="pass bars= with a size such as bars='1min'"):
        read_bars(path, **options)
    made = read_bars(path, bars="1min", **options)
    assert bars is None or len(made) == bars
    assert first is None or made.ts[0] == utc(first)[0]
    assert made.ts[-1] == utc(last)[0]
    assert made.interval_ns in (0, MINUTE)


@pytest.mark.parametrize(
    ("name", "symbol", "rows", "one_sided", "first", "last"),
    [
        ("LEAN_ES_minute_quote.csv.gz", "201312", 15_468, 68, "2013-10-06T19:01", "2013-12-04"),
        ("LEAN_ES_minute_quote.csv.gz", "201403", 2_746, 0, "2013-12-18T00:01", "2013-12-20T22:16"),
        ("LEAN_ES_minute_quote.csv.gz", "202003", 1_429, 0, "2020-01-05T22:01", "2020-01-07"),
        ("lean_raw_zip/Data__future__cme__minute__es__20131007_quote.zip", "ES_201312", 1_395, 15,
         "2013-10-07T00:01", "2013-10-08"),
    ],
)  # fmt: skip
def test_quote_bars_are_bars_of_the_mid_price(
    name: str, symbol: str, rows: int, one_sided: int, first: str, last: str
) -> None:
    bars = read_bars(shared(name), tz="UTC", symbol=symbol)
    assert len(bars) == rows
    assert [bars.ts[0], bars.ts[-1]] == utc(first, last)
    assert bars.volume is None
    assert bars.extra.keys() == {"bid", "ask", "bid_size", "ask_size"}
    assert [note.split(",")[0] for note in bars.repairs] == [
        f"{one_sided} rows without both a bid and an ask made no bar"
    ][: bool(one_sided)]
    np.testing.assert_array_equal(bars.close, 0.5 * (bars.extra["bid"] + bars.extra["ask"]))
    assert (bars.high > bars.low).mean() > 0.1


def test_prices_times_ten_thousand_are_refused_until_the_caller_says_so() -> None:
    path = shared("LOBSTER_AMZN_20120621_trades.csv.gz")
    with pytest.raises(
        DataError, match=r"prices such as 2238200 may be prices times 10000; pass price_scale"
    ):
        read_bars(path, tz="America/New_York", bars="1min")
    bars = read_bars(path, tz="America/New_York", bars="1min", price_scale=1e-4)
    assert bars.open[0] == 223.82
    assert bars.volume is not None
    with gzip.open(path, "rt") as file:
        assert bars.volume.sum() == sum(float(row["Volume"]) for row in csv.DictReader(file))


@pytest.mark.parametrize(
    ("name", "rows", "first", "last"),
    [
        ("databento-python__GLBX.MDP3__test_data.ohlcv-1d.dbn.zst", {"ESH1": 1}, "2020-12-29", "2020-12-29"),
        ("databento-python__GLBX.MDP3__test_data.ohlcv-1h.dbn.zst", {"ESH1": 4}, "2020-12-28T01", "2020-12-28T04"),
        ("databento-python__GLBX.MDP3__test_data.ohlcv-1m.dbn.zst", {"ESH1": 4}, "2020-12-28T00:01",
         "2020-12-28T00:04"),
        ("databento-python__GLBX.MDP3__test_data.ohlcv-1s.dbn.zst", {"ESH1": 4}, "2020-12-28T00:00:01",
         "2020-12-28T00:00:08"),
        *((f"dbn__test_data.ohlcv-1m{version}", {"ESH1": 2}, "2020-12-28T13:01", "2020-12-28T13:02")
          for version in (".dbn", ".v2.dbn.zst", ".v3.dbn.zst")),
        *((f"dbn__test_data.ohlcv-1h{version}", {"ESH1": 2}, "2020-12-28T14", "2020-12-28T15")
          for version in (".dbn", ".v2.dbn.zst", ".v3.dbn.zst")),
        *((f"dbn__test_data.ohlcv-1s{version}", {"ESH1": 2}, "2020-12-28T13:00:01", "2020-12-28T13:00:02")
          for version in (".dbn", ".v2.dbn.zst", ".v3.dbn.zst")),
        ("nautilus__futures_ohlcv-1m_2024-05-09T09-55_2024-05-09T10-05.dbn.zst", {"NQM4": 10, "ESM4": 10},
         "2024-05-09T09:56", "2024-05-09T10:05"),
        ("nautilus__futures_ohlcv-1m_2024-07-01T23-40_2024-07-02T00-10.dbn.zst", {"ESU4": 30, "NQU4": 30},
         "2024-07-01T23:41", "2024-07-02T00:10"),
    ],
)  # fmt: skip
def test_dbn_bars_close_one_interval_after_their_records(
    name: str, rows: dict[str, int], first: str, last: str
) -> None:
    read = read_symbols(shared(f"dbn/{name}"))
    assert {symbol: len(bars) for symbol, bars in read.items()} == rows
    for bars in read.values():
        assert [bars.ts[0], bars.ts[-1]] == utc(first, last)


@pytest.mark.parametrize(
    ("pattern", "minutes"),
    [
        ("*__test_data.tbbo*", 1),
        ("*__test_data.trades*", 1),
        ("nautilus__futures_trades*", 4),
        ("nautilus__futures_mbp-1*", 4),
    ],
)
def test_dbn_trades_and_book_updates_become_bars(pattern: str, minutes: int) -> None:
    paths = sorted((SHARED / "dbn").glob(pattern))
    if not paths:
        pytest.skip(f"market data files {pattern} are not at hand")
    for path in paths:
        assert [len(bars) for bars in read_symbols(path, bars="1min").values()] == [minutes]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("hft_binance_cm_btcusd_perp_20240808.gz", "holds JSON records, not a table; write a table as CSV"),
        ("dbn/*definition*", "which make no bars; fetch the ohlcv-1m, trades or mbp-1 schema"),
        ("dbn/*mbo*", "which make no bars; fetch the ohlcv-1m, trades or mbp-1 schema"),
        ("dbn/*stati*", "which make no bars; fetch the ohlcv-1m, trades or mbp-1 schema"),
        ("dbn/*__test_data.status*", "which make no bars; fetch the ohlcv-1m, trades or mbp-1 schema"),
        ("dbn/dbn__test_data.ohlcv-1d*", "holds no records"),
        ("dbn/*LIVE*", "holds records of several schemas"),
        ("dbn/dbn__test_data.*mbp-1*", "holds no trade"),
        ("dbn", "is a directory"),
    ],
)
def test_files_without_bars_are_refused_in_one_sentence(pattern: str, message: str) -> None:
    paths = sorted(SHARED.glob(pattern))
    if not paths:
        pytest.skip(f"market data files {pattern} are not at hand")
    for path in paths:
        with pytest.raises(DataError, match=re.escape(message)) as caught:
            read_bars(path, tz="UTC", bars="1min")
        text = str(caught.value)
        assert text.startswith(str(path)) and text.endswith(".") and "\n" not in text
