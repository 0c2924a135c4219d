"""The public readers: options, instruments, several sources, and files written and read back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from market_files import GOOD, MINUTE, T0, put

from fox_env.bars import Bars
from fox_env.errors import ConfigError, DataError
from fox_env.readers import read_bars, read_columns, write_bars


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


def test_further_columns_of_any_name_are_read_back_as_they_were(tmp_path: Path) -> None:
    names = [
        "Close",
        "symbol",
        "instrument_id",
        "open_time",
        "time",
        "bid_close",
        "ask_close",
        "column_1",
        "price",
    ]
    extra = {name: np.array([number, number + 0.5]) for number, name in enumerate(names)}
    bars = Bars.from_arrays([T0, T0 + MINUTE], [9.0] * 2, [9.0] * 2, [9.0] * 2, [9.0] * 2, extra=extra)
    write_bars(bars, tmp_path / "bars.parquet")
    again = read_bars(tmp_path / "bars.parquet")
    assert again.ts.tolist() == bars.ts.tolist() and again.close.tolist() == [9.0, 9.0]
    assert {name: values.tolist() for name, values in again.extra.items()} == {
        name: values.tolist() for name, values in extra.items()
    }


@pytest.mark.parametrize("name", ["ts", "open", "volume", "roll_gap", "gap"])
def test_a_further_column_named_as_one_of_every_bar_cannot_be_written(tmp_path: Path, name: str) -> None:
    bars = Bars.from_arrays([T0], [1.0], [1.0], [1.0], [1.0], extra={name: [2.0]})
    with pytest.raises(DataError, match=f"the further column {name} has the name of a column of every bar"):
        write_bars(bars, tmp_path / "bars.parquet")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    bars = Bars.from_arrays([T0], [1.0], [1.0], [1.0], [1.0])
    with pytest.raises(DataError, match="cannot be written"):
        write_bars(bars, tmp_path / "absent" / "bars.parquet")


def test_several_contracts_in_one_file_are_named(tmp_path: Path) -> None:
    rows = "".join(f"{1715248800 + 60 * (i % 2)},{10 + i // 2},1,2,0.5,1.5\n" for i in range(4))
    with pytest.raises(DataError, match=r"holds 2 instruments \(10, 11\); pass symbol="):
        read_bars(put(tmp_path, "time,Expiry,open,high,low,close\n" + rows))


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        ({"tz": "Chicago"}, "tz='Chicago'"),
        ({"label": "end"}, "label='end'"),
        ({"format": "xls"}, "format='xls'"),
    ],
)
def test_unknown_hints_are_refused(tmp_path: Path, hints: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_bars(put(tmp_path, GOOD), **hints)


def test_an_asked_for_format_is_checked(tmp_path: Path) -> None:
    assert len(read_bars(put(tmp_path, GOOD), format="csv")) == 4
    with pytest.raises(DataError, match="format='parquet' was asked for, but the content is csv"):
        read_bars(put(tmp_path, GOOD), format="parquet")


def test_columns_are_read_without_refusing_faulty_rows(tmp_path: Path) -> None:
    columns = read_columns(put(tmp_path, GOOD.replace("860,1,2", "800,,2")))
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
