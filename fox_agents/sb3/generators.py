"""Random numbers of an agent apart from the caller's, where a library draws from the process-wide generators."""

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["Generators"]

_NUMPY_WORDS = 624  # of the state of NumPy's legacy generator


class Generators:
    """A context in which torch and NumPy draw from the agent's own sequence; the caller's is back after it.

    The sequence begins with what the first block leaves, which has to seed it. Python's own generator is only put
    back: Stable-Baselines3 seeds it and never draws from it.

    Parameters
    ----------
    device : torch.device
        Where the agent computes.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._own: dict[str, Tensor] | None = None

    def __enter__(self) -> None:
        self._outer, self._python = self._read(), random.getstate()
        if self._own is not None:
            self._write(self._own)

    def __exit__(self, *exception: object) -> None:
        self._own = self._read()
        self._write(self._outer)
        random.setstate(self._python)

    def tensors(self) -> dict[str, Tensor]:
        """The states by name, to be kept in a checkpoint."""
        assert self._own is not None
        return dict(self._own)

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from `tensors` of the same kind of device; those of a GPU are left out on a CPU."""
        assert self._own is not None
        self._own = {name: tensors.get(name, state) for name, state in self._own.items()}

    def _read(self) -> dict[str, Tensor]:
        _, words, place, has_gauss, gauss = np.random.get_state(legacy=True)
        states = {
            "torch": torch.get_rng_state(),
            "numpy": torch.from_numpy(np.append(words, [place, has_gauss]).astype(np.int64)),
            "numpy_gauss": torch.tensor([gauss], dtype=torch.float64),
        }
        if self._device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self._device)
        return states

    def _write(self, states: dict[str, Tensor]) -> None:
        torch.set_rng_state(states["torch"])
        words: Any = states["numpy"].numpy()
        place, has_gauss = words[_NUMPY_WORDS:].tolist()
        gauss = float(states["numpy_gauss"][0])
        np.random.set_state(("MT19937", words[:_NUMPY_WORDS].astype(np.uint32), place, has_gauss, gauss))
        if "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"], self._device)
