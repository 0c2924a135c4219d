"""No plan of orders makes money on a martingale, before fees, through the environment."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from fair_walk import EXITS as ALL_EXITS
from fair_walk import Exits, fair_walk, free_money, session_profits
from numpy.typing import NDArray

from fox_env import Bars, EnvConfig, FoxFuturesVectorEnv, Market, synthetic
from fox_env._layout import Direction, Magnitude, OrderType, Urgency

MINUTES = 390
PLANS = list(itertools.product((Direction.LONG, Direction.SHORT), Magnitude, OrderType, Urgency))
FREE = {"half_spread_ticks": 0.0, "impact_coef": 0.0, "participation": (1.0, 1.0, 1.0)}

EXITS = (
    {"trail_atr": (1.0, 1.0)},
    {"profit_target_atr": 0.5, "queue_prob": 1.0},
    {"trail_atr": (0.5, 0.5), "profit_target_atr": 1.0},
)


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def profits(market: Market, first: NDArray[np.int64] | None = None, **options: Any) -> NDArray[np.float64]:
    """Money before fees of every plan in every session but the first: (54, sessions - 1).

    A plan asks twice for its side and size, then twice for a flat position, with its own order type and urgency, over
    and over; ``first`` (54, 4) replaces the first of the four actions. Sessions are independent; the bars of one are
    not.
    """
    sessions = len(market) // MINUTES - 1
    config = EnvConfig(
        initial_cash=1e9, max_position=4.0, fee_per_side=0.0, margin=False, random_start=False, **options
    )
    accounts = len(PLANS) * sessions
    env = FoxFuturesVectorEnv(
        accounts, market, config, backend="cpu", copy=False, trade_capacity=0, action_type="branches"
    )
    starts = np.tile(MINUTES * np.arange(1, sessions + 1), len(PLANS))
    env.reset(seed=1, options={"start": starts})
    enter = np.repeat(np.array(PLANS), sessions, axis=0)
    leave = enter.copy()
    leave[:, 0] = Direction.FLAT
    begin = enter if first is None else np.repeat(first, sessions, axis=0)
    for minute in range(MINUTES - 1):
        *_, info = env.step((begin, enter, leave, leave)[minute % 4])
    money = np.array(info["equity"]) - config.initial_cash
    assert (np.array(info["bar_index"]) % MINUTES == MINUTES - 1).all()
    env.close()
    return money.reshape(len(PLANS), sessions)


def scores(money: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of every plan in standard errors."""
    assert (money.std(axis=1) > 0.0).all()
    return np.asarray(money.mean(axis=1) / money.std(axis=1, ddof=1) * np.sqrt(money.shape[1]))


def plans_with(order: OrderType) -> NDArray[np.bool_]:
    return np.array([plan[2] == order for plan in PLANS])


def check(market: Market) -> None:
    """At most 3 standard errors above nothing: of 54 plans without an edge, one in 14 markets would fail by luck."""
    # With the half-spread: where a path jumps over a stop, the bar does not tell by how much.
    for exits in EXITS:
        score = scores(profits(market, **{**FREE, "half_spread_ticks": 0.5}, **exits))
        assert score.max() < 3.0, (exits, PLANS[int(score.argmax())])
    for options in ({}, FREE, {**FREE, "queue_prob": 1.0}):
        score = scores(profits(market, **options))
        assert score.max() < 3.0, (options, PLANS[int(score.argmax())])
        taking = plans_with(OrderType.MARKET)
        if options:
            assert np.abs(score[taking]).max() < 3.5  # nothing is lost either where nothing is paid
        else:
            assert score[taking].max() < -3.0  # the spread is


@pytest.mark.parametrize("multiple", [0.5, 1.0])
def test_adding_to_a_position_that_a_stop_protects_makes_no_money(multiple: float) -> None:
    """A small position at the open, then the plan's order on top: limits that add must not be forgotten in bad bars."""
    first = np.array(PLANS)
    first[:, 1:3] = Magnitude.QUARTER, OrderType.MARKET
    market = synthetic.martingale(seed=46, sessions=120)
    score = scores(profits(market, first, **FREE, queue_prob=1.0, trail_atr=(multiple, multiple)))
    assert score.max() < 3.0, PLANS[int(score.argmax())]


def test_no_plan_makes_money_on_a_martingale() -> None:
    check(synthetic.martingale(seed=41, sessions=120))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [42, 43, 44])
def test_no_plan_makes_money_on_a_long_martingale(seed: int) -> None:
    check(synthetic.martingale(seed=seed, sessions=1000))


def test_wicks_that_no_path_made_would_be_noticed() -> None:
    """Highs and lows raised and lowered by chance fill limit orders whose price was never reached: free money."""
    bars = synthetic.martingale(seed=45, sessions=60).bars
    wick = 0.25 * np.random.default_rng(0).integers(0, 8, (2, len(bars)))
    fake = Bars.from_arrays(
        bars.ts, bars.open, bars.high + wick[0], bars.low - wick[1], bars.close, bars.volume,
        gap=bars.gap, session_end=bars.session_end,
    )  # fmt: skip
    score = scores(profits(Market.from_bars(fake, synthetic.SPEC, cache=False), **FREE))
    assert score[plans_with(OrderType.LIMIT)].max() > 5.0


def play_everything(seed: int, sessions: int, minutes: int = 120) -> dict[Exits, NDArray[np.float64]]:
    market = fair_walk(seed, sessions, minutes)
    return {exits: session_profits(market, exits, minutes) for exits in ALL_EXITS}


def test_no_side_order_urgency_stop_and_target_make_money() -> None:
    """864 plans and 144 pools of them, before any cost: each bound is 3 standard errors for its whole family."""
    assert free_money(play_everything(seed=1, sessions=120)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_no_side_order_urgency_stop_and_target_make_money_in_many_sessions(seed: int) -> None:
    assert free_money(play_everything(seed, sessions=1000)) == {}


@pytest.mark.parametrize(
    "options", [{"latency_bars": 1}, {"gtc": True, "min_hold_bars": 2, "min_hold": "hard"}]
)
def test_nor_do_they_with_the_rules_of_later_orders(options: dict[str, Any]) -> None:
    market = fair_walk(1, 120, 120)
    some = (Exits(None, None), Exits(0.5, None), Exits(None, 0.5), Exits(1.0, 1.0))
    assert free_money({exits: session_profits(market, exits, 120, **options) for exits in some}) == {}


@pytest.mark.parametrize(
    "options", [{}, {"latency_bars": 1}, {"kelly": True}, {"min_hold_bars": 3, "min_hold": "hard"}]
)
@pytest.mark.parametrize("exits", [Exits(None, None), Exits(0.5, 1.0), Exits(2.5, None)])
def test_a_roll_that_costs_nothing_changes_nothing(exits: Exits, options: dict[str, Any]) -> None:
    """The same path once in one contract, once through contracts ever dearer: not a cent moves in any plan."""
    plain, rolled = (
        session_profits(fair_walk(4, 40, 120, rolls), exits, 120, **options) for rolls in (False, True)
    )
    np.testing.assert_array_equal(plain, rolled)
