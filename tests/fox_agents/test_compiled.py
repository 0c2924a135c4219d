"""A compiled agent learns what the same agent learns uncompiled."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gymnasium.vector import AutoresetMode  # noqa: E402

import fox_agents  # noqa: E402
from fox_agents.dqn.c51 import project, support_atoms  # noqa: E402
from fox_env import FoxFuturesVectorEnv, synthetic  # noqa: E402
from fox_env.optimum import REFERENCE  # noqa: E402

ENVS = 16
MARKET = synthetic.signal(seed=0, sessions=4, beta=0.2)
SMALL = {
    "hidden": 16,
    "atoms": 7,
    "quantiles": 5,
    "experts": 2,
    "expert_width": 4,
    "gate_width": 8,
    "ensemble_width": 4,
}
EVERY = {
    "cql": "on",
    "barrier": "on",
    "spread": "on",
    "predictive": "on",
    "spectral": "all",
}
SHORT = {"variable_selection": False, "gated": False, "mixture": False}  # the default has them
CASES: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "default": ("bdq", False, SMALL),
    "full_information": ("bdq", True, {**SMALL, **EVERY, **SHORT, "n_step": 1, "accumulate": 2}),
    "reference": ("qrdqn_ref", True, {"hidden": 16, "quantiles": 5, "batch_size": 8}),
}


def learned(case: str, *, compile: bool) -> dict[str, "torch.Tensor"]:
    name, counterfactual, options = CASES[case]
    env = FoxFuturesVectorEnv(
        ENVS,
        MARKET,
        REFERENCE.replace(counterfactual=counterfactual, horizon=64),
        backend="cpu",
        output="torch",
        autoreset_mode=AutoresetMode.SAME_STEP,
        copy=False,
        info_level="learn",
    )
    rest = {
        "batch_size": 16,
        "replay_size": ENVS * 12,
        "learning_starts": ENVS * 4,
        "full_information": counterfactual,
    }
    agent = fox_agents.make(name, env, {**rest, **options, "compile": compile})
    agent.learn(ENVS * 18)  # the ring goes round
    found = dict(agent.learner.tensors())
    found |= {key: value for key, value in agent._loop_tensors().items() if key != "generator"}
    return found | {"diagnostics": torch.tensor(list(agent.diagnostics().values()))}


@pytest.mark.parametrize("case", CASES)
def test_a_compiled_agent_learns_the_same(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced, made functional and run: what the compiler does before it writes kernels, which takes minutes."""
    real, graphs = torch.compile, []

    def traced(function: Any, **settings: Any) -> Any:
        assert settings["fullgraph"]
        graphs.append(function)
        return real(function, backend="aot_eager", fullgraph=True, dynamic=settings["dynamic"])

    monkeypatch.setattr(torch, "compile", traced)
    expected, found = learned(case, compile=False), learned(case, compile=True)
    assert graphs and expected.keys() == found.keys()
    for key, value in expected.items():
        torch.testing.assert_close(
            found[key], value, rtol=2e-3, atol=2e-5, msg=lambda m, key=key: f"{key}: {m}"
        )


def test_a_compiled_projection_is_the_same_for_any_supports() -> None:
    generator = torch.Generator().manual_seed(0)
    onto = torch.stack([support_atoms(-2.0, 3.0, 9), support_atoms(-1.0, 1.0, 9)])
    probabilities = torch.softmax(torch.randn(5, 2, 9, generator=generator), dim=-1)
    reward, discount = torch.randn(5, 2, generator=generator), torch.rand(5, 2, generator=generator)
    discount[0] = 0.0
    expected = project(probabilities, reward, discount, onto[0], onto)
    torch._dynamo.reset()
    traced = torch.compile(project, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(traced(probabilities, reward, discount, onto[0], onto), expected)
