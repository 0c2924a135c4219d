"""Long runs with every rule on: the books balance, nothing is lost to memory or to numbers that are not finite."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import parity_rollout
import pytest

from fox_env import FoxFuturesVectorEnv
from fox_env.backends.cuda import gpu_problem

CHUNKS = 10


def host(values: Any) -> np.ndarray[Any, Any]:
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def assert_books_balance(env: FoxFuturesVectorEnv) -> None:
    out = {name: host(values) for name, values in env.outputs.items()}
    for name, values in out.items():
        if values.dtype.kind == "f" and name not in ("info.fill_price", "final_info.fill_price"):
            assert np.isfinite(values).all(), name
    equity, parts = out["info.equity"], out["info.cash"] + out["info.unrealized"]
    np.testing.assert_allclose(equity, parts, rtol=1e-12, atol=1e-9)
    costs = out["info.fees"] + out["info.spread_cost"] + out["info.impact_cost"]
    np.testing.assert_allclose(out["info.cost"], costs, rtol=1e-12, atol=1e-7)


def soak(env: FoxFuturesVectorEnv, pool: list[Any], steps: int, memory: Any) -> None:
    env.reset(seed=0)
    used = []
    for chunk in range(CHUNKS):
        for step in range(steps // CHUNKS):
            env.step(pool[(chunk + step) % len(pool)])
        assert_books_balance(env)
        used.append(memory())
    assert used[-1] <= used[1] * 1.01, used


def resident_kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.slow
@pytest.mark.parametrize("name", parity_rollout.CONFIGS)
def test_ten_million_steps_on_the_cpu(name: str) -> None:
    env = parity_rollout.make_env("cpu", name, num_envs=1_000, info_level="full", metrics=True)
    soak(env, [parity_rollout.actions_of(step, 1_000) for step in range(61)], 10_000, resident_kilobytes)


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.skipif(gpu_problem() is not None, reason=f"needs a GPU: {gpu_problem()}")
@pytest.mark.parametrize("name", parity_rollout.CONFIGS)
def test_a_billion_steps_on_the_gpu(name: str) -> None:
    torch = pytest.importorskip("torch")
    envs = 262_144
    env = parity_rollout.make_env(
        "cuda", name, num_envs=envs, info_level="full", metrics=True, output="torch", trade_capacity=4
    )
    pool = [torch.from_numpy(parity_rollout.actions_of(step, envs)).to(env.device) for step in range(13)]
    soak(env, pool, 3_820, lambda: torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0])
