"""One interface for a repeated device step: eager on a CPU, a captured CUDA graph on a GPU."""

from collections.abc import Callable, Sequence

import torch

__all__ = ["Repeated"]


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
    """

    def __init__(
        self, step: Callable[[], None], device: torch.device, generators: Sequence[torch.Generator] = ()
    ) -> None:
        self._step, self._device, self._generators = step, device, generators
        self.eager_calls = 3  # left before the capture
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do one repetition."""
        if self._device.type != "cuda":
            self._step()
        elif self._graph is not None:
            self._graph.replay()
        elif self.eager_calls > 0:
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
