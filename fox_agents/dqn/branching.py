"""The branching network: trunk, mixture of experts, and the heads of every action of every branch.

Sources: Tavakoli et al., "Action Branching Architectures" (2018); Wang et al., "Dueling Network Architectures" (2016);
Bellemare et al. (2017) for the categorical heads; Dabney et al. (2018) for the quantile heads; Osband et al. (2016) for
the ensemble. The layers name their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fox_agents.dqn.config import BDQConfig, NetworkParts
from fox_agents.dqn.layers import (
    EnsembleHeads,
    GatedResidual,
    Linear,
    NoisyLinear,
    SoftMixture,
    VariableSelection,
    power_iteration,
)
from fox_agents.dqn.noise import Noise, Stream, element_keys, factorised, standard_normal
from fox_agents.unseen import COUNTERS
from fox_env._layout import ACTION_BRANCHES, Observation
from fox_env.features import FEATURES

__all__ = ["BranchingNetwork", "Following", "Heads", "NetworkConfig", "Outputs", "feature_groups"]

# First feature of each group; the account's two blocks follow.
_GROUPS = {
    "returns": "return_1",
    "bar_shape": "body",
    "volatility": "realised_20",
    "trend": "rsi_14",
    "volume": "relative_volume",
    "clock": "day_sin",
    "regime": "adx_14",
    "order_flow": "signal_or_imbalance",
    "bars_5": "return_5_bars",
    "bars_15": "return_15_bars",
    "bars_60": "return_60_bars",
    "session": "return_session",
}
_ACTIONS = sum(ACTION_BRANCHES)
_ROWS = 8  # rows of the joined heads come in multiples of it, for the matrix units of a GPU
_HEAD_SCALE = 0.1  # bound of a head's initial weights, as a multiple of 1 / sqrt(fan_in)


def feature_groups() -> dict[str, int]:
    """Number of observation entries of each group that variable selection weighs, in order; they sum to 128."""
    names = [feature.name for feature in FEATURES]
    starts = {group: names.index(first) for group, first in _GROUPS.items()}
    starts |= {"portfolio": int(Observation.PORTFOLIO), "context": int(Observation.CONTEXT)}
    ends = [*list(starts.values())[1:], int(Observation.SIZE)]
    return {group: end - start for (group, start), end in zip(starts.items(), ends, strict=True)}


@dataclass(frozen=True)
class NetworkConfig(NetworkParts):
    """Sizes and parts of the network."""

    hidden: int = BDQConfig.hidden
    """Width of both trunk layers, units."""
    ensemble: int = BDQConfig.ensemble_heads
    """Heads of the ensemble."""
    ignored: tuple[int, ...] = COUNTERS
    """Entries of the observation that the network does not see; by default what only counts up over an episode."""
    ensemble_heads: bool = True
    """Ensemble of direction values."""
    auxiliary: bool = True
    """Head that predicts the sign of the next move."""
    confidence: bool = True
    """Head that predicts the own absolute error."""

    def __post_init__(self) -> None:
        sizes = (
            "hidden",
            "atoms",
            "quantiles",
            "experts",
            "expert_width",
            "gate_width",
            "ensemble",
            "ensemble_width",
        )
        for name in sizes:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.spectral not in ("none", "trunk", "heads", "all"):
            raise ValueError(f"spectral must be none, trunk, heads or all, not {self.spectral!r}")
        if any(not 0 <= index < Observation.SIZE for index in self.ignored):
            raise ValueError(f"ignored must lie within 0 to {Observation.SIZE - 1}, not {self.ignored}")


class Outputs(NamedTuple):
    """What the network says of B states; a part that is switched off is None."""

    logits: Tensor
    """(B, 13, atoms) of each action's C51 return distribution."""
    quantiles: Tensor
    """(B, 13, quantiles) of each action's return, in units of the reward; not sorted."""
    ensemble: Tensor | None
    """(B, heads, 4) values of the directions, in units of the reward."""
    auxiliary: Tensor | None
    """(B,) logit of an upward move over the auxiliary horizon."""
    confidence: Tensor | None
    """(B,) expected absolute temporal-difference error, at least 0, in units of the reward."""
    hidden: Tensor
    """(B, hidden) output of the trunk, before the mixture."""
    gate: Tensor | None
    """(B, experts) weights of the experts, sum 1."""
    selection: Tensor | None
    """(B, groups) weights of the groups of inputs, sum 1, in the order of `feature_groups`."""


