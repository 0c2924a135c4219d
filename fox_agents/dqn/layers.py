"""Layers of the branching network: selection of inputs, gated residual blocks, a mixture of experts, noisy linears."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from fox_agents.dqn.noise import FactorisedNoise, rows

__all__ = [
    "EnsembleHeads",
    "GatedResidual",
    "Linear",
    "NoisyLinear",
    "SoftMixture",
    "VariableSelection",
    "power_iteration",
]

_EPSILON = 1e-12  # least norm that is divided by
_FIRST_ITERATIONS = 15  # power iterations at the start, as torch.nn.utils.parametrizations.spectral_norm
_NOISE = 0.5  # sigma_0 of factorised noise, Fortunato et al. 2018, section 3.2


class Linear(nn.Linear):
    """A linear layer whose weight may be divided by its largest singular value.

    Spectral normalisation (Miyato et al. 2018): the weight in use is W / max(sigma, 1e-12) with
    sigma = u^T W v, and the gradient passes through W in sigma while u and v are constants. They are
    buffers that only `power_iteration` moves: no forward pass changes them.

    Parameters
    ----------
    inputs, outputs : int
        Widths.
    spectral : bool
        Whether the weight is normalised. The initial u and v belong to the initial weight: one that is replaced
        needs new iterations.
    scale : float, optional
        Weights start uniform within scale / sqrt(inputs) and biases at zero; torch's defaults when None.
    """

    def __init__(
        self, inputs: int, outputs: int, *, spectral: bool = False, scale: float | None = None
    ) -> None:
        super().__init__(inputs, outputs)
        if scale is not None:
            nn.init.uniform_(self.weight, -scale / inputs**0.5, scale / inputs**0.5)
            nn.init.zeros_(self.bias)
        self.left: Tensor | None
        self.right: Tensor | None
        self.register_buffer("left", functional.normalize(torch.randn(outputs), dim=0) if spectral else None)
        self.register_buffer("right", torch.zeros(inputs) if spectral else None)
        for _ in range(_FIRST_ITERATIONS if spectral else 0):
            power_iteration([self])

    def effective_weight(self) -> Tensor:
        """The weight in use, (outputs, inputs)."""
        if self.left is None or self.right is None:
            return self.weight
        sigma = torch.dot(self.left, torch.mv(self.weight, self.right))
        return self.weight / sigma.clamp(min=_EPSILON)

    def in_use(self, noise: FactorisedNoise | None = None) -> tuple[Tensor, Tensor]:
        """Weight (outputs, inputs) and bias (outputs,); this layer has no use for ``noise``."""
        return self.effective_weight(), self.bias

    def forward(self, input: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        return functional.linear(input, *self.in_use())


@torch.no_grad()
def power_iteration(layers: Iterable[Linear]) -> None:
    """Move u and v of every normalised layer one power iteration on, in place: v = W^T u, u = W v, unit lengths.

    To be called before the forward passes of an update: autograd refuses a backward pass whose u has moved.
    """
    for layer in layers:
        if layer.left is not None and layer.right is not None:
            layer.right.copy_(
                functional.normalize(torch.mv(layer.weight.t(), layer.left), dim=0, eps=_EPSILON)
            )
            layer.left.copy_(functional.normalize(torch.mv(layer.weight, layer.right), dim=0, eps=_EPSILON))


class NoisyLinear(Linear):
    """Linear layer with learned factorised noise on weights and biases (Fortunato et al. 2018, equations 9 to 11).

    With noise e_in of the inputs and e_out of the outputs::

        y = W x + b + e_out * (S (e_in * x) + s)

    S (``sigma_weight``) and s (``sigma_bias``) start at 0.5 / sqrt(inputs). Without noise y = W x + b, whatever the
    training mode. Spectral normalisation applies to W alone.
    """

    def __init__(
        self, inputs: int, outputs: int, *, spectral: bool = False, scale: float | None = None
    ) -> None:
        super().__init__(inputs, outputs, spectral=spectral, scale=scale)
        start = _NOISE / inputs**0.5
        self.sigma_weight = nn.Parameter(torch.full((outputs, inputs), start))
        self.sigma_bias = nn.Parameter(torch.full((outputs,), start))

    def in_use(self, noise: FactorisedNoise | None = None) -> tuple[Tensor, Tensor]:
        """Weight (outputs, inputs) and bias (outputs,) with the ``noise`` of one group."""
        weight = self.effective_weight()
        if noise is None:
            return weight, self.bias
        weight = torch.addcmul(weight, noise.output.t() * noise.input, self.sigma_weight)
        return weight, torch.addcmul(self.bias, noise.output[0], self.sigma_bias)

    def forward(self, input: Tensor, noise: FactorisedNoise | None = None) -> Tensor:
        """(B, inputs) to (B, outputs); noise of one group is shared by all rows, else see `noise.rows`."""
        if noise is None or noise.input.shape[0] == 1:  # one noisy matrix and half the matrix products
            return functional.linear(input, *self.in_use(noise))
        weight, batch = self.effective_weight(), input.shape[0]
        spread = functional.linear(input * rows(noise.input, batch), self.sigma_weight, self.sigma_bias)
        return torch.addcmul(functional.linear(input, weight, self.bias), rows(noise.output, batch), spread)


class VariableSelection(nn.Module):
    """Weighs groups of inputs by a small gated network of all of them.

    After Lim et al., "Temporal Fusion Transformers" (2021), section 4.2, without the transformation of each variable:
    w = softmax(GLU(W2 ELU(W1 x))), and every input is multiplied by (number of groups) x (weight of its group). Equal
    weights leave the inputs as they are; so it starts, since the linear half of W2 is zero.

    Parameters
    ----------
    sizes : Sequence[int]
        Number of inputs of each group; groups lie one after the other.
    width : int
        Units between W1 and W2.
    """

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        groups = len(sizes)
        self.hidden = nn.Linear(sum(sizes), width)
        self.score = nn.Linear(width, 2 * groups)
        with torch.no_grad():
            self.score.weight[:groups] = 0.0
            self.score.bias[:groups] = 0.0
        owner = torch.arange(groups).repeat_interleave(torch.tensor(list(sizes)))
        self.members: Tensor  # a product with it, as the backward pass of a gather adds in no fixed order
        self.register_buffer("members", groups * functional.one_hot(owner).t().float(), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(B, inputs) to the weighed inputs (B, inputs) and the weights (B, groups), which sum to 1."""
        scores = functional.glu(self.score(functional.elu(self.hidden(x))), dim=-1)
        weights = torch.softmax(scores, dim=-1)
        return x * torch.matmul(weights, self.members), weights


