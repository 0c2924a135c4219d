"""Launches of GPU kernels with arguments at fixed addresses, and the one that copies a step's outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fox_env import _layout
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

    A tensor for each array and no views of a common block: making a tensor like another costs the host what making a
    view does.

    Parameters
    ----------
    kernel
        Handle of ``fox_copy_outputs``.
    outputs
        Address of the block of outputs on the device.
    arrays
        What to copy: tensors that view the block, at most ``Launch.COPIES``.
    """

    def __init__(self, kernel: Any, outputs: int, arrays: Sequence[torch.Tensor]) -> None:
        from torch import empty_like

        self._empty_like, self._arrays = empty_like, arrays
        copies = _layout.OutputCopies(outputs=outputs)
        copies.first[: len(arrays)] = [array.data_ptr() - outputs for array in arrays]
        copies.bytes[: len(arrays)] = [array.nbytes for array in arrays]
        self._addresses, self._used = copies.to, slice(len(arrays))
        chunks = -(-max(array.data_ptr() - outputs + array.nbytes for array in arrays) // _CHUNK)
        self.launch = Launcher(kernel, chunks, int(_layout.Launch.BLOCK), copies)

    def allocate(self) -> list[torch.Tensor]:
        """Tensors that the next launch fills."""
        made = [self._empty_like(array) for array in self._arrays]
        self._addresses[self._used] = [tensor.data_ptr() for tensor in made]
        return made
