"""Every term of the loss against its definition in float64 loops, by hand, and by finite differences."""

import math
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from fox_agents.dqn import losses  # noqa: E402

ONE = torch.ones(1, dtype=torch.float64)
BRANCHES = (4, 3, 3, 3)


def randn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def random_mask(*shape: int, seed: int = 0) -> Tensor:
    """Bool, with the first action of each row allowed."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(*shape, generator=generator) < 0.6
    mask[..., 0] = True
    return mask


def random_actions(batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.stack([torch.randint(n, (batch,), generator=generator) for n in BRANCHES], dim=1)


def same(got: Tensor, expected: "Tensor | list[float]") -> None:
    torch.testing.assert_close(got, torch.as_tensor(expected, dtype=got.dtype), atol=1e-9, rtol=1e-9)


def check_gradient(function: Callable[..., Tensor], *inputs: Tensor) -> None:
    assert torch.autograd.gradcheck(function, [x.clone().requires_grad_() for x in inputs])


def test_means_over_branches_and_samples_are_not_broadcast_across_each_other() -> None:
    """F3's numbers, with as many samples as branches: squared errors 1; a bad broadcast gives 5 or 0."""
    taken, wanted = torch.tensor([[1.0, 3.0], [5.0, 7.0]]), torch.tensor([2.0, 6.0])
    loss = (taken - wanted[:, None]).square()
    active, ones = torch.ones(2, 2, dtype=torch.bool), torch.ones(2)
    assert losses.over_branches(loss, active, ones, ones).tolist() == [1.0, 1.0]
    assert losses.priority(loss, active).tolist() == [1.0, 1.0]
    loss = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    active, weight = torch.tensor([[True, False], [True, True]]), torch.tensor([1.0, 0.5])
    total = losses.over_branches(loss, active, weight, torch.tensor([1.0, 10.0])).mean()
    assert total.shape == () and total.item() == pytest.approx((1 + 0.5 * 4 + 0.5 * 80) / 4)
    assert losses.priority(loss, active).tolist() == [1.0, 6.0]
    assert losses.priority(loss, torch.zeros(2, 2, dtype=torch.bool)).tolist() == [0.0, 0.0]
    total = losses.over_samples(loss[0], weight, torch.tensor([10.0])).mean()
    assert total.shape == () and total.item() == pytest.approx(10 * (1 + 0.5 * 2) / 2)


def test_smoothing_keeps_the_sum_and_moves_toward_the_uniform() -> None:
    got = losses.smooth(torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64), 0.1 * ONE)
    same(got, [0.025, 0.925, 0.025, 0.025])
    p = torch.softmax(randn(3, 51), dim=1)
    same(losses.smooth(p, 0.0 * ONE), p)


def test_categorical_agrees_with_the_definition() -> None:
    logits, target = 3 * randn(3, 2, 5), torch.softmax(randn(3, 1, 5, seed=1), dim=2)
    got = losses.categorical(logits.float(), target.float(), torch.tensor([0.05]))
    for b in range(3):
        for branch in range(2):
            row = logits[b, branch].tolist()
            total = sum(math.exp(x) for x in row)
            mixed = [0.95 * t + 0.01 for t in target[b, 0].tolist()]
            expected = -sum(t * math.log(math.exp(x) / total) for t, x in zip(mixed, row, strict=True))
            assert got[b, branch].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("top", [40.0, 100.0, 200.0])
def test_categorical_reports_at_most_fifty_and_keeps_the_gradient(top: float) -> None:
    logits = torch.tensor([[[top, 0.0, -top]]], requires_grad=True)
    loss = losses.categorical(logits, torch.tensor([[[0.0, 1.0, 0.0]]]), torch.zeros(1))
    loss.sum().backward()
    assert loss.item() == pytest.approx(min(top, 50.0))
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad[0, 0], torch.tensor([1.0, -1.0, 0.0]))


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_conservative_agrees_with_the_definition(temperature: float) -> None:
    q, action, mask = randn(6, 13), random_actions(6), random_mask(6, 13)
    got = losses.conservative(q, action, mask, temperature * ONE)
    for b in range(6):
        start = 0
        for branch, count in enumerate(BRANCHES):
            chosen = int(action[b, branch])
            counted = [a for a in range(count) if mask[b, start + a] or a == chosen]
            total = sum(math.exp(q[b, start + a] / temperature) for a in counted)
            expected = temperature * math.log(total) - q[b, start + chosen].item()
            assert got[b, branch].item() == pytest.approx(expected, abs=1e-9)
            start += count
    assert bool((got >= 0).all())
    check_gradient(lambda values: losses.conservative(values, action, mask, temperature * ONE), q)


