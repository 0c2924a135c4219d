"""How a repeated device step runs: eager on a CPU, a captured CUDA graph on a GPU, compiled where that is asked for."""

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from torch import Tensor

__all__ = ["Precision", "Repeated", "compiled", "materialised"]

Precision = Literal["float32", "tf32"]
"""How a GPU multiplies float32 matrices: exactly, or rounding factors to 10 bits of mantissa (NVIDIA's TF32)."""


_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R], enabled: bool) -> Callable[_P, _R]:
    """``function``, a bound method without decorators, as one graph of torch.compile where ``enabled``.

    The compiler joins kernels that do not depend on each other. It measures nothing on the device to choose between
    kernels: the order of a sum, and with it the last bits of a result, would depend on the timing of that process.
    Every call compiles anew, because the compiled forms of one code object share a cache that gives up after a few
    (the agents of a sweep, for example).
    """
    if not enabled:
        return function
    assert isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType)
    plain = function.__func__
    own = types.FunctionType(plain.__code__.replace(), plain.__globals__, plain.__name__)
    method = types.MethodType(own, function.__self__)
    options: dict[str, Any] = {"deterministic": True, "combo_kernels": True}
    return torch.compile(method, fullgraph=True, dynamic=False, options=options)


class Repeated:
    """Run ``step`` again and again; on a GPU capture it once and replay it.

    ``step`` reads and writes the same tensors every time and never asks the device for a value. Its first
    calls run eagerly, as ordinary steps, so that libraries can initialise what may not be initialised during
    a capture.

    Parameters
    ----------
    step : Callable
        The work of one repetition.
    device : torch.device
        Where it runs.
    generators : Sequence[torch.Generator]
        Generators the step draws from; a replay advances them as an eager call would.
    precision : str
        Of its matrix products on a GPU.
    """

    def __init__(
        self,
        step: Callable[[], None],
        device: torch.device,
        generators: Sequence[torch.Generator] = (),
        precision: Precision = "float32",
    ) -> None:
        self._step, self._device, self._generators = step, device, generators
        self._precision = precision
        self.eager_calls = 3  # left before the capture
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do one repetition."""
        if self._device.type != "cuda":
            self._step()
        elif self._graph is not None:
            self._graph.replay()
        else:
            with _matrix_precision(self._precision):
                self._prepare()

    def _prepare(self) -> None:
        """Do a repetition that is not a replay."""
        if self.eager_calls > 0:
            self.eager_calls -= 1
            # Captures run beside the default stream, so warm up there too.
            stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(stream):
                self._step()
            torch.cuda.current_stream(self._device).wait_stream(stream)
        else:
            self._graph = torch.cuda.CUDAGraph()
            for generator in self._generators:
                self._graph.register_generator_state(generator)
            with torch.cuda.graph(self._graph):
                self._step()
            self._graph.replay()  # a capture records without running


def materialised(tensor: Tensor) -> Tensor:
    """``tensor`` itself, for the compiler a result to keep: it would compute it anew for each of many readers."""
    if not torch.compiler.is_compiling():
        return tensor
    tensor = tensor.contiguous()  # the strides that the compiler gives what it keeps
    return tensor.as_strided(tensor.shape, tensor.stride())


@contextmanager
def _matrix_precision(precision: Precision) -> Iterator[None]:
    """Multiply float32 matrices in ``precision`` meanwhile; a captured graph keeps the kernels that this chose."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
