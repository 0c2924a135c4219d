"""What the acting rules of `fox_agents.dqn.selection` read and remember."""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from fox_agents.dqn.signals import SignalBus
from fox_env._layout import ACTION_BRANCHES

__all__ = ["DRAWS", "Beliefs", "Draws", "Knobs", "Memory", "expected_values"]

_ACTIONS, _BRANCHES = sum(ACTION_BRANCHES), len(ACTION_BRANCHES)


class Beliefs(NamedTuple):
    """What the network says of N states."""

    q: Tensor
    """(N, 13) expected values, see `expected_values`."""
    probabilities: Tensor
    """(N, 13, atoms) return distributions."""
    atoms: Tensor
    """(13, atoms) their atoms, by action."""
    quantiles: Tensor
    """(N, 13, levels) quantiles of the return, by increasing level."""
    ensemble: Tensor
    """(N, heads, 4) values of the directions; read by the rules of `config.ENSEMBLE_RULES` alone."""
    mask: Tensor
    """(N, 13) bool, distinct actions; at least one a branch, and holding always."""


class Draws(NamedTuple):
    """Independent uniforms in [0, 1), made from `DRAWS` of them a state by `split`."""

    explore: Tensor
    """(N, 4) whether a branch explores."""
    choice: Tensor
    """(N, 13) which action a branch takes at random, or a second sample of the returns."""
    returns: Tensor
    """(N, 13) samples of the returns."""
    length: Tensor
    """(N, 4) how long a random choice is held."""
    head: Tensor
    """(N,) which head of the ensemble."""
    trade: Tensor
    """(N,) whether to trade, when that is chosen at random."""

    @classmethod
    def split(cls, uniforms: Tensor) -> Self:
        """Draws from (N, `DRAWS`) uniforms."""
        widths = [_BRANCHES, _ACTIONS, _ACTIONS, _BRANCHES, 1, 1]
        explore, choice, returns, length, head, trade = torch.split(uniforms, widths, dim=1)
        return cls(explore, choice, returns, length, head[:, 0], trade[:, 0])


DRAWS = 2 * _BRANCHES + 2 * _ACTIONS + 2
"""Uniforms that one state takes."""


class Knobs(NamedTuple):
    """Views of the signal bus, of shape (1,) or, with an s, (4,)."""

    explores: Tensor
    temperature: Tensor
    boltzmann_temperatures: Tensor
    cvar_alpha: Tensor
    ids_confidence: Tensor
    hold_least: Tensor
    hold_most: Tensor
    contrarian: Tensor

    @classmethod
    def of(cls, bus: SignalBus) -> Self:
        """The views of ``bus``, which follow its later changes."""
        names = {"explores": "explore", "boltzmann_temperatures": "boltzmann_temperature"}
        return cls(*(bus.view(names.get(field, field)) for field in cls._fields))


class Memory(NamedTuple):
    """What some rules remember of N environments; changed in place, so that it can be captured and saved."""

    held: Tensor
    """(N, 4) int64 random action that is held."""
    left: Tensor
    """(N, 4) int64 steps for which it is still held."""
    head: Tensor
    """(N,) int64 head of the ensemble that is followed."""
    head_left: Tensor
    """(N,) int64 steps for which it is still followed."""

    @classmethod
    def empty(cls, count: int, device: torch.device | str) -> Self:
        """Memory of ``count`` environments in which nothing is held."""
        shapes = [(count, _BRANCHES), (count, _BRANCHES), (count,), (count,)]
        return cls(*(torch.zeros(shape, dtype=torch.int64, device=device) for shape in shapes))

    def forget(self, done: Tensor) -> None:
        """Hold nothing any longer where an episode ended, ``done`` (N,) bool."""
        self.left.masked_fill_(done[:, None], 0)
        self.head_left.masked_fill_(done, 0)


def expected_values(probabilities: Tensor, atoms: Tensor, quantiles: Tensor, share: Tensor) -> Tensor:
    """Expected returns (...) of distributions (..., atoms) and quantiles (..., levels) of the same actions.

    ``share`` (1,) is the weight of the mean of the categorical distribution, the rest that of the quantiles.
    """
    categorical = (probabilities * atoms).sum(dim=-1)
    return torch.lerp(quantiles.mean(dim=-1), categorical, share)
