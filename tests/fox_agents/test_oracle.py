"""The oracle earns the known optimum through the one way agents are scored."""

from pathlib import Path

import numpy as np
import pytest

import fox_agents
from fox_agents import evaluate, make
from fox_agents.oracle import _actions
from fox_env import EnvConfig, FoxFuturesVectorEnv, synthetic
from fox_env.errors import ConfigError
from fox_env.optimum import REFERENCE, clairvoyant_bound, signal_optimum
from fox_env.order_costs import target_positions


def test_on_signal_it_earns_the_optimum() -> None:
    """Within 3 standard errors of 78,000 bars, which tell it from 75 % of it."""
    market = synthetic.signal(seed=3, sessions=200)
    optimum = signal_optimum(market)
    gain = evaluate(make("oracle"), market, REFERENCE, num_envs=200).returns * REFERENCE.initial_cash
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    assert abs(gain.mean() - optimum.money_per_bar) < 3.0 * error < 0.25 * optimum.money_per_bar


def test_on_signal_it_follows_the_optimum_in_every_step() -> None:
    market = synthetic.signal(seed=4, sessions=3)
    env = FoxFuturesVectorEnv(16, market, REFERENCE, backend="cpu", seed=0)
    agent, optimum = make("oracle", env), signal_optimum(market)
    obs, info = env.reset(seed=1)
    for _ in range(100):
        wanted = optimum.target(obs[:, 42], info["position"])
        obs, _, _, _, info = env.step(agent.act(obs, deterministic=True))
        np.testing.assert_array_equal(info["position"], wanted)


@pytest.mark.parametrize("max_position", [1.0, 2.0, 3.0, 10.0])
def test_it_asks_for_each_of_the_environments_targets(max_position: float) -> None:
    market = synthetic.signal(seed=4, sessions=3, beta=0.3)
    config = REFERENCE.replace(max_position=max_position, half_spread_ticks=0.0, fee_per_side=0.0)
    env = FoxFuturesVectorEnv(1, market, config, backend="cpu")
    targets = target_positions(market, config)
    for target, action in zip(targets, _actions(targets, max_position), strict=True):
        env.reset(seed=0, options={"start": [300]})
        assert env.step(action[None])[-1]["position"][0] == target


@pytest.mark.parametrize("name", ["regimes", "martingale"])
def test_elsewhere_it_earns_the_clairvoyant_bound(name: str) -> None:
    market = synthetic.MARKETS[name](seed=2, sessions=3)
    bound = clairvoyant_bound(market, REFERENCE)
    result = evaluate(make("oracle"), market, REFERENCE)
    assert result.metrics["final_equity"] - REFERENCE.initial_cash == pytest.approx(bound.money, rel=1e-9)


def test_windows_of_a_market_work_too() -> None:
    market = synthetic.regimes(seed=2, sessions=3)
    one, many = (evaluate(make("oracle"), market, REFERENCE, num_envs=n) for n in (1, 7))
    assert many.metrics["gross_pnl"] == pytest.approx(one.metrics["gross_pnl"], rel=0.05)


def test_default_rules_are_played() -> None:
    """With impact, margin and cut orders the optimum is approximate, and still far above the other rules."""
    market = synthetic.signal(seed=5, sessions=5, beta=0.3)
    oracle, hold = (evaluate(make(name), market, EnvConfig()) for name in ("oracle", "buy_and_hold"))
    assert oracle.metrics["total_return"] > max(0.1, hold.metrics["total_return"])


def test_it_is_saved_without_the_market(tmp_path: Path) -> None:
    market = synthetic.signal(seed=4, sessions=3)
    env = FoxFuturesVectorEnv(2, market, REFERENCE, backend="cpu", seed=0)
    agent = make("oracle", env)
    agent.save(tmp_path / "c")
    obs, _ = env.reset(seed=0)
    again = fox_agents.load(tmp_path / "c", env)
    np.testing.assert_array_equal(again.act(obs, deterministic=True), agent.act(obs, deterministic=True))


def test_it_refuses_what_it_does_not_know() -> None:
    obs = np.ones((2, 128), np.float32)
    with pytest.raises(ConfigError, match="does not know the market yet"):
        make("oracle").act(obs, deterministic=True)
    env = FoxFuturesVectorEnv(2, synthetic.regimes(seed=2, sessions=2), REFERENCE, backend="cpu")
    with pytest.raises(ConfigError, match="made for another market"):
        make("oracle", env).act(obs, deterministic=True)
