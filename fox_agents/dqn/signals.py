"""The signal bus: every number that steers learning and acting, as named slots of one device tensor.

Losses, the optimiser and the acting rules read their weights and rates from here, so that a captured graph sees a
change without being captured again. Who may change a slot (a schedule, a controller, the configuration) is no concern
of its readers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

import torch
from torch import Tensor

from fox_agents.plain_values import nearest
from fox_env._layout import ACTION_BRANCHES
from fox_env.errors import ConfigError

__all__ = ["GROUPS", "SLOTS", "Layout", "SignalBus", "Slot"]

Reset = Literal["fold", "epoch", "never"]
Value = float | Sequence[float] | Tensor

GROUPS = 8
"""Groups of parameters that the optimiser tells apart."""
_BRANCHES = len(ACTION_BRANCHES)


@dataclass(frozen=True)
class Slot:
    """One named range of the bus."""

    name: str
    """Unique name."""
    size: int
    """Numbers it holds: 1, one a branch (4) or one a parameter group (8)."""
    initial: float
    """Value of each at the start and after a reset, unless the bus was given another."""
    reset: Reset
    """When it returns there: at the start of a ``fold``, of an ``epoch``, or ``never``."""
    meaning: str
    """What it is, with its unit."""


SLOTS: tuple[Slot, ...] = (
    # Weights of the loss terms.
    Slot("budget_c51", _BRANCHES, 1.0, "fold", "weight of the C51 cross-entropy, by branch"),
    Slot("budget_quantile", _BRANCHES, 1.0, "fold", "weight of the quantile Huber loss, by branch"),
    Slot("budget_cql", _BRANCHES, 0.1, "fold", "weight of the conservative penalty, by branch"),
    Slot("budget_ensemble", 1, 0.1, "fold", "weight of the repulsion between the ensemble's heads"),
    Slot("budget_regression", 1, 1.0, "fold", "weight of the regression of the ensemble's heads"),
    Slot("budget_barrier", 1, 0.2, "fold", "weight of the barrier under the direction's value gap"),
    Slot("budget_spread", 1, 0.05, "fold", "weight of the spread of flat direction values, at health 0"),
    Slot("budget_predictive", 1, 0.1, "fold", "weight of the difference of consecutive hidden states"),
    Slot("budget_auxiliary", 1, 0.1, "fold", "weight of the prediction of the next move's sign"),
    Slot("budget_confidence", 1, 0.1, "fold", "weight of the prediction of the own error"),
    Slot("budget_balance", 1, 0.01, "fold", "weight of the load balance of the experts"),
    # Shapes of the losses.
    Slot("label_smoothing", 1, 0.01, "fold", "share of the uniform distribution in the C51 target"),
    Slot("health", 1, 0.5, "fold", "learning health, from 0 (collapsed) to 1"),
    Slot("barrier_gap", 1, 0.05, "fold", "value gap that the barrier asks for at health 1, scaled reward"),
    Slot("spread_variance", 1, 0.01, "fold", "variance of direction values up to which they are spread"),
    Slot("cql_temperature", 1, 1.0, "fold", "temperature of the conservative penalty, scaled reward"),
    Slot("ensemble_temperature", 1, 1.0, "fold", "temperature of the heads' policies, scaled reward"),
    Slot("ensemble_bound", 1, 1.0, "fold", "mean divergence of the heads beyond which none repels, nats"),
    Slot("surgery", 1, 0.0, "fold", "share removed of the gradient that conflicts with a held-out one"),
    # Distributions of the return.
    Slot(
        "categorical_share",
        1,
        0.5,
        "fold",
        "weight of the C51 mean in an expected value; the rest: quantiles",
    ),
    Slot("value_scale", 1, 1.0, "fold", "reward that counts as 1 for the learner, units of the reward"),
    Slot("support_low", _BRANCHES, -5.0, "fold", "lowest atom, by branch, scaled reward"),
    Slot("support_high", _BRANCHES, 5.0, "fold", "highest atom, by branch, scaled reward"),
    Slot("support_power", _BRANCHES, 1.0, "fold", "1: even atoms; above: denser at the middle, by branch"),
    Slot("loss_aversion", 1, 0.0, "fold", "by which share a loss counts more than itself, and a gain less"),
    Slot(
        "tau_spread", _BRANCHES, 1.0, "fold", "spread of the quantile midpoints about the median, by branch"
    ),
    # Optimiser and network.
    Slot("lr", 1, 3e-4, "never", "step size"),
    Slot("target_rate", 1, 0.005, "never", "Polyak rate of the target network per update"),
    Slot("grad_bound", 1, 10.0, "fold", "largest global norm of the gradient"),
    Slot("weight_decay", GROUPS, 0.0, "fold", "decoupled weight decay, by parameter group"),
    Slot("beta1", GROUPS, 0.9, "fold", "Adam's decay of the mean, by parameter group"),
    Slot("beta2", GROUPS, 0.999, "fold", "Adam's decay of the square, by parameter group"),
    Slot("epsilon_adam", GROUPS, 1e-5, "fold", "Adam's denominator floor, by parameter group"),
    Slot("sigma", _BRANCHES, 0.5, "fold", "scale of the parameter noise, by branch"),
    # Replay.
    Slot("per_alpha", 1, 0.6, "never", "exponent of the priorities"),
    Slot("per_beta", 1, 0.4, "never", "exponent of the importance weights"),
    Slot("curiosity", 1, 0.0, "fold", "reward of a state never visited, units of the reward"),
    # Acting.
    Slot("explore", _BRANCHES, 0.05, "never", "share of random choices, by branch"),
    Slot("temperature", 1, 1.0, "fold", "weight of a Thompson sample against the mean"),
    Slot("boltzmann_temperature", _BRANCHES, 0.1, "never", "temperature of softmax choices, scaled reward"),
    Slot("cvar_alpha", 1, 0.25, "never", "lower share of the returns that the cautious rule averages"),
    Slot(
        "ids_confidence", 1, 0.1, "never", "standard deviations in the regret of information-directed choices"
    ),
    Slot("hold_least", 1, 8.0, "never", "fewest steps for which a sticky random choice is held"),
    Slot("hold_most", 1, 16.0, "never", "most steps for which a sticky choice or Thompson sample is held"),
    Slot("contrarian", 1, 0.0, "epoch", "1: short and long change places, at the smallest size"),
)
"""Slots of the learner and of the acting rules, in the order of the tensor."""


class Layout(TypedDict):
    """Where a slot lies, as plain values for a checkpoint's fingerprint."""

    offset: int
    size: int
    reset: str


