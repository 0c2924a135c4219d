"""The gradient step against known answers: bandits, double Q, masks, Adam, bad gradients."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from fox_agents.config import BDQConfig  # noqa: E402
from fox_agents.dqn.c51 import cross_entropy  # noqa: E402
from fox_agents.dqn.learner import Learner  # noqa: E402
from fox_agents.dqn.network import taken  # noqa: E402
from fox_agents.dqn.replay import Batch  # noqa: E402

CONFIG = BDQConfig(hidden=32, atoms=21, v_min=-2.0, v_max=2.0, lr=3e-3, target_rate=0.05)
PAYOFF = torch.tensor([-1.0, 0.25, 1.0, 0.5])  # by direction
GAMMA = 0.9


def learner(config: BDQConfig = CONFIG) -> Learner:
    return Learner(config, torch.device("cpu"))


def state(index: int, count: int) -> Tensor:
    observation = torch.zeros(count, 128)
    observation[:, index] = 1.0
    return observation


def batch(count: int, generator: "torch.Generator", *, active: tuple[bool, ...] = (True,) * 4) -> Batch:
    """Half the rows are in state 0, which pays nothing and leads to state 1, where the direction pays."""
    actions = torch.stack([torch.randint(n, (count,), generator=generator) for n in (4, 3, 3, 3)], dim=1)
    first = torch.arange(count) < count // 2
    return Batch(
        observation=torch.where(first[:, None], state(0, count), state(1, count)),
        action=actions,
        active=torch.tensor(active).expand(count, 4),
        reward=torch.where(first, 0.0, PAYOFF[actions[:, 0]]),
        discount=torch.where(first, GAMMA, 0.0),
        next_observation=state(1, count),
        next_mask=torch.ones(count, 13, dtype=torch.bool),
    )


def train(agent: Learner, updates: int, **options: tuple[bool, ...]) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    for _ in range(updates):
        agent.update(batch(128, generator, **options))
    return agent.q_values(torch.cat([state(0, 1), state(1, 1)])).detach()


def test_a_two_step_bandit_has_its_known_values() -> None:
    q = train(learner(), 600)
    torch.testing.assert_close(q[1, :4], PAYOFF, atol=0.05, rtol=0.0)
    torch.testing.assert_close(q[0, :4], torch.full((4,), GAMMA * 1.0), atol=0.08, rtol=0.0)
    # The other branches do not matter in state 1: each action is worth the average direction.
    torch.testing.assert_close(q[1, 4:], torch.full((9,), float(PAYOFF.mean())), atol=0.12, rtol=0.0)


def test_a_branch_without_effect_neither_learns_nor_disturbs_the_bootstrap() -> None:
    """Only the direction has an effect; a bootstrap that averaged in untrained branches misses 0.9."""
    q = train(learner(), 600, active=(True, False, False, False))
    torch.testing.assert_close(q[0, :4], torch.full((4,), GAMMA * 1.0), atol=0.08, rtol=0.0)


def test_no_gradient_reaches_a_branch_that_had_no_effect() -> None:
    agent = learner()
    agent.update(batch(64, torch.Generator().manual_seed(0), active=(True, False, True, True)))
    gradient = agent.network.heads.weight.grad
    assert gradient is not None
    gradient = gradient[: 13 * CONFIG.atoms]  # the advantages
    size = [part.abs().sum().item() for part in gradient.split([n * CONFIG.atoms for n in (4, 3, 3, 3)])]
    assert size[1] == 0.0 and min(size[0], size[2], size[3]) > 0.0


def with_values(network: "torch.nn.Module", favourite: list[int], sharp: float) -> None:
    """Let every state's distribution of direction a peak at atom favourite[a]."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        bias = network.heads.bias.view(13 + 4, -1)
        for action, atom in enumerate(favourite):
            bias[action, atom] = sharp


def test_double_q_selects_online_and_evaluates_with_the_target() -> None:
    agent = learner()
    with_values(agent.network, [0, 5, 20, 10], 80.0)  # online: direction 2 is best
    with_values(agent.target, [20, 10, 15, 0], 80.0)  # target: direction 0 is, and 2 is worth atom 15 = +1
    one = batch(1, torch.Generator())._replace(reward=torch.tensor([0.1]), discount=torch.tensor([0.5]))
    assert (agent.targets(one) @ agent.support).item() == pytest.approx(0.1 + 0.5 * 1.0, abs=1e-4)


def test_the_target_chooses_among_distinct_actions_only() -> None:
    agent = learner()
    for network in (agent.network, agent.target):
        with_values(network, [0, 5, 20, 15], 80.0)
    mask = torch.ones(1, 13, dtype=torch.bool)
    mask[0, 2] = False
    one = batch(1, torch.Generator())._replace(reward=torch.zeros(1), discount=torch.ones(1), next_mask=mask)
    assert (agent.targets(one) @ agent.support).item() == pytest.approx(1.0, abs=1e-4)  # atom 15, not atom 20


@pytest.mark.parametrize("clip", [10.0, 0.05])
def test_the_optimiser_is_clipped_adam(clip: float) -> None:
    config = BDQConfig(hidden=16, atoms=11, lr=1e-2, grad_clip=clip, target_rate=0.1)
    ours = learner(config)
    theirs = copy.deepcopy(ours.network)
    slow = copy.deepcopy(theirs)
    adam = torch.optim.Adam(theirs.parameters(), lr=config.lr, eps=1e-5)
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        data = batch(32, generator)
        target = ours.targets(data)
        logits = taken(theirs(data.observation), data.action, ours.offsets)
        adam.zero_grad()
        (cross_entropy(logits, target[:, None, :]) * data.active).mean().backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        adam.step()
        with torch.no_grad():
            for s, p in zip(slow.parameters(), theirs.parameters(), strict=True):
                s.lerp_(p, config.target_rate)
        ours.update(data)
    for mine, other in ((ours.network, theirs), (ours.target, slow)):
        for a, b in zip(mine.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_a_gradient_that_is_not_finite_changes_nothing_and_is_remembered() -> None:
    agent = learner()
    generator = torch.Generator().manual_seed(0)
    agent.update(batch(16, generator))
    before = agent.parameters.clone()
    bad = batch(16, generator)
    bad.observation[0, 0] = float("nan")
    agent.update(bad)
    agent.update(batch(16, generator))
    assert not agent.finite
    assert torch.equal(agent.parameters, before)


def test_the_same_seed_gives_the_same_network_and_leaves_torchs_generator_alone() -> None:
    torch.manual_seed(5)
    a = learner()
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), drawn)
    assert torch.equal(a.parameters, learner().parameters)
    assert not torch.equal(a.parameters, learner(BDQConfig(hidden=32, atoms=21, seed=1)).parameters)
