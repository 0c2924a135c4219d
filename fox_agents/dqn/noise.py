"""Counter-based noise of noisy layers: the same key always gives the same normals, on the device alone.

Every element of a layer's noise owns a point of the SplitMix64 sequence (Steele, Lea, Flood, "Fast Splittable
Pseudorandom Number Generators", 2014) that depends on its layer and its index; seed, stream, update counter and group
say how far from there the draw lies. No generator state exists, so nothing has to be saved, and a captured graph
draws anew whenever the counter in device memory has moved.
"""

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "ROWS_PER_GROUP",
    "FactorisedNoise",
    "Noise",
    "Stream",
    "element_keys",
    "factorised",
    "rows",
    "standard_normal",
]

ROWS_PER_GROUP = 64
"""Environments that share one draw when acting: row ``i`` uses group ``i // 64``."""

_WORD = 2**64
_INCREMENT = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd
_MULTIPLIER1, _MULTIPLIER2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_GROUP_BITS = 20  # positions that one counter value owns; leaves 2^44 counters before the sequence wraps


class Stream(IntEnum):
    """Who draws: equal seeds and counters give unrelated noise in different streams."""

    ONLINE = 0
    TARGET = 1
    ACTING = 2


class FactorisedNoise(NamedTuple):
    """Noise f(e) of one layer's inputs and outputs, f(x) = sign(x) sqrt|x| (Fortunato et al. 2018, equation 11)."""

    input: Tensor
    """(groups, fan_in)."""
    output: Tensor
    """(groups, fan_out), times the scale of each output where one is set."""


Noise = tuple[FactorisedNoise, ...]
"""One entry for each noisy layer of a network, in order."""


def _signed(value: int) -> int:
    """The int64 with the same 64 bits."""
    value %= _WORD
    return value - _WORD if value >= _WORD // 2 else value


def _mix_integer(z: int) -> int:
    """The output function of SplitMix64 on a Python integer, in [0, 2^64)."""
    z = (z ^ (z >> 30)) * _MULTIPLIER1 % _WORD
    z = (z ^ (z >> 27)) * _MULTIPLIER2 % _WORD
    return z ^ (z >> 31)


def _mix(z: Tensor) -> Tensor:
    """`_mix_integer` on int64, whose products wrap and whose right shift has to be made a logical one."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _signed(_MULTIPLIER1)
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _signed(_MULTIPLIER2)
    return z ^ ((z >> 31) & (2**33 - 1))


def element_keys(widths: Sequence[int]) -> Tensor:
    """The starting point of every element: (sum of widths,) int64 for the numbers of elements of each layer."""
    keys = [
        _mix(torch.arange(1, width + 1) * _signed(_INCREMENT) + _signed(_mix_integer(layer + 1)))
        for layer, width in enumerate(widths)
    ]
    return torch.cat(keys) if keys else torch.zeros(0, dtype=torch.int64)


def standard_normal(
    keys: Tensor,
    seed: int,
    counter: Tensor,
    groups: int = 1,
    stream: int = Stream.ONLINE,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Independent standard normals, a pure function of the arguments.

    Parameters
    ----------
    keys : Tensor
        (E,) int64 from `element_keys`.
    seed : int
        Seed of the run; 64 bits of it count.
    counter : Tensor
        () int64 on the device of ``keys``, at least 0 and below 2^43: another value, another draw.
    groups : int
        Independent draws, at most 2^20. Group ``g`` does not depend on how many there are.
    stream : int
        Who draws, see `Stream`.
    dtype : torch.dtype
        Floating type of the result.

    Returns
    -------
    Tensor
        (groups, E), each sqrt(2) erfinv(v) with v one of 2^24 equally spaced values within (-1, 1), hence
        within 5.5 standard deviations and never infinite.

    Raises
    ------
    ValueError
        For a counter that is not a () int64 tensor, or groups outside 1 to 2^20.
    """
    if counter.dtype != torch.int64 or counter.ndim != 0:
        raise ValueError(f"the counter must be a () int64 tensor, not {tuple(counter.shape)} {counter.dtype}")
    if not 1 <= groups <= 2**_GROUP_BITS:
        raise ValueError(f"groups must be 1 to {2**_GROUP_BITS}, not {groups}")
    origin = _mix_integer((_mix_integer((seed + _INCREMENT) % _WORD) + (stream + 1) * _INCREMENT) % _WORD)
    position = torch.arange(groups, device=keys.device) + (counter << _GROUP_BITS)
    bits = _mix(keys + (position * _signed(_INCREMENT) + _signed(origin))[:, None])
    odd = (bits >> 39) | 1  # the upper 25 bits as an odd integer within +-2^24, which float32 holds exactly
    return torch.erfinv(odd.to(dtype) * 2.0**-24) * math.sqrt(2.0)


def factorised(
    layers: Sequence[tuple[int, int]], normals: Tensor, scales: Sequence[Tensor | None] | None = None
) -> Noise:
    """Split normals into the factorised noise of each layer.

    Parameters
    ----------
    layers : Sequence[tuple[int, int]]
        Fan-in and fan-out of each layer.
    normals : Tensor
        (groups, sum of all fans).
    scales : Sequence[Tensor or None], optional
        For each layer (fan_out,) multiples of its sigmas, or None for 1.
    """
    values = torch.copysign(normals.abs().sqrt(), normals)
    parts = torch.split(values, [width for layer in layers for width in layer], dim=1)
    scales = scales if scales is not None else [None] * len(layers)
    return tuple(
        FactorisedNoise(inputs, outputs if scale is None else outputs * scale)
        for inputs, outputs, scale in zip(parts[::2], parts[1::2], scales, strict=True)
    )


def rows(values: Tensor, batch: int) -> Tensor:
    """Noise of groups, (groups, width), as that of ``batch`` rows: (1, width) for one group, else (batch, width).

    Raises
    ------
    ValueError
        When there are several groups, but not one for every `ROWS_PER_GROUP` rows.
    """
    groups = values.shape[0]
    if groups == 1:
        return values
    if groups != -(-batch // ROWS_PER_GROUP):
        raise ValueError(f"noise of {groups} groups does not fit {batch} rows of {ROWS_PER_GROUP} a group")
    return values.repeat_interleave(ROWS_PER_GROUP, dim=0)[:batch]
