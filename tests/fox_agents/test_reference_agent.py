"""The reference agent: what its full-information update is drawn to, how it explores, and that it learns."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gymnasium.vector import AutoresetMode  # noqa: E402

import fox_agents  # noqa: E402
from fox_agents.dqn.config import ReferenceConfig  # noqa: E402
from fox_agents.dqn.reference import QRDQNReference, ReferenceLearner  # noqa: E402
from fox_agents.dqn.replay import Batch  # noqa: E402
from fox_env import EnvConfig, FoxFuturesVectorEnv, synthetic  # noqa: E402
from fox_env.errors import ConfigError  # noqa: E402

RULES = EnvConfig(reward="risk", horizon=23, counterfactual=True)
SMALL: dict[str, Any] = {
    "hidden": 16, "quantiles": 5, "batch_size": 16, "replay_size": 400, "learning_starts": 64, "epoch_steps": 160,
    "schedule_steps": 600,
}  # fmt: skip
CPU = torch.device("cpu")


def environment(rules: EnvConfig = RULES, envs: int = 8) -> FoxFuturesVectorEnv:
    return FoxFuturesVectorEnv(
        envs, synthetic.regimes(seed=0, sessions=3), rules, backend="cpu", output="torch",
        autoreset_mode=AutoresetMode.SAME_STEP, copy=False, info_level="learn",
    )  # fmt: skip


def stored(agent: QRDQNReference, count: int = 64) -> Batch:
    assert agent._replay is not None
    zero = torch.zeros(())
    uniform = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return agent._replay.sample(uniform, 1, agent.config.gamma, zero)


@pytest.fixture(scope="module")
def agent() -> QRDQNReference:
    made = fox_agents.make("qrdqn_ref", environment(), SMALL)
    assert isinstance(made, QRDQNReference)
    made.learn(800)
    return made


def test_every_exposure_is_drawn_to_its_own_reward_and_next_value(agent: QRDQNReference) -> None:
    batch, learner = stored(agent), agent.learner
    assert isinstance(learner, ReferenceLearner)
    assert batch.exposure_reward is not None and batch.exposure_observation is not None
    target = learner.targets(batch)
    assert target.shape == (64, 8, 5)
    with torch.no_grad():
        for b, e in ((0, 0), (3, 6), (17, 3), (40, 7)):
            observation = batch.exposure_observation[b, e][None]
            best = learner.network(observation).mean(-1).argmax()
            after = learner.target(observation)[0, best]
            wanted = batch.exposure_reward[b, e] + agent.config.gamma * after
            torch.testing.assert_close(target[b, e], wanted)


def test_a_terminated_exposure_has_no_future(agent: QRDQNReference) -> None:
    batch = stored(agent)
    assert batch.exposure_discount is not None and batch.exposure_reward is not None
    ended = batch._replace(exposure_discount=torch.zeros_like(batch.exposure_discount))
    learner = agent.learner
    assert isinstance(learner, ReferenceLearner)
    expected = batch.exposure_reward[..., None].expand(-1, -1, 5)
    torch.testing.assert_close(learner.targets(ended), expected)


def test_the_exposure_of_the_taken_action_is_what_happened(agent: QRDQNReference) -> None:
    """The agent only places the orders of the eight exposures, so the sampled transition is one of them."""
    batch = stored(agent, 256)
    assert batch.exposure_reward is not None and batch.exposure_observation is not None
    learner = agent.learner
    assert isinstance(learner, ReferenceLearner)
    same = (batch.action[:, None, :2] == learner._branches[None, :, :2]).all(-1)
    assert (same.sum(1) == 1).all()
    taken = same.int().argmax(1)
    rows = torch.arange(256)
    torch.testing.assert_close(batch.exposure_reward[rows, taken], batch.reward)
    torch.testing.assert_close(batch.exposure_observation[rows, taken], batch.next_observation)


def test_a_random_exposure_is_held_for_its_length() -> None:
    config = ReferenceConfig(hidden=8, quantiles=3, epsilon_start=1.0, epsilon_end=1.0, hold_random=(4, 6))
    learner = ReferenceLearner(config, CPU)
    learner.start_acting(200)
    generator = torch.Generator().manual_seed(0)
    observation, masks = torch.zeros(200, 128), torch.ones(200, 13, dtype=torch.bool)
    chosen = torch.stack(
        [learner.explore(observation, masks, torch.zeros(()), generator)[:, :2] for _ in range(240)]
    )
    changes = (chosen[1:] != chosen[:-1]).any(-1).float().mean().item()
    assert changes == pytest.approx(
        (7 / 8 - 1 / 56) / 5, rel=0.1
    )  # hold and flat have one size; 1 in 8 repeats itself


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_share_of_random_steps_is_the_one_asked_for(share: float) -> None:
    config = ReferenceConfig(hidden=8, quantiles=3, epsilon_start=share, epsilon_end=share)
    learner = ReferenceLearner(config, CPU)
    learner.start_acting(500)
    generator = torch.Generator().manual_seed(1)
    observation, masks = torch.zeros(500, 128), torch.ones(500, 13, dtype=torch.bool)
    random = []
    for _ in range(300):
        learner.explore(observation, masks, torch.zeros(()), generator)
        random.append((learner._held >= 0) & (learner._left > 0))
    steps = torch.stack(random[100:]).float().mean().item()  # the last step of a hold is not counted
    assert steps == pytest.approx(share * 11 / 12, abs=0.03)


def test_same_seed_same_bytes() -> None:
    def run(seed: int) -> bytes:
        made = fox_agents.make("qrdqn_ref", environment(), {**SMALL, "seed": seed})
        assert isinstance(made, QRDQNReference)
        made.learn(480)
        weights: bytes = made.learner.tensors()["average.heads.weight"].numpy().tobytes()
        return weights

    first = run(0)
    assert run(0) == first and run(1) != first


def test_without_counterfactuals_it_says_what_to_set() -> None:
    made = fox_agents.make("qrdqn_ref", environment(RULES.replace(counterfactual=False)), SMALL)
    with pytest.raises(ConfigError, match=r"env\.counterfactual=true"):
        made.learn(100)
