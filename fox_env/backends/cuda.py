"""The CUDA backend: the same headers compiled by NVRTC, state and knobs in device memory, launches that never wait.

Launches go to torch's current stream, looked up at every launch, when the outputs are torch tensors, and to an own
stream otherwise. They allocate nothing and read nothing back, so a CUDA graph can capture them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary, finalize

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout, _native
from fox_env.backends.buffers import BufferPlan, host_views, make_batch
from fox_env.backends.market_arrays import feature_table, market_rows
from fox_env.backends.nvrtc import compile_kernels, supported_architectures, target_for
from fox_env.errors import BackendError
from fox_env.market import Market

__all__ = ["CudaBackend", "gpu_problem"]

_BLOCK = 128  # threads; BLOCK in env_kernels.cu
_KERNELS = ("fox_step", "fox_step_quiet", "fox_reset", "fox_masks", "fox_set_knob")


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


def _check(result: tuple[Any, ...]) -> Any:
    """The value of a driver call, or BackendError with the driver's own words."""
    from cuda.bindings import driver

    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        text = driver.cuGetErrorString(status)[1]
        words = text.decode() if isinstance(text, bytes) else str(status)
        raise BackendError(f"the CUDA driver reports {status.name}: {words}")
    return values[0] if values else None


class _DeviceMemory:
    """One allocation on the GPU, freed with the object."""

    def __init__(self, nbytes: int) -> None:
        from cuda.bindings import driver

        self.nbytes = max(nbytes, 1)
        status, address = driver.cuMemAlloc(self.nbytes)
        if status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise BackendError(
                f"the GPU has no {self.nbytes / 2**20:,.0f} MiB left for this batch; use fewer environments, "
                "a smaller trade_capacity or info_level='none'"
            )
        _check((status,))
        self.address = int(address)
        self._free = finalize(self, driver.cuMemFree, self.address)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def free(self) -> None:
        self._free()


class _PinnedMemory:
    """Host memory that the GPU can read and write, freed with the object."""

    def __init__(self, nbytes: int) -> None:
        from cuda.bindings import driver

        flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
        self.address = int(_check(driver.cuMemHostAlloc(max(nbytes, 1), flags)))
        self.device_address = int(_check(driver.cuMemHostGetDevicePointer(self.address, 0)))
        self.array = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(self.address))
        self.array[:] = 0
        self._free = finalize(self, driver.cuMemFreeHost, self.address)

    def free(self) -> None:
        self._free()


@cache
def _current_device(index: int) -> Any:
    """Make the device's primary context, which torch shares, current; returns cuda.core's device."""
    from cuda.core import Device

    device = Device(index)
    device.set_current()
    return device


@cache
def _kernels(index: int) -> dict[str, Any]:
    """Function handles of the compiled kernels on one device."""
    from cuda.bindings import driver

    device = _current_device(index)
    arch, target = target_for(tuple(device.compute_capability), supported_architectures())
    code = compile_kernels(arch, target=target)
    kernels = {name: code.get_kernel(name) for name in _KERNELS}
    handles: dict[str, Any] = {
        name: driver.CUfunction(int(kernel.handle)) for name, kernel in kernels.items()
    }
    handles["owner"] = (code, kernels)  # the handles die with the objects that loaded them
    return handles


