"""What an environment needs of a backend: arrays by name, and the calls of the physics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fox_env import _layout
from fox_env.backends.buffers import BufferPlan
from fox_env.errors import FoxError

__all__ = ["Backend", "ClosedBackend"]


class Backend(Protocol):
    """One batch in the memory of one device.

    ``step`` and ``reset`` only enqueue work on a GPU; ``outputs`` gives arrays that are ready to use in the output's
    own sense: NumPy arrays after the work is done, torch tensors in stream order.
    """

    device: str
    plan: BufferPlan

    def step(self, actions: Any, action_format: int, conviction: Any | None) -> None:
        """Advance every environment by one step."""

    def reset(self, mask: Any | None, start: Any | None, keys: Any | None, streams: Any | None) -> None:
        """Reset the environments of ``mask`` (all if None); host arrays, see ``ResetRequest`` in batch.cuh.

        With ``keys`` their performance sums begin anew as well.
        """

    def clear_metrics(self) -> None:
        """Begin the performance sums of every environment anew, in stream order, where the batch keeps them."""

    def masks(self, exposures: bool) -> Any:
        """(N, 13) or (N, 8) bool of distinct actions, NumPy or torch as the outputs are."""

    def outputs(self) -> dict[str, Any]:
        """Views of the output arrays by slot name, valid until the next step."""

    def copies(self) -> Sequence[Any]:
        """Copies of the outputs, each in memory of its own: the arrays of ``plan.copies`` in its order."""

    def first_bad_action(self, actions: Any, action_format: int) -> int:
        """Index of the first row outside the action space of a host array, or -1."""

    def take_faults(self) -> list[_layout.Fault]:
        """The sticky faults raised so far, cleared by this call; never waits for the device."""

    def set_knob(self, index: int, value: float) -> None:
        """Write one knob in stream order."""

    def read(self, name: str) -> Any:
        """A host copy of a slot, after all enqueued work is done."""

    def write(self, name: str, value: Any) -> None:
        """Overwrite a slot from a host array."""

    def close(self) -> None:
        """Free the batch's memory."""


class ClosedBackend:
    """What is left of a batch whose memory is freed: every use of it is refused."""

    def __getattr__(self, name: str) -> Any:
        raise FoxError("this environment is closed; make a new one")