class Heads(NamedTuple):
    """C51 and quantile heads of the first A actions as one linear layer, the dueling combination worked in."""

    weight: Tensor
    """(A x atoms + A x quantiles, hidden), and rows of zeros up to a number that matrix products like."""
    bias: Tensor
    """As many."""
    actions: int
    """A."""

    def first(self, actions: int, atoms: int, quantiles: int) -> "Heads":
        """Those of the first ``actions`` of all actions."""
        split = self.actions * atoms
        weights, biases = (
            [part[: actions * atoms], part[split : split + actions * quantiles]]
            for part in (self.weight, self.bias)
        )
        return Heads.joined(weights, biases, actions)

    @classmethod
    def joined(cls, weights: list[Tensor], biases: list[Tensor], actions: int) -> "Heads":
        """From the C51 part and the quantile part."""
        rows = -sum(len(bias) for bias in biases) % _ROWS
        if rows:
            weights = [*weights, weights[0].new_zeros(rows, weights[0].shape[1])]
            biases = [*biases, biases[0].new_zeros(rows)]
        return cls(torch.cat(weights), torch.cat(biases), actions)


class Following(NamedTuple):
    """What is asked of N states that follow others: the distributions of their directions."""

    logits: Tensor
    """(N, 4, atoms)."""
    quantiles: Tensor
    """(N, 4, quantiles)."""
    hidden: Tensor
    """(N, hidden)."""


