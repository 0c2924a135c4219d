"""Coarser bars: what each is made of, where they are cut, and what their columns mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fox_env.bars import Bars
from fox_env.calendars import trading_days
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError
from fox_env.readers import read_bars
from fox_env.reading.resample import resample

T0 = 1_715_248_800_000_000_000  # 2024-05-09 10:00:00 UTC
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "SHFE_rb_HOT_5min.csv.gz"
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


def sessions(*spans: tuple[str, str], minutes: int = 15) -> Bars:
    """Return bars of some minutes that fill sessions from one time to another, in UTC."""
    step = np.timedelta64(minutes, "m")
    ts = [np.arange(np.datetime64(a) + step, np.datetime64(b) + step, step) for a, b in spans]
    rows = np.arange(sum(map(len, ts)), dtype=np.float64)
    return Bars.from_arrays(np.concatenate(ts), rows, rows + 1, rows - 1, rows, volume=np.ones(len(rows)))


def closes(made: Bars) -> list[str]:
    return [str(time) for time in made.ts.astype("datetime64[ns]").astype("datetime64[m]")]


def shanghai(day: str, night_before: str | None) -> list[tuple[str, str]]:
    """Return the sessions of a trading day of a metal in UTC: a night from 21:00 to 01:00, morning and afternoon."""
    by_day = [(f"{day}T01:00", f"{day}T03:30"), (f"{day}T05:30", f"{day}T07:00")]
    return ([(f"{night_before}T13:00", f"{night_before}T17:00")] if night_before else []) + by_day


def test_a_night_session_and_the_day_after_it_are_one_day_where_the_contract_is_named() -> None:
    thursday, friday = shanghai("2024-05-09", "2024-05-08"), shanghai("2024-05-10", "2024-05-09")
    monday, tuesday = shanghai("2024-05-13", "2024-05-10"), shanghai("2024-05-14", None)
    fine = sessions(*thursday, *friday, *monday, *tuesday)
    made = resample(fine, "1d", "cu")
    assert closes(made) == [f"2024-05-{day}T07:00" for day in ("09", "10", "13", "14")]
    assert made.volume is not None and made.volume.tolist() == [32, 32, 32, 16]
    assert made.gap.tolist() == [False, False, True, False]


def test_an_evening_opens_the_next_day_without_a_contract_too() -> None:
    days = [("2024-05-08T22:00", "2024-05-09T21:00"), ("2024-05-09T22:00", "2024-05-10T14:00"),
            ("2024-05-10T15:00", "2024-05-10T21:00"), ("2024-05-12T22:00", "2024-05-13T21:00")]  # fmt: skip
    made = resample(sessions(*days), "1d")
    assert closes(made) == ["2024-05-09T21:00", "2024-05-10T21:00", "2024-05-13T21:00"]
    assert closes(resample(sessions(*days), "1d", "ES")) == closes(made)


@pytest.mark.parametrize("contract", [None, "ES"])
def test_daily_flags_are_those_of_the_same_bars_from_arrays(contract: str | None) -> None:
    days = [("2024-05-08T22:00", "2024-05-09T21:00"), ("2024-05-09T22:00", "2024-05-10T21:00"),
            ("2024-05-12T22:00", "2024-05-13T21:00"), ("2024-05-13T22:00", "2024-05-14T21:00")]  # fmt: skip
    made = resample(sessions(*days), "1d", contract)
    same = Bars.from_arrays(made.ts, made.open, made.high, made.low, made.close)
    assert made.gap.tolist() == same.gap.tolist() == [False, False, True, False]
    assert made.session_end.tolist() == same.session_end.tolist()


def test_a_session_longer_than_a_day_is_divided_where_it_opened_also_after_a_pause() -> None:
    week = [("2024-05-05T21:00", "2024-05-07T03:00"), ("2024-05-07T04:00", "2024-05-10T21:00")]
    days = [f"2024-05-{day:02d}T21:00" for day in (6, 7, 8, 9, 10)]
    assert closes(resample(sessions(*week), "1d", "FX")) == days
    assert closes(resample(sessions(*week), "1d")) == days


def test_a_contract_without_closing_times_has_days_from_midnight() -> None:
    crypto = ContractSpec("COIN", tick_size=0.5, multiplier=1.0, timezone="UTC", session="24/7")
    made = resample(
        sessions(("2024-05-10T09:00", "2024-05-11T23:00"), ("2024-05-12T01:00", "2024-05-12T06:00")),
        "1d",
        crypto,
    )
    assert closes(made) == ["2024-05-11T00:00", "2024-05-11T23:00", "2024-05-12T06:00"]


def test_later_bars_change_no_trading_day_of_earlier_ones() -> None:
    """Also where the bars become coarser: the opening of a session is told by the interval as it was then."""
    minute = sessions(("2024-05-08T20:20", "2024-05-09T12:00"), minutes=1)
    ts = np.concatenate((minute.ts, minute.ts[-1] + 12 * HOUR * np.arange(1, 3000)))
    flat = np.ones(len(ts))
    whole = Bars.from_arrays(ts, flat, flat, flat, flat)
    part = whole[: len(minute)]
    assert trading_days(whole, None)[: len(minute)].tolist() == trading_days(part, None).tolist()


def test_a_roll_divides_a_day() -> None:
    fine = sessions(("2024-05-08T22:00", "2024-05-09T21:00"))
    rolls = np.where(np.arange(len(fine)) == 40, 3.0, 0.0)
    assert len(resample(replace(fine, roll_gap=rolls), "1d")) == 2


def test_a_market_without_breaks_has_days_of_24_hours_since_its_first_bar_opened() -> None:
    made = resample(bars([i * 60.0 for i in range(1, 50)]), "1d")
    assert minutes(made) == [24 * 60, 48 * 60, 49 * 60]


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not there")
def test_a_chinese_contract_has_one_bar_for_every_trading_day() -> None:
    fine = read_bars(SHARED, tz="Asia/Shanghai", label="close")
    made = resample(fine, "1d", "rb")
    by_day = np.unique(
        fine.ts[fine.ts % DAY < 8 * HOUR] // DAY
    )  # days that have a day session, 09:00 to 15:00
    assert len(made) == len(by_day)
    assert made.volume is not None and fine.volume is not None
    assert made.volume.sum() == pytest.approx(fine.volume.sum(), rel=1e-12)


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
    if size != "1d":
        assert made.gap.sum() == fine.gap.sum() and made.session_end.sum() == fine.session_end.sum()
        assert made.open[made.gap].tolist() == fine.open[fine.gap].tolist()


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
