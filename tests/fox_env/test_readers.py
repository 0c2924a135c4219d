"""Readers: what ordinary files of each shape give, and the one sentence that faulty files give."""

from __future__ import annotations

import contextlib
import gzip
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fox_env.bars import Bars
from fox_env.errors import ConfigError, DataError
from fox_env.readers import read_bars, read_columns, write_bars
from fox_env.reading import text as text_reader

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
T0 = 1_715_248_800_000_000_000  # 2024-05-09 10:00:00 UTC
MINUTE = 60_000_000_000
ROWS = ((10.0, 11.0, 9.0, 10.5, 100.0), (10.5, 12.0, 10.0, 11.5, 0.0))


def table(
    times: list[str], header: str = "timestamp,open,high,low,close,volume", delimiter: str = ","
) -> str:
    """Write rows with the given time cells, prices 10 to 12 and the given header."""
    lines = [header.replace(",", delimiter)]
    for i, time in enumerate(times):
        lines.append(delimiter.join([time, *(f"{value:g}" for value in ROWS[i % 2])]))
    return "\n".join(lines) + "\n"


@pytest.fixture
def put(tmp_path: Path) -> Any:
    """Return a function that writes text or bytes to a file and returns its path."""

    def write(content: str | bytes, name: str = "bars.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def utc(*minutes: str) -> list[int]:
    return [int(np.datetime64(minute, "ns").astype(np.int64)) for minute in minutes]


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-09T10:00:00Z", "2024-05-09T10:01:00Z"],
        ["2024-05-09 10:00:00+00:00", "2024-05-09 10:01:00+00:00"],
        ["2024-05-09T06:00:00-04:00", "2024-05-09T06:01:00-0400"],
        ["2024-05-09 15:30+05:30", "2024-05-09 10:01+00"],
        ["1715248800", "1715248860"],
        ["1715248800.0", "1715248860.0"],
        ["1715248800000", "1715248860000"],
        ["1715248800000000", "1715248860000000"],
        ["1715248800000000000", "1715248860000000000"],
    ],
)
def test_absolute_times_need_no_zone(put: Any, times: list[str]) -> None:
    bars = read_bars(put(table(times)))
    assert bars.ts.tolist() == [T0, T0 + MINUTE]
    assert bars.close.tolist() == [10.5, 11.5]
    assert bars.volume is not None and bars.volume.tolist() == [100.0, 0.0]


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-09 06:00:00", "2024-05-09 06:01:00"],
        ["2024-05-09T06:00", "2024-05-09T06:01"],
        ["2024/5/9 6:00", "2024/5/9 6:01"],
        ["2024.05.09 06:00:00.000000000", "2024.05.09 06:01:00.000"],
        ["20240509 060000", "20240509 060100"],
        ["20240509060000", "20240509060100"],
        ["202405090600", "202405090601"],
        [" 2024-05-09 06:00:00 ", '"2024-05-09 06:01:00"'],
    ],
)
def test_wall_clock_times_take_the_zone(put: Any, times: list[str]) -> None:
    path = put(table(times))
    assert read_bars(path, tz="America/New_York").ts.tolist() == [T0, T0 + MINUTE]
    with pytest.raises(DataError, match=r"column timestamp have no zone; pass tz="):
        read_bars(path)


def test_fractions_of_a_second_are_kept_to_the_nanosecond(put: Any) -> None:
    path = put(table(["2024-05-09T10:00:00.5Z", "2024-05-09T10:00:00.500000001Z"]))
    assert read_bars(path).ts.tolist() == [T0 + 500_000_000, T0 + 500_000_001]


@pytest.mark.parametrize("name", ["timestamp_utc", "Datetime_UTC", "Time UTC"])
def test_a_name_that_says_utc_needs_no_zone(put: Any, name: str) -> None:
    path = put(table(["2024-05-09 10:00:00", "2024-05-09 10:01:00"], f"{name},open,high,low,close,volume"))
    assert read_bars(path).ts.tolist() == [T0, T0 + MINUTE]
    assert read_bars(path, tz="Asia/Tokyo").ts.tolist() == [T0, T0 + MINUTE]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "header", ["TIMESTAMP,Open,HIGH,low,Close,Volume", "<DateTime>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>"]
)
def test_delimiters_line_ends_and_spellings(put: Any, delimiter: str, ending: str, header: str) -> None:
    text = table(["2024-05-09 10:00", "2024-05-09 10:01"], header, delimiter).replace("\n", ending)
    bars = read_bars(put(b"\xef\xbb\xbf" + text.encode()), tz="UTC")
    assert bars.ts.tolist() == [T0, T0 + MINUTE]
    assert bars.high.tolist() == [11.0, 12.0]


