"""Every way in which market files are damaged, on files of several vendors: bars as they are, or one sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from look_alikes import CLOSES, LOOK_ALIKES, LookAlike
from market_files import put

from fox_env.bars import Bars
from fox_env.errors import DataError
from fox_env.readers import read_bars

BY_NAME = {kind.name: kind for kind in LOOK_ALIKES}


class Kind(NamedTuple):
    """A look-alike, how its fields are parted, its lines before the first row, and where open to close stand."""

    name: str
    delimiter: str
    header: int
    prices: tuple[int, int, int, int]
    volume: int


KINDS = [
    Kind("CME minutes", ",", 1, (1, 2, 3, 4), 5),
    Kind("NinjaTrader", ";", 0, (1, 2, 3, 4), 5),
    Kind("MetaTrader 5", "\t", 1, (2, 3, 4, 5), 6),
    Kind("yfinance minutes", ",", 3, (4, 2, 3, 1), 5),
    Kind("Databento, pretty", ",", 1, (4, 5, 6, 7), 8),
    Kind("TradingView epochs", ",", 1, (1, 2, 3, 4), 8),
]
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@dataclass
class File:
    """The lines of a look-alike, to be damaged."""

    kind: Kind
    alike: LookAlike
    lines: list[str]

    @classmethod
    def of(cls, kind: Kind) -> File:
        alike = BY_NAME[kind.name]
        return cls(kind, alike, alike.content.decode().splitlines())

    def line(self, row: int) -> int:
        """Return the line of a row, from 1."""
        return self.kind.header + row + 1

    def set(self, row: int, position: int, cell: str) -> None:
        cells = self.lines[self.line(row) - 1].split(self.kind.delimiter)
        cells[position] = cell
        self.lines[self.line(row) - 1] = self.kind.delimiter.join(cells)

    def content(self, end: str = "\n") -> bytes:
        return (end.join(self.lines) + end).encode()


def read(folder: Path, file: File, content: bytes | None = None, repair: tuple[str, ...] = ()) -> Bars:
    return read_bars(
        put(folder, file.content() if content is None else content), repair=repair, **file.alike.options
    )


def refusal(folder: Path, file: File, content: bytes | None = None) -> str:
    """Read a file that must be refused; return its sentence without the path."""
    with pytest.raises(DataError) as caught:
        read(folder, file, content)
    message = str(caught.value)
    assert message.startswith(str(folder / "bars.csv: ")) and message.endswith(".") and "\n" not in message
    return message.removeprefix(str(folder / "bars.csv: "))


@EACH
@pytest.mark.parametrize("fields", [1, 3])
def test_a_line_cut_short_is_named(tmp_path: Path, kind: Kind, fields: int) -> None:
    file = File.of(kind)
    file.lines[-1] = kind.delimiter.join(file.lines[-1].split(kind.delimiter)[:fields])
    assert re.search(
        rf"columns but line {file.line(5)} has {fields} fields?; correct", refusal(tmp_path, file)
    )


@EACH
def test_a_nul_byte_is_named(tmp_path: Path, kind: Kind) -> None:
    file = File.of(kind)
    file.lines[file.line(2) - 1] += "\0"
    assert f"line {file.line(2)} holds " in refusal(tmp_path, file)


@EACH
def test_mixed_line_ends_and_a_missing_last_one_change_nothing(tmp_path: Path, kind: Kind) -> None:
    file = File.of(kind)
    ends = ["\r\n", "\n", "\r"]
    mixed = "".join(line + ends[i % 3] for i, line in enumerate(file.lines)).rstrip("\r\n")
    assert read(tmp_path, file, mixed.encode()).close.tolist() == list(CLOSES)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.header == 1], ids=lambda kind: kind.name)
def test_a_repeated_header_is_named(tmp_path: Path, kind: Kind) -> None:
    file = File.of(kind)
    file.lines.insert(4, file.lines[0])
    assert refusal(tmp_path, file).startswith("line 5 repeats the header line; remove")


@EACH
@pytest.mark.parametrize("cell", ['"1,100.25"', "1'100.25", "1.00.25", "0x64", "12e", "one"])
def test_a_cell_that_is_no_number_is_shown(tmp_path: Path, kind: Kind, cell: str) -> None:
    file = File.of(kind)
    file.set(3, kind.prices[3], cell)
    message = refusal(tmp_path, file)
    assert re.match(rf"row 3 \(line {file.line(3)}\), column <?close>?: ", message, re.IGNORECASE)
    assert cell.strip('"') in message and "is not a number; write it with a decimal point" in message


@EACH
@pytest.mark.parametrize("cell", ["", "NaN", "null", "-", "#N/A", "inf", "1e999"])
def test_a_price_that_is_not_finite_is_named_or_its_row_dropped(
    tmp_path: Path, kind: Kind, cell: str
) -> None:
    file = File.of(kind)
    file.set(3, kind.prices[0], cell)
    assert re.match(
        rf"row 3 \(line {file.line(3)}\), column open: price is (nan|inf); .*repair=", refusal(tmp_path, file)
    )
    repaired = read(tmp_path, file, repair=("drop_non_finite",))
    assert len(repaired) == 5 and repaired.repairs[-1].startswith("drop_non_finite: 1 row")


@EACH
def test_equal_times_with_different_prices_are_named_or_one_is_kept(tmp_path: Path, kind: Kind) -> None:
    file = File.of(kind)
    file.lines.insert(file.line(3), file.lines[file.line(3) - 1])
    file.set(4, kind.prices[3], file.lines[file.line(2) - 1].split(kind.delimiter)[kind.prices[3]])
    message = refusal(tmp_path, file)
    assert re.match(rf"row 4 \(line {file.line(4)}\), column ", message)
    if "repeats the row before" in message:
        assert len(read(tmp_path, file, repair=("keep_first",))) == 6


@EACH
def test_a_row_out_of_order_is_named_or_sorted(tmp_path: Path, kind: Kind) -> None:
    file = File.of(kind)
    expected = read(tmp_path, file).ts
    two, three = file.line(2) - 1, file.line(3) - 1
    file.lines[two], file.lines[three] = file.lines[three], file.lines[two]
    message = refusal(tmp_path, file)
    assert re.match(
        rf"row 3 \(line {file.line(3)}\), column ts: time .* is earlier than .*repair=\('sort',\)", message
    )
    sorted_bars = read(tmp_path, file, repair=("sort",))
    np.testing.assert_array_equal(sorted_bars.ts, expected)
    assert sorted_bars.close.tolist() == list(CLOSES)


@EACH
@pytest.mark.parametrize(
    ("position", "cell", "column"),
    [(3, "0", "low"), (1, "90", "high"), (3, "1002.5", "high"), (2, "1000", "low")],
)
def test_a_zero_a_spike_or_a_high_below_the_low_is_named(
    tmp_path: Path, kind: Kind, position: int, cell: str, column: str
) -> None:
    file = File.of(kind)
    file.set(2, kind.prices[position], cell)
    message = refusal(tmp_path, file)
    assert re.match(rf"row 2 \(line {file.line(2)}\), column {column}: {column} .*repair=", message)
    assert len(read(tmp_path, file, repair=("drop_bad_ohlc",))) == 5


@EACH
def test_negative_volume_is_named(tmp_path: Path, kind: Kind) -> None:
    file = File.of(kind)
    file.set(1, kind.volume, "-3")
    assert f"row 1 (line {file.line(1)}), column volume: volume is -3.0" in refusal(tmp_path, file)


@EACH
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_other_encodings_of_unicode_change_nothing(tmp_path: Path, kind: Kind, encoding: str) -> None:
    file = File.of(kind)
    assert read(tmp_path, file, file.content().decode().encode(encoding)).close.tolist() == list(CLOSES)


@EACH
def test_an_empty_file_and_a_lone_header_are_refused(tmp_path: Path, kind: Kind) -> None:
    file = File.of(kind)
    assert refusal(tmp_path, file, b"") == "the file is empty; give a file with rows."
    if kind.header:
        file.lines = file.lines[: kind.header]
        assert "has a header line but no rows" in refusal(tmp_path, file)


@EACH
def test_a_single_row_is_a_bar_where_its_close_is_known(tmp_path: Path, kind: Kind) -> None:
    file = File.of(kind)
    file.lines = file.lines[: kind.header + 1]
    known = kind.name in ("CME minutes", "NinjaTrader", "Databento, pretty")
    if known:
        assert read(tmp_path, file).close.tolist() == [100.25]
    else:
        assert "need at least two rows to find the interval" in refusal(tmp_path, file)


@EACH
@pytest.mark.parametrize("cell", ["", "soon", "2024-02-30 10:00:00", "99999999999999999999"])
def test_a_time_that_is_none_is_shown(tmp_path: Path, kind: Kind, cell: str) -> None:
    file = File.of(kind)
    file.set(3, 0, cell)
    assert re.match(rf"row 3 \(line {file.line(3)}\), column \S+", refusal(tmp_path, file))


def test_a_night_session_dated_by_the_next_trading_day_is_told(tmp_path: Path) -> None:
    times = ("15:00", "23:59", "00:00", "00:01")
    text = "<Date>, <Time>, <Open>, <High>, <Low>, <Close>\n" + "".join(
        f"2019/7/2, {t}, 1, 2, 0.5, 1.5\n" for t in times
    )
    with pytest.raises(
        DataError, match=r"row 2 \(line 4\), column ts: .*write calendar dates if nights bear the date"
    ):
        read_bars(put(tmp_path, text), tz="Asia/Shanghai")
