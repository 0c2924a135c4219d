"""The categorical projection and cross-entropy against values worked out by hand."""

import pytest

torch = pytest.importorskip("torch")

from fox_agents.dqn.c51 import cross_entropy, project, support_atoms  # noqa: E402

P = [0.1, 0.2, 0.4, 0.2, 0.1]


@pytest.mark.parametrize(
    ("reward", "discount", "expected"),
    [
        (0.5, 1.0, [0.0, 0.1, 0.2, 0.4, 0.3]),  # every atom lands on another: nothing may be lost
        (0.5, 0.9, [0.0, 0.08, 0.2, 0.44, 0.28]),
        (0.3, 0.5, [0.0, 0.04, 0.4, 0.48, 0.08]),
        (0.25, 0.0, [0.0, 0.0, 0.5, 0.5, 0.0]),  # after a termination: the reward alone
        (-0.5, 0.0, [0.0, 1.0, 0.0, 0.0, 0.0]),
        (5.0, 0.0, [0.0, 0.0, 0.0, 0.0, 1.0]),  # beyond the support: the edge
    ],
)
def test_projection_table(reward: float, discount: float, expected: list[float]) -> None:
    support = support_atoms(-1.0, 1.0, 5)
    got = project(torch.tensor([P]), torch.tensor([reward]), torch.tensor([discount]), support)
    torch.testing.assert_close(got, torch.tensor([expected]), atol=1e-6, rtol=0.0)


def test_rows_do_not_mix() -> None:
    support = support_atoms(-1.0, 1.0, 5)
    reward, discount = torch.tensor([0.5, 0.25, -0.5]), torch.tensor([1.0, 0.0, 0.0])
    together = project(torch.tensor([P, P, P]), reward, discount, support)
    apart = [project(torch.tensor([P]), reward[i : i + 1], discount[i : i + 1], support) for i in range(3)]
    assert torch.equal(together, torch.cat(apart))


@pytest.mark.parametrize("shift", [0.0, 0.4, 1.2, -2.0, 0.37])
def test_probability_and_mean_are_kept_on_51_float32_atoms(shift: float) -> None:
    generator = torch.Generator().manual_seed(0)
    support = support_atoms(-10.0, 10.0, 51)
    p = torch.softmax(4 * torch.randn(64, 51, generator=generator), dim=1)
    reward, discount = torch.full((64,), shift), torch.full((64,), 0.98)
    got = project(p, reward, discount, support)
    torch.testing.assert_close(got.sum(1), torch.ones(64), atol=1e-6, rtol=0.0)
    clipped = (reward[:, None] + discount[:, None] * support).clamp(-10.0, 10.0)
    torch.testing.assert_close((got * support).sum(1), (p * clipped).sum(1), atol=2e-5, rtol=0.0)


@pytest.mark.parametrize(("top", "expected"), [(100.0, 100.0), (200.0, 200.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_cross_entropy_of_extreme_logits_is_finite_and_has_a_gradient(
    top: float, expected: float, dtype: "torch.dtype"
) -> None:
    logits = torch.tensor([top, 0.0, -top], dtype=dtype, requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([0.0, 1.0, 0.0]))
    loss.backward()
    assert loss.item() == pytest.approx(expected)
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad.float(), torch.tensor([1.0, -1.0, 0.0]))
