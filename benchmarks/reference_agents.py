"""Training of the agents that `reference_markets.py` compares: Fox's by name, and those of Stable-Baselines3."""

import ast
import copy
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import fox_agents
from fox_agents.callbacks import TimeLimit
from fox_agents.config import build
from fox_agents.experiments import Trained, train_on
from fox_agents.reference_markets import ReferenceMarket
from fox_agents.registry import agent_class
from fox_env import EnvConfig, Market
from fox_env._layout import Direction, Magnitude, OrderType, Urgency

SB3_AGENTS = ("sb3_ppo", "sb3_qrdqn")
INSTALL = "pip install 'fox-futures[sb3]'"

# Both have 2 x 256 units, a discount of 0.95 and 8 to 10 samples an environment step; the rest is SB3's default.
# A Fox agent has its own defaults.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "sb3_ppo": {
        "num_envs": 64,
        "n_steps": 128,
        "batch_size": 1_024,
        "gamma": 0.95,
        "policy_kwargs": {"net_arch": [256, 256]},
    },
    "sb3_qrdqn": {
        "num_envs": 64,
        "batch_size": 512,
        "gamma": 0.95,
        "learning_rate": 3e-4,
        "buffer_size": 200_000,
        "learning_starts": 10_000,
        "train_freq": 1,
        "gradient_steps": 1,
        "exploration_fraction": 0.2,
        "policy_kwargs": {"net_arch": [256, 256], "n_quantiles": 50},
    },
}
NUM_ENVS = 1_024  # of a Fox agent


@dataclass(frozen=True)
class Budget:
    """When training ends: whichever comes first."""

    steps: int
    """Environment steps, over all environments."""
    seconds: float | None
    """Wall time of learning; None: no limit."""

    def deadline(self, begin: float) -> float:
        """The moment of the clock at which learning that began at ``begin`` ends."""
        return math.inf if self.seconds is None else begin + self.seconds


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


def missing(agent: str) -> str | None:
    """Why an agent cannot be trained here, or None."""
    if agent in SB3_AGENTS:
        try:
            if agent == "sb3_qrdqn":
                import sb3_contrib  # noqa: F401
            else:
                import stable_baselines3  # noqa: F401
        except ImportError as error:
            return f"{agent}: {error}; run `{INSTALL}`"
    elif agent not in fox_agents.names():
        return f"{agent}: no such agent; there are {', '.join((*fox_agents.names(), *SB3_AGENTS))}"
    return None


def train(
    name: str,
    reference: ReferenceMarket,
    market: Market,
    seed: int,
    budget: Budget,
    backend: str,
    changes: Mapping[str, Any],
) -> Trained:
    """Train an agent on a market under the rules of a reference market, with market orders only."""
    settings = {**SETTINGS.get(name, {}), **changes}
    config = _training_rules(reference.config, settings)
    if name in SB3_AGENTS:
        return _train_sb3(name, config, market, seed, budget, backend, settings)
    if not agent_class(name).learns:
        return Trained(fox_agents.make(name, None, settings), 0, 0.0, settings)
    num_envs = int(settings.pop("num_envs", NUM_ENVS))
    limits = [] if budget.seconds is None else [TimeLimit(budget.seconds)]
    return train_on(
        market,
        config,
        name,
        {**settings, "seed": seed},
        num_envs=num_envs,
        steps=budget.steps,
        backend=backend,
        callbacks=limits,
    )


def _training_rules(config: EnvConfig, settings: dict[str, Any]) -> EnvConfig:
    """The rules with those changes that are named ``env.option``, which are taken out of the settings."""
    options = {
        key.removeprefix("env."): settings.pop(key) for key in list(settings) if key.startswith("env.")
    }
    return build(EnvConfig, options, "env", config)


class Sb3Agent:
    """A trained Stable-Baselines3 model of the eight exposures as an agent that acts in branches."""

    output: Literal["numpy"] = "numpy"
    learns = True

    def __init__(self, name: str, model: Any) -> None:
        self.name, self.model = name, model
        self.env_steps = int(model.num_timesteps)
        self._table = _exposures()

    def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
        """Actions (N, 4) for observations (N, 128)."""
        return self._table[self.model.predict(obs, deterministic=deterministic)[0]]


def _exposures() -> Any:
    """Branch actions (8, 4) of the discrete action space: short full to quarter, hold, long quarter to full, flat."""
    sizes = [Magnitude.FULL, Magnitude.HALF, Magnitude.QUARTER]
    rows = [(Direction.SHORT, size) for size in sizes]
    rows += [(Direction.HOLD, Magnitude.QUARTER)]
    rows += [(Direction.LONG, size) for size in reversed(sizes)]
    rows += [(Direction.FLAT, Magnitude.FULL)]
    return np.array([(*row, OrderType.MARKET, Urgency.NORMAL) for row in rows], dtype=np.int64)


def _train_sb3(
    name: str,
    config: EnvConfig,
    market: Market,
    seed: int,
    budget: Budget,
    backend: str,
    settings: dict[str, Any],
) -> Trained:
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    from fox_env.adapters.sb3 import FoxVecEnv

    class Deadline(BaseCallback):
        def _on_step(self) -> bool:
            return time.perf_counter() < moment

    env = FoxVecEnv(
        num_envs=int(settings["num_envs"]),
        market=market,
        config=config,
        backend="cpu",  # SB3 works on host arrays
        action_type="discrete",
    )
    kind: Any = PPO
    if name == "sb3_qrdqn":
        from sb3_contrib import QRDQN

        kind = QRDQN
    # A copy, because SB3 writes into policy_kwargs.
    arguments = copy.deepcopy({key: value for key, value in settings.items() if key != "num_envs"})
    model = kind("MlpPolicy", env, seed=seed, device=backend, **arguments)
    begin = time.perf_counter()
    moment = budget.deadline(begin)
    model.learn(budget.steps, callback=Deadline())
    seconds = time.perf_counter() - begin
    env.close()
    agent: Any = Sb3Agent(name, model)
    return Trained(agent, int(model.num_timesteps), seconds, settings)
