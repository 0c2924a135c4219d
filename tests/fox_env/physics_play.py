"""Random play on random walks, for what must hold in every market, for every option and sequence of actions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from physics_scenario import HOLD, make_market

from fox_env import EnvConfig, FoxFuturesVectorEnv, Market

Steps = dict[str, NDArray[Any]]
MULTIPLIER = 50.0
ENVS = 48
FUZZ = settings(max_examples=10, deadline=None, derandomize=True, database=None)


def walk(
    seed: int, bars: int = 400, level: int = 60
) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[Any]]:
    """A random walk in whole ticks across zero, with session gaps and bars without volume: prices, volume, minutes."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-7, 8, bars)
    close = level + np.cumsum(steps)
    start = close - steps + rng.integers(-2, 3, bars)
    high = np.maximum(start, close) + rng.integers(0, 6, bars)
    low = np.minimum(start, close) - rng.integers(0, 6, bars)
    volume = np.where(rng.random(bars) < 0.05, 0.0, rng.integers(1, 900, bars))
    minutes = np.arange(bars) + 600 * (np.arange(bars) // 60)
    return 0.25 * np.stack([start, high, low, close], -1), volume, minutes


@functools.cache
def walk_market(seed: int = 0, with_volume: bool = True) -> Market:
    prices, volume, minutes = walk(seed)
    return make_market(prices, volume if with_volume else None, minutes)


configs = st.builds(
    dict,
    initial_cash=st.sampled_from([4_000.0, 25_000.0, 1e6]),
    max_position=st.sampled_from([1.0, 3.0, 10.0]),
    lot=st.sampled_from([0.5, 1.0]),
    horizon=st.sampled_from([None, 1, 37]),
    capital_floor=st.sampled_from([0.0, 0.5]),
    half_spread_ticks=st.sampled_from([0.0, 0.5, 1.5]),
    fee_rate=st.sampled_from([0.0, 1e-4]),
    maker_fee=st.sampled_from([None, -0.5, 1.0]),
    impact_coef=st.sampled_from([0.0, 0.4]),
    participation=st.sampled_from([(0.005, 0.01, 0.02), (1.0, 1.0, 1.0)]),
    queue_prob=st.sampled_from([0.0, 0.25, 1.0]),
    margin=st.sampled_from([False, "close"]),
    close_at_end=st.booleans(),
    reward=st.sampled_from(["return", "risk"]),
    exploration_scale=st.sampled_from([0.0, 1.0]),
    saboteur=st.sampled_from([(1.0, 1.0), (0.0, 3.0)]),
)  # fmt: skip
exit_levels = st.fixed_dictionaries({
    "trail_atr": st.sampled_from([(None, None), (1.0, 2.5), (None, 0.5)]),
    "profit_target_atr": st.sampled_from([None, 0.5, 3.0]),
    "flat_at_session_end": st.booleans(),
    "margin": st.sampled_from([False, "close", "intrabar"]),
})  # fmt: skip
configs_with_exits = st.builds(lambda account, exits: {**account, **exits}, configs, exit_levels)
order_rules = st.fixed_dictionaries({
    "kelly": st.booleans(),
    "min_hold_bars": st.sampled_from([0, 3]),
    "min_hold": st.sampled_from(["soft", "hard"]),
    "latency_bars": st.sampled_from([0, 1]),
    "gtc": st.booleans(),
    "reward": st.sampled_from(["return", "risk", "trade"]),
})  # fmt: skip
every_config = st.builds(lambda account, rules: {**account, **rules}, configs_with_exits, order_rules)
seeds = st.integers(0, 2**63 - 1)


def actions_for(seed: int, steps: int, envs: int = ENVS) -> NDArray[np.int64]:
    """(steps, envs, 4) random actions; Hold more often than the rest, so that trades last."""
    rng = np.random.default_rng(seed)
    actions = np.stack([rng.integers(0, k, (steps, envs)) for k in (4, 3, 3, 3)], -1)
    actions[..., 0] = np.where(rng.random((steps, envs)) < 0.4, HOLD, actions[..., 0])
    return actions


def account(
    market: Market, options: dict[str, Any], envs: int = ENVS, **arguments: Any
) -> FoxFuturesVectorEnv:
    return FoxFuturesVectorEnv(envs, market, EnvConfig(**options), backend="cpu", **arguments)


def rollout(
    env: FoxFuturesVectorEnv, actions: NDArray[Any], seed: Any = 5, start: Any | None = None
) -> Steps:
    """Every output as (steps + 1, N, ...): row 0 is the reset, row t what step t returned."""
    options = None if start is None else {"start": start}
    obs, info = env.reset(seed=seed, options=options)
    zeros = np.zeros(env.num_envs, dtype=bool)
    rows = [{"obs": obs, "reward": zeros * 0.0, "terminated": zeros, "truncated": zeros, **info}]
    for action in actions:
        obs, reward, terminated, truncated, info = env.step(action)
        flags = {"reward": reward, "terminated": terminated, "truncated": truncated}
        rows.append({"obs": obs, **flags, **info})
    names = [name for name in rows[1] if not name.startswith("_")]
    return {name: np.stack([row[name] for row in rows]) for name in names}


def same(left: Steps, right: Steps) -> None:
    """Byte for byte, NaN included."""
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].tobytes() == right[name].tobytes(), name


def began_here(steps: Steps) -> NDArray[np.bool_]:
    """Rows that a NEXT_STEP reset wrote: the one before ended an episode. Row 0 as well."""
    ended = steps["terminated"] | steps["truncated"]
    return np.concatenate([np.ones_like(ended[:1]), ended[:-1]])


def bars_of(market: Market, steps: Steps, column: str) -> NDArray[np.float64]:
    return np.asarray(getattr(market.bars, column))[steps["bar_index"]]
