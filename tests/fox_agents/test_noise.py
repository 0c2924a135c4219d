"""Counter-based normals: known answers of the hash, dependence on every part of the key, and statistics."""

import math

import pytest

torch = pytest.importorskip("torch")

from fox_agents.dqn import noise  # noqa: E402
from fox_agents.dqn.noise import Stream, element_keys, factorised, rows, standard_normal  # noqa: E402

KEYS = element_keys([700, 423])


def draw(
    counter: int, seed: int = 3, groups: int = 1, stream: Stream = Stream.ONLINE, keys: torch.Tensor = KEYS
) -> torch.Tensor:
    return standard_normal(keys, seed, torch.tensor(counter), groups, stream)


def test_the_hash_gives_the_published_sequence_of_splitmix64() -> None:
    """First outputs for the seeds 0 and 1234567, as the reference implementation in C gives them."""
    step = noise._INCREMENT
    assert noise._mix_integer(step) == 0xE220A8397B1DCDAF
    got = [noise._mix_integer((1234567 + n * step) % 2**64) for n in (1, 2, 3)]
    assert got == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_tensors_and_integers_hash_alike() -> None:
    values = [0, 1, -1, 2**63 - 1, -(2**63), 0x123456789ABCDEF, -987654321987654321]
    hashed = noise._mix(torch.tensor(values)).tolist()
    assert [h % 2**64 for h in hashed] == [noise._mix_integer(v % 2**64) for v in values]


def test_the_same_key_gives_the_same_bits() -> None:
    assert torch.equal(draw(7), draw(7))
    assert torch.equal(draw(2**42), draw(2**42))


@pytest.mark.parametrize(
    "other",
    [
        draw(8),
        draw(7 + 2**32),
        draw(7, seed=4),
        draw(7, seed=3 + 2**40),
        draw(7, stream=Stream.TARGET),
        draw(7, stream=Stream.ACTING),
        draw(7, groups=2)[1:],
        draw(7).roll(1, dims=1),
    ],
    ids=["counter", "high counter", "seed", "high seed", "target", "acting", "group", "element"],
)
def test_every_part_of_the_key_matters(other: torch.Tensor) -> None:
    same = (draw(7) == other).float().mean().item()
    assert same < 0.01


def test_layers_differ_and_do_not_depend_on_the_ones_behind() -> None:
    first, second = element_keys([300, 300]).split(300)
    assert not bool(torch.isin(first, second).any())
    assert torch.equal(first, element_keys([300]))


def test_a_group_does_not_depend_on_how_many_there_are() -> None:
    assert torch.equal(draw(7, groups=3), draw(7, groups=5)[:3])


def test_a_counter_changed_in_memory_gives_another_draw() -> None:
    counter = torch.tensor(7)
    before = standard_normal(KEYS, 3, counter)
    counter += 1
    assert torch.equal(standard_normal(KEYS, 3, counter), draw(8))
    assert not torch.equal(standard_normal(KEYS, 3, counter), before)


def test_the_values_are_standard_normal() -> None:
    x = torch.cat([draw(c) for c in range(400)]).double().flatten()
    n = x.numel()
    assert abs(x.mean().item()) < 4.0 / math.sqrt(n)
    assert abs(x.var().item() - 1.0) < 4.0 * math.sqrt(2.0 / n)
    assert abs((x**3).mean().item()) < 4.0 * math.sqrt(15.0 / n)
    assert abs((x**4).mean().item() - 3.0) < 4.0 * math.sqrt(96.0 / n)
    cdf = torch.special.ndtr(x.sort().values)
    distance = (cdf - (torch.arange(n) + 0.5) / n).abs().max().item()
    assert distance < 1.95 / math.sqrt(n)  # Kolmogorov, p = 0.001
    assert 4.0 < x.abs().max().item() < 5.5


@pytest.mark.parametrize("between", ["counters", "groups", "seeds", "streams", "layers", "elements"])
def test_neighbouring_keys_are_uncorrelated(between: str) -> None:
    """40 neighbours of 2000 draws each: correlations of values and of magnitudes stay within chance."""
    keys = element_keys([2000])
    if between == "counters":
        x = torch.cat([draw(c, keys=keys) for c in range(40)])
    elif between == "groups":
        x = draw(5, groups=40, keys=keys)
    elif between == "seeds":
        x = torch.cat([draw(5, seed=s, keys=keys) for s in range(40)])
    elif between == "streams":
        x = torch.cat([draw(5, stream=s, keys=keys) for s in Stream])
    elif between == "layers":
        x = draw(5, keys=element_keys([2000] * 40)).view(40, 2000)
    else:
        x = draw(5, groups=2000, keys=element_keys([40])).t()
    for values in (x, x.abs()):
        correlation = torch.corrcoef(values.double())
        assert (correlation - torch.eye(len(x))).abs().max().item() < 5.0 / math.sqrt(2000)


def test_factorised_noise_is_the_signed_root_split_by_layer() -> None:
    normals = torch.tensor([[4.0, -9.0, 0.25, -1.0, 16.0, -0.0]])
    first, second = factorised([(1, 2), (2, 1)], normals, [torch.tensor([1.0, 2.0]), None])
    assert first.input.tolist() == [[2.0]]
    assert first.output.tolist() == [[-3.0, 1.0]]  # 0.5 times its scale of 2
    assert second.input.tolist() == [[-1.0, 4.0]]
    assert second.output.tolist() == [[0.0]]


def test_rows_of_a_group_share_its_noise() -> None:
    values = torch.arange(3.0)[:, None]
    assert rows(values, 130).flatten().tolist() == [0.0] * 64 + [1.0] * 64 + [2.0] * 2
    assert rows(values[:1], 130).shape == (1, 1)
    with pytest.raises(ValueError, match="3 groups does not fit 128 rows"):
        rows(values, 128)


def test_a_draw_in_float64_is_as_fine_as_one_in_float32() -> None:
    single, double = draw(7), standard_normal(KEYS, 3, torch.tensor(7), dtype=torch.float64)
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=1e-4)


def test_arguments_that_do_not_fit_are_refused() -> None:
    for counter in (torch.tensor(1, dtype=torch.int32), torch.tensor([1]), torch.tensor(1.0)):
        with pytest.raises(ValueError, match="counter must be a"):
            standard_normal(KEYS, 3, counter)
    for groups in (0, 2**20 + 1):
        with pytest.raises(ValueError, match="groups must be"):
            draw(1, groups=groups)
