"""Gymnasium's own wrappers around a batch and around one account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector
from small_market import HOLD, LONG, make, random_actions, rows, small_market

from fox_env import FoxFuturesEnv

HORIZON = 5
SEEDS = [3, 4, 5]


def shifted(obs: Any) -> Any:
    return obs * 0.5 + 1.0


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "RecordEpisodeStatistics": vector.RecordEpisodeStatistics,
    "NormalizeReward": vector.NormalizeReward,
    "ClipReward": lambda env: vector.ClipReward(env, -0.001, 0.001),
    "TransformReward": lambda env: vector.TransformReward(env, lambda reward: reward * 3),
    "NormalizeObservation": vector.NormalizeObservation,
    "TransformObservation": lambda env: vector.TransformObservation(env, shifted),
    "FlattenObservation": vector.FlattenObservation,
    "DtypeObservation": lambda env: vector.DtypeObservation(env, np.float64),
    "several": lambda env: vector.NormalizeReward(vector.RecordEpisodeStatistics(env)),
}
NEXT, SAME, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
REFUSED = {  # by Gymnasium, whatever the environment
    "NormalizeObservation": {SAME, DISABLED},
    "TransformObservation": {SAME},
    "FlattenObservation": {SAME},
    "DtypeObservation": {SAME},
}


def played(env: Any, mode: AutoresetMode) -> list[Any]:
    """Every array of twenty steps, with the resets that the mode asks for."""
    obs, _ = env.reset(seed=SEEDS)
    out = [obs.copy()]
    for row in random_actions(3, 20):
        obs, reward, terminated, truncated, info = env.step(row)
        out += [np.array(x) for x in (obs, reward, terminated, truncated)]
        ended = np.asarray(terminated | truncated)
        assert ("episode" in info) <= ended.any()
        if "episode" in info:
            out += [np.array(x) for x in (info["_episode"], info["episode"]["r"], info["episode"]["l"])]
        if ended.any() and mode is DISABLED:
            obs, _ = env.reset(options={"reset_mask": ended.copy()})
            out.append(obs.copy())
    return out


@pytest.mark.parametrize("name", list(WRAPPERS))
@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_a_wrapped_batch_is_gymnasiums_own_batch_of_wrapped_accounts(name: str, mode: AutoresetMode) -> None:
    """The same wrapper around Gymnasium's vector environment of single accounts gives the same numbers."""
    mine = make(3, horizon=HORIZON, autoreset_mode=mode)
    accounts = [lambda: FoxFuturesEnv(small_market(), horizon=HORIZON)] * 3
    theirs = SyncVectorEnv(accounts, autoreset_mode=mode)
    if mode in REFUSED.get(name, ()):
        for env in (mine, theirs):
            with pytest.raises(ValueError, match="autoreset_mode"):
                WRAPPERS[name](env)
        return
    here, there = played(WRAPPERS[name](mine), mode), played(WRAPPERS[name](theirs), mode)
    assert len(here) == len(there)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)  # rewards are summed as float32 and as float64


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
def test_statistics_of_episodes(mode: AutoresetMode) -> None:
    env = vector.RecordEpisodeStatistics(
        gym.make_vec(
            "Fox-Futures-v0",
            2,
            market=small_market(),
            backend="cpu",
            autoreset_mode=mode,
            max_episode_steps=4,
        )
    )
    env.reset(seed=0)
    reported, total, returns = [], 0.0, []
    for step in range(1, 17):
        _, reward, terminated, truncated, info = env.step(rows(LONG, 2))
        total += float(reward[0])
        if "episode" in info:
            reported.append(step)
            assert info["episode"]["l"].tolist() == [4, 4]
            assert info["episode"]["r"][0] == pytest.approx(total, abs=1e-6)
            returns.append(total)
            total = 0.0
            if mode is DISABLED:
                env.reset(options={"reset_mask": terminated | truncated})
    assert reported == ([4, 9, 14] if mode is NEXT else [4, 8, 12, 16])
    assert list(env.length_queue)[::2] == [4] * len(reported) and any(returns)


def test_statistics_outlive_the_reset_of_another_account() -> None:
    env = vector.RecordEpisodeStatistics(make(2, horizon=6, autoreset_mode=DISABLED))
    env.reset(seed=0)
    for _ in range(3):
        env.step(rows(HOLD, 2))
    env.reset(options={"reset_mask": np.array([True, False])})
    for _ in range(3):
        *_, info = env.step(rows(HOLD, 2))
    assert info["_episode"].tolist() == [False, True] and info["episode"]["l"].tolist() == [0, 6]


def test_infos_as_a_list() -> None:
    env = vector.DictInfoToList(make(2, horizon=3, autoreset_mode=SAME))
    env.reset(seed=0)
    for _ in range(3):
        *_, infos = env.step(rows(LONG, 2))
    assert len(infos) == 2
    assert infos[1]["final_obs"].shape == (128,) and infos[1]["equity"] == 250_000.0
    assert infos[1]["final_info"]["position"] == 10.0


