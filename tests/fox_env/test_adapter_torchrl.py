"""A batch under TorchRL: specs, what lies under ("next", ...), resets, its collector and a learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from small_market import make, random_actions, small_market

from fox_env import ConfigError

torch = pytest.importorskip("torch")
pytest.importorskip("torchrl", reason="needs the extra torchrl")

from tensordict.nn import TensorDictModule  # noqa: E402
from torchrl.collectors import Collector  # noqa: E402
from torchrl.envs import Compose, GymWrapper, RewardSum, StepCounter, TransformedEnv  # noqa: E402
from torchrl.envs.transforms import ActionMask  # noqa: E402
from torchrl.envs.utils import check_env_specs  # noqa: E402
from torchrl.modules import QValueActor  # noqa: E402
from torchrl.objectives import DQNLoss  # noqa: E402

from fox_env.adapters.torchrl import FoxTorchRLEnv  # noqa: E402

WIDTHS = {"branches": 13, "discrete": 8}


def made(num_envs: int = 3, **arguments: Any) -> FoxTorchRLEnv:
    return FoxTorchRLEnv(num_envs=num_envs, market=small_market(), **{"backend": "cpu", **arguments})


def played(env: Any, actions: Any) -> Any:
    """The transitions of these actions, (T, N), with every reset as TorchRL's collectors do it."""
    now, out = env.reset(), []
    for row in torch.as_tensor(actions):
        step, now = env.step_and_maybe_reset(now.set("action", row))
        out.append(step)
    return torch.stack(out)


@pytest.mark.parametrize("action_type", ["branches", "discrete", "continuous"])
def test_specs_describe_what_is_given(action_type: str) -> None:
    masks = action_type in WIDTHS
    env = made(horizon=7, action_type=action_type, action_masks=masks, info_keys=("equity", "branch_active"))
    check_env_specs(env, seed=0)
    check_env_specs(TransformedEnv(env, StepCounter()), seed=0)
    data = env.rollout(5)
    assert data["action"].shape[:2] == (3, 5) and data["next", "equity"].dtype == torch.float64
    assert env.observation_spec["observation"].space.high.max() == 10.0
    if masks:
        assert data["action_mask"].shape == (3, 5, WIDTHS[action_type])


@pytest.mark.parametrize("wrapped", [False, True])
def test_transitions_are_those_of_the_batch_and_end_in_the_true_state(wrapped: bool) -> None:
    keys = ("equity", "branch_active", "bar_index")
    env: Any = made(4, horizon=6, action_masks=True, info_keys=keys)
    stays = make(4, horizon=6, output="torch", autoreset_mode=AutoresetMode.DISABLED)
    if wrapped:
        env = TransformedEnv(env, Compose(RewardSum(), StepCounter()))
    env.set_seed(11)
    actions = random_actions(4, 20)
    data = played(env, actions)
    obs, info = stays.reset(seed=11)
    for row, step in zip(actions, data, strict=True):
        assert torch.equal(step["observation"], obs)
        assert torch.equal(step["action_mask"], stays.action_masks())
        assert torch.equal(step["equity"], info["equity"]) and torch.equal(
            step["bar_index"], info["bar_index"]
        )
        obs, reward, terminated, truncated, info = stays.step(row)
        after = step["next"]
        assert torch.equal(after["observation"], obs)
        assert torch.equal(after["action_mask"], stays.action_masks())
        assert all(torch.equal(after[key], info[key]) for key in keys)
        assert torch.equal(after["reward"].squeeze(-1), reward)
        assert torch.equal(after["terminated"].squeeze(-1), terminated)
        assert torch.equal(after["truncated"].squeeze(-1), truncated)
        assert torch.equal(after["done"].squeeze(-1), terminated | truncated)
        assert not step["done"].any()
        if truncated.any():
            obs, info = stays.reset(options={"reset_mask": truncated})
    assert data["next", "truncated"].sum() == 12
    if wrapped:
        assert data["next", "step_count"][data["next", "done"]].unique().tolist() == [6]


