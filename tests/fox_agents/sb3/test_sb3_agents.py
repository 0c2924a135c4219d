"""Agents of Stable-Baselines3 under the promises of every Fox agent."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

import torch
from small_sb3 import ENVS, MARKET, NAMES, SETTINGS, environment, new, observations, weights

import fox_agents
from fox_agents.api import Agent, Callback, Planner
from fox_agents.faults import TrainingFault
from fox_agents.registry import agent_class
from fox_agents.sb3.counted import CountedVecEnv
from fox_agents.unseen import COUNTERS
from fox_env._layout import ACTION_BRANCHES
from fox_env.adapters.sb3 import FoxVecEnv
from fox_env.errors import ConfigError


class Noted(Callback):
    """Keeps the epochs, and stops after a number of iterations."""

    def __init__(self, iterations: int | None = None) -> None:
        self.left = iterations
        self.epochs: list[tuple[int, dict[str, float]]] = []

    def on_iteration(self, agent: Agent) -> bool:
        self.left = None if self.left is None else self.left - 1
        return self.left is None or self.left > 0

    def on_epoch(self, agent: Agent, diagnostics: Mapping[str, float]) -> None:
        self.epochs.append((agent.env_steps, dict(diagnostics)))


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_learns_and_acts_the_same_after_saving(name: str, tmp_path: Path) -> None:
    agent = new(name)
    assert isinstance(agent, fox_agents.Agent) and agent.name == name and agent.learns
    before = weights(agent)
    agent.learn(256)
    assert agent.env_steps == 256 and weights(agent) != before
    agent.save(tmp_path / "c", policy_only=True)
    again: Any = fox_agents.load(tmp_path / "c")
    assert again.env_steps == 256 and again.env_config == agent.env_config and again.env is None
    obs, masks = observations(), np.ones((40, sum(ACTION_BRANCHES)), bool)
    for _ in range(2):  # what a recurrent agent remembers counts too
        mine, its = (a.act(obs, deterministic=True, masks=masks) for a in (agent, again))
        assert mine.shape == (40, 4) and mine.dtype == np.int64
        np.testing.assert_array_equal(mine, its)
    drawn = again.act(obs, deterministic=False, masks=masks)
    assert (drawn >= 0).all() and (drawn < ACTION_BRANCHES).all() and (drawn != mine).any()
    result = fox_agents.evaluate(again, MARKET)
    assert result.config.saboteur == (0.5, 2.0) and result.agent == name


def test_learning_stops_where_a_callback_says_and_goes_on() -> None:
    agent, noted = new("ppo"), Noted(2)
    agent.learn(10_000, [noted])
    assert agent.env_steps == 2 * 16 * ENVS and [step for step, _ in noted.epochs] == [128, 256]
    whole = new("ppo")
    whole.learn(512)
    agent.learn(512)
    assert weights(agent) == weights(whole)


def test_an_epoch_ends_when_its_steps_are_over_and_at_the_end() -> None:
    agent, noted = new("a2c", epoch_steps=100), Noted()
    agent.learn(330, [noted])
    assert [step for step, _ in noted.epochs] == [128, 256, 320, 384]


@pytest.mark.parametrize("name", NAMES)
def test_diagnostics_have_the_names_of_the_branching_agent(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = environment()
    rewards, ends = [], []
    step = env.step

    def noted_step(actions: Any) -> Any:
        out = step(actions)
        rewards.append(out[1].copy())
        ends.append((out[2] | out[3]).sum())
        return out

    monkeypatch.setattr(env, "step", noted_step)
    agent, noted = new(name, env, epoch_steps=256), Noted()
    agent.learn(256, [noted])
    [(_, found)] = noted.epochs
    shares = ["share_short", "share_hold", "share_long", "share_flat"]
    assert found["reward"] == pytest.approx(np.mean(rewards), rel=1e-6)
    assert found["episodes"] == sum(ends) > 0 and found["terminations"] == 0.0
    assert sum(found[share] for share in shares) == pytest.approx(1.0)
    updates = {"a2c": 256 / (8 * ENVS), "dqn": (256 - 64) / ENVS, "qrdqn": (256 - 64) / ENVS}
    assert found["updates"] == updates.get(name, 256 / 32 * 2)
    assert np.isfinite([found["loss"], found["signals/lr"]]).all()
    assert ("epsilon" in found) == ("replay/fill" in found) == (name in ("dqn", "qrdqn"))


def test_the_generators_of_the_caller_are_left_alone() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    expected = torch.rand(3).tolist(), np.random.rand(3).tolist()
    torch.manual_seed(5)
    np.random.seed(5)
    agent = new("dqn")
    agent.learn(256)
    agent.act(observations(), deterministic=False)
    assert (torch.rand(3).tolist(), np.random.rand(3).tolist()) == expected


def test_acting_is_no_part_of_learning() -> None:
    for name in ("dqn", "recurrent_ppo"):
        plain, acting = new(name), new(name)
        for agent in (plain, acting):
            agent.learn(256)
        acting.act(observations(), deterministic=False)
        acting.act(observations(), deterministic=True)
        for agent in (plain, acting):
            agent.learn(512)
        assert weights(plain) == weights(acting), name


def test_the_seed_decides() -> None:
    one, other = new("ppo", seed=2**40 + 1), new("ppo", seed=2)
    same = new("ppo", seed=2**40 + 1)
    assert weights(one) == weights(same) != weights(other)


def test_masked_actions_are_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    env = environment()
    taken: list[bool] = []
    step = env.step

    def noted_step(actions: Any) -> Any:
        offsets = np.cumsum((0, *ACTION_BRANCHES[:-1]))
        taken.extend(np.take_along_axis(env.action_masks(), actions + offsets, axis=1).ravel().tolist())
        return step(actions)

    monkeypatch.setattr(env, "step", noted_step)
    agent = new("maskable_ppo", env)
    agent.learn(256)
    assert len(taken) == 4 * 256 and all(taken)
    masks = np.zeros((40, sum(ACTION_BRANCHES)), bool)
    masks[:, [1, 6, 7, 11]] = True
    for deterministic in (True, False):
        actions = agent.act(observations(), deterministic=deterministic, masks=masks)
        assert actions.tolist() == [[1, 2, 0, 1]] * 40


def test_a_recurrent_agent_remembers_until_it_is_prepared() -> None:
    agent = new("recurrent_ppo")
    agent.learn(128)
    states = []
    obs = observations()
    for _ in range(2):
        agent.act(obs, deterministic=True)
        states.append(agent._memory[0].copy())
    agent.prepare(None)
    agent.act(obs, deterministic=True)
    assert (states[0] != states[1]).any() and (agent._memory[0] == states[0]).all()
    first, second = (fox_agents.evaluate(agent, MARKET, num_envs=4).equity for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("name", "checks"), [("ppo", True), ("ppo", False), ("dqn", True)])
def test_divergence_is_a_fault_that_names_the_mend(
    name: str, checks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some libraries switch torch's checks of distributions off when they are imported."""
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", checks)
    agent = new(name)
    agent.learn(128)
    with torch.no_grad():
        next(agent.model.policy.parameters()).fill_(float("nan"))
    with pytest.raises(TrainingFault, match=r"training diverged at step \d+.*lower agent\.lr"):
        agent.learn(512)
    with pytest.raises(TrainingFault):
        agent.save(tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"action_type": "discrete"}, "action_type='branches'"),
        ({"output": "torch"}, "output='numpy'"),
        ({"autoreset_mode": "NEXT_STEP"}, "SAME_STEP"),
    ],
)
def test_an_environment_that_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        new("ppo", environment(**options))


