"""The CPU backend: the shared headers compiled by the host compiler, one parallel loop over environments."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout, _native
from fox_env.backends.buffers import BufferPlan, make_batch, make_market_table, make_metrics, slot_views
from fox_env.backends.market_arrays import feature_table, market_rows, roll_gaps
from fox_env.market import Market

__all__ = ["CpuBackend"]


class CpuBackend:
    """A batch in host memory; see :class:`fox_env.backends.base.Backend`.

    Parameters
    ----------
    plan
        The arrays to allocate.
    params
        The ``EnvParams`` structure of each market.
    markets
        The bars and features that the environments trade.
    market_of
        (N,) index of each environment's market.
    rules
        ``Rules`` bits of the groups of rules in use.
    torch_output
        Give torch tensors that share the memory instead of NumPy arrays.
    threads
        OpenMP threads; None uses :func:`fox_env._native.max_threads`.
    """

    device = "cpu"

    def __init__(
        self,
        plan: BufferPlan,
        params: Sequence[Any],
        markets: Sequence[Market],
        market_of: NDArray[np.int32],
        *,
        rules: int,
        torch_output: bool,
        threads: int | None = None,
    ) -> None:
        self.plan = plan
        self._library = _native.library()
        self._threads = threads or _native.max_threads()
        memory = np.zeros(plan.total_bytes + 64, dtype=np.uint8)
        base = -memory.ctypes.data % 64  # whole cache lines
        block = memory[base : base + plan.total_bytes]
        self._arrays = slot_views(plan.slots, block)
        self._faults = np.zeros(int(_layout.Fault.COUNT), dtype=np.uint32)
        self._fault_words = self._faults.data
        self._market_arrays = [(market_rows(m), feature_table(m), roll_gaps(m)) for m in markets]
        self._market_of = market_of
        addresses = [[array.ctypes.data for array in arrays] for arrays in self._market_arrays]
        self._markets = make_market_table(params, addresses, markets)
        several = len(markets) > 1
        self._batch = make_batch(
            plan,
            lambda name: int(self._arrays[name].ctypes.data),
            market=self._markets[0],
            markets=ctypes.addressof(self._markets) if several else None,
            market_of=market_of.ctypes.data if several else None,
            faults=self._faults.ctypes.data,
            rules=rules,
        )
        self._batch_address = ctypes.addressof(self._batch)
        self._metrics = make_metrics(plan, lambda name: int(self._arrays[name].ctypes.data))
        self._metrics_address = None if self._metrics is None else ctypes.addressof(self._metrics)
        self._actions = _layout.Actions()
        self._actions_address = ctypes.addressof(self._actions)
        self._torch_output = torch_output
        output_block: Any = block[: plan.output_bytes]
        if torch_output:
            import torch

            output_block = torch.from_numpy(output_block)
        self._outputs = slot_views(plan.outputs, output_block)
        self._copied = list(slot_views(plan.copies(torch_output=torch_output), output_block).values())
        self.clear_metrics()

    def _fill_actions(self, actions: Any, action_format: int, conviction: Any | None) -> None:
        self._actions.values = _address(actions)
        self._actions.format = action_format
        self._actions.conviction = None if conviction is None else _address(conviction)

    def step(self, actions: Any, action_format: int, conviction: Any | None) -> None:
        self._fill_actions(actions, action_format, conviction)
        if self._batch.counterfactual.reward:
            self._library.fox_counterfactual(self._batch_address, self._actions_address, self._threads)
        self._library.fox_step(
            self._batch_address, self._actions_address, self._metrics_address, self._threads
        )

    def reset(self, mask: Any | None, start: Any | None, keys: Any | None, streams: Any | None) -> None:
        addresses = [None if array is None else array.ctypes.data for array in (mask, start, keys, streams)]
        request = _layout.ResetRequest(*addresses)
        self._library.fox_reset(self._batch_address, ctypes.addressof(request), self._threads)
        if keys is not None:
            self._clear_metrics(addresses[0])

    def clear_metrics(self) -> None:
        self._clear_metrics(None)

    def _clear_metrics(self, mask: int | None) -> None:
        if self._metrics is not None:
            self._library.fox_clear_metrics(self._metrics_address, self.plan.num_envs, mask)

    def masks(self, exposures: bool) -> Any:
        out = np.empty(self.plan.mask_shape(exposures), dtype=np.bool_)
        self._library.fox_masks(self._batch_address, exposures, out.ctypes.data, self._threads)
        if not self._torch_output:
            return out
        import torch

        return torch.from_numpy(out)

    def outputs(self) -> dict[str, Any]:
        return self._outputs

    def copies(self) -> Sequence[Any]:
        if self._torch_output:
            return [array.clone() for array in self._copied]
        return [array.copy() for array in self._copied]

    def first_bad_action(self, actions: Any, action_format: int) -> int:
        self._fill_actions(actions, action_format, None)
        return int(self._library.fox_first_bad_action(self._actions_address, self.plan.num_envs))

    def take_faults(self) -> list[_layout.Fault]:
        if not any(self._fault_words):
            return []
        raised = [_layout.Fault(index) for index in np.flatnonzero(self._faults)]
        self._faults[:] = 0
        return raised

    def set_knob(self, index: int, value: float) -> None:
        self._arrays["knobs"][index] = value

    def read(self, name: str) -> NDArray[Any]:
        held: NDArray[Any] = self._arrays[name]
        return held.copy()

    def write(self, name: str, value: NDArray[Any]) -> None:
        self._arrays[name][...] = value

    def close(self) -> None:
        """Nothing to free: the memory goes with the object."""


def _address(array: Any) -> int:
    return int(array.ctypes.data) if isinstance(array, np.ndarray) else int(array.data_ptr())