@pytest.mark.parametrize("copy", [False, True])
def test_counterfactuals_are_those_of_the_step_also_where_it_ended(copy: bool) -> None:
    keys = tuple(f"counterfactual_{name}" for name in ("reward", "terminated", "truncated", "account"))
    batch = make(
        3, horizon=5, action_type="discrete", output="torch", autoreset_mode="SAME_STEP",
        counterfactual=True, info_level="none", copy=copy,
    )  # fmt: skip
    env = FoxTorchRLEnv(batch, info_keys=keys)
    check_env_specs(env, seed=0)
    assert env.observation_spec["counterfactual_account"].shape == (3, 8, 42)
    env.set_seed(4)
    actions = torch.as_tensor(np.random.default_rng(0).integers(0, 8, (20, 3)))
    after = played(env, actions)["next"]
    chosen = actions.unsqueeze(-1)
    assert torch.equal(after["counterfactual_reward"].gather(-1, chosen), after["reward"])
    assert torch.equal(after["counterfactual_truncated"].gather(-1, chosen), after["truncated"])
    assert after["truncated"].sum() == 12 and not after["counterfactual_terminated"].any()
    account = after["counterfactual_account"].gather(2, chosen.unsqueeze(-1).expand(-1, -1, -1, 42))
    assert torch.equal(account.squeeze(2), after["observation"][..., 86:])


def test_episodes_that_end_apart_are_reset_apart() -> None:
    """A ruined account begins anew while the others go on."""
    env = made(8, horizon=40, initial_cash=5_500.0, max_position=8.0, capital_floor=0.9)
    env.set_seed(1)
    data = played(env, random_actions(8, 60))
    ends = data["next", "done"].squeeze(-1)
    terminated = data["next", "terminated"].squeeze(-1)
    assert terminated.any() and (ends.any(1) & ~ends.all(1)).any()
    same = (data["observation"][1:] == data["next", "observation"][:-1]).all(-1)
    assert torch.equal(same, ~ends[:-1])


def test_a_seed_gives_the_episodes_of_the_batch_and_acts_once() -> None:
    env, twin = made(3, horizon=9), made(3, horizon=9)
    for one in (env, twin):
        one.set_seed(4)
    first = env.reset()["observation"]
    assert torch.equal(first, make(3, horizon=9, output="torch").reset(seed=4)[0])
    assert torch.equal(first, twin.reset()["observation"])
    assert not torch.equal(first, env.reset()["observation"])


def test_a_caller_may_reset_some_before_their_end() -> None:
    env = made(3, info_keys=("bar_index",))
    env.set_seed(0)
    now = env.reset()
    data = env.step(now.set("action", torch.as_tensor(random_actions(3, 1)[0])))["next"]
    before = data["observation"].clone()
    mask = torch.tensor([[False], [True], [False]])
    fresh = env.reset(data.clone().set("_reset", mask))
    assert torch.equal(fresh["observation"][[0, 2]], before[[0, 2]])
    assert fresh["bar_index"][1] != data["bar_index"][1]


def test_held_tensors_never_change() -> None:
    env = made(3, horizon=4, action_masks=True, info_keys=("equity",))
    env.set_seed(0)
    held, copies = [], []
    now = env.reset()
    for row in random_actions(3, 12):
        step, now = env.step_and_maybe_reset(now.set("action", torch.as_tensor(row)))
        held.append(step)
        copies.append(step.clone())
    assert all((a == b).all() for a, b in zip(held, copies, strict=True))


@pytest.mark.parametrize("action_type", list(WIDTHS))
def test_random_actions_heed_the_masks(action_type: str) -> None:
    env = TransformedEnv(made(16, horizon=30, action_type=action_type, action_masks=True), ActionMask())
    data = env.rollout(40, break_when_any_done=False)
    first = data["action"][..., :1] if action_type == "branches" else data["action"].unsqueeze(-1)
    allowed = data["action_mask"].gather(-1, first)
    assert allowed.all() and not data["action_mask"].all()


