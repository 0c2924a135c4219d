"""A batch under Stable-Baselines3: what its learners read, and the learners themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from small_market import FLAT, HOLD, LONG, SPEC, make, random_actions, rows, small_market

from fox_env import ActionError, Bars, ConfigError, FoxFuturesEnv, Market
from fox_env.info import EVENTS

stable_baselines3 = pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

import torch  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize  # noqa: E402

from fox_env.adapters.sb3 import FoxVecEnv  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error:.*:UserWarning")


def made(num_envs: int = 3, **arguments: Any) -> FoxVecEnv:
    return FoxVecEnv(num_envs=num_envs, market=small_market(), **{"backend": "cpu", **arguments})


def falling_market() -> Market:
    """Thirty quiet bars, then a crash that takes more than the account of one contract."""
    close = np.concatenate([np.full(30, 5_000.0), np.full(30, 4_000.0)])
    ts = np.datetime64("2024-01-02T15:00", "ns") + np.arange(60) * np.timedelta64(60, "s")
    bars = Bars.from_arrays(ts, close, close, close, close, np.full(60, 9_000.0))
    return Market.from_bars(bars, contract=SPEC, warmup=0, cache=False)


class TestStepping:
    @pytest.mark.parametrize("action_type", ["branches", "discrete", "continuous"])
    def test_it_plays_what_single_environments_play(self, action_type: str) -> None:
        """Bit for bit SB3's own vectorised environment over single accounts: observations, rewards, flags, infos."""
        keys = ("equity", "bar_index", "trade_return", "fill_price", "branch_active")
        here = made(4, horizon=13, action_type=action_type, info_keys=keys)
        there = DummyVecEnv([lambda: FoxFuturesEnv(small_market(), horizon=13, action_type=action_type)] * 4)
        assert here.seed(5) == there.seed(5) == [5, 6, 7, 8]
        np.testing.assert_array_equal(here.reset(), there.reset())
        here.action_space.seed(0)
        ends = 0
        for _ in range(60):
            actions = np.array([here.action_space.sample() for _ in range(4)])
            mine, theirs = here.step(actions), there.step(actions)
            for a, b in zip(mine[:3], theirs[:3], strict=True):
                assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
            for done, a, b in zip(mine[2], mine[3], theirs[3], strict=True):
                ends += done
                assert ("terminal_observation" in a) == ("TimeLimit.truncated" in a) == done
                if done:
                    np.testing.assert_array_equal(a["terminal_observation"], b["terminal_observation"])
                    assert a["TimeLimit.truncated"] is b["TimeLimit.truncated"] is True
                assert done or ("fill_price" in a) == (not np.isnan(b["fill_price"]))
                for key in keys:
                    assert key in a or (key in EVENTS and not done)
                    assert key not in a or a[key] == b[key] or np.isnan([a[key], b[key]]).all()
        assert ends == 16

    def test_a_ruin_on_the_last_step_is_no_time_out(self) -> None:
        """Terminated, truncated and both in one step; the next observation is the first of a new episode."""
        market = falling_market()
        env = FoxVecEnv(
            num_envs=3,
            markets=[market, small_market()],
            market_of=[0, 1, 0],
            backend="cpu",
            horizon=10,
            initial_cash=20_000.0,
            margin=False,
            max_position=1.0,
            info_keys=("bar_index", "equity"),
        )
        # Environment 0 is ruined before its horizon, 1 reaches it, and 2 is ruined in the step that reaches it.
        env.set_options([{"start": 25}, {"start": 5}, {"start": 20}])
        env.reset()
        ends: dict[int, tuple[int, bool, float]] = {}
        for step in range(1, 11):
            obs, reward, dones, infos = env.step(rows(LONG, 3))
            for i in np.flatnonzero(dones):
                ends.setdefault(int(i), (step, infos[i]["TimeLimit.truncated"], infos[i]["equity"]))
                assert infos[i]["terminal_observation"].shape == (128,)
                assert not np.array_equal(infos[i]["terminal_observation"], obs[i])
            assert reward.dtype == obs.dtype == np.float32 and dones.dtype == np.bool_
        assert {i: end[:2] for i, end in ends.items()} == {0: (5, False), 1: (10, True), 2: (10, False)}
        assert ends[0][2] <= 0.0 < ends[1][2]

    @pytest.mark.parametrize("copy", [True, False])
    def test_returned_arrays_are_the_callers(self, copy: bool) -> None:
        env = FoxVecEnv(make(3, horizon=4, autoreset_mode="SAME_STEP", copy=copy, info_level="none"))
        first = env.reset()
        held, copies = [first], [first.copy()]
        for row in random_actions(3, 12):
            obs, reward, dones, infos = env.step(row)
            arrays = [obs, reward, dones, *(x["terminal_observation"] for x in infos if x)]
            held += arrays
            copies += [x.copy() for x in arrays]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(held, copies, strict=True))
        assert len(held) > 40

    def test_infos_belong_to_one_environment_and_step(self) -> None:
        env = made(3, horizon=4)
        env.reset()
        infos = [x for row in random_actions(3, 8) for x in env.step(row)[3]]
        assert len({id(x) for x in infos}) == len(infos)
        infos[0]["mine"] = 1
        assert all("mine" not in x for x in infos[1:])

    def test_counterfactuals_are_those_of_the_step_also_where_it_ended(self) -> None:
        keys = ("counterfactual_reward", "counterfactual_truncated", "counterfactual_account", "equity")
        env = made(3, horizon=4, action_type="discrete", counterfactual=True, info_keys=keys)
        env.reset()
        assert env.reset_infos[0]["counterfactual_reward"] == [0.0] * 8
        held: list[Any] = []
        ends = 0
        for row in np.random.default_rng(0).integers(0, 8, (12, 3)):
            obs, reward, dones, infos = env.step(row)
            for i, one in enumerate(infos):
                assert one["counterfactual_reward"][row[i]] == reward[i]
                assert one["counterfactual_truncated"] == [bool(dones[i])] * 8
                after = one["terminal_observation"] if dones[i] else obs[i]
                assert (one["counterfactual_account"][row[i]] == after[86:]).all()
                held.append((one["counterfactual_account"], one["counterfactual_account"].copy()))
            ends += int(dones.sum())
        assert ends == 9 and all((a == b).all() for a, b in held)
        assert any((a != a[0]).any() for a, _ in held)

    def test_an_action_outside_the_space_is_refused(self) -> None:
        env = made(2, action_type="discrete")
        env.reset()
        with pytest.raises(ActionError, match="action 8 of environment 1"):
            env.step(np.array([0, 8]))


