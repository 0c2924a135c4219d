"""What the environment takes as actions: formats, refusals, convictions, masks of distinct actions, knobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_market import FLAT, HOLD, LONG, POSITION, SHORT, make, play, random_actions, rows, same

from fox_env import ActionError, ConfigError, EnvConfig, FoxError, _layout

torch = pytest.importorskip("torch")

DIRECTIONS, SIZES = slice(0, 4), slice(4, 7)


def unchanged(env: Any, before: dict[str, Any]) -> bool:
    return all(before[name].tobytes() == value.tobytes() for name, value in env.state_dict().items())


class TestBranches:
    @pytest.mark.parametrize(
        "give",
        [
            lambda a: a,
            lambda a: a.tolist(),
            lambda a: tuple(map(tuple, a.tolist())),
            lambda a: a.astype(np.int32),
            lambda a: a.astype(np.uint8),
            lambda a: a.astype(np.int8),
            lambda a: a.astype(np.uint64),
            lambda a: a.astype(">i8"),
            lambda a: a.astype(">i4"),
            lambda a: np.asfortranarray(a),
            lambda a: np.repeat(a, 2, axis=1)[:, ::2],
            lambda a: np.concatenate([[0], a.astype(np.uint8).ravel()]).astype(np.uint8)[1:].reshape(a.shape),
            lambda a: torch.from_numpy(a),
            lambda a: torch.from_numpy(a).int(),
            lambda a: torch.from_numpy(a).to(torch.uint8),
            lambda a: torch.from_numpy(a).t().contiguous().t(),
        ],
    )
    @pytest.mark.parametrize("output", ["numpy", "torch"])
    def test_every_form_is_the_same_action(self, give: Any, output: str) -> None:
        plain, other = make(5, horizon=12), make(5, horizon=12, output=output)
        plain.reset(seed=3)
        other.reset(seed=3)
        for row in random_actions(5, 30):
            a, b = plain.step(row), other.step(give(row))
            assert same([np.asarray(x) for x in a[:4]], [np.asarray(x) for x in b[:4]])

    @pytest.mark.parametrize("value", [4, -1, 255, 2**40])
    @pytest.mark.parametrize("branch", range(4))
    def test_values_outside_the_space_are_refused_with_row_and_space(self, value: int, branch: int) -> None:
        env = make(3)
        env.reset(seed=0)
        env.step(rows(LONG, 3))
        before = env.state_dict()
        bad = rows(HOLD, 3)
        bad[1, branch] = value
        with pytest.raises(ActionError, match=r"environment 1 is outside MultiDiscrete"):
            env.step(bad)
        assert unchanged(env, before)

    @pytest.mark.parametrize(
        "bad",
        [
            [[1, 0, 0]] * 2,
            [[1, 0, 0, 0]],
            [1, 0, 0, 0],
            [[[1, 0, 0, 0]] * 2],
            [[1, 0, 0, 0], [1, 0]],
            [[1.0, 0.0, 0.0, 0.0]] * 2,
            np.full((2, 4), np.nan),
            np.ones((2, 4), bool),
            np.full((2, 4), "1"),
            np.ones((2, 4), object),
            torch.ones(2, 4),
            torch.ones(2, 4, dtype=torch.bfloat16),
            "long",
            None,
            [],
        ],
    )
    def test_other_shapes_and_dtypes_are_refused_and_change_nothing(self, bad: Any) -> None:
        env = make(2)
        env.reset(seed=0)
        before = env.state_dict()
        with pytest.raises(ActionError, match="action"):
            env.step(bad)
        assert unchanged(env, before)

    def test_unchecked_bad_actions_hold_and_the_next_call_says_so_once(self) -> None:
        env = make(3, validate_actions=False)
        env.reset(seed=0)
        env.step(rows(LONG, 3))
        bad = rows(FLAT, 3)
        bad[1] = [9, 9, 9, -9]
        info = env.step(bad)[4]
        assert info["position"].tolist() == [0.0, 10.0, 0.0]
        assert info["order_status"][1] == _layout.OrderStatus.INVALID
        with pytest.raises(ActionError, match="an earlier step got an action outside"):
            env.step(rows(FLAT, 3))
        assert env.step(rows(FLAT, 3))[4]["position"].tolist() == [0.0] * 3


class TestExposures:
    def test_the_eight_discrete_actions(self) -> None:
        env = make(8, action_type="discrete")
        env.reset(seed=0)
        for dtype in (np.int64, np.int32, np.uint8):
            env.reset(seed=0)
            info = env.step(np.arange(8, dtype=dtype))[4]
            # of 10 contracts: quarters are rounded half up to the lot
            assert info["position"].tolist() == [-10, -5, -3, 0, 3, 5, 10, 0]
        env.reset(seed=0)
        branches = make(8)
        branches.reset(seed=0)
        same_orders = [[0, 2], [0, 1], [0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [3, 0]]
        a = env.step(list(range(8)))
        b = branches.step([[*pair, 0, 1] for pair in same_orders])  # market orders of normal urgency
        assert same([a[0], a[1]], [b[0], b[1]])

    def test_continuous_targets_of_both_shapes(self) -> None:
        targets = np.array([-1.0, -0.5, -0.04, 0.0, 0.04, 0.26, 1.0])
        for given in (targets, targets[:, None], targets.tolist(), targets.astype(np.float32)):
            env = make(7, action_type="continuous")
            env.reset(seed=0)
            assert env.step(given)[4]["position"].tolist() == [-10, -5, 0, 0, 0, 3, 10]
        env = make(7, action_type="continuous")
        env.reset(seed=0)
        tensor = torch.tensor(targets, dtype=torch.float32, requires_grad=True)
        assert env.step(tensor)[4]["position"].tolist() == [-10, -5, 0, 0, 0, 3, 10]

    @pytest.mark.parametrize(
        ("action_type", "bad"),
        [
            ("discrete", [8, 0]),
            ("discrete", [-1, 0]),
            ("discrete", [0.5, 0.0]),
            ("discrete", [[0], [0]]),
            ("discrete", [0]),
            ("continuous", [1.5, 0.0]),
            ("continuous", [np.nan, 0.0]),
            ("continuous", [np.inf, 0.0]),
            ("continuous", [[0.0, 0.0]] * 2),
            ("continuous", ["a", "b"]),
        ],
    )
    def test_refusals(self, action_type: str, bad: Any) -> None:
        env = make(2, action_type=action_type)
        env.reset(seed=0)
        before = env.state_dict()
        with pytest.raises(ActionError, match="action"):
            env.step(bad)
        assert unchanged(env, before)


class TestConviction:
    @pytest.mark.parametrize(
        "give", [list, np.array, lambda c: torch.tensor(c), lambda c: np.array(c, ">f8")]
    )
    def test_it_scales_the_target_before_rounding(self, give: Any) -> None:
        env = make(5)
        env.reset(seed=0)
        info = env.step(rows(LONG, 5), conviction=give([1.0, 0.5, 0.26, 0.01, 0.0]))[4]
        assert info["position"].tolist() == [10, 5, 3, 1, 0]  # one lot at least, except for none at all
        info = env.step(rows(SHORT, 5), conviction=give([0.0] * 5))[4]
        assert info["position"].tolist() == [0] * 5
        env.reset(seed=0)
        env.step(rows(LONG, 5))
        assert env.step(rows(HOLD, 5), conviction=give([0.0] * 5))[4]["position"].tolist() == [10] * 5

    def test_full_conviction_is_none(self) -> None:
        with_it, without = make(3, horizon=9), make(3, horizon=9)
        with_it.reset(seed=1)
        without.reset(seed=1)
        for row in random_actions(3, 30):
            assert same([with_it.step(row, conviction=np.ones(3))[0]], [without.step(row)[0]])

    @pytest.mark.parametrize(
        "bad", [[0.5], [[0.5], [0.5]], [-0.1, 0], [0, 1.1], [np.nan, 0], ["a", "b"], 0.5]
    )
    def test_refusals(self, bad: Any) -> None:
        env = make(2)
        env.reset(seed=0)
        before = env.state_dict()
        with pytest.raises(ActionError, match="conviction"):
            env.step(rows(LONG, 2), conviction=bad)
        assert unchanged(env, before)


class TestMasks:
    def test_flat_then_at_the_target(self) -> None:
        env = make(2)
        env.reset(seed=0)
        mask = env.action_masks()
        assert mask.shape == (2, 13) and mask.dtype == np.bool_
        assert mask[0].tolist() == [True, True, True, False] + [True] * 9  # when flat, Flat is Hold
        env.step([LONG, HOLD])
        mask = env.action_masks()
        assert mask[0, DIRECTIONS].all() and mask[1].tolist()[:4] == [True, True, True, False]
        one = make(1, max_position=1.0)
        one.reset(seed=0)
        assert one.action_masks()[0, SIZES].tolist() == [True, False, False]  # a lot is all there is
        one.step([LONG])
        assert one.action_masks()[0, DIRECTIONS].tolist() == [True, True, False, True]  # Long is Hold

    def test_masked_out_directions_do_nothing_of_their_own(self) -> None:
        """From one state, a masked direction leads where Hold leads, and the masked exposure where another leads."""
        env = make(8, horizon=None, action_type="discrete", max_position=3.0)
        env.reset(seed=0)
        rng = np.random.default_rng(0)
        for _ in range(25):
            same_action = np.full(8, rng.integers(0, 8))
            env.reset(options={"start": np.full(8, rng.integers(0, 390))})
            env.step(same_action)
            mask = env.action_masks()
            assert mask.shape == (8, 8) and (mask == mask[0]).all() and mask[0, 3]
            bought = env.step(np.arange(8))[4]["position"]
            distinct = bought[mask[0]]
            assert len(set(distinct.tolist())) == len(distinct)
            assert set(bought[~mask[0]].tolist()) <= set(distinct.tolist())

    def test_torch_masks_and_no_masks_for_a_continuum(self) -> None:
        env = make(2, output="torch")
        env.reset(seed=0)
        held = env.action_masks()
        assert held.dtype == torch.bool and held.shape == (2, 13)
        kept = held.clone()
        env.step(rows(LONG, 2))
        assert torch.equal(held, kept) and not torch.equal(env.action_masks(), kept)
        continuous = make(2, action_type="continuous")
        continuous.reset(seed=0)
        with pytest.raises(FoxError, match="continuous action space has no action masks"):
            continuous.action_masks()


class TestKnobs:
    def test_names_kinds_and_values(self) -> None:
        env = make(1, exploration_scale=0.25)
        physics = {"kelly_floor", "kelly_safety", "trail_short", "trail_long"}
        assert {name for name, knob in env.knobs.items() if knob["kind"] == "physics"} == physics
        assert env.knobs["exploration_scale"] == {"kind": "training", "value": 0.25}
        assert env.knobs["kelly_floor"] == {"kind": "physics", "value": 0.25}
        env.set_knob("exploration_scale", np.float32(0.5))
        assert env.knobs["exploration_scale"]["value"] == 0.5
        assert env.state_dict()["knobs"].tolist()[:3] == [0.5, 0.0, 1.0]
        assert list(env.knobs) == [knob.name.lower() for knob in _layout.Knob if knob.name != "COUNT"]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("exploration", 0.5),
            ("shaping_scale", 1.5),
            ("shaping_scale", np.nan),
            ("shaping_scale", "x"),
            ("kelly_safety", 1.5),
            ("early_exit_bars", 0.0),
            ("trail_long", 2.0),  # made without stops
        ],
    )
    def test_refusals(self, name: str, value: Any) -> None:
        env = make(1)
        with pytest.raises(ConfigError, match="knob"):
            env.set_knob(name, value)
        assert env.state_dict()["knobs"].tolist() == make(1).state_dict()["knobs"].tolist()

    def test_a_knob_acts_at_once_and_its_absence_leaves_no_trace(self) -> None:
        def costs(exploration: float) -> float:
            env = make(4, saboteur=(2.0, 2.0))
            env.reset(seed=0)
            env.set_knob("exploration_scale", exploration)
            info = env.step(rows(LONG, 4))[4]
            return float((info["cost"] - info["fees"]).sum())

        assert costs(1.0) == pytest.approx(2 * costs(0.0)) and costs(0.5) == pytest.approx(1.5 * costs(0.0))
        plain, sabotaged = make(3, horizon=9), make(3, horizon=9, saboteur=(0.1, 9.0))
        plain.reset(seed=0)
        sabotaged.reset(seed=0)
        assert same(play(plain, random_actions(3, 40)), play(sabotaged, random_actions(3, 40)))

    def test_the_position_is_in_the_observation(self) -> None:
        env = make(2)
        env.reset(seed=0)
        assert env.step([LONG, SHORT])[0][:, POSITION].tolist() == [1.0, -1.0]


@pytest.mark.parametrize(
    "option",
    [
        {"initial_cash": 1e308},
        {"initial_cash": 1e-300},
        {"fee_rate": 1e308},
        {"half_spread_ticks": 1e16},
        {"saboteur": (1.0, 1e200)},
        {"risk_unit": 1e-300},
    ],
)
def test_absurd_sizes_are_refused_in_one_sentence(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^EnvConfig.{next(iter(option))}=.* must be 0 or between"):
        EnvConfig(**option)
