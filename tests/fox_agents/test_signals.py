"""The signal bus: one tensor, named views, resets by policy, and errors that help."""

import json

import pytest

torch = pytest.importorskip("torch")

from fox_agents.dqn.signals import SLOTS, SignalBus, Slot  # noqa: E402
from fox_env.errors import ConfigError  # noqa: E402


def test_slots_tile_the_tensor_in_order_without_gap_or_overlap() -> None:
    bus = SignalBus("cpu")
    end = 0
    for slot, (name, at) in zip(SLOTS, bus.layout().items(), strict=True):
        assert (name, at["offset"], at["size"], at["reset"]) == (slot.name, end, slot.size, slot.reset)
        assert torch.equal(bus.view(name), torch.full((slot.size,), slot.initial))
        end += slot.size
    assert bus.tensor.shape == (end,) and bus.tensor.dtype == torch.float32


def test_every_slot_says_what_it_means_and_the_layout_is_plain_data() -> None:
    assert all(len(slot.meaning) > 4 for slot in SLOTS)
    assert json.loads(json.dumps(SignalBus("cpu").layout())) == SignalBus("cpu").layout()


def test_a_view_follows_the_bus_and_writes_to_it() -> None:
    bus = SignalBus("cpu")
    tensor, view = bus.tensor, bus.view("sigma")
    bus.set("sigma", [0.1, 0.2, 0.3, 0.4])
    torch.testing.assert_close(view, torch.tensor([0.1, 0.2, 0.3, 0.4]))
    bus.set("sigma", 0.7)
    assert torch.equal(view, torch.full((4,), 0.7))
    view[2] = 9.0
    assert bus.values()["sigma"] == pytest.approx([0.7, 0.7, 9.0, 0.7])
    assert bus.tensor is tensor


def test_writing_one_slot_leaves_its_neighbours() -> None:
    bus = SignalBus("cpu")
    before = bus.values()
    bus.set("beta1", 0.25)
    changed = {name for name, value in bus.values().items() if value != before[name]}
    assert changed == {"beta1"}


def test_a_reset_touches_the_slots_of_its_policy_and_returns_to_the_given_initial_values() -> None:
    slots = (Slot("a", 2, 1.0, "fold", "a"), Slot("b", 1, 2.0, "epoch", "b"), Slot("c", 1, 3.0, "never", "c"))
    bus = SignalBus("cpu", {"a": [5.0, 6.0]}, slots)
    for name in "abc":
        bus.set(name, 9.0)
    bus.reset("fold")
    assert bus.tensor.tolist() == [5.0, 6.0, 9.0, 9.0]
    bus.reset("epoch")
    assert bus.tensor.tolist() == [5.0, 6.0, 2.0, 9.0]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    bus = SignalBus("cpu")
    with pytest.raises(ConfigError, match=r"'budget_cq1'.*did you mean 'budget_cql'"):
        bus.view("budget_cq1")
    with pytest.raises(ConfigError, match="did you mean 'contrarian'"):
        bus.set("contrarien", 1.0)
    with pytest.raises(ConfigError, match="did you mean 'health'"):
        SignalBus("cpu", {"heath": 1.0})


def test_a_value_of_the_wrong_size_and_a_name_twice_are_refused() -> None:
    bus = SignalBus("cpu")
    with pytest.raises(ConfigError, match="'sigma' takes 4 numbers"):
        bus.set("sigma", [1.0, 2.0])
    with pytest.raises(ConfigError, match="twice"):
        SignalBus("cpu", slots=(SLOTS[0], SLOTS[0]))
