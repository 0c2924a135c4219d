"""One update of the branching agent: accumulation, priorities, curiosity, gradient surgery, counters."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from small_agents import new  # noqa: E402
from small_batches import (  # noqa: E402
    PROGRESS,
    START,
    figures,
    joined,
    learner,
    random_batch,
    rows,
    values,
)
from torch import Tensor  # noqa: E402

from fox_agents.dqn.replay import Batch  # noqa: E402

FULL: dict[str, Any] = {"full_information": True, "n_step": 1}
PARTS = 4


def parts_and_whole(held_out: int) -> tuple[list[Batch], Batch]:
    """Four batches of 16, and one of 64 whose last rows are those that the four hold out."""
    parts = [random_batch(16, seed) for seed in range(PARTS)]
    kept = [rows(part, slice(None, 16 - held_out)) for part in parts]
    return parts, joined(kept + [rows(part, slice(16 - held_out, None)) for part in parts])


@pytest.mark.parametrize("changes", [{}, FULL, {"surgery": True}, {"spectral": "all", "curiosity": 0.3}])
def test_four_batches_of_16_equal_one_of_64(changes: dict[str, Any]) -> None:
    """With every default mechanism on, the balance of the experts and the noise among them."""
    parts, whole = parts_and_whole(2 if "surgery" in changes else 0)
    many, one = learner(**changes, batch_size=16, accumulate=PARTS), learner(**changes, batch_size=64)
    assert torch.equal(many.optimiser.parameters, one.optimiser.parameters)
    start = one.optimiser.parameters.clone()
    for _ in range(3):  # the running use of the experts is uniform, and so without effect, in the first
        by_part = many.update(parts, PROGRESS)
        at_once = one.update([whole], PROGRESS)
        difference = (many.optimiser.gradient - one.optimiser.gradient).norm()
        assert difference < 1e-5 * one.optimiser.gradient.norm()
    change = (one.optimiser.parameters - start).norm()
    assert (many.optimiser.parameters - one.optimiser.parameters).norm() < 1e-5 * change
    assert by_part is not None and at_once is not None and len(by_part) == PARTS
    order = torch.cat([part.observation[:, 0] for part in parts])
    where = (whole.observation[:, 0][:, None] == order).int().argmax(1)
    torch.testing.assert_close(torch.cat(by_part)[where], at_once[0], rtol=1e-4, atol=1e-6)
    assert figures(many) == pytest.approx(figures(one), rel=1e-4, abs=1e-6)


def test_counters_and_targets_advance_once_whatever_is_accumulated() -> None:
    made = learner(batch_size=16, accumulate=PARTS, target_rate=0.25)
    before = made._target_weights.clone()
    made.update(parts_and_whole(0)[0], PROGRESS)
    assert made.optimiser.updates.item() == made.statistics[-1].item() == made._draws.item() == 1.0
    expected = torch.lerp(before, made.optimiser.parameters, 0.25)
    torch.testing.assert_close(made._target_weights, expected)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_sampled_slots_get_their_new_priorities(accumulate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of every accumulated batch; of a slot drawn twice the larger one."""
    agent = new("bdq", accumulate=accumulate)
    agent.learn(160)
    replay, original = agent._replay, agent.learner.update
    assert replay is not None
    seen: list[tuple[list[Batch], list[Tensor]]] = []

    def spy(batches: list[Batch], progress: Tensor) -> list[Tensor]:
        priorities: list[Tensor] = original(batches, progress)
        seen.append((batches, priorities))
        return priorities

    monkeypatch.setattr(agent.learner, "update", spy)
    before = replay.priorities.leaves.clone()
    agent._update()
    ((batches, priorities),) = seen
    assert len(batches) == len(priorities) == accumulate
    alpha = agent.learner.exponents(agent._progress())[0]
    wanted = before.clone()
    for batch, priority in zip(batches, priorities, strict=True):
        fixed = replay.priorities.to_fixed(priority, alpha)
        for slot in set(batch.slot.tolist()):
            wanted[slot] = fixed[batch.slot == slot].max()
    assert torch.equal(replay.priorities.leaves, wanted) and not torch.equal(before, wanted)


