"""The quantile Huber loss against values worked out by hand and against loops in float64."""

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from fox_agents.dqn.quantile import midpoints, quantile_huber  # noqa: E402


def by_loops(predicted: Tensor, target: Tensor, levels: Tensor, kappa: float) -> Tensor:
    """The definition, term by term."""
    batch, branches, count = predicted.shape
    result = torch.zeros(batch, branches, dtype=torch.float64)
    for b in range(batch):
        for branch in range(branches):
            samples = target[b, branch if target.shape[1] > 1 else 0].tolist()
            for i in range(count):
                level = levels[branch, i].item()
                for sample in samples:
                    u = sample - predicted[b, branch, i].item()
                    huber = 0.5 * u * u if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)
                    result[b, branch] += abs(level - (u < 0)) * huber / kappa / len(samples)
    return result


@pytest.mark.parametrize(("kappa", "expected"), [(1.0, 0.8541667), (0.5, 1.0416667)])
@pytest.mark.parametrize("batch", [1, 2, 3, 5])
def test_known_value_at_every_batch_size(kappa: float, expected: float, batch: int) -> None:
    predicted = torch.tensor([0.0, 1.0]).expand(batch, 4, 2)
    target = torch.tensor([3.0, -1.0, 0.5]).expand(batch, 4, 3)
    levels = midpoints(2, torch.ones(4))
    assert levels[0].tolist() == [0.25, 0.75]
    loss = quantile_huber(predicted, target, levels, kappa)
    torch.testing.assert_close(loss, torch.full((batch, 4), expected))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kappa", [1.0, 0.3])
def test_agrees_with_the_definition(shared: bool, kappa: float) -> None:
    generator = torch.Generator().manual_seed(3)
    predicted = torch.randn(5, 3, 4, generator=generator, dtype=torch.float64)
    target = 2.0 * torch.randn(5, 1 if shared else 3, 6, generator=generator, dtype=torch.float64)
    levels = midpoints(4, torch.tensor([1.0, 0.5, 0.8], dtype=torch.float64))
    got = quantile_huber(predicted, target, levels, kappa)
    torch.testing.assert_close(got, by_loops(predicted, target, levels, kappa), atol=1e-12, rtol=1e-12)


def test_gradient_reaches_the_prediction_and_not_the_target() -> None:
    generator = torch.Generator().manual_seed(4)
    predicted = torch.randn(3, 2, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    target = torch.randn(3, 2, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    levels = midpoints(4, torch.ones(2, dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda p: quantile_huber(p, target.detach(), levels), (predicted,))
    quantile_huber(predicted, target, levels).sum().backward()
    assert target.grad is None


def test_midpoints_are_the_middles_of_equal_parts_and_draw_in_toward_the_median() -> None:
    levels = midpoints(32, torch.tensor([1.0, 0.5, 0.1, 1.0]))
    expected = torch.tensor([(2 * i - 1) / 64 for i in range(1, 33)])
    torch.testing.assert_close(levels[0], expected)
    torch.testing.assert_close(levels[1], 0.5 + 0.5 * (expected - 0.5))
    assert levels.shape == (4, 32) and bool((levels.diff(dim=1) > 0).all())
    torch.testing.assert_close(levels.mean(dim=1), torch.full((4,), 0.5))


@pytest.mark.parametrize("spread", [1.0, 0.5])
def test_descent_finds_the_quantiles_of_a_known_distribution(spread: float) -> None:
    """The minimiser at a small kappa is the quantile at each level: of U(0, 1), the level itself."""
    levels = midpoints(8, torch.tensor([spread]))
    predicted = torch.zeros(1, 1, 8, requires_grad=True)
    target = ((torch.arange(1000) + 0.5) / 1000)[None, None, :]
    optimiser = torch.optim.Adam([predicted], lr=0.02)
    for step in range(600):
        optimiser.param_groups[0]["lr"] = 0.02 * (1.0 - step / 600)
        optimiser.zero_grad()
        quantile_huber(predicted, target, levels, kappa=0.01).sum().backward()
        optimiser.step()
    torch.testing.assert_close(predicted.detach()[0, 0], levels[0], atol=0.01, rtol=0.0)