class TestSeedsAndOptions:
    def test_a_seed_acts_on_the_next_reset_alone(self) -> None:
        env = made(3, horizon=10)
        env.seed(4)
        first = env.reset()
        second = env.reset()
        assert not np.array_equal(first, second)
        env.seed(4)
        np.testing.assert_array_equal(env.reset(), first)
        np.testing.assert_array_equal(env.reset(), second)

    def test_options_name_the_start_of_all_or_of_each_once(self) -> None:
        env = made(3, info_keys=("bar_index",))
        env.set_options({"start": 7})
        env.reset()
        assert [x["bar_index"] for x in env.reset_infos] == [7, 7, 7]
        env.set_options([{"start": 9}, {}, {"start": 11}])
        env.seed(0)
        env.reset()
        assert [env.reset_infos[i]["bar_index"] for i in (0, 2)] == [9, 11]
        drawn = {env.reset_infos[1]["bar_index"]}
        for seed in range(1, 5):
            env.seed(seed)
            env.reset()
            assert [env.reset_infos[i]["bar_index"] for i in (0, 2)] != [9, 11]
            env.set_options([{}, {}, {"start": 3}])
            env.reset()
            drawn.add(env.reset_infos[1]["bar_index"])
        assert len(drawn) > 3

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"begin": 3}, ConfigError, "unknown reset option 'begin'"),
            ({"start": [3, 4]}, ActionError, "start of environment 0 must be one"),
            ({"start": 10_000}, ActionError, "decision bars from 0 to 398"),
        ],
    )
    def test_options_that_do_not_fit(self, options: Any, error: type[Exception], words: str) -> None:
        env = made(2)
        env.set_options(options)
        with pytest.raises(error, match=words):
            env.reset()


