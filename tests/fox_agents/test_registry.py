"""Agents by name, and the rules."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fox_agents
from fox_agents import registry
from fox_agents.rules import Flat, Rule, RuleConfig
from fox_env.errors import ConfigError

OBS = np.zeros((6, 128), np.float32)


def test_importing_the_package_needs_no_torch() -> None:
    code = "import sys, fox_agents; fox_agents.make('flat'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["flat", "random", "buy_and_hold"])
def test_rules_act_save_and_load(name: str, tmp_path: Path) -> None:
    agent = fox_agents.make(name)
    assert isinstance(agent, fox_agents.Agent) and agent.name == name and not agent.learns
    actions = agent.act(OBS, deterministic=True)
    assert actions.shape == (6, 4) and actions.dtype == np.int64
    agent.learn(10)
    agent.save(tmp_path / "c")
    again = fox_agents.load(tmp_path / "c").act(OBS, deterministic=True)
    np.testing.assert_array_equal(again, actions)


def test_what_the_rules_choose() -> None:
    assert fox_agents.make("flat").act(OBS, deterministic=True).tolist() == [[3, 2, 0, 1]] * 6
    assert fox_agents.make("buy_and_hold").act(OBS, deterministic=True).tolist() == [[2, 2, 0, 1]] * 6


def test_random_is_uniform_over_the_distinct_actions_and_seeded() -> None:
    masks = np.ones((4000, 13), bool)
    masks[:, 1] = masks[:, 12] = False
    agent = fox_agents.make("random", config={"seed": 1})
    actions = agent.act(np.zeros((4000, 128), np.float32), deterministic=True, masks=masks)
    counts = [np.bincount(actions[:, b], minlength=4)[:n] for b, n in enumerate((4, 3, 3, 3))]
    assert counts[0][1] == 0 and counts[3][2] == 0
    assert min(*counts[0][[0, 2, 3]], *counts[1], *counts[2]) > 4000 / 3 - 150  # five standard errors
    twin = fox_agents.make("random", config={"seed": 1})
    np.testing.assert_array_equal(
        twin.act(np.zeros((4000, 128), np.float32), deterministic=True, masks=masks), actions
    )


@pytest.mark.parametrize(("name", "hint"), [("flatt", "flat"), ("buy_hold", "buy_and_hold"), ("bdqq", "bdq")])
def test_an_unknown_name_gets_the_nearest_one(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown agent '{name}': did you mean '{hint}'"):
        fox_agents.make(name)


def test_an_unknown_option_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown key random\.sed: did you mean 'seed'"):
        fox_agents.make("random", config={"sed": 1})


def test_a_rule_of_ones_own_is_a_name_options_and_a_choice(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Options(RuleConfig):
        direction: int = 1

    class Mine(Rule):
        name = "mine"
        config_class = Options

        def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
            return np.tile(np.array([self.config.direction, 2, 0, 1]), (len(obs), 1))

    agent = Mine(config={"direction": 2})
    assert isinstance(agent, fox_agents.Agent) and not agent.learns
    agent.save(tmp_path / "c")
    assert Mine.load(tmp_path / "c").act(OBS, deterministic=True).tolist() == [[2, 2, 0, 1]] * 6
    with pytest.raises(ConfigError, match=r"unknown key .*drection: did you mean 'direction'"):
        Mine(config={"drection": 2})


def test_third_parties_register_through_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "mine"

        def load(self) -> type[Flat]:
            return Flat

    def entries(group: str) -> list[Any]:
        return [Entry()] if group == "fox_agents.agents" else []

    monkeypatch.setattr(registry, "entry_points", entries)
    assert "mine" in fox_agents.names()
    assert isinstance(fox_agents.make("mine"), Flat)