def test_the_collector_and_a_learner_run() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env = made(4, horizon=10, action_type="discrete", action_masks=True)
    network = TensorDictModule(torch.nn.Linear(128, 8), in_keys=["observation"], out_keys=["action_value"])
    actor = QValueActor(network, spec=env.action_spec_unbatched, action_mask_key="action_mask")
    loss = DQNLoss(actor, action_space="categorical", delay_value=True)
    loss.make_value_estimator(gamma=0.99)
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3)
    collector = Collector(
        env, actor, frames_per_batch=80, total_frames=240, auto_register_policy_transforms=False
    )
    weights = network.module.weight.detach().clone()
    batches = 0
    for data in collector:
        batches += 1
        assert data.shape == (4, 20)
        assert data["next", "truncated"].sum() == 8 and not data["next", "terminated"].any()
        allowed = data["action_mask"].gather(-1, data["action"].unsqueeze(-1))
        assert allowed.all()
        value = loss(data.reshape(-1))["loss"]
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        assert torch.isfinite(value)
    collector.shutdown()
    assert batches == 3 and not torch.equal(weights, network.module.weight)


def test_an_environment_that_does_not_fit_is_refused() -> None:
    same = {"autoreset_mode": AutoresetMode.SAME_STEP, "output": "torch"}
    with pytest.raises(ConfigError, match="output='torch'"):
        FoxTorchRLEnv(make(2, autoreset_mode=AutoresetMode.SAME_STEP))
    with pytest.raises(ConfigError, match="autoreset_mode='SAME_STEP'"):
        FoxTorchRLEnv(make(2, output="torch"))
    with pytest.raises(ConfigError, match="info_level='learn'"):
        FoxTorchRLEnv(make(2, info_level="none", **same), action_masks=True)
    with pytest.raises(ConfigError, match="use info_level='full'"):
        FoxTorchRLEnv(make(2, info_level="learn", **same), info_keys=("equity",))
    fits = FoxTorchRLEnv(make(2, **same), info_keys=("equity",))
    fits.set_seed(3)  # a start in the last bars would end the rollout early
    assert fits.rollout(3).shape == (2, 3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch sees none")
def test_on_a_gpu_nothing_waits_or_crosses_to_the_host() -> None:
    keys = ("equity", "branch_active")
    here = made(33, horizon=7, action_masks=True, info_keys=keys)
    there = made(33, horizon=7, action_masks=True, info_keys=keys, backend="cuda")
    actions = torch.as_tensor(random_actions(33, 30))
    for env in (here, there):
        env.set_seed(3)
    mine = played(here, actions)
    on_device = actions.cuda()
    now, steps = there.reset(), []
    step, now = there.step_and_maybe_reset(now.set("action", on_device[0]))  # the first step may compile
    steps.append(step)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for row in on_device[1:]:
            step, now = there.step_and_maybe_reset(now.set("action", row))
            steps.append(step)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    theirs = torch.stack(steps)
    assert all(value.is_cuda for value in theirs.values(True, True))
    assert (theirs.cpu() == mine).all()


def test_torchrls_own_wrapper_sees_the_same_episode() -> None:
    own = made(3, horizon=5)
    other = GymWrapper(make(3, horizon=5, output="torch", info_level="none", autoreset_mode="SAME_STEP"))
    for env in (own, other):
        env.set_seed(6)
    own.reset()  # its seeding resets, and the first reset of a rollout then begins the next episode
    actions = random_actions(3, 5)
    mine, theirs = played(own, actions), played(other, actions)
    assert mine["next", "truncated"][-1].all()
    for key in ("observation", ("next", "observation"), ("next", "reward"), ("next", "truncated")):
        assert torch.equal(mine[key], theirs[key])
