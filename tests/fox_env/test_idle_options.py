"""Options that change nothing are named when an environment is made, and do change nothing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_market import make, random_actions

from fox_agents.config import load_run_config
from fox_env import EnvConfig
from fox_env.idle_options import _warn, idle_options

ROOT = Path(__file__).resolve().parents[2]
TRADE = {"reward": "trade", "shaping_scale": 1.0}
LIMITS = {"limit_offset_ticks": (9.0, 9.0, 9.0), "ioc_tolerance_ticks": (0.0, 0.0, 0.0), "gtc": True}

# Options -> the names that are idle among them.
IDLE: list[tuple[dict[str, Any], str, set[str]]] = [
    ({"min_hold": "hard"}, "branches", {"min_hold"}),
    ({"min_hold": "hard", "min_hold_bars": 3}, "branches", set()),
    ({"kelly_floor": 0.1, "kelly_safety": 0.5}, "branches", {"kelly_floor", "kelly_safety"}),
    ({"kelly_floor": 0.1, "kelly_safety": 0.5, "kelly": True}, "branches", set()),
    ({"reward_scale": 1.0, "reward": "risk"}, "branches", {"reward_scale"}),
    ({"reward_scale": 1.0}, "branches", set()),
    ({"loss_cap": -1.0, "gain_cap": 1.0}, "branches", {"loss_cap", "gain_cap"}),
    ({"reward_weights": (1.0,) * 5, "path_band": 0.0}, "branches", {"reward_weights", "path_band"}),
    ({"carry_price": 1.0, "floor_penalty": 9.0}, "branches", {"carry_price", "floor_penalty"}),
    ({"shaping_scale": 1.0, "early_exit_bars": 5.0}, "branches", {"shaping_scale", "early_exit_bars"}),
    ({**TRADE, "loss_cap": -1.0, "path_band": 0.0, "floor_penalty": 9.0}, "branches", set()),
    ({**TRADE, "early_exit_bars": 5.0}, "branches", {"early_exit_bars"}),
    ({**TRADE, "early_exit_bars": 5.0, "min_hold_bars": 20}, "branches", set()),
    ({"exploration_scale": 1.0}, "branches", {"exploration_scale"}),
    ({"exploration_scale": 1.0, "saboteur": (0.5, 2.0)}, "branches", set()),
    ({"saboteur": (0.5, 2.0)}, "branches", set()),  # for the knob
    (LIMITS, "branches", set()),
    (LIMITS, "discrete", set(LIMITS)),
    ({**LIMITS, "queue_prob": 1.0}, "continuous", {*LIMITS, "queue_prob"}),
    ({"queue_prob": 1.0, "profit_target_atr": 1.0}, "discrete", set()),
]


def names(sentences: list[str]) -> set[str]:
    return {sentence.split("=")[0] for sentence in sentences}


@pytest.mark.parametrize(("options", "action_type", "idle"), IDLE)
def test_what_is_idle_is_named(options: dict[str, Any], action_type: str, idle: set[str]) -> None:
    assert names(idle_options(EnvConfig(**options), action_type)) == idle


@pytest.mark.parametrize(("options", "action_type", "idle"), [case for case in IDLE if case[2]])
def test_what_is_idle_changes_no_bit(options: dict[str, Any], action_type: str, idle: set[str]) -> None:
    left_out = {name: value for name, value in options.items() if name not in idle}
    envs = [make(8, horizon=30, action_type=action_type, **chosen) for chosen in (options, left_out)]
    rng = np.random.default_rng(0)
    steps = {
        "branches": lambda: random_actions(8, 1)[0],
        "discrete": lambda: rng.integers(0, 8, 8),
        "continuous": lambda: rng.uniform(-1, 1, 8).astype(np.float32),
    }
    for env in envs:
        env.reset(seed=2)
    for _ in range(60):
        actions = steps[action_type]()
        first, second = (env.step(actions) for env in envs)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(first[:4], second[:4], strict=True))


def test_a_soft_minimum_hold_only_shows_where_no_trade_is_paid() -> None:
    (sentence,) = idle_options(EnvConfig(min_hold_bars=5))
    assert sentence == (
        "min_hold_bars=5 has no effect but on the observation with min_hold='soft' and reward='return'; "
        "use min_hold='hard' or reward='trade'"
    )
    assert not idle_options(EnvConfig(min_hold_bars=5, reward="trade"))


def test_an_environment_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    _warn.cache_clear()
    with caplog.at_level(logging.WARNING, logger="fox_env"):
        for _ in range(2):
            make(1, kelly_safety=0.5)
        assert caplog.messages == ["kelly_safety=0.5 has no effect without the Kelly cap; set kelly=True"]
        make(1)
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("preset", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.stem)
def test_no_preset_has_an_idle_option(preset: Path) -> None:
    assert not idle_options(load_run_config(preset).env)
