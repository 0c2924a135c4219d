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
        self.value = nn.Linear(hidden, len(self.branches) * atoms)
        self.advantage = nn.Linear(hidden, sum(self.branches) * atoms)

    def forward(self, observation: Tensor) -> Tensor:
        """(B, observation_size) float32 to logits (B, sum(branches), atoms)."""
        h = self.trunk(observation * self.seen)
        value = self.value(h).view(-1, len(self.branches), 1, self.atoms)
        advantage = self.advantage(h).view(-1, sum(self.branches), self.atoms).split(self.branches, dim=1)
        heads = [value[:, b] + a - a.mean(dim=1, keepdim=True) for b, a in enumerate(advantage)]
        return torch.cat(heads, dim=1)


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
