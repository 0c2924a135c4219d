"""The rules of past prices: what they do, when, and that they see no bar too early."""

from typing import Any

import numpy as np
import pytest

import fox_agents
from fox_env import Bars, ContractSpec, EnvConfig, FoxFuturesVectorEnv, Market
from fox_env._layout import Direction
from fox_env.errors import ConfigError

SPEC = ContractSpec("T", 0.25, 50.0, 2.0, 1_000.0, 900.0)
SHORT, HOLD, LONG, FLAT = (int(Direction[name]) for name in ("SHORT", "HOLD", "LONG", "FLAT"))


def market(close: Any, roll_gap: Any = None) -> Market:
    close = np.asarray(close, dtype=np.float64)
    ts = np.datetime64("2024-01-02T15:00", "ns") + np.arange(len(close)) * np.timedelta64(60, "s")
    volume = np.full(len(close), 9e6)
    bars = Bars.from_arrays(ts, close, close, close, close, volume, roll_gap=roll_gap)
    return Market.from_bars(bars, contract=SPEC, warmup=0, cache=False)


def played(name: str, options: dict[str, Any], prices: Market) -> list[int]:
    """Directions chosen after each bar but the last."""
    env = FoxFuturesVectorEnv(1, prices, EnvConfig(margin=False, random_start=False), backend="cpu")
    obs, _ = env.reset(seed=0, options={"start": [0]})
    agent = fox_agents.make(name, env, options)
    chosen = []
    for _ in range(len(prices) - 1):
        action = agent.act(obs, deterministic=True)
        assert action.tolist()[0][1:] == [2, 0, 1]  # full, market, normal
        chosen.append(int(action[0, 0]))
        obs, *_ = env.step(action)
    return chosen


def test_momentum_follows_the_change_over_the_look_back() -> None:
    prices = market([100, 101, 102, 101, 100, 100, 100, 100])
    assert played("momentum", {"lookback": 2}, prices) == [HOLD, HOLD, LONG, HOLD, SHORT, SHORT, HOLD]


def test_mean_reversion_enters_outside_the_bands_and_leaves_at_the_mean() -> None:
    """Windows of four: z = +1.73 after one jump, and 0.58 once half of it is undone; flat windows have no z."""
    prices = market([100, 100, 100, 104, 103, 100, 100, 100, 96, 98, 100, 100])
    chosen = played("mean_reversion", {"lookback": 4, "entry": 1.5, "exit": 0.0}, prices)
    assert chosen == [HOLD] * 3 + [SHORT, HOLD, FLAT, HOLD, HOLD, LONG, HOLD, FLAT]


def test_an_exit_before_the_mean() -> None:
    prices = market([100, 100, 100, 104, 103, 103, 103, 103])
    early = played("mean_reversion", {"lookback": 4, "entry": 1.5, "exit": 1.0}, prices)
    late = played("mean_reversion", {"lookback": 4, "entry": 1.5, "exit": 0.0}, prices)
    assert early[4] == FLAT and late[4] == HOLD


@pytest.mark.parametrize(("name", "span"), [("momentum", 60), ("mean_reversion", 20)])
def test_no_rule_sees_a_later_bar(name: str, span: int) -> None:
    generator = np.random.default_rng(0)
    close = 4_000 + 0.25 * np.cumsum(generator.integers(-6, 7, 400))
    far = np.where(np.arange(400) < 300, 0.0, 200.0)
    first, up, down = (played(name, {}, market(close + jump)) for jump in (0.0, far, -far))
    assert first[:300] == up[:300] == down[:300] and up[300] != down[300]
    assert {LONG, SHORT} <= set(first[span:]) and set(first[: span - 1]) == {HOLD}


@pytest.mark.parametrize("name", ["momentum", "mean_reversion"])
def test_the_jump_at_a_roll_is_no_move(name: str) -> None:
    generator = np.random.default_rng(1)
    close = 4_000 + 0.25 * np.cumsum(generator.integers(-6, 7, 300))
    gap = np.zeros(300)
    gap[150] = 50.0
    rolled = market(close + np.cumsum(gap), roll_gap=gap)
    agent: Any = fox_agents.make(name)
    np.testing.assert_allclose(agent.indicator(rolled), agent.indicator(market(close)), atol=1e-9)


@pytest.mark.parametrize("name", ["momentum", "mean_reversion"])
def test_rules_are_evaluated_with_costs_and_in_windows(name: str, tmp_path: Any) -> None:
    close = 4_000 + 0.25 * np.cumsum(np.random.default_rng(2).integers(-6, 7, 500))
    prices = market(close)
    agent: Any = fox_agents.make(name, config={"lookback": 10})
    agent.save(tmp_path / "c")
    again = fox_agents.load(tmp_path / "c")
    whole, same = (fox_agents.evaluate(a, prices) for a in (agent, again))
    assert whole.metrics["costs"] > 0.0 and whole.metrics["n_trades"] > 5
    np.testing.assert_array_equal(whole.returns, same.returns)
    windows = fox_agents.evaluate(agent, prices, num_envs=5)
    assert windows.metrics["n_trades"] > 5


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("momentum", {"lookback": 0}, r"momentum\.lookback = 0"),
        ("momentum", {"entry": 1}, r"unknown key momentum\.entry"),
        ("mean_reversion", {"lookback": 1}, r"mean_reversion\.lookback = 1"),
        (
            "mean_reversion",
            {"exit": 2.0},
            r"mean_reversion\.exit = 2\.0 must be from 0 to less than mean_reversion\.entry",
        ),
    ],
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fox_agents.make(name, config=options)


def test_a_rule_has_to_know_its_environment() -> None:
    obs = np.zeros((3, 128), np.float32)
    with pytest.raises(ConfigError, match="make it with the environment it plays"):
        fox_agents.make("momentum").act(obs, deterministic=True)
    env = FoxFuturesVectorEnv(2, market([100.0] * 80), backend="cpu")
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="make it with the environment it plays"):
        fox_agents.make("momentum", env).act(obs, deterministic=True)
