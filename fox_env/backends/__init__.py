"""The two backends of the physics, and the choice between them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env.backends.base import Backend, ClosedBackend
from fox_env.backends.buffers import BufferPlan
from fox_env.errors import BackendError, ConfigError
from fox_env.market import Market

__all__ = ["Backend", "ClosedBackend", "make_backend", "resolve_backend"]

_NAMES = ("auto", "cpu", "cuda")


def resolve_backend(name: str, *, torch_output: bool = False) -> str:
    """``cpu`` or ``cuda`` for ``auto``: the GPU where it can be used with this output, else the CPU.

    Raises
    ------
    ConfigError
        For another name.
    BackendError
        For torch output without PyTorch.
    """
    if torch_output and find_spec("torch") is None:
        raise BackendError(
            "output='torch' needs PyTorch; install it with `pip install 'fox-futures[agents]'` or use output='numpy'"
        )
    if name not in _NAMES:
        raise ConfigError(f"unknown backend {name!r}; use one of {', '.join(_NAMES)}")
    if name != "auto":
        return name
    from fox_env.backends.cuda import gpu_problem

    if gpu_problem() is not None:
        return "cpu"
    if torch_output:
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"
    return "cuda"


def make_backend(
    name: str,
    plan: BufferPlan,
    params: Sequence[Any],
    markets: Sequence[Market],
    market_of: NDArray[np.int32],
    *,
    rules: int,
    torch_output: bool,
    threads: int | None,
) -> Backend:
    """Allocate a batch on ``cpu`` or ``cuda``.

    One ``EnvParams`` a market, ``market_of`` (N,) indices of markets, ``rules`` the ``Rules`` bits in use.
    """
    if name == "cuda":
        from fox_env.backends.cuda import CudaBackend

        return CudaBackend(plan, params, markets, market_of, rules=rules, torch_output=torch_output)
    from fox_env.backends.cpu import CpuBackend

    return CpuBackend(
        plan, params, markets, market_of, rules=rules, torch_output=torch_output, threads=threads
    )
