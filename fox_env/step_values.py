"""What a reset or a step gives back: observation, reward, both flags and info, as views or as the caller's own."""

from __future__ import annotations

from typing import Any, TypeAlias

from fox_env.backends import Backend
from fox_env.backends.buffers import BufferPlan, slot_views
from fox_env.info import LazyInfo, build_info, final_rows

__all__ = ["StepReader", "StepValues"]

StepValues: TypeAlias = tuple[Any, Any, Any, Any, dict[str, Any]]
"""Observation (N, 128) float32, reward (N,) float32, terminated and truncated (N,) bool, info."""

_REWARDS = ("reward", "terminated", "truncated")


class StepReader:
    """Reads a batch's outputs into what the environment returns.

    Copies are two, however much a step returns, since on a GPU each costs a launch: one of all outputs, which the
    observation and the info view, and a small one of the reward and the flags, so that who keeps those alone keeps no
    observations alive.

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
        self._plan = plan
        self._copy = copy
        self._torch = torch_output
        self._has_info = bool(plan.info)
        self._has_ends = "final_obs" in plan.slots
        # For NumPy the rows of ended episodes are taken one by one.
        self._copied_bytes = plan.output_bytes if torch_output else plan.step_bytes
        self._copied = [name for name in plan.outputs if plan.slots[name].offset < self._copied_bytes]

    def read(self, backend: Backend, *, stepped: bool) -> StepValues:
        """The outputs after a step, or after a reset, in which no episode ends."""
        live = backend.outputs()
        if self._copy:
            block = backend.output_block()
            kept = self._clone(block[: self._copied_bytes])
            obs = slot_views(self._plan, ("obs",), kept)["obs"]
            rewards = slot_views(self._plan, _REWARDS, self._clone(block[: self._plan.reward_bytes]))
        else:
            kept, obs, rewards = None, live["obs"], live
        reward, terminated, truncated = (rewards[name] for name in _REWARDS)

        ends = stepped and self._has_ends
        ended = rows = None
        if ends and not self._torch:
            ended = terminated | truncated
            rows = final_rows(live["final_obs"], ended)
        info: dict[str, Any] = {}
        if self._has_info or rows is not None or (ends and self._torch):
            info = LazyInfo(lambda: self._build_info(live if kept is None else kept, ends, ended, rows))
        return obs, reward, terminated, truncated, info

    def _clone(self, block: Any) -> Any:
        return block.clone() if self._torch else block.copy()

    def _build_info(self, outputs: Any, ends: bool, ended: Any | None, rows: Any | None) -> dict[str, Any]:
        """The info of outputs by slot name, or of a copy of their block."""
        arrays = outputs if isinstance(outputs, dict) else slot_views(self._plan, self._copied, outputs)
        if ends and self._torch:
            ended, rows = arrays["terminated"] | arrays["truncated"], arrays["final_obs"]
        return build_info(arrays, ended, rows)
