"""Text tables: delimiters, headers, encodings, and what is kept of their columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from market_files import MINUTE, T0, put, table

from fox_env.errors import DataError
from fox_env.readers import read_bars


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "header", ["TIMESTAMP,Open,HIGH,low,Close,Volume", "<DateTime>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>"]
)
def test_delimiters_line_ends_and_spellings(tmp_path: Path, delimiter: str, ending: str, header: str) -> None:
    text = table(["2024-05-09 10:00", "2024-05-09 10:01"], header, delimiter).replace("\n", ending)
    bars = read_bars(put(tmp_path, b"\xef\xbb\xbf" + text.encode()), tz="UTC")
    assert bars.ts.tolist() == [T0, T0 + MINUTE]
    assert bars.high.tolist() == [11.0, 12.0]


def test_separate_date_and_time_columns_in_any_order(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        "Open;High;Low;Close;Time;Date\n1;2;0.5;1.5;10:00;2024.05.09\n1;2;0.5;1.5;10:01;2024.05.09\n",
    )
    bars = read_bars(path, tz="UTC")
    assert bars.ts.tolist() == [T0, T0 + MINUTE]
    assert bars.volume is None


def test_spaced_header_last_price_and_repeated_names(tmp_path: Path) -> None:
    path = put(
        tmp_path, "Date, Time, Open, High, Low, Last, Avg, Avg\n2024/5/9, 10:00:00, 1, 2, 0.5, 1.5, 7, 3.4e38"
    )
    bars = read_bars(path, tz="UTC")
    assert bars.close.tolist() == [1.5] and bars.ts.tolist() == [T0]
    assert bars.extra["Avg"].tolist() == [7.0] and bars.extra["Avg_2"][0] > 3e38


def test_further_numbers_are_kept_and_text_is_left_out(tmp_path: Path) -> None:
    header = 'time,open,high,low,close,"MA (9, close)",Signal,Volume\n'
    rows = (
        "1715248800,1,2,0.5,1.5,NaN,buy,3\n1715248860,1,2,0.5,1.5,,sell,3\n1715248920,1,2,0.5,1.5,1.25,,3\n"
    )
    bars = read_bars(put(tmp_path, header + rows))
    assert list(bars.extra) == ["MA (9, close)"]
    np.testing.assert_array_equal(bars.extra["MA (9, close)"], [np.nan, np.nan, 1.25])


def test_words_for_none_are_missing_values(tmp_path: Path) -> None:
    cells = ("null", "None", "NaN", "n/a", "NA", "#N/A", "-", "--", "", "1.25")
    text = "time,open,high,low,close,flow\n" + "".join(
        f"{1715248800 + 60 * i},1,2,0.5,1.5,{cell}\n" for i, cell in enumerate(cells)
    )
    flow = read_bars(put(tmp_path, text)).extra["flow"]
    np.testing.assert_array_equal(flow, [np.nan] * 9 + [1.25])


def test_a_volume_column_without_values_means_unknown(tmp_path: Path) -> None:
    assert (
        read_bars(put(tmp_path, "time,open,high,low,close,volume\n1715248800,1,2,0.5,1.5,\n")).volume is None
    )


def test_blank_lines_are_skipped_but_counted(tmp_path: Path) -> None:
    text = "\ntime,open,high,low,close\n\n1715248800,1,2,0.5,1.5\n\n1715248860,1,2,0.5,x\n\n"
    with pytest.raises(DataError, match=r"row 1 \(line 6\), column close: 'x' is not a number"):
        read_bars(put(tmp_path, text))
    assert len(read_bars(put(tmp_path, text.replace("x", "1.5")))) == 2


def test_lines_without_any_cell_are_left_out_and_told(tmp_path: Path) -> None:
    text = "time,open,high,low,close\n1715248800,1,2,0.5,1.5\n,,,,\n1715248860,1,2,0.5,1.5\n,,,,\n"
    bars = read_bars(put(tmp_path, text))
    assert len(bars) == 2 and bars.repairs == ("2 lines of delimiters only left out",)


def test_lines_above_the_header_are_left_out_and_told(tmp_path: Path) -> None:
    text = "sep=;\n# from a terminal\nts;open;high;low;close\n1715248800;1;2;0.5;1.5\n"
    bars = read_bars(put(tmp_path, text), label="close")
    assert len(bars) == 1 and bars.repairs == ("2 lines above the header left out",)


# --- encodings and numbers -----------------------------------------------------------------------

EURO = "Data;Abertura;Máxima;Mínima;Fechamento;Volume\n"


def brazil(*cells: str) -> str:
    """Write rows of equal prices with the given cells, two days each."""
    return EURO + "".join(
        f"{1 + i:02}/02/2024;{cell};{cell};{cell};{cell};10\n" for i, cell in enumerate(cells)
    )


def test_decimal_commas_are_read_and_thousands_points_beside_them(tmp_path: Path) -> None:
    bars = read_bars(put(tmp_path, brazil("1.234,5", "999,25")), tz="America/Sao_Paulo")
    assert bars.close.tolist() == [1234.5, 999.25]


def test_points_that_may_part_thousands_need_the_callers_word(tmp_path: Path) -> None:
    path = put(tmp_path, brazil("120.345", "120.350"))
    with pytest.raises(DataError, match=r"row 0 \(line 2\), column Abertura: the point in '120.345' may be"):
        read_bars(path, tz="America/Sao_Paulo")
    assert read_bars(path, tz="America/Sao_Paulo", price_scale=1000).close.tolist() == [120_345.0, 120_350.0]
    assert read_bars(path, tz="America/Sao_Paulo", price_scale=1).close.tolist() == [120.345, 120.35]


def test_a_comma_that_may_part_thousands_is_refused(tmp_path: Path) -> None:
    text = (
        "Date\tOpen\tHigh\tLow\tClose\n"
        + "2024-01-02\t4,780\t4,780\t4,780\t4,780\n2024-01-03\t4,780\t4,780\t4,780\t4,780\n"
    )
    with pytest.raises(DataError, match=r"row 0 \(line 2\), column Open: '4,780' is not a number"):
        read_bars(put(tmp_path, text), tz="UTC")


def test_values_that_stand_for_none_are_missing(tmp_path: Path) -> None:
    text = "time,open,high,low,close,average\n1715248800,1,2,0.5,1.5,3.4028234663852886e+38\n1715248860,1,2,0.5,1.5,2\n"
    assert np.isnan(read_bars(put(tmp_path, text)).extra["average"][0])
    undefined = (
        "ts_event,rtype,open,high,low,close,volume\n1715248800000000000,33,9223372036854775807,1000000000,"
        "1000000000,1000000000,1\n"
    )
    with pytest.raises(DataError, match=r"row 0 \(line 2\), column open: price is nan"):
        read_bars(put(tmp_path, undefined))


def test_text_that_is_not_unicode_is_read_only_where_its_names_are_known(tmp_path: Path) -> None:
    known = brazil("1,5", "2,5").encode("cp1252")
    assert read_bars(put(tmp_path, known), tz="UTC").close.tolist() == [1.5, 2.5]
    chinese = "日期,开盘,最高,最低,收盘\n20240102,1,2,0.5,1.5\n20240103,1,2,0.5,1.5\n".encode("gb18030")
    assert len(read_bars(put(tmp_path, chinese), tz="Asia/Shanghai")) == 2
    with pytest.raises(DataError, match="line 1 is not UTF-8 text; save the file as UTF-8"):
        read_bars(
            put(tmp_path, "time,open,high,low,close,Größe\n1715248800,1,2,0.5,1.5,3\n".encode("cp1252"))
        )


def test_a_stray_byte_in_a_row_is_named(tmp_path: Path) -> None:
    data = b"time,open,high,low,close\n1715248800,1,2,0.5,1.5\n1715248860,1,2,0.5,1.\xe55\n"
    with pytest.raises(DataError, match="line 3 is not UTF-8 text"):
        read_bars(put(tmp_path, data))


# --- lines -----------------------------------------------------------------------------------------


def test_a_delimiter_at_the_end_of_every_line_is_no_column(tmp_path: Path) -> None:
    for header_end in ("", ";"):
        text = f"time;open;high;low;close{header_end}\n1715248800;1;2;0.5;1.5;\n1715248860;1;2;0.5;1.5;\n"
        bars = read_bars(put(tmp_path, text))
        assert len(bars) == 2 and bars.extra == {}


def test_a_line_with_too_many_fields_is_named(tmp_path: Path) -> None:
    text = "time,open,high,low,close\n1715248800,1,2,0.5,1.5\n\n1715248860,1,2,0.5,1.5,9\n"
    with pytest.raises(
        DataError, match="the header names 5 columns but line 4 has 6 fields; correct or remove"
    ):
        read_bars(put(tmp_path, text))


def test_quoted_cells_may_hold_delimiters_but_must_be_closed(tmp_path: Path) -> None:
    text = 'time,open,high,low,close,note\n1715248800,"1",2,0.5,1.5,"a, b"\n1715248860,1,2,0.5,1.5,"c"\n'
    assert read_bars(put(tmp_path, text)).close.tolist() == [1.5, 1.5]
    with pytest.raises(DataError, match=r"line \d is not a regular row|line \d has \d fields?"):
        read_bars(put(tmp_path, text.replace('"c"', '"c')))


def test_rows_from_the_newest_to_the_oldest_are_read_in_time_order(tmp_path: Path) -> None:
    lines = [f"{1715248800 + 60 * i},1,2,0.5,{1 + i / 8}" for i in range(5)]
    text = "time,open,high,low,close\n" + "\n".join(lines[::-1]) + "\n"
    bars = read_bars(put(tmp_path, text))
    assert bars.close.tolist() == [1.0, 1.125, 1.25, 1.375, 1.5] and bars.repairs == ()
    with pytest.raises(DataError, match=r"row 3 \(line 5\), column close: 'x' is not a number"):
        read_bars(put(tmp_path, text.replace(",1.125", ",x")))


def test_newest_first_minutes_through_the_end_of_summer_time_stay_a_minute_apart(tmp_path: Path) -> None:
    import polars as pl

    first = int(np.datetime64("2024-11-03T06:00", "ns").astype(np.int64))
    expected = first + MINUTE * np.arange(180)
    wall = pl.Series(expected).cast(pl.Datetime("ns", "UTC")).dt.convert_time_zone("America/Chicago")
    text = table(wall.dt.strftime("%Y-%m-%d %H:%M").to_list()[::-1])
    assert read_bars(put(tmp_path, text), tz="America/Chicago").ts.tolist() == expected.tolist()


def test_a_quoted_cell_over_two_lines_makes_the_line_of_a_row_unknown(tmp_path: Path) -> None:
    text = 'time,open,high,low,close,note\n1715248800,1,2,0.5,1.5,"a\nb"\n1715248860,1,2,0.5,x,c\n'
    with pytest.raises(DataError, match="row 1, column close: 'x' is not a number"):
        read_bars(put(tmp_path, text))


@pytest.mark.parametrize("header", ["time," * 2_100, "x" * 70_000 + ",open,high,low,close"])
def test_a_first_line_too_long_for_a_header_is_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(DataError, match="line 1 is too long for the header of a table"):
        read_bars(put(tmp_path, header + "\n1,2,3,4,5\n"))


SPELLINGS = (
    ("Time", "%Y-%m-%d %H:%M:%S"),
    ("ts", "%Y-%m-%dT%H:%M:%SZ"),
    ("datetime", "%Y/%m/%d %H:%M"),
    ("Date;Time", "%Y.%m.%d;%H:%M:%S"),
    ("Date;Time", "%Y%m%d;%H%M%S"),
    ("timestamp", "%Y%m%d %H%M%S"),
    ("timestamp", "%s"),
)


@given(
    spelling=st.sampled_from(SPELLINGS),
    delimiter=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n", "\r", "\n\n", " \n"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    closes=st.lists(
        st.floats(-1e9, 1e9).filter(lambda price: price == 0 or abs(price) > 1e-9), min_size=2, max_size=30
    ),
    start=st.integers(0, 50_000_000),
)
def test_no_spelling_loses_or_changes_a_row(
    tmp_path_factory: pytest.TempPathFactory,
    spelling: tuple[str, str],
    delimiter: str,
    end: str,
    mark: bytes,
    closes: list[float],
    start: int,
) -> None:
    name, pattern = spelling
    first = datetime(1995, 1, 1, tzinfo=UTC) + timedelta(minutes=start // 2)
    times = [first + timedelta(minutes=i) for i in range(len(closes))]
    lines = [f"{name};Open;High;Low;Close;Turnover".replace(";", delimiter)]
    for time, close in zip(times, closes, strict=True):
        stamp = str(int(time.timestamp())) if pattern == "%s" else time.strftime(pattern)
        cells = [*stamp.split(";"), *([repr(close)] * 4), repr(close)]
        lines.append(delimiter.join(cells))
    path = put(tmp_path_factory.mktemp("spelling"), mark + (end.join(lines) + end).encode())
    bars = read_bars(path, tz="UTC", label="close")
    assert bars.ts.tolist() == [int(time.timestamp()) * 1_000_000_000 for time in times]
    assert bars.close.tolist() == bars.open.tolist() == bars.extra["Turnover"].tolist() == closes


@pytest.mark.parametrize(
    ("cells", "volume"),
    [(("1.23M", "980K"), [1_230_000.0, 980_000.0]), (("1.1B", "7"), [1_100_000_000.0, 7.0])],
)
def test_shortened_volumes_are_read_in_full(
    tmp_path: Path, cells: tuple[str, str], volume: list[float]
) -> None:
    rows = "".join(f"{1715248800 + 60 * i},1,2,0.5,1.5,{cell}\n" for i, cell in enumerate(cells))
    bars = read_bars(put(tmp_path, "time,open,high,low,close,volume\n" + rows))
    assert bars.volume is not None and bars.volume.tolist() == volume


@pytest.mark.parametrize("cell", ["1,23M", "1.23X", "M", "1.2.3K"])
def test_shortened_volumes_in_doubt_are_refused(tmp_path: Path, cell: str) -> None:
    text = f'time,open,high,low,close,volume\n1715248800,1,2,0.5,1.5,5K\n1715248860,1,2,0.5,1.5,"{cell}"\n'
    with pytest.raises(DataError, match=r"column volume: .* is not a number"):
        read_bars(put(tmp_path, text))


def test_a_currency_before_every_price_is_left_out_and_before_some_refused(tmp_path: Path) -> None:
    text = "time,open,high,low,close\n1715248800,$1,$2,$0.5,$1.5\n1715248860,$1,$2,$0.5,$1.25\n"
    assert read_bars(put(tmp_path, text)).close.tolist() == [1.5, 1.25]
    with pytest.raises(DataError, match=r"column close: '\$1.5' is not a number"):
        read_bars(put(tmp_path, text.replace("$1.25", "1.25")))
