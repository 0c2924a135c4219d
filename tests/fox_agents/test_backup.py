"""Which transitions train which actions, and toward what: against plain loops, and never chosen by rewards."""

import math

import pytest

torch = pytest.importorskip("torch")

from small_batches import EXPOSURE_ACTIONS, learner, random_batch, values  # noqa: E402
from torch import Tensor  # noqa: E402

from fox_agents.dqn.backup import Candidates, Trained, exposure_candidates, taken_candidates  # noqa: E402
from fox_agents.dqn.branching import Following  # noqa: E402
from fox_agents.dqn.c51 import support  # noqa: E402
from fox_agents.dqn.objective import target_of  # noqa: E402
from fox_agents.dqn.replay import Batch  # noqa: E402
from fox_agents.dqn.signals import SignalBus  # noqa: E402
from fox_env._layout import Direction, Magnitude  # noqa: E402

COUNT = 200
OFFSETS = torch.tensor([0, 4, 7, 10])
ORDER_COLUMNS, URGENCY_COLUMNS = range(7, 10), range(10, 13)


def some_values(seed: int = 0) -> Tensor:
    return torch.randn(COUNT, 13, generator=torch.Generator().manual_seed(seed))


def exposure_of(direction: Direction, size: Magnitude) -> int:
    """Place of a position among the eight exposures."""
    wanted = (direction, None if direction in (Direction.HOLD, Direction.FLAT) else size)
    return EXPOSURE_ACTIONS.index(wanted)


def preferred(batch: Batch, q: Tensor, row: int) -> tuple[Direction, Magnitude]:
    """The better of long and short, and the best size that is distinct."""
    long = q[row, Direction.LONG] >= q[row, Direction.SHORT]
    sizes = [size for size in Magnitude if batch.mask[row, 4 + size]]
    return Direction.LONG if long else Direction.SHORT, max(sizes, key=lambda size: float(q[row, 4 + size]))


def by_column(trained: Trained, row: int) -> dict[int, tuple[int, bool]]:
    """Candidate and activity of each trained action."""
    values = (part[row].tolist() for part in (trained.column, trained.candidate, trained.active))
    return {column: (candidate, active) for column, candidate, active in zip(*values, strict=True)}


@pytest.mark.parametrize("orders", [True, False])
def test_every_direction_and_size_is_trained_on_its_own_exposure(orders: bool) -> None:
    batch, q = random_batch(COUNT), some_values()
    assert batch.exposure_reward is not None and batch.exposure_observation is not None
    assert batch.exposure_discount is not None
    candidates, trained = exposure_candidates(batch, q, OFFSETS, orders)
    for row in range(COUNT):
        direction, size = preferred(batch, q, row)
        found = by_column(trained, row)
        wanted = {int(d): exposure_of(d, size) for d in Direction}
        wanted |= {4 + int(s): exposure_of(direction, s) for s in Magnitude}
        assert set(found) - {*ORDER_COLUMNS, *URGENCY_COLUMNS} == set(wanted)
        for column, exposure in wanted.items():
            candidate, active = found[column]
            assert active == (column < 4 or bool(batch.mask[row, column]))
            assert candidates.reward[row, candidate] == batch.exposure_reward[row, exposure]
            assert candidates.discount[row, candidate] == batch.exposure_discount[row, exposure]
            assert torch.equal(
                candidates.observation[row, candidate], batch.exposure_observation[row, exposure]
            )
            assert candidates.mask[row, candidate].all()


def test_order_type_and_urgency_are_trained_on_what_followed_the_taken_ones() -> None:
    batch, q = random_batch(COUNT), some_values()
    candidates, trained = exposure_candidates(batch, q, OFFSETS, True)
    for row in range(COUNT):
        found = by_column(trained, row)
        own = {c: found[c] for c in found if c in ORDER_COLUMNS or c in URGENCY_COLUMNS}
        assert set(own) == {7 + int(batch.action[row, 2]), 10 + int(batch.action[row, 3])}
        for column, (candidate, active) in own.items():
            assert active == bool(batch.active[row, 2 if column in ORDER_COLUMNS else 3])
            assert candidates.reward[row, candidate] == batch.reward[row]
            assert candidates.discount[row, candidate] == batch.discount[row]
            assert torch.equal(candidates.observation[row, candidate], batch.next_observation[row])
            assert torch.equal(candidates.mask[row, candidate], batch.next_mask[row, :4])
    market_only, _ = exposure_candidates(batch, q, OFFSETS, False)
    assert candidates.reward.shape == (COUNT, 7) and market_only.reward.shape == (COUNT, 6)


def test_exposures_are_chosen_by_values_and_never_by_the_rewards_that_followed() -> None:
    batch, q = random_batch(COUNT), some_values()
    assert batch.exposure_reward is not None
    planted = batch._replace(
        exposure_reward=batch.exposure_reward.flip(1) * 100.0,
        exposure_discount=torch.zeros(COUNT, 8),
        reward=-batch.reward,
    )
    before, after = (exposure_candidates(b, q, OFFSETS, True) for b in (batch, planted))
    assert torch.equal(before[0].observation, after[0].observation)
    assert all(by_column(before[1], row) == by_column(after[1], row) for row in range(COUNT))
    others, _ = exposure_candidates(batch, some_values(1), OFFSETS, True)
    assert not torch.equal(others.observation, before[0].observation)


