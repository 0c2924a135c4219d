"""Counterfactuals: what each of the eight exposures would have led to equals what it leads to when it is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from small_market import make, random_actions

from fox_env import _layout

ACCOUNT = slice(int(_layout.Observation.FEATURES), int(_layout.Observation.SIZE))
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "exits": {"trail_atr": (1.5, 2.5), "profit_target_atr": 2.0, "margin": "intrabar", "reward": "risk"},
    "shaped": {
        "kelly": True,
        "reward": "trade",
        "shaping_scale": 0.5,
        "min_hold_bars": 5,
        "min_hold": "hard",
        "exploration_scale": 1.0,
        "saboteur": (0.5, 3.0),
    },
}


@pytest.mark.parametrize("conviction", [None, 0.6])
@pytest.mark.parametrize("options", CONFIGS.values(), ids=CONFIGS)
def test_every_exposure_leads_where_it_was_said_to(options: dict[str, Any], conviction: float | None) -> None:
    n = 6
    env = make(
        n,
        counterfactual=True,
        horizon=25,
        action_type="discrete",
        autoreset_mode=AutoresetMode.SAME_STEP,
        **options,
    )
    twin = make(n, horizon=25, action_type="discrete", autoreset_mode=AutoresetMode.DISABLED, **options)
    factor = None if conviction is None else np.full(n, conviction, np.float32)
    env.reset(seed=3)
    twin.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(24):
        before = {name: value for name, value in env.state_dict().items() if name in twin.state_dict()}
        chosen = rng.integers(0, 8, n)
        _, reward, terminated, truncated, info = env.step(chosen, factor)
        for exposure in range(8):
            twin.load_state_dict({**twin.state_dict(), **before})
            obs, *expected, _ = twin.step(np.full(n, exposure), factor)
            for name, values in zip(("reward", "terminated", "truncated"), expected, strict=True):
                assert info[f"counterfactual_{name}"][:, exposure].tobytes() == values.tobytes(), name
            assert info["counterfactual_account"][:, exposure].tobytes() == obs[:, ACCOUNT].tobytes()
        rows = np.arange(n)
        assert info["counterfactual_reward"][rows, chosen].tobytes() == reward.tobytes()
        assert (info["counterfactual_terminated"][rows, chosen] == terminated).all()
        assert (info["counterfactual_truncated"][rows, chosen] == truncated).all()


def test_asking_changes_nothing() -> None:
    asked, plain = make(3, counterfactual=True, horizon=20), make(3, horizon=20)
    asked.reset(seed=1)
    plain.reset(seed=1)
    for row in random_actions(3, 60):
        for a, b in zip(asked.step(row)[:4], plain.step(row)[:4], strict=True):
            assert a.tobytes() == b.tobytes()
    same = plain.state_dict()
    for name, values in asked.state_dict().items():
        assert values.tobytes() == same[name].tobytes(), name


def test_an_account_that_waits_for_its_reset_has_none() -> None:
    env = make(1, counterfactual=True, horizon=2, autoreset_mode=AutoresetMode.NEXT_STEP)
    env.reset(seed=0)
    for _ in range(2):
        assert env.step(random_actions(1, 1)[0])[4]["counterfactual_reward"].any()
    info = env.step(random_actions(1, 1)[0])[4]
    assert not info["counterfactual_reward"].any() and not info["counterfactual_truncated"].any()


def test_a_rollout_collects_them() -> None:
    torch = pytest.importorskip("torch")
    env = make(3, counterfactual=True, output="torch", autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=0)
    actions = torch.from_numpy(random_actions(3, 1)[0])
    rollout = env.rollout(lambda obs: actions, 4, info=("counterfactual_reward",))
    assert rollout.info["counterfactual_reward"].shape == (4, 3, 8)


def test_a_reset_leaves_none() -> None:
    env = make(2, counterfactual=True)
    env.reset(seed=0)
    assert env.step(random_actions(2, 1)[0])[4]["counterfactual_account"].any()
    info = env.reset()[1]
    assert not info["counterfactual_reward"].any() and not info["counterfactual_account"].any()


def test_they_come_at_every_info_level_and_from_a_single_account() -> None:
    env = make(2, counterfactual=True, info_level="none")
    env.reset(seed=0)
    info = env.step(random_actions(2, 1)[0])[4]
    assert info["counterfactual_reward"].shape == (2, 8) and info["counterfactual_account"].shape == (
        2,
        8,
        42,
    )
