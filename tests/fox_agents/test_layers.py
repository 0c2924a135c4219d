"""The layers one by one: noise, spectral normalisation, selection, gating, experts, gradients."""

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch.func import functional_call  # noqa: E402

from fox_agents.dqn.layers import (  # noqa: E402
    EnsembleHeads,
    GatedResidual,
    Linear,
    NoisyLinear,
    SoftMixture,
    VariableSelection,
    power_iteration,
)
from fox_agents.dqn.noise import FactorisedNoise  # noqa: E402


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def noise(inputs: int, outputs: int, groups: int = 1) -> FactorisedNoise:
    return FactorisedNoise(torch.randn(groups, inputs), torch.randn(groups, outputs))


def test_noisy_linear_is_the_formula_of_the_paper() -> None:
    """The noisy weight is mu + sigma * (outer product of the noise), the bias mu + sigma * output noise."""
    layer, x, e = NoisyLinear(5, 3), torch.randn(7, 5), noise(5, 3)
    torch.nn.init.normal_(layer.sigma_weight)
    torch.nn.init.normal_(layer.sigma_bias)
    weight = layer.weight + layer.sigma_weight * torch.outer(e.output[0], e.input[0])
    torch.testing.assert_close(layer(x, e), x @ weight.T + layer.bias + layer.sigma_bias * e.output[0])


def test_groups_give_each_row_the_noise_of_its_group() -> None:
    layer, x, e = NoisyLinear(5, 3), torch.randn(150, 5), noise(5, 3, groups=3)
    torch.nn.init.normal_(layer.sigma_weight)
    together = layer(x, e)
    for group, part in enumerate(x.split(64)):
        own = FactorisedNoise(e.input[group : group + 1], e.output[group : group + 1])
        torch.testing.assert_close(together[64 * group : 64 * group + 64], layer(part, own))


def test_without_noise_the_mean_weights_act_in_either_mode() -> None:
    layer, x = NoisyLinear(5, 3), torch.randn(7, 5)
    for mode in (True, False):
        layer.train(mode)
        assert torch.equal(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))


def test_sigmas_start_at_half_a_root_of_the_fan_in() -> None:
    layer = NoisyLinear(16, 3)
    assert layer.sigma_weight.unique().tolist() == [0.125]
    assert layer.sigma_bias.unique().tolist() == [0.125]


@pytest.mark.parametrize("groups", [1, 2])
def test_means_and_sigmas_get_gradients(groups: int) -> None:
    layer = NoisyLinear(5, 3)
    layer(torch.randn(70, 5), noise(5, 3, groups)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).all(), name


def test_noise_that_fits_another_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="2 groups does not fit 64 rows"):
        NoisyLinear(5, 3)(torch.randn(64, 5), noise(5, 3, groups=2))


@pytest.mark.parametrize("kind", [Linear, NoisyLinear])
def test_the_effective_weight_has_norm_one(kind: type[Linear]) -> None:
    layer = kind(40, 30, spectral=True)
    with torch.no_grad():
        layer.weight.mul_(7.0).add_(0.3 * torch.randn(30, 40))
    for _ in range(200):
        power_iteration([layer])
    norm = torch.linalg.matrix_norm(layer.effective_weight(), ord=2)
    assert norm.item() == pytest.approx(1.0, abs=1e-3)


def test_an_iteration_follows_a_weight_that_changes() -> None:
    """One iteration a step keeps up with small steps, as in training."""
    layer = Linear(40, 30, spectral=True)
    for _ in range(300):
        with torch.no_grad():
            layer.weight += 0.01 * torch.randn(30, 40)
        power_iteration([layer])
    assert torch.linalg.matrix_norm(layer.effective_weight(), ord=2).item() == pytest.approx(1.0, abs=0.03)


def test_a_new_normalised_layer_is_near_norm_one() -> None:
    norm = torch.linalg.matrix_norm(Linear(40, 30, spectral=True).effective_weight(), ord=2)
    assert norm.item() == pytest.approx(1.0, abs=0.1)


def test_the_scale_bounds_the_first_weights() -> None:
    layer = NoisyLinear(100, 50, scale=0.5)
    assert 0.049 < layer.weight.abs().max().item() <= 0.05
    assert layer.bias.abs().max().item() == 0.0


def test_forward_passes_do_not_move_the_singular_vectors() -> None:
    layer = Linear(5, 3, spectral=True)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    layer(torch.randn(7, 5)).sum().backward()
    assert before.keys() == {"weight", "bias", "left", "right"}
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name])


def test_power_iteration_leaves_plain_layers_alone_and_works_in_place() -> None:
    plain, layer = Linear(5, 3), Linear(5, 3, spectral=True)
    with torch.no_grad():
        layer.weight.normal_()
    address, before = layer.left.data_ptr(), layer.left.clone()
    power_iteration([plain, layer])
    assert plain.left is None
    assert layer.left.data_ptr() == address
    assert not torch.equal(layer.left, before)


