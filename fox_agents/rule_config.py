"""Options of the rules; importable without them.

Sources of the defaults: docs/baselines.md.
"""

from dataclasses import dataclass
from typing import Any

from fox_agents.ranges import MOST_STEPS, require, require_between

__all__ = ["RULES", "MeanReversionConfig", "MomentumConfig", "RuleConfig"]


@dataclass(frozen=True)
class RuleConfig:
    """Options of a rule that has none of its own."""

    seed: int = 0
    """Seed of the random choices."""


@dataclass(frozen=True)
class MomentumConfig:
    """Options of `fox_agents.price_rules.Momentum`."""

    lookback: int = 60
    """Bars over which the return is measured."""

    def __post_init__(self) -> None:
        require_between("momentum.lookback", self.lookback, 1, MOST_STEPS)


@dataclass(frozen=True)
class MeanReversionConfig:
    """Options of `fox_agents.price_rules.MeanReversion`."""

    lookback: int = 20
    """Bars of the moving mean and of the standard deviation about it."""
    entry: float = 2.0
    """Standard deviations from the mean at which a position against the move is opened."""
    exit: float = 0.0
    """Standard deviations from the mean, on the side of the entry, at which it is closed."""

    def __post_init__(self) -> None:
        require_between("mean_reversion.lookback", self.lookback, 2, MOST_STEPS)
        require(self.entry > 0.0, "mean_reversion.entry", self.entry, "positive")
        ok = 0.0 <= self.exit < self.entry
        rule = f"from 0 to less than mean_reversion.entry = {self.entry}"
        require(ok, "mean_reversion.exit", self.exit, rule)


RULES: dict[str, type[Any]] = {"mean_reversion": MeanReversionConfig, "momentum": MomentumConfig}
"""Options of the rules that have a section of the run configuration, by its name, which is the rule's."""
