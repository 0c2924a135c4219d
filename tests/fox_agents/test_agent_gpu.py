"""The agents that learn values on a GPU: graphs equal eager steps, nothing waits for the device, runs resume."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from small_agents import ENVS, KINDS, Until, environment, fingerprint, loaded, new, parameters  # noqa: E402

import fox_agents  # noqa: E402
from fox_agents.dqn.loop import DeviceAgent  # noqa: E402
from fox_env import synthetic  # noqa: E402

pytestmark = pytest.mark.gpu
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def _gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")


def gpu_agent(kind: str, **changes: Any) -> DeviceAgent:
    return new(kind, environment(backend="cuda"), **changes)


@every_kind
def test_the_captured_loop_equals_the_eager_one(kind: str) -> None:
    runs = []
    for eager_calls in (3, 1_000_000):
        agent = gpu_agent(kind)
        agent.learn(ENVS)
        agent._collect.eager_calls = agent._update.eager_calls = eager_calls
        notes = Until()
        agent.learn(640, [notes])
        assert sum(values["updates"] for _, values in notes.epochs) == (640 - 64) / ENVS + 1
        runs.append((agent.learner.optimiser.parameters.cpu(), agent._loop_tensors()["observation"].cpu()))
    torch.testing.assert_close(runs[0], runs[1], atol=1e-5, rtol=1e-4)


@every_kind
def test_same_seed_same_bytes(kind: str) -> None:
    agents = [gpu_agent(kind, seed=seed) for seed in (3, 3, 4)]
    for agent in agents:
        agent.learn(320)
    assert fingerprint(agents[0]) == fingerprint(agents[1])
    assert parameters(agents[0]) != parameters(agents[2])


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *((kind, {}) for kind in KINDS),
        ("bdq", {"surgery": True, "accumulate": 2, "spectral": "all", "curiosity": 0.1}),
    ],
)
def test_the_loop_never_waits_for_the_device(kind: str, changes: dict[str, Any]) -> None:
    agent = gpu_agent(kind, **changes)
    agent.learn(160)  # captured by now
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            agent._collect()
            agent._update()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@every_kind
def test_a_run_resumes(kind: str, tmp_path: Path) -> None:
    agent = gpu_agent(kind)
    agent.learn(320)
    agent.save(tmp_path / "c")
    again = loaded(tmp_path / "c", environment(backend="cuda"))
    assert fingerprint(again) == fingerprint(agent)
    agent.learn(640)
    again.learn(640)
    mine, theirs = (a.learner.optimiser.parameters for a in (again, agent))
    torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-3)


@every_kind
def test_a_loaded_policy_works_where_its_observations_are(kind: str, tmp_path: Path) -> None:
    agent = gpu_agent(kind)
    agent.learn(320)
    agent.save(tmp_path / "c", policy_only=True)
    policy = loaded(tmp_path / "c")
    assert policy.device.type == "cpu"
    obs = torch.randn(20, 128, device="cuda")
    actions = policy.act(obs, deterministic=True)
    assert actions.is_cuda and policy.learner.optimiser.parameters.is_cuda
    assert torch.equal(actions, agent.act(obs, deterministic=True))
    result = fox_agents.evaluate(policy, synthetic.regimes(seed=1, sessions=3), backend="cuda")
    assert policy.learner.optimiser.parameters.is_cuda and len(result.returns) > 0


@every_kind
def test_a_learner_on_a_gpu_is_evaluated_there(kind: str) -> None:
    agent = gpu_agent(kind)
    agent.learn(160)
    result = fox_agents.evaluate(agent, synthetic.regimes(seed=1, sessions=3), num_envs=4)
    assert len(result.returns) > 0 and agent.learner.optimiser.parameters.is_cuda
