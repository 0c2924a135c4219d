"""What the Kelly cap never does, whatever the record of trades: bounds that need no knowledge of its formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from physics_play import ENVS, FUZZ, account, actions_for, rollout, seeds, walk_market
from physics_scenario import BUY, CLOSE, FLAT, FREE, HOLD, make_account, make_market, play

from fox_env._layout import OrderStatus

ACCOUNT: dict[str, Any] = {
    "initial_cash": 1e6,
    "margin": False,
    "kelly": True,
    "participation": (1.0, 1.0, 1.0),
}
kelly_options = st.fixed_dictionaries(
    {
        "max_position": st.sampled_from([1.0, 4.0, 10.0]),
        "lot": st.sampled_from([0.5, 1.0]),
        "kelly_floor": st.sampled_from([0.0, 0.25, 0.8, 1.0]),
        "kelly_safety": st.sampled_from([0.1, 0.5, 1.0]),
        "trail_atr": st.sampled_from([(None, None), (1.0, 1.0)]),
        "horizon": st.sampled_from([None, 25]),
    }
)


def round_trips(profit_ticks: float, trips: int, **options: Any) -> NDArray[np.float64]:
    """Contracts bought in each of a row of long trades that make this many ticks before costs, asking for all of L."""
    bars = []
    for _ in range(trips):
        up = 100.0 + 0.25 * profit_ticks
        bars += [(100.0, 100.0, 100.0, 100.0), (up, up, up, up)]
    market = make_market([(100.0, 100.0, 100.0, 100.0), *bars])
    steps = play(make_account(market, **{**ACCOUNT, **options}), [BUY, CLOSE] * trips)
    bought = np.array([step["fill_quantity"] for step in steps[::2]])
    assert [step["trade_closed"] for step in steps[1::2]] == [1] * trips
    return bought


@FUZZ
@given(options=kelly_options, seed=seeds)
def test_positions_are_whole_lots_from_one_to_the_limit(options: dict[str, Any], seed: int) -> None:
    """An order from a flat position always opens a lot at least, and never more than the limit."""
    market, actions = walk_market(seed % 3, with_volume=False), actions_for(seed, 200)
    actions[..., 2] = 0  # market orders: nothing but the cap comes between what is asked and what is held
    steps = rollout(account(market, {**ACCOUNT, **options}), actions, seed)
    lot, most = options["lot"], options["max_position"]
    held = np.abs(steps["position"])
    np.testing.assert_array_equal(held, lot * np.rint(held / lot))
    assert (held <= most).all()
    began = steps["terminated"][:-1] | steps["truncated"][:-1]
    asked = ~np.isin(actions[..., 0], (HOLD, FLAT)) & (steps["position"][:-1] == 0) & ~began
    assert asked.sum() > ENVS
    assert (np.abs(steps["fill_quantity"][1:])[asked] >= lot).all()


@FUZZ
@given(options=kelly_options, seed=seeds)
def test_the_cap_never_takes_a_position_away(options: dict[str, Any], seed: int) -> None:
    """Where the account asks for its own side or holds, what it has is never cut by the cap."""
    market, actions = walk_market(seed % 3, with_volume=False), actions_for(seed, 200)
    actions[..., 1:] = 2, 0, 1  # all of the limit, as market orders
    options = {**options, "trail_atr": (None, None)}
    steps = rollout(account(market, {**ACCOUNT, **options}), actions, seed)
    before, after = steps["position"][:-1], steps["position"][1:]
    began = steps["terminated"][:-1] | steps["truncated"][:-1]
    same_side = np.sign(before) == np.choose(actions[..., 0], [-1, 0, 1, 9])
    kept = (before != 0) & ~began & (same_side | (actions[..., 0] == HOLD))
    assert (np.abs(after) >= np.abs(before))[kept].all() and kept.sum() > ENVS


@pytest.mark.parametrize("profit_ticks", [-8.0, 0.0])
@pytest.mark.parametrize("safety", [1.0, 0.5])
@pytest.mark.parametrize("floor", [0.25, 0.6, 0.05, 0.0])
def test_a_record_without_a_winner_never_locks_the_account(
    profit_ticks: float, safety: float, floor: float
) -> None:
    """Losing, or breaking even without costs: the floor is left, in whole lots, or a single lot."""
    most = 8.0
    bought = round_trips(
        profit_ticks, 80, max_position=most, kelly_floor=floor, kelly_safety=safety, capital_floor=0.0, **FREE
    )
    assert (bought >= max(1.0, math.floor(floor * safety * most))).all()


def test_a_winning_record_allows_more_than_none_and_a_losing_one_less() -> None:
    none = round_trips(8.0, 1, max_position=20.0)[-1]
    winning = round_trips(8.0, 40, max_position=20.0)[-1]
    losing = round_trips(-8.0, 40, max_position=20.0)[-1]
    assert losing < none < winning <= 20.0


@pytest.mark.parametrize("profit_ticks", [-8.0, 8.0])
def test_less_safety_never_allows_more(profit_ticks: float) -> None:
    sizes = [
        round_trips(profit_ticks, 30, max_position=20.0, kelly_safety=safety) for safety in (0.2, 0.5, 1.0)
    ]
    assert (np.diff(sizes, axis=0) >= 0).all() and (sizes[0] < sizes[2]).any()


def test_the_cap_says_that_it_cut_the_order_and_off_it_cuts_nothing() -> None:
    market = make_market([(100.0, 100.0, 100.0, 100.0)] * 3)
    (step,) = play(make_account(market, **ACCOUNT, max_position=10.0), [BUY])
    assert 1.0 <= step["fill_quantity"] < 10.0 and step["order_status"] == OrderStatus.KELLY
    (step,) = play(make_account(market, **{**ACCOUNT, "kelly": False}, max_position=10.0), [BUY])
    assert step["fill_quantity"] == 10.0 and step["order_status"] == OrderStatus.FILLED
