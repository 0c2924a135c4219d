"""Settings of the agents that learn values: what every loop needs, the branching agent, and the reference agent."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from fox_agents.agent_config import LARGEST_VALUE, ReplayConfig
from fox_agents.ranges import require, require_between
from fox_env.errors import ConfigError

__all__ = ["ENSEMBLE_RULES", "BDQConfig", "LoopConfig", "NetworkParts", "ReferenceConfig", "Switch"]

_LONGEST_HOLD = 1_000_000
_BDQ_COUNTS = (
    "quantiles",
    "experts",
    "expert_width",
    "gate_width",
    "ensemble_heads",
    "ensemble_width",
)
_RANGES = {
    "n_step": (1, 1000),
    "move_horizon": (1, 10_000),
    "accumulate": (1, 2**12),
}


@dataclass(frozen=True)
class LoopConfig(ReplayConfig):
    """What collecting, storing and updating need; the step size is that of AdamW and goes along half a cosine."""

    n_step: int = 3
    """Rewards summed before the bootstrap, environment steps; 1 with full information."""
    move_horizon: int = 10
    """Bars ahead of the market's move that transitions are labelled with."""
    full_information: bool = False
    """Train on what all eight exposures of every step would have led to; needs env.counterfactual."""
    weight_decay: float = 0.0
    """Decay of the weights per update and unit of the step size."""
    target_rate: float = 0.005
    """Polyak rate of the target network per update."""
    accumulate: int = 1
    """Batches whose mean gradient makes one update."""
    warm_start: str | None = None
    """Directory of an earlier run on the same data under the same rules, whose last replay the new one begins with."""
    compile: bool = False
    """Compile the update and the steps of collecting with torch.compile; pays on a GPU after a minute of compiling."""
    precision: Literal["float32", "tf32"] = "float32"
    """Of the matrix products of collecting and learning on a GPU: exact, or faster with 10 bits of mantissa."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, (low, high) in _RANGES.items():
            require_between(f"agent.{name}", getattr(self, name), low, high)
        require_between("agent.weight_decay", self.weight_decay, 0.0, LARGEST_VALUE)
        require(self.warm_start != "", "agent.warm_start", self.warm_start, "the directory of a run, or none")
        require(0.0 < self.target_rate <= 1.0, "agent.target_rate", self.target_rate, "in (0, 1]")
        if self.full_information:
            require(self.n_step == 1, "agent.n_step", self.n_step, "1 with agent.full_information")

    def require_counterfactuals(self, given: bool) -> None:
        """ConfigError when the environment does not give what full information learns from."""
        if self.full_information and not given:
            raise ConfigError(
                "agent.full_information learns from counterfactuals; set env.counterfactual=true, or "
                "agent.full_information=false and agent.n_step=3 for bdq"
            )


@dataclass(frozen=True)
class ReferenceConfig(LoopConfig):
    """The reference agent: dueling double QR-DQN on eight exposures."""

    algorithm: ClassVar[str] = "qrdqn_ref"

    n_step: int = 1
    full_information: bool = True
    lr_end: float = 1e-5
    weight_decay: float = 1e-4
    epsilon_start: float = 0.5
    epsilon_end: float = 0.02
    quantiles: int = 32
    """Quantiles of each return distribution."""
    hold_random: tuple[int, int] = (8, 16)
    """Fewest and most steps that a random exposure is held."""
    average_rate: float = 0.001
    """Rate per update of the average of the weights that acts when it is greedy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("agent.quantiles", self.quantiles, 1, 2**12)
        require(self.full_information, "agent.full_information", self.full_information, "true for qrdqn_ref")
        low, high = self.hold_random
        rule = f"(fewest, most) with 1 <= fewest <= most <= {_LONGEST_HOLD:,}"
        require(1 <= low <= high <= _LONGEST_HOLD, "agent.hold_random", self.hold_random, rule)
        require(0.0 < self.average_rate <= 1.0, "agent.average_rate", self.average_rate, "in (0, 1]")


Switch = Literal["off", "measure", "on"]
"""A mechanism that is not there, computed and reported only, or part of learning."""


Exploration = Literal[
    "boltzmann",
    "cvar",
    "epsilon_greedy",
    "greedy",
    "hierarchical",
    "information_directed",
    "persistent_thompson",
    "sticky_epsilon_greedy",
    "thompson",
    "thompson_returns",
    "triple",
]
"""Names of `fox_agents.dqn.selection.RULES`."""
ENSEMBLE_RULES = frozenset({"information_directed", "persistent_thompson", "thompson", "triple"})
"""The rules that read the ensemble."""
DISTRIBUTION_RULES = frozenset({"thompson_returns"})
"""The rules that read nothing but the C51 distributions."""


@dataclass(frozen=True)
class NetworkParts:
    """Sizes and parts of the branching network that its own settings and those of the agent call the same."""

    atoms: int = 51
    """Atoms of each return distribution."""
    quantiles: int = 32
    """Quantiles of each action's return."""
    experts: int = 8
    """Experts of the mixture."""
    expert_width: int = 64
    """Inner width of each expert, units."""
    gate_width: int = 64
    """Inner width of the gates of the mixture and of variable selection, units."""
    ensemble_width: int = 32
    """Inner width of each head of the ensemble, units."""
    variable_selection: bool = True
    """Weigh the groups of inputs; else all count alike."""
    gated: bool = True
    """Trunk of gated residual blocks; else of linear, layer normalisation and rectifier."""
    mixture: bool = True
    """Mixture of experts after the trunk."""
    noisy: bool = True
    """Learned noise on the C51 heads."""
    spectral: Literal["none", "trunk", "heads", "all"] = "none"
    """Weights that are spectrally normalised: trunk and experts, C51 and quantile heads, or both."""


