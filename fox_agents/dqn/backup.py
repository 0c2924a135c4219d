"""Bellman targets of the branching agent: which actions of a sample are trained, and toward which distributions.

Two kinds of samples exist. A plain one trains the taken action of each branch that had an effect, toward one target.
One with full information knows what each exposure would have led to, and trains every direction (with the size that
the network prefers) and every size (in the direction that it prefers); sizes and directions are chosen by values,
never by the rewards that followed, which the policy cannot know.

All branches share the direction branch's bootstrap (docs/decisions/0006).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fox_agents.dqn.replay import Batch
from fox_env._layout import ACTION_BRANCHES, Direction

__all__ = ["Candidates", "Trained", "exposure_candidates", "of_trained", "taken_candidates"]

_DIRECTIONS, _SIZES = ACTION_BRANCHES[:2]
_BRANCHES = tuple(range(len(ACTION_BRANCHES)))
_COLUMNS = [range(sum(ACTION_BRANCHES[:b]), sum(ACTION_BRANCHES[: b + 1])) for b in _BRANCHES]
_SHORT_QUARTER, _HOLD, _LONG_QUARTER, _FLAT = (
    2,
    3,
    4,
    7,
)  # exposures run from short full to long full, then flat


class Candidates(NamedTuple):
    """K transitions that may have followed each of B states."""

    reward: Tensor
    """(B, K) float32."""
    discount: Tensor
    """(B, K) float32."""
    observation: Tensor
    """(B, K, 128) float32."""
    mask: Tensor
    """(B, K, 4) bool: distinct directions of the state that followed."""


class Trained(NamedTuple):
    """P actions of each state that are trained; action p belongs to the same branch in every state."""

    column: Tensor
    """(B, P) int64: which of the 13 actions."""
    candidate: Tensor
    """(B, P) int64: which of the K transitions gives the target."""
    active: Tensor
    """(B, P) bool: the others count as zero."""
    branches: tuple[int, ...]
    """Branch of each of the P actions."""

    def by_branch(self, values: Tensor) -> Tensor:
        """Rows (P, ...) of ``values`` (13, ...) that all actions of a branch share."""
        return torch.stack([values[_COLUMNS[branch][0]] for branch in self.branches])

    def of_candidate(self, values: Tensor) -> Tensor:
        """Rows (B, P, ...) of ``values`` (B, K, ...) of the candidates."""
        rows, columns = self.candidate.shape
        if values.shape[1] == 1:
            return values.expand(-1, columns, *values.shape[2:])
        return values[torch.arange(rows, device=values.device)[:, None], self.candidate]


def of_trained(values: Tensor, trained: Trained) -> Tensor:
    """Rows (B, P, width) of ``values`` (B, 13, width) of the trained actions.

    Compiled, as choices among the actions of a branch: the gradient of an index is a scatter, which nothing joins.
    """
    if not torch.compiler.is_compiling():
        return values[torch.arange(len(values), device=values.device)[:, None], trained.column]
    chosen = []
    for place, branch in enumerate(trained.branches):
        first, *others = _COLUMNS[branch]
        row, column = values[:, first], trained.column[:, place, None]
        for other in others:
            row = torch.where(column == other, values[:, other], row)
        chosen.append(row)
    return torch.stack(chosen, dim=1)


def taken_candidates(batch: Batch, offsets: Tensor) -> tuple[Candidates, Trained]:
    """The transition of every sample, for the taken action of each branch; ``offsets`` (4,) are the first columns."""
    candidates = Candidates(
        batch.reward[:, None],
        batch.discount[:, None],
        batch.next_observation[:, None],
        batch.next_mask[:, None, :_DIRECTIONS],
    )
    column = batch.action + offsets
    return candidates, Trained(column, torch.zeros_like(column), batch.active, _BRANCHES)


def exposure_candidates(batch: Batch, q: Tensor, offsets: Tensor, orders: bool) -> tuple[Candidates, Trained]:
    """Six exposures of every sample and, with ``orders``, its own transition for the order type and the urgency.

    The exposures are short, hold, long and flat, the first and the third with the preferred size, and the two other
    sizes in the preferred direction. ``q`` (B, 13) are the present values of the state.
    """
    assert batch.exposure_reward is not None
    assert batch.exposure_discount is not None and batch.exposure_observation is not None
    sizes = q[:, _DIRECTIONS : _DIRECTIONS + _SIZES].masked_fill(
        ~batch.mask[:, _DIRECTIONS : _DIRECTIONS + _SIZES], float("-inf")
    )
    size = sizes.argmax(1)
    long = q[:, Direction.LONG] >= q[:, Direction.SHORT]
    others = [(size + step) % _SIZES for step in (1, 2)]
    hold, flat = torch.full_like(size, _HOLD), torch.full_like(size, _FLAT)
    exposure = torch.stack(
        [
            _SHORT_QUARTER - size,
            hold,
            _LONG_QUARTER + size,
            flat,
            *(torch.where(long, _LONG_QUARTER + other, _SHORT_QUARTER - other) for other in others),
        ],
        dim=1,
    )
    rows = torch.arange(len(size), device=size.device)[:, None]
    every = torch.ones_like(batch.mask[:, None, :_DIRECTIONS])
    candidates = Candidates(
        batch.exposure_reward[rows, exposure],
        batch.exposure_discount[rows, exposure],
        batch.exposure_observation[rows, exposure],
        every.expand(-1, exposure.shape[1], -1),
    )
    direction = torch.where(long, int(Direction.LONG), int(Direction.SHORT))
    by_size = [
        torch.where(size == s, direction, torch.where(others[0] == s, _DIRECTIONS, _DIRECTIONS + 1))
        for s in range(_SIZES)
    ]
    columns = torch.arange(_DIRECTIONS + _SIZES, device=size.device).expand(len(size), -1)
    directions = torch.arange(_DIRECTIONS, device=size.device).expand(len(size), -1)
    trained = Trained(
        columns,
        torch.cat([directions, torch.stack(by_size, dim=1)], dim=1),
        torch.cat([every[:, 0], batch.mask[:, _DIRECTIONS : _DIRECTIONS + _SIZES]], dim=1),
        (0,) * _DIRECTIONS + (1,) * _SIZES,
    )
    return _with_taken(candidates, trained, batch, offsets) if orders else (candidates, trained)


def _with_taken(
    candidates: Candidates, trained: Trained, batch: Batch, offsets: Tensor
) -> tuple[Candidates, Trained]:
    """Add the taken order type and urgency, which no exposure varies, with the transition that followed."""
    own, taken = taken_candidates(batch, offsets)
    joined = Candidates(*(torch.cat(pair, dim=1) for pair in zip(candidates, own, strict=True)))
    last = torch.full_like(taken.candidate[:, 2:], candidates.reward.shape[1])
    return joined, Trained(
        torch.cat([trained.column, taken.column[:, 2:]], dim=1),
        torch.cat([trained.candidate, last], dim=1),
        torch.cat([trained.active, taken.active[:, 2:]], dim=1),
        trained.branches + taken.branches[2:],
    )
