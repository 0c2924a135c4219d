"""Rule-based agents: the yardsticks every learner is measured against."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from fox_agents.api import Callback
from fox_agents.checkpoint import atomic_directory, read_state, write_state
from fox_agents.plain_values import build
from fox_agents.rule_config import RuleConfig
from fox_env import _layout
from fox_env._layout import Direction, Magnitude, OrderType, Urgency

__all__ = ["BuyAndHold", "Flat", "Random", "Rule", "RuleConfig"]

Actions = npt.NDArray[np.int64]


class Rule:
    """What rules share: nothing is learned, and a checkpoint holds the options only.

    One of your own sets `name`, and `config_class` where it has options, and defines `act`. Options of its own are a
    subclass of `RuleConfig`, since a rule without a section of the run configuration is given the run's seed.

    Parameters
    ----------
    env : FoxFuturesVectorEnv, optional
        Environment to be played.
    config : dataclass or mapping, optional
        Options, of the class `config_class`; the defaults where none are given. ConfigError for one that there is not.
    """

    name: ClassVar[str]
    config_class: ClassVar[type[Any]] = RuleConfig
    output: ClassVar[Literal["numpy", "torch"]] = "numpy"
    learns: ClassVar[bool] = False

    def __init__(self, env: Any = None, config: Any = None) -> None:
        given = isinstance(config, self.config_class)
        self.config: Any = config if given else build(self.config_class, config or {}, self.name)
        self.env_steps = 0

    def act(self, obs: npt.NDArray[np.float32], *, deterministic: bool, masks: Any = None) -> Actions:
        """Actions, int64 (N, 4), for observations (N, 128): see `fox_agents.Agent`."""
        raise NotImplementedError

    def learn(self, total_steps: int, callbacks: Sequence[Callback] = ()) -> None:
        """Do nothing: a rule has nothing to learn."""

    def diagnostics(self) -> dict[str, float]:
        """Return nothing: a rule has no diagnostics."""
        return {}

    def save(self, directory: str | Path, *, policy_only: bool = False) -> None:
        """Write the rule's name and options; there is nothing beyond the policy."""
        with atomic_directory(Path(directory)) as temporary:
            write_state(temporary, {"agent": self.name, "config": asdict(self.config)})

    @classmethod
    def load(cls, directory: str | Path, env: Any = None) -> Self:
        """Rule with the saved options."""
        return cls(env, read_state(Path(directory))["config"])


class Flat(Rule):
    """Never holds a position."""

    name = "flat"

    def act(self, obs: npt.NDArray[np.float32], *, deterministic: bool, masks: Any = None) -> Actions:
        """Flat, at market, for every row of ``obs``."""
        return _repeat(len(obs), Direction.FLAT, Magnitude.FULL)


class BuyAndHold(Rule):
    """Buys the full position with market orders and keeps it."""

    name = "buy_and_hold"

    def act(self, obs: npt.NDArray[np.float32], *, deterministic: bool, masks: Any = None) -> Actions:
        """Long, full, at market, for every row of ``obs``."""
        return _repeat(len(obs), Direction.LONG, Magnitude.FULL)


class Random(Rule):
    """Draws every branch uniformly among its distinct actions."""

    name = "random"

    def __init__(self, env: Any = None, config: Any = None) -> None:
        super().__init__(env, config)
        self._generator = np.random.default_rng(self.config.seed)

    def act(self, obs: npt.NDArray[np.float32], *, deterministic: bool, masks: Any = None) -> Actions:
        """Independent draws; ``deterministic`` has no effect, the seed alone decides."""
        scores = self._generator.random((len(obs), sum(_layout.ACTION_BRANCHES)))
        if masks is not None:
            scores = np.where(masks, scores, -1.0)
        branches = np.split(scores, np.cumsum(_layout.ACTION_BRANCHES)[:-1], axis=1)
        return np.stack([branch.argmax(axis=1) for branch in branches], axis=1)


def _repeat(count: int, direction: Direction, magnitude: Magnitude) -> Actions:
    return np.tile(
        np.array([direction, magnitude, OrderType.MARKET, Urgency.NORMAL], dtype=np.int64), (count, 1)
    )