class TestAttributesAndMethods:
    def test_attributes_are_given_for_each_environment(self) -> None:
        markets = [small_market(), small_market(300, seed=1)]
        env = FoxVecEnv(num_envs=3, markets=markets, market_of=[1, 0, 1], backend="cpu")
        assert env.get_attr("market") == [markets[1], markets[0], markets[1]]
        assert env.get_attr("market", [1]) == [markets[0]]
        assert env.get_attr("shaping_scale") == [0.0] * 3
        assert env.has_attr("action_masks") and not env.has_attr("no_such_thing")
        assert env.get_attr("render_mode", 2) == [None]

    def test_a_knob_is_set_for_the_whole_batch(self) -> None:
        env = made(3)
        env.set_attr("exploration_scale", 0.5)
        env.env_method("set_knob", "shaping_scale", 0.25)
        assert env.get_attr("exploration_scale") == [0.5] * 3
        assert env.env.knobs["shaping_scale"]["value"] == 0.25
        with pytest.raises(ConfigError, match="all 3 accounts"):
            env.set_attr("exploration_scale", 0.1, indices=[0])
        with pytest.raises(ConfigError, match="all 3 accounts"):
            env.env_method("set_knob", "shaping_scale", 0.1, indices=0)
        with pytest.raises(ConfigError, match="'horizon' is fixed"):
            env.set_attr("horizon", 9)
        with pytest.raises(ConfigError, match="own reset"):
            env.env_method("reset")

    @pytest.mark.parametrize("action_type", ["branches", "discrete"])
    def test_masks_are_dealt_out(self, action_type: str) -> None:
        env = made(4, action_type=action_type)
        env.reset()
        env.step(np.array([LONG, FLAT, LONG, HOLD]) if action_type == "branches" else np.array([6, 3, 7, 3]))
        masks = env.env_method("action_masks")
        np.testing.assert_array_equal(np.stack(masks), env.env.action_masks())
        assert not np.array_equal(masks[0], masks[1])
        np.testing.assert_array_equal(env.env_method("action_masks", indices=[2, 0])[1], masks[0])

    def test_pictures_are_tiled(self) -> None:
        pytest.importorskip("matplotlib", reason="needs the extra render")
        env = made(3, render_mode="rgb_array")
        env.reset()
        env.step(rows(LONG, 3))
        frames = env.get_images()
        assert len(frames) == 3 and frames[0] is not None
        height, width, _ = frames[0].shape
        picture = env.render()
        assert picture is not None and picture.shape == (2 * height, 2 * width, 3)
        assert made(2).get_images() == [None, None]

    def test_closing_twice_is_harmless(self) -> None:
        env = made()
        env.close()
        env.close()


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"autoreset_mode": "NEXT_STEP"}, "autoreset_mode= is the adapter's own choice"),
            ({"output": "torch"}, "output= is the adapter's own choice"),
            ({"info_keys": ("eqity",)}, "info_keys names 'eqity'"),
            ({"info_keys": ("equity",), "info_level": "learn"}, "use info_level='full'"),
            ({"info_keys": ("counterfactual_reward",)}, "use counterfactual=True"),
        ],
    )
    def test_arguments(self, arguments: dict[str, Any], words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            made(2, **arguments)

    def test_an_environment_that_does_not_fit(self) -> None:
        with pytest.raises(ConfigError, match="NEXT_STEP mode; make it with autoreset_mode='SAME_STEP'"):
            FoxVecEnv(make(2))
        with pytest.raises(ConfigError, match="output='numpy'"):
            FoxVecEnv(make(2, output="torch", autoreset_mode=AutoresetMode.SAME_STEP))
        with pytest.raises(ConfigError, match="horizon= is an argument"):
            FoxVecEnv(make(2, autoreset_mode=AutoresetMode.SAME_STEP), horizon=3)


class TestUnderItsWrappers:
    def test_episode_statistics_carry_fields_of_the_episode_that_ended(self) -> None:
        env = VecMonitor(
            made(2, horizon=6, info_keys=("equity", "trade_return")),
            info_keywords=("equity", "trade_return"),
        )
        env.reset()
        returns, episodes = np.zeros(2), []
        cash = env.get_attr("config")[0].initial_cash
        for row in random_actions(2, 30):
            _, reward, dones, infos = env.step(row)
            returns += reward
            for i in np.flatnonzero(dones):
                episode = infos[i]["episode"]
                assert episode["l"] == 6
                assert episode["r"] == pytest.approx(returns[i], abs=1e-4)
                episodes.append(episode["equity"])
                returns[i] = 0.0
        assert len(episodes) == 10 and any(equity != cash for equity in episodes)

    def test_evaluation_takes_the_same_number_of_episodes_of_every_environment(self) -> None:
        """Early ruins do not crowd out the episodes that last."""
        env = FoxVecEnv(
            num_envs=2,
            markets=[falling_market(), small_market()],
            backend="cpu",
            horizon=50,
            initial_cash=20_000.0,
            margin=False,
            max_position=1.0,
        )
        lengths = []
        for _ in range(2):
            env.set_options([{"start": 8}, {"start": 5}])

            class Long:
                def predict(self, obs: Any, state: Any = None, **_: Any) -> tuple[Any, Any]:
                    return rows(LONG, len(obs)), state

            lengths = evaluate_policy(
                Long(), VecMonitor(env), n_eval_episodes=4, return_episode_rewards=True
            )[1]
        assert len(lengths) == 4 and sorted(lengths)[2:] == [50, 50] and sorted(lengths)[0] < 50

    def test_observations_are_normalised_at_the_end_too(self) -> None:
        env = VecNormalize(made(2, horizon=5))
        env.reset()
        for row in random_actions(2, 5):
            _, _, dones, infos = env.step(row)
        assert dones.all() and np.abs(infos[0]["terminal_observation"]).max() <= env.clip_obs


LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "PPO": ("branches", {"n_steps": 16, "batch_size": 32, "n_epochs": 2}),
    "A2C": ("branches", {"n_steps": 16}),
    "SAC": ("continuous", {"learning_starts": 48, "buffer_size": 1_000}),
    "DQN": ("discrete", {"learning_starts": 48, "buffer_size": 1_000, "train_freq": 2}),
}
CONTRIB: dict[str, tuple[str, dict[str, Any]]] = {
    "QRDQN": ("discrete", {"learning_starts": 48, "buffer_size": 1_000, "train_freq": 2}),
    "RecurrentPPO": ("discrete", {"n_steps": 16, "batch_size": 32, "n_epochs": 2}),
    "MaskablePPO": ("branches", {"n_steps": 16, "batch_size": 32, "n_epochs": 2}),
}


