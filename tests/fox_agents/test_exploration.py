"""How the branching agent explores, and what its network may not see."""

import pytest

torch = pytest.importorskip("torch")

from fox_agents.config import BDQConfig  # noqa: E402
from fox_agents.dqn.agent import BDQAgent  # noqa: E402
from fox_env import _layout  # noqa: E402

COUNT = 4_000
ALL = torch.ones(COUNT, 13, dtype=torch.bool)


def agent() -> BDQAgent:
    config = BDQConfig(hidden=16, atoms=11, epsilon_start=1.0, epsilon_end=0.1, epsilon_steps=1_000)
    return BDQAgent(config=config)


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
    learner, masks = agent(), ALL.clone()
    masks[:, [3, 4, 12]] = False  # Flat, the quarter size, and aggressive urgency
    actions = learner.act(observations(), deterministic=False, masks=masks)
    assert shares(actions, 0, 4)[3] == 0 and shares(actions, 1, 3)[0] == 0 and shares(actions, 3, 3)[2] == 0
    assert (shares(actions, 0, 4)[:3] > 0.25).all() and (shares(actions, 1, 3)[1:] > 0.4).all()


def test_what_counts_up_over_an_episode_does_not_reach_the_network() -> None:
    learner = agent()
    seen = observations()[:2].clone()
    portfolio, context = _layout.Observation.PORTFOLIO, _layout.Observation.CONTEXT
    for entry in (
        portfolio + _layout.Portfolio.EQUITY_RATIO,
        portfolio + _layout.Portfolio.COSTS_PAID,
        portfolio + _layout.Portfolio.TRADES,
        context + _layout.Context.EPISODE_PROGRESS,
    ):
        seen[1, entry] += 3.0
    values = learner.learner.q_values(seen)
    assert torch.equal(values[0], values[1])
    seen[1, portfolio + _layout.Portfolio.DRAWDOWN] -= 0.3
    assert not torch.equal(values[0], learner.learner.q_values(seen)[1])
