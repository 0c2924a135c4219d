"""The CUDA backend: the same headers compiled by NVRTC, state and knobs in device memory, launches that never wait.

Launches go to torch's current stream, looked up at every launch, when the outputs are torch tensors, and to an own
stream otherwise. They allocate nothing and read nothing back, so a CUDA graph can capture them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout, _native
from fox_env.backends.buffers import BufferPlan, make_batch, make_market_table, make_metrics, slot_views
from fox_env.backends.cuda_launch import Launcher, OutputCopier
from fox_env.backends.cuda_memory import DeviceMemory, PinnedMemory, check, context_of, upload, upload_market
from fox_env.backends.nvrtc import compile_kernels, supported_architectures, target_for
from fox_env.errors import BackendError
from fox_env.market import Market

__all__ = ["CudaBackend", "gpu_problem"]

_BLOCK, _WARP = int(_layout.Launch.BLOCK), int(_layout.Launch.WARP)  # threads
_EXPOSURES = int(_layout.ActionSpace.EXPOSURES)
_SCHEDULERS = 4  # of a multiprocessor; each runs its own warps
_BATCH_KERNELS = (
    "fox_step", "fox_step_quiet", "fox_step_metrics", "fox_reset", "fox_masks", "fox_counterfactual",
)  # fmt: skip
_KERNELS = (
    *_BATCH_KERNELS,
    *(f"{name}_markets" for name in _BATCH_KERNELS),
    "fox_clear_metrics",
    "fox_copy_outputs",
    "fox_set_knob",
)


def gpu_problem() -> str | None:
    """Why no GPU can be used here, in one sentence, or None."""
    try:
        from cuda.bindings import driver
        from cuda.pathfinder import DynamicLibNotFoundError
    except ImportError as error:
        return f"cuda-python is not usable ({error}); install it with `pip install 'fox-futures[cuda]'`"
    if find_spec("cuda.core") is None:
        return "cuda-core is not installed; install it with `pip install 'fox-futures[cuda]'`"
    try:
        status = driver.cuInit(0)[0]
        if status != driver.CUresult.CUDA_SUCCESS:
            return f"the NVIDIA driver cannot be initialised ({status.name}); check that `nvidia-smi` lists a GPU"
        status, count = driver.cuDeviceGetCount()
    except (DynamicLibNotFoundError, RuntimeError):
        return "no NVIDIA driver is installed; install one"
    if status != driver.CUresult.CUDA_SUCCESS or count == 0:
        return "the NVIDIA driver sees no GPU; check CUDA_VISIBLE_DEVICES and `nvidia-smi`"
    return None


@cache
def _kernels(index: int, rules: int) -> dict[str, Any]:
    """Function handles of the kernels on one device, compiled with the groups of rules of these ``Rules`` bits."""
    from cuda.bindings import driver
    from cuda.core import Device

    arch, target = target_for(tuple(Device(index).compute_capability), supported_architectures())
    code = compile_kernels(arch, target=target, rules=rules)
    kernels = {name: code.get_kernel(name) for name in _KERNELS}
    handles: dict[str, Any] = {
        name: driver.CUfunction(int(kernel.handle)) for name, kernel in kernels.items()
    }
    handles["owner"] = (code, kernels)  # the handles die with the objects that loaded them
    return handles


def _envs_per_warp(num_envs: int, multiprocessors: int) -> int:
    """How many environments a warp steps: 32, or as few as 8 where that gives no scheduler more than one warp.

    Fewer environments a warp take fewer different branches and fewer observations one after the other.
    """
    schedulers = _SCHEDULERS * multiprocessors
    return next((share for share in (8, 16) if num_envs <= share * schedulers), _WARP)


class CudaBackend:
    """A batch in the memory of one GPU; see :class:`fox_env.backends.base.Backend`.

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
        Give CUDA tensors that share the memory; otherwise every step copies its outputs to the host and waits.
    """

    def __init__(
        self,
        plan: BufferPlan,
        params: Sequence[Any],
        markets: Sequence[Market],
        market_of: NDArray[np.int32],
        *,
        rules: int,
        torch_output: bool,
    ) -> None:
        problem = gpu_problem()
        if problem:
            raise BackendError(f"{problem}, or use backend='cpu'")
        from cuda.bindings import driver

        self._index = _device_index(torch_output)
        self.device = f"cuda:{self._index}"
        self._context = context_of(self._index)
        self.plan = plan
        self._driver = driver
        self._torch_output = torch_output
        self._torch_stream = _torch_stream() if torch_output else None
        self._memory = DeviceMemory(self._context, plan.total_bytes)
        with self._context:
            check(driver.cuMemsetD8(self._memory.address, 0, plan.total_bytes))
        self._faults = PinnedMemory(self._context, 4 * int(_layout.Fault.COUNT))
        self._fault_words = self._faults.array.data
        self._market_memory = [upload_market(market, self._index) for market in markets]
        addresses = [[memory.address for memory in memories] for memories in self._market_memory]
        table = make_market_table(params, addresses, markets)
        several = len(markets) > 1
        self._market_table = [upload(self._context, x) for x in (table, market_of)] if several else []
        self._batch = make_batch(
            plan,
            self._address,
            market=table[0],
            markets=self._market_table[0].address if several else None,
            market_of=self._market_table[1].address if several else None,
            faults=self._faults.device_address,
            rules=rules,
        )
        self._actions = _layout.Actions()
        self._request = _layout.ResetRequest()
        self._knob = (ctypes.c_void_p(self._address("knobs")), ctypes.c_int32(), ctypes.c_double())
        with self._context:
            kernels = _kernels(self._index, rules)
        variant = "_markets" if several else ""
        metrics = make_metrics(plan, self._address)
        step = "fox_step" if plan.named("info.") else "fox_step_quiet"
        share = _envs_per_warp(plan.num_envs, self._multiprocessors())
        threads = -(-plan.num_envs // share) * _WARP
        arguments = [self._batch, self._actions, ctypes.c_int32(share)]
        self._launch_clearing: Launcher | None = None
        self._clearing_mask = ctypes.c_void_p()
        if metrics is not None:
            step, arguments = "fox_step_metrics", [*arguments, metrics]
            clearing = (metrics, ctypes.c_int64(plan.num_envs), self._clearing_mask)
            self._launch_clearing = Launcher(kernels["fox_clear_metrics"], plan.num_envs, _BLOCK, *clearing)
        self._launch_step = Launcher(kernels[step + variant], threads, _BLOCK, *arguments)
        self._launch_counterfactual = None
        if "counterfactual.reward" in plan.slots:
            self._launch_counterfactual = Launcher(
                kernels["fox_counterfactual" + variant],
                _EXPOSURES * plan.num_envs,
                _BLOCK,
                self._batch,
                self._actions,
            )
        self._launch_reset = Launcher(
            kernels["fox_reset" + variant],
            threads,
            _BLOCK,
            self._batch,
            self._request,
            ctypes.c_int32(share),
        )
        self._launch_knob = Launcher(kernels["fox_set_knob"], 1, 1, *self._knob)
        self._mask_arguments = (ctypes.c_int32(), ctypes.c_void_p())
        self._launch_masks = Launcher(
            kernels["fox_masks" + variant], plan.num_envs, _BLOCK, self._batch, *self._mask_arguments
        )
        with self._context:
            stream = int(check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)))
        self._stream = stream
        finalize(self, self._context.release, driver.cuStreamDestroy, stream)
        self._staging: dict[str, DeviceMemory] = {}
        self._host = None if torch_output else PinnedMemory(self._context, plan.output_bytes)
        output_block = self._make_output_block()
        self._outputs = slot_views(plan.outputs, output_block)
        copied = plan.copies(torch_output=torch_output)
        self._copied = list(slot_views(copied, output_block).values())
        self._copier: OutputCopier | None = None
        if torch_output:
            self._copier = OutputCopier(kernels["fox_copy_outputs"], self._memory.address, self._copied)
        self.clear_metrics()
        self._wait()

    def _multiprocessors(self) -> int:
        driver = self._driver
        count = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        return int(check(driver.cuDeviceGetAttribute(count, check(driver.cuDeviceGet(self._index)))))

    # ---- memory ----------------------------------------------------------------------------------------------

    def _address(self, name: str) -> int:
        return self._memory.address + self.plan.slots[name].offset

    def _wait(self) -> None:
        """Wait for all work on the device."""
        with self._context:
            check(self._driver.cuCtxSynchronize())

    def _make_output_block(self) -> Any:
        if self._host is not None:
            return self._host.array
        import torch

        return torch.as_tensor(self._memory, device=self.device)[: self.plan.output_bytes]

    def _staged(self, name: str, array: NDArray[Any] | None) -> int | None:
        """Copy a host array to a device buffer kept for ``name``; the copy is done when this returns."""
        if array is None:
            return None
        if name not in self._staging or self._staging[name].nbytes < array.nbytes:
            self._staging[name] = DeviceMemory(self._context, array.nbytes)
        address = self._staging[name].address
        stream = self._current_stream()
        with self._context:
            check(self._driver.cuMemcpyHtoDAsync(address, array.ctypes.data, array.nbytes, stream))
            check(self._driver.cuStreamSynchronize(stream))
        return address

    def _current_stream(self) -> int:
        if self._torch_stream is None:
            return self._stream
        return self._torch_stream(self._index)

    # ---- the physics -----------------------------------------------------------------------------------------

    def step(self, actions: Any, action_format: int, conviction: Any | None) -> None:
        self._actions.values = self._argument("actions", actions)
        self._actions.format = action_format
        self._actions.conviction = None if conviction is None else self._argument("conviction", conviction)
        if self._launch_counterfactual is not None:
            self._launch(self._launch_counterfactual)
        self._launch(self._launch_step)
        self._fetch()

    def _launch(self, launcher: Launcher) -> None:
        stream = self._current_stream()
        with self._context:
            launcher(stream)

    def _argument(self, name: str, array: Any) -> int | None:
        if isinstance(array, np.ndarray):
            return self._staged(name, array)
        if not self._torch_output:  # the launch goes to another stream than the one that makes the tensor
            import torch

            torch.cuda.current_stream(self._index).synchronize()
        return int(array.data_ptr())

    def reset(self, mask: Any | None, start: Any | None, keys: Any | None, streams: Any | None) -> None:
        self._request.mask = self._staged("mask", mask)
        self._request.start = self._staged("start", start)
        self._request.keys = self._staged("keys", keys)
        self._request.streams = self._staged("streams", streams)
        self._launch(self._launch_reset)
        if keys is not None and self._launch_clearing is not None:
            self._clearing_mask.value = self._request.mask
            self._launch(self._launch_clearing)
        self._fetch()

    def clear_metrics(self) -> None:
        if self._launch_clearing is not None:
            self._clearing_mask.value = None
            self._launch(self._launch_clearing)

    def _fetch(self) -> None:
        if self._host is None:
            return
        size = self.plan.output_bytes
        with self._context:
            check(
                self._driver.cuMemcpyDtoHAsync(self._host.address, self._memory.address, size, self._stream)
            )
            check(self._driver.cuStreamSynchronize(self._stream))

    def masks(self, exposures: bool) -> Any:
        shape = self.plan.mask_shape(exposures)
        width, target = self._mask_arguments
        width.value = int(exposures)
        if self._torch_output:
            import torch

            out = torch.empty(shape, dtype=torch.bool, device=self.device)
            target.value = out.data_ptr()
            self._launch(self._launch_masks)
            return out
        host = np.empty(shape, dtype=np.bool_)
        if "masks" not in self._staging:
            self._staging["masks"] = DeviceMemory(self._context, host.nbytes)
        target.value = self._staging["masks"].address
        self._launch(self._launch_masks)
        with self._context:
            check(self._driver.cuStreamSynchronize(self._stream))
            check(self._driver.cuMemcpyDtoH(host.ctypes.data, self._staging["masks"].address, host.nbytes))
        return host

    def outputs(self) -> dict[str, Any]:
        return self._outputs

    def copies(self) -> Sequence[Any]:
        if self._copier is None:
            return [array.copy() for array in self._copied]
        # Torch allocates on its current stream, to which the launch goes as well: memory that is freed there may be
        # given out again before earlier work is done with it, and the launch runs after that work.
        made = self._copier.allocate()
        self._launch(self._copier.launch)
        return made

    def first_bad_action(self, actions: Any, action_format: int) -> int:
        checked = _layout.Actions(actions.ctypes.data, action_format, None)
        return int(_native.library().fox_first_bad_action(ctypes.addressof(checked), self.plan.num_envs))

    def take_faults(self) -> list[_layout.Fault]:
        if not any(self._fault_words):
            return []
        flags = self._faults.array.view(np.uint32)
        raised = [_layout.Fault(index) for index in np.flatnonzero(flags)]
        if raised:
            flags[:] = 0
        return raised

    def set_knob(self, index: int, value: float) -> None:
        self._knob[1].value = index
        self._knob[2].value = value
        self._launch(self._launch_knob)

    def read(self, name: str) -> NDArray[Any]:
        slot = self.plan.slots[name]
        out = np.empty(slot.shape, dtype=slot.dtype)
        self._wait()
        with self._context:
            check(self._driver.cuMemcpyDtoH(out.ctypes.data, self._address(name), slot.nbytes))
        return out

    def write(self, name: str, value: NDArray[Any]) -> None:
        slot = self.plan.slots[name]
        array = np.ascontiguousarray(value, dtype=slot.dtype).reshape(slot.shape)
        self._wait()
        with self._context:
            check(self._driver.cuMemcpyHtoD(self._address(name), array.ctypes.data, slot.nbytes))

    def close(self) -> None:
        """Free the buffers; the batch's own memory goes with the last tensor that views it."""
        self._wait()
        self._outputs, self._copied, self._copier = {}, [], None
        del self._memory
        for memory in (self._faults, self._host, *self._market_table, *self._staging.values()):
            if memory is not None:
                memory.free()


def _torch_stream() -> Callable[[int], int]:
    """Torch's look-up of the handle of a device's current stream, which the code of its compiler calls as well.

    ``torch.cuda.current_stream`` would make an object of it for every launch.
    """
    import torch

    return torch._C._cuda_getCurrentRawStream


def _device_index(torch_output: bool) -> int:
    """Torch's current device, where the caller's other tensors lie; without torch FOX_CUDA_DEVICE, or 0."""
    if torch_output:
        import torch

        if not torch.cuda.is_available():
            raise BackendError(
                "output='torch' with backend='cuda' needs a torch built for CUDA; install one or use backend='cpu'"
            )
        return torch.cuda.current_device()
    return int(os.environ.get("FOX_CUDA_DEVICE", "0"))
