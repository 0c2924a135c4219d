"""Accounts that keep their metrics, and the sums they are made of."""

from __future__ import annotations

from typing import Any

from physics_scenario import ACCOUNT

from fox_env import EnvConfig, FoxFuturesVectorEnv, Market

STOPS = {"trail_atr": (0.4, 0.6), "profit_target_atr": 1.0}
OPTIONS: dict[str, Any] = {"horizon": 23, "exploration_scale": 1.0, "saboteur": (0.5, 2.0), "metrics": True}


def account(market: Market, **options: Any) -> FoxFuturesVectorEnv:
    """One account on chosen prices, as those of the scenarios, that keeps its metrics."""
    config = EnvConfig(**{**ACCOUNT, **options})
    return FoxFuturesVectorEnv(1, market, config, backend="cpu", seed=0, metrics=True)


def sums_of(env: FoxFuturesVectorEnv) -> dict[str, Any]:
    return {name: value for name, value in env.state_dict().items() if name.startswith("metrics.")}


def same_sums(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)
