"""Evaluation: the numbers are those of the account, and nothing that exists for training leaks in."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fox_agents
from fox_agents import evaluate
from fox_agents.evaluation import evaluation_config
from fox_agents.rules import BuyAndHold, Flat
from fox_env import Bars, ContractSpec, EnvConfig, Market, metrics, synthetic
from fox_env.errors import ConfigError


@pytest.fixture(scope="module")
def market() -> Market:
    return synthetic.regimes(seed=2, sessions=3)


def plain_market(closes: list[float]) -> Market:
    """Bars that open at the close before; no volume, so that orders are filled whole and without impact."""
    close = np.array(closes)
    opened = np.concatenate([close[:1], close[:-1]])
    ts = np.arange(len(close)) * 60_000_000_000 + 1_700_000_000_000_000_000
    bars = Bars.from_arrays(ts, opened, np.maximum(opened, close), np.minimum(opened, close), close)
    spec = ContractSpec(symbol="T", tick_size=0.25, multiplier=10.0, fee_per_side=2.0)
    return Market.from_bars(bars, contract=spec, warmup=0, cache=False)


def test_flat_earns_and_costs_nothing(market: Market) -> None:
    result = evaluate(fox_agents.make("flat"), market)
    assert result.metrics["total_return"] == 0.0 and result.metrics["sharpe"] == 0.0
    assert result.metrics["costs"] == 0.0 and result.metrics["exposure"] == 0.0
    assert result.metrics["mean_return_lower_bound"] == 0.0
    assert set(result.equity) == {EnvConfig().initial_cash}
    assert len(result.returns) == len(market) - 1 - market.first_ready
    assert result.trades.is_empty()
    assert result.actions["direction"]["flat"] == len(result.returns)


def test_buy_and_hold_in_closed_form() -> None:
    """Buys 2 at the open after the first close: 100, plus half a tick of spread (0.125) and 2 per side."""
    market = plain_market([100.0, 101.0, 103.0, 99.0])
    result = evaluate(BuyAndHold(), market, EnvConfig(max_position=2.0, initial_cash=10_000.0, margin=False))
    cost = 2 * 0.125 * 10 + 2 * 2.0
    gains = [20 * (c - 100.0) - cost for c in (101.0, 103.0, 99.0)]
    np.testing.assert_allclose(result.equity, [10_000.0, *(10_000.0 + g for g in gains)], rtol=1e-12)
    assert result.metrics["costs"] == pytest.approx(cost)
    assert result.metrics["fees"] == pytest.approx(4.0)
    assert result.metrics["slippage"] == pytest.approx(2.5)
    assert result.metrics["gross_pnl"] == pytest.approx(20 * (99.0 - 100.0))
    assert result.metrics["cost_share"] == pytest.approx(6.5 / 20)
    assert result.metrics["turnover"] == pytest.approx(2 * 100.125 * 10 / 10_000)
    assert 0.0 <= result.metrics["action_entropy"] <= 1.0
    assert result.metrics["total_return"] == pytest.approx(gains[-1] / 10_000)
    assert result.metrics["exposure"] == 1.0


def test_the_lower_bound_is_the_one_sided_95_percent_one() -> None:
    """Returns of buy and hold without costs on 100, 101, 103, 99: mean less 1.645 standard errors."""
    free = EnvConfig(
        max_position=1.0, initial_cash=1_000.0, margin=False, half_spread_ticks=0.0, fee_per_side=0.0
    )
    result = evaluate(BuyAndHold(), plain_market([100.0, 101.0, 103.0, 99.0]), free)
    returns = [10 / 1_000, 20 / 1_010, -40 / 1_030]
    error = np.std(returns, ddof=1) / math.sqrt(3)
    bound = result.metrics["mean_return_lower_bound"]
    assert bound == pytest.approx(np.mean(returns) - 1.6448536 * error, rel=1e-6)


def test_returns_equity_and_metrics_agree(market: Market) -> None:
    result = evaluate(fox_agents.make("random", config={"seed": 5}), market)
    np.testing.assert_allclose(result.equity[1:] / result.equity[:-1] - 1.0, result.returns, atol=1e-12)
    summary = metrics.summary(result.returns, bars_per_year=market.bars_per_year, trades=result.trades)
    for name, value in summary.items():
        if isinstance(value, float) and not math.isnan(value):
            assert result.metrics[name] == value, name
    assert result.metrics["final_equity"] == result.equity[-1]
    assert result.metrics["n_trades"] == len(result.trades) > 0
    assert sum(result.actions["direction"].values()) == len(result.returns)


def test_training_only_settings_change_nothing(market: Market) -> None:
    rules = EnvConfig()
    noisy = rules.replace(
        exploration_scale=1.0,
        shaping_scale=1.0,
        saboteur=(3.0, 3.0),
        horizon=10,
        random_start=True,
        reward="risk",
    )
    first, second = (
        evaluate(fox_agents.make("random", config={"seed": 5}), market, cfg) for cfg in (rules, noisy)
    )
    assert first.equity.tobytes() == second.equity.tobytes()
    assert evaluation_config(noisy).replace(saboteur=(1.0, 1.0), reward="return") == evaluation_config(rules)


def test_windows_cover_every_bar_once(market: Market) -> None:
    """Flat windows differ from one pass only by fresh accounts, so buy and hold earns each bar once in either."""
    steps = len(market) - 1 - market.first_ready
    rules = EnvConfig(margin=False)
    one = evaluate(BuyAndHold(), market, rules)
    for windows in (2, 7, 16):
        many = evaluate(BuyAndHold(), market, rules, num_envs=windows)
        assert len(many.returns) == steps
        assert sum(many.actions["direction"].values()) == steps
        length = math.ceil(steps / windows)
        for start in range(0, steps, length):  # after its entry a window's money is the one pass's
            a, b = one.equity, many.returns[start : start + length]
            money = np.cumprod(1.0 + b) * rules.initial_cash
            np.testing.assert_allclose(
                np.diff(money)[3:], np.diff(a[start + 1 : start + 1 + length])[3:], atol=1e-6
            )


def test_a_ruined_account_stays_ruined() -> None:
    market = plain_market([100.0, 100.0, 40.0, 60.0, 90.0, 120.0, 150.0])
    result = evaluate(BuyAndHold(), market, EnvConfig(max_position=10.0, initial_cash=10_000.0, margin=False))
    assert result.equity[2] < 5_000.0
    assert (result.equity[2:] == result.equity[2]).all()
    assert (result.returns[2:] == 0.0).all()
    assert len(result.trades) == 1  # and none of the episode that a reset would begin


def test_the_agents_own_rules_are_the_default(market: Market) -> None:
    agent: Any = Flat()
    agent.env_config = EnvConfig(initial_cash=1234.0, random_start=True)
    assert evaluate(agent, market).equity[0] == 1234.0
    assert evaluate(agent, market, EnvConfig(initial_cash=99.0)).equity[0] == 99.0


def test_too_many_windows_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot cut 3 bars into 4 windows"):
        evaluate(Flat(), plain_market([1.0, 2.0, 3.0, 4.0]), num_envs=4)


def test_the_report_is_one_escaped_file(market: Market, tmp_path: Path) -> None:
    from dataclasses import replace

    result = replace(evaluate(fox_agents.make("random"), market), agent="<script>alert(1)</script>")
    path = result.report(tmp_path / "deep" / "report.html")
    page = path.read_text(encoding="utf-8")
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "http" not in page  # opens offline
    assert page.count("<polyline") == 2 and "buy_and_hold" in page
    assert f"{market.bars_per_year:,.0f} bars per year" in page


def test_trades_come_in_order_of_time(market: Market) -> None:
    trades = evaluate(fox_agents.make("random"), market, num_envs=4).trades
    assert len(trades) > 4 and trades["entry_bar"].is_sorted()
    assert isinstance(trades, pl.DataFrame)
