"""What a reset or a step gives back: observation, reward, both flags and info, as views or as the caller's own."""

from __future__ import annotations

from typing import Any, TypeAlias

from fox_env.backends import Backend
from fox_env.backends.buffers import BufferPlan
from fox_env.info import LazyInfo, build_info, final_rows

__all__ = ["StepReader", "StepValues"]

StepValues: TypeAlias = tuple[Any, Any, Any, Any, dict[str, Any]]
"""Observation (N, 128) float32, reward (N,) float32, terminated and truncated (N,) bool, info."""

_MAIN = ("obs", "reward", "terminated", "truncated")


class StepReader:
    """Reads a batch's outputs into what the environment returns.

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
        self._has_info = bool(plan.info)

    def read(self, backend: Backend, *, stepped: bool) -> StepValues:
        """The outputs after a step, or after a reset, in which no episode ends."""
        live = backend.outputs()
        obs, reward, terminated, truncated = (self._own(live[name]) for name in _MAIN)
        final_obs = ended = None
        if stepped and "final_obs" in live:
            ended = terminated | truncated
            final_obs = self._own(live["final_obs"]) if self._torch else final_rows(live["final_obs"], ended)
        info: dict[str, Any] = {}
        if self._has_info or final_obs is not None:
            fields = backend.copy_info() if self._copy else backend.outputs
            masks = self._own(live["final_masks"]) if stepped and "final_masks" in live else None
            info = LazyInfo(lambda: build_info(fields(), terminated, ended, final_obs, masks))
        return obs, reward, terminated, truncated, info

    def _own(self, values: Any) -> Any:
        if not self._copy:
            return values
        return values.clone() if self._torch else values.copy()