@pytest.mark.parametrize("count", [24, 4])  # as many samples as branches, too: nothing may broadcast across
def test_a_priority_is_the_quantile_loss_of_the_trained_actions(count: int) -> None:
    """By loops, in float64, against the update's own networks."""
    made, batch = learner(noisy=False, gamma=0.9), random_batch(count)
    preferred = values(made, batch.next_observation)
    with torch.no_grad():
        now, after = made.network(batch.observation), made.target(batch.next_observation)
    priorities = made.update([batch], PROGRESS)
    assert priorities is not None
    for row in range(count):
        allowed = [a for a in range(4) if batch.next_mask[row, a]]
        best = max(allowed, key=lambda a: float(preferred[row, a]))
        samples = [
            float(batch.reward[row]) + float(batch.discount[row]) * z
            for z in after.quantiles[row, best].tolist()
        ]
        losses = []
        for branch, first in enumerate((0, 4, 7, 10)):
            if not batch.active[row, branch]:
                continue
            predicted = now.quantiles[row, first + int(batch.action[row, branch])].tolist()
            total = 0.0
            for i, theta in enumerate(predicted):
                tau = (2 * i + 1) / (2 * len(predicted))
                for z in samples:
                    u = z - theta
                    huber = 0.5 * u * u if abs(u) <= 1.0 else abs(u) - 0.5
                    total += abs(tau - (u < 0)) * huber / len(samples)
            losses.append(total)
        assert priorities[0][row].item() == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_without_priorities_all_are_drawn_alike() -> None:
    made = learner(prioritised=False)
    assert made.update([random_batch()], PROGRESS) is None
    assert [exponent.item() for exponent in made.exponents(PROGRESS)] == [0.0, 0.0]


def test_the_exponent_of_the_weights_grows_to_one() -> None:
    made = learner(per_alpha=0.7, per_beta=0.4)
    for progress, beta in ((0.0, 0.4), (0.5, 0.7), (1.0, 1.0)):
        found = [exponent.item() for exponent in made.exponents(torch.tensor(progress))]
        assert found == pytest.approx([0.7, beta])


def test_the_bonus_for_rare_states_is_paid_when_sampled_and_wears_off() -> None:
    made = learner(curiosity=0.8, value_scale=2.0)
    batch = random_batch(4)._replace(reward=torch.zeros(4), discount=torch.zeros(4))
    made.start_acting(4)
    for visits, bonus in ((0, 0.8), (1, 0.8), (4, 0.4)):
        while made._visits is not None and made._visits.counts.sum() < 4 * visits:
            made.explore(batch.observation, batch.mask, START, torch.Generator())
        made.update([batch], START)
        assert figures(made)["target"] == pytest.approx(bonus / 2.0, abs=1e-4)
    assert (batch.reward == 0.0).all()


def test_the_bonus_is_never_stored() -> None:
    """Behaviour is random, so that both runs visit the same states."""
    random = {"epsilon_start": 1.0, "epsilon_end": 1.0, "exploration": "epsilon_greedy", "value_scale": 1.0}
    plain, curious = (new("bdq", **random, curiosity=bonus) for bonus in (0.0, 0.5))
    for agent in (plain, curious):
        agent.learn(160)
    assert plain._replay is not None and curious._replay is not None
    assert torch.equal(plain._replay._rings["reward"], curious._replay._rings["reward"])
    assert not torch.equal(plain.learner.optimiser.parameters, curious.learner.optimiser.parameters)


def gradient(batch: Batch, **changes: Any) -> Tensor:
    """Of the two distributional losses alone."""
    off = dict.fromkeys(("ensemble", "repulsion", "auxiliary", "confidence", "balance"), "off")
    made = learner(**off, noisy=False, **changes)
    made.update([batch], PROGRESS)
    return made.optimiser.gradient.clone()


@pytest.mark.parametrize("conflict", [True, False])
def test_surgery_takes_out_what_conflicts_with_the_held_out_slice_and_nothing_else(conflict: bool) -> None:
    """The held-out eighth sees the states of the rest, with the opposite or the same rewards."""
    batch = random_batch(64)._replace(discount=torch.zeros(64))
    batch.observation[56:], batch.action[56:] = batch.observation[:8], batch.action[:8]
    batch.active[:], batch.weight[:] = True, 1.0
    batch.reward[:] = torch.where(torch.arange(64) < 56, 3.0, -3.0 if conflict else 3.0)
    kept, held_out = gradient(rows(batch, slice(None, 56))), gradient(rows(batch, slice(56, None)))
    assert (torch.dot(kept, held_out) < 0.0) == conflict
    applied = gradient(batch, surgery=True)
    along = torch.dot(applied, held_out) / (applied.norm() * held_out.norm())
    if conflict:
        assert abs(along.item()) < 1e-4
        removed = kept - applied
        assert torch.dot(removed, held_out) / (removed.norm() * held_out.norm()) == pytest.approx(
            -1.0, abs=1e-4
        )
    else:
        assert torch.equal(applied, kept)