def test_separate_date_and_time_columns_in_any_order(put: Any) -> None:
    path = put("Open;High;Low;Close;Time;Date\n1;2;0.5;1.5;10:00;2024.05.09\n1;2;0.5;1.5;10:01;2024.05.09\n")
    bars = read_bars(path, tz="UTC")
    assert bars.ts.tolist() == [T0, T0 + MINUTE]
    assert bars.volume is None


def test_spaced_header_last_price_and_repeated_names(put: Any) -> None:
    path = put("Date, Time, Open, High, Low, Last, Avg, Avg\n2024/5/9, 10:00:00, 1, 2, 0.5, 1.5, 7, 3.4e38")
    bars = read_bars(path, tz="UTC")
    assert bars.close.tolist() == [1.5] and bars.ts.tolist() == [T0]
    assert bars.extra["Avg"].tolist() == [7.0] and bars.extra["Avg_2"][0] > 3e38


def test_further_numbers_are_kept_and_text_is_left_out(put: Any) -> None:
    header = 'time,open,high,low,close,"MA (9, close)",Signal,Volume\n'
    rows = (
        "1715248800,1,2,0.5,1.5,NaN,buy,3\n1715248860,1,2,0.5,1.5,,sell,3\n1715248920,1,2,0.5,1.5,1.25,,3\n"
    )
    bars = read_bars(put(header + rows))
    assert list(bars.extra) == ["MA (9, close)"]
    np.testing.assert_array_equal(bars.extra["MA (9, close)"], [np.nan, np.nan, 1.25])


def test_a_volume_column_without_values_means_unknown(put: Any) -> None:
    assert read_bars(put("time,open,high,low,close,volume\n1715248800,1,2,0.5,1.5,\n")).volume is None


def test_blank_lines_are_skipped_but_counted(put: Any) -> None:
    text = "\ntime,open,high,low,close\n\n1715248800,1,2,0.5,1.5\n\n1715248860,1,2,0.5,x\n\n"
    with pytest.raises(DataError, match=r"row 1 \(line 6\), column close: 'x' is not a number"):
        read_bars(put(text))
    assert len(read_bars(put(text.replace("x", "1.5")))) == 2


def test_gzip_is_recognised_by_content(put: Any) -> None:
    text = table(["1715248800", "1715248860"])
    assert read_bars(put(gzip.compress(text.encode()), "wrong.parquet")).ts.tolist() == [T0, T0 + MINUTE]


# --- the end of the bar that a time marks ---------------------------------------------------------


def test_times_of_the_open_are_moved_to_the_close(put: Any) -> None:
    path = put(table(["2024-05-09T10:00Z", "2024-05-09T10:01Z", "2024-05-09T10:03Z", "2024-05-09T10:04Z"]))
    assert (read_bars(path, label="open").ts - read_bars(path).ts).tolist() == [MINUTE] * 4
    assert read_bars(path, label="close").ts.tolist() == read_bars(path).ts.tolist()


@pytest.mark.parametrize("name", ["ts_event", "open_time"])
def test_columns_known_to_hold_the_open_are_moved_without_asking(put: Any, name: str) -> None:
    path = put(table([str(T0), str(T0 + MINUTE)], f"{name},open,high,low,close,volume"))
    assert read_bars(path).ts.tolist() == [T0 + MINUTE, T0 + 2 * MINUTE]
    assert read_bars(path, label="close").ts.tolist() == [T0, T0 + MINUTE]


def test_bare_dates_mark_the_day_so_the_bar_closes_at_its_end(put: Any) -> None:
    path = put(table(["2024-05-08", "20240509", "2024-05-10"], "Date,Open,High,Low,Close,Volume"))
    assert read_bars(path, tz="UTC").ts.tolist() == utc("2024-05-09", "2024-05-10", "2024-05-11")
    assert read_bars(path, tz="UTC", label="close").ts.tolist() == utc(
        "2024-05-08", "2024-05-09", "2024-05-10"
    )


