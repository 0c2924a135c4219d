"""The branching network: shapes, dueling, hidden inputs, noise in acting and evaluation, parts switched off."""

import copy
import dataclasses
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fox_agents.dqn.branching import BranchingNetwork, NetworkConfig, Outputs, feature_groups  # noqa: E402
from fox_agents.dqn.config import BDQConfig  # noqa: E402
from fox_agents.dqn.learner import network_config  # noqa: E402
from fox_agents.dqn.noise import Noise, Stream  # noqa: E402
from fox_agents.unseen import COUNTERS  # noqa: E402
from fox_env._layout import ACTION_BRANCHES, Observation  # noqa: E402

SMALL = NetworkConfig(
    hidden=16, atoms=5, quantiles=3, experts=2, expert_width=4, gate_width=4, ensemble=3, ensemble_width=4
)
PARTS = ("variable_selection", "gated", "mixture", "noisy", "ensemble_heads", "auxiliary", "confidence")


def network(config: NetworkConfig = SMALL, **changes: object) -> BranchingNetwork:
    torch.manual_seed(0)
    return BranchingNetwork(dataclasses.replace(config, **changes))


def observations(count: int = 7) -> torch.Tensor:
    return torch.randn(count, 128, generator=torch.Generator().manual_seed(1))


def draw(net: BranchingNetwork, counter: int = 0, **options: object) -> Noise:
    noise = net.draw_noise(5, torch.tensor(counter), **options)
    assert noise is not None
    return noise


