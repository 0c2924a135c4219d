"""Bars: time units, session flags, slices as views, and refusal of values a bar may not hold."""

from __future__ import annotations

import pickle
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fox_env.bars import Bars
from fox_env.errors import DataError

MINUTE = 60_000_000_000


def columns(length: int = 5, **change: Any) -> dict[str, Any]:
    close = np.arange(length, dtype=np.float64) + 100
    ts = np.int64(1_715_248_800_000_000_000) + np.arange(length, dtype=np.int64) * MINUTE
    base = {
        "ts": ts,
        "open": close,
        "high": close + 1,
        "low": close - 1,
        "close": close,
        "volume": close * 10,
    }
    return base | change


def changed(name: str, row: int, value: float) -> dict[str, Any]:
    data = columns()
    data[name] = data[name].copy()
    data[name][row] = value
    return data


def flat(ts: np.ndarray[Any, np.dtype[np.int64]]) -> Bars:
    """Bars of one price at these times."""
    price = np.ones(len(ts))
    return Bars.from_arrays(ts, price, price, price, price)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_datetime_unit_gives_the_same_nanoseconds(unit: str) -> None:
    stamps = np.array(["2024-05-09T10:00:00", "2024-05-09T10:01:00"], dtype=f"datetime64[{unit}]")
    bars = Bars.from_arrays(stamps, [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0])
    assert bars.ts.tolist() == [1_715_248_800_000_000_000, 1_715_248_860_000_000_000]
    assert bars.ts.dtype == np.int64
    assert bars.interval_ns == MINUTE
    assert bars.volume is None and bars.roll_gap is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (columns(0), "there are no rows"),
        (columns(close=[1.0]), "column close has shape (1,), but ts has 5 rows"),
        (columns(volume=[1.0, 2.0]), "column volume has shape (2,)"),
        (columns(ts=np.arange(5.0)), "got dtype float64"),
        (
            columns(ts=np.array(["2024"] * 4 + ["NaT"], dtype="datetime64[s]")),
            "row 4, column ts: the time is missing",
        ),
        (columns(ts=np.array(["2400-01-01"] * 5, dtype="datetime64[s]")), "row 0, column ts: 2400-01-01"),
        (columns(open=["a"] * 5), "column open must hold numbers, but row 0 is 'a'"),
        (columns(open=["1.5"] * 5), "column open must hold numbers, but row 0 is '1.5'"),
        (columns(open=np.array([1.0, "1.5", 1, 1, 1], dtype=object)), "but row 1 is '1.5'"),
        (columns(open=[1.0, 2 + 1j, 1.0, 1.0, 1.0]), "column open must hold numbers, but row 0 is (1+0j)"),
        (
            columns(open=columns()["ts"].astype("datetime64[ns]")),
            "column open must hold numbers, but row 0 is",
        ),
        (columns(open=[[1.0], [1.0, 2.0], 1, 1, 1]), "column open is not one-dimensional"),
        (columns(ts=[[1], [1, 2]]), "column ts is not one-dimensional"),
        (columns(volume=5.0), "column volume has shape ()"),
        (
            columns(session_end=["False"] * 5),
            "column session_end must hold True and False, but row 0 is 'False'",
        ),
        (columns(gap=[0, 1, 0, 2, 0]), "column gap must hold True and False, but row 3 is 2"),
        (columns(gap=[0.0, 1.0, 0.0, np.nan, 0.0]), "column gap must hold True and False, but row 3 is nan"),
        (columns(gap=np.array([True, None, 0, 0, 0], dtype=object)), "True and False, but row 1 is None"),
        (columns(extra=[1.0]), "extra must map names to columns, got list"),
        (columns(extra={3: np.arange(5.0)}), "the name 3 of a further column must be a text"),
        (columns(extra={"oi": ["9"] * 5}), "column oi must hold numbers, but row 0 is '9'"),
        (changed("close", 3, np.nan), "row 3, column close: price is nan"),
        (changed("high", 2, np.inf), "row 2, column high: price is inf"),
        (changed("high", 1, 100.5), "row 1, column high: high 100.5 is below max(open, close) = 101.0"),
        (changed("low", 1, 101.5), "row 1, column low: low 101.5 is above min(open, close) = 101.0"),
        (changed("volume", 4, -1.0), "row 4, column volume: volume is -1.0"),
        (changed("volume", 4, np.nan), "row 4, column volume: volume is nan"),
        (columns(roll_gap=[0, 0, np.nan, 0, 0]), "row 2, column roll_gap"),
    ],
)
def test_unusable_values_are_refused_with_row_and_column(data: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        Bars.from_arrays(**data)


def test_rows_out_of_order_and_repeated_times_are_refused_never_sorted() -> None:
    day = np.datetime64("2024-01-01", "D")
    closes = [103.0, 101.0, 102.0, 999.0]
    with pytest.raises(DataError, match=r"row 1, column ts: time 2024-01-01.* is earlier than 2024-01-03"):
        Bars.from_arrays(day + np.array([2, 0, 1, 1]), closes, closes, closes, closes)
    with pytest.raises(DataError, match=r"row 2, column ts: time 2024-01-02.* repeats"):
        Bars.from_arrays(day + np.array([0, 1, 1, 2]), closes, closes, closes, closes)


@given(row=st.integers(0, 19), name=st.sampled_from(["open", "high", "low", "close", "volume"]))
def test_the_first_bad_row_is_named(row: int, name: str) -> None:
    data = columns(20)
    data[name] = data[name].copy()
    data[name][row:] = np.nan
    with pytest.raises(DataError, match=f"row {row}, column {name}"):
        Bars.from_arrays(**data)


def test_zero_and_negative_prices_are_legal() -> None:
    closes = [10.0, -37.63, 0.0]
    bars = Bars.from_arrays(np.arange(3) * MINUTE, closes, closes, closes, closes)
    assert np.diff(bars.close).tolist() == [-47.63, 37.63]


def test_arrays_are_copies_and_read_only() -> None:
    data = columns(extra={"oi": np.arange(5.0)})
    bars = Bars.from_arrays(**data)
    data["close"][0] = -1.0
    data["ts"][0] = 0
    assert bars.close[0] == 100.0 and bars.ts[0] != 0
    for array in (bars.ts, bars.open, bars.volume, bars.gap, bars.session_end, bars.extra["oi"]):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert data["close"].flags.writeable


def test_a_pause_beyond_thirty_minutes_separates_sessions() -> None:
    minutes = np.array([0, 1, 2, 32, 63, 64])  # pauses of 30 (not a break) and 31 minutes (a break)
    price = np.ones(6)
    bars = Bars.from_arrays(minutes * MINUTE, price, price, price, price)
    assert bars.gap.tolist() == [False, False, False, False, True, False]
    assert bars.session_end.tolist() == [False, False, False, True, False, False]
    assert bars.session_start.tolist() == [True, False, False, False, True, False]


def test_daily_bars_break_only_where_a_day_is_missing() -> None:
    days = np.array([0, 1, 2, 3, 6, 7])
    price = np.ones(6)
    bars = Bars.from_arrays(days * 24 * 60 * MINUTE, price, price, price, price)
    assert bars.gap.tolist() == [False, False, False, False, True, False]


def test_given_session_ends_set_the_gap_of_the_next_bar() -> None:
    bars = Bars.from_arrays(**columns(session_end=[False, True, False, False, True]))
    assert bars.gap.tolist() == [False, False, True, False, False]
    assert bars.session_end.tolist() == [False, True, False, False, True]


@given(
    pauses=st.lists(st.sampled_from([1, 1, 1, 5, 31, 900, 3000]), min_size=2, max_size=60),
    cut=st.integers(1, 60),
)
def test_gap_flags_of_a_slice_are_those_of_the_whole(pauses: list[int], cut: int) -> None:
    ts = np.cumsum(np.array([0, *pauses])) * MINUTE
    price = np.ones(len(ts))
    whole = Bars.from_arrays(ts, price, price, price, price)
    part = whole[: min(cut, len(ts))]
    assert part.gap.tolist() == whole.gap.tolist()[: len(part)]


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 300))
def test_bars_built_from_fewer_rows_have_the_same_flags(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (rng.choice([1, 40, 60, 120, 1320, 3000], 150, p=rng.dirichlet(np.ones(6))) for _ in "12")
    ts = np.cumsum(np.concatenate((first, second))) * MINUTE
    whole, part = flat(ts), flat(ts[:cut])
    assert part.gap.tolist() == whole.gap.tolist()[:cut]
    assert part.session_end.tolist()[:-1] == whole.session_end.tolist()[: cut - 1]


def test_a_later_change_of_the_spacing_changes_no_earlier_flag() -> None:
    """60 bars of a minute, then bars of 40 minutes: pauses at first, until most bars are that long."""
    ts = np.cumsum([1] * 60 + [40] * 300) * MINUTE
    whole = flat(ts)
    assert flat(ts[:100]).gap.tolist() == whole.gap.tolist()[:100]
    assert whole.gap[60:100].all() and not whole.gap[130:].any()


@pytest.mark.parametrize("minutes", [20, 30, 60, 240])
def test_one_missing_bar_is_no_session_break(minutes: int) -> None:
    ts = np.delete(np.arange(400), [100, 207, 311]) * minutes * MINUTE
    assert not flat(ts).gap.any() and not flat(ts).session_end.any()
    two = np.delete(np.arange(400), [100, 101]) * minutes * MINUTE
    assert np.flatnonzero(flat(two).gap).tolist() == [100]


def test_a_break_of_one_bar_that_comes_every_day_is_one() -> None:
    """Hourly bars of a market that rests from 22:00 to 23:00 UTC, an hour earlier after the clocks change."""
    hours = np.arange(24 * 21)
    clock = hours % 24
    rest = np.where(hours < 24 * 14, clock == 23, clock == 22)
    hours = np.delete(hours, np.flatnonzero(rest | (hours == 24 * 9 + 10)))  # and one bar is missing
    bars = flat(hours * 60 * MINUTE)
    first = np.flatnonzero(np.diff(hours, prepend=-1) > 1)
    breaks = [row for row in first.tolist() if hours[row] != 24 * 9 + 11]
    assert len(breaks) == 21
    assert np.flatnonzero(bars.gap).tolist() == breaks[3:]  # the first three are not known to recur
    assert np.flatnonzero(bars.session_end).tolist() == [row - 1 for row in breaks[3:]]


def test_the_first_pause_of_minute_bars_is_a_break_even_when_bars_are_few() -> None:
    assert flat(np.array([0, 1, 61, 62]) * MINUTE).gap.tolist() == [False, False, True, False]


def test_a_slice_is_a_view_of_everything() -> None:
    bars = Bars.from_arrays(**columns(10, roll_gap=np.arange(10.0), extra={"oi": np.arange(10.0)}))
    part = bars[2:-3]
    assert len(part) == 5
    for name in ("ts", "open", "high", "low", "close", "volume", "gap", "session_end", "roll_gap"):
        assert np.shares_memory(getattr(part, name), getattr(bars, name)), name
    assert part.extra["oi"].tolist() == [2, 3, 4, 5, 6]
    assert bars[:].ts.tolist() == bars.ts.tolist()


@pytest.mark.parametrize(
    "rows", [slice(0, 0), slice(7, 3), slice(99, None), slice(0, 5, 2), slice(None, None, -1)]
)
def test_empty_and_stepped_slices_are_refused(rows: slice) -> None:
    with pytest.raises(DataError):
        Bars.from_arrays(**columns())[rows]


def test_numbers_and_flags_of_other_types_are_taken_exactly() -> None:
    prices = np.array([Decimal("1.5"), 2, 1.5, np.float32(2.0), 1], dtype=object)
    data = columns(open=prices, high=[2] * 5, low=[1] * 5, close=np.full(5, 1.5, dtype=np.float32))
    bars = Bars.from_arrays(
        **data, gap=[0, 1, 0, 0, 0], session_end=[1.0, 0.0, 0.0, 0.0, 0.0], extra={"up": prices > 1}
    )
    assert bars.open.tolist() == [1.5, 2.0, 1.5, 2.0, 1.0]
    assert bars.gap.tolist() == [False, True, False, False, False]
    assert bars.session_end.tolist() == [True, False, False, False, False]
    assert bars.extra["up"].tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]


