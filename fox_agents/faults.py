"""The failure of a training run, with what it takes to reproduce it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fox_env.errors import FoxError

__all__ = ["TrainingFault"]


class TrainingFault(FoxError):
    """Something was not finite; nothing was learned from it on.

    Parameters
    ----------
    message : str
        What was not finite, where, and the mend.
    arrays : Mapping
        The samples of the update that failed, by field.
    state : Mapping
        Plain values: the signals in force and the names of what was not finite.
    """

    def __init__(
        self, message: str, arrays: Mapping[str, npt.NDArray[np.generic]], state: Mapping[str, Any]
    ) -> None:
        super().__init__(message)
        self.arrays, self.state = dict(arrays), dict(state)
