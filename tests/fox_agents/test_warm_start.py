"""Warm start: which transitions of a saved replay a new run begins with, and which replays are refused."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gymnasium.vector import AutoresetMode  # noqa: E402

import fox_agents  # noqa: E402
from fox_agents.checkpoint import CheckpointError, CheckpointStore  # noqa: E402
from fox_agents.dqn.loop import DeviceAgent  # noqa: E402
from fox_env import EnvConfig, FoxFuturesVectorEnv, synthetic  # noqa: E402

SMALL: dict[str, Any] = {
    "hidden": 16, "batch_size": 16, "replay_size": 400, "learning_starts": 64, "epoch_steps": 160,
    "full_information": True, "n_step": 1,
}  # fmt: skip
ENVS = 4


RULES = EnvConfig(reward="risk", horizon=23, counterfactual=True)


def new(market: int = 0, envs: int = ENVS, rules: EnvConfig = RULES, **changes: Any) -> DeviceAgent:
    env = FoxFuturesVectorEnv(
        envs, synthetic.regimes(seed=market, sessions=3), rules,
        backend="cpu", output="torch", autoreset_mode=AutoresetMode.SAME_STEP, copy=False, info_level="learn",
    )  # fmt: skip
    agent = fox_agents.make("bdq", env, {**SMALL, **changes})
    assert isinstance(agent, DeviceAgent)
    return agent


def transitions(agent: DeviceAgent) -> list[bytes]:
    """Every transition that can be sampled: observation, action, reward and what follows, as bytes."""
    assert agent._replay is not None
    uniform = torch.linspace(0.0, 0.9999, 6000, dtype=torch.float64)
    batch = agent._replay.sample(uniform, 1, 0.9, torch.zeros(()))
    columns = [batch.observation, batch.action.float(), batch.reward[:, None], batch.next_observation]
    return sorted({row.numpy().tobytes() for row in torch.cat(columns, dim=1)})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[DeviceAgent, Path]:
    agent, path = new(), tmp_path_factory.mktemp("run") / "last"
    agent.learn(320)
    agent.save(path)
    return agent, path


def test_a_new_run_begins_with_every_saved_transition(saved: tuple[DeviceAgent, Path]) -> None:
    """After one step of its own it has those, that step's, and no window that leads from the old run into the new."""
    first, path = saved
    second = new(warm_start=str(path), learning_starts=10_000, seed=7)
    second.learn(ENVS)
    old, now = set(transitions(first)), set(transitions(second))
    assert len(old) == 320 and old < now and len(now) == 320 + ENVS


def test_a_smaller_replay_takes_the_newest(saved: tuple[DeviceAgent, Path]) -> None:
    first, path = saved
    second = new(warm_start=str(path), learning_starts=10_000, replay_size=40 * ENVS, seed=7)
    second.learn(ENVS)
    kept = set(transitions(second)) & set(transitions(first))
    assert 36 * ENVS <= len(kept) <= 42 * ENVS
    assert first._replay is not None
    newest = first._replay.sample(torch.tensor([0.999999], dtype=torch.float64), 1, 0.9, torch.zeros(()))
    columns = [newest.observation, newest.action.float(), newest.reward[:, None], newest.next_observation]
    assert torch.cat(columns, dim=1)[0].numpy().tobytes() in kept


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"market": 1}, "data differs in digest"),
        ({"envs": 5}, "num_envs: saved 4, now 5"),
        ({"rules": RULES.replace(half_spread_ticks=2.0)}, "environment differs in half_spread_ticks"),
    ],
)
def test_another_batch_is_refused(
    saved: tuple[DeviceAgent, Path], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        new(**changes, warm_start=str(saved[1])).learn(10)


def test_a_policy_without_a_replay_is_refused(saved: tuple[DeviceAgent, Path], tmp_path: Path) -> None:
    saved[0].save(tmp_path / "best", policy_only=True)
    with pytest.raises(CheckpointError, match="holds no replay"):
        new(warm_start=str(tmp_path / "best")).learn(10)


def test_a_replay_without_counterfactuals_is_refused(tmp_path: Path) -> None:
    plain = new(full_information=False)
    plain.learn(32)
    plain.save(tmp_path / "last")
    with pytest.raises(CheckpointError, match=r"exposure_.*full_information"):
        new(warm_start=str(tmp_path / "last")).learn(10)


def test_a_run_is_taken_by_its_last_checkpoint(tmp_path: Path) -> None:
    agent, store = new(), CheckpointStore(tmp_path / "run" / "checkpoints")
    agent.learn(32)
    store.save("last", agent.env_steps, agent.save)
    second = new(warm_start=str(tmp_path / "run"), learning_starts=10_000, seed=7)
    second.learn(ENVS)
    assert set(transitions(agent)) < set(transitions(second))