def test_one_row_marked_by_its_open_has_no_interval(put: Any) -> None:
    with pytest.raises(DataError, match="need at least two rows"):
        read_bars(put(table(["1715248800"])), label="open")


# --- zones and changes of the clock ---------------------------------------------------------------


@pytest.mark.parametrize("host", ["UTC", "Asia/Tokyo"])
def test_the_zone_of_the_host_does_not_matter(put: Any, host: str) -> None:
    path = put(table(["2024-03-08 09:30", "2024-03-11 09:30"]))
    code = "import sys, fox_env.readers as r; print(*r.read_bars(sys.argv[1], tz='America/New_York').ts)"
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], env={"TZ": host, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [int(word) for word in run.stdout.split()] == utc("2024-03-08T14:30", "2024-03-11T13:30")


def test_a_repeated_hour_is_resolved_by_row_order(put: Any) -> None:
    hours = ["2024-11-03 00:30", "2024-11-03 01:30", "2024-11-03 01:30", "2024-11-03 02:30"]
    expected = utc("2024-11-03T05:30", "2024-11-03T06:30", "2024-11-03T07:30", "2024-11-03T08:30")
    assert read_bars(put(table(hours)), tz="America/Chicago").ts.tolist() == expected


@pytest.mark.parametrize(
    ("zone", "switch"), [("America/Chicago", "2024-11-03T07:00"), ("Europe/Berlin", "2023-10-29T01:00")]
)
def test_minutes_through_a_clock_change_stay_a_minute_apart(put: Any, zone: str, switch: str) -> None:
    expected = np.int64(utc(switch)[0]) + np.arange(-150, 150) * MINUTE
    wall = pl.Series(expected).cast(pl.Datetime("ns", "UTC")).dt.convert_time_zone(zone)
    path = put(table(wall.dt.strftime("%Y-%m-%d %H:%M").to_list()))
    assert read_bars(path, tz=zone).ts.tolist() == expected.tolist()


def test_an_hour_that_the_rows_do_not_settle_is_refused(put: Any) -> None:
    path = put(table(["2024-11-03 00:30", "2024-11-03 01:30", "2024-11-03 02:30"]))
    with pytest.raises(
        DataError, match=r"row 1 \(line 3\), column timestamp: 2024-11-03 01:30:00 occurs twice"
    ):
        read_bars(path, tz="America/Chicago")


def test_a_time_that_the_clocks_skip_is_refused(put: Any) -> None:
    path = put(table(["2024-03-10 01:30", "2024-03-10 02:30"]))
    with pytest.raises(DataError, match=r"row 1 \(line 3\).* does not exist in America/Chicago"):
        read_bars(path, tz="America/Chicago")


# --- Parquet ----------------------------------------------------------------------------------------


def frame(time: pl.Series) -> pl.DataFrame:
    flat = [1.0] * len(time)
    return pl.DataFrame({"Timestamp": time, "open": flat, "high": flat, "low": flat, "close": flat})


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_every_parquet_time_unit_gives_the_same_times(tmp_path: Path, unit: Any) -> None:
    naive = pl.Series([T0, T0 + MINUTE]).cast(pl.Datetime("ns")).dt.cast_time_unit(unit)
    frame(naive.dt.replace_time_zone("America/New_York")).write_parquet(tmp_path / "zoned")
    assert read_bars(tmp_path / "zoned").ts.tolist() == [T0 + 240 * MINUTE, T0 + 241 * MINUTE]
    frame(naive).write_parquet(tmp_path / "naive")
    assert read_bars(tmp_path / "naive", tz="UTC").ts.tolist() == [T0, T0 + MINUTE]
    with pytest.raises(DataError, match="have no zone"):
        read_bars(tmp_path / "naive")
    assert read_bars(tmp_path / "naive", tz="UTC").interval_ns == MINUTE


def test_parquet_times_as_integers_text_and_dates(tmp_path: Path) -> None:
    for values, expected in (
        (pl.Series([T0 // 1_000, (T0 + MINUTE) // 1_000]), [T0, T0 + MINUTE]),
        (pl.Series(["2024-05-09T10:00Z", "2024-05-09T10:01Z"]), [T0, T0 + MINUTE]),
        (pl.Series(["2024-05-09", "2024-05-10"]).str.to_date(), utc("2024-05-10", "2024-05-11")),
    ):
        frame(values).write_parquet(tmp_path / "bars")
        assert read_bars(tmp_path / "bars", tz="UTC").ts.tolist() == expected


@given(
    pauses=st.lists(st.integers(1, 10**13), min_size=0, max_size=20),
    seed=st.integers(0, 2**32 - 1),
    has_volume=st.booleans(),
)
def test_written_bars_are_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, pauses: list[int], seed: int, has_volume: bool
) -> None:
    rng = np.random.default_rng(seed)
    ts = T0 + np.cumsum([0, *pauses])
    n = len(ts)
    open_, close = rng.normal(size=(2, n))
    high, low = np.maximum(open_, close) + rng.random(n), np.minimum(open_, close) - rng.random(n)
    bars = Bars.from_arrays(
        ts, open_, high, low, close, rng.random(n) if has_volume else None,
        rng.normal(size=n) if has_volume else None,
        session_end=rng.random(n) < 0.3, gap=rng.random(n) < 0.3, extra={"open interest": rng.random(n)},
    )  # fmt: skip
    path = tmp_path_factory.mktemp("bars") / "bars.parquet"
    write_bars(bars, path)
    again = read_bars(path)
    for name in ("ts", "open", "high", "low", "close", "volume", "roll_gap", "session_end", "gap"):
        np.testing.assert_array_equal(getattr(again, name), getattr(bars, name), err_msg=name)
    np.testing.assert_array_equal(again.extra["open interest"], bars.extra["open interest"])


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    bars = Bars.from_arrays([T0], [1.0], [1.0], [1.0], [1.0])
    with pytest.raises(DataError, match="cannot be written"):
        write_bars(bars, tmp_path / "absent" / "bars.parquet")


# --- faults ---------------------------------------------------------------------------------------

HEADER = "time,open,high,low,close,volume\n"
GOOD = HEADER + "".join(f"{1715248800 + 60 * i},1,2,0.5,1.5,7\n" for i in range(4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        (" \n\n", "the file is empty"),
        (HEADER, "has a header line but no rows"),
        (HEADER + "\n\n", "has a header line but no rows"),
        ("time,price,volume\n1715248800,1,2\n", "no column for open, high, low, close among time, price"),
        ("a,open,high,low,close\n1,2,3,4,5\n", "no column for a time among a, open, high, low, close"),
        ("hello world\nthis is text\n", "no column for a time, open, high, low, close among hello world"),
        ("20240102 093000;1;2;0.5;1.5;7\n", "has no header line"),
        ("1715248800,1,2,0.5,1.5\n", "has no header line"),
        (GOOD.replace("860,1,2", "860,,2"), "row 1 (line 3), column open: price is nan"),
        (GOOD.replace("860,1,2", "860,NaN,2"), "row 1 (line 3), column open: price is nan"),
        (GOOD.replace("920,1,2", "920,null,2"), "row 2 (line 4), column open: 'null' is not a number"),
        (GOOD.replace("920,1,2", '920,"1,000",2'), "row 2 (line 4), column open: '1,000' is not a number"),
        (GOOD.replace("980,1,2,0.5,1.5,7\n", "980,1,2,0.5"), "row 3 (line 5), column close: price is nan"),
        (GOOD.removesuffix("7\n"), "row 3 (line 5), column volume: volume is nan"),
        (GOOD.removesuffix("7\n") + "-7\n", "row 3 (line 5), column volume: volume is -7.0"),
        (GOOD.replace("920,1,2", "920,1,1.25"), "row 2 (line 4), column high: high 1.25 is below"),
        (GOOD.replace("1715248860", "1715248980"), "row 2 (line 4), column ts: time 2024-05-09T10:02:00 UTC"),
        (GOOD.replace("8860", "8800"), "row 1 (line 3), column ts: time 2024-05-09T10:00:00 UTC repeats"),
        (GOOD.replace("1715248860", ""), "row 1 (line 3), column time: the time is missing"),
        (GOOD.replace("1715248860", "soon"), "row 1 (line 3), column time: 'soon' is not a number"),
        (GOOD.replace("8860", "8860000"), "row 1 (line 3), column time: 1715248860000 is a time in ms"),
        (GOOD.replace("1715248920", HEADER + "1715248920"), "row 2 (line 4), column time: 'time' is not"),
        (GOOD.replace("920,1,2,0.5", "920,1,2,0.5,9"), "the header names 6 columns but line 4 has 7 fields"),
        (GOOD.replace("860,1", "860,\x001"), "line 3 holds a NUL byte"),
        (table(["2024-02-30 10:00", "2024-03-01 10:00"]), "row 0 (line 2), column timestamp: '2024-02-30"),
        (table(["2024-02-28 10:00", "2024-02-28 24:01"]), "row 1 (line 3), column timestamp: '2024-02-28 24"),
        (table(["01/02/2024 10:00", "01/02/2024 10:01"]), "'01/02/2024 10:00' is not a time; write it as"),
        (table(["2024-02-28 10:00Z", "2024-02-28 10:01"]), "row 1 (line 3), column timestamp: '2024-02-28"),
        (GOOD.encode("utf-16"), "is UTF-16 text"),
        (GOOD.replace("time", "t\u00e9me").encode("latin-1"), "line 1 is not UTF-8 text"),
        (b"PK\x03\x04rest", "is a zip archive, which is not read yet; extract"),
        (b"DBN\x03rest", "is a DBN file, which is not read yet; convert"),
        (b"\x28\xb5\x2f\xfdrest", "is Zstandard data"),
        (b"PAR1 and nothing useful PAR1", "the Parquet data are cut short or damaged"),
        (gzip.compress(GOOD.encode())[:-12], "the gzip data are cut short or damaged"),
        (b"\x1f\x8b" + b"\xff" * 40, "the gzip data are cut short or damaged"),
        (gzip.compress(b""), "the file is empty"),
    ],
)  # fmt: skip
def test_faulty_files_give_one_sentence(put: Any, content: str | bytes, message: str) -> None:
    path = put(content)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_bars(path, tz="UTC")
    text = str(caught.value)
    assert text.startswith(str(path)) and text.endswith(".") and "\n" not in text


def test_several_contracts_in_one_file_are_named(put: Any) -> None:
    rows = "".join(f"{1715248800 + 60 * (i % 2)},{10 + i // 2},1,2,0.5,1.5\n" for i in range(4))
    with pytest.raises(DataError, match="column Expiry holds 2 values: keep the rows of one contract"):
        read_bars(put("time,Expiry,open,high,low,close\n" + rows))


def test_a_roll_gap_must_be_a_number_everywhere(put: Any) -> None:
    text = "time,open,high,low,close,roll_gap\n1715248800,1,2,0.5,1.5,0\n1715248860,1,2,0.5,1.5,{}\n"
    rolls = read_bars(put(text.format("0.25"))).roll_gap
    assert rolls is not None and rolls.tolist() == [0.0, 0.25]
    with pytest.raises(DataError, match=r"row 1 \(line 3\), column roll_gap"):
        read_bars(put(text.format("")))


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        read_bars(tmp_path / "absent.csv")
    with pytest.raises(DataError, match="is a directory"):
        read_bars(tmp_path)


def test_content_beyond_the_limit_is_refused_before_it_is_unpacked(
    put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_reader, "_MAX_BYTES", 10_000)
    with pytest.raises(DataError, match="holds more than 10,000 bytes"):
        read_bars(put(gzip.compress(b"0" * 1_000_000)))


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        ({"tz": "Chicago"}, "tz='Chicago'"),
        ({"label": "end"}, "label='end'"),
        ({"format": "xls"}, "format='xls'"),
    ],
)
def test_unknown_hints_are_refused(put: Any, hints: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_bars(put(GOOD), **hints)


def test_an_asked_for_format_is_checked(put: Any) -> None:
    assert len(read_bars(put(GOOD), format="csv")) == 4
    with pytest.raises(DataError, match="format='parquet' was asked for, but the content is csv"):
        read_bars(put(GOOD), format="parquet")


@given(data=st.data())
def test_damage_anywhere_gives_bars_or_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(GOOD.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("damaged") / "bars.csv"
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        bars = read_bars(path, tz="UTC")
        assert np.all(np.diff(bars.ts) > 0)
        assert np.isfinite(bars.close).all()


def test_columns_are_read_without_refusing_faulty_rows(put: Any) -> None:
    columns = read_columns(put(GOOD.replace("860,1,2", "800,,2")))
    assert columns["ts"].tolist() == [T0, T0, T0 + 2 * MINUTE, T0 + 3 * MINUTE]
    assert np.isnan(columns["open"][1]) and columns["volume"].tolist() == [7.0] * 4


def test_importing_the_reader_does_not_import_polars() -> None:
    code = "import sys, fox_env.readers; sys.exit('polars' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=False
        ).returncode
        == 0
    )


# --- real files, where they are at hand -----------------------------------------------------------


CHINA = {"tz": "Asia/Shanghai"}


@pytest.mark.parametrize(
    ("name", "hints", "rows", "first", "last", "interval"),
    [
        ("6EH4_1min_202401.csv.gz", {}, 29_996, "2024-01-01T23:01", "2024-01-31T23:59", 1),
        ("BT_2006_min5.txt.gz", {"tz": "Europe/Berlin"}, 2_142, "2006-01-02T08:05", "2006-01-30T16:30", 5),
        ("nautilus_fxcm_gbpusd-m1-bid-2012.csv.gz", {}, 30_117, "2012-02-01", "2012-03-01", 1),
        ("FRD_NQ_1min_20231119-20231204.csv.gz", {"tz": "America/New_York", "label": "open"}, 14_714,
         "2023-11-19T23:01", "2023-12-04T22:00", 1),
        ("CFFEX_IF_HOT_5min.csv.gz", CHINA, 67_329, "2016-01-04T01:35", "2021-10-13T07:00", 5),
        ("CZCE_TA_HOT_5min.csv.gz", CHINA, 94_413, "2016-01-04T01:05", "2021-10-13T07:00", 5),
        ("DCE_m_HOT_5min.csv.gz", CHINA, 94_410, "2016-01-04T01:05", "2021-10-13T07:00", 5),
        ("SHFE_cu_HOT_5min.csv.gz", CHINA, 125_703, "2016-01-04T01:05", "2021-10-13T07:00", 5),
        ("SHFE_rb_HOT_5min.csv.gz", CHINA, 94_432, "2016-01-04T01:05", "2021-10-13T07:00", 5),
    ],
)  # fmt: skip
def test_real_files_are_read(
    name: str, hints: dict[str, str], rows: int, first: str, last: str, interval: int
) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"market data file {name} is not at hand")
    bars = read_bars(path, **hints)
    assert len(bars) == rows
    assert [bars.ts[0], bars.ts[-1]] == utc(first, last)
    assert bars.interval_ns == interval * MINUTE
    if "HOT" in name:
        assert set(bars.extra) == {"money", "open_interest", "oi_change"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NT_SPY_1min_201103_semicolon.csv.gz", "has no header line"),
        ("CL_daily_backadjusted_noheader_yyyymmdd.csv.gz", "has no header line"),
        ("BT_FESX_1min_2006_badheader.txt.gz", "the header names 7 columns but line 2 has 8 fields"),
        ("LEAN_ES_minute_trade.csv.gz", "column expiry holds 8 values: keep the rows of one contract"),
        (
            "LEAN_ES_minute_quote.csv.gz",
            "no column for open, high, low, close among datetime_utc, expiry, bid_open",
        ),
        (
            "LOBSTER_AMZN_20120621_trades.csv.gz",
            "no column for open, high, low, close among Time, Price, Volume",
        ),
        ("orderflow_ES_tbt_dom_20220124_1min.txt.gz", "no column for open"),
        ("hft_binance_cm_btcusd_perp_20240808.gz", "fields"),
        ("lean_raw_zip/Data__future__cme__hour__es_trade.zip", "is a zip archive"),
        ("dbn/dbn__test_data.ohlcv-1m.dbn", "is a DBN file"),
        ("dbn/dbn__test_data.ohlcv-1m.v3.dbn.zst", "is Zstandard data"),
    ],
)
def test_real_files_of_other_kinds_are_refused_in_one_sentence(name: str, message: str) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"market data file {name} is not at hand")
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_bars(path, tz="UTC")
    assert "\n" not in str(caught.value)
