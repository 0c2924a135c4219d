"""A batch under Tianshou: its own single environments as the measure, its collector and two learners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from small_market import FLAT, HOLD, LONG, make, random_actions, rows, small_market

from fox_env import ActionError, ConfigError, FoxFuturesEnv

torch = pytest.importorskip("torch")
pytest.importorskip("tianshou", reason="needs the extra tianshou")

from tianshou.algorithm import DQN  # noqa: E402
from tianshou.algorithm.algorithm_base import Policy  # noqa: E402
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy  # noqa: E402
from tianshou.algorithm.optim import AdamOptimizerFactory  # noqa: E402
from tianshou.data import Batch, Collector, VectorReplayBuffer  # noqa: E402
from tianshou.env import DummyVectorEnv  # noqa: E402
from tianshou.trainer import OffPolicyTrainerParams  # noqa: E402
from tianshou.utils.net.common import Net  # noqa: E402

from fox_env.adapters.tianshou import FoxTianshouEnv  # noqa: E402

KEYS = ("equity", "bar_index", "trade_bars", "order_status")
ACCOUNT = ("equity", "bar_index")


def made(num_envs: int = 3, **arguments: Any) -> FoxTianshouEnv:
    return FoxTianshouEnv(num_envs=num_envs, market=small_market(), **{"backend": "cpu", **arguments})


def singles(num_envs: int, **arguments: Any) -> DummyVectorEnv:
    return DummyVectorEnv([lambda: FoxFuturesEnv(small_market(), **arguments)] * num_envs)


def assert_same(mine: Any, theirs: Any) -> None:
    """Equal results of a step or of a reset, whose events are still those of the step before."""
    *arrays, infos = mine
    *others, dictionaries = theirs
    for a, b in zip(arrays, others, strict=True):
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b.astype(a.dtype))
    for a, b in zip(infos, dictionaries, strict=True):
        assert all(a[key] == b[key] for key in (KEYS if len(arrays) > 1 else ACCOUNT))
        assert a["env_id"] == b.get("env_id", a["env_id"])


class TestAgainstSingleEnvironments:
    def test_whole_batches(self) -> None:
        mine, theirs = made(3, horizon=5, info_keys=KEYS), singles(3, horizon=5)
        assert mine.seed(2) == theirs.seed(2) == [[2], [3], [4]]
        assert_same(mine.reset(), theirs.reset())
        ends = 0
        for row in random_actions(3, 23):
            step = mine.step(row)
            assert_same(step, theirs.step(row))
            done = np.flatnonzero(step[2] | step[3])
            ends += len(done)
            if len(done):
                assert_same(mine.reset(done), theirs.reset(done))
        assert ends == 12

    def test_some_at_a_time_in_any_order(self) -> None:
        """The others neither move nor end, whoever steps; also those that wait for their reset."""
        mine, theirs = made(4, horizon=5, info_keys=KEYS), singles(4, horizon=5)
        for env in (mine, theirs):
            env.seed(8)
        assert_same(mine.reset(), theirs.reset())
        rng = np.random.default_rng(0)
        waiting: set[int] = set()
        for row in random_actions(4, 120):
            ready = [i for i in range(4) if i not in waiting]
            ids = rng.permutation(ready)[: rng.integers(1, len(ready) + 1)] if ready else np.array([], int)
            if len(ids):
                step = mine.step(row[ids], ids)
                assert_same(step, theirs.step(row[ids], ids))
                waiting |= set(ids[step[2] | step[3]].tolist())
            again = [i for i in waiting if rng.random() < 0.4 or len(waiting) == 4]
            if again:
                assert_same(mine.reset(again), theirs.reset(again))
                waiting -= set(again)
            if rng.random() < 0.1:
                one = int(rng.integers(0, 4))  # perhaps in the middle of its episode
                assert_same(mine.reset(one), theirs.reset(one))
                waiting -= {one}

    def test_counterfactuals_are_those_of_the_step_also_where_it_ended(self) -> None:
        keys = ("counterfactual_reward", "counterfactual_truncated")
        env = made(3, horizon=4, action_type="discrete", counterfactual=True, info_keys=keys)
        env.reset()
        ends = 0
        for row in np.random.default_rng(0).integers(0, 8, (12, 3)):
            _, reward, _, truncated, infos = env.step(row)
            for i, one in enumerate(infos):
                assert one["counterfactual_reward"][row[i]] == reward[i]
                assert one["counterfactual_truncated"] == [bool(truncated[i])] * 8
            if truncated.any():
                env.reset(np.flatnonzero(truncated))
            ends += int(truncated.sum())
        assert ends == 9

    def test_one_start_for_those_that_are_reset(self) -> None:
        env = made(3, info_keys=("bar_index",))
        env.reset()
        before = [env.env.outputs["info.bar_index"][i] for i in range(3)]
        _, infos = env.reset([2, 0], options={"start": 33})
        assert [(x["env_id"], x["bar_index"]) for x in infos] == [(2, 33), (0, 33)]
        assert env.env.outputs["info.bar_index"][1] == before[1]


class TestReturnedArrays:
    def test_they_are_the_callers(self) -> None:
        env = made(3, horizon=4)
        held = list(env.reset()[:1])
        copies = [held[0].copy()]
        for row in random_actions(3, 8):
            step = env.step(row)
            held += step[:4]
            copies += [x.copy() for x in step[:4]]
            if (step[2] | step[3]).any():
                env.reset(np.flatnonzero(step[2] | step[3]))
        assert all(a.tobytes() == b.tobytes() for a, b in zip(held, copies, strict=True))


class TestRefusals:
    def test_a_step_before_the_reset_of_an_ended_episode(self) -> None:
        env = made(2, horizon=2)
        env.reset()
        for _ in range(2):
            env.step(rows(HOLD, 2))
        with pytest.raises(ActionError, match="environment 1 has ended"):
            env.step([LONG], id=[1])
        env.reset([1])
        env.step([LONG], id=1)

    @pytest.mark.parametrize("ids", [[0, 0], [2], [-1]])
    def test_ids_that_are_none(self, ids: list[int]) -> None:
        env = made(2)
        env.reset()
        with pytest.raises(ActionError, match="from 0 to 1"):
            env.step([FLAT] * len(ids), id=ids)

    def test_arguments_that_do_not_fit(self) -> None:
        env = made(2)
        with pytest.raises(ActionError, match="the first reset"):
            env.reset([0])
        with pytest.raises(ConfigError, match="use seed"):
            env.reset(seed=3)
        env.reset()
        with pytest.raises(ActionError, match="1 actions for 2"):
            env.step([LONG])
        with pytest.raises(ConfigError, match="'horizon' is fixed"):
            env.set_env_attr("horizon", 3)
        with pytest.raises(ConfigError, match="all 2 accounts"):
            env.set_env_attr("exploration_scale", 0.5, id=[0])
        with pytest.raises(ConfigError, match="autoreset_mode='SAME_STEP'"):
            FoxTianshouEnv(make(2, autoreset_mode=AutoresetMode.DISABLED))


def test_attributes_are_given_for_each_environment() -> None:
    env = made(2, action_type="discrete")
    assert len(env) == 2 and [space.n for space in env.action_space] == [8, 8]
    assert env.observation_space[1].shape == (128,)
    env.set_env_attr("exploration_scale", 0.5)
    assert env.env.knobs["exploration_scale"]["value"] == 0.5
    assert env.get_env_attr("market", 1) == [env.env.markets[0]]
    env.close()
    assert env.is_closed


def optimiser() -> Any:
    return AdamOptimizerFactory(lr=1e-3)


def discrete_learner(env: FoxTianshouEnv) -> Any:
    network = Net(state_shape=128, action_shape=8, hidden_sizes=[16])
    policy = DiscreteQLearningPolicy(model=network, action_space=env.action_space[0], eps_training=0.3)
    return DQN(policy=policy, optim=optimiser(), gamma=0.99, target_update_freq=20)


@pytest.mark.filterwarnings("ignore:n_episode=. should be larger")
def test_the_collector_takes_whole_episodes() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env = made(4, horizon=6, action_type="discrete")
    collector = Collector(discrete_learner(env), env, VectorReplayBuffer(400, 4), exploration_noise=True)
    collector.reset()
    for episodes in (6, 3, 1):
        stats = collector.collect(n_episode=episodes)
        assert stats.n_collected_episodes == episodes and set(stats.lens) == {6}
    buffer = collector.buffer
    data = buffer[:]
    assert data.truncated.sum() == 10 and not data.terminated.any()
    inside = np.flatnonzero(~data.done)
    inside = inside[inside + 1 < len(data.obs)]
    np.testing.assert_array_equal(data.obs_next[inside], data.obs[inside + 1])


def test_a_learner_trains() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env = made(4, horizon=12, action_type="discrete")
    algorithm = discrete_learner(env)
    buffer = VectorReplayBuffer(800, 4)
    before = [p.detach().clone() for p in algorithm.policy.parameters()]
    trained = algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=Collector(algorithm, env, buffer, exploration_noise=True),
            max_epochs=1,
            epoch_num_steps=160,
            collection_step_num_env_steps=16,
            batch_size=32,
            test_in_training=False,
        )
    )
    assert trained.train_step == 160
    assert any(not torch.equal(a, b) for a, b in zip(before, algorithm.policy.parameters(), strict=True))


class RandomPolicy(Policy):
    def forward(self, batch: Any, state: Any = None, **_: Any) -> Any:
        return Batch(act=np.stack([self.action_space.sample() for _ in batch.obs]), state=state)


@pytest.mark.parametrize("action_type", ["branches", "continuous"])
def test_other_action_spaces_are_collected_from(action_type: str) -> None:
    env = made(3, horizon=12, action_type=action_type)
    collector = Collector(RandomPolicy(env.action_space[0]), env, VectorReplayBuffer(300, 3))
    collector.reset()
    assert collector.collect(n_step=60).n_collected_steps == 60
    assert collector.buffer[:].act.shape == ((60, 4) if action_type == "branches" else (60, 1))
