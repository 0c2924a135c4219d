"""Shapes and dueling of the branching network, and the choice of masked actions."""

import pytest

torch = pytest.importorskip("torch")

from fox_agents.dqn.network import BranchingC51, greedy, taken  # noqa: E402

BRANCHES = (4, 3, 3, 3)


def network() -> BranchingC51:
    torch.manual_seed(0)
    return BranchingC51(128, BRANCHES, atoms=5, hidden=32)


def test_one_distribution_per_action() -> None:
    assert network()(torch.zeros(7, 128)).shape == (7, 13, 5)


def test_the_advantage_mean_is_taken_within_each_branch() -> None:
    net = network()
    with torch.no_grad():
        net.heads.weight[13 * 5 :] = 0.0  # the values follow the advantages
        net.heads.bias[13 * 5 :] = 0.0
    logits = net(torch.randn(7, 128))
    for part in logits.split(BRANCHES, dim=1):  # with no value, what is left of a branch sums to nothing
        torch.testing.assert_close(part.mean(dim=1), torch.zeros(7, 5), atol=1e-5, rtol=0.0)
        assert part.abs().max() > 1e-3


def test_a_branch_does_not_feel_another_ones_advantage() -> None:
    net, x = network(), torch.randn(3, 128)
    before = net(x)
    with torch.no_grad():
        net.heads.bias[:5] += 10.0  # first direction only
    after = net(x)
    assert not torch.allclose(before[:, :4], after[:, :4])
    assert torch.equal(before[:, 4:], after[:, 4:])


def test_greedy_obeys_the_masks() -> None:
    scores = torch.arange(13.0).repeat(2, 1)
    masks = torch.ones(2, 13, dtype=torch.bool)
    masks[1, 3] = masks[1, 12] = False
    assert greedy(scores, masks, BRANCHES).tolist() == [[3, 2, 2, 2], [2, 2, 2, 1]]


def test_taken_pairs_samples_with_branches() -> None:
    """Two samples and two branches, so that a transposed index could not raise."""
    values = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    got = taken(values, torch.tensor([[0, 0], [0, 0]]), torch.tensor([0, 2]))
    assert got.tolist() == [[1.0, 3.0], [5.0, 7.0]]
    target = torch.tensor([2.0, 6.0])
    assert ((got - target[:, None]) ** 2).mean().item() == 1.0
