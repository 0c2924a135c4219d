"""The ring buffer: autoreset boundaries, n-step sums, truncation against termination, wrap-around."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fox_agents.dqn.replay import Batch, Replay  # noqa: E402

GAMMA = 0.99


def transition(obs: list[float], nxt: list[float], reward: float = 1.0, **ends: list[bool]) -> dict[str, Any]:
    n = len(obs)
    terminated = torch.tensor(ends.get("terminated", [False] * n))
    truncated = torch.tensor(ends.get("truncated", [False] * n))
    return {
        "observation": torch.tensor(obs)[:, None],
        "action": torch.zeros(n, 1, dtype=torch.int64),
        "active": torch.ones(n, 1, dtype=torch.bool),
        "reward": torch.full((n,), reward),
        "terminated": terminated,
        "done": terminated | truncated,
        "next_observation": torch.tensor(nxt)[:, None],
        "next_mask": torch.ones(n, 2, dtype=torch.bool),
    }


def ring(rows: int, envs: int) -> Replay:
    return Replay(rows, envs, observation_size=1, branches=1, actions=2, device=torch.device("cpu"))


def draw(replay: Replay, n_step: int, count: int = 4000) -> Batch:
    return replay.sample(count, n_step, GAMMA, torch.Generator().manual_seed(0))


def facts(batch: Batch) -> set[tuple[float, ...]]:
    """Distinct (observation, reward, discount, next observation)."""
    columns = (batch.observation[:, 0], batch.reward, batch.discount, batch.next_observation[:, 0])
    return {tuple(round(float(v), 6) for v in row) for row in torch.stack(columns, dim=1)}


def counter_episodes(replay: Replay, steps: int, length: int, end: str) -> None:
    """One env whose observation counts 0, 1, ... in episodes of ``length`` steps; it pays 1, 2, ..."""
    for t in range(steps):
        k = t % length
        last = k == length - 1
        replay.add(**transition([float(k)], [float(k + 1)], float(k + 1), **{end: [last]}))


@pytest.mark.parametrize(("end", "last_discount"), [("truncated", GAMMA), ("terminated", 0.0)])
def test_one_step_targets_never_bridge_episodes(end: str, last_discount: float) -> None:
    replay = ring(9, 1)
    counter_episodes(replay, 9, 3, end)
    assert facts(draw(replay, 1)) == {
        (0.0, 1.0, GAMMA, 1.0),
        (1.0, 2.0, GAMMA, 2.0),
        (2.0, 3.0, last_discount, 3.0),  # 3 is the final observation, not the 0 of the next episode
    }


@pytest.mark.parametrize(("end", "factor"), [("truncated", 1.0), ("terminated", 0.0)])
def test_n_step_sums_stop_at_the_end_of_an_episode(end: str, factor: float) -> None:
    replay = ring(8, 1)
    counter_episodes(replay, 8, 4, end)
    g = GAMMA
    expected = {
        (0.0, 1 + 2 * g + 3 * g * g, g**3, 3.0),
        (1.0, 2 + 3 * g + 4 * g * g, factor * g**3, 4.0),
        (2.0, 3 + 4 * g, factor * g**2, 4.0),
        (3.0, 4.0, factor * g, 4.0),
    }
    assert facts(draw(replay, 3)) == {tuple(round(v, 6) for v in row) for row in expected}


def test_value_of_the_last_state() -> None:
    """End of data keeps its value, ruin does not, and ruin on the last bar is ruin."""
    replay = ring(1, 3)
    ends = {"terminated": [False, True, True], "truncated": [True, False, True]}
    replay.add(**transition([0.0, 1.0, 2.0], [10.0, 11.0, 12.0], 0.5, **ends))
    batch = draw(replay, 1)
    target = batch.reward + batch.discount * 2.0
    got = {int(o): round(float(t), 6) for o, t in zip(batch.observation[:, 0], target, strict=True)}
    assert got == {0: 2.48, 1: 0.5, 2: 0.5}


def test_the_oldest_rows_are_overwritten_and_no_window_crosses_the_write_position() -> None:
    replay = ring(5, 1)
    for t in range(12):
        replay.add(**transition([float(t)], [float(t + 1)], 1.0))
    batch = draw(replay, 2)
    assert sorted(set(batch.observation[:, 0].tolist())) == [7.0, 8.0, 9.0, 10.0]
    assert torch.equal(batch.next_observation, batch.observation + 2)


def test_a_half_full_ring_samples_only_what_was_written() -> None:
    replay = ring(100, 2)
    for t in range(3):
        replay.add(**transition([10.0 + t, 20.0 + t], [11.0 + t, 21.0 + t]))
    assert set(draw(replay, 1).observation[:, 0].tolist()) == {10.0, 11.0, 12.0, 20.0, 21.0, 22.0}
    assert set(draw(replay, 3).observation[:, 0].tolist()) == {10.0, 20.0}


def test_stored_transitions_do_not_follow_the_callers_buffers() -> None:
    replay = ring(4, 1)
    step = transition([1.0], [2.0])
    replay.add(**step)
    step["observation"].fill_(99.0)
    step["next_observation"].fill_(99.0)
    assert facts(draw(replay, 1)) == {(1.0, 1.0, GAMMA, 2.0)}