def test_a_masked_action_does_not_feel_the_conservative_penalty() -> None:
    q = randn(1, 13).requires_grad_()
    mask = torch.ones(1, 13, dtype=torch.bool)
    mask[0, 2] = False
    losses.conservative(q, torch.zeros(1, 4, dtype=torch.int64), mask, ONE).sum().backward()
    assert q.grad is not None
    gradient = q.grad[0].tolist()
    assert gradient[2] == 0.0 and gradient[0] < 0.0 < gradient[1]


def test_ensemble_regression_agrees_with_the_definition() -> None:
    values, target = 2 * randn(4, 5, 4), randn(4, 4, seed=1).requires_grad_()
    active = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.bool)
    got = losses.ensemble_regression(values, target, active)
    for b in range(4):
        pairs = [(k, d) for k in range(5) for d in range(4) if active[b, d]]
        errors = [abs(values[b, k, d].item() - target[b, d].item()) for k, d in pairs]
        expected = sum(e * e / 2 if e < 1 else e - 0.5 for e in errors) / max(len(errors), 1)
        assert got[b].item() == pytest.approx(expected)
    check_gradient(lambda v: losses.ensemble_regression(v, target.detach(), active), values)
    losses.ensemble_regression(values.requires_grad_(), target, active).sum().backward()
    assert target.grad is None


def divergence(a: list[float], b: list[float]) -> float:
    p, q = ([math.exp(x) / sum(math.exp(y) for y in row) for x in row] for row in (a, b))
    return sum((x - y) * (math.log(x) - math.log(y)) for x, y in zip(p, q, strict=True))


def test_ensemble_repulsion_is_minus_the_mean_over_the_pairs() -> None:
    values, mask = randn(6, 5, 4), random_mask(6, 4)
    got = losses.ensemble_repulsion(values, mask, 0.5 * ONE, 100 * ONE)
    for b in range(6):
        heads = [[values[b, k, a].item() / 0.5 for a in range(4) if mask[b, a]] for k in range(5)]
        pairs = [divergence(heads[k], heads[m]) for k in range(5) for m in range(k)]
        assert got[b].item() == pytest.approx(-sum(pairs) / 10, abs=1e-9)
    check_gradient(lambda v: losses.ensemble_repulsion(v, mask, 0.5 * ONE, 100 * ONE), values)


def test_descent_on_the_repulsion_drives_heads_apart_up_to_the_bound() -> None:
    values = (0.1 * randn(1, 5, 4)).requires_grad_()
    mask = torch.ones(1, 4, dtype=torch.bool)
    optimiser = torch.optim.SGD([values], lr=0.5)
    for _ in range(300):
        optimiser.zero_grad()
        loss = losses.ensemble_repulsion(values, mask, ONE, 0.5 * ONE).sum()
        loss.backward()
        optimiser.step()
    assert loss.item() == -0.5
    assert values.grad is not None and not values.grad.any()


def test_q_gap_counts_distinct_actions_only() -> None:
    q = torch.tensor([[1.0, 5.0, 2.0, 4.5], [1.0, 5.0, 2.0, 4.5], [3.0, 3.0, 1.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 0]], dtype=torch.bool)
    gap, several = losses.q_gap(q, mask)
    assert gap.tolist() == [0.5, 3.0, 0.0, 0.0]
    assert several.tolist() == [True, True, True, False]


