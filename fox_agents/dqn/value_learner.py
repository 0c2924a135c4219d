"""What the shared loop needs of the thing that learns, and how its tensors become arrays and back."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from fox_agents.checkpoint import CheckpointError
from fox_agents.dqn.replay import Batch

__all__ = ["ValueLearner", "restore", "to_numpy"]


class ValueLearner(Protocol):
    """What a `DeviceAgent` needs of the thing that learns; made as ``cls(config, device)``.

    No method reads a value back to the host, except `faults`.
    """

    STATISTICS: ClassVar[tuple[str, ...]]
    """Sums kept in ``statistics``, which ends with the number of updates they run over."""
    statistics: Tensor
    ok: Tensor
    """() bool: False for good once something was not finite; no update is applied from then on."""

    def greedy(self, observation: Tensor, masks: Tensor) -> Tensor:
        """Best actions (N, 4) int64 for observations (N, 128) among the distinct ones (N, 13)."""
        ...

    def values(self, observation: Tensor) -> Tensor:
        """Expected returns of the directions or exposures, (N, K), that `greedy` compares."""
        ...

    def explore(
        self, observation: Tensor, masks: Tensor, progress: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Actions (N, 4) of the training policy; ``progress`` () in [0, 1] is how far its schedules are."""
        ...

    def exponents(self, progress: Tensor) -> tuple[Tensor, Tensor]:
        """Exponents () of the priorities and of the importance weights; 0 and 0 sample all alike."""
        ...

    def prepare(self, batch: Batch) -> None:
        """Measure what must fit the data on the first transitions, before the first update."""
        ...

    def update(self, batches: Sequence[Batch], progress: Tensor) -> list[Tensor] | None:
        """One step on the mean gradient of ``batches``; returns new priorities (B,) for each, or None to keep them."""
        ...

    SIGNALS: tuple[str, ...]
    """Names of ``signals``, numbers that steer learning, for the log."""
    signals: Tensor

    def faults(self) -> list[str]:
        """What was not finite, once `ok` is False; reads from the device."""
        ...

    def episode_ended(self, done: Tensor) -> None:
        """Forget what was remembered of the episodes that ended, ``done`` (N,) bool."""
        ...

    def start_acting(self, num_envs: int) -> None:
        """Make what the training policy remembers of every environment."""
        ...

    def aside(self, num_envs: int) -> AbstractContextManager[None]:
        """Explore meanwhile in ``num_envs`` environments that are none of the training's, remembering nothing."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of the policy and the optimiser by name; copying into them restores the learner."""
        ...

    def acting_tensors(self) -> dict[str, Tensor]:
        """What `start_acting` made, by name."""
        ...

    def architecture(self) -> dict[str, Any]:
        """What two learners must share for one to take the other's tensors."""
        ...


def to_numpy(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors as arrays on the host."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def restore(
    tensors: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray[Any, Any]], directory: Path
) -> None:
    """Copy saved arrays into the agent's tensors, in place, so that views and captured graphs stay valid."""
    for name, tensor in tensors.items():
        if name not in arrays or arrays[name].shape != tuple(tensor.shape):
            raise CheckpointError(
                f"{directory} does not fit this version of the agent: {name} is missing or reshaped"
            )
        tensor.copy_(torch.from_numpy(arrays[name]))
