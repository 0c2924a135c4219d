"""Rolls of continuous contracts: the day on which each rule rolls, and into which expiry."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pytest
from expiry_cases import SESSION, day_of, make, moved, three, weekdays
from hypothesis import given, settings
from hypothesis import strategies as st

from fox_env.bars import Bars
from fox_env.continuous import continuous, roll_schedule
from fox_env.contracts import contract
from fox_env.rolls import trading_days

NAN = float("nan")


def test_the_volume_rule_rolls_the_day_after_a_later_contract_traded_more() -> None:
    rolls = roll_schedule(three())
    assert [(roll.old, roll.new, day_of(roll.time)) for roll in rolls] == [
        ("ESZ3", "ESH4", 4),
        ("ESH4", "ESM4", 8),
    ]
    assert str(rolls[0].time).startswith("2013-11-29T15:01")


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(1, 10 * SESSION), rule=st.sampled_from(["volume", "open_interest", "calendar"]))
def test_data_that_end_earlier_give_the_same_earlier_rolls(cut: int, rule: str) -> None:
    expiries = {
        name: Bars.from_arrays(
            bars.ts, bars.open, bars.high, bars.low, bars.close, bars.volume,
            extra={"open_interest": np.asarray(bars.volume) * 100},
        )
        for name, bars in three().items()
    }  # fmt: skip
    end = int(expiries["ESZ3"].ts[cut - 1])
    shorter = {name: bars[: int(np.searchsorted(bars.ts, end, "right"))] for name, bars in expiries.items()}
    whole = [
        roll for roll in roll_schedule(expiries, rule, roll_days=15) if roll.time.astype(np.int64) <= end
    ]
    assert roll_schedule(shorter, rule, roll_days=15) == whole


def test_open_interest_decides_by_the_last_value_of_the_day() -> None:
    expiries = {
        "ESZ3": make([9] * 5, interest=[90, 80, 60, 40, 20]),
        "ESH4": make([1] * 5, seed=1, interest=[10, 30, 61, 70, 80]),
    }
    assert [day_of(roll.time) for roll in roll_schedule(expiries, "open_interest")] == [3]
    assert roll_schedule(expiries, "volume") == []


def interest(days: list[list[float]], seed: int, name: str = "open_interest") -> Bars:
    """An expiry with three values of open interest a day: of the first bars, of the bars between, of the last."""
    bars = make([9] * len(days), seed=seed)
    values = np.concatenate([np.repeat(day, [1, SESSION - 2, 1]) for day in days])
    return replace(bars, extra={name: values})


def test_a_missing_last_value_of_open_interest_is_the_one_before() -> None:
    """A value that is missing in the last bar of a day is not 0, which would roll for good."""
    held, later = interest([[1_000, 1_000, NAN]] * 3, 0), interest([[5, 5, 5]] * 3, 1)
    assert roll_schedule({"ESZ3": held, "ESH4": later}, "open_interest") == []
    later = interest([[5, 5, 5], [5, 2_000, NAN], [5, 5, 5]], 1)
    rolls = roll_schedule({"ESZ3": held, "ESH4": later}, "open_interest")
    assert [day_of(roll.time) for roll in rolls] == [2]


def test_a_day_without_open_interest_decides_nothing() -> None:
    unknown = [NAN] * 3
    held = interest([[10, 10, 10], unknown, [10, 10, 10], [10, 10, 10]], 0)
    later = interest([[5, 5, 5], [20, 20, 20], [20, 20, 20], [20, 20, 20]], 1)
    rolls = roll_schedule({"ESZ3": held, "ESH4": later}, "open_interest")
    assert [day_of(roll.time) for roll in rolls] == [3]
    never = roll_schedule({"ESZ3": later, "ESH4": interest([unknown] * 4, 1)}, "open_interest")
    assert never == []
    expired = roll_schedule(
        {"ESZ3": later, "ESH4": interest([unknown] * 4, 1)}, "open_interest", expiry={"ESZ3": "2013-11-26"}
    )
    assert [day_of(roll.time) for roll in expired] == [2]


@pytest.mark.parametrize("name", ["OpenInterest", "Open Interest", "OI", "open_int", "opint"])
def test_open_interest_is_found_under_the_names_that_files_give_it(name: str) -> None:
    held, later = interest([[10, 10, 10]] * 3, 0, name), interest([[20, 20, 20]] * 3, 1)
    rolls = roll_schedule({"ESZ3": held, "ESH4": later}, "open_interest")
    assert [day_of(roll.time) for roll in rolls] == [1]


def test_the_calendar_rule_counts_business_days_before_the_expiry() -> None:
    expiries = {"ESZ3": make([9] * 20), "ESH4": make([1] * 20, seed=1)}  # expires on Friday, 2013-12-20
    assert str(roll_schedule(expiries, "calendar")[0].time)[:10] == "2013-12-12"  # roll_days of ES: 6
    assert str(roll_schedule(expiries, "calendar", roll_days=8)[0].time)[:10] == "2013-12-10"
    given = roll_schedule(expiries, "calendar", roll_days=1, expiry={"ESZ3": "2013-12-06"})
    assert str(given[0].time)[:10] == "2013-12-05"
    dated = [(datetime.date(2013, 12, 6), expiries["ESZ3"]), ("2014-03-21", expiries["ESH4"])]
    assert str(roll_schedule(dated, "calendar")[0].time)[:10] == "2013-11-29"  # 5 days without a contract


def test_the_calendar_rule_passes_through_the_months_of_the_contract() -> None:
    expiries = {name: make([9] * 5, seed=i) for i, name in enumerate(["GCX3", "GCZ3", "GCF4", "GCG4"])}
    rolls = roll_schedule(expiries, "calendar", roll_days=20)
    assert [(roll.old, roll.new) for roll in rolls] == [("GCZ3", "GCG4")]
    every = roll_schedule(expiries, "calendar", roll_days=20, contract=replace(contract("GC"), months=""))
    assert [(roll.old, roll.new) for roll in every] == [("GCZ3", "GCF4")]


def test_the_volume_rule_passes_over_a_month_that_hardly_trades() -> None:
    expiries = {
        "GCZ3": make([90, 50, 9]), "GCF4": make([1, 1, 1], seed=1), "GCG4": make([20, 60, 90], seed=2),
    }  # fmt: skip
    assert [(roll.old, roll.new) for roll in roll_schedule(expiries)] == [("GCZ3", "GCG4")]


def test_equal_volume_is_no_reason_to_roll() -> None:
    expiries = {"ESZ3": make([9, 9, 9]), "ESH4": make([1, 9, 9], seed=1)}
    assert roll_schedule(expiries) == []


def test_a_contract_is_left_after_its_last_trading_day_whatever_the_volume() -> None:
    expiries = {"ESZ3": make([9, 9, 9, 9]), "ESH4": make([1, 1, 1, 1], seed=1)}
    rolls = roll_schedule(expiries, expiry={"ESZ3": "2013-11-26"})
    assert [day_of(roll.time) for roll in rolls] == [2]


def test_an_evening_session_belongs_to_the_next_day() -> None:
    """The night session opens at 21:00 in Shanghai and is the first part of the next trading day."""

    def two_sessions(volume: list[float], seed: int) -> Bars:
        parts = [make(volume, seed=seed, start=start) for start in ("01:00", "13:00")]  # 09:00 and 21:00
        order = np.argsort(np.concatenate([part.ts for part in parts]))
        names = ("ts", "open", "high", "low", "close", "volume")
        return Bars.from_arrays(*(np.concatenate([getattr(p, name) for p in parts])[order] for name in names))

    expiries = {"rb1401": two_sessions([90, 5, 10], 0), "rb1405": two_sessions([10, 90, 90], 2)}
    rolls = roll_schedule(expiries, "volume")
    assert [str(roll.time)[:16] for roll in rolls] == ["2013-11-26T13:01"]


def test_daily_bars_roll_at_the_next_day() -> None:
    ts = np.array([np.datetime64(day, "ns") + np.timedelta64(1, "D") for day in weekdays(8)])
    price = np.full(8, 100.0)

    def daily(volume: list[float], level: float) -> Bars:
        return Bars.from_arrays(ts, *[price + level] * 4, np.array(volume))

    old, new = daily([9, 9, 9, 9, 9, 1, 1, 1], 0), daily([1, 1, 1, 1, 10, 9, 9, 9], 2)
    spliced = continuous([("a", old), ("b", new)])
    assert spliced.close.tolist() == [100.0] * 5 + [102.0] * 3
    assert spliced.roll_gap is not None and spliced.roll_gap.tolist() == [0, 0, 0, 0, 0, 2, 0, 0]


def test_a_last_bar_that_closes_in_the_next_month_does_not_move_the_expiry_by_ten_years() -> None:
    """The bar of 31 December 2013, the last trading day of ZTZ3, closes at midnight, in January."""
    days = np.busday_offset("2013-12-23", np.arange(7))
    assert str(days[-1]) == "2013-12-31"
    ts = days.astype("datetime64[ns]") + np.timedelta64(1, "D")

    def daily(volume: list[float], level: float) -> Bars:
        return Bars.from_arrays(ts, *[np.full(7, level)] * 4, volume)

    expiries = {"ZTH4": daily([1, 2, 3, 4, 5, 6, 7], 101.0), "ZTZ3": daily([7, 6, 5, 4, 3, 2, 1], 100.0)}
    assert [(roll.old, roll.new) for roll in roll_schedule(expiries)] == [("ZTZ3", "ZTH4")]


def test_the_bars_decide_what_four_digits_mean() -> None:
    """EG2012 is delivered in December 2020 in China, BMU2012 in September 2012 elsewhere."""
    for root in ("IF", "CU", "cu"):
        expiries = {f"{root}1401": three()["ESH4"], f"{root}1312": three()["ESZ3"]}
        rolls = roll_schedule(expiries, "calendar", roll_days=12)
        assert [(roll.old, roll.new) for roll in rolls] == [(f"{root}1312", f"{root}1401")]
    late = {"EG2012": moved(three()["ESZ3"], 7), "EG2101": moved(three()["ESH4"], 7)}
    assert [(roll.old, roll.new) for roll in roll_schedule(late)] == [("EG2012", "EG2101")]
    early = {"BMU2012": moved(three()["ESH4"], -2), "BMM2012": moved(three()["ESZ3"], -2)}
    assert [(roll.old, roll.new) for roll in roll_schedule(early)] == [("BMM2012", "BMU2012")]


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), cut=st.integers(2, 300))
def test_trading_days_do_not_depend_on_later_bars(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (rng.choice([1, 60, 120, 300, 960, 1440], 150, p=rng.dirichlet(np.ones(6))) for _ in "12")
    ts = np.cumsum(np.concatenate((first, second))) * 60_000_000_000
    days, (number,) = trading_days([ts], "America/Chicago")
    earlier, (part,) = trading_days([ts[:cut]], "America/Chicago")
    assert earlier[part].tolist() == days[number[:cut]].tolist()
