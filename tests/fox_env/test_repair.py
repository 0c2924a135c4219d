"""Repairs change the rows they name, no others, and say how many and which first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fox_env.bars import Bars, find_faults
from fox_env.errors import ConfigError, DataError
from fox_env.repair import REPAIRS, check_repairs, repair_columns
from fox_env.validation import KINDS


def columns(**changed: Any) -> dict[str, Any]:
    """Return four clean bars with the columns given in place of their own."""
    clean: dict[str, Any] = {
        "ts": np.array([1, 2, 3, 4]),
        "open": np.array([10.0, 11.0, 12.0, 13.0]),
        "high": np.array([12.0, 13.0, 14.0, 15.0]),
        "low": np.array([9.0, 10.0, 11.0, 12.0]),
        "close": np.array([11.0, 12.0, 13.0, 14.0]),
        "volume": np.array([1.0, 2.0, 3.0, 4.0]),
    }
    return clean | {name: np.array(values) for name, values in changed.items()}


@pytest.mark.parametrize(
    ("name", "faulty", "ts", "column", "values", "sentence"),
    [
        (
            "sort",
            {"ts": [3, 1, 2, 4]},
            [1, 2, 3, 4],
            "close",
            [12, 13, 11, 14],
            "sort: 1 row earlier than the row before, first row 1: all rows put in time order",
        ),
        (
            "keep_first",
            {"ts": [1, 2, 2, 3]},
            [1, 2, 3],
            "close",
            [11, 12, 14],
            "keep_first: 1 row repeating the time of an earlier row, first row 2: "
            "dropped, the first row of each time kept",
        ),
        (
            "keep_last",
            {"ts": [1, 2, 2, 3]},
            [1, 2, 3],
            "close",
            [11, 13, 14],
            "keep_last: 1 row whose time occurs again in a later row, first row 1: "
            "dropped, the last row of each time kept",
        ),
        (
            "widen",
            {"high": [12, 11.5, 14, 15], "low": [9, 10, 12.5, 12]},
            [1, 2, 3, 4],
            "high",
            [12, 12, 14, 15],
            "widen: 2 rows whose high or low lies inside the body, first row 1: "
            "high and low extended to contain open and close",
        ),
        (
            "drop_non_finite",
            {"close": [11, np.nan, 13, 14], "volume": [1, 2, 3, np.inf]},
            [1, 3],
            "close",
            [11, 13],
            "drop_non_finite: 2 rows with a price or volume that is not a finite number, first row 1: dropped",
        ),
        (
            "drop_bad_ohlc",
            {"low": [11.5, 10, 11, 12]},
            [2, 3, 4],
            "close",
            [12, 13, 14],
            "drop_bad_ohlc: 1 row whose high or low lies inside the body, first row 0: dropped",
        ),
        (
            "drop_zero_price",
            {"low": [9, 0, 0, 12]},
            [1, 4],
            "close",
            [11, 14],
            "drop_zero_price: 2 rows with a price of 0, first row 1: dropped",
        ),
    ],
)
def test_a_repair_changes_its_rows_and_says_which(
    name: str, faulty: dict[str, Any], ts: list[int], column: str, values: list[float], sentence: str
) -> None:
    given_columns = columns(**faulty)
    before = {key: array.copy() for key, array in given_columns.items()}
    repaired, sentences = repair_columns(given_columns, [name])
    assert repaired["ts"].tolist() == ts
    assert repaired[column].tolist() == values
    assert sentences == [sentence]
    for key, array in before.items():  # the caller's arrays are left alone
        np.testing.assert_array_equal(given_columns[key], array)


@pytest.mark.parametrize("name", REPAIRS)
def test_clean_bars_are_left_as_they_are(name: str) -> None:
    repaired, sentences = repair_columns(columns(), [name])
    assert sentences == []
    assert list(repaired) == list(columns())
    for key, array in columns().items():
        np.testing.assert_array_equal(repaired[key], array)


@pytest.mark.parametrize(("rule", "closes"), [("keep_first", [12, 13, 11]), ("keep_last", [12, 14, 11])])
def test_rows_out_of_order_and_repeated_are_sorted_first(rule: str, closes: list[float]) -> None:
    repaired, sentences = repair_columns(columns(ts=[3, 1, 2, 2]), [rule, "sort"])
    assert repaired["ts"].tolist() == [1, 2, 3]
    assert repaired["close"].tolist() == closes
    assert [sentence.split(":")[0] for sentence in sentences] == ["sort", rule]


def test_rows_are_dropped_before_one_of_each_time_is_kept() -> None:
    """The complete row of a repeated time survives, whichever is first."""
    faulty = columns(ts=[1, 2, 2, 3], close=[11, np.nan, 13, 14])
    repaired, sentences = repair_columns(faulty, ["keep_first", "drop_non_finite"])
    assert repaired["close"].tolist() == [11, 13, 14]
    assert [sentence.split(":")[0] for sentence in sentences] == ["drop_non_finite"]


def test_first_rows_are_those_of_the_rows_given() -> None:
    """Row numbers count in the file, whatever an earlier repair dropped."""
    faulty = columns(open=[0, 11, 12, 13], high=[12, 13, 14, 13.5])
    _, sentences = repair_columns(faulty, ["drop_zero_price", "widen"])
    assert "first row 0:" in sentences[0] and "first row 3:" in sentences[1]


def test_further_columns_move_with_their_rows() -> None:
    repaired, _ = repair_columns(
        columns(ts=[4, 1, 2, 2], bid_size=[1.0, 2.0, 3.0, 4.0]), ["sort", "keep_last"]
    )
    assert repaired["bid_size"].tolist() == [2.0, 4.0, 1.0]


def test_volume_is_optional() -> None:
    faulty = columns(close=[np.nan, 12, 13, 14])
    del faulty["volume"]
    assert repair_columns(faulty, ["drop_non_finite"])[0]["ts"].tolist() == [2, 3, 4]


@given(
    ts=st.lists(st.integers(0, 6), min_size=4, max_size=4),
    close=st.lists(st.sampled_from([0.0, 5.0, 12.0, np.nan]), min_size=4, max_size=4),
)
def test_repaired_rows_are_usable_bars(ts: list[int], close: list[float]) -> None:
    faulty = columns(ts=ts, close=close)
    try:
        repaired, _ = repair_columns(faulty, ["sort", "keep_last", "drop_non_finite", "widen"])
    except DataError:
        assert not np.isfinite(close).any()
        return
    volume = repaired.pop("volume")
    assert not list(find_faults(repaired["ts"], repaired, volume))
    assert len(Bars.from_arrays(**repaired, volume=volume)) == len(
        {t for t, c in zip(ts, close, strict=True) if c == c}
    )


def test_unknown_and_contradicting_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="Unknown repair 'keep_frist': did you mean 'keep_first'"):
        repair_columns(columns(), ["keep_frist"])
    with pytest.raises(ConfigError, match="Unknown repair 'magic': known are drop_non_finite, "):
        check_repairs(["magic"])
    with pytest.raises(ConfigError, match="keep_first and keep_last exclude each other; give one"):
        check_repairs(["keep_last", "keep_first"])
    with pytest.raises(ConfigError, match="widen and drop_bad_ohlc exclude each other"):
        check_repairs(["drop_bad_ohlc", "widen"])
    assert check_repairs("sort") == ("sort",)


def test_a_repair_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(DataError, match="the rows: the repair drop_zero_price drops all of the 4 rows"):
        repair_columns(columns(low=[0, 0, 0, 0]), ["drop_zero_price"])


def test_every_kind_that_a_repair_names_exists() -> None:
    for name, repair in REPAIRS.items():
        assert set(repair.kinds) <= set(KINDS), name


def test_bars_keep_the_sentences_and_so_do_their_slices() -> None:
    bars = Bars.from_arrays(**columns(), repairs=["sort: 1 row"])
    assert bars.repairs == bars[1:3].repairs == ("sort: 1 row",)
    assert Bars.from_arrays(**columns()).repairs == ()
