"""One set of bars through every container gives the same bytes, whatever the unit, the zone or the machine."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fox_env.bars import Bars
from fox_env.errors import DataError
from fox_env.readers import read_bars, read_symbols, write_bars
from fox_env.reading.frames import arrow_table, frame_table, parquet_table

T0 = 1_715_248_800_000_000_000  # 2024-05-09 10:00:00 UTC
MINUTE = 60_000_000_000
ROWS = 500
CHICAGO = "America/Chicago"


def reference() -> pl.DataFrame:
    """Return minutes with two pauses, prices with awkward decimals and their closes in ns UTC."""
    rng = np.random.default_rng(3)
    minute = np.arange(ROWS) + 45 * (np.arange(ROWS) > 200) + 3 * (np.arange(ROWS) > 350)
    close = (520_000 + rng.integers(-300, 300, ROWS).cumsum()) / 100
    open_ = np.append(close[0], close[:-1])
    high = np.maximum(open_, close) + rng.integers(0, 50, ROWS) / 100
    low = np.minimum(open_, close) - rng.integers(0, 50, ROWS) / 100
    prices = {"open": open_, "high": high, "low": low, "close": close}
    times = pl.Series("timestamp", T0 + (minute + 1) * MINUTE).cast(pl.Datetime("ns", "UTC"))
    columns = [pl.Series(name, np.round(values, 2)) for name, values in prices.items()]
    return pl.DataFrame([times, *columns, pl.Series("volume", rng.integers(0, 900, ROWS))])


def same(found: Bars, expected: Bars) -> None:
    """Assert that two bars are equal to the byte."""
    for name in ("ts", "open", "high", "low", "close", "volume", "session_end", "gap"):
        one, two = getattr(found, name), getattr(expected, name)
        assert one.dtype == two.dtype
        assert one.tobytes() == two.tobytes(), name
    assert found.extra.keys() == expected.extra.keys()


def parquet(path: Path, frame: pl.DataFrame) -> Path:
    """Write a frame as Parquet."""
    frame.write_parquet(path)
    return path


def text(path: Path, frame: pl.DataFrame) -> Path:
    """Write a frame as CSV, times as ISO with an offset."""
    frame.write_csv(path, datetime_format="%Y-%m-%dT%H:%M:%S.%f%:z")
    return path


def vendor_text(path: Path, frame: pl.DataFrame) -> Path:
    """Write a frame as Databento does: the time of the open, prices with nine decimals."""
    opens = (
        (pl.col("timestamp") - pl.duration(minutes=1)).dt.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").alias("ts_event")
    )
    frame = frame.select(
        opens,
        pl.lit(33).alias("rtype"),
        pl.lit(1).alias("publisher_id"),
        pl.lit(5602).alias("instrument_id"),
        pl.col("open", "high", "low", "close"),
        pl.col("volume"),
        pl.lit("ESM4").alias("symbol"),
    )
    frame.write_csv(path, float_precision=9)
    return path


def stream(path: Path, frame: pl.DataFrame) -> Path:
    """Write a frame as an Arrow IPC stream."""
    frame.write_ipc_stream(path)
    return path


def feather(path: Path, frame: pl.DataFrame) -> Path:
    """Write a frame as Feather, version 2."""
    frame.write_ipc(path, compression="lz4")
    return path


def dbn_file(path: Path, frame: pl.DataFrame) -> Path:
    """Write a frame as DBN."""
    pytest.importorskip("databento_dbn", reason="reading DBN needs fox-futures[data]")
    import dbn_files

    times = (frame["timestamp"].dt.timestamp("ns") - dbn_files.START) // MINUTE - 1
    prices = frame.select("open", "high", "low", "close").rows()
    bars = map(dbn_files.bar, times.to_list(), prices, frame["volume"].to_list())
    path.write_bytes(dbn_files.dbn("ohlcv-1m", bars))
    return path


def in_unit(unit: Any, zone: str = "UTC") -> Callable[[Path, pl.DataFrame], Path]:
    """Return a writer of Parquet with times in a unit and a zone."""

    def write(path: Path, frame: pl.DataFrame) -> Path:
        times = pl.col("timestamp").dt.convert_time_zone(zone).dt.cast_time_unit(unit)
        return parquet(path, frame.with_columns(times))

    return write


def decimals(path: Path, frame: pl.DataFrame) -> Path:
    """Write prices as decimals."""
    return parquet(path, frame.with_columns(pl.col("open", "high", "low", "close").cast(pl.Decimal(18, 9))))


WRITERS = {
    "csv": text,
    "databento csv": vendor_text,
    "parquet ms": in_unit("ms"),
    "parquet us": in_unit("us"),
    "parquet ns": in_unit("ns"),
    "parquet of another zone": in_unit("us", "Asia/Tokyo"),
    "parquet of decimals": decimals,
    "arrow file": feather,
    "arrow stream": stream,
    "dbn": dbn_file,
}


@pytest.fixture(scope="module")
def expected() -> Bars:
    """Return the bars built from arrays."""
    frame = reference()
    prices = {name: frame[name].to_numpy() for name in ("open", "high", "low", "close")}
    return Bars.from_arrays(
        frame["timestamp"].dt.timestamp("ns").to_numpy(), **prices, volume=frame["volume"]
    )


@pytest.mark.parametrize("container", WRITERS)
def test_files_of_every_container_give_the_same_bytes(tmp_path: Path, container: str, expected: Bars) -> None:
    path = WRITERS[container](tmp_path / "bars.bin", reference())
    same(read_bars(path), expected)


def test_bars_written_and_read_back_are_the_same_bytes(tmp_path: Path, expected: Bars) -> None:
    write_bars(expected, tmp_path / "bars")
    same(read_bars(tmp_path / "bars"), expected)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_polars_frames_give_the_same_bytes(unit: Any, expected: Bars) -> None:
    frame = reference().with_columns(pl.col("timestamp").dt.cast_time_unit(unit))
    same(read_bars(frame), expected)
    same(read_bars(frame.lazy()), expected)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("place", ["index", "unnamed index", "column"])
@pytest.mark.parametrize("zone", ["UTC", CHICAGO, None])
def test_pandas_frames_give_the_same_bytes(unit: str, place: str, zone: str | None, expected: Bars) -> None:
    pd = pytest.importorskip("pandas")
    times = pd.DatetimeIndex(reference()["timestamp"].dt.timestamp("ns").to_numpy(), name="timestamp")
    times = times.as_unit(unit).tz_localize("UTC").tz_convert(zone or CHICAGO)
    times = times if zone else times.tz_localize(None)
    frame = pd.DataFrame(
        {name: reference()[name].to_numpy() for name in reference().columns[1:]}, index=times
    )
    if place == "column":
        frame = frame.reset_index()
    if place == "unnamed index":
        frame.index.name = None
    same(read_bars(frame, tz=None if zone else CHICAGO), expected)


def test_pandas_columns_of_every_type_are_understood(expected: Bars) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({name: reference()[name].to_numpy() for name in reference().columns[1:]})
    frame["open"] = frame["open"].astype("Float64")
    frame["high"] = [Decimal(f"{value:.2f}") for value in frame["high"]]
    frame["low"] = frame["low"].map("{:.2f}".format)
    frame["volume"] = frame["volume"].astype("UInt32")
    frame["symbol"] = pd.Categorical(["ES"] * ROWS)
    frame["timestamp"] = reference()["timestamp"].dt.strftime("%Y-%m-%d %H:%M:%S+00:00").to_list()
    read = read_symbols(frame)
    assert list(read) == ["ES"]
    same(read["ES"], expected)


def test_arrow_tables_give_the_same_bytes(expected: Bars) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = reference().to_arrow()
    same(read_bars(table), expected)
    same(read_bars(table.combine_chunks().to_batches()[0]), expected)
    times = table.column("timestamp").cast(pyarrow.timestamp("s", "UTC"))
    same(read_bars(table.set_column(0, "timestamp", times)), expected)


def test_daily_bars_are_the_same_from_text_dates_and_midnights(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    days = pl.date_range(pl.date(2024, 3, 4), pl.date(2024, 3, 15), eager=True).alias("Date")
    prices = pl.DataFrame({name: np.full(12, 10.0) for name in ("Open", "High", "Low", "Close", "Volume")})
    frame = prices.insert_column(0, days)
    frame.write_csv(tmp_path / "days")
    expected = read_bars(tmp_path / "days", tz=CHICAGO)
    midnights = frame.with_columns(pl.col("Date").cast(pl.Datetime("us")))
    pandas = pd.DataFrame(
        prices.to_dict(as_series=False), index=pd.DatetimeIndex(days.to_list(), name="Date")
    )
    for source in (frame, midnights, parquet(tmp_path / "p", midnights), pandas):
        same(read_bars(source, tz=CHICAGO), expected)


def test_the_one_ticker_of_two_levels_of_columns_is_taken_and_of_several_one_must_be_picked() -> None:
    pd = pytest.importorskip("pandas")
    index = pd.date_range("2024-05-09 10:01", periods=3, freq="min", tz="UTC", name="Datetime")
    fields = ["Open", "High", "Low", "Close", "Volume"]
    one = pd.DataFrame(1.0, index, pd.MultiIndex.from_product([fields, ["ES=F"]], names=["Price", "Ticker"]))
    assert read_bars(one).close.tolist() == [1, 1, 1]
    two = pd.DataFrame(1.0, index, pd.MultiIndex.from_product([fields, ["ES=F", "NQ=F"]]))
    with pytest.raises(DataError, match=r"several names \(ES=F, NQ=F\); select one"):
        read_bars(two)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda pd: pd.DataFrame({"open": []}), "there are no rows"),
        (
            lambda pd: pd.DataFrame({"open": [1, "x", object()]}),
            "column open has type object and mixed cells",
        ),
    ],
)
def test_frames_that_cannot_be_read_are_refused(make: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        frame_table(make(pytest.importorskip("pandas")))


def damaged(data: bytes, count: int) -> list[bytes]:
    """Return data cut at some places, and with bytes changed at others."""
    rng = np.random.default_rng(0)
    parts = [data[:size] for size in np.linspace(8, len(data) - 1, count, dtype=int)]
    for _ in range(count):
        changed = bytearray(data)
        for place in rng.integers(8, len(data), 3):
            changed[place] ^= int(rng.integers(1, 256))
        parts.append(bytes(changed))
    return parts


@pytest.mark.parametrize(
    ("kind", "read", "write", "count"),
    [
        ("Parquet", parquet_table, pl.DataFrame.write_parquet, 4),
        ("Arrow", arrow_table, pl.DataFrame.write_ipc, 4),
        ("Arrow", arrow_table, pl.DataFrame.write_ipc_stream, 4),
    ],
)
def test_damaged_files_give_a_table_or_one_sentence(kind: str, read: Any, write: Any, count: int) -> None:
    file = io.BytesIO()
    write(reference(), file)
    sentences = []
    for data in damaged(file.getvalue(), count):
        try:
            assert read(data, "f").frame.height > 0
        except DataError as error:
            sentences.append(str(error))
    assert len(sentences) >= count
    assert set(sentences) == {f"f: the {kind} data are cut short or damaged; write the file again."}


def with_a_fatal_length(kind: str) -> bytes:
    """Return data that make polars end the process."""
    word = "a word of more than twelve letters"
    frame = pl.DataFrame({"text": [f"{word} {i:04}" for i in range(100)]})
    file = io.BytesIO()
    if kind == "arrow":
        frame.write_ipc_stream(file, compression="uncompressed")
        sound = (100 * (len(word) + 5)).to_bytes(8, "little")  # the length of the buffer of the letters
        fatal = (1 << 55).to_bytes(8, "little")
    else:
        frame.write_parquet(file)
        sound, fatal = (
            b"\x2c\x15\xc8\x01\x15",
            b"\x2c\x15\xc9\x01\x15",
        )  # the values of a page: 100 become -101
    assert sound in file.getvalue()
    return file.getvalue().replace(sound, fatal, 1)


@pytest.mark.parametrize(("kind", "read"), [("arrow", arrow_table), ("parquet", parquet_table)])
def test_a_length_that_makes_polars_end_the_process_is_one_sentence(kind: str, read: Any) -> None:
    with pytest.raises(DataError, match=f"the {kind.capitalize()} data are cut short or damaged"):
        read(with_a_fatal_length(kind), "f")


def test_sound_files_are_tried_once_and_those_written_here_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Bars
) -> None:
    tries: list[Any] = []
    run = subprocess.run

    def counted(*arguments: Any, **options: Any) -> Any:
        tries.append(arguments)
        return run(*arguments, **options)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "run", counted)
    parquet(tmp_path / "foreign", reference())
    write_bars(expected, tmp_path / "own")
    for _ in range(2):
        same(read_bars(tmp_path / "foreign"), expected)
        same(read_bars(tmp_path / "own"), expected)
    assert len(tries) == 1


def test_where_no_process_can_be_started_files_are_read_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Bars
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "run", refuse)
    same(read_bars(parquet(tmp_path / "bars", reference())), expected)


def test_an_arrow_stream_without_its_end_is_refused_though_whole_batches_are_left() -> None:
    file = io.BytesIO()
    reference().write_ipc_stream(file)
    with pytest.raises(DataError, match="cut short"):
        arrow_table(file.getvalue()[:-8], "f")


def test_more_cells_than_memory_should_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    reference().write_parquet(file)
    monkeypatch.setattr("fox_env.reading.frames._MAX_CELLS", 6 * ROWS - 1)
    with pytest.raises(DataError, match="more than 2,999 cells"):
        parquet_table(file.getvalue(), "f")


ELSEWHERE = """
import hashlib, sys
import polars as pl
from fox_env.readers import read_bars
digest = hashlib.sha256()
sources = [(path, None) for path in sys.argv[1:]]
frame = pl.read_parquet(sys.argv[1]).with_columns(pl.col("timestamp").dt.replace_time_zone(None))
sources.append((frame, "America/Chicago"))
for source, tz in sources:
    bars = read_bars(source, tz=tz)
    for name in ("ts", "open", "high", "low", "close", "volume", "gap"):
        digest.update(getattr(bars, name).tobytes())
assert "pandas" not in sys.modules
print(digest.hexdigest())
"""


def test_neither_the_machines_zone_nor_its_locale_changes_a_byte(tmp_path: Path) -> None:
    paths = [str(in_unit("us")(tmp_path / "p", reference())), str(text(tmp_path / "t", reference()))]
    digests = set()
    for zone, locale in (("UTC", "C"), ("Asia/Tokyo", "de_DE.UTF-8"), ("America/New_York", "C.UTF-8")):
        environment = {**os.environ, "TZ": zone, "LC_ALL": locale}
        run = subprocess.run(
            [sys.executable, "-c", ELSEWHERE, *paths],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(run.stdout)
    assert len(digests) == 1
