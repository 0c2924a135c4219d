"""Coarser bars: what each is made of, where they are cut, and what their columns mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fox_env.bars import Bars
from fox_env.errors import ConfigError
from fox_env.reading.resample import resample

T0 = 1_715_248_800_000_000_000  # 2024-05-09 10:00:00 UTC
MINUTE, HOUR, DAY = 60_000_000_000, 3_600_000_000_000, 86_400_000_000_000


def bars(closes: list[float], **columns: Any) -> Bars:
    """Return bars that close some minutes after 10:00; bar i opens at i, reaches i + 1 and i - 1, closes at i + 0.5."""
    value = np.arange(len(closes), dtype=np.float64)
    ts = T0 + (np.array(closes) * MINUTE).astype(np.int64)
    columns = {"volume": value + 1} | columns
    return Bars.from_arrays(ts, value, value + 1, value - 1, value + 0.5, **columns)


def minutes(made: Bars) -> list[float]:
    """Return the closes in minutes after 10:00 UTC."""
    return ((made.ts - T0) / MINUTE).tolist()


def test_a_bar_that_closes_at_the_end_of_an_interval_belongs_to_it() -> None:
    made = resample(bars([1, 2, 4, 5, 6, 11]), "5min")
    assert minutes(made) == [5, 10, 15]
    assert made.open.tolist() == [0, 4, 5]
    assert made.high.tolist() == [4, 5, 6]
    assert made.low.tolist() == [-1, 3, 4]
    assert made.close.tolist() == [3.5, 4.5, 5.5]
    assert made.volume is not None and made.volume.tolist() == [10, 5, 6]


def test_no_bar_crosses_a_session_break_within_its_interval() -> None:
    made = resample(bars([5, 10, 50, 55]), "1h")
    assert minutes(made) == [10, 60]
    assert made.close.tolist() == [1.5, 3.5]
    assert made.gap.tolist() == [False, True]
    assert made.session_end.tolist() == [True, False]


def test_a_roll_starts_a_bar_and_keeps_its_gap() -> None:
    made = resample(bars([1, 2, 3, 4, 6], roll_gap=[0, 0, 7, 0, 0]), "5min")
    assert minutes(made) == [2, 5, 10]
    assert made.roll_gap is not None and made.roll_gap.tolist() == [0, 7, 0]
    assert made.open.tolist() == [0, 2, 4]


def test_flows_are_summed_and_of_other_columns_the_last_value_stands() -> None:
    nan = np.nan
    extra = {"buy_volume": [1, 2, 4], "ofi": [nan, -3, nan], "bid": [9, 8, 7], "open_interest": [5, nan, 6]}
    made = resample(bars([1, 2, 6], extra=extra), "5min")
    assert made.extra["buy_volume"].tolist() == [3, 4]
    assert made.extra["ofi"][0] == -3 and np.isnan(made.extra["ofi"][1])
    assert made.extra["bid"].tolist() == [8, 7]
    assert np.isnan(made.extra["open_interest"][0]) and made.extra["open_interest"][1] == 6


def test_a_day_is_a_session() -> None:
    evening, morning = [i * 60.0 for i in range(1, 9)], [i * 60.0 for i in range(20, 23)]
    hours = bars([*evening, *morning], gap=[i == 8 for i in range(11)])
    made = resample(hours, "1d")
    assert minutes(made) == [480, 1320]
    assert made.volume is not None and made.volume.tolist() == [36, 30]


def test_a_market_without_breaks_has_days_of_24_hours_since_its_first_bar_opened() -> None:
    made = resample(bars([i * 60.0 for i in range(1, 50)]), "1d")
    assert minutes(made) == [24 * 60, 48 * 60, 49 * 60]


def test_what_was_changed_on_reading_is_kept() -> None:
    made = resample(bars([1, 2], repairs=("sorted",), adjusted="difference", volume=None), "5min")
    assert (made.repairs, made.adjusted, made.volume) == (("sorted",), "difference", None)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("1min", "not a multiple of the bars' interval of 300 s"),
        ("12min", "not a multiple of the bars' interval of 300 s"),
        ("100t", "needs trades, but these are bars"),
        ("1000v", "needs trades, but these are bars"),
        ("week", "Unknown bar size 'week'"),
    ],
)
def test_a_size_that_cannot_be_made_is_refused(size: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resample(bars([5, 10, 15]), size)
    assert words in str(caught.value)


steps = st.lists(st.sampled_from((1, 1, 1, 2, 5, 29, 45, 600, 3000)), min_size=3, max_size=60)


@given(steps, st.sampled_from(("2min", "15min", "1h", "4h", "1d")))
def test_volume_and_prices_are_conserved_and_no_bar_crosses_a_break(spacing: list[int], size: str) -> None:
    fine = bars(np.cumsum([1, 1, *spacing]).tolist())
    made = resample(fine, size)
    assert fine.volume is not None and made.volume is not None
    assert made.volume.sum() == fine.volume.sum()
    assert (made.open[0], made.close[-1]) == (fine.open[0], fine.close[-1])
    assert (made.high.max(), made.low.min()) == (fine.high.max(), fine.low.min())
    assert made.gap.sum() == fine.gap.sum() and made.session_end.sum() == fine.session_end.sum()
    opened_after_break = made.open[made.gap]
    assert opened_after_break.tolist() == fine.open[fine.gap].tolist()


@given(steps, st.sampled_from(("2min", "15min", "1h")), st.integers(3, 40))
def test_later_bars_change_no_bar_but_the_last(spacing: list[int], size: str, count: int) -> None:
    whole = bars(np.cumsum([1, 1, *spacing]).tolist())
    part = resample(whole[: min(count, len(whole))], size)
    made = resample(whole, size)
    for name in ("ts", "open", "high", "low", "close"):
        assert np.array_equal(getattr(part, name)[:-1], getattr(made, name)[: len(part) - 1])


def test_resampling_in_two_steps_is_resampling_at_once() -> None:
    fine = bars([*range(1, 60), *range(101, 187)], extra={"ofi": np.sin(np.arange(145)).round(3) * 1000})
    once, twice = resample(fine, "15min"), resample(resample(fine, "5min"), "15min")
    for name in ("ts", "open", "high", "low", "close", "volume", "gap", "session_end"):
        assert np.array_equal(getattr(once, name), getattr(twice, name))
