"""The eight exposures of the discrete action space as branch actions."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fox_env._layout import Direction, Magnitude, OrderType, Urgency

__all__ = ["EXPOSURE_ACTIONS"]


def _table() -> npt.NDArray[np.int64]:
    sizes = (Magnitude.FULL, Magnitude.HALF, Magnitude.QUARTER)
    targets: list[tuple[Any, Any]] = [(Direction.SHORT, size) for size in sizes]
    targets += [(Direction.HOLD, Magnitude.QUARTER)]
    targets += [(Direction.LONG, size) for size in reversed(sizes)]
    targets += [(Direction.FLAT, Magnitude.QUARTER)]
    table = np.array([(*target, OrderType.MARKET, Urgency.NORMAL) for target in targets], dtype=np.int64)
    table.setflags(write=False)
    return table


EXPOSURE_ACTIONS = _table()
"""(8, 4) int64: short full to quarter, hold, long quarter to full, flat, in the environment's order; market orders."""