class _Launcher:
    """One kernel with arguments at fixed addresses: a launch is one driver call."""

    def __init__(self, kernel: Any, threads: int, block: int, *arguments: Any) -> None:
        self._arguments = arguments  # keeps the memory that the pointers name
        pointers = [ctypes.addressof(argument) for argument in arguments]
        self._pointers = np.array(pointers, dtype=np.uint64)
        self._kernel = kernel
        self._grid = -(-threads // block)
        self._block = block

    def __call__(self, stream: int) -> None:
        from cuda.bindings import driver

        grid, block = self._grid, self._block
        _check(
            driver.cuLaunchKernel(
                self._kernel, grid, 1, 1, block, 1, 1, 0, stream, self._pointers.ctypes.data, 0
            )
        )


_markets: WeakKeyDictionary[Market, dict[int, tuple[_DeviceMemory, _DeviceMemory]]] = WeakKeyDictionary()


def _upload_market(market: Market, device: int) -> tuple[_DeviceMemory, _DeviceMemory]:
    """The market's rows and features on the device: uploaded once, shared by every batch."""
    from cuda.bindings import driver

    uploaded = _markets.setdefault(market, {})
    if device not in uploaded:
        copies = []
        for array in (market_rows(market), feature_table(market)):
            memory = _DeviceMemory(array.nbytes)
            _check(driver.cuMemcpyHtoD(memory.address, array.ctypes.data, array.nbytes))
            copies.append(memory)
        uploaded[device] = (copies[0], copies[1])
    return uploaded[device]


class CudaBackend:
    """A batch in the memory of one GPU; see :class:`fox_env.backends.base.Backend`.

    Parameters
    ----------
    plan
        The arrays to allocate.
    params
        The ``EnvParams`` structure.
    market
        The bars and features all environments share.
    torch_output
        Give CUDA tensors that share the memory; otherwise every step copies its outputs to the host and waits.
    """

    def __init__(self, plan: BufferPlan, params: Any, market: Market, *, torch_output: bool) -> None:
        problem = gpu_problem()
        if problem:
            raise BackendError(f"{problem}, or use backend='cpu'")
        from cuda.bindings import driver

        self._index = _device_index(torch_output)
        self.device = f"cuda:{self._index}"
        _current_device(self._index)
        self.plan = plan
        self._driver = driver
        self._torch_output = torch_output
        self._memory = _DeviceMemory(plan.total_bytes)
        _check(driver.cuMemsetD8(self._memory.address, 0, plan.total_bytes))
        self._faults = _PinnedMemory(4 * int(_layout.Fault.COUNT))
        self._fault_words = self._faults.array.data
        rows, features = _upload_market(market, self._index)
        self._market_memory = (rows, features)
        self._batch = make_batch(
            plan,
            params,
            self._address,
            rows=rows.address,
            features=features.address,
            bars=len(market),
            faults=self._faults.device_address,
        )
        self._actions = _layout.Actions()
        self._request = _layout.ResetRequest()
        self._knob = (ctypes.c_void_p(self._address("knobs")), ctypes.c_int32(), ctypes.c_double())
        kernels = _kernels(self._index)
        step = "fox_step" if plan.named("info.") else "fox_step_quiet"
        self._launch_step = _Launcher(kernels[step], plan.num_envs, _BLOCK, self._batch, self._actions)
        self._launch_reset = _Launcher(
            kernels["fox_reset"], plan.num_envs, _BLOCK, self._batch, self._request
        )
        self._launch_knob = _Launcher(kernels["fox_set_knob"], 1, 1, *self._knob)
        self._mask_arguments = (ctypes.c_int32(), ctypes.c_void_p())
        self._launch_masks = _Launcher(
            kernels["fox_masks"], plan.num_envs, _BLOCK, self._batch, *self._mask_arguments
        )
        self._stream = int(_check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)))
        self._staging: dict[str, _DeviceMemory] = {}
        self._host = None if torch_output else _PinnedMemory(plan.output_bytes)
        self._outputs = self._make_outputs()
        _check(driver.cuCtxSynchronize())

    # ---- memory ----------------------------------------------------------------------------------------------

    def _address(self, name: str) -> int:
        return self._memory.address + self.plan.slots[name].offset

    def _make_outputs(self) -> dict[str, Any]:
        if self._host is not None:
            return host_views(self.plan, self.plan.outputs, self._host.array, 0)
        import torch

        self._block = torch.as_tensor(self._memory, device=self.device)
        return self._torch_views(self.plan.outputs, self._block, 0)

    def _torch_views(self, names: Iterable[str], block: Any, start: int) -> dict[str, Any]:
        """Views of slots by name in a tensor of the plan's bytes from ``start`` on."""
        import torch

        views = {}
        for name in names:
            slot = self.plan.slots[name]
            dtype = torch.from_numpy(np.empty(0, dtype=slot.dtype)).dtype
            first = slot.offset - start
            views[name] = block[first : first + slot.nbytes].view(dtype).reshape(slot.shape)
        return views

    def _staged(self, name: str, array: NDArray[Any] | None) -> int | None:
        """Copy a host array to a device buffer kept for ``name``; the copy is done when this returns."""
        if array is None:
            return None
        if name not in self._staging or self._staging[name].nbytes < array.nbytes:
            self._staging[name] = _DeviceMemory(array.nbytes)
        address = self._staging[name].address
        stream = self._current_stream()
        _check(self._driver.cuMemcpyHtoDAsync(address, array.ctypes.data, array.nbytes, stream))
        _check(self._driver.cuStreamSynchronize(stream))
        return address

    def _current_stream(self) -> int:
        if not self._torch_output:
            return self._stream
        import torch

        return int(torch.cuda.current_stream(self._index).cuda_stream)

    # ---- the physics -----------------------------------------------------------------------------------------

    def step(self, actions: Any, action_format: int, conviction: Any | None) -> None:
        self._actions.values = self._argument("actions", actions)
        self._actions.format = action_format
        self._actions.conviction = None if conviction is None else self._argument("conviction", conviction)
        self._launch_step(self._current_stream())
        self._fetch()

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
        self._launch_reset(self._current_stream())
        self._fetch()

    def _fetch(self) -> None:
        if self._host is None:
            return
        size = self.plan.output_bytes
        _check(self._driver.cuMemcpyDtoHAsync(self._host.address, self._memory.address, size, self._stream))
        _check(self._driver.cuStreamSynchronize(self._stream))

    def masks(self, exposures: bool) -> Any:
        shape = (self.plan.num_envs, 8 if exposures else sum(_layout.ACTION_BRANCHES))
        width, target = self._mask_arguments
        width.value = int(exposures)
        if self._torch_output:
            import torch

            out = torch.empty(shape, dtype=torch.bool, device=self.device)
            target.value = out.data_ptr()
            self._launch_masks(self._current_stream())
            return out
        host = np.empty(shape, dtype=np.bool_)
        self._staging.setdefault("masks", _DeviceMemory(host.nbytes))
        target.value = self._staging["masks"].address
        self._launch_masks(self._stream)
        _check(self._driver.cuStreamSynchronize(self._stream))
        _check(self._driver.cuMemcpyDtoH(host.ctypes.data, self._staging["masks"].address, host.nbytes))
        return host

    def outputs(self) -> dict[str, Any]:
        return self._outputs

    def copy_info(self) -> Callable[[], dict[str, Any]]:
        first, last = self.plan.info_span
        if self._host is not None:
            held = self._host.array[first:last].copy()
            return lambda: host_views(self.plan, self.plan.info, held, first)
        copy = self._block[first:last].clone()
        return lambda: self._torch_views(self.plan.info, copy, first)

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
        self._launch_knob(self._current_stream())

    def read(self, name: str) -> NDArray[Any]:
        slot = self.plan.slots[name]
        out = np.empty(slot.shape, dtype=slot.dtype)
        _check(self._driver.cuCtxSynchronize())
        _check(self._driver.cuMemcpyDtoH(out.ctypes.data, self._address(name), slot.nbytes))
        return out

    def write(self, name: str, value: NDArray[Any]) -> None:
        slot = self.plan.slots[name]
        array = np.ascontiguousarray(value, dtype=slot.dtype).reshape(slot.shape)
        _check(self._driver.cuCtxSynchronize())
        _check(self._driver.cuMemcpyHtoD(self._address(name), array.ctypes.data, slot.nbytes))

    def close(self) -> None:
        _check(self._driver.cuCtxSynchronize())
        self._outputs = {}
        for memory in (self._memory, self._faults, self._host, *self._staging.values()):
            if memory is not None:
                memory.free()


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