class GatedResidual(nn.Module):
    """LayerNorm(skip(x) + GLU(W2 ELU(W1 x))), the gated residual network of Lim et al. (2021), equations 2 to 5.

    Their linear layer before the gate is merged with those of the gate. Where the width changes, the skip is linear and
    part of the same matrix as W1, so that both are one product.

    Parameters
    ----------
    inputs, outputs : int
        Widths.
    spectral : bool
        Whether the two matrices are spectrally normalised.
    """

    def __init__(self, inputs: int, outputs: int, *, spectral: bool = False) -> None:
        super().__init__()
        self.outputs = outputs
        self.projects = inputs != outputs
        self.first = Linear(inputs, 2 * outputs if self.projects else outputs, spectral=spectral)
        self.second = Linear(outputs, 2 * outputs, spectral=spectral)
        self.norm = nn.LayerNorm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, outputs)."""
        first = self.first(x)
        skip, inner = first.split(self.outputs, dim=-1) if self.projects else (x, first)
        gated = functional.glu(self.second(functional.elu(inner)), dim=-1)
        normed: Tensor = self.norm(skip + gated)
        return normed


class SoftMixture(nn.Module):
    """Residual mixture of bottleneck experts with a dense gate: h + sum_k g_k(x) U_k relu(D_k h + d_k) + b.

    After Jacobs et al., "Adaptive Mixtures of Local Experts" (1991); every expert is computed and none is dropped. All
    D_k are one matrix and all U_k another: the gate scales the bottlenecks, so that the second product also sums over
    the experts.

    Parameters
    ----------
    width : int
        Width of h.
    state : int
        Width of the state x that the gate reads.
    experts, bottleneck, gate_width : int
        Number of experts, their inner width, the inner width of the gate.
    spectral : bool
        Whether the stacked D and the stacked U are spectrally normalised.
    """

    def __init__(
        self,
        width: int,
        state: int,
        experts: int,
        bottleneck: int,
        gate_width: int,
        *,
        spectral: bool = False,
    ) -> None:
        super().__init__()
        self.experts = experts
        self.down = Linear(width, experts * bottleneck, spectral=spectral)
        self.up = Linear(experts * bottleneck, width, spectral=spectral)
        self.gate = nn.Sequential(nn.Linear(state, gate_width), nn.ReLU(), nn.Linear(gate_width, experts))

    def forward(self, h: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """(B, width) and (B, state) to (B, width) and the gate (B, experts), which sums to 1."""
        gate = torch.softmax(self.gate(state), dim=-1)
        inner = functional.relu(self.down(h)).view(h.shape[0], self.experts, -1)
        mixed: Tensor = self.up((inner * gate[:, :, None]).flatten(1))
        return h + mixed, gate


class EnsembleHeads(nn.Module):
    """Independent two-layer heads on shared features (Osband et al. 2016); all of one layer are one product.

    Parameters
    ----------
    inputs : int
        Width of the features.
    heads, width, outputs : int
        Number of heads, their inner width, the values that each gives.
    scale : float
        Weights of the second layer start uniform within scale / sqrt(width).
    """

    def __init__(self, inputs: int, heads: int, width: int, outputs: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, heads * width)
        bound = scale / width**0.5
        self.weight = nn.Parameter(torch.empty(heads, width, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(heads, 1, outputs))

    def forward(self, h: Tensor) -> Tensor:
        """(B, inputs) to (B, heads, outputs)."""
        inner = functional.relu(self.first(h)).view(h.shape[0], self.weight.shape[0], -1)
        return torch.baddbmm(self.bias, inner.transpose(0, 1), self.weight).transpose(0, 1)