class BranchingNetwork(nn.Module):
    """Distributions and values of the 13 actions for observations of 128 entries.

    The 13 advantages and 4 branch values of the C51 heads are one (noisy) linear layer, those of the quantile heads
    another; a fixed matrix combines them to value + advantage - mean advantage of the branch's own actions.

    Mean weights of all heads start at a tenth of the usual uniform bound 1 / sqrt(fan_in) and their biases at zero:
    return distributions start nearly uniform, quantiles and values near zero, and the actions nearly equal, so that
    no action is preferred before anything was learned. (Under spectral normalisation the scale of a weight is without
    effect, so that normalised heads start at norm 1.)

    Parameters
    ----------
    config : NetworkConfig
        Sizes and parts. Initial weights come from torch's global generator.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        c, size, actions, branches = config, Observation.SIZE, sum(ACTION_BRANCHES), len(ACTION_BRANCHES)
        trunk_norm, head_norm = c.spectral in ("trunk", "all"), c.spectral in ("heads", "all")
        seen = torch.ones(size)
        seen[list(c.ignored)] = 0.0
        self.seen: Tensor
        self.register_buffer("seen", seen, persistent=False)
        self.selection = (
            VariableSelection(list(feature_groups().values()), c.gate_width) if c.variable_selection else None
        )
        block = GatedResidual if c.gated else _plain
        self.trunk = nn.Sequential(
            block(size, c.hidden, spectral=trunk_norm), block(c.hidden, c.hidden, spectral=trunk_norm)
        )
        self.mixture = (
            SoftMixture(c.hidden, size, c.experts, c.expert_width, c.gate_width, spectral=trunk_norm)
            if c.mixture
            else None
        )
        columns = (actions + branches) * c.atoms
        self.c51 = (NoisyLinear if c.noisy else Linear)(
            c.hidden, columns, spectral=head_norm, scale=_HEAD_SCALE
        )
        self.quantile = Linear(
            c.hidden, (actions + branches) * c.quantiles, spectral=head_norm, scale=_HEAD_SCALE
        )
        self.ensemble = (
            EnsembleHeads(c.hidden, c.ensemble, c.ensemble_width, ACTION_BRANCHES[0], scale=_HEAD_SCALE)
            if c.ensemble_heads
            else None
        )
        scalars = int(c.auxiliary) + int(c.confidence)
        self.scalars = Linear(c.hidden, scalars, scale=_HEAD_SCALE) if scalars else None
        combine, owner = _dueling(ACTION_BRANCHES)
        self.combine: Tensor
        self.register_buffer("combine", combine, persistent=False)
        self.noise_keys: Tensor
        keys = element_keys([c.hidden + columns] if c.noisy else [])
        self.register_buffer("noise_keys", keys, persistent=False)
        self.column_branch: Tensor  # branch of each column of the C51 layer
        self.register_buffer("column_branch", owner.repeat_interleave(c.atoms), persistent=False)
        self._normalised = [layer for layer in self.modules() if isinstance(layer, Linear)]

    def draw_noise(
        self,
        seed: int,
        counter: Tensor,
        *,
        groups: int = 1,
        stream: Stream = Stream.ONLINE,
        scale: Tensor | None = None,
    ) -> Noise | None:
        """Noise for `forward`, a pure function of the arguments; None when the network is not noisy.

        Parameters
        ----------
        seed : int
            Seed of the run.
        counter : Tensor
            () int64 device tensor; another value, another draw.
        groups : int
            1 to share one draw among all rows, as in learning; ceil(N / 64) to act in N environments.
        stream : Stream
            Who draws.
        scale : Tensor, optional
            (4,) multiple of the learned sigmas of each branch, 1 when None.
        """
        if not isinstance(self.c51, NoisyLinear):
            return None
        weight = self.c51.weight
        normals = standard_normal(self.noise_keys, seed, counter, groups, stream, weight.dtype)
        columns = None if scale is None else scale.detach()[self.column_branch]
        return factorised([(weight.shape[1], weight.shape[0])], normals, [columns])

    def power_iteration(self) -> None:
        """One power iteration of every normalised weight; once an update, before its forward passes."""
        power_iteration(self._normalised)

    def heads(self, noise: Noise | None = None, actions: int = _ACTIONS) -> Heads:
        """The heads with the noise of one group, or without; pays where many rows follow, as in learning.

        The dueling combination is linear, so that applying it to the weights gives the outputs of `forward` but for
        rounding, with a product that is smaller by the branch values and none per row.
        """
        layers = self.c51.in_use(None if noise is None else noise[0]), self.quantile.in_use()
        weights, biases = zip(*layers, strict=True)
        width = self.config.hidden
        return Heads.joined(
            [self._combined(part, actions).view(-1, width) for part in weights],
            [self._combined(part, actions).flatten() for part in biases],
            actions,
        )

    def following(self, observation: Tensor, heads: Heads) -> Following:
        """Distributions of the directions alone, by ``heads`` of 4 actions, for (N, 128) observations."""
        hidden, h, _, _ = self._features(observation)
        return Following(*self._distributions(h, heads), hidden)

    def paired(
        self, observation: Tensor, heads: Heads, states: Tensor, directions: Heads
    ) -> tuple[Outputs, Following]:
        """`forward` of observations (B, 128) and, without gradient, `following` of as many ``states``.

        Compiled in one pass: starting kernels costs more than the zeros that then flow back for half of the rows.
        """
        if not torch.compiler.is_compiling():
            outputs = self(observation, heads=heads)
            with torch.no_grad():
                return outputs, self.following(states, directions)
        rows = len(observation)
        hidden, h, gate, selection = self._features(torch.cat([observation, states]))
        own = (None if part is None else part[:rows] for part in (gate, selection))
        outputs = self._outputs(h[:rows], self._distributions(h[:rows], heads), hidden[:rows], *own)
        with torch.no_grad():
            following = self._distributions(h[rows:].detach(), directions)
            return outputs, Following(*following, hidden[rows:].detach())

    def _distributions(self, h: Tensor, heads: Heads) -> tuple[Tensor, Tensor]:
        """(B, A, atoms) logits and (B, A, quantiles)."""
        values, c = functional.linear(h, heads.weight, heads.bias), self.config
        split = heads.actions * c.atoms
        logits, quantiles = values[:, :split], values[:, split : split + heads.actions * c.quantiles]
        shape = len(h), heads.actions
        return logits.reshape(*shape, c.atoms), quantiles.reshape(*shape, c.quantiles)

    def _features(self, observation: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Output of the trunk, that of the mixture, and the weights of the experts and of the groups of inputs."""
        state = observation * self.seen
        x, selection = (state, None) if self.selection is None else self.selection(state)
        hidden = self.trunk(x)
        h, gate = (hidden, None) if self.mixture is None else self.mixture(hidden, state)
        return hidden, h, gate, selection

    def forward(self, observation: Tensor, noise: Noise | None = None, heads: Heads | None = None) -> Outputs:
        """(B, 128) observations to `Outputs`; without noise the mean weights act, as in evaluation.

        ``heads`` of all actions, where given, take the place of the two layers and the noise.

        Raises
        ------
        ValueError
            For observations of another shape or type, or noise that does not fit.
        """
        self._check(observation, noise)
        hidden, h, gate, selection = self._features(observation)
        if heads is None:
            columns = self.c51(h) if noise is None else self.c51(h, noise[0])
            distributions = self._duel(columns), self._duel(self.quantile(h))
        else:
            distributions = self._distributions(h, heads)
        return self._outputs(h, distributions, hidden, gate, selection)

    def _outputs(
        self,
        h: Tensor,
        distributions: tuple[Tensor, Tensor],
        hidden: Tensor,
        gate: Tensor | None,
        selection: Tensor | None,
    ) -> Outputs:
        scalars = None if self.scalars is None else self.scalars(h)
        auxiliary = scalars[:, 0] if scalars is not None and self.config.auxiliary else None
        confidence = (
            functional.softplus(scalars[:, -1]) if scalars is not None and self.config.confidence else None
        )
        return Outputs(
            logits=distributions[0],
            quantiles=distributions[1],
            ensemble=None if self.ensemble is None else self.ensemble(h),
            auxiliary=auxiliary,
            confidence=confidence,
            hidden=hidden,
            gate=gate,
            selection=selection,
        )

    def _duel(self, heads: Tensor) -> Tensor:
        """(B, 17 x width) advantages, then values, to (B, 13, width)."""
        parts = heads.view(heads.shape[0], self.combine.shape[1], -1)
        if torch.compiler.is_compiling():
            return _duel_by_branch(parts, _ACTIONS)
        return torch.bmm(self.combine.expand(heads.shape[0], -1, -1), parts)

    def _combined(self, columns: Tensor, actions: int) -> Tensor:
        """(17 x width, ...) weights of advantages, then values, to (actions, width x ...)."""
        parts = columns.reshape(self.combine.shape[1], -1)
        if torch.compiler.is_compiling():
            return _duel_by_branch(parts, actions)
        return self.combine[:actions] @ parts

    def _check(self, observation: Tensor, noise: Noise | None) -> None:
        if observation.ndim != 2 or observation.shape[1] != Observation.SIZE:
            raise ValueError(f"observations must be (B, {Observation.SIZE}), not {tuple(observation.shape)}")
        if observation.dtype != self.quantile.weight.dtype:
            wanted = self.quantile.weight.dtype
            raise ValueError(f"observations must be {wanted} as the weights, not {observation.dtype}")
        if noise is not None and not isinstance(self.c51, NoisyLinear):
            raise ValueError("this network has no noisy layers; pass noise=None")