def test_a_zero_weight_stays_finite() -> None:
    layer = Linear(5, 3, spectral=True)
    torch.nn.init.zeros_(layer.weight)
    power_iteration([layer])
    power_iteration([layer])
    layer(torch.randn(2, 5)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


def test_scaling_a_normalised_weight_changes_nothing_and_has_no_gradient() -> None:
    """W / sigma(W) does not depend on the length of W, so that the gradient is orthogonal to W."""
    layer, x = Linear(5, 3, spectral=True), torch.randn(7, 5)
    before = layer(x)
    before.square().sum().backward()
    assert (layer.weight.grad * layer.weight).sum().item() == pytest.approx(0.0, abs=1e-4)
    assert layer.weight.grad.abs().max().item() > 0.1
    with torch.no_grad():
        layer.weight *= 5.0
    torch.testing.assert_close(layer(x), before)


def test_uniform_selection_is_the_identity_and_the_start() -> None:
    selection, x = VariableSelection([2, 3, 4], 6), torch.randn(7, 9)
    selected, weights = selection(x)
    torch.testing.assert_close(weights, torch.full((7, 3), 1 / 3))
    torch.testing.assert_close(selected, x)


def test_selection_scales_whole_groups() -> None:
    selection, x = VariableSelection([2, 3, 4], 6), torch.randn(7, 9)
    torch.nn.init.normal_(selection.score.weight)
    selected, weights = selection(x)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(7))
    assert weights.std(dim=1).min() > 1e-3
    factor = 3 * weights.repeat_interleave(torch.tensor([2, 3, 4]), dim=1)
    torch.testing.assert_close(selected, x * factor)


@pytest.mark.parametrize("inputs", [5, 8])
def test_a_closed_gate_leaves_the_normalised_skip(inputs: int) -> None:
    block, x = GatedResidual(inputs, 8), torch.randn(7, inputs)
    with torch.no_grad():
        block.second.bias[8:] = -1e4
    skip = x if inputs == 8 else block.first(x)[:, :8]
    torch.testing.assert_close(block(x), torch.nn.functional.layer_norm(skip, (8,)))


def test_the_mixture_is_the_gated_sum_of_its_experts() -> None:
    mixture, h, x = SoftMixture(6, 9, 4, 3, 5), torch.randn(7, 6), torch.randn(7, 9)
    got, gate = mixture(h, x)
    torch.testing.assert_close(gate.sum(dim=1), torch.ones(7))
    assert gate.min() > 0.0
    want = h + mixture.up.bias
    for k in range(4):
        part = slice(3 * k, 3 * k + 3)
        inner = torch.relu(h @ mixture.down.weight[part].T + mixture.down.bias[part])
        want = want + gate[:, k : k + 1] * (inner @ mixture.up.weight[:, part].T)
    torch.testing.assert_close(got, want)


def test_the_gate_reads_the_state_alone() -> None:
    mixture, x = SoftMixture(6, 9, 4, 3, 5), torch.randn(7, 9)
    assert torch.equal(mixture(torch.randn(7, 6), x)[1], mixture(torch.randn(7, 6), x)[1])
    assert not torch.equal(mixture(torch.zeros(7, 6), x)[1], mixture(torch.zeros(7, 6), -x)[1])


def test_each_head_of_the_ensemble_has_its_own_weights() -> None:
    heads, h = EnsembleHeads(6, 5, 3, 4), torch.randn(7, 6)
    got = heads(h)
    inner = torch.relu(heads.first(h))
    for k in range(5):
        torch.testing.assert_close(
            got[:, k], inner[:, 3 * k : 3 * k + 3] @ heads.weight[k] + heads.bias[k, 0]
        )
    assert got.std(dim=1).min() > 0.0


def _modules() -> dict[str, tuple[torch.nn.Module, Callable[[], tuple]]]:
    return {
        "linear": (Linear(4, 3, spectral=True), lambda: (torch.randn(2, 4),)),
        "noisy": (NoisyLinear(4, 3, spectral=True), lambda: (torch.randn(2, 4), noise(4, 3))),
        "noisy groups": (NoisyLinear(4, 3), lambda: (torch.randn(66, 4), noise(4, 3, groups=2))),
        "selection": (VariableSelection([1, 3], 3), lambda: (torch.randn(2, 4),)),
        "residual": (GatedResidual(4, 4), lambda: (torch.randn(2, 4),)),
        "projected residual": (GatedResidual(4, 3, spectral=True), lambda: (torch.randn(2, 4),)),
        "mixture": (SoftMixture(4, 3, 2, 2, 3), lambda: (torch.randn(2, 4), torch.randn(2, 3))),
        "ensemble": (EnsembleHeads(4, 3, 2, 2), lambda: (torch.randn(2, 4),)),
    }


@pytest.mark.parametrize("name", list(_modules()))
def test_gradients_equal_finite_differences(name: str) -> None:
    torch.manual_seed(1)
    module, inputs = _modules()[name]
    module.double()
    torch.manual_seed(2)
    x, *rest = (
        FactorisedNoise(*(e.double() for e in i)) if isinstance(i, tuple) else i.double() for i in inputs()
    )
    names = [name for name, _ in module.named_parameters()]
    values = [p.detach().clone().requires_grad_() for p in module.parameters()]

    def call(x: torch.Tensor, *parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out = functional_call(module, dict(zip(names, parameters, strict=True)), (x, *rest))
        return out if isinstance(out, tuple) else (out,)

    assert torch.autograd.gradcheck(call, (x.requires_grad_(), *values), fast_mode=True)
