"""Trade records, rewards, statuses, active branches and masks, with hand-computed values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from physics_scenario import (
    BUY,
    CLOSE,
    FREE,
    FULL,
    HALF,
    HOLD,
    KEEP,
    LIMIT,
    LONG,
    MARKET,
    NORMAL,
    PATIENT,
    RISING,
    SELL,
    SHORT,
    Case,
    check,
    make_account,
    make_market,
    named,
    play,
    still,
)

from fox_env._layout import Observation, OrderStatus, Portfolio


def test_every_column_of_a_trade() -> None:
    market = make_market(RISING)
    env = make_account(market)
    steps = play(env, [BUY, KEEP, CLOSE])
    (row,) = env.trades().to_dicts()
    times = market.bars.ts.astype("datetime64[ns]")
    entry_time, exit_time = row.pop("entry_time"), row.pop("exit_time")
    assert entry_time.timestamp() * 1e9 == times[1].astype(int)
    assert exit_time.timestamp() * 1e9 == times[3].astype(int)
    assert row == {
        "env": 0,
        "episode": 0,
        "entry_bar": 1,
        "exit_bar": 3,
        "side": 1,
        "size": 2.0,
        "entry_price": 101.125,
        "exit_price": 101.875,
        "pnl": 67.0,  # 2 * 0.75 * 50 - 8
        "trade_return": 67.0 / 100_000,
        "r": 1.34,  # 2 ATR of 1 tick on 2 contracts: 50
        "bars": 2,
        "mae": -66.5,  # low 100.5 of bar 1, after 4 of fees
        "mfe": 183.5,  # high 103 of bar 2, after 4 of fees
        "costs": 33.0,
        "reason": "agent",
    }
    last = steps[-1]
    assert (last["trade_return"], last["trade_r"], last["trade_bars"]) == (67.0 / 100_000, 1.34, 2)
    assert last["obs"][Observation.PORTFOLIO + Portfolio.LAST_TRADE_R] == np.float32(1.34)


EXCURSIONS = [
    Case(
        "short: the high is adverse, the low favourable",
        [(100, 100, 100, 100), (100, 103, 98, 100), (100, 100, 100, 100)],
        [SELL, CLOSE],
        [{}, {}],
        [{"mae": -300, "mfe": 200, "pnl": 0}],
        FREE,
    ),
    Case(
        "an exit at a gap is part of the excursion",
        [(100, 100, 100, 100), (100, 100, 100, 100), (90, 90, 90, 90)],
        [BUY, CLOSE],
        [{}, {}],
        [{"mae": -1_000, "mfe": 0, "pnl": -1_000}],
        FREE,
    ),
    Case(
        "a winning exit at a gap as well",
        [(100, 100, 100, 100), (100, 100, 100, 100), (90, 90, 90, 90)],
        [SELL, CLOSE],
        [{}, {}],
        [{"mae": 0, "mfe": 1_000, "pnl": 1_000}],
        FREE,
    ),
    Case(
        "what happened before a resting entry is not the trade's",
        [(100, 100, 100, 100), (100, 104, 99, 99.5), (99.5, 99.5, 99.5, 99.5)],
        [(LONG, FULL, LIMIT, NORMAL), CLOSE],
        [{"fill_price": 99.75}, {}],
        [{"mae": -25, "mfe": 0, "pnl": -25}],
        FREE,
    ),
    Case(
        "a resting order that adds may be filled after the best price",
        [(100, 100, 100, 100), (100, 100, 100, 100), (100, 105, 98, 100), (100, 100, 100, 100)],
        [(LONG, HALF, MARKET, NORMAL), (LONG, FULL, LIMIT, NORMAL), CLOSE],
        [{"position": 1}, {"position": 2, "fill_price": 99.75}, {}],
        [{"mae": -(2 + 1.75) * 50, "mfe": 5 * 50, "pnl": 0.25 * 50}],
        FREE,
    ),
    Case(
        "a resting order that reduces may be filled after the worst price",
        [(100, 100, 100, 100), (100, 100, 100, 100), (100, 105, 95, 100), (100, 100, 100, 100)],
        [BUY, (LONG, HALF, LIMIT, NORMAL), CLOSE],
        [{"position": 2}, {"position": 1, "fill_price": 100.25}, {}],
        [{"mae": -2 * 5 * 50, "mfe": (0.25 + 5) * 50, "pnl": 0.25 * 50}],
        FREE,
    ),
    Case(
        "and of a short, which it reduces",
        [(100, 100, 100, 100), (100, 100, 100, 100), (100, 105, 95, 100), (100, 100, 100, 100)],
        [SELL, (SHORT, HALF, LIMIT, NORMAL), CLOSE],
        [{"position": -2}, {"position": -1, "fill_price": 99.75}, {}],
        [{"mae": -2 * 5 * 50, "mfe": (0.25 + 5) * 50, "pnl": 0.25 * 50}],
        FREE,
    ),
    Case(
        "R adds the risk of every opening fill",
        still(100, 100, 100, 101),
        [(LONG, HALF, MARKET, NORMAL), BUY, CLOSE],
        [{}, {}, {"trade_r": 100 / (3 * 12.5 * 2)}],
        [{"pnl": 100, "r": 100 / 75}],
        {**FREE, "risk_atr": 3.0},
    ),
    Case(
        "the return of a reversed trade is of the equity it began with",
        RISING,
        [BUY, SELL, CLOSE],
        [
            {"equity": 100_033.5, "trade_return": 0, "exit_reason": 0},
            {"equity": 99_900.5, "trade_return": 17 / 100_000, "trade_bars": 1},
            {"equity": 99_934, "trade_return": -83 / 100_033.5, "trade_bars": 1},
        ],
        [{"pnl": 17, "costs": 33}, {"pnl": -83, "costs": 33, "entry_price": 101.375}],
    ),
]  # fmt: skip


@named(EXCURSIONS)
def test_trade_records(case: Case) -> None:
    check(case)


def three_trades_and_an_open_one(**options: Any) -> tuple[list[dict[str, Any]], Any]:
    """Gross +25, 0, -50 with 4.00 of fees each, 40 idle bars, then a trade that is 1,000 ahead at the end."""
    prices = [100, 100, 100.5, 100.5, 100.5, 100.5, 99.5, *[99.5] * 41, 119.5]
    actions = [BUY, CLOSE] * 3 + [KEEP] * 40 + [BUY, KEEP]
    env = make_account(make_market(still(*prices)), max_position=1.0, half_spread_ticks=0.0, **options)
    return play(env, actions), env.trades()


def test_an_open_trade_counts_in_the_equity_and_not_among_the_trades() -> None:
    steps, trades = three_trades_and_an_open_one()
    assert trades["pnl"].to_list() == [21.0, -4.0, -54.0]
    assert steps[-1]["truncated"] and steps[-1]["equity"] == 100_961.0
    obs = steps[-1]["obs"][Observation.PORTFOLIO :]
    assert obs[Portfolio.WIN_RATE] == pytest.approx(2 / 5 - 0.5, abs=1e-7)
    assert obs[Portfolio.TRADES] == pytest.approx(0.03)


def test_a_trade_closed_by_the_episodes_end_counts_among_the_trades() -> None:
    steps, trades = three_trades_and_an_open_one(close_at_end=True)
    assert trades["pnl"].to_list() == [21.0, -4.0, -54.0, 996.0]
    assert steps[-1]["equity"] == 100_959.0
    obs = steps[-1]["obs"][Observation.PORTFOLIO :]
    assert obs[Portfolio.WIN_RATE] == pytest.approx(3 / 6 - 0.5, abs=1e-7)
    assert obs[Portfolio.TRADES] == pytest.approx(0.04)


def test_a_trade_that_breaks_even_is_no_win() -> None:
    env = make_account(make_market(still(100, 100, 100, 100)), **FREE)
    obs = play(env, [BUY, CLOSE])[-1]["obs"][Observation.PORTFOLIO :]
    assert obs[Portfolio.WIN_RATE] == pytest.approx(1 / 3 - 0.5, abs=1e-7)


# ---- rewards, statuses, active branches -----------------------------------------------------------------------------
MOVING = [(100, 100.5, 99.5, 100)] * 2 + [(100, 100.5, 99.5, 100.25), (100.25, 100.5, 99.5, 99.75)]
REWARDS = [
    Case("percent of the equity before", MOVING, [BUY, KEEP, KEEP], [
        {"reward": -0.0165}, {"reward": 2_500 / 99_983.5}, {"reward": -5_000 / 100_008.5}]),
    Case("the return reward's factor", MOVING, [BUY], [{"reward": -16.5 / 100_000 * 7}],
         options={"reward_scale": 7.0}),
    Case("risk: the equity change in units of 2 ATR * 2 contracts = 200", MOVING, [BUY, KEEP, KEEP],
         [{"reward": -0.0825}, {"reward": 0.125}, {"reward": -0.25}], options={"reward": "risk"}),
    Case("risk: a unit given by the training market", MOVING, [BUY, KEEP],
         [{"reward": -0.033}, {"reward": 0.05}], options={"reward": "risk", "risk_unit": 500.0}),
]  # fmt: skip


@named(REWARDS)
def test_rewards(case: Case) -> None:
    check(case)


def test_an_episode_does_not_remember_the_one_before() -> None:
    env = make_account(make_market(still(100, 100, 110, 100)), **FREE)
    first = env.reset(seed=0, options={"start": [0]})[0]
    assert play(env, [BUY, KEEP])[-1]["equity"] == 101_000.0
    again = env.reset(options={"start": [0]})[0]
    np.testing.assert_array_equal(again, first)


DIRECTION_ONLY = [True, False, False, False]


def test_an_action_outside_the_space_acts_as_hold() -> None:
    env = make_account(make_market(still(*[100] * 5)), validate_actions=False)
    steps = play(env, [BUY, (7, 0, 0, 0)])
    assert steps[1]["order_status"] == OrderStatus.INVALID
    assert (steps[1]["position"], steps[1]["cost"]) == (2, 0)
    assert steps[1]["branch_active"].tolist() == DIRECTION_ONLY


WITHOUT_ORDER, WITHOUT_SIZE, ALL = [True, True, False, False], [True, False, True, True], [True] * 4


@pytest.mark.parametrize(
    ("actions", "max_position", "active"),
    [
        ([(HOLD, FULL, LIMIT, PATIENT)], 10.0, DIRECTION_ONLY),
        ([CLOSE], 10.0, DIRECTION_ONLY),
        ([BUY, CLOSE], 10.0, WITHOUT_SIZE),
        ([BUY], 10.0, ALL),
        ([BUY, BUY], 10.0, WITHOUT_ORDER),
        ([BUY], 1.0, WITHOUT_SIZE),
        ([BUY, BUY], 1.0, DIRECTION_ONLY),
        ([BUY, SELL], 1.0, WITHOUT_SIZE),
    ],
)
def test_branches_that_had_an_effect(actions: list[Any], max_position: float, active: list[bool]) -> None:
    env = make_account(make_market(still(*[100] * 5)), max_position=max_position)
    assert play(env, actions)[-1]["branch_active"].tolist() == active


EVERY_ORDER = [True] * 6


@pytest.mark.parametrize(
    ("actions", "options", "directions", "sizes"),
    [
        ([], {"max_position": 10.0}, [1, 1, 1, 0], [1, 1, 1]),
        ([BUY], {"max_position": 10.0}, [1, 1, 1, 1], [1, 1, 1]),
        ([], {"max_position": 1.0}, [1, 1, 1, 0], [1, 0, 0]),
        ([BUY], {"max_position": 1.0}, [1, 1, 0, 1], [1, 0, 0]),
        ([SELL], {"max_position": 1.0}, [0, 1, 1, 1], [1, 0, 0]),
        ([], {"max_position": 2.0}, [1, 1, 1, 0], [1, 0, 1]),
        ([], {"max_position": 10.0, "margin": "close", "initial_cash": 4_000.0}, [1, 1, 1, 0], [1, 1, 0]),
        ([], {"max_position": 10.0, "margin": "close", "initial_cash": 900.0}, [0, 1, 0, 0], [1, 0, 0]),
        ([BUY], {"max_position": 4.0, "margin": "close", "initial_cash": 1_001.0}, [0, 1, 0, 1], [1, 0, 0]),
    ],
)
def test_masks_of_distinct_actions(
    actions: list[Any], options: dict[str, Any], directions: list[int], sizes: list[int]
) -> None:
    env = make_account(make_market(still(*[100] * 5)), **options)
    play(env, actions) if actions else env.reset(seed=0, options={"start": [0]})
    assert env.action_masks()[0].tolist() == [*map(bool, directions), *map(bool, sizes), *EVERY_ORDER]


@pytest.mark.parametrize(
    ("actions", "cash", "legal"),
    [
        ([], 100_000.0, [0, 1, 2, 3, 4, 5, 6]),
        ([6], 100_000.0, [0, 1, 2, 3, 4, 5, 7]),
        ([4], 100_000.0, [0, 1, 2, 3, 5, 6, 7]),
        ([], 1_500.0, [0, 3, 4]),
        ([], 900.0, [3]),
    ],
)
def test_masks_of_exposures(actions: list[int], cash: float, legal: list[int]) -> None:
    options: dict[str, Any] = {"margin": "close", "initial_cash": cash, "max_position": 4.0}
    env = make_account(make_market(still(*[100] * 5)), action_type="discrete", **options)
    play(env, actions) if actions else env.reset(seed=0, options={"start": [0]})
    assert np.flatnonzero(env.action_masks()[0]).tolist() == legal