def learn(algorithm: Any, name: str, action_type: str, options: dict[str, Any]) -> Any:
    env = VecMonitor(made(4, horizon=12, action_type=action_type))
    policy = "MlpLstmPolicy" if name == "RecurrentPPO" else "MlpPolicy"
    shape = {"net_arch": [16], **({"lstm_hidden_size": 8} if name == "RecurrentPPO" else {})}
    torch.set_num_threads(1)  # networks this small only lose by more
    model = algorithm(policy, env, seed=0, device="cpu", policy_kwargs=shape, **options)
    before = [p.detach().clone() for p in model.policy.parameters()]
    model.learn(128)
    changed = sum(not bool((a == b).all()) for a, b in zip(before, model.policy.parameters(), strict=True))
    assert changed > 2
    assert {e["l"] for e in model.ep_info_buffer} == {12}
    return model


@pytest.mark.parametrize("name", list(LEARNERS))
def test_learners_train(name: str) -> None:
    model = learn(getattr(stable_baselines3, name), name, *LEARNERS[name])
    if name == "DQN":  # every stored end is a time-out here: all of them are bootstrapped
        buffer = model.replay_buffer
        ends = buffer.dones[: buffer.pos].sum()
        assert ends == buffer.timeouts[: buffer.pos].sum() > 0


@pytest.mark.parametrize("name", list(CONTRIB))
def test_contributed_learners_train(name: str) -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="needs the extra sb3")
    model = learn(getattr(contrib, name), name, *CONTRIB[name])
    if name == "MaskablePPO":
        env = made(64, horizon=12)
        obs = env.reset()
        masks = np.stack(env.env_method("action_masks"))
        direction = model.predict(obs, action_masks=masks)[0][:, 0]
        assert masks[np.arange(64), direction].all() and not masks.all()


@pytest.mark.gpu
def test_a_gpu_plays_the_same_and_hands_over_numpy_arrays() -> None:
    from fox_env.backends.cuda import gpu_problem

    if gpu_problem():
        pytest.skip(str(gpu_problem()))
    here, there = made(5, horizon=9), made(5, horizon=9, backend="cuda")
    for env in (here, there):
        env.seed(2)
    np.testing.assert_array_equal(here.reset(), there.reset())
    held = []
    for row in random_actions(5, 40):
        mine, theirs = here.step(row), there.step(row)
        held.append((mine[0], theirs[0]))
        assert [x.keys() for x in mine[3]] == [x.keys() for x in theirs[3]]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(mine[:3], theirs[:3], strict=True))
    assert all(a.tobytes() == b.tobytes() for a, b in held)
