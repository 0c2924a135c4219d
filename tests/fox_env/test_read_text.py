"""Text tables: delimiters, headers, encodings, and what is kept of their columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
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


def test_a_volume_column_without_values_means_unknown(tmp_path: Path) -> None:
    assert (
        read_bars(put(tmp_path, "time,open,high,low,close,volume\n1715248800,1,2,0.5,1.5,\n")).volume is None
    )


def test_blank_lines_are_skipped_but_counted(tmp_path: Path) -> None:
    text = "\ntime,open,high,low,close\n\n1715248800,1,2,0.5,1.5\n\n1715248860,1,2,0.5,x\n\n"
    with pytest.raises(DataError, match=r"row 1 \(line 6\), column close: 'x' is not a number"):
        read_bars(put(tmp_path, text))
    assert len(read_bars(put(tmp_path, text.replace("x", "1.5")))) == 2
