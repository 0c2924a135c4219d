"""A long rollout made of integer hashes alone, and its digest: the same on every backend, level and machine.

Write the committed digests with ``python tests/fox_env/parity_rollout.py --backend cuda --write``.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from fox_env import Bars, ContractSpec, EnvConfig, FoxFuturesVectorEnv, Market

ARTEFACT = Path(__file__).with_name("parity_digests.json")
NUM_ENVS = 4096
STEPS = 10_000
EVERY = 1_000

_SPEC = ContractSpec(
    "PAR", 0.25, 50.0, 2.0, initial_margin=1000.0, maintenance_margin=900.0, fee_rate=1e-5, maker_fee=1.0
)
_DAY_SPEC = dataclasses.replace(
    _SPEC, day_initial_margin=500.0, day_maintenance_margin=400.0, close_today_fee=5.0, close_today_rate=3e-5
)
_CONFIG = EnvConfig(
    initial_cash=40_000.0,
    max_position=10.0,
    horizon=700,
    capital_floor=0.3,
    exploration_scale=1.0,
    saboteur=(0.5, 2.0),
    reward="risk",
    participation=(0.02, 0.05, 0.2),
)
CONFIGS = {
    "plain": _CONFIG,
    "exits": _CONFIG.replace(
        trail_atr=(1.5, 2.5),
        profit_target_atr=2.0,
        margin="intrabar",
        flat_at_session_end=True,
        reward="return",
    ),
    "orders": _CONFIG.replace(kelly=True, min_hold_bars=4, min_hold="hard", latency_bars=1, gtc=True),
    "everything": _CONFIG.replace(
        trail_atr=(1.5, 2.5),
        profit_target_atr=2.0,
        margin="intrabar",
        flat_at_session_end=True,
        kelly=True,
        min_hold_bars=4,
        reward="trade",
        reward_weights=(1.0, 0.5, 0.2, 0.1, 0.3),
        floor_penalty=2.0,
        shaping_scale=0.7,
        counterfactual=True,
    ),
}


def hashed(count: int, salt: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """``count`` 64-bit words: splitmix64 of the counter, integers only."""
    z = np.arange(count, dtype=np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 % 2**64)
    z = z * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def parity_market(bars: int = 6_000, spec: ContractSpec = _SPEC) -> Market:
    """A random walk in whole ticks: session gaps, rolls, empty and locked bars, prices below zero, hashed features."""
    steps = (hashed(bars, 1) % np.uint64(13)).astype(np.int64) - 6
    close = 40 + np.cumsum(steps)
    start = close - steps + (hashed(bars, 2) % np.uint64(5)).astype(np.int64) - 2
    high = np.maximum(start, close) + (hashed(bars, 3) % np.uint64(7)).astype(np.int64)
    low = np.minimum(start, close) - (hashed(bars, 4) % np.uint64(7)).astype(np.int64)
    volume = (hashed(bars, 5) % np.uint64(400)).astype(np.float64)
    volume[hashed(bars, 6) % np.uint64(50) == 0] = 0.0
    minutes = np.arange(bars) + 600 * (np.arange(bars) // 390)
    ts = np.datetime64("2024-01-02T15:00", "ns") + minutes * np.timedelta64(60, "s")
    prices = [0.25 * column.astype(np.float64) for column in (start, high, low, close)]
    rolls = 0.25 * (np.arange(bars) % 97 == 96) * ((hashed(bars, 8) % np.uint64(41)).astype(np.float64) - 20)
    limits = {
        "upper_limit": np.where(hashed(bars, 9) % np.uint64(40) == 0, prices[2], np.inf),
        "lower_limit": np.where(hashed(bars, 10) % np.uint64(40) == 0, prices[1], -np.inf),
    }
    held = Bars.from_arrays(ts, *prices, volume, rolls, extra=limits)
    market = Market.from_bars(held, contract=spec, warmup=0, cache=False)
    words = hashed(bars * 86, 7) >> np.uint64(40)
    features = (words.astype(np.float32) / np.float32(2**23) - np.float32(1)).reshape(bars, 86)
    return dataclasses.replace(market, features=features)


def actions_of(step: int, num_envs: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(num_envs, 4) hashed actions of one step."""
    words = hashed(num_envs, 1_000 + step)
    return np.stack(
        [(words >> np.uint64(16 * b)) % np.uint64(k) for b, k in enumerate((4, 3, 3, 3))], -1
    ).astype(np.int64)


def convictions_of(step: int, num_envs: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(num_envs,) hashed convictions of one step."""
    words = hashed(num_envs, 500_000 + step) >> np.uint64(40)
    return words.astype(np.float32) / np.float32(2**24)


def make_env(backend: str, name: str, num_envs: int = NUM_ENVS, **arguments: Any) -> FoxFuturesVectorEnv:
    """The environment that the rollout steps."""
    arguments = {"info_level": "none", "trade_capacity": 32, "copy": False, **arguments}
    return FoxFuturesVectorEnv(
        num_envs,
        parity_market(spec=_DAY_SPEC if name == "everything" else _SPEC),
        CONFIGS[name],
        backend=backend,
        autoreset_mode=AutoresetMode.SAME_STEP,
        **arguments,
    )


def digests(backend: str, name: str, steps: int = STEPS) -> Iterator[dict[str, Any]]:
    """After every 1,000 steps: an order-sensitive checksum of all outputs so far, and SHA-256 of the whole state."""
    env = make_env(backend, name)
    weights = 2 * np.arange(NUM_ENVS * 168, dtype=np.uint64) + np.uint64(1)
    others = [slot for slot in env.outputs if slot.startswith("counterfactual.")]
    checksum = 0
    obs, _ = env.reset(seed=20_240_102)
    for step in range(1, steps + 1):
        conviction = convictions_of(step, NUM_ENVS) if name == "orders" else None
        obs, reward, terminated, truncated, _ = env.step(actions_of(step, NUM_ENVS), conviction)
        for array in (obs, reward, terminated, truncated, *(env.outputs[slot] for slot in others)):
            words = array.reshape(-1).view(np.uint64)
            total = int((words * weights[: words.size]).sum(dtype=np.uint64))
            checksum = (checksum * 6364136223846793005 + total) % 2**64
        if step % EVERY == 0:
            yield {"step": step, "outputs": f"{checksum:016x}", "state": state_digest(env)}


def state_digest(env: FoxFuturesVectorEnv) -> str:
    """SHA-256 over every array of the accounts' state, by name."""
    total = hashlib.sha256()
    for name, array in sorted(env.state_dict().items()):
        if name == "markets":  # tells what the accounts trade, not what became of them
            continue
        total.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def main() -> None:
    """Print the digests of one backend, or write them as the committed artefact."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--made-by", default="", help="what computed the digests, for the artefact")
    args = parser.parse_args()
    rows = {name: list(digests(args.backend, name)) for name in CONFIGS}
    if args.write:
        document = {"num_envs": NUM_ENVS, "seed": 20_240_102, "made_by": args.made_by, "digests": rows}
        ARTEFACT.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