class TestArrays:
    torch: Any = None

    @pytest.fixture(autouse=True)
    def _libraries(self) -> None:
        type(self).torch = pytest.importorskip("torch")
        pytest.importorskip("array_api_compat", reason="Gymnasium's conversion needs it")

    @pytest.mark.parametrize("mode", [NEXT, DISABLED], ids=lambda mode: mode.name)
    def test_numpy_to_torch_gives_what_torch_outputs_are(self, mode: AutoresetMode) -> None:
        converted = vector.NumpyToTorch(make(3, horizon=HORIZON, autoreset_mode=mode))
        native = make(3, horizon=HORIZON, autoreset_mode=mode, output="torch")
        pairs = [(converted.reset(seed=1), native.reset(seed=1))]
        for row in random_actions(3, HORIZON):
            actions = self.torch.as_tensor(row)
            pairs.append((converted.step(actions), native.step(actions)))
        for mine, theirs in pairs:
            *arrays, info = mine
            *others, expected = theirs
            assert all(self.torch.equal(a, b) for a, b in zip(arrays, others, strict=True))
            assert info.keys() == expected.keys()
            for key, value in expected.items():
                assert self.torch.equal(info[key].nan_to_num(), value.nan_to_num()), key

    def test_a_numpy_batch_in_same_step_mode_cannot_be_converted_where_an_episode_ends(self) -> None:
        """Gymnasium's conversion has no form for object arrays; output="torch" has the dense one."""
        env = vector.NumpyToTorch(make(2, horizon=2, autoreset_mode=SAME, info_level="none"))
        env.reset(seed=0)
        env.step(self.torch.as_tensor(rows(HOLD, 2)))
        with pytest.raises(BufferError):
            env.step(self.torch.as_tensor(rows(HOLD, 2)))

    @pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
    def test_torch_to_numpy(self, mode: AutoresetMode) -> None:
        converted = vector.ArrayConversion(
            make(3, horizon=HORIZON, autoreset_mode=mode, output="torch"), env_xp=self.torch, target_xp=np
        )
        native = make(3, horizon=HORIZON, autoreset_mode=mode)
        np.testing.assert_array_equal(converted.reset(seed=1)[0], native.reset(seed=1)[0])
        for row in random_actions(3, HORIZON):
            mine, theirs = converted.step(row), native.step(row)
            for a, b in zip(mine[:4], theirs[:4], strict=True):
                assert isinstance(a, np.ndarray) and a.dtype == b.dtype
                np.testing.assert_array_equal(a, b)
        if mode is SAME:
            assert mine[4]["final_obs"].shape == (3, 128)
            np.testing.assert_array_equal(mine[4]["final_obs"][2], theirs[4]["final_obs"][2])


SINGLE: dict[str, Callable[[Any], Any]] = {
    "FlattenObservation": wrappers.FlattenObservation,
    "TimeAwareObservation": wrappers.TimeAwareObservation,
    "FrameStackObservation": lambda env: wrappers.FrameStackObservation(env, 4),
    "NormalizeObservation": wrappers.NormalizeObservation,
    "NormalizeReward": wrappers.NormalizeReward,
    "ClipReward": lambda env: wrappers.ClipReward(env, -0.1, 0.1),
    "DtypeObservation": lambda env: wrappers.DtypeObservation(env, np.float64),
    "TransformObservation": lambda env: wrappers.TransformObservation(env, shifted, env.observation_space),
    "StickyAction": lambda env: wrappers.StickyAction(env, 0.25),
    "OrderEnforcing": wrappers.OrderEnforcing,
}


@pytest.mark.parametrize("name", list(SINGLE))
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_wrappers_of_one_account(name: str) -> None:
    account = gym.make("Fox-Futures-v0", market=small_market(), max_episode_steps=6)
    env = wrappers.RecordEpisodeStatistics(SINGLE[name](account))
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    steps = 0
    ended = False
    while not ended:
        assert np.asarray(obs).shape == env.observation_space.shape
        obs, _, terminated, truncated, info = env.step(env.action_space.sample())
        steps += 1
        ended = terminated or truncated
    assert steps == info["episode"]["l"] == 6
    if name == "NormalizeObservation":
        assert env.env.obs_rms.count > 6


def test_the_step_limit_of_make_truncates() -> None:
    env = gym.make("Fox-Futures-v0", market=small_market(), max_episode_steps=5)
    env.reset(seed=0)
    flags = [env.step(np.array(HOLD))[2:4] for _ in range(5)]
    assert flags == [(False, False)] * 4 + [(False, True)]


def test_autoreset_of_one_account() -> None:
    env = wrappers.Autoreset(FoxFuturesEnv(small_market(), horizon=3))
    env.reset(seed=0)
    counted = [env.step(np.array(HOLD))[3] for _ in range(8)]
    assert counted == [False, False, True, False] * 2
