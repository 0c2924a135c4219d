"""The batched environment as Gymnasium defines it: spaces, autoreset, info and the arrays it returns."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from small_market import FLAT, HOLD, LONG, PROGRESS, make, play, random_actions, rows, same, small_market

from fox_env import ActionError, ConfigError, FoxFuturesVectorEnv, _layout
from fox_env.info import EVENTS

MODES = list(AutoresetMode)
FIELDS = {
    n: dtype for n, dtype in _layout.INFO_FIELDS.items() if n != "reward_components"
}  # of the trade reward only
torch = pytest.importorskip("torch")


def host(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(value)


def memory_of(array: Any) -> int:
    """Address of the memory that a NumPy array or torch tensor views."""
    if isinstance(array, torch.Tensor):
        return int(array.untyped_storage().data_ptr())
    while isinstance(array.base, np.ndarray):
        array = array.base
    return int(array.ctypes.data)


def steps_taken(obs: Any, horizon: int) -> list[int]:
    """The observation as a step counter: progress through the horizon times its length."""
    return [round(float(x) * horizon) for x in host(obs)[:, PROGRESS]]


class TestSpaces:
    @pytest.mark.parametrize("action_type", ["branches", "discrete", "continuous"])
    @pytest.mark.parametrize("num_envs", [1, 3])
    def test_spaces_describe_what_is_returned(self, action_type: str, num_envs: int) -> None:
        env = make(num_envs, action_type=action_type)
        assert isinstance(env, VectorEnv)
        assert env.single_observation_space.shape == (128,)
        assert env.observation_space.shape == (num_envs, 128)
        assert np.isfinite(env.single_observation_space.low).all()
        env.action_space.seed(0)
        obs, _ = env.reset(seed=0)
        assert obs in env.observation_space
        for _ in range(50):
            action = env.action_space.sample()
            assert len(action) == num_envs
            obs, reward, terminated, truncated, _ = env.step(action)
            assert obs in env.observation_space
            assert obs.dtype == reward.dtype == np.float32
            assert terminated.dtype == truncated.dtype == np.bool_
            assert reward.shape == terminated.shape == truncated.shape == (num_envs,)

    def test_torch_outputs_have_the_same_bits_and_types(self) -> None:
        here, there = make(3, horizon=20), make(3, horizon=20, output="torch")
        assert same([here.reset(seed=4)[0]], [host(there.reset(seed=4)[0])])
        for row in random_actions(3, 60):
            a, b = here.step(row), there.step(row)
            assert all(isinstance(x, torch.Tensor) for x in b[:4])
            assert (b[0].dtype, b[1].dtype, b[2].dtype) == (torch.float32, torch.float32, torch.bool)
            assert same([host(x) for x in a[:4]], [host(x) for x in b[:4]])
            assert all(isinstance(value, torch.Tensor) for value in b[4].values())

    def test_infos_have_their_declared_dtypes(self) -> None:
        env = make(3)
        for info in (env.reset(seed=0)[1], env.step(rows(LONG, 3))[4]):
            assert {name for name in info if name[0] != "_"} == set(FIELDS)
            assert info["branch_active"].dtype == bool and info["branch_active"].shape == (3, 4)
            for name, dtype in FIELDS.items():
                if name != "branch_active":
                    assert info[name].dtype == dtype and info[name].shape == (3,)
                assert info[f"_{name}"].dtype == np.bool_ and info[f"_{name}"].shape == (3,)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"num_envs": 0},
            {"metrics": "no"},
            {"num_envs": 2.0},
            {"num_envs": 2**31},
            {"num_envs": True},
            {"output": "jax"},
            {"info_level": "some"},
            {"action_type": "words"},
            {"autoreset_mode": "later"},
            {"backend": "gpu"},
            {"render_mode": "video"},
            {"render_mode": "ansi", "info_level": "none"},
            {"render_mode": "ansi", "output": "torch"},
            {"trade_capacity": -1},
            {"trade_capacity": 1.5},
            {"threads": 0},
            {"max_episode_steps": 0},
            {"horizn": 5},
            {"contract": "ES"},
            {"market": "regimes_of_nowhere"},
            {"market": 5},
        ],
    )
    def test_impossible_arguments_are_refused_in_one_sentence(self, arguments: dict[str, Any]) -> None:
        arguments = {"num_envs": 2, "market": small_market(), "backend": "cpu", **arguments}
        with pytest.raises(ConfigError) as caught:
            FoxFuturesVectorEnv(**arguments)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 300

    def test_max_episode_steps_is_a_horizon_and_the_smaller_holds(self) -> None:
        assert make(1, max_episode_steps=7).config.horizon == 7
        assert make(1, max_episode_steps=7, horizon=5).config.horizon == 5
        env = make(1, max_episode_steps=2)
        env.reset(seed=0)
        assert [env.step([HOLD])[3][0] for _ in range(3)] == [False, True, False]


class TestAutoreset:
    def staggered(self, mode: AutoresetMode, **arguments: Any) -> FoxFuturesVectorEnv:
        """Environment 0 ends after 3 steps, as the data end, and then after 5; environment 1 after 5."""
        env = make(2, horizon=5, random_start=False, autoreset_mode=mode, **arguments)
        env.reset(seed=0, options={"start": [len(small_market()) - 4, 0]})
        return env

    def test_the_mode_is_named_on_metadata_and_attribute(self) -> None:
        for mode in MODES:
            for name in (mode, mode.name, mode.value):
                env = make(1, autoreset_mode=name)
                assert env.autoreset_mode is mode and env.metadata["autoreset_mode"] is mode
        assert FoxFuturesVectorEnv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        assert make(1).autoreset_mode is AutoresetMode.NEXT_STEP

    @pytest.mark.parametrize("output", ["numpy", "torch"])
    def test_next_step_table(self, output: str) -> None:
        env = self.staggered(AutoresetMode.NEXT_STEP, output=output)
        counters, ends, lived = [], [], []
        for _ in range(7):
            obs, reward, terminated, truncated, info = env.step(rows(LONG, 2))
            counters.append(steps_taken(obs, 5))
            ends.append(host(truncated).tolist())
            lived.append([(float(info[k][0]), float(info[k][1])) for k in ("position", "fees", "cost")])
            for i, resets in enumerate((4, 6)):
                if len(ends) == resets:  # the action is ignored and costs nothing
                    assert float(reward[i]) == 0.0 and [pair[i] for pair in lived[-1]] == [0.0, 0.0, 0.0]
                    assert float(info["equity"][i]) == env.config.initial_cash
            assert not host(terminated).any()
            assert "final_obs" not in info and "final_info" not in info
        assert [c[0] for c in counters] == [1, 2, 3, 0, 1, 2, 3]
        assert [c[1] for c in counters] == [1, 2, 3, 4, 5, 0, 1]
        assert [e[0] for e in ends] == [False, False, True, False, False, False, False]
        assert [e[1] for e in ends] == [False, False, False, False, True, False, False]
        assert lived[0][0] == (10.0, 10.0) and lived[4][0][0] == 10.0 and lived[6][0][1] == 10.0

    def test_same_step_table_in_numpy(self) -> None:
        env = self.staggered(AutoresetMode.SAME_STEP)
        twin = self.staggered(AutoresetMode.NEXT_STEP)
        counters = []
        for step in range(1, 8):
            actions = rows(LONG, 2)
            if step == 3:
                actions[0] = FLAT  # so that the last step of the first episode has a fill and a trade
            obs, reward, terminated, truncated, info = env.step(actions)
            counters.append(steps_taken(obs, 5))
            ended = [step == 3, step == 5]
            assert truncated.tolist() == ended and not terminated.any()
            assert ("final_obs" in info) == ("final_info" in info) == any(ended)
            if step < 4:
                unreset = twin.step(actions)
                assert reward.tobytes() == unreset[1].tobytes()
            if step == 3:
                final, fields = info["final_obs"], info["final_info"]
                assert final.dtype == object and final[1] is None and info["_final_obs"].tolist() == ended
                np.testing.assert_array_equal(final[0], unreset[0][0])
                assert info["_final_info"].tolist() == ended
                for name in FIELDS:
                    np.testing.assert_array_equal(fields[name][0], unreset[4][name][0], err_msg=name)
                    expected = ended if name not in EVENTS else (ended & unreset[4][f"_{name}"]).tolist()
                    assert fields[f"_{name}"].tolist() == expected, name
                assert info["position"].tolist() == [0.0, 10.0]  # the new episode's account
                assert info["equity"][0] == env.config.initial_cash
                assert info["step_return"][0] == unreset[4]["step_return"][0]  # the step's event
            if step == 5:  # what environment 0 left there two steps ago is masked
                assert info["final_obs"][0] is None
                masks = {name: mask for name, mask in info["final_info"].items() if name[0] == "_"}
                assert not any(mask[0] for mask in masks.values()) and masks["_equity"][1]
        assert [c[0] for c in counters] == [1, 2, 0, 1, 2, 3, 4]
        assert [c[1] for c in counters] == [1, 2, 3, 4, 0, 1, 2]

    @pytest.mark.parametrize("info_level", ["none", "learn", "full"])
    def test_same_step_in_torch_is_dense_at_every_step(self, info_level: str) -> None:
        here = self.staggered(AutoresetMode.SAME_STEP)
        there = self.staggered(AutoresetMode.SAME_STEP, output="torch", info_level=info_level)
        for _ in range(8):
            info, dense = here.step(rows(LONG, 2))[4], there.step(rows(LONG, 2))[4]
            assert dense["final_obs"].shape == (2, 128) and dense["final_obs"].dtype == torch.float32
            mask = dense["_final_obs"]
            assert ("final_masks" in dense) == (info_level != "none")
            assert mask.dtype == torch.bool
            assert ("final_info" in dense) == (info_level == "full")
            assert mask.any() == ("final_obs" in info)
            for i in np.flatnonzero(mask):
                np.testing.assert_array_equal(host(dense["final_obs"][i]), info["final_obs"][i])

    @pytest.mark.parametrize("output", ["numpy", "torch"])
    def test_disabled_refuses_a_step_after_the_end_until_a_masked_reset(self, output: str) -> None:
        env = self.staggered(AutoresetMode.DISABLED, output=output)
        for expected in ([1, 1], [2, 2], [3, 3]):
            obs = env.step(rows(LONG, 2))[0]
            assert steps_taken(obs, 5) == expected
        before = env.state_dict()
        for _ in range(2):
            with pytest.raises(ActionError, match="environment 0 has ended"):
                env.step(rows(FLAT, 2))
        after = env.state_dict()
        assert all(before[name].tobytes() == after[name].tobytes() for name in before)
        held = host(env.observation)[1].copy()
        obs, info = env.reset(options={"reset_mask": np.array([True, False])})
        assert steps_taken(obs, 5) == [0, 3]
        np.testing.assert_array_equal(host(obs)[1], held)
        assert host(info["position"]).tolist() == [0.0, 10.0]
        assert steps_taken(env.step(rows(HOLD, 2))[0], 5) == [1, 4]

    def test_every_mode_plays_the_same_episodes(self) -> None:
        """The rewards of the steps that count are the same, whatever the mode does at the ends."""
        kept: dict[AutoresetMode, list[float]] = {}
        for mode in MODES:
            env = make(1, horizon=6, autoreset_mode=mode)
            env.reset(seed=8)
            rewards, resets, ended = [], False, False
            actions = iter(random_actions(1, 60, seed=3))
            while len(rewards) < 40:
                resets = ended and mode is AutoresetMode.NEXT_STEP
                if ended and mode is AutoresetMode.DISABLED:
                    env.reset(options={"reset_mask": np.array([True])})
                _, reward, terminated, truncated, _ = env.step(rows(HOLD, 1) if resets else next(actions))
                ended = bool(terminated[0] | truncated[0])
                if not resets:
                    rewards.append(float(reward[0]))
            kept[mode] = rewards
        assert any(kept[MODES[0]])
        assert kept[MODES[0]] == kept[MODES[1]] == kept[MODES[2]]

    def test_the_end_of_the_data_truncates_and_ruin_terminates(self) -> None:
        last = len(small_market()) - 2
        env = make(2, autoreset_mode="DISABLED")
        env.reset(seed=0, options={"start": [last, last - 1]})
        _, _, terminated, truncated, _ = env.step(rows(HOLD, 2))
        assert terminated.tolist() == [False, False] and truncated.tolist() == [True, False]
        ruined = make(1, autoreset_mode="DISABLED", capital_floor=1.0, margin=False)
        ruined.reset(seed=0, options={"start": [last]})
        _, _, terminated, truncated, info = ruined.step([HOLD])
        assert info["equity"][0] == ruined.config.initial_cash  # at the floor, on the last bar
        assert terminated.tolist() == [True] and truncated.tolist() == [False]


class TestInfo:
    def test_masks_say_where_an_event_happened(self) -> None:
        env = make(8, horizon=60)
        env.reset(seed=1)
        seen = dict.fromkeys(EVENTS, 0)
        for row in random_actions(8, 200):
            info = env.step(row)[4]
            for name in FIELDS:
                mask = info[f"_{name}"]
                if name not in EVENTS:
                    assert mask.all(), name
                    continue
                seen[name] += int(mask.sum())
                quiet = info[name][~mask]
                assert np.isnan(quiet).all() if name == "fill_price" else not quiet.any(), name
                if name in ("fill_price", "fill_quantity", "exit_reason", "trade_bars"):
                    assert np.isfinite(info[name][mask]).all() and info[name][mask].all(), name
        assert all(seen.values())

    def test_levels(self) -> None:
        assert make(2, info_level="none").reset(seed=0)[1] == {}
        env = make(2, info_level="learn")
        assert {n for n in env.reset(seed=0)[1] if n[0] != "_"} == {"branch_active", "bar_index"}
        quiet, full = make(2, info_level="none", horizon=9), make(2, horizon=9)
        assert same([quiet.reset(seed=1)[0]], [full.reset(seed=1)[0]])
        assert same(play(quiet, random_actions(2, 50)), play(full, random_actions(2, 50)))

    def test_it_is_a_whole_dictionary_however_it_is_looked_at(self) -> None:
        env = make(2)

        def fresh() -> Any:
            return env.reset(seed=0)[1]

        names = set(fresh())
        assert "equity" in names and len(fresh()) == len(names) and "equity" in fresh()
        assert set(fresh().keys()) == set(dict(fresh())) == set({**fresh()}) == set(fresh() | {}) == names
        assert set({} | fresh()) == names and [*reversed(fresh())] == [*fresh()][::-1]
        assert set(fresh().copy()) == set(copy.copy(fresh())) == set(copy.deepcopy(fresh())) == names
        assert len(fresh().values()) == len(fresh().items()) == len(names)
        assert fresh() != {} and bool(fresh())
        assert fresh().get("equity") is not None and fresh().pop("equity") is not None
        assert "equity" in repr(fresh()) and fresh().popitem()[0] in names
        info = fresh()
        info["own"] = 1
        info |= {"more": 2}
        assert set(info) == names | {"own", "more"}
        assert dict(type(info)(**info)) == dict(info)  # as wrappers that convert every entry make it anew
        info.clear()
        assert not info
        assert "episode" not in names


class TestReturnedArrays:
    def flat(self, step: tuple[Any, ...]) -> dict[str, Any]:
        """Every array of a step by name; final_obs row by row."""
        info = dict(step[4])
        final = info.pop("final_info", {})
        arrays = dict(zip(("obs", "reward", "terminated", "truncated"), step[:4], strict=True))
        arrays |= info | {f"final_info.{name}": value for name, value in final.items()}
        rows_of = arrays.pop("final_obs", None)
        if isinstance(rows_of, np.ndarray):
            return arrays | {f"final_obs.{i}": row for i, row in enumerate(rows_of) if row is not None}
        return arrays | ({} if rows_of is None else {"final_obs": rows_of})

    @pytest.mark.parametrize("output", ["numpy", "torch"])
    @pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
    def test_held_arrays_never_change(self, output: str, mode: str) -> None:
        env = make(3, horizon=4, output=output, autoreset_mode=mode)
        first = env.reset(seed=0)[0]
        held = [({"obs": first}, {"obs": host(first).copy()})]
        looked_at_late: list[Any] = []
        for row in random_actions(3, 12):
            step = env.step(row)
            arrays = self.flat(step)
            held.append((arrays, {name: host(value).copy() for name, value in arrays.items()}))
            looked_at_late.append((env.step(row)[4], host(env.observation).copy()))
        held_late = [dict(info) for info, _ in looked_at_late]
        env.reset(seed=1)
        for arrays, copies in held:
            for name, value in copies.items():
                np.testing.assert_array_equal(host(arrays[name]), value, err_msg=name)
        assert len({info["bar_index"][0].item() for info in held_late}) > 3  # each of its own step

    @pytest.mark.parametrize("output", ["numpy", "torch"])
    @pytest.mark.parametrize("info_level", ["none", "learn", "full"])
    def test_what_is_kept_of_a_step_keeps_nothing_else_alive(self, output: str, info_level: str) -> None:
        env = make(512, horizon=4, output=output, info_level=info_level, autoreset_mode="SAME_STEP")
        env.reset(seed=0)
        for row in random_actions(512, 4):
            obs, reward, terminated, truncated, info = env.step(row)
        assert truncated.all() and dict.__len__(info) == 0  # nobody has looked
        for values in (obs, reward, terminated, truncated):
            if output == "torch":
                assert values.untyped_storage().nbytes() == values.nbytes
            else:
                assert values.base is None
        apart = [memory_of(values) for values in (obs, reward, terminated, truncated)]
        if info_level != "none":
            apart.append(memory_of(info["bar_index"]))
        if info_level == "full":
            assert memory_of(info["equity"]) == memory_of(info["final_info"]["equity"]) == apart[-1]
        assert len(set(apart)) == len(apart)
        truncated[...] = False
        assert info["_final_obs"].all()

    @pytest.mark.parametrize("output", ["numpy", "torch"])
    @pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
    @pytest.mark.parametrize("info_level", ["none", "learn", "full"])
    @pytest.mark.parametrize("counterfactual", [False, True])
    def test_copies_equal_the_views(
        self, output: str, mode: str, info_level: str, counterfactual: bool
    ) -> None:
        arguments = {"output": output, "autoreset_mode": mode, "info_level": info_level}
        copied, viewed = (
            make(33, horizon=4, copy=copy, counterfactual=counterfactual, **arguments)
            for copy in (True, False)
        )
        copied.reset(seed=0)
        viewed.reset(seed=0)
        for row in random_actions(33, 9):
            mine, other = self.flat(copied.step(row)), self.flat(viewed.step(row))
            if output == "torch":
                assert mine.keys() == other.keys()
            assert mine.keys() >= {"obs", "reward", "terminated", "truncated"} and mine.keys() <= other.keys()
            for name, values in mine.items():
                np.testing.assert_array_equal(host(values), host(other[name]), err_msg=name)

    @pytest.mark.parametrize("output", ["numpy", "torch"])
    def test_an_info_first_looked_at_later_is_that_of_its_step(self, output: str) -> None:
        late, soon = (make(2, horizon=5, output=output, autoreset_mode="SAME_STEP") for _ in range(2))
        late.reset(seed=0)
        soon.reset(seed=0)
        infos, expected = [], []
        for row in random_actions(2, 20):
            infos.append(late.step(row)[4])
            expected.append(dict(soon.step(row)[4]))
        for info, right in zip(infos, expected, strict=True):
            assert info.keys() == right.keys()
            for name in right.keys() - {"final_info", "final_obs"}:
                np.testing.assert_array_equal(host(info[name]), host(right[name]), err_msg=name)

    def test_the_caller_may_write_into_what_it_got(self) -> None:
        env, twin = make(2, horizon=8), make(2, horizon=8)
        obs, info = env.reset(seed=0)
        twin.reset(seed=0)
        for row in random_actions(2, 20):
            for array in (obs, *(info[name] for name in FIELDS)):
                array[...] = 1
            obs, *_, info = env.step(row)
            np.testing.assert_array_equal(obs, twin.step(row)[0])

    @pytest.mark.parametrize("output", ["numpy", "torch"])
    def test_without_copies_the_next_step_overwrites_the_views(self, output: str) -> None:
        env = make(2, copy=False, output=output)
        obs, _ = env.reset(seed=0)
        first = host(obs).copy()
        again = env.step(rows(LONG, 2))[0]
        assert (
            again.__array_interface__["data"] == obs.__array_interface__["data"]
            if output == "numpy"
            else (again.data_ptr() == obs.data_ptr())
        )
        assert not np.array_equal(first, host(obs))


def test_final_masks_are_those_of_the_state_that_ended() -> None:
    options: dict[str, Any] = {
        "horizon": 6,
        "initial_cash": 5_500.0,
        "max_position": 8.0,
        "capital_floor": 0.0,
    }
    resets = make(64, output="torch", info_level="learn", autoreset_mode=AutoresetMode.SAME_STEP, **options)
    stays = make(64, autoreset_mode=AutoresetMode.DISABLED, **options)
    resets.reset(seed=1)
    stays.reset(seed=1)
    for row in random_actions(64, 6):
        *_, info = resets.step(torch.as_tensor(row))
        stays.step(row)
    assert info["_final_masks"].all()
    wanted = stays.action_masks()
    assert len(np.unique(wanted, axis=0)) > 3
    np.testing.assert_array_equal(info["final_masks"].numpy(), wanted)
