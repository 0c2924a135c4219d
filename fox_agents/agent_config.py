"""Settings that every learning agent has, whatever it learns with."""

from dataclasses import dataclass
from typing import ClassVar

from fox_agents.ranges import MOST_STEPS, require, require_between

__all__ = ["LARGEST_VALUE", "LearnerConfig", "ReplayConfig"]

LARGEST_VALUE = 1e9
"""What no setting has use for is a slip of the keyboard."""
_REPLAY_RANGES = {
    "batch_size": (1, 2**20),
    "replay_size": (1, 2**40),
    "collect_steps": (1, 2**12),  # an interrupt waits for the iteration to end
    "updates": (1, 2**12),
    "learning_starts": (0, MOST_STEPS),
    "epsilon_start": (0, 1),
    "epsilon_end": (0, 1),
}


@dataclass(frozen=True)
class LearnerConfig:
    """Network width, discount, step size, schedules and seed."""

    algorithm: ClassVar[str]
    """Name in the registry."""

    hidden: int = 256
    """Width of both hidden layers, units."""
    gamma: float = 0.98
    """Discount per environment step."""
    lr: float = 3e-4
    """Step size of the optimiser at the beginning."""
    lr_end: float = 3e-4
    """Step size after `schedule_steps`."""
    grad_clip: float = 10.0
    """Largest global norm of the gradient."""
    schedule_steps: int = 500_000
    """Transitions over which rates and shares go from their first to their last value."""
    epoch_steps: int = 100_000
    """Transitions per epoch; callbacks run and diagnostics are read at its end."""
    seed: int = 0
    """Seed of everything random in the agent and of the environments it learns in."""

    def __post_init__(self) -> None:
        require_between("agent.hidden", self.hidden, 1, 2**14)
        require(0.0 <= self.gamma < 1.0, "agent.gamma", self.gamma, "in [0, 1)")
        for name in ("lr", "lr_end", "grad_clip"):
            value, rule = getattr(self, name), f"positive, up to {LARGEST_VALUE:,.0f}"
            require(0.0 < value <= LARGEST_VALUE, f"agent.{name}", value, rule)
        require_between("agent.schedule_steps", self.schedule_steps, 0, MOST_STEPS)
        require_between("agent.epoch_steps", self.epoch_steps, 1, MOST_STEPS)
        require(0 <= self.seed < 2**63, "agent.seed", self.seed, "from 0 to 2^63 - 1")

    def require_counterfactuals(self, given: bool) -> None:
        """ConfigError when the environment does not give what the agent learns from."""


@dataclass(frozen=True)
class ReplayConfig(LearnerConfig):
    """What every learner from a replay has, Fox's own and those of Stable-Baselines3."""

    batch_size: int = 256
    """Transitions per update."""
    replay_size: int = 500_000
    """Transitions kept, over all environments; at least a few for each."""
    collect_steps: int = 1
    """Steps of every environment between updates."""
    updates: int = 1
    """Updates after each collection."""
    learning_starts: int = 10_000
    """Transitions collected before the first update."""
    epsilon_start: float = 1.0
    """Share of random choices at the first step."""
    epsilon_end: float = 0.05
    """Share of random choices after `schedule_steps`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, (low, high) in _REPLAY_RANGES.items():
            require_between(f"agent.{name}", getattr(self, name), low, high)
