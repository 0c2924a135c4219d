"""Continuous contracts: what the gap is, that no profit comes from a roll, and what is refused."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from expiry_cases import SESSION, TICK, make, three
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fox_env.bars import PRICES, Bars
from fox_env.continuous import Roll, continuous, roll_schedule
from fox_env.contracts import contract
from fox_env.errors import ConfigError, DataError
from fox_env.market import Market
from fox_env.readers import read_symbols

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def test_the_gap_is_the_difference_of_both_closes_at_the_last_common_bar() -> None:
    expiries = three()
    for roll in roll_schedule(expiries):
        old, new = expiries[roll.old], expiries[roll.new]
        rows = [int(np.searchsorted(bars.ts, roll.measured.astype(np.int64))) for bars in (old, new)]
        assert roll.gap == new.close[rows[1]] - old.close[rows[0]]
    spliced = continuous(expiries)
    assert spliced.roll_gap is not None
    set_rows = np.flatnonzero(spliced.roll_gap)
    assert spliced.roll_gap[set_rows].tolist() == [roll.gap for roll in roll_schedule(expiries)]
    assert spliced.ts[set_rows].tolist() == [roll.time.astype(np.int64) for roll in roll_schedule(expiries)]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_price_changes_less_gaps_are_the_changes_of_the_contract_held(seed: int) -> None:
    """Every bar, exactly in ticks: a position held through rolls earns what the contracts themselves moved."""
    expiries = three(seed=seed)
    spliced = continuous(expiries)
    order = ["ESZ3", "ESH4", "ESM4"]
    assert spliced.roll_gap is not None
    changes = np.diff(spliced.close) - spliced.roll_gap[1:]
    for row, change in enumerate(changes, start=1):
        held = expiries[order[int(spliced.extra["contract"][row])]]
        now = int(np.searchsorted(held.ts, spliced.ts[row]))
        assert change / TICK == (held.close[now] - held.close[now - 1]) / TICK
    assert len(spliced) == 10 * SESSION


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_where_the_new_contract_did_not_trade_in_the_last_minutes_the_spread_is_taken_to_last(
    seed: int,
) -> None:
    expiries = three(missing=0.5, seed=seed)
    try:
        spliced = continuous(expiries)
    except (
        DataError
    ) as error:  # half of the bars may leave none that both have before a roll, which is an error
        assume("have no bar at the same time" not in str(error))
        raise
    assert spliced.roll_gap is not None
    for roll in roll_schedule(expiries):
        row = int(np.searchsorted(spliced.ts, roll.time.astype(np.int64)))
        then = roll.measured.astype(np.int64)
        assert then <= spliced.ts[row - 1]
        old, new = expiries[roll.old], expiries[roll.new]
        own = new.close[np.searchsorted(new.ts, spliced.ts[row])] - new.close[np.searchsorted(new.ts, then)]
        drift = spliced.close[row - 1] - old.close[np.searchsorted(old.ts, then)]
        assert spliced.close[row] - spliced.close[row - 1] - spliced.roll_gap[row] == own - drift


def test_columns_that_some_expiries_lack_are_unknown_there() -> None:
    full = make([9, 9, 9, 9], interest=[1, 2, 3, 4])
    bare = replace(make([1, 1, 1, 1], seed=1), volume=None, extra={})
    expiries = {"ESZ3": full, "ESH4": bare}
    spliced = continuous(expiries, "calendar", expiry={"ESZ3": "2013-11-27"}, roll_days=0)
    assert spliced.volume is None
    held = spliced.extra["contract"]
    assert held.tolist() == [0.0] * 2 * SESSION + [1.0] * 2 * SESSION
    assert spliced.extra["open_interest"][held == 0].tolist() == [1.0] * SESSION + [2.0] * SESSION
    assert np.isnan(spliced.extra["open_interest"][held == 1]).all()


def test_days_without_bars_of_the_contract_held_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    expiries = {"first": make([9, 9, 0, 0, 0]), "second": make([1, 1, 1, 1, 1], seed=1)}
    with caplog.at_level(logging.WARNING):
        spliced = continuous(expiries)
    assert "1 of 5 trading days are missing, first 2013-11-27, where 'first' is held" in caplog.text
    assert len(spliced) == 4 * SESSION


def test_adjusting_by_difference_removes_the_gaps_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    plain = continuous(three())
    with caplog.at_level(logging.WARNING):
        moved = continuous(three(), adjust="difference")
    assert "adjusted by difference" in caplog.text
    assert moved.roll_gap is None and moved.adjusted == "difference"
    assert plain.roll_gap is not None and plain.adjusted == "none"
    assert np.array_equal(np.diff(moved.close), np.diff(plain.close) - plain.roll_gap[1:])
    last = plain.extra["contract"] == 2
    for name in ("open", "high", "low", "close"):
        assert np.array_equal(getattr(moved, name)[last], getattr(plain, name)[last])
    for name in ("bid", "upper_limit"):
        assert np.array_equal(moved.close - moved.extra[name], plain.close - plain.extra[name])


def test_adjusting_by_ratio_keeps_returns() -> None:
    plain, moved = continuous(three()), continuous(three(), adjust="ratio")
    rolls = roll_schedule(three())
    assert moved.adjusted == "ratio" and moved.roll_gap is None
    first = plain.extra["contract"] == 0
    quotient = np.prod([roll.new_close / roll.old_close for roll in rolls])
    assert moved.close[first] == pytest.approx(plain.close[first] * quotient, rel=1e-12)
    row = int(np.searchsorted(moved.ts, rolls[0].time.astype(np.int64)))
    expected = plain.close[row] / rolls[0].new_close  # the bar before is the measured one
    assert moved.close[row] / moved.close[row - 1] == pytest.approx(expected, rel=1e-12)


def test_a_market_takes_adjustment_by_difference_and_refuses_ratio() -> None:
    market = Market.from_bars(continuous(three(), adjust="difference"), "ES", warmup=0, cache=False)
    assert len(market) == 10 * SESSION
    with pytest.raises(DataError, match=r"adjusted by ratio, .* use|splice them with adjust='none'"):
        Market.from_bars(continuous(three(), adjust="ratio"), "ES", warmup=0, cache=False)


def test_a_roll_starts_a_session_where_time_passes_and_keeps_the_repairs() -> None:
    expiries = three()
    repaired = expiries["ESH4"]
    expiries["ESH4"] = replace(repaired, repairs=("sort moved 2 rows, first row 3",))
    spliced = continuous(expiries)
    rows = np.flatnonzero(spliced.roll_gap)
    assert spliced.gap[rows].all() and spliced.session_end[rows - 1].all()
    assert spliced.repairs == ("ESH4: sort moved 2 rows, first row 3",)


def test_one_expiry_is_the_series_itself() -> None:
    bars = make([9, 9])
    spliced = continuous({"ESZ3": bars}, adjust="ratio")
    assert np.array_equal(spliced.close, bars.close) and spliced.roll_gap is None
    assert spliced.adjusted == "none" and roll_schedule({"ESZ3": bars}) == []


def test_a_roll_prints_as_one_line() -> None:
    roll = Roll(
        np.datetime64("2013-12-12T14:31", "ns"), "ESZ3", "ESH4", np.datetime64("2013-12-11", "ns"), 9.0, 8.5
    )
    assert str(roll) == "2013-12-12T14:31:00 UTC: ESZ3 -> ESH4, gap -0.5"


A, B = make([9, 9, 1, 1]), make([1, 1, 9, 9], seed=1)
LATE = make([0, 0, 9, 9], seed=1)


@pytest.mark.parametrize(
    ("expiries", "options", "error", "message"),
    [
        ({}, {}, DataError, "there are no expiries"),
        ({"ESZ3": A}, {"roll": "oi"}, ConfigError, "Unknown roll='oi'; use one of volume, open_interest, calendar"),
        ({"ESZ3": A}, {"adjust": "back"}, ConfigError, "Unknown adjust='back'; use one of none, difference, ratio"),
        (A, {}, ConfigError, "must be a mapping of names to Bars or a list of (name, Bars), got Bars"),
        ([A, B], {}, ConfigError, "must be a mapping of names to Bars or a list of (name, Bars), got list"),
        ({"ESZ3": "a.csv"}, {}, ConfigError, "'ESZ3' must come with its Bars, got str; read them with read_bars"),
        ({"ESZ3": A, "NQZ3": B}, {}, ConfigError, "'ESZ3' and 'NQZ3' are expiries of different contracts"),
        ({"IF1401": A, "IH1402": B}, {}, ConfigError, "'IF1401' and 'IH1402' are expiries of different"),
        ({"ESZ3": A, "ESZ13": B}, {}, ConfigError, "'ESZ3' and 'ESZ13' are the same expiry"),
        ({"ESZ3": A, "next": B}, {}, ConfigError, "the name 'next' says no expiry while others do"),
        ({"ESZ3": A}, {"expiry": {"ESH4": "2014-03-21"}}, ConfigError, "names 'ESH4', which is not among"),
        ({"ESZ3": A}, {"expiry": {"ESZ3": "soon"}}, ConfigError, "the expiry of 'ESZ3' must be a date"),
        ({"ESZ3": A}, {"expiry": {"ESZ3": "2013-01-01"}}, DataError, "all contracts are left before 2013-11-25"),
        ({"a": A, "b": B}, {"roll": "calendar"}, ConfigError, "needs the expiry of 'a'; give contract="),
        ({"ESZ3": A, "ESH4": B}, {"roll": "open_interest"}, DataError, "column open_interest, which the bars"),
        ({"GCX3": A}, {"roll": "calendar"}, DataError, "no expiry is in the months GJMQZ of GC"),
        ({"ESZ3": replace(A, volume=None)}, {}, DataError, "needs the volume, which the bars of 'ESZ3' lack"),
        ({"ESZ3": replace(A, adjusted="ratio")}, {}, DataError, "the bars of 'ESZ3' are spliced already"),
        ({"ESZ3": A}, {"contract": "CL"}, ConfigError, "'ESZ3' is an expiry of ES, not of CL; leave contract= out"),
        ({"rb1401": A}, {"contract": "RB"}, ConfigError, "'rb1401' is an expiry of rb, not of RB"),
        ({"ESZ3": A}, {"roll_days": -3}, ConfigError, "roll_days must be a whole number from 0, got -3"),
        ({"ESZ3": A}, {"roll_days": 2.5}, ConfigError, "roll_days must be a whole number from 0, got 2.5"),
        ({"ESZ3": A}, {"roll_days": True}, ConfigError, "roll_days must be a whole number from 0, got True"),
        ({"ESZ3": A}, {"roll_days": "5"}, ConfigError, "roll_days must be a whole number from 0, got '5'"),
        ({"ESZ3": A}, {"expiry": ["ESZ3"]}, ConfigError, "expiry= must map names to last trading days, got list"),
        (
            {"ESZ3": replace(A, extra={"contract": A.close})}, {}, DataError,
            "the bars of 'ESZ3' have a column 'contract', where the series numbers its expiries; rename it",
        ),
        ({"ESZ3": A}, {"contract": "??"}, ConfigError, "Unknown contract '??'"),
        (
            {"ESZ3": A, "ESH4": LATE}, {"expiry": {"ESZ3": "2013-11-26"}}, DataError,
            "'ESZ3' and 'ESH4' have no bar at the same time from 2013-11-26T15:01 to 2013-11-26T15:20 UTC, the last "
            "day before the roll at 2013-11-27T15:01",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_spliced_is_refused_in_one_sentence(
    expiries: dict[str, Bars], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        continuous(expiries, **options)
    assert message in str(caught.value)


def test_a_contract_of_the_users_own_and_names_of_another_vendor_go_together() -> None:
    mine = replace(contract("ES"), symbol="mine")
    assert len(roll_schedule(three(), contract=mine)) == 2
    names = {"ESZ3": "EPZ3", "ESH4": "EPH4", "ESM4": "EPM4"}
    assert len(roll_schedule({names[key]: bars for key, bars in three().items()}, contract="ES")) == 2


def test_no_ratio_exists_of_negative_prices() -> None:
    low = {
        name: replace(bars, **{price: getattr(bars, price) - 1_900 for price in PRICES})
        for name, bars in three().items()
    }
    with pytest.raises(DataError, match=r"only positive prices have a ratio; use adjust='difference'"):
        continuous(low, adjust="ratio")
    spliced = continuous(low, adjust="none")
    assert spliced.roll_gap is not None and np.count_nonzero(spliced.roll_gap) == 2


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared market data are not here")
def test_the_volume_of_real_contracts_moves_in_december_2013() -> None:
    """14 separate days of 2013: the March contract outsells the December one on the 18th, not on the 3rd."""
    every = read_symbols(SHARED / "LEAN_ES_minute_trade.csv.gz", label="open")
    expiries = {name: bars for name, bars in every.items() if name < "2015"}  # the rest are two days of 2020
    rolls = roll_schedule(expiries, contract="ES")
    assert [(roll.old, roll.new) for roll in rolls] == [("201312", "201403")]
    assert str(rolls[0].time)[:16] == "2013-12-18T23:01"  # the session of the 19th opens
    assert str(rolls[0].measured)[:16] == "2013-12-18T22:15"
    assert rolls[0].gap == -6.25
    spliced = continuous(expiries, contract="ES")
    assert len(spliced) == 16_096 + 1_367
    with pytest.raises(
        DataError, match=r"'201312' and '201403' have no bar at the same time from 2013-12-03"
    ):
        continuous(expiries, "calendar", contract="ES")
