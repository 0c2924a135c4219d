"""What a learner must pass before its scores mean anything: overfit, go downhill, learn nothing from noise.

After Karpathy, "A Recipe for Training Neural Networks" (2019).
"""

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from small_agents import new  # noqa: E402
from small_batches import config, random_batch, values  # noqa: E402
from torch import Tensor  # noqa: E402

from fox_agents.dqn.config import ReferenceConfig  # noqa: E402
from fox_agents.dqn.learner import BDQLearner  # noqa: E402
from fox_agents.dqn.reference import ReferenceLearner  # noqa: E402
from fox_agents.dqn.replay import Batch  # noqa: E402

CPU = torch.device("cpu")
KINDS = ("bdq", "bdq_full", "qrdqn_ref")
every_kind = pytest.mark.parametrize("kind", KINDS)
SEEN = 3  # an entry of the observation that every network is shown


def make(kind: str, **changes: Any) -> BDQLearner | ReferenceLearner:
    """A learner wide enough for 128 samples, without noise on its weights."""
    shared = {"hidden": 64, "quantiles": 8, "lr": 1e-2, "lr_end": 1e-4, "weight_decay": 0.0}
    if kind == "qrdqn_ref":
        return ReferenceLearner(ReferenceConfig(**{**shared, **changes}), CPU)
    wide = {"atoms": 11, "v_min": -4.0, "v_max": 4.0, "noisy": False}
    full = {"full_information": True, "n_step": 1} if kind == "bdq_full" else {}
    return BDQLearner(config(**{**shared, **wide, **full, **changes}), CPU)


def losses(
    made: BDQLearner | ReferenceLearner, batch: Batch, updates: int, cool: bool = True
) -> dict[str, list[float]]:
    """Figures of every update on one and the same batch."""
    found: dict[str, list[float]] = {name: [] for name in made.STATISTICS}
    for update in range(updates):
        made.update([batch], torch.tensor(update / updates if cool else 0.0))
        for name, value in zip(made.STATISTICS, made.statistics.tolist(), strict=False):
            found[name].append(value)
        made.statistics.zero_()
    return found


def primary(found: dict[str, list[float]]) -> list[float]:
    """The quantile loss, by whatever name."""
    return found["quantile"] if "quantile" in found else found["loss"]


