"""How the branching agent's training policy differs from its greedy one: schedule, masks, order types, noise."""

from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from small_agents import BRANCHING  # noqa: E402

from fox_agents.dqn.agent import BDQAgent  # noqa: E402
from fox_agents.dqn.noise import ROWS_PER_GROUP  # noqa: E402
from fox_env import _layout  # noqa: E402
from fox_env._layout import OrderType, Urgency  # noqa: E402
from fox_env.errors import ConfigError  # noqa: E402

COUNT = 4_000
ALL = torch.ones(COUNT, 13, dtype=torch.bool)


def agent(**changes: Any) -> BDQAgent:
    settings = {**BRANCHING, "exploration": "epsilon_greedy", "noisy": False, "schedule_steps": 1_000}
    return BDQAgent(config={**settings, "epsilon_start": 1.0, "epsilon_end": 0.1, **changes})


def observations() -> "torch.Tensor":
    return torch.randn(1, 128, generator=torch.Generator().manual_seed(0)).expand(COUNT, 128)


def shares(actions: "torch.Tensor", branch: int, width: int) -> "torch.Tensor":
    return torch.bincount(actions[:, branch], minlength=width) / COUNT


@pytest.mark.parametrize(("steps", "epsilon"), [(0.0, 1.0), (500.0, 0.55), (1_000.0, 0.1), (5_000.0, 0.1)])
def test_the_share_of_random_choices_follows_the_schedule(steps: float, epsilon: float) -> None:
    """Every branch takes its greedy action with 1 - epsilon + epsilon / width, any other with epsilon / width."""
    learner = agent()
    learner._step_counter.fill_(steps)
    best = learner.act(observations(), deterministic=True, masks=ALL)[0]
    actions = learner.act(observations(), deterministic=False, masks=ALL)
    for branch, width in enumerate(_layout.ACTION_BRANCHES):
        for action, share in enumerate(shares(actions, branch, width)):
            wanted = epsilon / width + (1.0 - epsilon) * (action == int(best[branch]))
            assert abs(float(share) - wanted) < 4 * (0.25 / COUNT) ** 0.5


def test_random_choices_obey_the_masks() -> None:
    masks = ALL.clone()
    masks[:, [3, 4, 12]] = False  # Flat, the quarter size, and aggressive urgency
    actions = agent().act(observations(), deterministic=False, masks=masks)
    assert shares(actions, 0, 4)[3] == 0 and shares(actions, 1, 3)[0] == 0 and shares(actions, 3, 3)[2] == 0
    assert (shares(actions, 0, 4)[:3] > 0.25).all() and (shares(actions, 1, 3)[1:] > 0.4).all()


@pytest.mark.parametrize("deterministic", [True, False])
def test_market_orders_alone_are_chosen_when_so_configured(deterministic: bool) -> None:
    varied = torch.randn(COUNT, 128, generator=torch.Generator().manual_seed(1))
    limited = agent(orders="market").act(varied, deterministic=deterministic, masks=ALL)
    assert (limited[:, 2] == OrderType.MARKET).all() and (limited[:, 3] == Urgency.NORMAL).all()
    if not deterministic:
        assert set(limited[:, 0].tolist()) == {0, 1, 2, 3} and set(limited[:, 1].tolist()) == {0, 1, 2}
        free = agent().act(varied, deterministic=False, masks=ALL)
        assert set(free[:, 2].tolist()) == {0, 1, 2} and set(free[:, 3].tolist()) == {0, 1, 2}


@pytest.mark.parametrize("branches", ["exploration", "exploration_others"])
@pytest.mark.parametrize("ensemble", ["off", "measure"])
def test_a_rule_that_reads_an_untrained_ensemble_is_refused(branches: str, ensemble: str) -> None:
    with pytest.raises(ConfigError, match=rf'agent\.{branches} = .thompson. .*set agent\.ensemble="on"'):
        agent(ensemble=ensemble, **{branches: "thompson"})


def noisy_agent() -> BDQAgent:
    """Greedy in everything, on values whose learned noise is large."""
    greedy = {"exploration": "greedy", "exploration_others": "greedy"}
    return agent(noisy=True, sigma=20.0, epsilon_start=0.0, epsilon_end=0.0, **greedy)


def test_acting_noise_differs_between_steps_and_between_groups_of_environments() -> None:
    learner = noisy_agent()
    steps = torch.stack([learner.act(observations(), deterministic=False, masks=ALL) for _ in range(5)])
    assert all(not torch.equal(a, b) for a, b in pairwise(steps))
    full = COUNT // ROWS_PER_GROUP * ROWS_PER_GROUP
    groups = steps[:, :full].unflatten(1, (-1, ROWS_PER_GROUP))
    assert (groups == groups[:, :, :1]).all()
    assert (groups[:, :, 0] != groups[:, :1, 0]).any(-1).float().mean() > 0.5


def test_evaluation_is_free_of_noise_before_between_and_after() -> None:
    learner = noisy_agent()
    first = learner.act(observations(), deterministic=True, masks=ALL)
    learner.act(observations(), deterministic=False, masks=ALL)
    assert torch.equal(learner.act(observations(), deterministic=True, masks=ALL), first)
    assert (first == first[0]).all()
