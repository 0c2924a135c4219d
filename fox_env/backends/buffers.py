"""The memory of one batch: which arrays it has, where each lies in one block, and the structure that points at them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fox_env import _layout
from fox_env.market import Market

__all__ = [
    "BufferPlan",
    "Slot",
    "make_batch",
    "make_market_table",
    "make_metrics",
    "plan_buffers",
    "slot_views",
]

_ALIGNMENT = 256
_OBS = int(_layout.Observation.SIZE)
_BRANCH_ENTRIES = int(_layout.ActionSpace.BRANCH_ENTRIES)
_EXPOSURES = int(_layout.ActionSpace.EXPOSURES)


@dataclass(frozen=True)
class Slot:
    """One array inside the block: dtype, shape and byte offset."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)

    @cached_property
    def torch_view(self) -> tuple[Any, tuple[int, ...], int]:
        """Torch's dtype, the strides and the offset, both in items, of the array in a tensor of that dtype."""
        import torch

        strides = tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))
        dtype = torch.from_numpy(np.empty(0, dtype=self.dtype)).dtype
        return dtype, strides, self.offset // self.dtype.itemsize


@dataclass(frozen=True)
class BufferPlan:
    """Every array of a batch: the outputs first and together, so that one copy takes many.

    The first ``step_bytes`` are all outputs but the last views of ended episodes, the first ``output_bytes`` all
    outputs. An info is read from the flags and what lies behind them.
    """

    num_envs: int
    slots: dict[str, Slot]
    step_bytes: int
    output_bytes: int
    total_bytes: int
    ledger_capacity: int

    @property
    def outputs(self) -> dict[str, Slot]:
        """The output arrays by name."""
        return {name: slot for name, slot in self.slots.items() if slot.offset < self.output_bytes}

    @property
    def info(self) -> list[str]:
        """Names of the info arrays."""
        return [name for name in self.outputs if name.startswith(("info.", "final_info.", "counterfactual."))]

    def copies(self, *, torch_output: bool) -> dict[str, Slot]:
        """What a step returns, each for memory of its own: ``obs``, ``reward``, both flags and the bytes of ``info``.

        The info is there if a step of the batch can have one. For NumPy it lacks the last views of ended episodes, the
        rows of which are taken one by one.
        """
        copied = {name: self.slots[name] for name in ("obs", "reward", "terminated", "truncated")}
        if self.info or "final_obs" in self.slots:
            first = self.slots["terminated"].offset
            end = self.output_bytes if torch_output else self.step_bytes
            copied["info"] = Slot(np.dtype(np.uint8), (end - first,), first)
        return copied

    def mask_shape(self, exposures: bool) -> tuple[int, int]:
        """Shape of the masks of distinct actions: of the exposures, or of the entries of the four branches."""
        return self.num_envs, _EXPOSURES if exposures else _BRANCH_ENTRIES

    def named(self, prefix: str) -> dict[str, str]:
        """Field name -> slot name of the arrays that begin with ``prefix``."""
        return {name[len(prefix) :]: name for name in self.slots if name.startswith(prefix)}


def _info_slots(prefix: str, fields: Iterable[str], num_envs: int) -> list[tuple[str, Any, tuple[int, ...]]]:
    """Slots of one group of info arrays; the four bytes of branch_active are read as four flags."""
    slots: list[tuple[str, Any, tuple[int, ...]]] = []
    for name in fields:
        if name == "branch_active":
            dtype, shape = np.dtype(np.bool_), (len(_layout.ACTION_BRANCHES),)
        else:
            dtype, shape = _layout.INFO_FIELDS[name].base, _layout.INFO_FIELDS[name].shape
        slots.append((f"{prefix}.{name}", dtype, (num_envs, *shape)))
    return slots


def _counterfactual_slots(num_envs: int) -> list[tuple[str, Any, tuple[int, ...]]]:
    shape = (num_envs, _EXPOSURES)
    kinds = {"reward": np.float32, "terminated": np.bool_, "truncated": np.bool_, "account": np.float32}
    shapes = {
        name: (*shape, int(_layout.Observation.ACCOUNT)) if name == "account" else shape for name in kinds
    }
    return [(f"counterfactual.{name}", kinds[name], shapes[name]) for name in _layout.COUNTERFACTUAL_FIELDS]


