"""Do the agents learn what there is, and nothing where there is nothing? On markets whose best result is known."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from fox_agents.config import load_run_config
from fox_agents.experiments import train_on
from fox_agents.reference_markets import reference_market
from fox_agents.reference_scores import Score, martingale_test, score
from fox_agents.registry import agent_class
from fox_agents.training import new_run, train

PRESET = Path(__file__).parents[2] / "configs" / "smoke.toml"
STEPS = 240_000
"""Half as many again as the preset's, for a right answer on each of the seeds."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def learned(market: str, agent: str, seed: int, bars: int) -> Score:
    """Score on fresh bars after training with the settings of the smoke preset."""
    preset = tomllib.loads(PRESET.read_text(encoding="utf-8"))
    kind: Any = agent_class(agent)
    known = {field.name for field in fields(kind.config_class)}
    given = {**preset["agent"], "schedule_steps": STEPS, "seed": seed}
    settings = {name: value for name, value in given.items() if name in known}
    reference = reference_market(market)
    trained = train_on(
        reference.market(seed, 1_000),
        reference.config,
        agent,
        settings,
        num_envs=preset["train"]["num_envs"],
        steps=STEPS,
        backend="cpu",
    )
    return score(trained.agent, reference, bars, backend="cpu")


@pytest.mark.parametrize(
    ("agent", "seed", "share"), [("bdq", 0, 0.90), ("bdq", 1, 0.90), ("qrdqn_ref", 0, 0.85)]
)
def test_a_strong_signal_is_traded_nearly_as_well_as_can_be(agent: str, seed: int, share: float) -> None:
    """Share of the optimum's expected money a bar, after costs, on bars that were never seen."""
    found = learned("signal_strongest", agent, seed, 1_000_000)
    assert found.adjusted_share >= share
    assert not found.above_optimum


def test_nothing_is_earned_and_little_is_held_on_a_martingale() -> None:
    scores = [learned("martingale", "bdq", seed, 200_000) for seed in range(5)]
    assert martingale_test(np.concatenate([found.realised for found in scores])) >= 0.01
    assert np.mean([found.exposure for found in scores]) <= 0.2


def test_model_selection_keeps_flat_on_a_martingale(tmp_path: Path) -> None:
    config = load_run_config(PRESET, ["data.synthetic=martingale:seed=0"])
    new_run(tmp_path / "run", config)
    assert train(config, tmp_path / "run", backend="cpu").selected == "flat"
