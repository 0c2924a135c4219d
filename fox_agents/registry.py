"""Agents by name: the ones shipped here and those of the entry-point group ``fox_agents.agents``."""

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from fox_agents.api import Agent
from fox_agents.checkpoint import read_state
from fox_agents.plain_values import nearest
from fox_env.errors import ConfigError

__all__ = ["agent_class", "load", "make", "names"]

_GROUP = "fox_agents.agents"
# Imported when asked for: importing torch takes seconds, and the rules make no use of it.
_SHIPPED = {
    "a2c": "fox_agents.sb3.algorithms:A2CAgent",
    "bdq": "fox_agents.dqn.agent:BDQAgent",
    "buy_and_hold": "fox_agents.rules:BuyAndHold",
    "dqn": "fox_agents.sb3.algorithms:DQNAgent",
    "flat": "fox_agents.rules:Flat",
    "maskable_ppo": "fox_agents.sb3.algorithms:MaskablePPOAgent",
    "mean_reversion": "fox_agents.price_rules:MeanReversion",
    "momentum": "fox_agents.price_rules:Momentum",
    "oracle": "fox_agents.oracle:Oracle",
    "ppo": "fox_agents.sb3.algorithms:PPOAgent",
    "qrdqn": "fox_agents.sb3.algorithms:QRDQNAgent",
    "qrdqn_ref": "fox_agents.dqn.reference:QRDQNReference",
    "random": "fox_agents.rules:Random",
    "recurrent_ppo": "fox_agents.sb3.algorithms:RecurrentPPOAgent",
}


def names() -> list[str]:
    """Every registered name, sorted."""
    return sorted({*_SHIPPED, *_third_party()})


def agent_class(name: str) -> type[Agent]:
    """Class registered under ``name``; ConfigError with the nearest name when there is none."""
    if name in _SHIPPED:
        module, _, attribute = _SHIPPED[name].partition(":")
        shipped: type[Agent] = getattr(import_module(module), attribute)
        return shipped
    entry = _third_party().get(name)
    if entry is None:
        raise ConfigError(f"unknown agent {name!r}: {nearest(name, names())}")
    loaded: type[Agent] = entry.load()
    return loaded


def make(name: str, env: Any = None, config: Any = None) -> Agent:
    """A new agent.

    Parameters
    ----------
    name : str
        Registered name.
    env : FoxFuturesVectorEnv, optional
        Environment to learn in; not needed by an agent that only acts.
    config : optional
        The agent's configuration object, or a mapping of its fields.

    Raises
    ------
    ConfigError
        For an unknown name or field, with the nearest valid one.
    """
    cls: Any = agent_class(name)
    agent: Agent = cls(env, config)
    return agent


def load(directory: str | Path, env: Any = None) -> Agent:
    """Agent from a checkpoint directory; its class is found by the name in the checkpoint."""
    name = read_state(Path(directory)).get("agent")
    return agent_class(str(name)).load(directory, env)


def _third_party() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=_GROUP)}
