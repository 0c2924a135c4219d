"""Checkpoints of Stable-Baselines3's agents: no pickle, and learning goes on bit for bit."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

from small_sb3 import NAMES, RULES, environment, new, observations, weights

import fox_agents
from fox_agents.checkpoint import CheckpointError
from fox_env import synthetic


def fingerprint(agent: Any) -> dict[str, Any]:
    """Whatever decides how learning goes on."""
    state = {name: np.asarray(a).tobytes() for name, a in agent.env.state_dict().items()}
    moments = {
        f"{i}.{name}": np.asarray(value).tobytes()
        for i, entries in agent.model.policy.optimizer.state_dict()["state"].items()
        for name, value in entries.items()
    }
    generators = {name: t.numpy().tobytes() for name, t in agent._generators.tensors().items()}
    return state | moments | generators | weights(agent) | {"diagnostics": agent.diagnostics()}


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_is_the_uninterrupted_one(name: str, tmp_path: Path) -> None:
    """The replay is full by then, the schedule half over, and the checkpoint lies inside an epoch."""
    whole = new(name, epoch_steps=384, lr_end=1e-5)
    whole.learn(512)
    whole.save(tmp_path / "c")
    whole.learn(1_024)
    resumed: Any = fox_agents.load(tmp_path / "c", environment())
    assert resumed.env_steps == 512
    resumed.learn(1_024)
    assert fingerprint(resumed) == fingerprint(whole)
    assert {path.suffix for path in (tmp_path / "c").iterdir()} == {".json", ".toml", ".safetensors"}


def test_rates_stay_at_their_end_after_the_schedule(tmp_path: Path) -> None:
    agent = new("dqn", schedule_steps=200, lr=1e-3, lr_end=1e-5, epsilon_start=1.0, epsilon_end=0.25)
    agent.learn(128)
    assert 1e-5 < agent.diagnostics()["signals/lr"] < 1e-3
    assert agent.diagnostics()["epsilon"] == pytest.approx(1.0 - 0.75 * 128 / 200)
    agent.learn(512)
    assert agent.diagnostics()["signals/lr"] == pytest.approx(1e-5)
    assert agent.diagnostics()["epsilon"] == 0.25


def test_a_policy_alone_acts_the_same_and_says_that_learning_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = new("dqn")
    agent.learn(256)
    agent.save(tmp_path / "c", policy_only=True)
    again: Any = fox_agents.load(tmp_path / "c", environment())
    obs = observations()
    np.testing.assert_array_equal(again.act(obs, deterministic=True), agent.act(obs, deterministic=True))
    with caplog.at_level(logging.WARNING):
        again.learn(320)
    assert again.env_steps == 320 and "begin anew" in caplog.text


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    agent = new("ppo")
    agent.learn(128)
    agent.save(tmp_path / "c")
    for env, message in (
        (environment(num_envs=4), "number of environments differs in num_envs: saved 8, now 4"),
        (environment(market=synthetic.regimes(seed=1, sessions=3)), "data differs in digest"),
        (environment(RULES.replace(half_spread_ticks=2.0)), "environment differs in half_spread_ticks"),
    ):
        with pytest.raises(CheckpointError, match=message):
            fox_agents.load(tmp_path / "c", env)
    (tmp_path / "c" / "policy.safetensors").write_bytes(b"cut")
    with pytest.raises(CheckpointError, match="damaged checkpoint file"):
        fox_agents.load(tmp_path / "c")


def test_a_policy_of_other_sizes_does_not_fit(tmp_path: Path) -> None:
    for name, hidden in (("a", 16), ("b", 8)):
        new("ppo", hidden=hidden).save(tmp_path / name)
    (tmp_path / "b" / "policy.safetensors").replace(tmp_path / "a" / "policy.safetensors")
    with pytest.raises(CheckpointError, match="does not fit this version of the agent") as caught:
        fox_agents.load(tmp_path / "a")
    assert "\n" not in str(caught.value)
