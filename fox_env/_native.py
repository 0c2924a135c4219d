"""The host library: the shared physics headers compiled by the host C++ compiler, loaded with ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sysconfig
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.errors import BackendError

__all__ = ["cpu_level", "library", "max_threads", "philox", "physics_columns", "source_digest"]

_NAMES = ("libfox_host.so", "libfox_host.dylib", "fox_host.dll")


def source_digest() -> str:
    """SHA-256 over the names and digests of every shared source, as CMakeLists.txt computes it."""
    folder = _layout.source_dir()
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    lines = [f"{name} {hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _library_path() -> Path:
    package = Path(__file__).resolve().parent
    folders = [package / "_lib", Path(sysconfig.get_path("platlib")) / "fox_env" / "_lib"]
    for folder in folders:
        for name in _NAMES:
            if (folder / name).is_file():
                return folder / name
    raise BackendError(
        "the compiled host library of Fox is missing; install a C++17 compiler and run `pip install .` "
        "in the project's folder"
    )


@cache
def library() -> ctypes.CDLL:
    """Load the host library once and check that it was built from the sources beside it.

    Raises
    ------
    BackendError
        If the library is missing, cannot be loaded, or was built from other sources.
    """
    path = _library_path()
    _limit_spinning()
    try:
        lib = ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise BackendError(f"{path} cannot be loaded ({error}); run `pip install .` again") from error
    lib.fox_source_digest.restype = ctypes.c_char_p
    if lib.fox_source_digest().decode() != source_digest():  # before any function that an older one may lack
        raise BackendError(
            f"{path} was built from other sources than those beside it; run `pip install .` again"
        )
    sizes = (ctypes.c_int64 * len(_layout.STRUCTURES))()
    count = lib.fox_structure_sizes(sizes, len(sizes))
    if count != len(sizes) or list(sizes) != list(_layout.STRUCTURES.values()):
        raise BackendError(f"{path} disagrees with cuda_src/layout.cuh about structure sizes; reinstall Fox")
    lib.fox_cpu_level.restype = ctypes.c_char_p
    wanted, level = os.environ.get("FOX_CPU_LEVEL"), lib.fox_cpu_level().decode()
    if wanted and wanted != level:
        raise BackendError(
            f"FOX_CPU_LEVEL={wanted} is not a level of this processor, which has {level} and those below; use one of "
            "v2, v3, v4, or unset it"
        )
    lib.fox_first_bad_action.restype = ctypes.c_int64
    lib.fox_first_bad_action.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    lib.fox_step.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32]
    lib.fox_step.restype = None
    lib.fox_reset.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32]
    lib.fox_reset.restype = None
    lib.fox_masks.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32]
    lib.fox_masks.restype = None
    lib.fox_counterfactual.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32]
    lib.fox_counterfactual.restype = None
    lib.fox_clear_metrics.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    lib.fox_clear_metrics.restype = None
    lib.fox_physics_columns.argtypes = [ctypes.c_int64, *[ctypes.c_void_p] * 6]
    lib.fox_physics_columns.restype = None
    lib.fox_philox.argtypes = [ctypes.c_void_p] * 3
    lib.fox_philox.restype = None
    return lib


def _limit_spinning() -> None:
    """Let OpenMP's idle threads spin for about half a millisecond, unless the user has said how they should wait.

    They spin for many milliseconds by default, which is of use only where no other process wants the core: beside a
    busy one they spend the time slice that the working thread waits for.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def cpu_level() -> str:
    """The x86-64 level in use (``v2``, ``v3``, ``v4``) or ``generic``; ``FOX_CPU_LEVEL`` forces a lower one."""
    return str(library().fox_cpu_level().decode())


def max_threads() -> int:
    """Threads that the CPU backend uses for a large batch (``OMP_NUM_THREADS`` limits them)."""
    return int(library().fox_threads())


def philox(counter: NDArray[np.uint32], key: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """One block of Philox4x32-10 (``cuda_src/rng.cuh``): (4,) uint32 of a (4,) counter and a (2,) key."""
    words = [np.ascontiguousarray(x, dtype=np.uint32) for x in (counter, key)]
    out = np.empty(4, dtype=np.uint32)
    library().fox_philox(*(x.ctypes.data for x in (*words, out)))
    return out


def physics_columns(
    high: NDArray[np.float64],
    low: NDArray[np.float64],
    close: NDArray[np.float64],
    volume: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Average true range and mean volume of every bar (``cuda_src/volatility.cuh``).

    Parameters
    ----------
    high, low, close
        (T,) float64, ticks.
    volume
        (T,) float64, contracts; zeros where unknown.

    Returns
    -------
    atr, mean_volume
        (T,) float64: ticks, at least 1; contracts.
    """
    columns = [np.ascontiguousarray(x, dtype=np.float64) for x in (high, low, close, volume)]
    atr, mean_volume = np.empty_like(columns[0]), np.empty_like(columns[0])
    library().fox_physics_columns(len(atr), *(x.ctypes.data for x in (*columns, atr, mean_volume)))
    return atr, mean_volume
