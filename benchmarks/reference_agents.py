"""Training of the agents that `reference_markets.py` compares, by name."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness import ROOT

import fox_agents
from fox_agents import cli
from fox_agents.api import Agent, Callback, Inspected
from fox_agents.callbacks import TimeLimit
from fox_agents.comparison_command import lengths
from fox_agents.config import AGENTS
from fox_agents.experiments import Trained, train_on
from fox_agents.plain_values import build
from fox_agents.reference_markets import ReferenceMarket
from fox_agents.reference_scores import Score
from fox_agents.registry import agent_class
from fox_env import EnvConfig, Market
from fox_env.errors import ConfigError

NUM_ENVS = {"torch": 1_024, "numpy": 64}
"""Environments of an agent by the arrays it works on: on host arrays many cost more than they bring."""


@dataclass(frozen=True)
class Budget:
    """When training ends: whichever comes first."""

    steps: int
    """Environment steps, over all environments."""
    seconds: float | None
    """Wall time of learning; None: no limit."""


class EarlyScore(Callback):
    """Scores an agent once, when it has collected ``steps`` transitions."""

    def __init__(self, steps: float, scored: Callable[[Agent], Score]) -> None:
        self._steps, self._scored = steps, scored
        self.score: Score | None = None
        self.gap: float | None = None
        """As `value_gap` then."""

    def on_iteration(self, agent: Agent) -> bool:
        """Score the agent if it is time."""
        if self.score is None and agent.env_steps >= self._steps:
            self.score, self.gap = self._scored(agent), value_gap(agent)
        return True


def value_gap(agent: Agent) -> float | None:
    """Mean lead of the best value over the next, at the present states; None for an agent without values."""
    gaps = agent.distributions().get("value_gaps") if isinstance(agent, Inspected) else None
    return None if gaps is None else float(gaps.mean())


def overrides(texts: Sequence[str], agent: str) -> dict[str, Any]:
    """The values of ``AGENT.key=value`` texts for one agent, read as Python values where they are some."""
    found: dict[str, Any] = {}
    for text in texts:
        key, _, value = text.partition("=")
        name, _, option = key.partition(".")
        if not (name and option and value):
            raise SystemExit(f"--set {text}: write AGENT.key=value, such as bdq.lr=1e-3 or bdq.num_envs=256")
        if name == agent:
            try:
                found[option] = ast.literal_eval(value)
            except (SyntaxError, ValueError):
                found[option] = value
    return found


def preset_settings(agent: str, preset: str | None, steps: int) -> dict[str, Any]:
    """The settings of an agent and its number of environments in a preset, with schedules as long as the training.

    The rules of trading are those of the reference market all the same.
    """
    if preset is None or agent not in AGENTS:
        return {}
    config = cli.agent_preset(agent, preset, ROOT / "configs", lengths(agent, steps))
    settings = asdict(config.agent)
    del settings["seed"]
    return {**settings, "num_envs": config.train.num_envs}


def missing(agent: str) -> str | None:
    """Why an agent cannot be trained here, or None."""
    if agent not in fox_agents.names():
        return f"{agent}: no such agent; there are {', '.join(fox_agents.names())}"
    try:
        agent_class(agent)
    except ConfigError as error:  # it names the missing extra
        return f"{agent}: {error}"
    return None


def train(
    name: str,
    reference: ReferenceMarket,
    market: Market,
    seed: int,
    budget: Budget,
    backend: str,
    changes: Mapping[str, Any],
    callbacks: Sequence[Callback] = (),
) -> Trained:
    """Train an agent on a market under the rules of a reference market, with market orders only."""
    settings = dict(changes)
    config = _training_rules(reference.config, settings)
    kind = agent_class(name)
    if not kind.learns:
        return Trained(fox_agents.make(name, None, settings), 0, 0.0, settings)
    num_envs = int(settings.pop("num_envs", NUM_ENVS[kind.output]))
    limits = [] if budget.seconds is None else [TimeLimit(budget.seconds)]
    return train_on(
        market,
        config,
        name,
        {**settings, "seed": seed},
        num_envs=num_envs,
        steps=budget.steps,
        backend=backend,
        callbacks=[*callbacks, *limits],
    )


def _training_rules(config: EnvConfig, settings: dict[str, Any]) -> EnvConfig:
    """The rules with those changes that are named ``env.option``, which are taken out of the settings."""
    options = {
        key.removeprefix("env."): settings.pop(key) for key in list(settings) if key.startswith("env.")
    }
    return build(EnvConfig, options, "env", config)
