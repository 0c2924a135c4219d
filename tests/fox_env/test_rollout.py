"""Rollouts: the same as stepping by hand on the CPU, the same bits from a replayed graph on a GPU, clear refusals."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from small_market import make

from fox_env import ActionError, BackendError, ConfigError, FoxError, _layout
from fox_env.backends.cuda import gpu_problem
from fox_env.rollout import Rollout

torch = pytest.importorskip("torch")

PROBLEM = gpu_problem() or (None if torch.cuda.is_available() else "torch sees no GPU")
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(PROBLEM is not None, reason=f"needs a GPU: {PROBLEM}")]
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]

BRANCHES = torch.tensor(_layout.ACTION_BRANCHES)


def environment(num_envs: int = 5, device: str = "cpu", **arguments: Any) -> Any:
    arguments = {"horizon": 7, "autoreset_mode": "SAME_STEP", "output": "torch", **arguments}
    env = make(num_envs, backend=device, **arguments)
    env.reset(seed=3)
    return env


class Policy(torch.nn.Module):
    """A linear layer, noise and an argmax for each branch; returns the best values too."""

    def __init__(self, device: str = "cpu", generator: Any = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = torch.nn.Linear(128, sum(_layout.ACTION_BRANCHES)).to(device)
        self.generator = generator

    def forward(self, obs: Any) -> Any:
        values = self.head(obs)
        values = values + torch.rand(values.shape, device=values.device, generator=self.generator)
        best = [branch.max(dim=1) for branch in values.split(list(_layout.ACTION_BRANCHES), dim=1)]
        return torch.stack([b.indices for b in best], 1), {"value": torch.stack([b.values for b in best], 1)}


def tensors(rollout: Rollout) -> dict[str, Any]:
    plain = {
        name: getattr(rollout, name) for name in ("obs", "actions", "rewards", "terminated", "truncated")
    }
    return {**plain, **rollout.extras, **rollout.info}


def assert_same(left: Rollout, right: Rollout) -> None:
    a, b = tensors(left), tensors(right)
    assert list(a) == list(b)
    for name, values in a.items():
        assert values.shape == b[name].shape and values.dtype == b[name].dtype, name
        assert values.cpu().numpy().tobytes() == b[name].cpu().numpy().tobytes(), name


class TestCollecting:
    @pytest.mark.parametrize("device", DEVICES)
    @pytest.mark.parametrize("mode", ["SAME_STEP", "NEXT_STEP"])
    def test_it_equals_stepping_by_hand(self, mode: str, device: str) -> None:
        env, twin = (environment(device=device, autoreset_mode=mode) for _ in range(2))
        policy = Policy(device)
        for call in range(4):  # on a GPU: step by step, captured, replayed
            torch.manual_seed(call)
            rollout = env.rollout(policy, 10, info=("equity", "bar_index"))
            torch.manual_seed(call)
            obs = twin.observation
            for t in range(10):
                with torch.no_grad():
                    actions, extras = policy(obs)
                assert torch.equal(rollout.obs[t], obs) and torch.equal(rollout.actions[t], actions)
                assert torch.equal(rollout.extras["value"][t], extras["value"])
                obs, reward, terminated, truncated, info = twin.step(actions)
                assert torch.equal(rollout.rewards[t], reward)
                assert torch.equal(rollout.terminated[t], terminated)
                assert torch.equal(rollout.truncated[t], truncated)
                assert torch.equal(rollout.info["equity"][t], info["equity"])
                assert torch.equal(rollout.info["bar_index"][t], info["bar_index"])
            assert torch.equal(rollout.obs[10], obs)
            assert rollout.truncated.any()

    @pytest.mark.parametrize("device", DEVICES)
    def test_final_obs_is_the_last_one_of_an_ended_episode(self, device: str) -> None:
        env, twin = environment(device=device), environment(device=device)
        rollout = env.rollout(Policy(device), 8, info=("final_obs",))
        for t in range(8):
            info = twin.step(rollout.actions[t])[4]
            ended = rollout.truncated[t] | rollout.terminated[t]
            assert torch.equal(rollout.info["final_obs"][t][ended], info["final_obs"][ended])
        assert rollout.truncated.any()

    @pytest.mark.parametrize(("action_type", "shape"), [("discrete", (5,)), ("continuous", (5, 1))])
    def test_other_action_types(self, action_type: str, shape: tuple[int, ...]) -> None:
        env = environment(action_type=action_type)
        dtype = torch.int64 if action_type == "discrete" else torch.float32
        rollout = env.rollout(lambda obs: torch.ones(shape, dtype=dtype), 3)
        assert rollout.actions.shape == (3, *shape) and rollout.actions.dtype == dtype
        assert rollout.extras == rollout.info == {}

    def test_policies_run_without_gradients(self) -> None:
        seen = []

        def policy(obs: Any) -> Any:
            seen.append(torch.is_grad_enabled())
            return torch.zeros(5, 4, dtype=torch.int64)

        environment().rollout(policy, 2)
        assert seen == [False, False]

    @pytest.mark.parametrize("device", DEVICES)
    def test_a_rollout_is_the_callers_own(self, device: str) -> None:
        env, policy = environment(device=device), Policy(device)
        rollouts = [env.rollout(policy, 4) for _ in range(3)]
        kept = [rollout.clone() for rollout in rollouts]
        env.rollout(policy, 4)
        for rollout, before in zip(rollouts, kept, strict=True):
            assert_same(rollout, before)

    def test_the_environment_is_freed_without_the_garbage_collector(self) -> None:
        env = environment()
        env.rollout(Policy(), 2)
        alive = weakref.ref(env)
        gc.disable()
        try:
            del env
            assert alive() is None
        finally:
            gc.enable()

    def test_importing_the_environment_imports_no_torch(self) -> None:
        code = "import sys, fox_env.rollout; sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def zeros(*shape: int, dtype: Any = None) -> Any:
    return torch.zeros(*shape, dtype=dtype or torch.int64)


def changing() -> Callable[[Any], Any]:
    """A policy whose extras change after the first step."""
    names = iter(("a", "b"))
    return lambda obs: (zeros(5, 4), {next(names): zeros(5)})


def growing() -> Callable[[Any], Any]:
    """A policy whose extra grows after the first step."""
    sizes: Iterator[int] = iter((1, 2))
    return lambda obs: (zeros(5, 4), {"a": zeros(5, next(sizes))})


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [({"output": "numpy"}, "output='torch'"), ({"autoreset_mode": "DISABLED"}, "SAME_STEP")],
    )
    def test_environments_without_torch_or_resets(self, arguments: dict[str, str], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            environment(**arguments).rollout(Policy(), 2)

    @pytest.mark.parametrize("steps", [0, -1, 1.5, True])
    def test_step_counts(self, steps: Any) -> None:
        with pytest.raises(ConfigError, match=f"steps={steps!r} must be a whole number from 1"):
            environment().rollout(Policy(), steps)

    def test_states(self) -> None:
        env = make(2, output="torch", autoreset_mode="SAME_STEP")
        with pytest.raises(ActionError, match=r"rollout\(\) was called before reset"):
            env.rollout(Policy(), 2)
        env = environment()
        env.rollout(Policy(), 2)
        env.close()
        with pytest.raises(FoxError, match="closed"):
            env.rollout(Policy(), 2)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"info": ("equty",)}, "no info field 'equty' to collect; it has equity, .*final_obs"),
            ({"info": "equity"}, r"use info=\('equity',\)"),
            ({"graph": True}, "leave graph out"),
        ],
    )
    def test_options(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            environment().rollout(Policy(), 2, **options)

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            (lambda obs: None, "actions of type NoneType"),
            (lambda obs: zeros(4, 4), r"actions of shape \(4, 4\); the first size must be 5"),
            (lambda obs: zeros(5, 3), r"actions have shape \(5, 3\), the batch needs \(5, 4\)"),
            (lambda obs: zeros(5, 4, dtype=torch.float32), "dtype float32 do not fit"),
            (lambda obs: zeros(5, 4).to("meta"), "actions on meta, the environment is on cpu"),
            (lambda obs: (zeros(5, 4), 1.0), "extras of type float"),
            (lambda obs: (zeros(5, 4), {}, {}), "returned 3 values"),
            (lambda obs: (zeros(5, 4), {"v": 1.0}), "v of type float"),
            (lambda obs: (zeros(5, 4), {"v": zeros(1)}), r"v of shape \(1,\)"),
            (lambda obs: zeros(5, 4) + 9, r"action \[9, 9, 9, 9\] of environment 0 is outside"),
            (changing(), r"extras \['b'\], and \['a'\] at the first step"),
            (growing(), r"extras.a as torch.int64 of shape \(5, 2\), and as torch.int64 of shape \(5, 1\)"),
        ],
    )
    def test_what_a_policy_returns(self, policy: Any, message: str) -> None:
        with pytest.raises(ActionError, match=message):
            environment().rollout(policy, 2)

    @pytest.mark.parametrize("device", DEVICES)
    def test_rollouts_larger_than_the_memory(self, device: str) -> None:
        with pytest.raises(ConfigError, match=r"2000000000 steps of 5 environments needs \d+\.\d GiB"):
            environment(device=device).rollout(Policy(device), 2_000_000_000)


def twice(env: Any, policy: Any) -> None:
    """Collect step by step, then with a capture."""
    for _ in range(2):
        env.rollout(policy, 4)


class TestOnAGpu:
    pytestmark = needs_gpu

    @pytest.mark.parametrize("own_generator", [False, True])
    @pytest.mark.parametrize("num_envs", [1, 33, 1025])
    def test_a_graph_gives_the_bits_of_single_steps(self, num_envs: int, own_generator: bool) -> None:
        runs = []
        for graph in (True, False):
            generator = torch.Generator("cuda").manual_seed(7) if own_generator else None
            policy = Policy("cuda", generator)
            env = environment(num_envs, "cuda")
            torch.manual_seed(7)
            generators = (generator,) if own_generator else ()
            runs.append(
                [
                    env.rollout(policy, 9, info=("equity",), generators=generators, graph=graph)
                    for _ in range(5)
                ]
            )
        for captured, eager in zip(*runs, strict=True):
            assert_same(captured, eager)
        assert not torch.equal(runs[0][3].actions, runs[0][4].actions), "the random numbers must go on"

    @pytest.mark.parametrize("copy", [False, True])
    def test_nothing_waits_for_the_device(self, copy: bool) -> None:
        env, policy = environment(64, "cuda", copy=copy), Policy("cuda")
        for _ in range(2):
            env.rollout(policy, 16)
        torch.cuda.set_sync_debug_mode("error")
        try:
            torch.cuda._sleep(int(1.5e9))
            for _ in range(5):
                env.rollout(policy, 16)
            done = torch.cuda.Event()
            done.record()
            assert not done.query(), "the rollouts waited for the work ahead of them"
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def test_weights_changed_in_place_resets_and_knobs_are_seen(self) -> None:
        env, twin = environment(64, "cuda"), environment(64, "cuda")
        policy = Policy("cuda")
        for call in range(4):
            with torch.no_grad():
                policy.head.weight.normal_()
            for each in (env, twin):
                each.reset(seed=call)
                each.set_knob("exploration_scale", call / 4)
            torch.manual_seed(call)
            captured = env.rollout(policy, 6)
            torch.manual_seed(call)
            assert_same(captured, twin.rollout(policy, 6, graph=False))

    @pytest.mark.parametrize("wait", ["item", "synchronize"])
    def test_a_policy_that_waits_is_named(self, wait: str) -> None:
        def impatient(obs: Any) -> Any:
            obs.sum().item() if wait == "item" else torch.cuda.synchronize()
            return torch.zeros(5, 4, dtype=torch.int64, device="cuda")

        env = environment(device="cuda")
        with pytest.raises(BackendError, match="impatient cannot be captured"):
            twice(env, impatient)
        assert env.rollout(impatient, 4, graph=False).rewards.shape == (4, 5)
        for _ in range(3):
            assert env.rollout(Policy("cuda"), 4).rewards.shape == (4, 5)

    def test_an_unnamed_generator_is_named(self) -> None:
        policy = Policy("cuda", torch.Generator("cuda"))
        env = environment(device="cuda")
        with pytest.raises(BackendError, match="generators="):
            twice(env, policy)

    def test_bad_actions_are_reported_by_the_next_call(self) -> None:
        env = environment(device="cuda")

        def policy(obs: Any) -> Any:
            return torch.full((5, 4), 9, dtype=torch.int64, device="cuda")

        env.rollout(policy, 1)
        torch.cuda.synchronize()
        with pytest.raises(ActionError, match="outside the action space"):
            env.rollout(policy, 1)

    def test_without_copies_the_buffers_are_used_again(self) -> None:
        env, policy = environment(device="cuda", copy=False), Policy("cuda")
        first = env.rollout(policy, 4)
        assert env.rollout(policy, 4).obs.data_ptr() == first.obs.data_ptr()
        assert env.rollout(policy, 4, copy=True).obs.data_ptr() != first.obs.data_ptr()