def plan_buffers(
    num_envs: int,
    info_fields: Iterable[str],
    *,
    same_step: bool,
    final_info: bool,
    final_masks: bool,
    counterfactual: bool,
    ledger_capacity: int,
    metrics: bool = False,
) -> BufferPlan:
    """Lay out the outputs (observation, reward, flags, info), then the state, knobs, trade ledger and performance."""
    fields = list(info_fields)
    step: list[tuple[str, Any, tuple[int, ...]]] = [
        ("obs", np.float32, (num_envs, _OBS)),
        ("reward", np.float32, (num_envs,)),
        ("terminated", np.bool_, (num_envs,)),
        ("truncated", np.bool_, (num_envs,)),
    ]
    step += _info_slots("info", fields, num_envs)
    if same_step and final_info:
        step += _info_slots("final_info", fields, num_envs)
    if counterfactual:
        step += _counterfactual_slots(num_envs)
    last: list[tuple[str, Any, tuple[int, ...]]] = []
    if same_step:
        last.append(("final_obs", np.float32, (num_envs, _OBS)))
    if final_masks:
        last.append(("final_masks", np.bool_, (num_envs, _BRANCH_ENTRIES)))
    kept: list[tuple[str, Any, tuple[int, ...]]] = [
        (f"state.{name}", dtype, (num_envs,)) for name, dtype in _layout.STATE_FIELDS.items()
    ]
    kept.append(("knobs", np.float64, (int(_layout.Knob.COUNT),)))
    if ledger_capacity:
        kept.append(("ledger", _layout.TRADE_RECORD, (num_envs, ledger_capacity)))
    if metrics:
        kept += [(f"metrics.{name}", dtype, (num_envs,)) for name, dtype in _layout.METRIC_FIELDS.items()]
        kept.append(("metrics.executed", np.int64, (int(_layout.Executed.SIZE), num_envs)))

    slots: dict[str, Slot] = {}
    ends: list[int] = []
    end = 0
    for group in (step, last, kept):
        for name, dtype, shape in group:
            slots[name] = Slot(np.dtype(dtype), shape, end)
            end = _aligned(end + slots[name].nbytes)
        ends.append(end)
    step_end, output_end, total = ends
    return BufferPlan(num_envs, slots, step_end, output_end, total, ledger_capacity)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def slot_views(slots: Mapping[str, Slot], block: Any) -> dict[str, Any]:
    """Views of slots by name in the bytes that their offsets count, a NumPy array or a torch tensor of uint8."""
    if isinstance(block, np.ndarray):
        return {name: np.ndarray(slot.shape, slot.dtype, block, slot.offset) for name, slot in slots.items()}
    views, typed = {}, {}
    for name, slot in slots.items():
        dtype, strides, offset = slot.torch_view
        if dtype not in typed:
            typed[dtype] = block.view(dtype)
        views[name] = typed[dtype].as_strided(slot.shape, strides, offset)
    return views


def make_metrics(plan: BufferPlan, address: Callable[[str], int]) -> Any | None:
    """The ``MetricArrays`` structure of layout.cuh, or None for a batch that keeps no performance sums."""
    named = plan.named("metrics.")
    return _layout.MetricArrays(**{field: address(slot) for field, slot in named.items()}) if named else None


def make_market_table(
    params: Sequence[Any], addresses: Iterable[Sequence[int]], markets: Sequence[Market]
) -> Any:
    """The ``TradedMarket`` structures of layout.cuh as one array.

    Parameters
    ----------
    params
        The ``EnvParams`` structure of each market.
    addresses
        Addresses of the rows, features and roll gaps of each market.
    markets
        Count the bars.
    """
    return (_layout.TradedMarket * len(markets))(
        *(
            _layout.TradedMarket(own, *places, len(market))
            for own, places, market in zip(params, addresses, markets, strict=True)
        )
    )


def make_batch(
    plan: BufferPlan,
    address: Callable[[str], int],
    *,
    market: Any,
    markets: int | None,
    market_of: int | None,
    faults: int,
    rules: int,
) -> Any:
    """The ``Batch`` structure of layout.cuh.

    Parameters
    ----------
    plan
        The arrays of the batch.
    address
        Gives the address of a slot by name.
    market
        The ``TradedMarket`` of a batch of one market.
    markets, market_of
        Addresses of the table of markets and of the index into it, for a batch of several.
    faults
        Address of the fault words.
    rules
        ``Rules`` bits of the groups of rules that accounts of the batch use.
    """

    def pointers(structure: Any, prefix: str) -> Any:
        named = plan.named(prefix)
        return structure(**{field: address(slot) for field, slot in named.items()})

    def optional(name: str) -> int | None:
        return address(name) if name in plan.slots else None

    return _layout.Batch(
        market=market,
        markets=markets,
        market_of=market_of,
        knobs=address("knobs"),
        faults=faults,
        rules=rules,
        num_envs=plan.num_envs,
        state=pointers(_layout.StateArrays, "state."),
        obs=address("obs"),
        final_obs=optional("final_obs"),
        final_masks=optional("final_masks"),
        reward=address("reward"),
        terminated=address("terminated"),
        truncated=address("truncated"),
        info=pointers(_layout.InfoArrays, "info."),
        final_info=pointers(_layout.InfoArrays, "final_info."),
        counterfactual=pointers(_layout.CounterfactualArrays, "counterfactual."),
        ledger=optional("ledger"),
        ledger_capacity=plan.ledger_capacity,
    )
