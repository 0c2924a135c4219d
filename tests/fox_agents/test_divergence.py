"""A number that is not finite stops learning before it does harm, and the error names where it was seen."""

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from small_agents import ENVS, KINDS, NAMES, Until, new, parameters  # noqa: E402

from fox_agents.dqn.loop import DeviceAgent  # noqa: E402
from fox_env.errors import FoxError  # noqa: E402


def in_rewards(agent: DeviceAgent) -> None:
    assert agent._replay is not None
    for name, ring in agent._replay._rings.items():
        if name in ("reward", "exposure_reward"):
            ring.fill_(float("nan"))


def in_observations(agent: DeviceAgent) -> None:
    assert agent._replay is not None
    agent._replay._rings["account"].fill_(float("inf"))


def in_parameters(agent: DeviceAgent) -> None:
    agent.learner.optimiser.parameters[:2] = float("nan")


def slow_copies(agent: DeviceAgent) -> dict[str, bytes]:
    return {
        name: tensor.detach().numpy().tobytes()
        for name, tensor in agent.learner.tensors().items()
        if name.startswith(("target.", "average.", "moment"))
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plant", [in_rewards, in_observations, in_parameters])
def test_the_update_is_stopped_before_it_is_applied(kind: str, plant: Callable[[DeviceAgent], None]) -> None:
    agent = new(kind)
    agent.learn(80)
    plant(agent)
    weights, copies = parameters(agent), slow_copies(agent)
    for _ in range(3):  # latched: a later, finite batch does not let learning go on
        agent._update()
    assert parameters(agent) == weights and not agent.learner.ok
    if plant is not in_parameters:
        assert slow_copies(agent) == copies


@pytest.mark.parametrize(
    ("kind", "plant", "message"),
    [
        ("bdq", in_rewards, "not finite: reward, target, loss"),
        ("bdq_full", in_rewards, "not finite: reward, target, loss"),
        ("bdq", in_observations, "not finite: observation, target, logits"),
        ("bdq", in_parameters, "not finite: .*hidden"),
        *(("qrdqn_ref", plant, "not finite: gradient") for plant in (in_rewards, in_parameters)),
    ],
)
def test_training_fails_and_names_what_was_not_finite(
    kind: str, plant: Callable[[DeviceAgent], None], message: str
) -> None:
    agent = new(kind)
    agent.learn(80)
    plant(agent)
    with pytest.raises(FoxError, match=rf"training diverged at step 160: {message}.*lower agent\.lr"):
        agent.learn(320)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_gradient_of_a_finite_loss_is_not_applied(kind: str) -> None:
    agent = new(kind)
    agent.learn(80)
    last = list(agent.learner.network.parameters())[-1]
    last.register_hook(lambda gradient: gradient * float("nan"))
    weights = parameters(agent)
    agent._update()
    assert parameters(agent) == weights and not agent.learner.ok
    assert agent.learner.faults() == ["gradient"]


@pytest.mark.parametrize("kind", NAMES)
def test_a_step_size_beyond_reason_is_reported_as_divergence(kind: str) -> None:
    agent = new(kind, lr=1e9, lr_end=1e9)
    with pytest.raises(FoxError, match=r"diverged.*lower agent\.lr"):
        agent.learn(3200)


@pytest.mark.parametrize("kind", NAMES)
def test_a_fault_is_neither_saved_nor_passed_over_at_a_stop(kind: str, tmp_path: Path) -> None:
    agent = new(kind)
    agent.learn(80)
    in_parameters(agent)
    agent._update()
    agent.save(tmp_path / "c", policy_only=True)
    with pytest.raises(FoxError, match="diverged"):
        agent.save(tmp_path / "d")
    assert not (tmp_path / "d").exists()
    with pytest.raises(FoxError, match="diverged"):  # also at a stop inside an epoch
        agent.learn(agent.env_steps + 10_000, [Until(1)])


@pytest.mark.parametrize("kind", NAMES)
def test_finite_learning_raises_no_flag(kind: str) -> None:
    agent = new(kind)
    agent.learn(40 * ENVS)
    assert agent.learner.ok
