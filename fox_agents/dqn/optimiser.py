"""The optimiser as a few vector operations: clip, gate, AdamW, and the slow copies of the weights.

Parameters, gradients and moments are flat vectors that the layers view. Every number that may change while learning
is a device tensor, so a captured graph sees it change; library optimisers take host floats.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fox_agents.dqn.graphs import materialised

__all__ = ["COPIES", "FlatAdamW", "Rates", "flatten", "parameter_groups"]

COPIES = 5
"""Copies of every weight: parameters, target, gradient and two moments."""

_ALIGN = 64  # floats; keeps every layer's view on the boundary that fast matrix kernels want


class Rates(NamedTuple):
    """Constants of AdamW on the device; ``lr`` and ``bound`` are (1,), the others (groups,)."""

    lr: Tensor
    """Step size."""
    bound: Tensor
    """Largest global norm of the gradient."""
    weight_decay: Tensor
    """Decay per update and unit of the step size."""
    beta1: Tensor
    """Decay of the mean of the gradient."""
    beta2: Tensor
    """Decay of the mean of its square."""
    epsilon: Tensor
    """Floor of the denominator."""


class FlatAdamW:
    """AdamW (Loshchilov and Hutter, 2019) on all parameters of a module at once, with a clipped global norm.

    Parameters
    ----------
    module : nn.Module
        Its parameters become views of `parameters`.
    groups : Sequence[int], optional
        Group of each parameter, in the module's order; one group when None.
    """

    def __init__(self, module: nn.Module, groups: Sequence[int] | None = None) -> None:
        self.parameters = flatten(module)
        """All parameters in one vector, padded between layers."""
        self.leaves = list(module.parameters())
        """The parameters one by one, in the order of their gradients."""
        self.gradient = torch.zeros_like(self.parameters)
        unused = (-parameter.numel() % _ALIGN for parameter in self.leaves)
        self._paddings = [self.gradient.new_zeros(n) if n else None for n in unused]
        self.moment1 = torch.zeros_like(self.parameters)
        self.moment2 = torch.zeros_like(self.parameters)
        self.updates = torch.zeros((), dtype=torch.float64, device=self.parameters.device)
        """Steps taken."""
        self._group: Tensor | None = None
        if groups is not None:
            self._group = _expanded(module, groups).to(self.parameters.device)

    @torch.no_grad()
    def collect(self, gradients: Sequence[Tensor], *, add: bool) -> None:
        """Put the gradients of all parameters, in their order, into `gradient`, or ``add`` them to it."""
        pieces = []
        for gradient, padding in zip(gradients, self._paddings, strict=True):
            pieces += [gradient.reshape(-1)] if padding is None else [gradient.reshape(-1), padding]
        if add:
            self.gradient.add_(torch.cat(pieces))
        else:
            torch.cat(pieces, out=self.gradient)

    @torch.no_grad()
    def step(self, rates: Rates, ok: Tensor) -> Tensor:
        """Apply `gradient` where ``ok`` () bool, else leave everything as it was. Returns the norm before clipping."""
        norm = self.gradient.square().sum().sqrt()
        gradient = torch.where(ok, self.gradient * (rates.bound / (norm + 1e-6)).clamp(max=1.0), 0.0)
        self.updates += ok.to(torch.float64)
        count = self.updates.clamp(min=1.0).float()
        # 1 - beta^count, also where beta is near 1, without double precision.
        betas = rates.beta1, rates.beta2
        correction1, correction2 = (materialised(-torch.expm1(count * beta.log())) for beta in betas)
        self.moment1.lerp_(gradient, self._each((1.0 - rates.beta1) * ok))
        self.moment2.lerp_(gradient * gradient, self._each((1.0 - rates.beta2) * ok))
        root = (self.moment2 / self._each(correction2)).sqrt()
        direction = self.moment1 / self._each(correction1) / (root + self._each(rates.epsilon))
        change = rates.lr * (direction + self._each(rates.weight_decay) * self.parameters)
        self.parameters.sub_(torch.where(ok, change, 0.0))
        return norm

    def _each(self, by_group: Tensor) -> Tensor:
        """Values (groups,) at every parameter."""
        return by_group if self._group is None else by_group[self._group]

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint holds beside the parameters."""
        return {name: getattr(self, name) for name in ("moment1", "moment2", "updates")}


def parameter_groups(module: nn.Module, prefixes: Sequence[str]) -> list[int]:
    """Group of each parameter: the first prefix that its name begins with, else the group after the last one."""
    return [
        next((i for i, prefix in enumerate(prefixes) if name.startswith(prefix)), len(prefixes))
        for name, _ in module.named_parameters()
    ]


def flatten(module: nn.Module) -> Tensor:
    """Move the parameters of ``module`` into one vector, which they view from now on."""
    offsets, size = _offsets(module)
    flat = torch.zeros(size, device=next(module.parameters()).device)
    for parameter, offset in zip(module.parameters(), offsets, strict=True):
        view = flat[offset : offset + parameter.numel()].view_as(parameter)
        view.copy_(parameter.detach())
        parameter.data = view
    return flat


def _offsets(module: nn.Module) -> tuple[list[int], int]:
    offsets, end = [], 0
    for parameter in module.parameters():
        offsets.append(end)
        end += -(-parameter.numel() // _ALIGN) * _ALIGN
    return offsets, end


def _expanded(module: nn.Module, groups: Sequence[int]) -> Tensor:
    """Group of every entry of the flat vector; the padding belongs to the parameter before it."""
    offsets, size = _offsets(module)
    lengths = torch.tensor([*offsets[1:], size]) - torch.tensor(offsets)
    return torch.tensor(groups, dtype=torch.int32).repeat_interleave(lengths)
