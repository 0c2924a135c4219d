"""Visit counts: codes of observations, counts, and a bonus that follows them."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fox_agents.dqn.curiosity import VisitCounts  # noqa: E402

CPU = torch.device("cpu")
HALF = torch.tensor(0.5)


def axes() -> tuple[VisitCounts, Any]:
    """Counts whose bits are the signs of the entries themselves, and the observations of the codes 0 to 7."""
    counts = VisitCounts(3, CPU, bits=3)
    counts.projection.copy_(torch.eye(3))
    observations = torch.tensor([[1.0 if code >> k & 1 else -1.0 for k in range(3)] for code in range(8)])
    return counts, observations


def test_a_code_is_the_signs_of_the_projections() -> None:
    counts, observations = axes()
    assert counts.codes(observations).tolist() == list(range(8))
    assert counts.codes(7.0 * observations).tolist() == list(range(8))


def test_the_bonus_falls_with_the_root_of_the_visits_and_is_never_stored() -> None:
    counts, observations = axes()
    early = counts.bonus(observations[[5, 6]], HALF)
    assert early.tolist() == [0.5, 0.5]  # never visited counts as once
    counts.visit(observations[[5, 5, 6, 5, 5]])
    assert counts.counts.tolist() == [0, 0, 0, 0, 0, 4, 1, 0]
    assert counts.bonus(observations[[5, 6]], HALF).tolist() == [0.25, 0.5]
    counts.visit(observations[[5]].expand(12, 3))
    assert counts.bonus(observations[[5, 6]], HALF).tolist() == [0.125, 0.5]


def test_the_pressure_is_read_at_the_call() -> None:
    counts, observations = axes()
    pressure = torch.zeros(())
    assert counts.bonus(observations, pressure).tolist() == [0.0] * 8
    pressure.fill_(2.0)
    assert counts.bonus(observations, pressure).tolist() == [2.0] * 8


def test_counts_are_equal_in_any_order_and_the_seed_decides_the_codes() -> None:
    observations = torch.randn(5000, 128, generator=torch.Generator().manual_seed(1))
    first, second, other = VisitCounts(128, CPU), VisitCounts(128, CPU), VisitCounts(128, CPU, seed=1)
    first.visit(observations)
    second.visit(observations.flip(0))
    other.visit(observations)
    assert torch.equal(first.counts, second.counts)
    assert int(first.counts.sum()) == 5000
    assert int((first.counts > 0).sum()) > 2000  # 4096 codes, about evenly used by directionless data
    assert not torch.equal(first.counts, other.counts)


def test_near_observations_share_a_code_and_opposite_ones_share_no_bit() -> None:
    counts = VisitCounts(128, CPU)
    observation = torch.randn(200, 128, generator=torch.Generator().manual_seed(2))
    codes = counts.codes(observation)
    assert float((counts.codes(observation + 1e-4) == codes).float().mean()) > 0.95
    assert bool((counts.codes(-observation) == codes ^ 0xFFF).all())


def test_restored_counts_go_on() -> None:
    observations = torch.randn(50, 128, generator=torch.Generator().manual_seed(3))
    first, copy = VisitCounts(128, CPU, seed=4), VisitCounts(128, CPU)
    first.visit(torch.cat([observations, observations[:20]]))
    for name, tensor in copy.tensors().items():
        tensor.copy_(first.tensors()[name])
    assert set(first.bonus(observations, torch.tensor(1.0)).tolist()) >= {
        1.0,
        float(torch.tensor(2.0).rsqrt()),
    }
    assert torch.equal(copy.bonus(observations, HALF), first.bonus(observations, HALF))
