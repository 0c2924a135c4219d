"""The single environment: Gymnasium's checker, agreement with the batch, masks, trades, rendering, copies."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fake_window import open_nothing
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordEpisodeStatistics
from small_market import FLAT, HOLD, LONG, make, random_actions, small_market

from fox_env import ActionError, ConfigError, FoxError, FoxFuturesEnv, _layout
from fox_env.registration import ENV_IDS, register_envs


def single(**arguments: Any) -> FoxFuturesEnv:
    return FoxFuturesEnv(small_market(), backend="cpu", **arguments)


class TestGymnasium:
    @pytest.mark.parametrize("env_id", [*ENV_IDS, "fox_env:Fox-Futures-v0"])
    def test_check_env_has_nothing_to_warn_about(self, env_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("matplotlib")
        windows = open_nothing(monkeypatch)  # it tries every render mode
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            env = gym.make(env_id, render_mode="ansi", horizon=50)
            check_env(env.unwrapped)
            assert len(windows) == 1 and windows[0].destroyed
            check_env(gym.make(env_id).unwrapped, skip_render_check=True)

    def test_registering_again_changes_nothing(self) -> None:
        specs = [gym.spec(env_id) for env_id in ENV_IDS]
        register_envs()
        assert [gym.spec(env_id) for env_id in ENV_IDS] == specs

    def test_options_by_name_reach_the_account_and_wrong_names_are_refused(self) -> None:
        env: Any = gym.make("Fox-Futures-v0", market="regimes:seed=0", horizon=5, reward="risk").unwrapped
        assert (env.config.horizon, env.config.reward) == (5, "risk")
        with pytest.raises(FoxError, match="did you mean 'horizon'"):
            gym.make("Fox-Futures-v0", horizons=5)

    def test_episode_statistics_and_time_limits(self) -> None:
        env = RecordEpisodeStatistics(gym.make("Fox-Futures-v0", max_episode_steps=4))
        for seed in range(2):
            env.reset(seed=seed)
            rewards = []
            for step in range(1, 5):
                *_, truncated, info = (result := env.step(env.action_space.sample()))
                rewards.append(result[1])
                assert truncated == (step == 4)
            assert info["episode"]["l"] == 4 and info["episode"]["r"] == pytest.approx(sum(rewards))


class TestBehaviour:
    @pytest.mark.parametrize("action_type", ["branches", "discrete", "continuous"])
    def test_it_is_the_batch_of_one(self, action_type: str) -> None:
        env, batch = (f(action_type=action_type, horizon=30) for f in (single, lambda **k: make(1, **k)))
        obs, many = env.reset(seed=6)[0], batch.reset(seed=6)[0]
        assert obs.tobytes() == many.tobytes()
        env.action_space.seed(1)
        for _ in range(29):
            action = env.action_space.sample()
            a, b = env.step(action), batch.step(np.asarray(action)[None])
            assert a[0].tobytes() == b[0].tobytes()
            assert (a[1], a[2], a[3]) == (b[1][0], b[2][0], b[3][0])
            assert set(a[4]) == set(_layout.INFO_FIELDS) - {"reward_components"}
            for name, value in a[4].items():
                np.testing.assert_equal(value, b[4][name][0].tolist())

    def test_python_types(self) -> None:
        env = single()
        obs, info = env.reset(seed=0)
        assert obs.shape == (128,) and obs.dtype == np.float32
        obs, reward, terminated, truncated, info = env.step(LONG)
        assert type(reward) is float and type(terminated) is bool and type(truncated) is bool
        assert type(info["equity"]) is float and type(info["bar_index"]) is int
        assert env.step(tuple(HOLD))[0].shape == (128,)

    def test_a_start_is_obeyed_and_the_options_are_left_alone(self) -> None:
        env = single()
        options: dict[str, Any] = {"start": 12}
        assert env.reset(seed=0, options=options)[1]["bar_index"] == 12
        assert options == {"start": 12}
        assert env.reset(options={"start": [13]})[1]["bar_index"] == 13
        for bad in ({"start": 10_000}, {"start": [1, 2]}, {"begin": 0}):
            with pytest.raises(FoxError, match=next(iter(bad))):
                env.reset(options=bad)

    def test_the_horizon_ends_it_once_and_a_step_after_it_is_refused(self) -> None:
        env = single(horizon=3)
        with pytest.raises(ActionError, match="call reset"):
            env.step(HOLD)
        env.reset(seed=0)
        assert [env.step(HOLD)[3] for _ in range(3)] == [False, False, True]
        with pytest.raises(ActionError, match="has ended"):
            env.step(HOLD)
        env.reset()
        assert not env.step(HOLD)[3]

    def test_bad_actions(self) -> None:
        env = single()
        env.reset(seed=0)
        for bad in ([4, 0, 0, 0], [1, 0, 0], 1, [0.5, 0, 0, 0], None):
            with pytest.raises(ActionError, match="action"):
                env.step(bad)

    def test_two_resets_of_one_seed_are_one_episode(self) -> None:
        env = single(exploration_scale=1.0, saboteur=(0.5, 2.0))
        runs = []
        for _ in range(2):
            env.reset(seed=3)
            runs.append([env.step(row[0])[:2] for row in random_actions(1, 30)])
        for a, b in zip(*runs, strict=True):
            assert a[0].tobytes() == b[0].tobytes() and a[1] == b[1]


class TestMore:
    @pytest.mark.parametrize(
        "option", [{"info_level": "none"}, {"output": "torch"}, {"copy": True}, {"markets": [small_market()]}]
    )
    def test_options_of_a_batch_are_refused(self, option: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match=f"^{next(iter(option))}= is an option of a batch"):
            single(**option)

    def test_conviction_scales_the_target(self) -> None:
        env = single(random_start=False, max_position=10.0, margin=False)
        env.reset(seed=0)
        assert env.step(LONG, conviction=0.5)[4]["position"] == 5.0

    def test_knobs_and_state(self) -> None:
        env, twin = single(horizon=30), single(horizon=30)
        env.reset(seed=4)
        env.set_knob("exploration_scale", 0.5)
        for action in random_actions(1, 10)[:, 0]:
            env.step(action)
        twin.load_state_dict(env.state_dict())
        assert twin.knobs == env.knobs and twin.knobs["exploration_scale"]["value"] == 0.5
        for action in random_actions(1, 10, 1)[:, 0]:
            assert env.step(action)[1] == twin.step(action)[1]

    def test_masks(self) -> None:
        env = single()
        env.reset(seed=0)
        assert env.action_masks().shape == (13,) and not env.action_masks()[3]
        env.step(LONG)
        assert env.action_masks()[3]
        discrete = single(action_type="discrete")
        discrete.reset(seed=0)
        assert discrete.action_masks().shape == (8,) and discrete.action_masks()[3]
        with pytest.raises(FoxError, match="no action masks"):
            single(action_type="continuous").action_masks()

    def test_trades(self) -> None:
        env = single()
        env.reset(seed=0)
        env.step(LONG)
        env.step(FLAT)
        assert env.trades().select("env", "side", "size", "reason").rows() == [(0, 1, 10.0, "agent")]

    def test_render(self) -> None:
        env = single(render_mode="ansi")
        with pytest.raises(FoxError, match="nothing to render yet"):
            env.render()
        env.reset(seed=0)
        env.step(LONG)
        assert "+10 at" in env.render()
        assert single().render() is None
        pytest.importorskip("matplotlib")
        picture = single(render_mode="rgb_array")
        picture.reset(seed=0)
        picture.step(LONG)
        frame = picture.render()
        assert frame.dtype == np.uint8 and frame.shape[2] == 3

    def test_pictures_leave_nothing_behind_in_pyplot(self) -> None:
        pytest.importorskip("matplotlib")
        import matplotlib.pyplot as plt

        backend = plt.get_backend()
        env = single(render_mode="rgb_array")
        env.reset(seed=0)
        for _ in range(3):
            env.render()
        assert plt.get_fignums() == [] and plt.get_backend() == backend

    @pytest.mark.parametrize("clone", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
    def test_copies(self, clone: Any) -> None:
        env = single(horizon=200)
        env.reset(seed=0)
        for row in random_actions(1, 20):
            env.step(row[0])
        twin = clone(env)
        for row in random_actions(1, 20, seed=1):
            a, b = env.step(row[0]), twin.step(row[0])
            assert a[0].tobytes() == b[0].tobytes() and a[1:4] == b[1:4]

    def test_close(self) -> None:
        env = single()
        env.reset(seed=0)
        env.close()
        env.close()
        with pytest.raises(FoxError, match="closed"):
            env.step(HOLD)
