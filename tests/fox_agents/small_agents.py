"""Small agents and environments of the tests, and what is compared between two runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

import fox_agents
from fox_agents.api import Agent, Callback
from fox_agents.dqn.loop import DeviceAgent
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, synthetic

ENVS = 8
LOOP: dict[str, Any] = {
    "hidden": 16,
    "batch_size": 16,
    "replay_size": 200,
    "learning_starts": 64,
    "schedule_steps": 600,
    "epoch_steps": 80,
}
BRANCHING: dict[str, Any] = {
    **LOOP,
    "atoms": 11,
    "quantiles": 4,
    "experts": 2,
    "expert_width": 4,
    "gate_width": 4,
    "ensemble_width": 4,
    "noisy": True,
    "prioritised": True,
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "bdq": ("bdq", BRANCHING),
    "bdq_full": ("bdq", {**BRANCHING, "full_information": True, "n_step": 1}),
    "qrdqn_ref": ("qrdqn_ref", {**LOOP, "quantiles": 4}),
}
"""Registered name and settings of the agents that the shared promises are tested for."""
NAMES = ("bdq", "qrdqn_ref")
RULES = EnvConfig(reward="risk", horizon=23, exploration_scale=1.0, saboteur=(0.5, 2.0), counterfactual=True)

MARKET = synthetic.regimes(seed=0, sessions=3)


def environment(
    rules: EnvConfig = RULES,
    envs: int = ENVS,
    market: Market | None = MARKET,
    backend: str = "cpu",
    **options: Any,
) -> FoxFuturesVectorEnv:
    return FoxFuturesVectorEnv(
        envs,
        market,
        rules,
        backend=backend,
        output="torch",
        autoreset_mode=AutoresetMode.SAME_STEP,
        copy=False,
        info_level="learn",
        **options,
    )


def new(kind: str, env: FoxFuturesVectorEnv | None = None, **changes: Any) -> DeviceAgent:
    """An agent of `KINDS` in ``env``, a new one when None."""
    name, settings = KINDS[kind]
    agent = fox_agents.make(name, environment() if env is None else env, {**settings, **changes})
    assert isinstance(agent, DeviceAgent)
    return agent


def loaded(directory: Any, env: FoxFuturesVectorEnv | None = None) -> DeviceAgent:
    agent = fox_agents.load(directory, env)
    assert isinstance(agent, DeviceAgent)
    return agent


def parameters(agent: DeviceAgent) -> bytes:
    """Every byte of the learned weights."""
    weights: bytes = agent.learner.optimiser.parameters.cpu().numpy().tobytes()
    return weights


def fingerprint(agent: DeviceAgent) -> dict[str, bytes]:
    """Every byte that decides how learning goes on."""
    assert agent.env is not None
    tensors = {**agent.learner.tensors(), **agent._loop_tensors()}
    state = {name: tensor.detach().cpu().numpy().tobytes() for name, tensor in tensors.items()}
    return state | {name: np.asarray(a).tobytes() for name, a in agent.env.state_dict().items()}


class Until(Callback):
    """Stops after a number of iterations, and notes the diagnostics of the epochs."""

    def __init__(self, iterations: int | None = None) -> None:
        self.left = iterations
        self.epochs: list[tuple[int, dict[str, float]]] = []

    def on_iteration(self, agent: Agent) -> bool:
        if self.left is None:
            return True
        self.left -= 1
        return self.left > 0

    def on_epoch(self, agent: Agent, diagnostics: Mapping[str, float]) -> None:
        self.epochs.append((agent.env_steps, dict(diagnostics)))
