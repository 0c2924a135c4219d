"""State, copies and pickles, registration and specs, trades, rendering, and Gymnasium's vector wrappers."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
import weakref
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers
from small_market import FLAT, HOLD, LONG, SHORT, make, play, random_actions, rows, same, small_market

from fox_env import ConfigError, FoxError, FoxFuturesVectorEnv, _layout

torch = pytest.importorskip("torch")

BUSY = {"horizon": 11, "exploration_scale": 1.0, "saboteur": (0.5, 2.0)}


class TestState:
    @pytest.mark.parametrize(("knob", "value"), [("kelly_floor", np.nan), ("trail_long", 2.0)])
    def test_knobs_that_could_not_be_set_cannot_be_loaded(self, knob: str, value: float) -> None:
        env = make(1)
        env.reset(seed=0)
        state = env.state_dict()
        state["knobs"][list(env.knobs).index(knob)] = value
        with pytest.raises(ConfigError, match=f"knob {knob}"):
            env.load_state_dict(state)

    @pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
    @pytest.mark.parametrize("steps", [0, 7, 11, 12])
    def test_it_continues_exactly_in_itself_and_in_another(self, mode: str, steps: int) -> None:
        env = make(5, autoreset_mode=mode, **BUSY)
        env.reset(seed=4)
        play(env, random_actions(5, steps, seed=1))
        state = env.state_dict()
        kept = {name: value.copy() for name, value in state.items()}
        rest = random_actions(5, 40, seed=2)
        expected, trades = play(env, rest), env.trades()
        assert all(
            kept[name].tobytes() == value.tobytes() for name, value in state.items()
        )  # a copy, not views
        for other in (
            env,
            make(5, autoreset_mode=mode, output="torch", **{**BUSY, "exploration_scale": 0.0}),
        ):
            other.load_state_dict(state)
            assert other.knobs["exploration_scale"]["value"] == 1.0
            assert np.asarray(other.observation).tobytes() == state["obs"].tobytes()
            assert same(expected, play(other, rest))
            assert other.trades().equals(trades)

    def test_it_crosses_autoreset_modes_output_and_info_level(self) -> None:
        """Taken right after an end, the next episode is the same one in every mode."""
        source = make(3, horizon=5, info_level="none", trade_capacity=8)
        source.reset(seed=1)
        ends = [step[3] for step in (source.step(row) for row in random_actions(3, 5))]
        assert ends[-1].all()
        state = source.state_dict()
        rest = random_actions(3, 5, seed=3)
        source.step(rows(HOLD, 3))  # the reset step
        expected = play(source, rest[:4])
        same_step = make(3, horizon=5, autoreset_mode="SAME_STEP", output="torch", trade_capacity=8)
        same_step.load_state_dict(state)
        same_step.step(rows(HOLD, 3))
        assert same(expected, play(same_step, rest[:4]))
        disabled = make(3, horizon=5, autoreset_mode="DISABLED", trade_capacity=8)
        disabled.load_state_dict(state)
        with pytest.raises(FoxError, match="has ended"):
            disabled.step(rows(HOLD, 3))
        disabled.reset(options={"reset_mask": np.ones(3, bool)})
        assert same(expected, play(disabled, rest[:4]))

    def test_a_state_that_does_not_fit_is_refused_whole(self) -> None:
        env = make(2)
        env.reset(seed=0)
        good = env.state_dict()
        past = good["state.bar"] + len(small_market())
        bad: list[tuple[dict[str, Any], str]] = [
            ({k: v for k, v in good.items() if k != "state.cash"}, "state.cash"),
            ({k: v for k, v in good.items() if k != "needs_reset"}, "needs_reset"),
            ({**good, "state.bar": good["state.bar"].astype(np.float32)}, "state.bar"),
            ({**good, "state.bar": past}, "bars, which|does not have"),
            ({**good, "state.bar": -past}, "does not have"),
            ({**good, "state.bar": np.full(2, len(small_market()) - 1, np.int32)}, "does not have"),
            (make(3).state_dict(), "same size"),
            (make(2, trade_capacity=9).state_dict(), "ledger"),
            (make(2, trade_capacity=0).state_dict(), "ledger"),
        ]
        for state, words in bad:
            with pytest.raises(ConfigError, match=words):
                env.load_state_dict(state)
        assert all(good[name].tobytes() == value.tobytes() for name, value in env.state_dict().items())

    def test_a_state_of_another_market_is_refused(self) -> None:
        env, other = make(2), make(2, market=small_market(seed=3))
        env.reset(seed=0)
        with pytest.raises(ConfigError, match="of other markets"):
            other.load_state_dict(env.state_dict())
        for options in ({"trail_atr": (2.0, 2.0)}, {"lot": 2.0}):
            with pytest.raises(ConfigError, match="lots, stops or targets"):
                make(2, **options).load_state_dict(env.state_dict())

    def test_a_state_from_before_the_first_reset_still_asks_for_one(self) -> None:
        fresh = make(2).state_dict()
        env = make(2)
        env.reset(seed=0)
        env.load_state_dict(fresh)
        with pytest.raises(FoxError, match="call reset"):
            env.step(rows(HOLD, 2))


class TestCopies:
    @pytest.mark.parametrize("output", ["numpy", "torch"])
    @pytest.mark.parametrize("clone", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
    def test_pickles_and_deep_copies_go_their_own_way_from_here(self, clone: Any, output: str) -> None:
        env = make(3, output=output, autoreset_mode=AutoresetMode.SAME_STEP, **BUSY)
        env.reset(seed=5)
        play(env, random_actions(3, 15))
        twin = clone(env)
        assert twin.config == env.config and twin.autoreset_mode == env.autoreset_mode
        assert twin.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        state = twin.state_dict()
        played = play(env, random_actions(3, 30))
        assert all(state[name].tobytes() == value.tobytes() for name, value in twin.state_dict().items())
        assert same(played, play(twin, random_actions(3, 30)))
        assert env.trades().equals(twin.trades())

    def test_a_deep_copy_shares_the_market(self) -> None:
        env = make(1)
        assert copy.deepcopy(env).market is env.market

    def test_several_environments_on_one_market_do_not_meet(self) -> None:
        alone = make(2, horizon=9)
        alone.reset(seed=1)
        expected = play(alone, random_actions(2, 30))
        envs = [make(2, horizon=9), make(2, horizon=9, action_type="discrete", initial_cash=1e6)]
        envs[0].reset(seed=1)
        envs[1].reset(seed=2)
        got = []
        for row in random_actions(2, 30):
            got += [np.array(x) for x in envs[0].step(row)[:4]]
            envs[1].step([6, 0])
        assert same(got, expected)

    def test_closing_twice_is_allowed_and_use_after_it_refused(self) -> None:
        env = make(2)
        env.reset(seed=0)
        env.close()
        env.close()
        assert env.closed
        uses = [lambda: env.step(rows(HOLD, 2)), env.reset, env.state_dict, env.action_masks, env.trades]
        for use in uses:
            with pytest.raises(FoxError, match="this environment is closed"):
                use()

    def test_closing_frees_the_memory_of_a_batch_that_is_still_held(self) -> None:
        env = make(2)
        env.reset(seed=0)
        held = weakref.ref(env.outputs["obs"])
        env.close()
        assert env.closed and held() is None


class TestRegistration:
    @pytest.mark.parametrize(
        ("env_id", "action_type"),
        [
            ("Fox-Futures-v0", "branches"),
            ("Fox-FuturesDiscrete-v0", "discrete"),
            ("Fox-FuturesContinuous-v0", "continuous"),
        ],
    )
    def test_make_vec_its_spec_and_json_give_the_same_environment(
        self, env_id: str, action_type: str
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            env = gym.make_vec(
                env_id,
                num_envs=2,
                vectorization_mode="vector_entry_point",
                backend="cpu",
                horizon=6,
                autoreset_mode="SAME_STEP",
                saboteur=(0.5, 2.0),
                exploration_scale=1.0,
            )
            assert isinstance(env, FoxFuturesVectorEnv) and env.spec is not None
            text = env.spec.to_json()
            json.loads(text)
            twins = [
                gym.make_vec(EnvSpec.from_json(text)),
                gym.make_vec(pickle.loads(pickle.dumps(env.spec))),
            ]
        env.reset(seed=3)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(20)]
        expected = [env.step(a)[0] for a in actions]
        for twin in twins:
            assert isinstance(twin, FoxFuturesVectorEnv)
            assert twin.config == env.config and twin.autoreset_mode is AutoresetMode.SAME_STEP
            assert twin.single_action_space == env.single_action_space
            twin.reset(seed=3)
            assert same(expected, [twin.step(a)[0] for a in actions])
        assert pickle.loads(pickle.dumps(env)).spec == env.spec

    def test_the_default_mode_is_the_native_one_and_takes_a_step_limit(self) -> None:
        env = gym.make_vec("Fox-Futures-v0", num_envs=2, max_episode_steps=3, backend="cpu")
        assert isinstance(env.unwrapped, FoxFuturesVectorEnv)
        env.reset(seed=0)
        assert [env.step(rows(HOLD, 2))[3][0] for _ in range(4)] == [False, False, True, False]


class TestTrades:
    def test_the_frame_of_one_round_trip(self) -> None:
        env = make(2, random_start=False)
        env.reset(seed=0)
        for action in (LONG, HOLD, HOLD, FLAT):
            env.step([action, HOLD])
        frame = env.trades()
        assert frame.columns == [
            *("env", "episode", "entry_bar", "exit_bar", "entry_time", "exit_time", "side", "size"),
            *(
                "entry_price",
                "exit_price",
                "pnl",
                "trade_return",
                "r",
                "bars",
                "mae",
                "mfe",
                "costs",
                "reason",
            ),
        ]
        assert frame.height == 1
        trade = frame.row(0, named=True)
        bars = small_market().bars
        assert (trade["env"], trade["episode"], trade["side"], trade["size"], trade["reason"]) == (
            0,
            0,
            1,
            10.0,
            "agent",
        )
        assert (trade["entry_bar"], trade["exit_bar"], trade["bars"]) == (1, 4, 3)
        assert frame["entry_time"].cast(int).to_list() == [int(bars.ts[1])]
        assert frame["exit_time"].cast(int).to_list() == [int(bars.ts[4])]
        equity = float(env.state_dict()["state.cash"][0])
        assert trade["pnl"] == pytest.approx(equity - env.config.initial_cash)
        assert trade["mae"] <= trade["pnl"] <= trade["mfe"] and trade["mae"] <= 0 <= trade["mfe"]
        assert trade["costs"] > 0

    def test_it_lists_every_trade_that_infos_counted_in_order(self) -> None:
        env = make(4, horizon=25)
        env.reset(seed=0)
        counted = sum(int(env.step(row)[4]["trade_closed"].sum()) for row in random_actions(4, 200))
        frame = env.trades()
        assert frame.height == counted > 50
        assert frame.equals(frame.sort("env", "episode", "exit_bar", maintain_order=True))
        assert frame["episode"].max() == 7  # 26 steps an episode: 25 and the reset

    def test_overwritten_trades_are_counted_in_a_warning(self) -> None:
        small, whole = make(1, trade_capacity=3), make(1)
        for env in (small, whole):
            env.reset(seed=0)
            for action in [LONG, SHORT] * 5:
                env.step([action])
        with pytest.warns(UserWarning, match=r"^6 older trades were overwritten"):
            frame = small.trades()
        assert whole.trades().height == 9 and frame.equals(whole.trades().tail(3))

    def test_an_empty_frame_has_the_same_columns_and_no_ledger_is_said(self) -> None:
        empty, one = make(1), make(1)
        for env in (empty, one):
            env.reset(seed=0)
        one.step([LONG])
        one.step([FLAT])
        assert empty.trades().height == 0 and empty.trades().schema == one.trades().schema
        for without in (make(1, trade_capacity=0), make(1, info_level="none")):
            with pytest.raises(FoxError, match="keeps no trades"):
                without.trades()


class TestRender:
    def test_text_shows_the_account_of_every_environment(self) -> None:
        env = make(2, render_mode="ansi", random_start=False)
        env.reset(seed=0)
        env.step([LONG, HOLD])
        frames = env.render()
        assert isinstance(frames, tuple) and len(frames) == 2
        info = env.step(rows(HOLD, 2))[4]
        held, flat = env.render()
        assert "SML" in held and "+10 at" in held and f"{info['equity'][0]:,.2f}" in held and "bar 2" in held
        assert "flat" in flat and "fill" in frames[0] and "fill" not in held

    def test_pictures(self) -> None:
        pytest.importorskip("matplotlib")
        env = make(2, render_mode="rgb_array", horizon=5)
        env.reset(seed=0)
        for row in random_actions(2, 8):
            env.step(row)
        frames = env.render()
        assert len(frames) == 2
        for frame in frames:
            assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3 and frame.std() > 0

    def test_no_mode_draws_nothing_and_nothing_yet_is_said(self) -> None:
        assert make(1).render() is None
        with pytest.raises(FoxError, match="nothing to render yet"):
            make(1, render_mode="ansi").render()


class TestGymnasiumWrappers:
    @pytest.mark.parametrize(
        ("mode", "reports"), [("NEXT_STEP", [2, 6, 10, 14]), ("SAME_STEP", [2, 5, 8, 11, 14])]
    )
    def test_record_episode_statistics(self, mode: str, reports: list[int]) -> None:
        env = wrappers.RecordEpisodeStatistics(make(1, horizon=3, autoreset_mode=mode))
        env.reset(seed=0)
        seen, total = [], 0.0
        for step, row in enumerate(random_actions(1, 16)):
            _, reward, _, truncated, info = env.step(row)
            total += float(reward[0])
            assert truncated[0] == ("episode" in info)
            if truncated[0]:
                seen.append(step)
                assert info["episode"]["l"].tolist() == [3]
                assert info["episode"]["r"][0] == pytest.approx(total, abs=1e-12)
                total = 0.0
        assert seen == reports and set(env.length_queue) == {3}

    @pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
    @pytest.mark.parametrize(
        "wrap",
        [
            wrappers.NormalizeReward,
            lambda e: wrappers.ClipReward(e, -1.0, 1.0),
            wrappers.DictInfoToList,
        ],
    )
    def test_other_wrappers_run_over_ends(self, wrap: Any, mode: AutoresetMode) -> None:
        env = wrap(make(2, horizon=4, autoreset_mode=mode))
        env.reset(seed=0)
        for row in random_actions(2, 15):
            obs, reward, _, truncated, info = env.step(row)
            assert np.isfinite(obs).all() and np.isfinite(reward).all()
            if isinstance(info, list) and truncated.any() and mode is AutoresetMode.SAME_STEP:
                assert info[0]["final_obs"].shape == (128,)
                assert set(info[0]["final_info"]) >= set(_layout.INFO_FIELDS) - {
                    *("fill_price", "fill_quantity", "trade_return", "trade_r", "trade_bars", "exit_reason"),
                    "reward_components",
                }

    @pytest.mark.parametrize(
        "wrap",
        [
            wrappers.NormalizeObservation,
            lambda e: wrappers.VectorizeTransformObservation(
                e, gym.wrappers.ReshapeObservation, shape=(8, 16)
            ),
        ],
    )
    def test_wrappers_of_observations_take_the_next_step_mode_only(self, wrap: Any) -> None:
        env = wrap(make(2, horizon=4))
        env.reset(seed=0)
        assert all(env.step(row)[0].shape == env.observation_space.shape for row in random_actions(2, 15))
        with pytest.raises(ValueError, match="autoreset"):
            wrap(make(2, autoreset_mode="SAME_STEP"))


class TestMarketsByName:
    def test_a_file_is_read_once_until_it_changes(self, tmp_path: Path) -> None:
        path = tmp_path / "bars.csv"

        def write(count: int) -> None:
            lines = [
                f"2024-01-02T15:{i:02d}:00Z,{100 + i},{101 + i},{99 + i},{100.5 + i},10" for i in range(count)
            ]
            path.write_text("\n".join(["ts,open,high,low,close,volume", *lines, ""]))

        write(20)
        first, again, other = (make_from(name) for name in (str(path), path, path))
        assert first.market is again.market is other.market and len(first.market) == 20
        write(30)
        assert len(make_from(path).market) == 30

    def test_hints_reach_the_reader(self, tmp_path: Path) -> None:
        path = tmp_path / "bars.csv"
        lines = [f"2024-01-02 15:{i:02d}:00,100,101,99,100,10" for i in range(20)]
        path.write_text("\n".join(["ts,open,high,low,close,volume", *lines, ""]))
        with pytest.raises(FoxError, match="tz="):
            make_from(path)
        env = gym.make("Fox-Futures-v0", market=str(path), contract="ES", read_hints={"tz": "Asia/Tokyo"})
        assert env.unwrapped.market.bars.ts[0] == np.datetime64("2024-01-02T06:00", "ns").astype(np.int64)

    @pytest.mark.parametrize(
        ("market", "hints", "message"),
        [
            ("regimes:seed=0", {"tz": "UTC"}, "no file"),
            (small_market(), {"tz": "UTC"}, "already read"),
            ("bars.csv", {"zone": "UTC"}, "unknown read hint 'zone'"),
            ("bars.csv", "UTC", "must be a table of names and values"),
            ("bars.csv", {"tz": object()}, "must be text, a number, a list or a table"),
        ],
    )
    def test_wrong_hints_are_refused(self, market: Any, hints: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            FoxFuturesVectorEnv(1, market, backend="cpu", read_hints=hints)

    def test_a_directory_or_nothing_is_refused(self, tmp_path: Path) -> None:
        for name in (tmp_path, tmp_path / "absent.csv"):
            with pytest.raises(FoxError, match=str(tmp_path)):
                make_from(name)


def make_from(market: Any) -> FoxFuturesVectorEnv:
    return FoxFuturesVectorEnv(1, market, backend="cpu", contract="ES")