def agree(first: Outputs, second: Outputs) -> bool:
    return all((a is None and b is None) or torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_shapes_of_the_default() -> None:
    out = network(NetworkConfig())(observations(3))
    shapes = [None if part is None else tuple(part.shape) for part in out]
    assert shapes == [(3, 13, 51), (3, 13, 32), (3, 5, 4), (3,), (3,), (3, 256), (3, 8), (3, 14)]
    assert out.confidence.min() >= 0.0


def test_the_groups_cover_the_observation_in_the_order_of_its_blocks() -> None:
    sizes = feature_groups()
    starts, start = {}, 0
    for name, size in sizes.items():
        assert size > 0
        starts[name], start = start, start + size
    assert start == Observation.SIZE
    assert starts["order_flow"] == Observation.ORDER_FLOW
    assert starts["bars_5"] == Observation.TIMEFRAMES
    assert starts["portfolio"] == Observation.PORTFOLIO
    assert starts["context"] == Observation.CONTEXT


@pytest.mark.parametrize("head", ["c51", "quantile"])
def test_the_advantage_mean_is_taken_within_each_branch(head: str) -> None:
    net = network()
    layer, width = getattr(net, head), SMALL.atoms if head == "c51" else SMALL.quantiles
    with torch.no_grad():
        layer.weight[13 * width :] = 0.0  # the values follow the advantages
    out = net(observations())
    logits = out.logits if head == "c51" else out.quantiles
    for part in logits.split(
        ACTION_BRANCHES, dim=1
    ):  # with no value, what is left of a branch sums to nothing
        torch.testing.assert_close(part.mean(dim=1), torch.zeros(7, width), atol=1e-6, rtol=0.0)
        assert part.abs().max() > 1e-3


@pytest.mark.parametrize("head", ["c51", "quantile"])
def test_a_branch_does_not_feel_another_ones_advantage_or_value(head: str) -> None:
    net, x = network(), observations()
    layer, width = getattr(net, head), SMALL.atoms if head == "c51" else SMALL.quantiles
    part = 0 if head == "c51" else 1
    for column, own in ((0, slice(0, 4)), (13 + 1, slice(4, 7)), (12, slice(10, 13))):
        before = net(x)[part]
        with torch.no_grad():
            layer.bias[width * column : width * (column + 1)] += 10.0
        after = net(x)[part]
        changed = (before != after).flatten(2).any(dim=2).any(dim=0)
        assert changed[own].all()
        assert changed.sum() == changed[own].sum()


def test_actions_start_nearly_equal_and_near_zero() -> None:
    out = network(NetworkConfig())(observations(64))
    probabilities = torch.softmax(out.logits, dim=-1)
    assert probabilities.sub(1 / 51).abs().max() < 0.5 / 51
    assert (probabilities * torch.linspace(-1.0, 1.0, 51)).sum(dim=-1).abs().max() < 0.1
    assert out.quantiles.abs().max() < 0.5
    assert out.ensemble.abs().max() < 0.5
    assert out.auxiliary.abs().max() < 0.5
    assert out.ensemble.std(dim=1).min() > 0.0  # the heads differ from the start


def test_hidden_inputs_change_nothing_and_others_do() -> None:
    net, x = network(), observations()
    y = x.clone()
    y[:, list(SMALL.ignored)] += 5.0
    assert agree(net(x), net(y))
    assert len(SMALL.ignored) == 4
    for index in (0, 41, 42, 86, 127):
        y = x.clone()
        y[:, index] += 5.0
        assert not torch.equal(net(x).logits, net(y).logits)


def test_evaluation_is_identical_and_uses_the_mean_weights() -> None:
    net, x = network(), observations()
    draw(net, 1)
    plain = network(noisy=False)
    plain.load_state_dict({k: v for k, v in net.state_dict().items() if "sigma" not in k})
    assert agree(net(x), net(x))
    assert agree(net(x), plain(x))
    assert agree(net.eval()(x), net.train()(x))


def test_acting_differs_after_another_counter_and_not_between() -> None:
    net, x = network(), observations()
    first, evaluated = net(x, draw(net, 1)), net(x)
    assert agree(first, net(x, draw(net, 1)))
    assert (first.logits != net(x, draw(net, 2)).logits).all()
    assert (first.logits != evaluated.logits).all()
    assert torch.equal(first.quantiles, evaluated.quantiles)  # the noise is that of the C51 heads


def test_online_target_and_acting_noise_are_separate() -> None:
    net, x = network(), observations()
    target = copy.deepcopy(net)
    online, behind, acting = (net(x, draw(net, 1, stream=s)).logits for s in Stream)
    assert (online != behind).all()
    assert (online != acting).all()
    assert torch.equal(behind, target(x, draw(target, 1, stream=Stream.TARGET)).logits)


def test_rows_of_one_group_share_noise_and_those_of_two_do_not() -> None:
    net = network()
    x = observations(1).repeat(130, 1)
    logits = net(x, draw(net, 1, groups=3)).logits
    for group in logits.split(64):
        torch.testing.assert_close(group, group[:1].expand_as(group), atol=1e-5, rtol=1e-5)
    assert (logits[0] - logits[64]).abs().min() > 1e-4
    assert (logits[64] - logits[128]).abs().min() > 1e-4
    shared = net(x[:64], draw(net, 1)).logits  # group 0 is the draw that a single group gives
    torch.testing.assert_close(logits[:64], shared, atol=1e-5, rtol=1e-5)


def test_gradients_reach_every_parameter() -> None:
    net = network(spectral="all")
    with torch.no_grad():
        net.selection.score.weight.normal_()
    out = net(observations(64), draw(net, 1))
    sum(part.square().sum() for part in out if part is not None).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0.0, name


def test_the_scale_multiplies_each_branchs_sigma() -> None:
    """Scale 0 silences a branch; the noise of a branch is linear in its scale."""
    net, x = network(), observations()
    mean, full = net(x).logits, net(x, draw(net, 1)).logits
    scale = torch.tensor([0.0, 1.0, 2.0, 0.5])
    scaled = net(x, draw(net, 1, scale=scale)).logits
    factors = scale.repeat_interleave(torch.tensor(ACTION_BRANCHES))[None, :, None]
    torch.testing.assert_close(scaled - mean, factors * (full - mean), atol=1e-5, rtol=1e-4)
    scale.fill_(1.0)  # in memory, as a controller does
    assert torch.equal(net(x, draw(net, 1, scale=scale)).logits, full)


@pytest.mark.parametrize(
    ("part", "output", "prefix"),
    [
        ("variable_selection", "selection", "selection."),
        ("mixture", "gate", "mixture."),
        ("ensemble_heads", "ensemble", "ensemble."),
        ("auxiliary", "auxiliary", None),
        ("confidence", "confidence", None),
        ("noisy", None, "c51.sigma"),
    ],
)
def test_a_part_switched_off_has_no_output_and_no_parameters(
    part: str, output: str | None, prefix: str | None
) -> None:
    net = network(**{part: False})
    out = net(observations())
    for name, value in out._asdict().items():
        assert (value is None) == (name == output), name
    if prefix is not None:
        assert any(name.startswith(prefix) for name, _ in network().named_parameters())
        assert not any(name.startswith(prefix) for name, _ in net.named_parameters())
    count = sum(p.numel() for p in net.parameters())
    assert count < sum(p.numel() for p in network().parameters())


def test_the_bare_network_is_a_plain_trunk_with_two_heads() -> None:
    bare = network(**dict.fromkeys(PARTS, False))
    hidden, columns = 16, 17 * (5 + 3)
    trunk = 128 * hidden + hidden * hidden + 2 * 3 * hidden
    assert sum(p.numel() for p in bare.parameters()) == trunk + columns * (hidden + 1)
    assert bare.draw_noise(5, torch.tensor(0)) is None
    assert bare(observations()).hidden.min() >= 0.0


def test_auxiliary_and_confidence_keep_their_meaning_alone() -> None:
    x = observations()
    for kept, other in (("auxiliary", "confidence"), ("confidence", "auxiliary")):
        net = network(**{other: False})
        with torch.no_grad():
            net.scalars.bias.fill_(-3.0)
            net.scalars.weight.zero_()
        value = getattr(net(x), kept)
        want = torch.tensor(-3.0) if kept == "auxiliary" else torch.nn.functional.softplus(torch.tensor(-3.0))
        torch.testing.assert_close(value, want.expand(7))


@pytest.mark.parametrize(
    ("spectral", "names"),
    [
        ("none", set()),
        (
            "trunk",
            {
                "trunk.0.first",
                "trunk.0.second",
                "trunk.1.first",
                "trunk.1.second",
                "mixture.down",
                "mixture.up",
            },
        ),
        ("heads", {"c51", "quantile"}),
    ],
)
def test_spectral_normalisation_of_the_chosen_layers(spectral: str, names: set[str]) -> None:
    net = network(spectral=spectral)
    chosen = {name.removesuffix(".left") for name, _ in net.named_buffers() if name.endswith(".left")}
    assert chosen == names
    every = network(spectral="all")
    assert names <= {name.removesuffix(".left") for name, _ in every.named_buffers()}
    for name in names:  # the first singular vectors belong to the first weights
        norm = torch.linalg.matrix_norm(net.get_submodule(name).effective_weight(), ord=2)
        assert norm.item() == pytest.approx(1.0, abs=0.15), name
    for _ in range(300):
        net.power_iteration()
    for name in names:
        norm = torch.linalg.matrix_norm(net.get_submodule(name).effective_weight(), ord=2)
        assert norm.item() == pytest.approx(1.0, abs=2e-3), name


def test_a_copy_iterates_its_own_singular_vectors() -> None:
    net = network(spectral="all")
    target = copy.deepcopy(net)
    with torch.no_grad():
        target.c51.weight.normal_()
    before = net.c51.left.clone()
    target.power_iteration()
    assert torch.equal(net.c51.left, before)
    assert not torch.equal(target.c51.left, before)


def test_evaluation_is_the_same_after_saving_and_loading() -> None:
    net, x = network(spectral="all"), observations()
    net.power_iteration()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    evaluated, acted = net(x), net(x, draw(net, 3))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    torch.manual_seed(9)
    other = BranchingNetwork(net.config)
    other(x, draw(other, 8))
    other.load_state_dict(before)
    assert agree(other(x), evaluated)
    assert agree(other(x, draw(other, 3)), acted)


def test_rows_do_not_depend_on_the_rest_of_the_batch() -> None:
    net, x = network(NetworkConfig(spectral="all")), observations(20)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(2))
    noise = draw(net, 1)
    whole = net(x, noise)
    for whole_part, permuted, one in zip(whole, net(x[order], noise), net(x[3:4], noise), strict=True):
        torch.testing.assert_close(permuted, whole_part[order], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(one, whole_part[3:4], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("spectral", ["none", "all"])
def test_gradients_equal_finite_differences(spectral: str) -> None:
    net = network(spectral=spectral).double()
    x = observations(2).double().requires_grad_()
    noise = draw(net, 1)
    assert noise[0].input.dtype == torch.float64
    assert torch.autograd.gradcheck(lambda x: tuple(net(x, noise)), (x,), fast_mode=True)


@pytest.mark.parametrize(
    "config", [SMALL, dataclasses.replace(SMALL, **dict.fromkeys(PARTS, False), spectral="all")]
)
@pytest.mark.parametrize("groups", [1, 2])
def test_the_network_with_its_noise_is_one_graph(config: NetworkConfig, groups: int) -> None:
    net, scale = network(config), torch.ones(4)

    def act(x: torch.Tensor, counter: torch.Tensor) -> Outputs:
        return net(x, net.draw_noise(5, counter, groups=groups, stream=Stream.ACTING, scale=scale))

    torch._dynamo.reset()
    traced = torch.compile(act, backend="eager", fullgraph=True)
    for counter in (1, 2):
        x, c = observations(70), torch.tensor(counter)
        for joined, plain in zip(traced(x, c), act(x, c), strict=True):
            torch.testing.assert_close(joined, plain, atol=1e-6, rtol=1e-5)
    assert torch._dynamo.explain(act)(observations(70), torch.tensor(3)).graph_break_count == 0


@pytest.mark.parametrize(
    "config", [SMALL, dataclasses.replace(SMALL, **dict.fromkeys(PARTS, False), spectral="all")]
)
def test_heads_with_the_dueling_combination_worked_in_give_the_same(config: NetworkConfig) -> None:
    net, x, after = network(config), observations(5), observations(6)[1:]
    noise = net.draw_noise(5, torch.tensor(1))
    expected, following = net(x, noise), net(after, noise)
    heads = net.heads(noise)
    part = heads.first(4, config.atoms, config.quantiles)
    for again, direct in zip(part[:2], net.heads(noise, 4)[:2], strict=True):
        torch.testing.assert_close(again, direct)
    torch._dynamo.reset()
    for pair in (net.paired, torch.compile(net.paired, backend="eager", fullgraph=True)):
        outputs, found = pair(x, heads, after, part)
        for got, wanted in zip(outputs, expected, strict=True):
            torch.testing.assert_close(got, wanted, atol=1e-6, rtol=1e-4)
        for got, wanted in zip(found[:2], (following.logits, following.quantiles), strict=True):
            torch.testing.assert_close(got, wanted[:, :4], atol=1e-6, rtol=1e-4)
            assert not got.requires_grad
        torch.testing.assert_close(found.hidden, following.hidden)


def test_inputs_that_do_not_fit_are_refused() -> None:
    net = network()
    for bad in (torch.zeros(128), torch.zeros(2, 127), torch.zeros(2, 1, 128)):
        with pytest.raises(ValueError, match=r"observations must be \(B, 128\)"):
            net(bad)
    with pytest.raises(ValueError, match=r"must be torch.float32 as the weights, not torch.float64"):
        net(torch.zeros(2, 128, dtype=torch.float64))
    with pytest.raises(ValueError, match="no noisy layers"):
        network(noisy=False)(observations(), draw(net))
    with pytest.raises(ValueError, match="2 groups does not fit 7 rows"):
        net(observations(), draw(net, groups=2))


@pytest.mark.parametrize(
    ("field", "value"), [("hidden", 0), ("experts", -1), ("spectral", "some"), ("ignored", (128,))]
)
def test_settings_out_of_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        NetworkConfig(**{field: value})


def test_a_configuration_asks_for_the_network_by_the_names_that_checkpoints_keep() -> None:
    """A checkpoint of another network is refused by these; the default agent's network is the default one."""
    assert network_config(BDQConfig()) == NetworkConfig()
    chosen: dict[str, Any] = {
        "hidden": 8, "atoms": 11, "quantiles": 5, "experts": 2, "expert_width": 3, "gate_width": 4,
        "ensemble_width": 6, "variable_selection": False, "gated": False, "mixture": False, "noisy": False,
        "spectral": "heads",
    }  # fmt: skip
    others: dict[str, Any] = {"ensemble_heads": 7, "auxiliary": "off", "confidence": "measure"}
    assert dataclasses.asdict(network_config(BDQConfig(**chosen, **others))) == {
        **chosen, "ensemble": 7, "ensemble_heads": True, "auxiliary": False, "confidence": True, "ignored": COUNTERS,
    }  # fmt: skip
