"""Faulty files: the one sentence that each kind of damage gives."""

from __future__ import annotations

import contextlib
import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from market_files import GOOD, HEADER, put, table

from fox_env.errors import DataError
from fox_env.readers import read_bars


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        (" \n\n", "the file is empty"),
        (HEADER, "has a header line but no rows"),
        (HEADER + "\n\n", "has a header line but no rows"),
        ("time,price,volume\n1715248800,1,2\n", "holds trades, not bars; pass bars= with a size"),
        ("a,open,high,low,close\n1,2,3,4,5\n", "no column for a time among a, open, high, low, close"),
        ("hello world\nthis is text\n", "no column for a time, open, high, low, close among hello world"),
        ("20240102 093000;1;2;0.5;soon;7\n", "no header line and its rows, such as 20240102 093000;1;2;0.5;soon;7"),
        ("1715248800,1,2,0.5\n", "has no header line and its rows, such as 1715248800,1,2,0.5, are of no known"),
        (GOOD.replace("860,1,2", "860,,2"), "row 1 (line 3), column open: price is nan"),
        (GOOD.replace("860,1,2", "860,NaN,2"), "row 1 (line 3), column open: price is nan"),
        (GOOD.replace("920,1,2", "920,null,2"), "row 2 (line 4), column open: price is nan"),
        (GOOD.replace("920,1,2", '920,"1,000",2'), "row 2 (line 4), column open: '1,000' is not a number"),
        (GOOD.replace("980,1,2,0.5,1.5,7\n", "980,1,2,0.5"), "the header names 6 columns but line 5 has 4 fields"),
        (GOOD.removesuffix("7\n"), "row 3 (line 5), column volume: volume is nan"),
        (GOOD.removesuffix("7\n") + "-7\n", "row 3 (line 5), column volume: volume is -7.0"),
        (GOOD.replace("920,1,2", "920,1,1.25"), "row 2 (line 4), column high: high 1.25 is below"),
        (GOOD.replace("1715248860", "1715248980"), "row 2 (line 4), column ts: time 2024-05-09T10:02:00 UTC"),
        (GOOD.replace("8860", "8800"), "row 1 (line 3), column ts: time 2024-05-09T10:00:00 UTC repeats"),
        (GOOD.replace("1715248860", ""), "row 1 (line 3), column time: the time is missing"),
        (GOOD.replace("1715248860", "soon"), "row 1 (line 3), column time: 'soon' is not a number"),
        (GOOD.replace("8860", "8860000"), "row 1 (line 3), column time: 1715248860000 is a time in ms"),
        (GOOD.replace("1715248920", HEADER + "1715248920"), "line 4 repeats the header line; remove that line"),
        (GOOD.replace("920,1,2,0.5", "920,1,2,0.5,9"), "the header names 6 columns but line 4 has 7 fields"),
        (GOOD.replace("860,1", "860,\x001"), "line 3 holds a NUL byte"),
        (table(["2024-02-30 10:00", "2024-03-01 10:00"]), "row 0 (line 2), column timestamp: '2024-02-30"),
        (table(["2024-02-28 10:00", "2024-02-28 24:01"]), "row 1 (line 3), column timestamp: '2024-02-28 24"),
        (table(["01/02/2024 10:00", "01/02/2024 10:01"]), "may begin with the day or the month; pass date_order='dmy'"),
        (table(["2024-02-28 10:00Z", "2024-02-28 10:01"]), "row 1 (line 3), column timestamp: '2024-02-28"),
        (GOOD.encode("utf-16")[:-1], "the UTF-16 text is damaged"),
        (GOOD.replace("time", "t\u00e9me").encode("latin-1"), "line 1 is not UTF-8 text"),
        (b"PK\x03\x04rest", "the zip archive is cut short or damaged"),
        (b"DBN\x03rest", "the DBN data are cut short"),
        (b"\x28\xb5\x2f\xfdrest", "the Zstandard data are cut short or damaged"),
        (b"PAR1 and nothing useful PAR1", "the Parquet data are cut short or damaged"),
        (gzip.compress(GOOD.encode(), mtime=0)[:-12], "the gzip data are cut short or damaged"),
        (b"\x1f\x8b" + b"\xff" * 40, "the gzip data are cut short or damaged"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
    ],
)  # fmt: skip
def test_faulty_files_give_one_sentence(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = put(tmp_path, content)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_bars(path, tz="UTC")
    text = str(caught.value)
    assert text.startswith(str(path)) and text.endswith(".") and "\n" not in text


def test_a_roll_gap_must_be_a_number_everywhere(tmp_path: Path) -> None:
    text = "time,open,high,low,close,roll_gap\n1715248800,1,2,0.5,1.5,0\n1715248860,1,2,0.5,1.5,{}\n"
    rolls = read_bars(put(tmp_path, text.format("0.25"))).roll_gap
    assert rolls is not None and rolls.tolist() == [0.0, 0.25]
    with pytest.raises(DataError, match=r"row 1 \(line 3\), column roll_gap"):
        read_bars(put(tmp_path, text.format("")))


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


def test_a_long_cell_is_shown_by_its_start(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD.replace("860,1,2", f"860,{'x' * 3_000},2"))
    with pytest.raises(DataError, match=r"column open: 'x{57}\.\.\.' is not a number") as caught:
        read_bars(path)
    assert len(str(caught.value)) < 500
