"""The categorical projection and cross-entropy against values worked out by hand."""

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from fox_agents.dqn.c51 import cross_entropy, project, support, support_atoms  # noqa: E402

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


def by_loops(p: Tensor, reward: float, discount: float, source: Tensor, onto: Tensor) -> Tensor:
    """One distribution, atom by atom, in float64."""
    z = onto.double().tolist()
    result = torch.zeros(len(z), dtype=torch.float64)
    for mass, atom in zip(p.double().tolist(), source.double().tolist(), strict=True):
        x = min(max(reward + discount * atom, z[0]), z[-1])
        upper = next(j for j in range(1, len(z)) if x <= z[j])
        share = (x - z[upper - 1]) / (z[upper] - z[upper - 1])
        result[upper - 1] += mass * (1 - share)
        result[upper] += mass * share
    return result


UNEVEN = torch.tensor([2.0, 1.0, 3.0, 0.5])
BRANCHES = support(torch.tensor([-10.0, -5.0, -1.0, 99.0]), torch.tensor([10.0, 2.0, 4.0, 103.0]), 11, UNEVEN)


def test_projection_onto_other_and_uneven_atoms_agrees_with_the_definition() -> None:
    generator = torch.Generator().manual_seed(1)
    p = torch.softmax(2 * torch.randn(6, 21, generator=generator), dim=1)
    reward, discount = 3 * torch.randn(6, generator=generator), torch.rand(6, generator=generator)
    source = support_atoms(-6.0, 6.0, 21)
    got = project(p[:, None], reward[:, None], discount[:, None], source, BRANCHES)
    assert got.shape == (6, 4, 11)
    for row in range(6):
        for branch in range(4):
            expected = by_loops(p[row], reward[row].item(), discount[row].item(), source, BRANCHES[branch])
            torch.testing.assert_close(got[row, branch].double(), expected, atol=1e-6, rtol=0.0)


def test_uneven_atoms_on_atoms_keep_their_probability() -> None:
    p = torch.softmax(torch.arange(11.0), dim=0).expand(4, 11)
    got = project(p, torch.zeros(4), torch.ones(4), BRANCHES)
    torch.testing.assert_close(got, p, atol=1e-6, rtol=0.0)
    torch.testing.assert_close(got.sum(1), torch.ones(4), atol=1e-6, rtol=0.0)


def test_supports_may_differ_by_sample() -> None:
    p = torch.tensor([P, P])
    reward, discount = torch.tensor([0.5, 5.0]), torch.tensor([1.0, 1.0])
    atoms = torch.stack([support_atoms(-1.0, 1.0, 5), support_atoms(-10.0, 10.0, 5)])
    got = project(p, reward, discount, atoms)
    torch.testing.assert_close(got[0], torch.tensor([0.0, 0.1, 0.2, 0.4, 0.3]), atol=1e-6, rtol=0.0)
    torch.testing.assert_close(got[1], torch.tensor([0.0, 0.1, 0.2, 0.4, 0.3]), atol=1e-6, rtol=0.0)


def test_many_rows_are_projected_in_pieces_with_the_same_result() -> None:
    generator = torch.Generator().manual_seed(2)
    p = torch.softmax(torch.randn(5000, 11, generator=generator), dim=1)
    reward, discount = torch.randn(5000, generator=generator), torch.full((5000,), 0.98)
    atoms = support_atoms(-5.0, 5.0, 11)
    together = project(p, reward, discount, atoms)
    apart = torch.cat([project(p[i::2], reward[i::2], discount[i::2], atoms) for i in (0, 1)])
    torch.testing.assert_close(torch.cat([together[0::2], together[1::2]]), apart)


def test_support_has_exact_ends_and_even_or_denser_middle() -> None:
    low, high = torch.tensor([-0.3, 0.1]), torch.tensor([0.7, 1e3])
    even = support(low, high, 51)
    assert torch.equal(even[:, 0], low) and torch.equal(even[:, -1], high)
    torch.testing.assert_close(even[0], support_atoms(-0.3, 0.7, 51))
    dense = support(low, high, 51, torch.tensor([2.0, 1.0]))
    assert torch.equal(dense[:, 0], low) and torch.equal(dense[:, -1], high)
    torch.testing.assert_close(dense[1], even[1])
    gaps = dense[0].diff()
    assert bool((gaps > 0).all()) and gaps[24] < 0.1 * gaps[0]


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


def on_gpu(*arguments: Tensor) -> Tensor:
    """`project` by the kernel that a compiled agent uses."""
    compiled = torch.compile(project, fullgraph=True, dynamic=False)
    return compiled(*(tensor.cuda() for tensor in arguments))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("atoms", "targets"), [(51, 51), (5, 2), (2, 70)])
def test_a_gpu_projects_as_a_cpu_does(atoms: int, targets: int) -> None:
    generator = torch.Generator().manual_seed(0)
    source = torch.linspace(-2.0, 3.0, atoms)
    onto = torch.stack([torch.linspace(-1.5, 2.0, targets), torch.linspace(-0.1, 0.3, targets) ** 3])
    probabilities = torch.softmax(4.0 * torch.randn(77, 2, atoms, generator=generator), dim=-1)
    reward, discount = torch.randn(77, 2, generator=generator), torch.rand(77, 2, generator=generator)
    discount[:9] = 0.0
    reward[:4] = onto[:, -1]  # exactly on an atom
    arguments = probabilities, reward, discount, source, onto
    got = on_gpu(*arguments)
    torch.testing.assert_close(got.cpu(), project(*arguments), atol=1e-6, rtol=1e-5)
    assert torch.equal(got, on_gpu(*arguments))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_shows_places_and_atoms_that_are_no_numbers() -> None:
    nan = float("nan")
    p, discount = torch.full((4, 5), 0.2), torch.ones(4)
    reward = torch.tensor([0.0, nan, float("inf"), 0.0])
    source = torch.linspace(-1.0, 1.0, 5)
    onto = source.repeat(4, 1)
    onto[3] = nan
    arguments = p, reward, discount, source, onto
    got = on_gpu(*arguments)
    torch.testing.assert_close(got.cpu(), project(*arguments), equal_nan=True)
