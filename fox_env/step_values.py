"""What a reset or a step gives back: observation, reward, both flags and info, as views or as the caller's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from fox_env.backends import Backend
from fox_env.backends.buffers import BufferPlan, slot_views
from fox_env.info import LazyInfo, build_info, final_rows

__all__ = ["StepReader", "StepValues"]

StepValues: TypeAlias = tuple[Any, Any, Any, Any, dict[str, Any]]
"""Observation (N, 128) float32, reward (N,) float32, terminated and truncated (N,) bool, info."""


class StepReader:
    """Reads a batch's outputs into what the environment returns.

    Of copies, the observation, the reward and each flag have memory of their own, so that who keeps one keeps no other
    alive; the arrays of an info share theirs.

    Parameters
    ----------
    plan
        The arrays of the batch.
    copy
        Give the caller copies instead of views, which the next step overwrites.
    torch_output
        Whether the outputs are torch tensors.
    """

    def __init__(self, plan: BufferPlan, *, copy: bool, torch_output: bool) -> None:
        self._copy = copy
        self._torch = torch_output
        self._has_ends = "final_obs" in plan.slots
        self._has_info = bool(plan.info)
        self._info_slots = {}
        block = plan.copies(torch_output=torch_output).get("info")
        if block is not None:
            self._info_slots = {
                name: replace(slot, offset=slot.offset - block.offset)
                for name, slot in plan.slots.items()
                if 0 <= slot.offset - block.offset < block.nbytes
            }

    def read(self, backend: Backend, *, stepped: bool) -> StepValues:
        """The outputs after a step, or after a reset, in which no episode ends."""
        live = backend.outputs()
        block: list[Any] = []
        if self._copy:
            obs, reward, terminated, truncated, *block = backend.copies()
        else:
            obs, reward = live["obs"], live["reward"]
            terminated, truncated = live["terminated"], live["truncated"]

        ends = stepped and self._has_ends
        ended = rows = None
        if ends and not self._torch:
            ended = terminated | truncated
            rows = final_rows(live["final_obs"], ended)
        info: dict[str, Any] = {}
        if self._has_info or rows is not None or (ends and self._torch):
            source = block[0] if block else live
            info = LazyInfo(lambda: self._build_info(source, ends, ended, rows))
        return obs, reward, terminated, truncated, info

    def _build_info(self, outputs: Any, ends: bool, ended: Any | None, rows: Any | None) -> dict[str, Any]:
        """The info of outputs by slot name, or of a copy of the bytes that it is read from."""
        arrays = outputs if isinstance(outputs, dict) else slot_views(self._info_slots, outputs)
        if ends and self._torch:
            ended, rows = arrays["terminated"] | arrays["truncated"], arrays["final_obs"]
        return build_info(arrays, ended, rows)