class SignalBus:
    """Named slots of one float32 tensor.

    Parameters
    ----------
    device : torch.device
        Where the tensor lives.
    initial : Mapping
        Initial values by slot that differ from the registry's; a reset returns to these.
    slots : Iterable[Slot]
        The registry.

    Raises
    ------
    ConfigError
        When a name is given twice or is not a slot, or a value does not fit its slot.
    """

    def __init__(
        self,
        device: torch.device | str,
        initial: Mapping[str, Value] | None = None,
        slots: Iterable[Slot] = SLOTS,
    ) -> None:
        self._slots: dict[str, Slot] = {}
        self._offsets: dict[str, int] = {}
        end = 0
        for slot in slots:
            if slot.name in self._slots:
                raise ConfigError(f"signal {slot.name!r} is declared twice")
            self._slots[slot.name], self._offsets[slot.name] = slot, end
            end += slot.size
        self.tensor = torch.zeros(end, dtype=torch.float32, device=device)
        for name, slot in self._slots.items():
            self.set(name, slot.initial)
        for name, value in (initial or {}).items():
            self.set(name, value)
        self._initial = self.tensor.clone()
        self._resets = {policy: self._positions(policy) for policy in ("fold", "epoch")}

    def _positions(self, policy: str) -> Tensor:
        """(size of the bus,) bool: the positions that a reset of ``policy`` returns to their initial value."""
        flags = [slot.reset == policy for slot in self._slots.values() for _ in range(slot.size)]
        return torch.tensor(flags, device=self.tensor.device)

    def _slot(self, name: str) -> Slot:
        if name not in self._slots:
            raise ConfigError(f"there is no signal {name!r}; {nearest(name, self._slots)}")
        return self._slots[name]

    def view(self, name: str) -> Tensor:
        """(size,) float32 view of a slot: it shows every later change, and writing to it changes the bus."""
        offset = self._offsets[self._slot(name).name]
        return self.tensor[offset : offset + self._slots[name].size]

    def set(self, name: str, value: Value) -> None:
        """Write ``value``, one number for the whole slot or one for each of its positions, in place."""
        slot = self._slot(name)
        if isinstance(value, (int, float)):
            self.view(name).fill_(value)
            return
        values = torch.as_tensor(value, dtype=torch.float32)
        if values.shape not in ((), (slot.size,)):
            raise ConfigError(f"signal {name!r} takes {slot.size} numbers, not shape {tuple(values.shape)}")
        self.view(name).copy_(values)

    def reset(self, policy: Literal["fold", "epoch"]) -> None:
        """Return the slots of ``policy`` to their initial values, in place and without asking the device."""
        self.tensor.copy_(torch.where(self._resets[policy], self._initial, self.tensor))

    def layout(self) -> dict[str, Layout]:
        """Offset, size and reset policy of every slot by name, in order."""
        return {
            name: {"offset": self._offsets[name], "size": slot.size, "reset": slot.reset}
            for name, slot in self._slots.items()
        }

    def values(self) -> dict[str, list[float]]:
        """Every slot on the host, read in one transfer."""
        host = self.tensor.tolist()
        return {name: host[at["offset"] : at["offset"] + at["size"]] for name, at in self.layout().items()}