@pytest.fixture(scope="module")
def stored() -> Batch:
    """128 different transitions of a market, rewards of unit size."""
    agent = new("bdq_full", epsilon_start=1.0, epsilon_end=1.0, replay_size=4_000, learning_starts=100_000)
    agent.learn(2_000)
    assert agent._replay is not None
    uniform = torch.rand(128, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    batch = agent._replay.sample(uniform, 1, 0.9, torch.zeros(()))
    assert batch.exposure_reward is not None and len(set(batch.slot.tolist())) == 128
    unit = batch.exposure_reward.std()
    return batch._replace(reward=batch.reward / unit, exposure_reward=batch.exposure_reward / unit)


def without_future(batch: Batch) -> Batch:
    """The reward is all there is, so that the target of a sample is one number."""
    assert batch.exposure_discount is not None
    return batch._replace(
        discount=torch.zeros_like(batch.discount), exposure_discount=torch.zeros_like(batch.exposure_discount)
    )


@every_kind
def test_128_samples_are_learned_by_heart(kind: str, stored: Batch) -> None:
    found = primary(losses(make(kind), without_future(stored), 120))
    assert found[-1] < 0.05 * found[0]


def entropy_floor(batch: Batch, made: BDQLearner, smoothing: float) -> float:
    """Mean over samples and branches of the entropy of a reward spread over its two atoms and smoothed."""
    atoms = made._supports()[0].tolist()
    gap = atoms[1] - atoms[0]
    total = 0.0
    for reward, active in zip(batch.reward.tolist(), batch.active.tolist(), strict=True):
        place = (min(max(reward, atoms[0]), atoms[-1]) - atoms[0]) / gap
        low = min(int(place), len(atoms) - 2)
        p = [smoothing / len(atoms)] * len(atoms)
        for index, share in ((low, low + 1 - place), (low + 1, place - low)):
            p[index] += (1.0 - smoothing) * share
        total -= sum(active) * sum(x * math.log(x) for x in p if x > 0.0)
    return total / (4 * len(batch.reward))


@pytest.mark.parametrize("smoothing", [0.0, 0.05])
def test_the_cross_entropy_falls_to_the_entropy_of_its_targets(smoothing: float, stored: Batch) -> None:
    made = make("bdq", label_smoothing=smoothing)
    assert isinstance(made, BDQLearner)
    found = losses(made, without_future(stored), 120)["c51"]
    floor = entropy_floor(stored, made, smoothing)
    assert floor - 1e-5 <= min(found) and found[-1] < floor + 0.02 * (found[0] - floor)


@every_kind
def test_the_loss_of_a_frozen_batch_goes_downhill(kind: str, stored: Batch) -> None:
    """With a target network that stands still; each stretch of updates is better than the one before."""
    made = make(kind, lr=1e-3, lr_end=1e-3, target_rate=1e-9)
    found = torch.tensor(primary(losses(made, stored, 100, cool=False)))
    stretches = found.view(5, 20).mean(1)
    assert (stretches.diff() < 0.0).all() and stretches[-1] < 0.7 * stretches[0]


def test_the_side_heads_learn_what_they_are_for(stored: Batch) -> None:
    """Direction values, the sign of the next move where it is known, and the size of the own error."""
    made = make("bdq", repulsion="off")
    assert isinstance(made, BDQLearner)
    batch = without_future(stored)
    losses(made, batch, 100)
    with torch.no_grad():
        outputs = made.network(batch.observation)
    assert outputs.ensemble is not None and outputs.auxiliary is not None and outputs.confidence is not None
    taken = outputs.ensemble.gather(2, batch.action[:, None, :1].expand(-1, outputs.ensemble.shape[1], -1))
    assert (taken[:, :, 0] - batch.reward[:, None]).square().mean() < 0.1 * batch.reward.square().mean()
    moved = batch.future_known & (batch.future_move != 0.0)
    right = (outputs.auxiliary[moved] > 0.0) == (batch.future_move[moved] > 0.0)
    assert right.float().mean() > 0.8
    fresh = make("bdq").network(batch.observation).confidence
    assert fresh is not None and outputs.confidence.mean() < 0.5 * fresh.mean()  # the error has become small


def predictions(made: BDQLearner | ReferenceLearner, batch: Batch) -> tuple[Tensor, Tensor]:
    """Values and rewards of what is trained: taken directions, or all exposures."""
    if isinstance(made, ReferenceLearner):
        assert batch.exposure_reward is not None
        with torch.no_grad():
            return made.network(batch.observation).mean(-1).flatten(), batch.exposure_reward.flatten()
    else:
        q = values(made, batch.observation)
        return q.gather(1, batch.action[:, :1])[:, 0], batch.reward


def correlation(made: BDQLearner | ReferenceLearner, batch: Batch) -> float:
    return float(torch.corrcoef(torch.stack(predictions(made, batch)))[0, 1])


def labelled(signal: bool, count: int, seed: int) -> Batch:
    """Random observations, paid by one of their entries or by nothing that can be seen."""
    batch = without_future(random_batch(count, seed))
    generator = torch.Generator().manual_seed(1000 + seed)
    label = batch.observation[:, SEEN] if signal else torch.randn(count, generator=generator)
    return batch._replace(
        reward=label,
        exposure_reward=label[:, None].expand(-1, 8),
        active=torch.ones(count, 4, dtype=torch.bool),
        weight=torch.ones(count),
    )


@every_kind
@pytest.mark.parametrize("signal", [False, True])
def test_random_labels_teach_nothing_about_fresh_data_and_a_signal_does(kind: str, signal: bool) -> None:
    made = make(kind, lr=3e-3, lr_end=3e-4)
    train, fresh = labelled(signal, 128, 0), labelled(signal, 2_000, 1)
    found = primary(losses(made, train, 60))
    assert found[-1] < 0.5 * found[0]  # learned by heart either way
    assert correlation(made, train) > 0.8
    value, reward = predictions(made, fresh)
    if signal:
        assert correlation(made, fresh) > 0.25
    else:
        assert abs(correlation(made, fresh)) < 0.08  # 3.6 standard deviations of chance
        assert (value - reward).square().mean() > reward.var()  # worse than knowing nothing
