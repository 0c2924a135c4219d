"""Settings of the agents of Stable-Baselines3; importable without it.

Names that are not those of `fox_agents.agent_config` are those of Stable-Baselines3. The values
come from its documentation and from the tuned ones of RL Baselines3 Zoo; docs/baselines.md says why each is what it is.
"""

from dataclasses import dataclass
from typing import ClassVar

from fox_agents.agent_config import LARGEST_VALUE, LearnerConfig, ReplayConfig
from fox_agents.ranges import MOST_STEPS, require, require_between

__all__ = [
    "SB3_CONFIGS",
    "A2CConfig",
    "DQNConfig",
    "MaskablePPOConfig",
    "OffPolicyConfig",
    "OnPolicyConfig",
    "PPOConfig",
    "QRDQNConfig",
    "RecurrentPPOConfig",
]


@dataclass(frozen=True)
class OnPolicyConfig(LearnerConfig):
    """What the actor-critics share: collect a rollout, learn from it, forget it; rates go linearly."""

    gamma: float = 0.95
    grad_clip: float = 0.5
    rollout_steps: int = 128
    """Steps of every environment in a rollout (``n_steps``)."""
    gae_lambda: float = 0.95
    """Weight of the longer returns in the advantage estimate: 0 one step, 1 the whole rollout."""
    ent_coef: float = 0.0
    """Weight of the policy's entropy in the loss, which keeps it random."""
    vf_coef: float = 0.5
    """Weight of the value function's error in the loss."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("agent.rollout_steps", self.rollout_steps, 1, 2**20)
        require_between("agent.gae_lambda", self.gae_lambda, 0.0, 1.0)
        for name in ("ent_coef", "vf_coef"):
            require_between(f"agent.{name}", getattr(self, name), 0.0, LARGEST_VALUE)


@dataclass(frozen=True)
class A2CConfig(OnPolicyConfig):
    """Advantage actor-critic (Mnih et al., 2016): one step of RMSprop on every short rollout."""

    algorithm: ClassVar[str] = "a2c"

    lr: float = 7e-4
    lr_end: float = 7e-4
    rollout_steps: int = 8
    gae_lambda: float = 1.0


@dataclass(frozen=True)
class PPOConfig(OnPolicyConfig):
    """Proximal policy optimisation (Schulman et al., 2017): several passes over every rollout with Adam."""

    algorithm: ClassVar[str] = "ppo"

    batch_size: int = 1_024
    """Transitions per update; at most those of a rollout."""
    n_epochs: int = 10
    """Passes over a rollout."""
    clip_range: float = 0.2
    """Largest change of an action's probability, as a share, that a pass is rewarded for."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("agent.batch_size", self.batch_size, 2, 2**20)
        require_between("agent.n_epochs", self.n_epochs, 1, 1_000)
        ok = 0.0 < self.clip_range <= LARGEST_VALUE
        require(ok, "agent.clip_range", self.clip_range, f"positive, up to {LARGEST_VALUE:,.0f}")


@dataclass(frozen=True)
class MaskablePPOConfig(PPOConfig):
    """PPO that draws distinct actions only (Huang and Ontañón, 2022)."""

    algorithm: ClassVar[str] = "maskable_ppo"


@dataclass(frozen=True)
class RecurrentPPOConfig(PPOConfig):
    """PPO with an LSTM in the policy and another in the value function."""

    algorithm: ClassVar[str] = "recurrent_ppo"

    hidden: int = 64
    lstm_size: int = 64
    """Width of each LSTM, units."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("agent.lstm_size", self.lstm_size, 1, 2**14)


@dataclass(frozen=True)
class OffPolicyConfig(ReplayConfig):
    """What the value learners on the eight exposures share; Adam, rates and shares go linearly.

    A transition takes 1 KiB in the replay. Those before `learning_starts` are collected all at random.
    """

    gamma: float = 0.95
    schedule_steps: int = 400_000
    batch_size: int = 512
    replay_size: int = 200_000
    target_interval: int = 10_000
    """Transitions between two copies of the network to the target network."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("agent.target_interval", self.target_interval, 1, MOST_STEPS)


@dataclass(frozen=True)
class DQNConfig(OffPolicyConfig):
    """Deep Q-network (Mnih et al., 2015)."""

    algorithm: ClassVar[str] = "dqn"


@dataclass(frozen=True)
class QRDQNConfig(OffPolicyConfig):
    """Quantile regression DQN (Dabney et al., 2018)."""

    algorithm: ClassVar[str] = "qrdqn"

    epsilon_end: float = 0.01
    quantiles: int = 50
    """Quantiles of each return distribution."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("agent.quantiles", self.quantiles, 1, 2**12)


SB3_CONFIGS: tuple[type[LearnerConfig], ...] = (
    A2CConfig,
    DQNConfig,
    MaskablePPOConfig,
    PPOConfig,
    QRDQNConfig,
    RecurrentPPOConfig,
)
"""The settings of every agent of Stable-Baselines3."""
