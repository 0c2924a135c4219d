"""Martingales made of unit ticks, and every plan of orders, stops and targets played on them.

Where the path moves a tick at a time, no stop, target or limit inside a bar is jumped over, so each fills at its own
price on the path as well: every plan is a fair game even without a spread, less what the pessimistic sequence inside
a bar takes. Where a bar opens away from the close before it, the jump is symmetric.
"""

from __future__ import annotations

import functools
import itertools
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fox_env import Bars, EnvConfig, FoxFuturesVectorEnv, Market, synthetic
from fox_env._layout import Direction, Magnitude, OrderType, Urgency

TICK = synthetic.SPEC.tick_size
SUBSTEPS = 60
ROLL_EVERY, ROLL_GAP = 17, 12
PLANS = list(itertools.product((Direction.LONG, Direction.SHORT), OrderType, OrderType, Urgency))
"""Side, order type of the entry, order type of the exit, urgency of both."""
POOLS = list(itertools.product(OrderType, OrderType))
STOPS = (None, 0.5, 1.0, 2.5)
TARGETS = (None, 0.5, 1.0, 3.0)
STANDARD_ERRORS = 3.0
"""What a mean may lie above nothing: by luck alone one mean in 740 does."""


class Exits(NamedTuple):
    """ATR multiples of the trailing stop and of the profit target of both sides."""

    stop: float | None
    target: float | None


EXITS = [Exits(*pair) for pair in itertools.product(STOPS, TARGETS)]


@functools.lru_cache(maxsize=2)
def fair_walk(seed: int, sessions: int, minutes: int, rolls: bool = False) -> Market:
    """Sessions of one-minute bars of ``SUBSTEPS`` moves of a tick or none, volatility by session and bar.

    With ``rolls`` the series goes over to a dearer contract every ``ROLL_EVERY`` bars: always dearer, so that a
    gap that is somebody's profit is one side's profit.
    """
    rng = np.random.default_rng(seed)
    bars = sessions * minutes
    activity = np.repeat(rng.choice([0.2, 0.5], sessions), minutes) * rng.choice([0.5, 1.0, 2.0], bars)
    signs = np.where(rng.random((bars, SUBSTEPS)) < 0.5, 1, -1)
    path = np.cumsum(np.where(rng.random((bars, SUBSTEPS)) < activity[:, None], signs, 0), axis=1)
    jump = np.where(rng.random(bars) < 0.3, rng.integers(-10, 11, bars), 0)
    roll_gap = np.zeros(bars)
    if rolls:
        roll_gap[ROLL_EVERY::ROLL_EVERY] = ROLL_GAP
    change = path[:, -1] + jump + roll_gap.astype(np.int64)
    close = 40_000 + np.cumsum(change)
    opened = close - path[:, -1]
    high, low = opened + path.max(axis=1, initial=0), opened + path.min(axis=1, initial=0)
    prices = (TICK * column for column in (opened, high, low, close))
    day, minute = np.divmod(np.arange(bars), minutes)
    stamps = np.datetime64("2024-01-02T15:00", "ns") + (1440 * day + minute) * np.timedelta64(60, "s")
    series = Bars.from_arrays(stamps, *prices, np.full(bars, 1e6), TICK * roll_gap if rolls else None)
    return Market.from_bars(series, synthetic.SPEC, warmup=0, cache=False)


def session_profits(market: Market, exits: Exits, minutes: int, **options: Any) -> NDArray[np.float64]:
    """Money before fees, without spread or impact, of every plan in every session but the first: (54, sessions - 1).

    A plan asks for half its position, then for all of it, waits a bar, asks twice for a flat position, then goes in and
    out twice from bar to bar, over and over. Sessions are independent; the bars of one are not.
    """
    sessions = len(market) // minutes - 1
    config = EnvConfig(
        initial_cash=1e9, max_position=4.0, fee_per_side=0.0, half_spread_ticks=0.0, impact_coef=0.0,
        participation=(1.0, 1.0, 1.0), queue_prob=1.0, margin=False, random_start=False,
        trail_atr=(exits.stop, exits.stop), profit_target_atr=exits.target, **options,
    )  # fmt: skip
    env = FoxFuturesVectorEnv(
        len(PLANS) * sessions, market, config, backend="cpu", copy=False, trade_capacity=0
    )
    env.reset(seed=1, options={"start": np.tile(minutes * np.arange(1, sessions + 1), len(PLANS))})
    enter = [(side, Magnitude.FULL, order, urgency) for side, order, _, urgency in PLANS]
    leave = [(Direction.FLAT, Magnitude.FULL, order, urgency) for _, _, order, urgency in PLANS]
    full, flat = (np.repeat(np.array(asks), sessions, axis=0) for asks in (enter, leave))
    half, wait = full.copy(), full.copy()
    half[:, 1], wait[:, 0] = Magnitude.HALF, Direction.HOLD
    cycle = (half, full, wait, flat, flat, full, flat, full, flat)
    for minute in range(minutes - 1):
        *_, info = env.step(cycle[minute % len(cycle)])
    money = np.array(info["equity"]) - config.initial_cash
    env.close()
    return money.reshape(len(PLANS), sessions)


def in_errors(money: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the last axis, the sessions, in standard errors; 0 where nothing is ever made or lost."""
    mean, error = money.mean(axis=-1), money.std(axis=-1, ddof=1) / np.sqrt(money.shape[-1])
    return np.asarray(np.divide(mean, error, out=np.zeros_like(mean), where=mean != 0.0))


def bound(comparisons: int) -> float:
    """Standard errors that one of many means exceeds by luck as seldom as one mean alone exceeds 3 (Bonferroni)."""
    tail = 1.0 - NormalDist().cdf(STANDARD_ERRORS)
    return NormalDist().inv_cdf(1.0 - tail / comparisons)


def free_money(profits: dict[Exits, NDArray[np.float64]]) -> dict[str, float]:
    """What makes money, in standard errors: plans with their exits, and pools of them over sides and urgencies.

    A pool holds both sides, so that the moves of the market cancel and a small advantage shows; a plan alone shows what
    one side takes from the other. The bounds are those of the whole suite, however much of it is asked for.
    """
    plan_bound, pool_bound = bound(len(EXITS) * len(PLANS)), bound(len(EXITS) * len(POOLS))
    found = {}
    for exits, money in profits.items():
        for plan, score in zip(PLANS, in_errors(money), strict=True):
            if score > plan_bound:
                found[f"{exits}: {[choice.name for choice in plan]}"] = float(score)
        for pool in POOLS:
            together = money[[plan[1:3] == pool for plan in PLANS]].mean(axis=0)
            if (score := float(in_errors(together))) > pool_bound:
                found[f"{exits}: pool {[order.name for order in pool]}"] = score
    return found
