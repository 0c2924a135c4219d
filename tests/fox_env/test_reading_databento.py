"""Databento's records as text and frames give the bars that the DBN file of the same records gives."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fox_env.bars import Bars
from fox_env.errors import DataError
from fox_env.readers import read_bars

vendor = pytest.importorskip("databento_dbn", reason="reading DBN needs fox-futures[data]")

from dbn_files import ES, MINUTE, START, book, dbn, fixed, mapping, trade  # noqa: E402

SECOND = 1_000_000_000
MAP = [mapping("ESM4", ("2024-05-09", "2024-05-10", ES))]


def level(i: int) -> Any:
    """Return the book's prices and sizes at a depth."""
    return vendor.BidAskPair(fixed(100 - i), fixed(100.5 + i), 10 + i, 20 + i, 1, 1)


def deep(after_ns: int, action: Any) -> Any:
    """Return an mbp-10 record."""
    levels = [level(i) for i in range(10)]
    return vendor.MBP10Msg(
        1, ES, START, fixed(100.5), 3, action, vendor.Side.BID, 0, START + after_ns, levels=levels
    )


def sampled(minute: int) -> Any:
    """Return a bbo-1m record."""
    stamp = START + minute * MINUTE
    side = vendor.Side.NONE
    return vendor.BBOMsg(
        vendor.RType.BBO_1M, 1, ES, stamp - 9, fixed(100), 2, side, stamp, levels=level(minute)
    )


def order() -> Any:
    """Return an mbo record."""
    return vendor.MBOMsg(1, ES, START, 7, fixed(100), 2, vendor.Action.ADD, vendor.Side.BID, START + 1)


FILES = {
    "trades": [trade(i * 7 * SECOND, 5200 + i % 5 / 4, 1 + i % 4, "BAN"[i % 3]) for i in range(60)],
    "mbp-1": [
        book(
            i * 5 * SECOND,
            (99.5 - i % 3, 4 + i % 5) if i % 11 else (None, 0),
            (100.0 + i % 2, 6 + i % 7),
            (100.0, 1 + i % 3, "BA"[i % 2]) if i % 4 == 0 else None,
            flags=160 if i % 13 == 0 else 128,
        )
        for i in range(90)
    ],
    "mbp-10": [deep(i * SECOND, vendor.Action.TRADE if i % 2 else vendor.Action.CANCEL) for i in range(90)],
    "bbo-1m": [sampled(minute) for minute in range(1, 6)],
}


def as_text(data: bytes, pretty: bool) -> bytes:
    """Return the vendor's own CSV of DBN data, with decimals and ISO times or with integers."""
    out = io.BytesIO()
    writer = vendor.Transcoder(
        out,
        vendor.Encoding.CSV,
        vendor.Compression.NONE,
        pretty_px=pretty,
        pretty_ts=pretty,
        map_symbols=True,
    )
    writer.write(data)
    writer.finish()
    return out.getvalue()


def same(found: Bars, expected: Bars) -> None:
    """Assert that two bars are equal to the byte, with their further columns."""
    for name in ("ts", "open", "high", "low", "close"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    assert (found.volume is None) == (expected.volume is None)
    assert found.volume is None or np.array_equal(found.volume, expected.volume)
    assert found.extra.keys() == expected.extra.keys()
    for name, values in expected.extra.items():
        assert found.extra[name].tobytes() == values.tobytes(), name
    assert found.repairs == expected.repairs


@pytest.mark.parametrize("schema", FILES)
def test_text_and_frames_give_the_bars_of_the_dbn_file(tmp_path: Path, schema: str) -> None:
    data = dbn(schema, FILES[schema], MAP)
    (tmp_path / "dbn").write_bytes(data)
    expected = read_bars(tmp_path / "dbn", bars="1min")
    assert len(expected) >= 2
    for pretty in (True, False):
        (tmp_path / "csv").write_bytes(as_text(data, pretty))
        same(read_bars(tmp_path / "csv", bars="1min"), expected)
    frame = pl.read_csv(as_text(data, True), try_parse_dates=True)
    same(
        read_bars(frame.with_columns(pl.col("ts_recv").cast(pl.Datetime("ns", "UTC"))), bars="1min"), expected
    )


def test_only_records_of_trades_make_volume(tmp_path: Path) -> None:
    (tmp_path / "csv").write_bytes(as_text(dbn("mbp-1", FILES["mbp-1"], MAP), True))
    bars = read_bars(tmp_path / "csv", bars="1min")
    assert bars.volume is not None
    assert bars.volume.sum() == sum(1 + i % 3 for i in range(0, 90, 4))
    assert bars.close.tolist() == [100.0] * len(bars)


def test_orders_are_refused_as_in_dbn_files(tmp_path: Path) -> None:
    text = as_text(dbn("mbo", [order(), order()], MAP), True)
    (tmp_path / "csv").write_bytes(text)
    with pytest.raises(
        DataError, match=r"csv: holds mbo \(2\) records, which make no bars; fetch the ohlcv-1m"
    ):
        read_bars(tmp_path / "csv", bars="1min")
    frame = pl.read_csv(text).drop("rtype")
    with pytest.raises(DataError, match=r"holds mbo \(2\) records"):
        read_bars(frame, bars="1min")


@pytest.mark.parametrize("schema", ["trades", "mbp-1", "bbo-1m"])
def test_without_the_record_type_the_columns_tell_the_schema(tmp_path: Path, schema: str) -> None:
    data = dbn(schema, FILES[schema], MAP)
    (tmp_path / "dbn").write_bytes(data)
    frame = pl.read_csv(as_text(data, False)).drop("rtype")
    same(read_bars(frame, bars="1min"), read_bars(tmp_path / "dbn", bars="1min"))


def test_a_column_that_was_left_out_is_named(tmp_path: Path) -> None:
    frame = pl.read_csv(as_text(dbn("mbp-1", FILES["mbp-1"], MAP), True)).drop("price")
    with pytest.raises(DataError, match="no column for price; export all columns"):
        read_bars(frame, bars="1min")
