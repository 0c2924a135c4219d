"""The same bits on every backend, x86-64 level, batch size and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import parity_rollout
import pytest

from fox_env.backends.cuda import gpu_problem

COMMITTED = json.loads(parity_rollout.ARTEFACT.read_text())["digests"]


def _levels() -> list[str]:
    from fox_env import _native

    order = ["v2", "v3", "v4"]
    here = _native.cpu_level()
    return order[: order.index(here) + 1] if here in order else [here]


@pytest.mark.slow
@pytest.mark.parametrize("name", parity_rollout.CONFIGS)
def test_the_cpu_repeats_all_committed_digests(name: str) -> None:
    assert list(parity_rollout.digests("cpu", name)) == COMMITTED[name]


@pytest.mark.parametrize("level", _levels())
def test_every_cpu_level_repeats_the_first_committed_digests(level: str) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import parity_rollout as p; from fox_env import _native;"
        "print(_native.cpu_level(), [list(p.digests('cpu', name, steps=1000)) for name in p.CONFIGS])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, os.path.dirname(__file__)],
        env={**os.environ, "FOX_CPU_LEVEL": level},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == f"{level} {[rows[:1] for rows in COMMITTED.values()]}"


@pytest.mark.gpu
@pytest.mark.skipif(gpu_problem() is not None, reason=f"needs a GPU: {gpu_problem()}")
class TestGpu:
    @pytest.mark.parametrize("name", parity_rollout.CONFIGS)
    def test_the_gpu_repeats_the_committed_digests(self, name: str) -> None:
        assert list(parity_rollout.digests("cuda", name)) == COMMITTED[name]

    @pytest.mark.parametrize("name", parity_rollout.CONFIGS)
    def test_every_output_and_state_equals_the_cpu(self, name: str) -> None:
        cpu, cuda = (
            parity_rollout.make_env(b, name, num_envs=1_025, info_level="full") for b in ("cpu", "cuda")
        )
        cpu.reset(seed=3)
        cuda.reset(seed=3)
        for step in range(1_500):
            actions = parity_rollout.actions_of(step, 1_025)
            here, there = cpu.step(actions), cuda.step(actions)
            for a, b in zip(here[:4], there[:4], strict=True):
                assert a.tobytes() == b.tobytes(), step
            for name in here[4]:
                if name not in ("final_obs", "final_info"):
                    np.testing.assert_array_equal(
                        here[4][name], there[4][name], err_msg=f"{name} at step {step}"
                    )
        a, b = cpu.state_dict(), cuda.state_dict()
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)

    @pytest.mark.slow
    @pytest.mark.timeout(900)
    @pytest.mark.parametrize("name", parity_rollout.CONFIGS)
    def test_a_hundred_thousand_steps_equal_the_cpu(self, name: str) -> None:
        cpu, cuda = (parity_rollout.make_env(b, name, num_envs=64, metrics=True) for b in ("cpu", "cuda"))
        pool = [parity_rollout.actions_of(step, 64) for step in range(997)]
        for env in (cpu, cuda):
            env.reset(seed=11)
        for step in range(100_000):
            actions = pool[step % len(pool)]
            for a, b in zip(cpu.step(actions)[:4], cuda.step(actions)[:4], strict=True):
                assert a.tobytes() == b.tobytes(), step
        a, b = cpu.state_dict(), cuda.state_dict()
        for array in a:
            assert a[array].tobytes() == b[array].tobytes(), array
