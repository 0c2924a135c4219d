"""Agents of Stable-Baselines3 find what there is to earn."""

import pytest

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

from fox_agents.experiments import reference_of, train_on
from fox_agents.reference_scores import score


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("ppo", 300_000), ("qrdqn", 300_000)])
def test_a_strong_signal_is_traded(name: str, steps: int) -> None:
    reference = reference_of("signal:beta=0.4")
    settings = {"seed": 0, "hidden": 64}
    trained = train_on(
        reference.market(0, 300), reference.config, name, settings, num_envs=64, steps=steps, backend="cpu"
    )
    found = score(trained.agent, reference, 200_000)
    assert found.adjusted_share is not None and found.adjusted_share > 0.5