def test_adjusted_prices_have_no_gaps_at_rolls() -> None:
    with pytest.raises(DataError, match=r"row 2, column roll_gap: prices adjusted by difference have no gap"):
        Bars.from_arrays(**columns(roll_gap=[0, 0, 1, 0, 0], adjusted="difference"))
    assert Bars.from_arrays(**columns(roll_gap=[0] * 5, adjusted="difference")).adjusted == "difference"


def test_a_single_row_number_is_refused() -> None:
    with pytest.raises(TypeError, match="slice"):
        Bars.from_arrays(**columns())[0]  # type: ignore[index]


def test_one_bar_is_enough_and_has_no_interval() -> None:
    bars = Bars.from_arrays(**columns(1))
    assert len(bars) == 1 and bars.interval_ns == 0
    assert "1 from 2024-05-09T10:00:00 to 2024-05-09T10:00:00 UTC" in repr(bars)


def test_the_kind_of_adjustment_stays_with_a_slice_and_must_be_known() -> None:
    bars = Bars.from_arrays(**columns(adjusted="ratio"))
    assert bars[1:3].adjusted == "ratio" and Bars.from_arrays(**columns()).adjusted == "none"
    with pytest.raises(DataError, match=r"none, difference, ratio, got 'back'"):
        Bars.from_arrays(**columns(adjusted="back"))


def test_bars_survive_pickling() -> None:
    bars = Bars.from_arrays(**columns(extra={"oi": np.arange(5.0)}))
    again = pickle.loads(pickle.dumps(bars))
    assert again.close.tolist() == bars.close.tolist()
    assert again.extra["oi"].tolist() == bars.extra["oi"].tolist()


def test_times_too_far_apart_for_a_difference_are_still_in_the_wrong_order() -> None:
    """The difference of these two wraps around to a positive number."""
    with pytest.raises(DataError, match=r"row 1, column ts: time .* is earlier"):
        Bars.from_arrays([2**62, -(2**62) - 1], [1, 1], [1, 1], [1, 1], [1, 1])


def test_the_integer_of_a_missing_time_is_refused() -> None:
    with pytest.raises(DataError, match=r"row 1, column ts: the time is missing \(NaT\)"):
        Bars.from_arrays([0, -(2**63)], [1, 1], [1, 1], [1, 1], [1, 1])
