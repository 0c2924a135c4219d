"""Uniform replay on the learner's device: a ring over time with one column per environment.

Environments reset themselves in the step that ends an episode (SAME_STEP autoreset). The observation returned
by that step belongs to the next episode, so the ring stores the true next observation (``final_obs`` where
the episode ended) beside each transition and never bridges two episodes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fox_agents.dqn.memory import require_memory

__all__ = ["Batch", "Replay"]


class Batch(NamedTuple):
    """Sampled n-step transitions; ``discount`` is 0 after a termination and gamma^n after a truncation."""

    observation: Tensor
    action: Tensor
    active: Tensor
    reward: Tensor
    discount: Tensor
    next_observation: Tensor
    next_mask: Tensor


class Replay:
    """Ring buffer of transitions, written by all environments at once and sampled with replacement.

    Nothing here reads a value back to the host: the write position and the fill are device tensors, so that a
    captured graph sees them change.

    Parameters
    ----------
    rows : int
        Environment steps kept per environment.
    num_envs, observation_size, branches, actions : int
        Columns, width of an observation, number of branches, and number of actions over all branches.
    device : torch.device
        Where everything lives.

    Raises
    ------
    ConfigError
        When the device has not the memory.
    """

    def __init__(
        self,
        rows: int,
        num_envs: int,
        observation_size: int,
        branches: int,
        actions: int,
        device: torch.device,
    ) -> None:
        self.rows, self.num_envs = rows, num_envs
        shape = (rows, num_envs)
        transition = 8 * observation_size + 9 * branches + actions + 6  # bytes of the rings below
        mend = "lower agent.replay_size, or train.num_envs where it is above it"
        require_memory(rows * num_envs * transition, "the replay", mend, device)

        def ring(*width: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(*shape, *width, dtype=dtype, device=device)

        self._rings = {
            "observation": ring(observation_size, dtype=torch.float32),
            "action": ring(branches, dtype=torch.int64),
            "active": ring(branches, dtype=torch.bool),
            "reward": ring(dtype=torch.float32),
            "terminated": ring(dtype=torch.bool),
            "done": ring(dtype=torch.bool),
            "next_observation": ring(observation_size, dtype=torch.float32),
            "next_mask": ring(actions, dtype=torch.bool),
        }
        self.position = torch.zeros(1, dtype=torch.int64, device=device)  # next row to write
        self.filled = torch.zeros(1, dtype=torch.int64, device=device)  # rows written so far, at most `rows`

    def add(self, **transition: Tensor) -> None:
        """Append one transition of every environment; keys as in the constructor, num_envs rows each."""
        for name, ring in self._rings.items():
            ring.index_copy_(0, self.position, transition[name].unsqueeze(0).to(ring.dtype))
        self.position.add_(1).remainder_(self.rows)
        self.filled.add_(1).clamp_(max=self.rows)

    def sample(self, batch_size: int, n_step: int, gamma: float, generator: torch.Generator) -> Batch:
        """Draw ``batch_size`` n-step transitions uniformly; at least ``n_step`` rows must have been added.

        The sum of rewards stops at the end of the episode; the bootstrap observation is the one after the
        last reward taken.
        """
        device = self.position.device
        uniform = torch.rand(2, batch_size, dtype=torch.float64, device=device, generator=generator)
        oldest = self.position - self.filled
        start = oldest + (uniform[0] * (self.filled - (n_step - 1))).long()
        env = (uniform[1] * self.num_envs).long()
        first = last = start.remainder(self.rows)
        reward = torch.zeros(batch_size, device=device)
        weight = torch.ones(batch_size, device=device)  # gamma^k while the episode lasts
        alive = torch.ones(batch_size, dtype=torch.bool, device=device)
        for k in range(n_step):
            row = (start + k).remainder(self.rows)
            last = torch.where(alive, row, last)
            reward = reward + torch.where(alive, weight * self._rings["reward"][row, env], 0.0)
            weight = torch.where(alive, weight * gamma, weight)
            alive = alive & ~self._rings["done"][row, env]
        pick = self._rings
        return Batch(
            observation=pick["observation"][first, env],
            action=pick["action"][first, env],
            active=pick["active"][first, env],
            reward=reward,
            discount=torch.where(pick["terminated"][last, env], 0.0, weight),
            next_observation=pick["next_observation"][last, env],
            next_mask=pick["next_mask"][last, env],
        )

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of the buffer by name, for a checkpoint; copying into them restores the buffer."""
        return {**self._rings, "position": self.position, "filled": self.filled}
