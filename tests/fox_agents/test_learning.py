"""Does the agent learn? A market with a planted, observable signal, where the right answer is to follow it."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from fox_agents.config import load_run_config
from fox_agents.training import new_run, train

PRESET = Path(__file__).parents[2] / "configs" / "smoke.toml"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_agent_follows_a_planted_signal(seed: int, tmp_path: Path) -> None:
    """On bars it never saw, net of costs: half the account in 15 sessions, and a result that is no luck."""
    settings = ["data.synthetic=signal:seed=0,beta=0.4", f"agent.seed={seed}"]
    config = load_run_config(PRESET, settings)
    new_run(tmp_path / "run", config)
    outcome = train(config, tmp_path / "run", backend="cpu")
    agent, flat, random, _ = (result.metrics for result in outcome.results)
    assert outcome.selected == "bdq"
    assert agent["mean_return_lower_bound"] > 0.0
    assert agent["total_return"] > flat["total_return"] + 0.5
    assert agent["total_return"] > random["total_return"] + 0.5
    assert agent["sharpe"] > 10.0
