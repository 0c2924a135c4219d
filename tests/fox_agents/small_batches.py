"""Batches made by hand for the learner's tests, and small learners to give them to."""

from collections.abc import Sequence
from typing import Any

import torch
from small_agents import BRANCHING
from torch import Tensor

from fox_agents.dqn.config import BDQConfig
from fox_agents.dqn.learner import BDQLearner
from fox_agents.dqn.replay import EXPOSURES, Batch
from fox_env._layout import ACTION_BRANCHES, Direction, Magnitude

ACTIONS = sum(ACTION_BRANCHES)
START, PROGRESS = torch.zeros(()), torch.full((), 0.25)
SIZES = (Magnitude.FULL, Magnitude.HALF, Magnitude.QUARTER)
EXPOSURE_ACTIONS: list[tuple[Direction, Magnitude | None]] = [
    *((Direction.SHORT, size) for size in SIZES),
    (Direction.HOLD, None),
    *((Direction.LONG, size) for size in reversed(SIZES)),
    (Direction.FLAT, None),
]
"""Direction and size of the eight exposures, in the environment's order."""


def config(**changes: Any) -> BDQConfig:
    """A small branching agent with noise and priorities, values in units of the reward, and no clipping."""
    small = {**BRANCHING, "batch_size": 64, "value_scale": 1.0, "grad_clip": 1e9}
    return BDQConfig(**{**small, **changes})


def learner(**changes: Any) -> BDQLearner:
    return BDQLearner(config(**changes), torch.device("cpu"))


def full_information(**changes: Any) -> BDQLearner:
    return learner(full_information=True, n_step=1, **changes)


def values(made: BDQLearner, observation: Tensor) -> Tensor:
    """Expected value of every action, (N, 13), by the mean weights."""
    with torch.no_grad():
        return made._expected(made.network(observation), made._supports())


def figures(made: BDQLearner) -> dict[str, float]:
    """Means of the learner's statistics since the last call."""
    *sums, updates = made.statistics.tolist()
    made.statistics.zero_()
    return {name: total / updates for name, total in zip(made.STATISTICS, sums, strict=True)}


def gradients(made: BDQLearner) -> dict[str, Tensor]:
    """Gradient of every parameter in the latest update; it lies in the optimiser as the parameters do."""
    weights = made.optimiser.parameters
    kept = weights.clone()
    weights.copy_(made.optimiser.gradient)
    found = {name: parameter.detach().clone() for name, parameter in made.network.named_parameters()}
    weights.copy_(kept)
    return found


def rows(batch: Batch, index: slice | Tensor) -> Batch:
    return Batch._make(None if field is None else field[index] for field in batch)


def joined(batches: Sequence[Batch]) -> Batch:
    return Batch._make(None if field[0] is None else torch.cat(field) for field in zip(*batches, strict=True))


def random_actions(count: int, generator: torch.Generator) -> Tensor:
    return torch.stack([torch.randint(n, (count,), generator=generator) for n in ACTION_BRANCHES], dim=1)


def random_batch(count: int = 64, seed: int = 0) -> Batch:
    """Everything at random: two thirds of the branches active, a fifth ended, masks, weights, exposures."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(count, *shape, generator=generator)

    def chance(share: float, *shape: int) -> Tensor:
        return torch.rand(count, *shape, generator=generator) < share

    action = random_actions(count, generator)
    mask, next_mask = chance(0.7, ACTIONS), chance(0.7, ACTIONS)
    for first, width in zip((0, 4, 7, 10), ACTION_BRANCHES, strict=True):
        for which in (mask, next_mask):
            which[:, first + width // 2] = True  # holding always, and one action of every branch
    active = chance(0.67, 4)
    active[:, 0] = True
    return Batch(
        observation=normal(128),
        action=action,
        active=active,
        reward=normal(),
        discount=0.9 * (~chance(0.2)).float(),
        next_observation=normal(128),
        mask=mask,
        next_mask=next_mask,
        weight=0.2 + 0.8 * torch.rand(count, generator=generator),
        slot=torch.arange(count),
        stamp=torch.zeros(count, dtype=torch.int32),
        future_move=normal(),
        future_known=chance(0.8),
        exposure_reward=normal(EXPOSURES),
        exposure_discount=0.9 * (~chance(0.2, EXPOSURES)).float(),
        exposure_observation=normal(EXPOSURES, 128),
    )
