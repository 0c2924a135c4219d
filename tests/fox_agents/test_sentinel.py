"""Flags of tensors that are not finite: which are raised, that they stay, and that they stop an update."""

import math

import pytest

torch = pytest.importorskip("torch")

from fox_agents.dqn.sentinel import MOST_FLAGS, Sentinel  # noqa: E402
from fox_env.errors import ConfigError  # noqa: E402

NAMES = tuple(f"tensor{i}" for i in range(48))


def raised(sentinel: Sentinel) -> list[str]:
    return sentinel.raised(sentinel.flags.float().tolist())


def tensors() -> "dict[str, torch.Tensor]":
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(7, 3 + i, generator=generator) for i, name in enumerate(NAMES)}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", [(0, 0), (6, 2), (3, 1)])
def test_a_single_bad_element_raises_its_own_flag(value: float, where: tuple[int, int]) -> None:
    for bad in (NAMES[0], NAMES[20], NAMES[-1]):
        sentinel, watched = Sentinel(NAMES, "cpu"), tensors()
        watched[bad][where] = value
        sentinel.check(watched)
        assert raised(sentinel) == [bad]
        assert not sentinel.ok


@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38])
def test_a_compiled_check_raises_the_same(value: float) -> None:
    def check(tensors: "dict[str, torch.Tensor]") -> None:
        found.check(tensors)

    torch._dynamo.reset()
    expected, found = Sentinel(NAMES[:3], "cpu"), Sentinel(NAMES[:3], "cpu")
    watched = {name: torch.ones(4, 2 + i, 3) for i, name in enumerate(NAMES[:3])}
    watched[NAMES[1]][3, 2, 1] = value
    expected.check(watched)
    torch.compile(check, backend="aot_eager", fullgraph=True)(watched)
    assert raised(found) == raised(expected) == ([] if value == 3e38 else [NAMES[1]])
    assert bool(found.ok) == bool(expected.ok) == (value == 3e38)


def test_finite_values_raise_nothing_however_large() -> None:
    sentinel, watched = Sentinel(NAMES, "cpu"), tensors()
    watched[NAMES[3]].fill_(3e38)
    watched[NAMES[4]].zero_()
    sentinel.check(watched)
    assert raised(sentinel) == [] and sentinel.ok


def test_names_of_a_part_are_matched_by_name_in_any_order() -> None:
    sentinel = Sentinel(NAMES, "cpu")
    sentinel.check({NAMES[9]: torch.ones(2), NAMES[2]: torch.tensor([math.nan]), NAMES[5]: torch.ones(1)})
    assert raised(sentinel) == [NAMES[2]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_types_and_layouts_may_be_mixed(dtype: "torch.dtype") -> None:
    sentinel = Sentinel(("a", "b", "c"), "cpu")
    parent = torch.ones(4, 6)
    parent[1, 3] = math.inf
    bad = torch.ones(5, dtype=dtype)
    bad[2] = math.nan
    sentinel.check({"a": parent.t()[::2], "b": bad.requires_grad_(), "c": torch.tensor(1.0)})
    assert raised(sentinel) == ["b"]  # every second row of the transpose leaves out column 3


def test_a_flag_stays_and_later_failures_add_nothing_until_the_reset() -> None:
    sentinel = Sentinel(("targets", "gradient"), "cpu")
    flags, ok = sentinel.flags, sentinel.ok
    sentinel.check({"targets": torch.tensor([math.nan]), "gradient": torch.ones(1)})
    sentinel.check({"targets": torch.ones(1), "gradient": torch.tensor([math.inf])})
    sentinel.check({"targets": torch.ones(1), "gradient": torch.ones(1)})
    assert raised(sentinel) == ["targets"] and not sentinel.ok
    sentinel.reset()
    assert raised(sentinel) == [] and sentinel.ok
    sentinel.check({"gradient": torch.tensor([math.inf])})
    assert raised(sentinel) == ["gradient"] and not sentinel.ok
    assert sentinel.flags is flags and sentinel.ok is ok


def test_the_gate_stops_the_update_before_it_is_applied() -> None:
    sentinel, parameter = Sentinel(("gradient",), "cpu"), torch.ones(3)
    for gradient in (torch.ones(3), torch.tensor([1.0, math.nan, 1.0]), torch.ones(3)):
        sentinel.check({"gradient": gradient})
        parameter -= torch.where(sentinel.ok, 0.1 * gradient, 0.0)
    torch.testing.assert_close(parameter, torch.full((3,), 0.9))


def test_bad_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="1 to 64 tensors, not 65"):
        Sentinel([str(i) for i in range(MOST_FLAGS + 1)], "cpu")
    with pytest.raises(ConfigError, match="not 0"):
        Sentinel([], "cpu")
    with pytest.raises(ConfigError, match="twice under one name: a"):
        Sentinel(["a", "b", "a"], "cpu")
    with pytest.raises(ConfigError, match="no tensor 'gradiant' is watched; did you mean 'gradient'"):
        Sentinel(["gradient"], "cpu").check({"gradiant": torch.ones(1)})


def test_a_check_is_one_graph_without_a_host_value() -> None:
    sentinel, watched = Sentinel(("a", "b"), "cpu"), {"a": torch.ones(3), "b": torch.ones(2, 2)}
    sentinel.check(watched)  # places the names
    torch._dynamo.reset()
    explained = torch._dynamo.explain(sentinel.check)(watched)
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
