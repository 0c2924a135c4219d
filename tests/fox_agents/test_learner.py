"""The update of the branching agent against known answers: bandits, double Q, masks, branches without effect."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from small_batches import (  # noqa: E402
    EXPOSURE_ACTIONS,
    PROGRESS,
    START,
    figures,
    gradients,
    learner,
    random_actions,
    random_batch,
    rows,
    values,
)
from torch import Tensor  # noqa: E402

from fox_agents.dqn.learner import BDQLearner  # noqa: E402
from fox_agents.dqn.replay import EXPOSURES, Batch  # noqa: E402
from fox_env._layout import Direction, Magnitude  # noqa: E402

PAYOFF = torch.tensor([-1.0, 0.25, 1.0, 0.5])  # by direction
SIZE = {Magnitude.QUARTER: 0.25, Magnitude.HALF: 0.5, Magnitude.FULL: 1.0}
GAMMA = 0.9
BANDIT: dict[str, Any] = {
    "hidden": 32, "atoms": 21, "quantiles": 8, "v_min": -2.0, "v_max": 2.0, "lr": 1e-2, "lr_end": 3e-4,
    "target_rate": 0.1, "sigma": 0.1, "gamma": GAMMA,
}  # fmt: skip
PLAIN: dict[str, Any] = {
    **BANDIT, "variable_selection": False, "gated": False, "mixture": False, "noisy": False,
    **dict.fromkeys(("ensemble", "repulsion", "auxiliary", "confidence", "balance"), "off"),
}  # fmt: skip


def state(index: int, count: int) -> Tensor:
    observation = torch.zeros(count, 128)
    observation[:, index] = 1.0
    return observation


def bandit(count: int, generator: "torch.Generator", active: tuple[bool, ...] = (True,) * 4) -> Batch:
    """Half the rows are in state 0, which pays nothing and leads to state 1, where the direction pays.

    As counterfactuals, state 1 pays the direction times the size of the position, and holding and flat as they are.
    """
    action = random_actions(count, generator)
    first = torch.arange(count) < count // 2
    exposures = torch.tensor(
        [float(PAYOFF[d]) * (SIZE[s] if s is not None else 1.0) for d, s in EXPOSURE_ACTIONS]
    )
    return random_batch(count)._replace(
        observation=torch.where(first[:, None], state(0, count), state(1, count)),
        action=action,
        active=torch.tensor(active).expand(count, 4),
        reward=torch.where(first, 0.0, PAYOFF[action[:, 0]]),
        discount=torch.where(first, GAMMA, 0.0),
        next_observation=state(1, count),
        mask=torch.ones(count, 13, dtype=torch.bool),
        next_mask=torch.ones(count, 13, dtype=torch.bool),
        weight=torch.ones(count),
        exposure_reward=torch.where(first[:, None], 0.0, exposures),
        exposure_discount=torch.where(first, GAMMA, 0.0)[:, None].expand(-1, EXPOSURES),
        exposure_observation=state(1, count)[:, None].expand(-1, EXPOSURES, -1),
    )


def train(made: BDQLearner, updates: int = 250, **options: Any) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    for update in range(updates):
        made.update([bandit(64, generator, **options)], torch.tensor(update / updates))
    return values(made, torch.cat([state(0, 1), state(1, 1)]))


@pytest.mark.parametrize("c51", ["on", "measure"])
def test_a_two_step_bandit_has_its_known_values(c51: str) -> None:
    q = train(learner(**(BANDIT if c51 == "on" else PLAIN), c51=c51))
    torch.testing.assert_close(q[1, :4], PAYOFF, atol=0.06, rtol=0.0)
    torch.testing.assert_close(q[0, :4], torch.full((4,), GAMMA * 1.0), atol=0.08, rtol=0.0)
    # The other branches do not matter in state 1: each action is worth the average direction.
    torch.testing.assert_close(q[1, 4:], torch.full((9,), float(PAYOFF.mean())), atol=0.12, rtol=0.0)


def test_a_branch_without_effect_neither_learns_nor_disturbs_the_bootstrap() -> None:
    """Only the direction has an effect; a bootstrap that averaged in untrained branches misses 0.9."""
    q = train(learner(**PLAIN), active=(True, False, False, False))
    torch.testing.assert_close(q[0, :4], torch.full((4,), GAMMA * 1.0), atol=0.08, rtol=0.0)


def test_with_full_information_a_size_is_worth_what_it_pays_in_the_preferred_direction() -> None:
    made = learner(**PLAIN, full_information=True, n_step=1, orders="market")
    q = train(made)
    torch.testing.assert_close(q[1, :4], PAYOFF, atol=0.06, rtol=0.0)  # at the preferred size, the full one
    torch.testing.assert_close(q[1, 4:7], torch.tensor([0.25, 0.5, 1.0]), atol=0.06, rtol=0.0)
    torch.testing.assert_close(q[0, :7], torch.full((7,), GAMMA * 1.0), atol=0.08, rtol=0.0)
    allowed = torch.ones(2, 13, dtype=torch.bool)
    chosen = made.greedy(torch.cat([state(0, 1), state(1, 1)]), allowed)[1]
    assert chosen[:2].tolist() == [Direction.LONG, Magnitude.FULL]


def test_no_gradient_reaches_a_branch_that_had_no_effect() -> None:
    made = learner()
    made.update([bandit(64, torch.Generator().manual_seed(0), active=(True, False, True, True))], START)
    for layer, width in (("c51", 11), ("quantile", 4)):
        advantages = gradients(made)[f"{layer}.weight"][: 13 * width].split([n * width for n in (4, 3, 3, 3)])
        size = [part.abs().sum().item() for part in advantages]
        assert size[1] == 0.0 and min(size[0], size[2], size[3]) > 0.0


def with_values(network: "torch.nn.Module", favourite: list[int], sharp: float = 80.0) -> None:
    """Give direction a of every state the value of atom favourite[a], in both kinds of distribution."""
    atoms = torch.linspace(-2.0, 2.0, 21)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        categorical = network.c51.bias.view(13 + 4, -1)
        quantiles = network.quantile.bias.view(13 + 4, -1)
        for action, atom in enumerate(favourite):
            categorical[action, atom] = sharp
            quantiles[action] = atoms[atom]
        quantiles[13] = atoms[favourite].mean()


def target(made: BDQLearner, batch: Batch) -> float:
    figures(made) if made.statistics[-1] > 0 else None
    made.update([batch], START)
    return figures(made)["target"]


def one(reward: float, discount: float) -> Batch:
    single = bandit(1, torch.Generator())
    return single._replace(reward=torch.tensor([reward]), discount=torch.tensor([discount]))


def test_double_q_selects_online_and_evaluates_with_the_target() -> None:
    made = learner(**BANDIT)
    with_values(made.network, [0, 5, 20, 10])  # online: direction 2 is best
    with_values(made.target, [20, 10, 15, 0])  # target: direction 0 is, and 2 is worth atom 15 = +1
    assert target(made, one(0.1, 0.5)) == pytest.approx(0.1 + 0.5 * 1.0, abs=1e-4)


def test_the_target_chooses_among_distinct_actions_only() -> None:
    made = learner(**BANDIT)
    for network in (made.network, made.target):
        with_values(network, [0, 5, 20, 15])
    mask = torch.ones(1, 13, dtype=torch.bool)
    mask[0, Direction.LONG] = False
    assert target(made, one(0.0, 1.0)._replace(next_mask=mask)) == pytest.approx(1.0, abs=1e-4)


def test_rewards_are_learned_in_value_scales() -> None:
    made = learner(**{**BANDIT, "value_scale": 4.0})
    with_values(made.network, [0, 5, 20, 10])
    with_values(made.target, [20, 10, 15, 0])
    assert target(made, one(2.0, 0.5)) == pytest.approx(2.0 / 4.0 + 0.5 * 1.0, abs=1e-4)


def test_losses_count_more_and_gains_less_by_the_share_of_loss_aversion() -> None:
    made = learner(**BANDIT, loss_aversion=0.25)
    for reward, wanted in ((1.0, 0.75), (-1.0, -1.25), (0.0, 0.0)):
        assert target(made, one(reward, 0.0)) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("aversion", [0.0, 0.25])
@pytest.mark.parametrize("exposures", [False, True])
def test_a_fair_coin_is_worth_less_than_nothing_by_the_share_of_its_stake(
    aversion: float, exposures: bool
) -> None:
    full: dict[str, Any] = {"full_information": True, "n_step": 1, "orders": "market"} if exposures else {}
    made, generator = learner(**PLAIN, **full, loss_aversion=aversion), torch.Generator().manual_seed(0)
    coin = torch.where(torch.arange(64) % 2 == 0, 0.5, -0.5)
    for update in range(120):
        batch = bandit(64, generator)
        alike = batch._replace(
            observation=state(0, 64),
            reward=coin,
            discount=torch.zeros(64),
            exposure_reward=coin[:, None].expand(-1, EXPOSURES),
            exposure_discount=torch.zeros(64, EXPOSURES),
        )
        made.update([alike], torch.tensor(update / 120))
    found = values(made, state(0, 1))[0, :4]
    torch.testing.assert_close(found, torch.full((4,), -aversion * 0.5), atol=0.06, rtol=0.0)


@pytest.mark.parametrize("exposures", [False, True])
def test_the_value_scale_is_the_deviation_of_a_discounted_sum(exposures: bool) -> None:
    made = learner(value_scale=None, gamma=0.9, n_step=1, full_information=exposures)
    batch = random_batch(512)._replace(
        reward=torch.full((512,), 3.0), exposure_reward=torch.full((512, 8), 5.0)
    )
    made.prepare(batch if exposures else batch._replace(exposure_reward=None))
    wanted = (5.0 if exposures else 3.0) / (1.0 - 0.9**2) ** 0.5
    assert made.bus.view("value_scale").item() == pytest.approx(wanted, rel=1e-6)


def test_a_given_value_scale_is_kept_and_rewards_of_zero_do_not_make_it_zero() -> None:
    given, measured = learner(value_scale=7.0), learner(value_scale=None)
    for made in (given, measured):
        made.prepare(random_batch()._replace(reward=torch.zeros(64), exposure_reward=None))
    assert given.bus.view("value_scale").item() == 7.0 and measured.bus.view("value_scale").item() > 0.0


def test_learning_does_not_depend_on_the_unit_of_the_reward() -> None:
    """A power of two changes no mantissa, so that the weights are equal to the bit."""
    weights = []
    for unit in (1.0, 1024.0):
        made = learner(value_scale=None)
        batch = random_batch()._replace(exposure_reward=None)
        batch = batch._replace(reward=unit * batch.reward)
        made.prepare(batch)
        for _ in range(3):
            made.update([batch], PROGRESS)
        weights.append(made.optimiser.parameters)
    assert torch.equal(*weights)


def test_the_step_size_follows_half_a_cosine() -> None:
    made = learner(lr=1e-2, lr_end=1e-3)
    for progress, expected in ((0.0, 1e-2), (0.5, 5.5e-3), (1.0, 1e-3)):
        made.update([random_batch()], torch.tensor(progress))
        assert made.bus.view("lr").item() == pytest.approx(expected)


def test_an_importance_weight_scales_its_samples_gradient() -> None:
    """A sample that weighs nothing is as good as left out."""
    batch = random_batch(32)
    batch.weight[:16] = 0.0
    gradients = []
    for part in (batch, rows(batch, slice(16, None))):
        made = learner(balance="off")
        made.update([part], START)
        gradients.append(made.optimiser.gradient)
    torch.testing.assert_close(2.0 * gradients[0], gradients[1], atol=1e-7, rtol=1e-4)
    assert gradients[1].abs().max() > 0.0
