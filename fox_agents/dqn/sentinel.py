"""Named flags of tensors that are not finite: raised on the device, latched, and a gate for the update."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fox_agents.plain_values import nearest
from fox_env.errors import ConfigError

__all__ = ["MOST_FLAGS", "Sentinel", "magnitudes"]

MOST_FLAGS = 64
"""Most names that one sentinel watches."""


class Sentinel:
    """Watch tensors for NaN and infinity without asking the device.

    Parameters
    ----------
    names : Sequence[str]
        What is watched, in the order in which it is computed, so that the first raised name is nearest to the cause; at
        most `MOST_FLAGS`.
    device : torch.device
        Where the flags live.

    Attributes
    ----------
    flags : Tensor
        (names,) bool, True for the tensors that were not finite in the first check that failed. What comes after a
        failure adds nothing: there a bad value has only spread.
    ok : Tensor
        () bool, True until a check fails; multiply or select an update by it.

    Raises
    ------
    ConfigError
        When there are no names or too many, or one twice.
    """

    def __init__(self, names: Sequence[str], device: torch.device | str) -> None:
        if not 1 <= len(names) <= MOST_FLAGS:
            raise ConfigError(f"a sentinel watches 1 to {MOST_FLAGS} tensors, not {len(names)}")
        twice = {name for name in names if list(names).count(name) > 1}
        if twice:
            raise ConfigError(f"watched twice under one name: {', '.join(sorted(twice))}")
        self.names = tuple(names)
        self.flags = torch.zeros(len(names), dtype=torch.bool, device=device)
        self.ok = torch.ones((), dtype=torch.bool, device=device)

    def check(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise the flags of the floating ``tensors``, not empty, that hold a NaN or an infinity.

        Beyond the range of float32 counts as infinite.

        Raises
        ------
        ConfigError
            For a name that is not watched.
        """
        self.check_magnitudes(tuple(tensors), magnitudes(list(tensors.values())))

    @torch.no_grad()
    def check_magnitudes(self, names: Sequence[str], largest: Tensor) -> None:
        """`check` of tensors whose `magnitudes` (names,) are known."""
        for name in names:
            if name not in self.names:
                raise ConfigError(f"no tensor {name!r} is watched; {nearest(name, self.names)}")
        bad = ~largest.isfinite()
        places = {name: bad[place] for place, name in enumerate(names)}
        by_flag = torch.stack([places.get(name, torch.zeros_like(self.ok)) for name in self.names])
        self.flags.logical_or_(by_flag & self.ok)
        self.ok.logical_and_(~bad.any())

    def raised(self, flags: Sequence[float]) -> list[str]:
        """Names of the raised flags, given the values of ``flags`` as read to the host."""
        return [name for name, flag in zip(self.names, flags, strict=True) if flag]

    def reset(self) -> None:
        """Lower every flag and open the gate, in place."""
        self.flags.zero_()
        self.ok.fill_(True)


@torch.no_grad()
def magnitudes(tensors: Sequence[Tensor]) -> Tensor:
    """Largest magnitude of each tensor, (tensors,) float32; not finite exactly where an element is not.

    Unlike a sum of squares it does not overflow. Compiled, it is found row by row, which joins the passes that
    read the tensors anyway; else in one fused pass over all of them.
    """
    if not torch.compiler.is_compiling():
        return torch.stack([value.float() for value in torch._foreach_norm(list(tensors), math.inf)])
    rows = []
    for tensor in tensors:
        row = tensor.abs()
        while row.ndim > 1:
            row = row.amax(dim=-1)
        rows.append(row)
    if len({len(row) for row in rows}) == 1:
        return torch.stack(rows).amax(dim=1)
    return torch.stack([row.amax() for row in rows])
