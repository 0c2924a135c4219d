"""The end of time or of data is bootstrapped, a ruin is not (known faults D3 and I1)."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

import torch
from small_sb3 import environment, new

from fox_env import Bars, ContractSpec, EnvConfig, Market

REWARD, VALUE, GAMMA = 0.5, 2.0, 0.99
SPEC = ContractSpec("T", 0.25, 50.0, 2.0, 1_000.0, 900.0)


def crash() -> Market:
    """Thirty quiet bars, then a fall that takes more than the account of one contract."""
    close = np.concatenate([np.full(30, 5_000.0), np.full(30, 4_000.0)])
    ts = np.datetime64("2024-01-02T15:00", "ns") + np.arange(60) * np.timedelta64(60, "s")
    bars = Bars.from_arrays(ts, close, close, close, close, np.full(60, 9_000.0))
    return Market.from_bars(bars, contract=SPEC, warmup=0, cache=False)


def collected(name: str) -> Any:
    """An agent whose replay holds both kinds of ends; its target network says 2 everywhere."""
    rules = EnvConfig(initial_cash=20_000.0, margin=False, max_position=1.0, horizon=10)
    env = environment(rules, crash())
    agent = new(name, env, gamma=GAMMA, learning_starts=10**6, replay_size=3_000)
    agent.learn(2_400)
    target = agent.model.policy.state_dict()
    for key in target:
        if "target" in key:
            target[key] = torch.full_like(target[key], VALUE) if key.endswith("bias") else target[key] * 0.0
    agent.model.policy.load_state_dict(target)
    return agent


def targets(agent: Any, row: int, env: int, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    """What an update on nothing but one transition trains toward."""
    replay = agent.model.replay_buffer
    for name in ("observations", "next_observations", "actions", "dones", "timeouts"):
        values = getattr(replay, name)
        values[:] = values[row, env].copy()
    replay.rewards[:] = REWARD
    seen: list[torch.Tensor] = []

    def noted(predicted: torch.Tensor, target: torch.Tensor, **_: Any) -> torch.Tensor:
        seen.append(target.detach())
        return (predicted - target).mean()

    place = {
        "dqn": "torch.nn.functional.smooth_l1_loss",
        "qrdqn": "sb3_contrib.qrdqn.qrdqn.quantile_huber_loss",
    }
    monkeypatch.setattr(place[agent.name], noted)
    agent.model.train(gradient_steps=1, batch_size=8)
    return seen[0].numpy()


@pytest.mark.parametrize("name", ["dqn", "qrdqn"])
def test_only_a_ruin_ends_the_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = collected(name)
    replay = agent.model.replay_buffer
    size = replay.size()
    ended, timed_out = replay.dones[:size] > 0, replay.timeouts[:size] > 0
    assert (timed_out <= ended).all()
    truncated, ruined = np.argwhere(timed_out), np.argwhere(ended & ~timed_out)
    assert len(truncated) > 5 and len(ruined) > 5
    row, env = truncated[0]
    # The state that the episode ended in, not the first of the next one, which is flat and has seen no bar.
    assert (replay.next_observations[row, env] != replay.observations[row + 1, env]).any()
    for (row, env), expected in ((ruined[0], REWARD), (truncated[0], REWARD + GAMMA * VALUE)):
        agent = collected(name)
        np.testing.assert_allclose(targets(agent, row, env, monkeypatch), expected, rtol=1e-6)
