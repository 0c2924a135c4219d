"""Launches of GPU kernels with arguments at fixed addresses, and the one that copies a step's outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fox_env import _layout
from fox_env.backends.buffers import Slot
from fox_env.backends.cuda_memory import check

if TYPE_CHECKING:
    import torch

__all__ = ["Launcher", "OutputCopier"]

_CHUNK = 16  # bytes that a thread of fox_copy_outputs copies


class Launcher:
    """One kernel with arguments at fixed addresses: a launch is one driver call."""

    def __init__(self, kernel: Any, threads: int, block: int, *arguments: Any) -> None:
        from cuda.bindings import driver

        self._arguments = arguments  # keeps the memory that the pointers name
        pointers = [ctypes.addressof(argument) for argument in arguments]
        self._pointers = np.array(pointers, dtype=np.uint64)
        self._launch = driver.cuLaunchKernel
        self._shape = (kernel, -(-threads // block), 1, 1, block, 1, 1, 0)
        self._parameters = (self._pointers.ctypes.data, 0)

    def __call__(self, stream: int) -> None:
        check(self._launch(*self._shape, stream, *self._parameters))


class OutputCopier:
    """New tensors and the launch that copies the outputs of a batch to them.

    A tensor for each array and no views of a common block: making a tensor costs the host what making a view does.

    Parameters
    ----------
    kernel
        Handle of ``fox_copy_outputs``.
    outputs
        Address of the block of outputs on the device.
    slots
        The arrays to copy, at most ``Launch.COPIES``; offsets count from ``outputs``.
    device
        Torch's name of the device.
    """

    def __init__(self, kernel: Any, outputs: int, slots: Sequence[Slot], device: str) -> None:
        import torch

        place = torch.device(device)
        self._makers = [
            partial(torch.empty, slot.shape, dtype=slot.torch_view[0], device=place) for slot in slots
        ]
        copies = _layout.OutputCopies(outputs=outputs)
        copies.first[: len(slots)] = [slot.offset for slot in slots]
        copies.bytes[: len(slots)] = [slot.nbytes for slot in slots]
        self._addresses, self._used = copies.to, slice(len(slots))
        chunks = -(-max(slot.offset + slot.nbytes for slot in slots) // _CHUNK)
        self.launch = Launcher(kernel, chunks, int(_layout.Launch.BLOCK), copies)

    def allocate(self) -> list[torch.Tensor]:
        """Tensors that the next launch fills."""
        made = [make() for make in self._makers]
        self._addresses[self._used] = [tensor.data_ptr() for tensor in made]
        return made