def test_the_update_chooses_exposures_alike_whatever_followed() -> None:
    """The same through the learner: with the future hidden, only the rewards of the chosen exposures count."""
    batch = random_batch(32)
    assert batch.exposure_reward is not None
    made = learner(full_information=True, n_step=1, noisy=False)
    q = values(made, batch.observation)
    chosen = torch.zeros(32, 8, dtype=torch.bool)
    for row in range(32):
        direction, size = preferred(batch, q, row)
        for exposure in {exposure_of(d, size) for d in Direction} | {
            exposure_of(direction, s) for s in Magnitude
        }:
            chosen[row, exposure] = True
    hindsight = torch.where(chosen, batch.exposure_reward, 1e3)
    gradients = []
    for rewards in (batch.exposure_reward, hindsight):
        twin = learner(full_information=True, n_step=1, noisy=False)
        twin.update([batch._replace(exposure_reward=rewards)], torch.zeros(()))
        gradients.append(twin.optimiser.gradient)
    assert torch.equal(*gradients) and not chosen.all()


def test_a_plain_sample_trains_its_taken_actions_on_its_own_transition() -> None:
    batch = random_batch(COUNT)
    candidates, trained = taken_candidates(batch, OFFSETS)
    assert torch.equal(candidates.reward[:, 0], batch.reward)
    assert torch.equal(candidates.discount[:, 0], batch.discount)
    assert torch.equal(candidates.observation[:, 0], batch.next_observation)
    assert torch.equal(candidates.mask[:, 0], batch.next_mask[:, :4])
    for row in range(COUNT):
        taken = [first + int(a) for first, a in zip((0, 4, 7, 10), batch.action[row], strict=True)]
        assert trained.column[row].tolist() == taken
        assert trained.active[row].tolist() == batch.active[row].tolist()
    assert not trained.candidate.any()


def projected_by_loops(
    p: list[float], reward: float, discount: float, source: list[float], onto: list[float]
) -> list[float]:
    result = [0.0] * len(onto)
    for mass, atom in zip(p, source, strict=True):
        x = min(max(reward + discount * atom, onto[0]), onto[-1])
        upper = next(j for j in range(1, len(onto)) if x <= onto[j])
        share = (x - onto[upper - 1]) / (onto[upper] - onto[upper - 1])
        result[upper - 1] += mass * (1.0 - share)
        result[upper] += mass * share
    return result


@pytest.mark.parametrize(("share", "aversion"), [(0.0, 0.0), (0.3, 0.25), (1.0, 0.0)])
def test_targets_agree_with_loops_in_float64(share: float, aversion: float) -> None:
    """Branches with supports of their own; the bootstrap has those of the direction."""
    rows, columns, atoms, levels = 5, 3, 7, 4
    generator = torch.Generator().manual_seed(3)
    low, high = torch.tensor([-2.0, -1.0, -3.0, -0.5]), torch.tensor([2.0, 1.5, 3.0, 0.5])
    by_action = support(low, high, atoms).repeat_interleave(torch.tensor([4, 3, 3, 3]), dim=0)
    bus = SignalBus("cpu", {"value_scale": 2.0, "categorical_share": share, "loss_aversion": aversion})
    candidates = Candidates(
        reward=torch.randn(rows, columns, generator=generator),
        discount=torch.rand(rows, columns, generator=generator),
        observation=torch.zeros(rows, columns, 128),
        mask=torch.ones(rows, columns, 4, dtype=torch.bool),
    )
    trained = Trained(
        column=torch.tensor([0, 2, 5, 9, 12]).expand(rows, -1),
        candidate=torch.randint(columns, (rows, 5), generator=generator),
        active=torch.ones(rows, 5, dtype=torch.bool),
        branches=(0, 0, 1, 2, 3),
    )
    best = torch.randint(4, (rows, columns), generator=generator)
    after = Following(
        logits=torch.randn(rows * columns, 4, atoms, generator=generator),
        quantiles=torch.randn(rows * columns, 4, levels, generator=generator),
        hidden=torch.zeros(rows * columns, 1),
    )
    target = target_of(candidates, trained, best, after, by_action, bus)
    for row in range(rows):
        for place, column in enumerate(trained.column[row].tolist()):
            candidate = int(trained.candidate[row, place])
            state, action = row * columns + candidate, int(best[row, candidate])
            reward = float(candidates.reward[row, candidate]) / 2.0
            reward *= 1.0 - aversion if reward > 0.0 else 1.0 + aversion
            discount = float(candidates.discount[row, candidate])
            weights = [math.exp(x) for x in after.logits[state, action].tolist()]
            p = [w / sum(weights) for w in weights]
            z = by_action[column].tolist()
            projected = projected_by_loops(p, reward, discount, by_action[0].tolist(), z)
            quantiles = [reward + discount * x for x in after.quantiles[state, action].tolist()]
            mean = share * sum(a * b for a, b in zip(projected, z, strict=True))
            mean += (1.0 - share) * sum(quantiles) / levels
            assert target.probabilities[row, place].tolist() == pytest.approx(projected, abs=1e-6)
            assert target.quantiles[row, place].tolist() == pytest.approx(quantiles, abs=1e-6)
            assert target.mean[row, place].item() == pytest.approx(mean, abs=1e-6)
