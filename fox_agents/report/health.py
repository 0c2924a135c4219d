"""The curves of a training run, from its ``health.jsonl``."""

import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fox_env.errors import DataError

__all__ = ["FIRST", "Curve", "read_health"]

FIRST = ("train/loss", "train/reward", "val/sharpe", "val/total_return", "val/exposure", "val/costs")
"""Curves to show before all others."""
_MOST_BYTES, _MOST_CURVES = 256 * 2**20, 200


class Curve(NamedTuple):
    """One number of training by environment steps."""

    name: str
    """``group/name``."""
    steps: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]


def read_health(path: Path) -> list[Curve]:
    """The curves of the file: those of `FIRST`, then all others by name; at most 200.

    A line that a kill cut short is left out, as are values that are no finite numbers.

    Raises
    ------
    DataError
        The file cannot be read or is beyond 256 MiB.
    """
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise DataError(f"{path} has {size:,} bytes, too many for a report; thin it or leave health out")
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise DataError(f"cannot read the training curves: {error}; give a run's health.jsonl") from error
    found: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        _add(line, found)
    order = sorted(found, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    return [Curve(name, *np.array(found[name]).T) for name in order[:_MOST_CURVES]]


def _add(line: str, found: dict[str, list[tuple[float, float]]]) -> None:
    try:
        row = json.loads(line)
        step, group = float(row.pop("step")), str(row.pop("group"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    for name, value in row.items():
        if isinstance(value, (int, float)) and math.isfinite(value) and math.isfinite(step):
            found.setdefault(f"{group}/{name}", []).append((step, float(value)))