@dataclass(frozen=True)
class BDQConfig(NetworkParts, LoopConfig):
    """The branching agent with distributional heads."""

    algorithm: ClassVar[str] = "bdq"

    orders: Literal["all", "market"] = "all"
    """Order types and urgencies to choose from; ``market`` leaves market orders of normal urgency."""
    exploration: Exploration = "sticky_epsilon_greedy"
    """How the training policy chooses the direction."""
    exploration_others: Exploration = "epsilon_greedy"
    """How it chooses size, order type and urgency."""
    temperature: float = 1.0
    """Weight of a Thompson sample against the mean."""
    v_min: float = -5.0
    """Lowest atom, in value scales."""
    v_max: float = 5.0
    """Highest atom, in value scales."""
    loss_aversion: float = 0.0
    """Share by which a loss (of `n_step` steps) counts more and a gain less: a fair game is worth less than no game."""
    value_scale: float | None = None
    """Reward that counts as 1 inside the learner; none: the standard deviation of discounted returns, measured once."""
    ensemble_heads: int = 5
    """Heads of the ensemble of direction values."""
    sigma: float = 0.25
    """Initial scale of the noise on the C51 heads."""

    c51: Literal["measure", "on"] = "on"
    """Categorical return distributions: half of every expected value, or trained on nothing."""
    cql: Switch = "off"
    """Conservative penalty on values of actions not taken."""
    ensemble: Switch = "on"
    """Regression of the ensemble's heads."""
    repulsion: Switch = "on"
    """Divergence that keeps the ensemble's heads apart."""
    barrier: Switch = "off"
    """Least gap between the best direction and the next."""
    spread: Switch = "off"
    """Least spread of the direction values."""
    predictive: Switch = "off"
    """Slowness of the hidden state along a trajectory."""
    auxiliary: Switch = "on"
    """Prediction of the sign of the market's next move."""
    confidence: Switch = "on"
    """Prediction of the own error."""
    balance: Switch = "on"
    """Even use of the experts."""
    surgery: bool = False
    """Take out of the gradient what conflicts with that of a held-out eighth of the batch."""
    label_smoothing: float = 0.01
    """Share of the uniform distribution in the C51 target."""
    prioritised: bool = False
    """Draw transitions by the quantile loss; else all alike."""
    per_alpha: float = 0.6
    """Exponent of the priorities."""
    per_beta: float = 0.4
    """Exponent of the importance weights at the beginning; 1 after `schedule_steps`."""
    curiosity: float = 0.0
    """Reward of a state never visited, units of the reward; 0 leaves it out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _BDQ_COUNTS:
            require_between(f"agent.{name}", getattr(self, name), 1, 2**12)
        require_between("agent.atoms", self.atoms, 2, 2**12)
        for name in ("v_min", "v_max"):
            require_between(f"agent.{name}", getattr(self, name), -LARGEST_VALUE, LARGEST_VALUE)
        require(self.v_min < self.v_max, "agent.v_max", self.v_max, f"above agent.v_min = {self.v_min}")
        spacing = (self.v_max - self.v_min) / (self.atoms - 1)
        enough = 1e-6 * max(1.0, abs(self.v_min), abs(self.v_max))  # float32 tells such atoms apart
        rule = f"further above agent.v_min = {self.v_min} for {self.atoms} atoms"
        require(spacing >= enough, "agent.v_max", self.v_max, rule)
        if self.value_scale is not None:
            rule = f"positive, up to {LARGEST_VALUE:,.0f}, or none"
            require(0.0 < self.value_scale <= LARGEST_VALUE, "agent.value_scale", self.value_scale, rule)
        for name in ("exploration", "exploration_others"):
            rule = getattr(self, name)
            needs = "ensemble" if rule in ENSEMBLE_RULES else "c51" if rule in DISTRIBUTION_RULES else None
            if needs is not None:
                on = f'one that reads no {needs}, or set agent.{needs}="on"'
                require(getattr(self, needs) == "on", f"agent.{name}", rule, on)
        if self.repulsion != "off":
            require(
                self.ensemble_heads > 1,
                "agent.ensemble_heads",
                self.ensemble_heads,
                "2 or more with agent.repulsion",
            )
        if self.surgery:
            require(self.batch_size > 1, "agent.batch_size", self.batch_size, "2 or more with agent.surgery")
        for name in ("label_smoothing", "per_alpha", "per_beta", "loss_aversion"):
            require_between(f"agent.{name}", getattr(self, name), 0.0, 1.0)
        for name in ("temperature", "sigma", "curiosity"):
            require_between(f"agent.{name}", getattr(self, name), 0.0, LARGEST_VALUE)
        require(
            not (self.curiosity and self.full_information),
            "agent.curiosity",
            self.curiosity,
            "0 with agent.full_information, which leaves nothing to explore for",
        )