def test_barrier_raises_the_best_and_lowers_the_runner_up_where_the_gap_is_too_small() -> None:
    q = torch.tensor([[1.0, 1.01, 0.5, 0.0], [1.0, 2.0, 0.5, 0.0], [1.0, 9.0, 0.9, 0.0]], requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 0, 0]], dtype=torch.bool)
    loss = losses.barrier(q, mask, torch.tensor([0.8]), torch.tensor([0.05]))
    torch.testing.assert_close(loss.detach(), torch.tensor([0.03, 0.0, 0.0]), atol=1e-6, rtol=0.0)
    loss.sum().backward()
    assert q.grad is not None
    assert q.grad.tolist() == [[1.0, -1.0, 0.0, 0.0], [0.0] * 4, [0.0] * 4]


def test_spread_pushes_near_equal_values_from_their_mean() -> None:
    q = torch.tensor(
        [[1.0, 1.01, 0.99, 1.0], [1.0, 2.0, 0.5, 0.0], [1.0, 9.0, 1.0, 1.0]], dtype=torch.float64
    )
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 0, 0]], dtype=torch.bool)
    health, variance = 0.25 * ONE, 0.01 * ONE
    q.requires_grad_()
    loss = losses.spread(q, mask, health, variance)
    short = math.sqrt(0.010001) - math.sqrt(0.00005 + 1e-6)
    same(loss, [0.75 * short, 0.0, 0.0])
    loss.sum().backward()
    assert q.grad is not None
    gradient = q.grad[0].tolist()
    assert gradient[1] < -0.1 and gradient[2] > 0.1 and abs(gradient[0]) < 1e-9 and not q.grad[1:].any()


def test_spread_agrees_with_the_definition_and_is_finite_where_all_are_equal() -> None:
    q, mask = 0.05 * randn(8, 4), random_mask(8, 4)
    got = losses.spread(q, mask, 0.0 * ONE, 0.01 * ONE)
    for b in range(8):
        values = [q[b, a].item() for a in range(4) if mask[b, a]]
        mean = sum(values) / len(values)
        variance = sum((v - mean) ** 2 for v in values) / len(values)
        expected = max(0.0, math.sqrt(0.010001) - math.sqrt(variance + 1e-6)) if len(values) > 1 else 0.0
        assert got[b].item() == pytest.approx(expected, abs=1e-9)
    check_gradient(lambda v: losses.spread(v, mask, 0.0 * ONE, 0.01 * ONE), q)
    equal = torch.ones(1, 4, requires_grad=True)
    losses.spread(equal, torch.ones(1, 4, dtype=torch.bool), torch.zeros(1), torch.ones(1)).sum().backward()
    assert equal.grad is not None and bool(equal.grad.isfinite().all())


def test_predictive_is_the_mean_square_within_an_episode() -> None:
    h, following = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[2.0, 4.0], [5.0, 5.0]])
    assert losses.predictive(h, following, torch.tensor([True, False])).tolist() == [2.5, 0.0]
    kept = torch.tensor([True, False, True])
    check_gradient(lambda a, b: losses.predictive(a, b, kept), randn(3, 4), randn(3, 4, seed=1))


def test_auxiliary_is_the_cross_entropy_of_a_rise_where_known() -> None:
    logit = torch.tensor([2.0, 2.0, 2.0, 2.0, 500.0], dtype=torch.float64)
    future, known = torch.tensor([0.01, -0.01, 0.0, 0.02, -1.0]), torch.tensor([1, 1, 1, 0, 1]).bool()
    up, down = math.log1p(math.exp(-2)), math.log1p(math.exp(2))
    same(losses.auxiliary(logit, future.double(), known), [up, down, (up + down) / 2, 0.0, 500.0])
    check_gradient(lambda x: losses.auxiliary(x, future.double(), known), randn(5))


def test_confidence_learns_the_size_of_the_error_and_leaves_the_error_alone() -> None:
    error = torch.tensor([-3.0, 0.5, 0.2], requires_grad=True)
    predicted = torch.tensor([0.0, 0.5, 0.0], requires_grad=True)
    loss = losses.confidence(predicted, error)
    torch.testing.assert_close(loss.detach(), torch.tensor([2.5, 0.0, 0.02]))
    loss.sum().backward()
    assert error.grad is None and predicted.grad is not None and predicted.grad[0] == -1.0


