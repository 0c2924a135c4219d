"""Memory of one GPU: contexts, allocations that are freed with their objects, and the copies of markets."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary, finalize

import numpy as np

from fox_env.backends.market_arrays import feature_table, market_rows, roll_gaps
from fox_env.errors import BackendError
from fox_env.market import Market

__all__ = ["Context", "DeviceMemory", "PinnedMemory", "check", "context_of", "upload", "upload_market"]


def check(result: tuple[Any, ...]) -> Any:
    """The value of a driver call, or BackendError with the driver's own words."""
    if (
        result[0] != 0
    ):  # CUDA_SUCCESS; this runs several times a step, so the driver is imported for an error alone
        from cuda.bindings import driver

        status = result[0]
        text = driver.cuGetErrorString(status)[1]
        words = text.decode() if isinstance(text, bytes) else str(status)
        raise BackendError(f"the CUDA driver reports {status.name}: {words}")
    return result[1] if len(result) > 1 else None


class Context:
    """A device's primary context, which torch shares; ``with`` makes it the calling thread's for a while.

    A thread has no context until it gets one, and may be using another device's.
    """

    def __init__(self, index: int) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._handle = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(index))))

    def __enter__(self) -> None:
        check(self._driver.cuCtxPushCurrent(self._handle))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        check(self._driver.cuCtxPopCurrent())

    def release(self, destroy: Callable[[int], Any], handle: int) -> None:
        """Destroy something of this context. Errors are left: at the interpreter's exit the driver may be gone."""
        (status,) = self._driver.cuCtxPushCurrent(self._handle)
        if status == self._driver.CUresult.CUDA_SUCCESS:
            destroy(handle)
            self._driver.cuCtxPopCurrent()


@cache
def context_of(index: int) -> Context:
    """The context of one device."""
    return Context(index)


class DeviceMemory:
    """One allocation on the GPU, freed with the object."""

    def __init__(self, context: Context, nbytes: int) -> None:
        from cuda.bindings import driver

        self.nbytes = max(nbytes, 1)
        with context:
            status, address = driver.cuMemAlloc(self.nbytes)
        if status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise BackendError(
                f"the GPU has no {self.nbytes / 2**20:,.0f} MiB left for this batch; use fewer environments, "
                "a smaller trade_capacity or info_level='none'"
            )
        check((status,))
        self.address = int(address)
        self._free = finalize(self, context.release, driver.cuMemFree, self.address)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def free(self) -> None:
        self._free()


class PinnedMemory:
    """Host memory that the GPU can read and write, freed with the object."""

    def __init__(self, context: Context, nbytes: int) -> None:
        from cuda.bindings import driver

        flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
        with context:
            self.address = int(check(driver.cuMemHostAlloc(max(nbytes, 1), flags)))
            self.device_address = int(check(driver.cuMemHostGetDevicePointer(self.address, 0)))
        self.array = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(self.address))
        self.array[:] = 0
        self._free = finalize(self, context.release, driver.cuMemFreeHost, self.address)

    def free(self) -> None:
        self._free()


_markets: WeakKeyDictionary[Market, dict[int, list[DeviceMemory]]] = WeakKeyDictionary()


def upload(context: Context, array: Any) -> DeviceMemory:
    """A copy of a host array or structure on the device."""
    from cuda.bindings import driver

    view = np.frombuffer(array, dtype=np.uint8)
    memory = DeviceMemory(context, view.nbytes)
    with context:
        check(driver.cuMemcpyHtoD(memory.address, view.ctypes.data, view.nbytes))
    return memory


def upload_market(market: Market, device: int) -> list[DeviceMemory]:
    """The market's rows, features and roll gaps on the device: uploaded once, shared by every batch."""
    uploaded = _markets.setdefault(market, {})
    if device not in uploaded:
        arrays = (market_rows(market).view(np.uint8), feature_table(market), roll_gaps(market))
        uploaded[device] = [upload(context_of(device), array) for array in arrays]
    return uploaded[device]
