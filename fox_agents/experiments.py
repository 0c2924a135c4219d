"""Training of a Fox agent on a reference market, and the names of markets with changes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gymnasium.vector import AutoresetMode

from fox_agents.api import Agent, Callback
from fox_agents.plain_values import build
from fox_agents.reference_markets import MarketOrderEnv, ReferenceMarket, reference_market
from fox_agents.registry import agent_class
from fox_env import EnvConfig, Market

__all__ = ["Trained", "markets_of", "reference_of", "train_on"]


@dataclass
class Trained:
    """An agent and what its training took."""

    agent: Agent
    env_steps: int
    """Environment steps, over all environments."""
    seconds: float
    """Wall time of learning, with what its callbacks did."""
    settings: dict[str, Any] = field(default_factory=dict)


def markets_of(text: str) -> list[str]:
    """Split names at commas; a part without a name, as in ``signal:beta=1,lot=2``, belongs to the one before it."""
    names: list[str] = []
    for part in text.split(","):
        if "=" in part and ":" not in part and names:
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


def reference_of(text: str) -> ReferenceMarket:
    """The reference market of a name with changes, such as ``signal:beta=0.3,half_spread_ticks=2``."""
    name, _, changes = text.partition(":")
    pairs = (item.partition("=") for item in changes.split(",") if item)
    return reference_market(name, **{key: float(value) for key, _, value in pairs})


def train_on(
    market: Market,
    rules: EnvConfig,
    name: str,
    settings: Mapping[str, Any],
    *,
    num_envs: int,
    steps: int,
    backend: str,
    callbacks: Sequence[Callback] = (),
) -> Trained:
    """Train an agent on a market, with market orders only.

    Parameters
    ----------
    market : Market
        What to train on, such as ``reference.market(seed)`` of a reference market.
    rules : EnvConfig
        Its rules. Counterfactuals are switched on where the agent asks for full information.
    name : str
        Of an agent in the registry that learns.
    settings : Mapping
        Of its configuration, its seed among them.
    num_envs : int
        Environments stepped together.
    steps : int
        Environment steps, over all environments.
    backend : str
        Of the environment: ``cpu``, ``cuda`` or ``auto``.

    Raises
    ------
    ConfigError
        For settings that there are not.
    """
    kind: Any = agent_class(name)
    config_class = getattr(kind, "config_class", None)
    config = settings if config_class is None else build(config_class, settings, "agent")
    if getattr(config, "full_information", False):
        rules = rules.replace(counterfactual=True)
    env = MarketOrderEnv(
        num_envs,
        market,
        rules,
        backend=backend,
        output=kind.output,
        autoreset_mode=AutoresetMode.SAME_STEP,
        copy=False,
        info_level="learn",
    )
    agent: Agent = kind(env, config)
    begin = time.perf_counter()
    agent.learn(steps, callbacks)
    return Trained(agent, agent.env_steps, time.perf_counter() - begin, dict(settings))
