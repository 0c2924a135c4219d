"""The priority tree: exact sums, exact draws, importance weights, stale updates, duplicates, repeatability."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fox_agents.dqn.priorities import PrioritySum  # noqa: E402

CPU = torch.device("cpu")
ONE = 2**24
ALPHA1 = torch.tensor(1.0)


def add(tree: PrioritySum, index: Any, alpha: Any) -> None:
    """Give new rows their priority."""
    tree.set(index, tree.fresh(alpha).expand(index.shape))


def ints(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int64)


def uniform(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float64)


def filled(priorities: list[float], alpha: float = 1.0) -> PrioritySum:
    tree = PrioritySum(len(priorities), CPU, epsilon=0.0)
    index = torch.arange(len(priorities))
    tree.set(index, tree.to_fixed(torch.tensor(priorities), torch.tensor(alpha)))
    return tree


def check_sums(tree: PrioritySum) -> None:
    """Every node is the sum of its group, in Python's and NumPy's arithmetic."""
    tensors = {name: t.numpy() for name, t in tree.tensors().items()}
    levels = [tensors[f"level{k}"] for k in range(sum(name.startswith("level") for name in tensors))]
    for below, above in pairwise(levels):
        groups = below.reshape(-1, 1 << tree._bits)
        np.testing.assert_array_equal(above[: len(groups)], groups.sum(axis=1))
        assert not above[len(groups) :].any()
    np.testing.assert_array_equal(tensors["before"], np.concatenate([[0], np.cumsum(levels[-1])]))
    leaves = tree.leaves.numpy()
    assert int(tree.total) == leaves.sum()
    assert tensors["smallest"].min() == leaves[leaves > 0].min()
    assert not levels[0][tree.capacity :].any()


# --- E1: an update that comes too late


@pytest.mark.parametrize(("overwritten", "total"), [(True, 4.0), (False, 3.01)])
def test_an_update_for_an_overwritten_row_is_dropped(overwritten: bool, total: float) -> None:
    tree, stamps = filled([1.0] * 4), ints(7, 7, 7, 7)
    taken = stamps[:1].clone()
    if overwritten:
        stamps[0] += 1
        add(tree, ints(0), ALPHA1)
    tree.update(ints(0), taken, stamps, torch.tensor([0.01]), ALPHA1)
    assert int(tree.total) / ONE == pytest.approx(total, rel=1e-7)
    check_sums(tree)


def test_a_dropped_update_neither_raises_the_largest_priority_nor_hits_its_neighbours() -> None:
    tree, stamps = filled([1.0] * 4), ints(1, 1, 1, 1)
    tree.update(ints(0, 2), ints(0, 1), stamps, torch.tensor([9.0, 3.0]), ALPHA1)
    assert tree.leaves.tolist() == [ONE, ONE, 3 * ONE, ONE]
    assert float(tree.max_priority) == 3.0
    add(tree, ints(1), ALPHA1)
    assert tree.leaves.tolist() == [ONE, 3 * ONE, 3 * ONE, ONE]


@pytest.mark.parametrize("order", [(0.5, 0.9), (0.9, 0.5)])
def test_of_several_priorities_for_one_row_the_largest_counts(order: tuple[float, float]) -> None:
    tree, stamps = filled([1.0] * 4), ints(0, 0, 0, 0)
    tree.update(ints(2, 2), ints(0, 0), stamps, torch.tensor(order), ALPHA1)
    assert int(tree.leaves[2]) / ONE == pytest.approx(0.9, rel=1e-7)
    check_sums(tree)


# --- E2: importance weights


@pytest.mark.parametrize(
    ("alpha", "beta", "weights"),
    [
        (1.0, 1.0, [1, 0.5, 1 / 3, 0.25]),
        (1.0, 0.4, [1, 0.75785828, 0.64439401, 0.57434918]),
        (0.6, 0.4, [1, 0.84674531, 0.76822936, 0.71697762]),
    ],
)
def test_weights_are_normalised_by_the_buffer(alpha: float, beta: float, weights: list[float]) -> None:
    tree = filled([1.0, 2.0, 3.0, 4.0], alpha)
    every = tree.weights(torch.arange(4), torch.tensor(beta))
    assert every.dtype == torch.float32
    assert every.tolist() == pytest.approx(weights, rel=1e-6)
    some = tree.weights(ints(1, 3), torch.tensor(beta))  # not by the batch, whose largest would be 1
    assert some.tolist() == pytest.approx([weights[1], weights[3]], rel=1e-6)
    assert (tree.leaves / tree.total).tolist() == pytest.approx(
        [0.1, 0.2, 0.3, 0.4] if alpha == 1 else [0.1482295, 0.22467391, 0.28655461, 0.34054197], rel=1e-6
    )


def test_weights_follow_the_smallest_priority_when_it_rises_or_leaves() -> None:
    tree = filled([1.0, 2.0, 4.0])
    tree.set(ints(0), ints(2 * ONE))
    assert tree.weights(torch.arange(3), ALPHA1).tolist() == [1.0, 1.0, 0.5]
    tree.set(ints(0, 1), ints(0, 0))
    assert tree.weights(ints(2), ALPHA1).tolist() == [1.0]


# --- sums and draws


@pytest.mark.parametrize(
    ("capacity", "batch"), [(1, 1), (7, 3), (1000, 5), (1000, 64), (70_000, 20), (70_000, 5000)]
)
def test_sums_are_exact_after_random_writes(capacity: int, batch: int) -> None:
    rng = np.random.default_rng(capacity + batch)
    tree, expected = PrioritySum(capacity, CPU), np.zeros(capacity, np.int64)
    for _ in range(10):
        index = rng.integers(0, capacity, batch)
        value = rng.integers(1, tree.limit, batch, endpoint=True) * (rng.random(batch) < 0.8)
        value[0] = max(value[0], 1)
        expected[index] = 0
        np.maximum.at(expected, index, value)
        tree.set(torch.from_numpy(index), torch.from_numpy(value))
        np.testing.assert_array_equal(tree.leaves.numpy(), expected)
        if expected.any():
            check_sums(tree)


@pytest.mark.parametrize("capacity", [1, 5, 4096, 100_000])
def test_a_draw_is_the_slot_whose_share_holds_the_point(capacity: int) -> None:
    rng = np.random.default_rng(1)
    tree = PrioritySum(capacity, CPU)
    value = rng.integers(0, 50, capacity) * (rng.random(capacity) < 0.3)
    value[capacity // 2] = 1
    tree.set(torch.arange(capacity), torch.from_numpy(value))
    u = rng.random(256)
    total = int(value.sum())
    points = ((np.arange(256) + u) * total / 256).astype(np.int64)
    expected = np.searchsorted(np.cumsum(value), points, side="right")
    np.testing.assert_array_equal(tree.sample(torch.from_numpy(u)).numpy(), expected)


@pytest.mark.parametrize("slot", [0, 1, 499, 998, 999])
@pytest.mark.parametrize("value", [1, 2**40])
def test_the_only_slot_with_a_priority_is_always_drawn(slot: int, value: int) -> None:
    tree = PrioritySum(1000, CPU)
    tree.set(ints(slot), ints(value))
    u = uniform(0.0, 0.5, 1 - 2**-53, 0.0, 1 - 2**-53)
    assert tree.sample(u).tolist() == [slot] * 5


def test_a_slot_without_priority_is_never_drawn_at_the_largest_total() -> None:
    capacity = 1000
    tree = PrioritySum(capacity, CPU)
    full = torch.full((capacity,), 2**62 // capacity)
    full[::2] = 0
    tree.set(torch.arange(capacity), full * 2 - (full > 0).long())  # odd values, total just below 2^62
    assert 2**61 < int(tree.total) < 2**62
    for u in (0.0, 0.3, 1 - 2**-53):
        drawn = tree.sample(torch.full((4096,), u, dtype=torch.float64))
        assert bool((drawn % 2 == 1).all())
    assert tree.sample(uniform(1 - 2**-53)).tolist() == [999]


def test_frequencies_are_proportional() -> None:
    """Pearson's chi-square against the exact probabilities, 63 degrees of freedom: mean 63, 99.99 % point 113."""
    rng = np.random.default_rng(3)
    tree = PrioritySum(64, CPU)
    value = rng.integers(1, 1000, 64)
    tree.set(torch.arange(64), torch.from_numpy(value))
    draws = 200_000
    single = [tree.sample(u) for u in torch.from_numpy(rng.random((draws // 1000, 1000)))]
    counts = np.bincount(torch.cat(single).numpy(), minlength=64)
    expected = draws * value / value.sum()
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < 113
    # Stratified: every thousand draws hold each slot within one of its share on either side.
    first = np.bincount(single[0].numpy(), minlength=64)
    assert np.abs(first - 1000 * value / value.sum()).max() < 2


def test_sixteen_million_slots() -> None:
    capacity = 2**24
    tree = PrioritySum(capacity, CPU)
    tree.set(torch.arange(capacity), torch.full((capacity,), tree.limit))
    assert int(tree.total) == 2**62
    assert tree.sample(uniform(0.0, 0.0, 1 - 2**-53)).tolist() == [0, capacity // 3, capacity - 1]
    tree.set(torch.arange(capacity), torch.zeros((), dtype=torch.int64).expand(capacity))
    slots = ints(3, 2**20, 2**23 + 1, capacity - 1)
    tree.set(slots, ints(1, 1, 1, 1))
    check_sums(tree)
    assert tree.sample(uniform(0.5, 0.0, 0.0, 1 - 2**-53)).tolist() == slots.tolist()


# --- fixed point


def test_integers_of_priorities() -> None:
    tree = PrioritySum(2**20, CPU)
    wanted = ((np.array([0.0, 1e-3, 1.0, 50.0]) + 1e-6) ** 0.5 * ONE).round()
    assert tree.to_fixed(torch.tensor([0.0, 1e-3, 1.0, 50.0]), torch.tensor(0.5)).tolist() == pytest.approx(
        wanted, rel=1e-6
    )
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), -3.0, 0.0])
    assert tree.to_fixed(odd, ALPHA1).tolist() == [17] * 5
    assert tree.to_fixed(torch.tensor([1e30]), ALPHA1).tolist() == [tree.limit]
    assert filled([0.0, 5.0]).leaves.tolist() == [1, 5 * ONE]  # never out of the draw


def test_the_spread_leaves_out_slots_without_priority() -> None:
    tree = filled([4.0, 0.5, 3.0])
    assert tree.spread().tolist() == [0.5, 4.0]
    tree.set(ints(1), ints(0))
    assert tree.spread().tolist() == [3.0, 4.0]


@pytest.mark.parametrize("capacity", [1, 3, 1000, 2**20])
def test_the_largest_total_fits_into_an_integer(capacity: int) -> None:
    assert PrioritySum(capacity, CPU).limit * capacity <= 2**62


def test_no_exponent_means_uniform() -> None:
    tree = PrioritySum(3, CPU)
    assert tree.to_fixed(torch.tensor([0.0, 1.0, 1000.0]), torch.tensor(0.0)).tolist() == [ONE] * 3


def test_an_infinite_error_does_not_become_the_priority_of_new_rows() -> None:
    tree, stamps = filled([1.0] * 3), ints(0, 0, 0)
    errors = torch.tensor([float("inf"), float("nan"), 2.0])
    tree.update(ints(0, 1, 2), stamps, stamps, errors, ALPHA1)
    assert float(tree.max_priority) == 2.0
    tree.update(ints(0), ints(0), stamps, torch.tensor([0.5]), ALPHA1)
    assert float(tree.max_priority) == 2.0  # the largest ever, not of the last batch


# --- repeatability


def life(device: Any, tree: PrioritySum, rounds: int) -> Any:
    """Draws of a run that samples, updates and overwrites."""
    generator = torch.Generator().manual_seed(5)
    stamps = torch.zeros(tree.capacity, dtype=torch.int64, device=device)
    alpha, drawn = torch.tensor(0.6, device=device), []
    add(tree, torch.arange(tree.capacity, device=device), alpha)
    for _ in range(rounds):
        index = tree.sample(torch.rand(64, dtype=torch.float64, generator=generator).to(device))
        written = torch.randint(tree.capacity, (32,), generator=generator).to(device)
        sampled_stamps = stamps[index]
        stamps[written] += 1
        add(tree, written, alpha)
        error = torch.randint(1, 9, (64,), generator=generator).float().to(device)
        tree.update(index, sampled_stamps, stamps, error, alpha)
        drawn.append(index.cpu())
    return torch.stack(drawn)


def test_two_runs_are_equal_and_a_restored_tree_goes_on() -> None:
    first, second = PrioritySum(5000, CPU), PrioritySum(5000, CPU)
    assert torch.equal(life(CPU, first, 20), life(CPU, second, 20))
    copy = PrioritySum(5000, CPU)
    for name, tensor in copy.tensors().items():
        tensor.copy_(first.tensors()[name])
    u = torch.rand(64, dtype=torch.float64)
    assert torch.equal(copy.sample(u), first.sample(u))
    for tree in (copy, first):
        add(tree, ints(3, 4999), ALPHA1)
    assert all(torch.equal(t, first.tensors()[name]) for name, t in copy.tensors().items())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("capacity", [5000, 2**22 + 1])
def test_a_gpu_draws_what_the_cpu_draws(capacity: int) -> None:
    gpu = torch.device("cuda")
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        on_gpu, on_cpu = PrioritySum(capacity, gpu), PrioritySum(capacity, CPU)
        assert torch.equal(life(gpu, on_gpu, 20), life(CPU, on_cpu, 20))
        assert torch.equal(on_gpu.leaves.cpu(), on_cpu.leaves)
    finally:
        torch.use_deterministic_algorithms(before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_the_tree_works_inside_a_captured_graph() -> None:
    gpu = torch.device("cuda")
    tree, alpha = PrioritySum(1000, gpu), torch.tensor(1.0, device=gpu)
    slots, u = torch.arange(4, device=gpu), torch.full((8,), 0.5, dtype=torch.float64, device=gpu)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        add(tree, slots, alpha)
        tree.sample(u)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add(tree, slots, alpha)
        drawn = tree.sample(u)
        weights = tree.weights(drawn, alpha)
    slots.add_(10)
    graph.replay()
    assert drawn.tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    assert weights.tolist() == [1.0] * 8
