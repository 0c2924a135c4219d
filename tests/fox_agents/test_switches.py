"""Every switch of the branching agent: off and measure leave learning alone, on takes part in it."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from small_batches import PROGRESS, figures, learner, random_batch, values  # noqa: E402

from fox_agents.dqn.learner import BDQLearner  # noqa: E402
from fox_agents.dqn.objective import TERMS  # noqa: E402

BARE: dict[str, Any] = dict.fromkeys(TERMS, "off")
HEADS = {
    "ensemble": ("ensemble.",),
    "repulsion": ("ensemble.",),
    "auxiliary": ("scalars.",),
    "confidence": ("scalars.",),
}
"""Parts of the network that are there for one term alone."""


def trained(updates: int = 3, **changes: Any) -> tuple[BDQLearner, dict[str, float]]:
    made = learner(**{**BARE, **changes})
    for update in range(updates):
        made.update([random_batch(32, update)], PROGRESS)
    return made, figures(made)


def weights(made: BDQLearner, without: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Bytes of every parameter, target network included, but for those of some parts."""
    return {
        name: tensor.detach().numpy().tobytes()
        for name, tensor in made.tensors().items()
        if name.startswith(("network.", "target.")) and not name.split(".", 1)[1].startswith(without)
    }


@pytest.mark.parametrize("term", TERMS)
def test_a_measured_term_is_reported_and_changes_nothing(term: str) -> None:
    (off, silent), (measured, spoken) = trained(), trained(**{term: "measure"})
    own = HEADS.get(term, ("none",))
    assert weights(measured, own) == weights(off, own)
    assert term not in silent and abs(spoken[term]) > 0.0
    assert {name: spoken[name] for name in silent} == silent


@pytest.mark.parametrize("term", TERMS)
def test_a_term_that_is_on_changes_what_is_learned(term: str) -> None:
    """Where both a measured and an active term have a head, that head and the trunk under it."""
    (measured, _), (on, spoken) = trained(**{term: "measure"}), trained(**{term: "on"})
    assert abs(spoken[term]) > 0.0
    before, after = weights(measured), weights(on)
    assert before.keys() == after.keys()
    part = "mixture.gate." if term == "balance" else "trunk."
    changed = {name for name in before if before[name] != after[name]}
    assert any(name.startswith(f"network.{part}") for name in changed)
    for head in HEADS.get(term, ()):
        assert any(name.startswith(f"network.{head}") for name in changed)


def test_measuring_every_term_at_once_changes_nothing() -> None:
    with_heads = {"ensemble": "measure", "auxiliary": "measure", "confidence": "measure"}
    (some, _), (all_of_them, spoken) = trained(**with_heads), trained(**dict.fromkeys(TERMS, "measure"))
    assert weights(all_of_them) == weights(some)
    assert set(TERMS) <= set(spoken)


def test_measured_categorical_distributions_are_not_trained_and_value_nothing() -> None:
    made, spoken = trained(c51="measure", noisy=False)
    fresh = learner(**BARE, c51="measure", noisy=False)
    assert spoken["c51"] > 0.0
    for mine, initial in zip(made.network.c51.parameters(), fresh.network.c51.parameters(), strict=True):
        assert torch.equal(mine, initial)
    on, _ = trained(noisy=False)
    assert not torch.equal(on.network.c51.weight, fresh.network.c51.weight)
    observation = random_batch(8).observation
    with torch.no_grad():
        by_quantiles = [learner.network(observation).quantiles.mean(-1) for learner in (made, on)]
    torch.testing.assert_close(values(made, observation), by_quantiles[0])
    assert not torch.allclose(values(on, observation), by_quantiles[1])


@pytest.mark.parametrize("part", ["variable_selection", "gated", "mixture", "noisy"])
def test_a_part_of_the_network_can_be_left_out_with_every_default_term(part: str) -> None:
    made = learner(**{part: False})
    before = made.optimiser.parameters.clone()
    made.update([random_batch()], PROGRESS)
    assert not torch.equal(made.optimiser.parameters, before) and made.ok
    assert ("balance" in made.STATISTICS) == (part != "mixture")


@pytest.mark.parametrize("full", [False, True])
def test_states_of_another_episode_are_not_drawn_together(full: bool) -> None:
    """The state compared is what followed the step or, with full information, what holding leads to."""
    changes: dict[str, Any] = {"full_information": True, "n_step": 1} if full else {}
    batch, hold = random_batch(16), 3
    taken_ends = batch._replace(discount=torch.zeros(16), exposure_discount=torch.full((16, 8), 0.9))
    hold_ends = batch._replace(discount=torch.full((16,), 0.9), exposure_discount=torch.full((16, 8), 0.9))
    assert hold_ends.exposure_discount is not None
    hold_ends.exposure_discount[:, hold] = 0.0
    for given, counts in ((taken_ends, full), (hold_ends, not full)):
        made = learner(**{**BARE, **changes, "predictive": "on"})
        made.update([given], PROGRESS)
        assert (figures(made)["predictive"] > 0.0) == counts


def test_surgery_changes_learning_only_where_it_is_on() -> None:
    (off, _), (on, _) = trained(), trained(surgery=True)
    assert weights(off) != weights(on)


@pytest.mark.parametrize(
    "changes", [{"label_smoothing": 0.5}, {"sigma": 0.1}, {"noisy": False}, {"surgery": True}]
)
def test_a_setting_reaches_learning(changes: dict[str, Any]) -> None:
    assert weights(trained()[0]) != weights(trained(**changes)[0])
