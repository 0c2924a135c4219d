"""The memory of one batch: which arrays it has, where each lies in one block, and the structure that points at them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fox_env import _layout

__all__ = ["BufferPlan", "Slot", "make_batch", "plan_buffers"]

_ALIGNMENT = 256
_OBS = int(_layout.Observation.SIZE)


@dataclass(frozen=True)
class Slot:
    """One array inside the block: dtype, shape and byte offset."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)


@dataclass(frozen=True)
class BufferPlan:
    """Every array of a batch. The outputs lie first and together, so that one copy brings them all to the host."""

    num_envs: int
    slots: dict[str, Slot]
    output_bytes: int
    total_bytes: int
    ledger_capacity: int

    def named(self, prefix: str) -> dict[str, str]:
        """Field name -> slot name of the arrays that begin with ``prefix``."""
        return {name[len(prefix) :]: name for name in self.slots if name.startswith(prefix)}


def plan_buffers(
    num_envs: int, info_fields: Iterable[str], *, same_step: bool, final_info: bool, ledger_capacity: int
) -> BufferPlan:
    """Lay out the outputs (observation, reward, flags, info), then the state, the knobs and the trade ledger."""
    fields = list(info_fields)
    wanted: list[tuple[str, Any, tuple[int, ...]]] = [
        ("obs", np.float32, (num_envs, _OBS)),
        ("reward", np.float32, (num_envs,)),
        ("terminated", np.bool_, (num_envs,)),
        ("truncated", np.bool_, (num_envs,)),
    ]
    wanted += [(f"info.{name}", _layout.INFO_FIELDS[name], (num_envs,)) for name in fields]
    if same_step:
        wanted.append(("final_obs", np.float32, (num_envs, _OBS)))
        if final_info:
            wanted += [(f"final_info.{name}", _layout.INFO_FIELDS[name], (num_envs,)) for name in fields]
    outputs = len(wanted)
    wanted += [(f"state.{name}", dtype, (num_envs,)) for name, dtype in _layout.STATE_FIELDS.items()]
    wanted.append(("knobs", np.float64, (int(_layout.Knob.COUNT),)))
    if ledger_capacity:
        wanted.append(("ledger", _layout.TRADE_RECORD, (num_envs, ledger_capacity)))

    slots: dict[str, Slot] = {}
    end = output_end = 0
    for position, (name, dtype, shape) in enumerate(wanted):
        slot = Slot(np.dtype(dtype), shape, -(-end // _ALIGNMENT) * _ALIGNMENT)
        slots[name] = slot
        end = slot.offset + slot.nbytes
        if position < outputs:
            output_end = end
    return BufferPlan(num_envs, slots, output_end, end, ledger_capacity)


def make_batch(
    plan: BufferPlan,
    params: Any,
    address: Callable[[str], int],
    *,
    rows: int,
    features: int,
    bars: int,
    faults: int,
) -> Any:
    """The ``Batch`` structure of layout.cuh; ``address`` gives the address of a slot by name."""

    def pointers(structure: Any, prefix: str) -> Any:
        named = plan.named(prefix)
        return structure(**{field: address(slot) for field, slot in named.items()})

    def optional(name: str) -> int | None:
        return address(name) if name in plan.slots else None

    return _layout.Batch(
        params=params,
        rows=rows,
        features=features,
        bars=bars,
        knobs=address("knobs"),
        faults=faults,
        num_envs=plan.num_envs,
        state=pointers(_layout.StateArrays, "state."),
        obs=address("obs"),
        final_obs=optional("final_obs"),
        reward=address("reward"),
        terminated=address("terminated"),
        truncated=address("truncated"),
        info=pointers(_layout.InfoArrays, "info."),
        final_info=pointers(_layout.InfoArrays, "final_info."),
        ledger=optional("ledger"),
        ledger_capacity=plan.ledger_capacity,
    )
