"""The network: a two-layer trunk and dueling C51 heads, one per action branch.

Sources: Tavakoli et al., "Action Branching Architectures" (2018); Wang et al., "Dueling Network
Architectures" (2016); Bellemare et al. (2017) for the categorical heads.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["BranchingC51", "greedy", "taken"]


class BranchingC51(nn.Module):
    """Logits of the return distribution of every action of every branch.

    Per branch, ``logits = value + advantage - mean(advantage over the branch's own actions)``.

    Parameters
    ----------
    observation_size : int
        Width of the observation.
    branches : Sequence[int]
        Number of actions of each branch.
    atoms : int
        Atoms of each distribution.
    hidden : int
        Width of both trunk layers.
    ignored : Sequence[int]
        Entries of the observation that the network does not see.
    """

    def __init__(
        self,
        observation_size: int,
        branches: Sequence[int],
        atoms: int,
        hidden: int,
        ignored: Sequence[int] = (),
    ) -> None:
        super().__init__()
        seen = torch.ones(observation_size)
        seen[list(ignored)] = 0.0
        self.seen: Tensor
        self.register_buffer("seen", seen, persistent=False)
        self.branches = tuple(branches)
        self.atoms = atoms
        self.trunk = nn.Sequential(
            nn.Linear(observation_size, hidden),
            nn.LayerNorm(hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.LayerNorm(hidden),
            nn.ReLU(),
        )
        self.heads = nn.Linear(hidden, (sum(self.branches) + len(self.branches)) * atoms)
        self.combine: Tensor
        self.register_buffer("combine", _dueling(self.branches), persistent=False)

    def forward(self, observation: Tensor) -> Tensor:
        """(B, observation_size) float32 to logits (B, sum(branches), atoms)."""
        h = self.trunk(observation * self.seen)
        heads = self.heads(h).view(-1, self.combine.shape[1], self.atoms)  # advantages, then values
        return torch.matmul(self.combine, heads)


def _dueling(branches: Sequence[int]) -> Tensor:
    """The dueling combination as one matrix: (actions, actions + branches), applied to advantages and values.

    One product instead of a slice, a mean and a sum a branch: a small network spends its time on starting kernels.
    """
    owner = torch.arange(len(branches)).repeat_interleave(
        torch.tensor(list(branches))
    )  # branch of each action
    values = torch.nn.functional.one_hot(owner).float()
    same_branch = values @ values.T
    centred = torch.eye(sum(branches)) - same_branch / same_branch.sum(dim=1, keepdim=True)
    return torch.cat([centred, values], dim=1)


def greedy(scores: Tensor, masks: Tensor, branches: Sequence[int]) -> Tensor:
    """Best allowed action of each branch: (B, sum(branches)) scores and bool masks to (B, branches) int64."""
    allowed = scores.masked_fill(~masks, float("-inf"))
    return torch.stack([part.argmax(dim=1) for part in torch.split(allowed, list(branches), dim=1)], dim=1)


def taken(values: Tensor, actions: Tensor, offsets: Tensor) -> Tensor:
    """Rows of ``values`` (B, sum(branches), ...) picked by ``actions`` (B, branches): (B, branches, ...).

    ``offsets`` (branches,) int64 is the index of each branch's first action.
    """
    batch = torch.arange(values.shape[0], device=values.device)[:, None]
    return values[batch, actions + offsets]