def test_learning_needs_an_environment() -> None:
    with pytest.raises(ConfigError, match="no environment to learn in"):
        fox_agents.make("ppo", None, SETTINGS["ppo"]).learn(1)


def test_a_replay_larger_than_the_memory_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the replay takes .* lower agent\.replay_size"):
        fox_agents.make("dqn", None, {"replay_size": 10**12})


def test_every_name_has_its_class() -> None:
    assert [agent_class(name).name for name in NAMES] == list(NAMES)


def test_without_the_library_one_sentence_says_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['stable_baselines3'] = None; import fox_agents\n"
        "assert 'ppo' in fox_agents.names()\n"
        "try: fox_agents.make('ppo')\n"
        "except fox_agents.registry.ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'fox-futures[sb3]'" in done.stdout and done.stdout.count("\n") == 1


@pytest.mark.parametrize("name", ["ppo", "recurrent_ppo", "qrdqn"])
def test_counters_of_the_episode_are_shown_to_no_network(name: str) -> None:
    """One pass over a long period would take them where no training episode came."""
    agent, obs = new(name), observations()
    changed = obs.copy()
    changed[:, COUNTERS] += 1.0
    masks = np.ones((len(obs), sum(ACTION_BRANCHES)), bool)
    chosen = []
    for shown in (obs, changed):
        if isinstance(agent, Planner):
            agent.prepare(agent.env)
        chosen.append(agent.act(shown, deterministic=True, masks=masks))
    np.testing.assert_array_equal(*chosen)
    before = obs.copy()
    agent.act(obs, deterministic=True, masks=masks)
    np.testing.assert_array_equal(obs, before)  # the caller's array stays as it is
    env = CountedVecEnv(FoxVecEnv(environment()), exposures=False)
    assert (env.reset()[:, COUNTERS] == 0.0).all()
    ended = 0
    for _ in range(30):
        seen, _, dones, infos = env.step(np.tile([2, 2, 0, 1], (ENVS, 1)))
        assert (seen[:, COUNTERS] == 0.0).all() and (seen != 0.0).any()
        for i in np.flatnonzero(dones):
            ended += 1
            assert (infos[i]["terminal_observation"][list(COUNTERS)] == 0.0).all()
    assert ended > 0
