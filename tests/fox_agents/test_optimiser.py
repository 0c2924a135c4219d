"""The flat optimiser against torch's AdamW in float64: groups, clipping, the gate, and the views that it makes."""

import copy

import pytest

torch = pytest.importorskip("torch")

from small_batches import START, learner, random_batch  # noqa: E402
from torch import nn  # noqa: E402

from fox_agents.dqn.learner import _GROUPS as PARTS  # noqa: E402
from fox_agents.dqn.optimiser import FlatAdamW, Rates, flatten, parameter_groups  # noqa: E402
from fox_agents.dqn.signals import GROUPS  # noqa: E402

TRUE, FALSE = torch.tensor(True), torch.tensor(False)
DECAY, BETA1, BETA2, EPSILON = (0.3, 0.0), (0.9, 0.5), (0.99, 0.999), (1e-3, 1e-5)


def module() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def rates(lr: float = 1e-2, bound: float = 1e9) -> Rates:
    values = ((lr,), (bound,), DECAY, BETA1, BETA2, EPSILON)
    return Rates(*(torch.tensor(value) for value in values))


def double_adamw(like: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A float64 copy and its optimiser, the second layer in a group of its own."""
    other = copy.deepcopy(like).double()
    layers = (other.get_submodule("0"), other.get_submodule("2"))
    groups = [
        {
            "params": layer.parameters(), "weight_decay": DECAY[i], "betas": (BETA1[i], BETA2[i]), "eps": EPSILON[i]
        }
        for i, layer in enumerate(layers)
    ]  # fmt: skip
    return other, torch.optim.AdamW(groups, lr=1e-2)


def loss_of(model: nn.Module, data: "torch.Tensor") -> "torch.Tensor":
    loss: torch.Tensor = model(data.to(next(model.parameters()).dtype)).square().sum(1).mean()
    return loss


def gradient_of(model: nn.Module, data: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
    return torch.autograd.grad(loss_of(model, data), list(model.parameters()))


@pytest.mark.parametrize("bound", [1e9, 0.05])
def test_steps_equal_adamw_with_a_clipped_norm(bound: float) -> None:
    ours = module()
    theirs, adamw = double_adamw(ours)
    flat = FlatAdamW(ours, parameter_groups(ours, ["0."]))
    clipped = 0
    for step in range(20):
        data = torch.randn(16, 5, generator=torch.Generator().manual_seed(step))
        adamw.zero_grad()
        flat.collect(gradient_of(ours, data), add=False)
        torch.autograd.backward(loss_of(theirs, data))
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), bound)
        norm = flat.step(rates(bound=bound), TRUE)
        adamw.step()
        assert norm.item() == pytest.approx(expected.item(), rel=1e-5)
        clipped += norm.item() > bound
    assert clipped > 5 if bound < 1.0 else clipped == 0
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.double(), other, atol=1e-6, rtol=1e-5)


def test_a_closed_gate_changes_nothing_whatever_the_gradient() -> None:
    ours = module()
    flat = FlatAdamW(ours, parameter_groups(ours, ["0."]))
    flat.collect(gradient_of(ours, torch.ones(4, 5)), add=False)
    flat.step(rates(), TRUE)
    before = [t.clone() for t in (flat.parameters, flat.moment1, flat.moment2, flat.updates)]
    for bad in (float("nan"), float("inf"), 1.0):
        flat.gradient.fill_(bad)
        flat.step(rates(), FALSE)
        now = (flat.parameters, flat.moment1, flat.moment2, flat.updates)
        assert all(torch.equal(a, b) for a, b in zip(before, now, strict=True))
    flat.step(rates(), TRUE)
    assert not torch.equal(flat.parameters, before[0]) and flat.updates == 2.0


def test_rates_are_read_at_the_step() -> None:
    """As a captured graph needs: the same tensors with other values."""
    flat, knobs = FlatAdamW(module(), [0, 0, 1, 1]), rates(lr=0.0)
    flat.gradient.fill_(1.0)
    before = flat.parameters.clone()
    flat.step(knobs, TRUE)
    assert torch.equal(flat.parameters, before)
    knobs.lr.fill_(1e-2)
    flat.step(knobs, TRUE)
    assert not torch.equal(flat.parameters, before)


def test_parameters_are_views_of_the_flat_vector() -> None:
    ours = module()
    initial = [parameter.detach().clone() for parameter in ours.parameters()]
    flat = FlatAdamW(ours)
    assert all(torch.equal(a, b) for a, b in zip(initial, ours.parameters(), strict=True))
    flat.parameters.fill_(2.0)
    assert all(bool((parameter == 2.0).all()) for parameter in ours.parameters())
    assert all(
        parameter.data_ptr() % 256 == flat.parameters.data_ptr() % 256 for parameter in ours.parameters()
    )


def test_gradients_are_collected_and_added_in_the_place_of_their_parameters() -> None:
    ours = module()
    flat = FlatAdamW(ours)
    own = gradient_of(ours, torch.ones(2, 5))
    for add, times in ((False, 1.0), (True, 2.0), (False, 1.0)):
        flat.collect(own, add=add)
        flat.parameters.copy_(flat.gradient)
        assert all(torch.equal(p, times * g) for p, g in zip(ours.parameters(), own, strict=True))


def test_flat_vectors_of_equal_modules_line_up() -> None:
    """So that one vector operation is a Polyak step of every layer."""
    one, other = module(), module()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    slow, fast = flatten(one), flatten(other)
    slow.lerp_(fast, 0.25)
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs - 0.75)


def test_a_parameter_belongs_to_the_first_prefix_that_fits() -> None:
    assert parameter_groups(module(), ["2.w", "0.", "0.bias"]) == [1, 1, 0, 3]


def test_the_network_has_parameters_in_every_group_of_the_signals() -> None:
    groups = parameter_groups(learner().network, PARTS)
    assert set(groups) == set(range(GROUPS))


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_groups_rate_moves_its_parameters_alone(group: int) -> None:
    """Where no sample weighs anything, decay is all that moves a weight."""
    made, batch = learner(), random_batch()
    made.bus.view("weight_decay")[group] = 0.5
    before = {name: parameter.detach().clone() for name, parameter in made.network.named_parameters()}
    made.update([batch._replace(weight=torch.zeros_like(batch.weight))], START)
    groups = parameter_groups(made.network, PARTS)
    for (name, parameter), own in zip(made.network.named_parameters(), groups, strict=True):
        moved = not torch.equal(parameter, before[name])
        assert moved == (own == group and bool(before[name].any())), name
