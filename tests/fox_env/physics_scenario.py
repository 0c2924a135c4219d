"""Small markets with chosen prices, accounts that play a list of actions on them, and scenarios of known outcome.

One tick is 0.25 of price and 12.5 of money per contract, a half-spread 0.5 ticks (0.125 of price, 6.25 of money), a fee
2.00 per contract and side, unless a scenario says otherwise. Bars are (open, high, low, close); the first decision is
made on the close of bar 0 and executed in bar 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from fox_env import Bars, ContractSpec, EnvConfig, FoxFuturesVectorEnv, Market

SHORT, HOLD, LONG, FLAT = range(4)
QUARTER, HALF, FULL = range(3)
MARKET, LIMIT, IOC = range(3)
PATIENT, NORMAL, AGGRESSIVE = range(3)

SPEC: dict[str, Any] = {
    "symbol": "T",
    "tick_size": 0.25,
    "multiplier": 50.0,
    "fee_per_side": 2.0,
    "initial_margin": 1000.0,
    "maintenance_margin": 900.0,
}
ACCOUNT: dict[str, Any] = {
    "initial_cash": 100_000.0,
    "max_position": 2.0,
    "half_spread_ticks": 0.5,
    "impact_coef": 0.0,
    "participation": (1.0, 1.0, 1.0),
    "margin": False,
    "capital_floor": 0.01,
    "random_start": False,
    "queue_prob": 0.0,
}

BUY, SELL, CLOSE, KEEP = ((direction, FULL, MARKET, NORMAL) for direction in (LONG, SHORT, FLAT, HOLD))
FREE: dict[str, Any] = {"half_spread_ticks": 0.0, "fee_per_side": 0.0}
NAN = math.nan
RISING = [(100, 100, 100, 100), (101, 102, 100.5, 101.5), (101.5, 103, 101, 102.5), (102, 102.25, 99, 99.5)]
RISING += [(100, 101, 99.75, 100.25), (100.25, 100.5, 100, 100.25)]


def still(*prices: float) -> list[tuple[float, float, float, float]]:
    """One bar a price, with all four prices equal."""
    return [(price, price, price, price) for price in prices]


def make_market(
    ohlc: Any,
    volume: Any = 1e6,
    minutes: Any | None = None,
    spec: dict[str, Any] | None = None,
    rolls: dict[int, float] | None = None,
    extra: dict[str, Any] | None = None,
) -> Market:
    """A market of the bars given, a minute apart unless ``minutes`` says when; ``volume`` may be one number.

    ``rolls`` holds the price gap at the first bar of each new contract, ``extra`` further columns of the bars.
    """
    rows = np.asarray(ohlc, dtype=np.float64)
    elapsed = np.arange(len(rows)) if minutes is None else np.asarray(minutes)
    ts = np.datetime64("2024-01-02T15:00", "ns") + elapsed * np.timedelta64(60, "s")
    if volume is not None:
        volume = np.broadcast_to(np.asarray(volume, dtype=np.float64), len(rows))
    roll_gap = np.zeros(len(rows))
    for bar, gap in (rolls or {}).items():
        roll_gap[bar] = gap
    bars = Bars.from_arrays(ts, *rows.T, volume, roll_gap if rolls else None, extra=extra)
    return Market.from_bars(bars, contract=ContractSpec(**{**SPEC, **(spec or {})}), warmup=0, cache=False)


def make_account(market: Market, num_envs: int = 1, **options: Any) -> FoxFuturesVectorEnv:
    """Accounts on the CPU; the options are those of the environment and of its config."""
    arguments = {
        name: options.pop(name) for name in ("action_type", "autoreset_mode", "info_level") if name in options
    }
    config = EnvConfig(**{**ACCOUNT, **options})
    return FoxFuturesVectorEnv(num_envs, market, config, backend="cpu", seed=0, **arguments)


def play(
    env: FoxFuturesVectorEnv,
    actions: Sequence[Any],
    start: int = 0,
    conviction: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """Step one account from a decision bar; one dictionary a step, with the observation before it as ``before``."""
    obs, _ = env.reset(seed=0, options={"start": [start]})
    dtype = np.float32 if np.asarray(actions).dtype.kind == "f" else np.int64
    steps = []
    for number, action in enumerate(actions):
        factor = None if conviction is None else np.array([conviction[number]], dtype=np.float32)
        before = obs[0]
        obs, reward, terminated, truncated, info = env.step(np.asarray([action], dtype=dtype), factor)
        step = {name: values[0] for name, values in info.items() if not name.startswith("_")}
        step |= {"reward": reward[0], "terminated": terminated[0], "truncated": truncated[0]}
        steps.append(step | {"before": before, "obs": obs[0]})
    return steps


@dataclass(frozen=True)
class Case:
    """A scenario and what it must give, step by step and trade by trade."""

    name: str
    bars: list[tuple[float, float, float, float]]
    actions: list[Any]
    steps: list[dict[str, float]]
    trades: list[dict[str, Any]] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    volume: Any = 1e6
    minutes: list[int] | None = None
    conviction: list[float] | None = None
    rolls: dict[int, float] | None = None
    knobs: dict[str, float] = field(default_factory=dict)
    start: int = 0


def check(case: Case) -> None:
    env = make_account(
        make_market(case.bars, case.volume, case.minutes, case.spec, case.rolls), **case.options
    )
    for name, value in case.knobs.items():
        env.set_knob(name, value)
    steps = play(env, case.actions, case.start, case.conviction)
    for number, (step, wanted) in enumerate(zip(steps, case.steps, strict=True)):
        for name, value in wanted.items():
            precision = 1e-6 if name == "reward" else 1e-12
            assert step[name] == pytest.approx(value, rel=precision, abs=1e-9, nan_ok=True), (
                f"step {number}: {name}"
            )
    if case.trades is not None:
        rows = env.trades().to_dicts()
        assert len(rows) == len(case.trades)
        for row, expected in zip(rows, case.trades, strict=True):
            for name, value in expected.items():
                wanted_value = value if isinstance(value, str) else pytest.approx(value, rel=1e-12, abs=1e-9)
                assert row[name] == wanted_value, f"trade column {name}"


def named(cases: list[Case]) -> Any:
    assert len({case.name for case in cases}) == len(cases)
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])
