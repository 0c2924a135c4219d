"""A small market and short ways to make environments on it, for the tests of the environment's interface."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env import Bars, ContractSpec, EnvConfig, FoxFuturesVectorEnv, Market, _layout

SPEC = ContractSpec("SML", 0.25, 50.0, 2.0, initial_margin=1000.0, maintenance_margin=900.0)
PROGRESS = int(_layout.Observation.CONTEXT + _layout.Context.EPISODE_PROGRESS)
POSITION = int(_layout.Observation.PORTFOLIO + _layout.Portfolio.POSITION)
HOLD, LONG, SHORT, FLAT = (
    [int(_layout.Direction[name]), 2, 0, 1] for name in ("HOLD", "LONG", "SHORT", "FLAT")
)


@cache
def small_market(bars: int = 400, seed: int = 0) -> Market:
    """A random walk in whole ticks at one-minute bars, ready from its first bar."""
    rng = np.random.default_rng(seed)
    close = 4_000 + np.cumsum(rng.integers(-6, 7, bars))
    open_ = close - rng.integers(-4, 5, bars)
    high = np.maximum(open_, close) + rng.integers(0, 5, bars)
    low = np.minimum(open_, close) - rng.integers(0, 5, bars)
    ts = np.datetime64("2024-01-02T15:00", "ns") + np.arange(bars) * np.timedelta64(60, "s")
    prices = [0.25 * x.astype(np.float64) for x in (open_, high, low, close)]
    volume = rng.integers(2_000, 9_000, bars).astype(np.float64)
    return Market.from_bars(Bars.from_arrays(ts, *prices, volume), contract=SPEC, warmup=0, cache=False)


def make(num_envs: int = 2, *, market: Market | None = None, **arguments: Any) -> FoxFuturesVectorEnv:
    """An environment on the small market; options of EnvConfig and of the environment by name."""
    arguments.setdefault("backend", "cpu")
    known = EnvConfig.__dataclass_fields__
    config = EnvConfig(**{name: value for name, value in arguments.items() if name in known})
    rest = {name: value for name, value in arguments.items() if name not in known}
    if "markets" not in rest:
        rest["market"] = market or small_market()
    return FoxFuturesVectorEnv(num_envs, config=config, **rest)


def rows(action: list[int], num_envs: int) -> NDArray[np.int64]:
    """The same action for every environment."""
    return np.tile(np.array(action), (num_envs, 1))


def random_actions(num_envs: int, steps: int, seed: int = 0) -> NDArray[np.int64]:
    """(steps, num_envs, 4) actions."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, k, (steps, num_envs)) for k in _layout.ACTION_BRANCHES], axis=-1)


def play(env: FoxFuturesVectorEnv, actions: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Step through all actions; observations, rewards and flags of every step as host arrays."""
    out = []
    for row in actions:
        out += [np.asarray(x).copy() for x in env.step(row)[:4]]
    return out


def same(a: list[NDArray[Any]], b: list[NDArray[Any]]) -> bool:
    """Equal bits, array by array."""
    return len(a) == len(b) and all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))