def _duel_by_branch(parts: Tensor, actions: int) -> Tensor:
    """The product of `_dueling` for the first actions, (..., 17, width) to (..., actions, width).

    Of single operations, which the compiler joins with what comes before and after; a product it does not.
    """
    combined, first = [], 0
    for branch, size in enumerate(ACTION_BRANCHES):
        if first < actions:
            advantages = parts[..., first : first + size, :]
            value = parts[..., _ACTIONS + branch : _ACTIONS + branch + 1, :]
            combined.append(advantages - advantages.mean(dim=-2, keepdim=True) + value)
        first += size
    return torch.cat(combined, dim=-2)


def _plain(inputs: int, outputs: int, *, spectral: bool) -> nn.Module:
    return nn.Sequential(Linear(inputs, outputs, spectral=spectral), nn.LayerNorm(outputs), nn.ReLU())


def _dueling(branches: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The dueling combination (actions, actions + branches) of advantages and values, and the branch of each column.

    One product instead of a slice, a mean and a sum a branch: a small network spends its time on starting kernels.
    """
    owner = torch.arange(len(branches)).repeat_interleave(torch.tensor(list(branches)))
    values = functional.one_hot(owner).float()
    same_branch = values @ values.T
    centred = torch.eye(sum(branches)) - same_branch / same_branch.sum(dim=1, keepdim=True)
    return torch.cat([centred, values], dim=1), torch.cat([owner, torch.arange(len(branches))])
