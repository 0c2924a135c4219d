"""Seeds and reset options of the batched environment."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from small_market import HOLD, LONG, make, play, random_actions, rows, same, small_market

from fox_env import ActionError, FoxFuturesEnv

torch = pytest.importorskip("torch")


class TestSeeding:
    def test_same_seed_same_bits_and_another_seed_another_path(self) -> None:
        def rollout(seed: Any) -> list[np.ndarray[Any, Any]]:
            env = make(4, horizon=20, exploration_scale=1.0, saboteur=(0.5, 2.0))
            return [env.reset(seed=seed)[0], *play(env, random_actions(4, 80))]

        assert same(rollout(5), rollout(5)) and same(rollout(5), rollout(np.int64(5)))
        assert not same(rollout(5), rollout(6))
        assert not same(rollout(None), rollout(None))  # entropy

    def test_reseeding_clears_what_lasts_over_episodes(self) -> None:
        env = make(3, horizon=10)
        first = [env.reset(seed=2)[0], *play(env, random_actions(3, 50))]
        assert len(env.trades())
        again = [env.reset(seed=2)[0]]
        assert len(env.trades()) == 0
        assert same(first, again + play(env, random_actions(3, 50)))

    def test_reset_without_a_seed_goes_on_with_the_numbers(self) -> None:
        env = make(64)
        a, b = env.reset(seed=2)[1]["bar_index"], env.reset()[1]["bar_index"]
        assert (a != b).any()
        assert env.np_random_seed == 2
        twin = make(64)
        twin.reset(seed=2)
        assert (twin.reset()[1]["bar_index"] == b).all()

    def test_the_constructor_seed_serves_the_first_reset_alone(self) -> None:
        env, twin = make(64, seed=9), make(64)
        assert same([env.reset()[0]], [twin.reset(seed=9)[0]])
        assert same([env.reset()[0]], [twin.reset()[0]])

    def test_an_environment_of_a_list_equals_one_alone(self) -> None:
        seeds = [11, 3, 2**64 + 7]
        batch = make(3, horizon=15)
        obs = batch.reset(seed=seeds)[0]
        actions = random_actions(3, 40)
        steps = [batch.step(row)[:2] for row in actions]
        for i, seed in enumerate(seeds):
            alone = make(1, horizon=15)
            np.testing.assert_array_equal(alone.reset(seed=seed)[0][0], obs[i])
            for row, (o, r) in zip(actions, steps, strict=True):
                mine = alone.step(row[i : i + 1])
                assert mine[0][0].tobytes() == o[i].tobytes() and mine[1][0] == r[i]

    def test_a_list_of_seeds_equals_gymnasiums_own_batch(self) -> None:
        single = [lambda: FoxFuturesEnv(small_market(), horizon=10, backend="cpu")] * 2
        theirs, ours = SyncVectorEnv(single), make(2, horizon=10)
        assert same([theirs.reset(seed=[5, 6])[0]], [ours.reset(seed=[5, 6])[0]])
        for row in random_actions(2, 45):
            a, b = theirs.step(row), ours.step(row)
            np.testing.assert_array_equal(a[0], b[0])
            np.testing.assert_array_equal(a[1].astype(np.float32), b[1])
            np.testing.assert_array_equal(a[3], b[3])
            for name in ("equity", "position", "step_return", "bar_index", "order_status"):
                np.testing.assert_array_equal(a[4][name], b[4][name], err_msg=name)

    @pytest.mark.parametrize("seed", [1.5, -1, "ab", [1], [1, 2, 3], [1, None], [1, -2], {1: 2}])
    def test_bad_seeds_are_refused_and_change_nothing(self, seed: Any) -> None:
        env = make(2)
        env.reset(seed=0)
        before = env.state_dict()
        with pytest.raises(ActionError, match="seed"):
            env.reset(seed=seed)
        assert all(before[k].tobytes() == v.tobytes() for k, v in env.state_dict().items())


class TestResetOptions:
    def test_start_and_mask_are_obeyed_and_never_changed(self) -> None:
        env = make(3)
        options: dict[str, Any] = {"start": [5, -1, 7]}
        kept = copy.deepcopy(options)
        _, info = env.reset(seed=0, options=options)
        assert options == kept
        assert info["bar_index"][[0, 2]].tolist() == [5, 7]
        env.step(rows(LONG, 3))
        for mask in (
            np.array([True, False, False]),
            torch.tensor([True, False, False]),
            [True, False, False],
        ):
            options = {"reset_mask": mask, "start": np.array([9, 9, 9])}
            _, info = env.reset(options=options)
            assert set(options) == {"reset_mask", "start"} and options["reset_mask"] is mask
            assert info["bar_index"].tolist()[0] == 9 and info["position"].tolist() == [0.0, *[10.0] * 2]
        with pytest.raises(TypeError):
            env.reset({"start": [0, 0, 0]})  # type: ignore[misc]  # keywords only, as Gymnasium's

    def test_only_the_masked_environments_are_reseeded(self) -> None:
        env, other = make(2), make(2)
        env.reset(seed=1)
        other.reset(seed=2)
        env.reset(seed=2, options={"reset_mask": np.array([False, True])})
        keys = env.state_dict()["state.key"]
        assert keys[0] != keys[1] and keys[1] == other.state_dict()["state.key"][1]

    @pytest.mark.parametrize(
        "options",
        [
            {"start": [0]},
            {"start": [0, 1.5]},
            {"start": [0, 399]},
            {"start": [True, False]},
            {"start": [[0], 1]},
            {"reset_mask": [True]},
            {"reset_mask": [1, 0]},
            {"reset_mask": [False, False]},
            {"reset_mask": np.ones((2, 1), bool)},
            {"begin": [0, 0]},
        ],
    )
    def test_bad_options_are_refused_and_change_nothing(self, options: dict[str, Any]) -> None:
        env = make(2)
        env.reset(seed=0)
        before = env.state_dict()
        with pytest.raises(ValueError, match=next(iter(options))):
            env.reset(options=options)
        assert all(before[k].tobytes() == v.tobytes() for k, v in env.state_dict().items())

    def test_the_first_reset_must_be_a_whole_one(self) -> None:
        env = make(2)
        with pytest.raises(ActionError, match="call reset"):
            env.step(rows(HOLD, 2))
        with pytest.raises(ActionError, match="first reset"):
            env.reset(options={"reset_mask": np.array([True, False])})
        env.reset(options={"reset_mask": np.array([True, True])})