def test_load_balance_is_the_squared_coefficient_of_variation() -> None:
    gate = torch.softmax(2 * randn(16, 8), dim=1)
    mean = gate.mean(dim=0)
    expected = ((mean - 1 / 8) ** 2).mean() * 64
    rows = losses.load_balance(gate, mean)
    assert rows.shape == (16,)
    same(rows.mean(), expected)
    uniform, first = torch.full((8,), 0.125, dtype=torch.float64), torch.eye(8, dtype=torch.float64)[0]
    same(losses.load_balance(gate, uniform), [0.0] * 16)
    same(losses.load_balance(first.expand(4, 8), first), [7.0] * 4)
    same(losses.load_balance(first.roll(1).expand(4, 8), first), [-1.0] * 4)  # an expert that nobody uses


def test_descent_on_the_load_balance_evens_the_use_of_the_experts() -> None:
    gate = torch.softmax(2 * randn(16, 8), dim=1).requires_grad_()
    usage = torch.softmax(randn(8, seed=1), dim=0).requires_grad_()
    losses.load_balance(gate, usage).mean().backward()
    assert usage.grad is None and gate.grad is not None
    assert torch.equal(gate.grad[0].argsort(), usage.detach().argsort())
    check_gradient(lambda g: losses.load_balance(g, usage.detach()), gate.detach())


def test_surgery_removes_a_conflict_and_nothing_else() -> None:
    gradient, held_out = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.0, 1.0, 0.0])
    assert losses.project_conflict(gradient, held_out, torch.ones(1)).tolist() == [1.0, 0.0, 3.0]
    assert losses.project_conflict(gradient, held_out, torch.full((1,), 0.5)).tolist() == [1.0, -1.0, 3.0]
    assert torch.equal(losses.project_conflict(gradient, -held_out, torch.ones(1)), gradient)
    assert torch.equal(losses.project_conflict(gradient, 0 * held_out, torch.ones(1)), gradient)
    a, b = randn(1000), randn(1000, seed=1)
    b = b - 2 * (a @ b).clamp(min=0.0) / (a @ a) * a - 0.1 * a
    assert a @ b < 0
    assert abs(losses.project_conflict(a, b, ONE) @ b) < 1e-9


MASK, ACTION = random_mask(6, 13), random_actions(6)
F32 = torch.ones(1)
CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "categorical": lambda x: losses.categorical(x.view(6, 4, 5), torch.full((6, 1, 5), 0.2), 0.1 * F32),
    "conservative": lambda x: losses.conservative(x.view(6, 20)[:, :13], ACTION, MASK, F32),
    "ensemble_regression": lambda x: losses.ensemble_regression(
        x.view(6, 5, 4), torch.ones(6, 4), MASK[:, :4]
    ),
    "ensemble_repulsion": lambda x: losses.ensemble_repulsion(x.view(6, 5, 4), MASK[:, :4], F32, F32),
    "barrier": lambda x: losses.barrier(x.view(6, 20)[:, :4], MASK[:, :4], F32, F32),
    "spread": lambda x: losses.spread(x.view(6, 20)[:, :4], MASK[:, :4], 0 * F32, F32),
    "predictive": lambda x: losses.predictive(x.view(6, 20), x.view(6, 20) + 1, MASK[:, 1]),
    "auxiliary": lambda x: losses.auxiliary(x[:6], x[6:12].detach(), MASK[:, 1]),
    "confidence": lambda x: losses.confidence(x[:6], x[6:12]),
    "load_balance": lambda x: losses.load_balance(torch.softmax(x.view(6, 20), dim=1), torch.ones(20) / 20),
    "project_conflict": lambda x: losses.project_conflict(x[:60], x[60:], F32),
    "priority": lambda x: losses.priority(x.view(30, 4).abs(), x.view(30, 4) > 0),
    "over_branches": lambda x: losses.over_branches(x.view(30, 4), x.view(30, 4) > 0, x[:30], F32),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_loss_is_one_graph_without_a_host_value(name: str) -> None:
    """Dynamo breaks a graph wherever Python looks at the value of a tensor, which a capture cannot do."""
    torch._dynamo.reset()
    explained = torch._dynamo.explain(CALLS[name])(randn(120).float().requires_grad_())
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
