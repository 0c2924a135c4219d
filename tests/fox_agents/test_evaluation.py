"""Evaluation: the numbers are those of the account, and nothing that exists for training leaks in."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fox_agents
from fox_agents import evaluate
from fox_agents.rules import BuyAndHold, Flat
from fox_agents.trading_rules import evaluation_config, first_difference
from fox_env import Bars, ContractSpec, EnvConfig, Market, metrics, synthetic
from fox_env.errors import ConfigError


@pytest.fixture(scope="module")
def market() -> Market:
    return synthetic.regimes(seed=2, sessions=3)


class Scripted(Flat):
    """Takes the actions it is given, one a step."""

    def __init__(self, *actions: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.left = list(actions)

    def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
        return np.array([self.left.pop(0)])


def plain_market(closes: list[float], volume: list[float] | None = None) -> Market:
    """Bars that open at the close before; without volume orders are filled whole and without impact."""
    close = np.array(closes)
    opened = np.concatenate([close[:1], close[:-1]])
    ts = np.arange(len(close)) * 60_000_000_000 + 1_700_000_000_000_000_000
    bars = Bars.from_arrays(ts, opened, np.maximum(opened, close), np.minimum(opened, close), close, volume)
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
    assert result.metrics["slippage"] == result.metrics["spread_cost"] == pytest.approx(2.5)
    assert result.metrics["impact_cost"] == 0.0
    assert result.metrics["gross_pnl"] == pytest.approx(20 * (99.0 - 100.0))
    assert result.metrics["cost_share"] == pytest.approx(6.5 / 20)
    assert result.metrics["turnover"] == pytest.approx(2 * 100.125 * 10 / 10_000)
    assert result.metrics["action_entropy"] == 0.0  # it asks for the same at every step
    shares = np.array([1, 2]) / 3  # one step bought, in two there was nothing left to order
    assert result.metrics["executed_entropy"] == pytest.approx(-(shares * np.log(shares)).sum() / np.log(4))
    assert result.metrics["total_return"] == pytest.approx(gains[-1] / 10_000)
    assert result.metrics["exposure"] == 1.0
    assert result.positions.tolist() == [2.0, 2.0, 2.0]
    assert result.fills.select("step", "quantity", "price").rows() == [(0, 2.0, 100.125)]
    assert result.fills["time"].to_numpy()[0] == result.times[1]  # filled in the bar that closes there
    assert result.closes.tolist() == [100.0, 101.0, 103.0, 99.0]


LONG, HOLD, FLAT = (2, 2, 0, 1), (1, 0, 0, 1), (3, 0, 0, 1)


def test_what_was_executed_is_told_from_what_was_chosen() -> None:
    """2 wanted and 1 % of 100 gets 1; no volume gets none; nothing ordered; a bid below the market; sold whole."""
    market = plain_market([100.0] * 6, volume=[100.0, 100.0, 0.0, 100.0, 1e4, 1e6])
    bid = (2, 2, 1, 0)
    agent = Scripted(LONG, LONG, HOLD, bid, FLAT)
    rules = EnvConfig(max_position=2.0, initial_cash=10_000.0, margin=False)
    result = evaluate(agent, market, rules)
    statuses = {name: count for name, count in result.executed["order_status"].items() if count}
    assert statuses == {"participation": 1, "unfilled": 2, "none": 1, "filled": 1}
    assert result.executed["fill"] == {"buy": 1, "sell": 1, "none": 3}
    assert result.executed["direction"] == {"short": 0, "hold": 0, "long": 1, "flat": 1}
    assert result.executed["magnitude"] == {"quarter": 0, "half": 0, "full": 1}  # Flat has no size
    assert result.executed["order"] == {"market": 2, "limit": 0, "ioc": 0}
    assert result.executed["urgency"] == {"patient": 0, "normal": 2, "aggressive": 0}
    assert result.actions["direction"] == {"short": 0, "hold": 1, "long": 3, "flat": 1}
    assert sum(result.executed["order_status"].values()) == sum(result.executed["fill"].values()) == 5


def test_slippage_is_split_into_spread_and_impact(market: Market) -> None:
    """Bars of one price have an ATR of the least value, 1 tick, so that both parts are known."""
    flat = plain_market([100.0] * 5, volume=[10_000.0] * 5)
    rules = EnvConfig(max_position=2.0, initial_cash=10_000.0, margin=False)
    result = evaluate(BuyAndHold(), flat, rules)
    tick_value = 0.25 * 10
    assert result.metrics["spread_cost"] == pytest.approx(2 * 0.5 * tick_value, rel=1e-12)
    assert result.metrics["impact_cost"] == pytest.approx(
        2 * 0.4 * math.sqrt(2 / 10_000) * tick_value, rel=1e-12
    )
    busy = evaluate(fox_agents.make("random", config={"seed": 1}), market).metrics
    assert busy["spread_cost"] > 0 and busy["impact_cost"] > 0
    assert busy["fees"] + busy["spread_cost"] + busy["impact_cost"] == pytest.approx(busy["costs"], rel=1e-9)
    assert busy["slippage"] == pytest.approx(busy["costs"] - busy["fees"], rel=1e-9)


def test_the_agent_is_asked_greedily_and_with_the_masks_of_the_state() -> None:
    seen = []

    class Watching(BuyAndHold):
        def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
            seen.append((deterministic, masks.copy()))
            return super().act(obs, deterministic=deterministic, masks=masks)

    rules = EnvConfig(max_position=1.0, initial_cash=10_000.0, margin=False)
    evaluate(Watching(), plain_market([100.0, 101.0, 103.0]), rules)
    assert [deterministic for deterministic, _ in seen] == [True, True]
    before, after = (masks[0, :4].tolist() for _, masks in seen)
    assert before == [True, True, True, False]  # flat: Flat is Hold
    assert after == [True, True, False, True]  # one contract of one: Long is Hold


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


def trained_agent(**rules: Any) -> Any:
    agent: Any = Flat()
    agent.env_config = EnvConfig(
        reward="risk", horizon=64, exploration_scale=1.0, saboteur=(0.5, 2.0), **rules
    )
    return agent


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"half_spread_ticks": 0.0}, r"trained with half_spread_ticks=0\.5 and would be evaluated with 0\.0"),
        ({"fee_per_side": 9.0}, r"fee_per_side=2\.0 .* with 9\.0"),
        ({"max_position": 3.0}, "max_position"),
        ({"margin": False}, "margin"),
        ({"initial_cash": 99.0}, "initial_cash"),
    ],
)
def test_other_money_rules_than_the_agents_are_refused_unless_asked_for(
    change: dict[str, Any], message: str
) -> None:
    market = plain_market([100.0, 101.0, 103.0])
    agent = trained_agent()
    other = agent.env_config.replace(**change)
    with pytest.raises(ConfigError, match=message) as caught:
        evaluate(agent, market, other)
    assert "other_rules=True" in str(caught.value)
    assert getattr(evaluate(agent, market, other, other_rules=True).config, next(iter(change))) == next(
        iter(change.values())
    )


def test_options_without_money_and_the_contracts_own_fee_are_no_other_rules() -> None:
    market = plain_market([100.0, 101.0, 103.0])
    same = EnvConfig(fee_per_side=2.0, maker_fee=2.0, fee_rate=0.0, reward="return", risk_unit=5.0)
    assert evaluate(trained_agent(), market, same).config.fee_per_side == 2.0


def test_a_fee_by_number_is_another_rule_where_closing_today_has_its_own() -> None:
    spec = ContractSpec("T", 1.0, 1.0, fee_per_side=2.0, close_today_fee=5.0)
    ordinary, own = EnvConfig(fee_per_side=2.0), EnvConfig()
    assert first_difference(own, ordinary, spec) == ("fee for closing on the same day", True, False)


def test_too_many_windows_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot cut 3 bars into 4 windows"):
        evaluate(Flat(), plain_market([1.0, 2.0, 3.0, 4.0]), num_envs=4)


def test_the_report_is_one_escaped_file(market: Market, tmp_path: Path) -> None:
    from dataclasses import replace

    result = replace(evaluate(fox_agents.make("random"), market), agent="<script>alert(1)</script>")
    path = result.report(tmp_path / "deep" / "report.html")
    page = path.read_text(encoding="utf-8")
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert "buy_and_hold" in page
    assert f"{market.bars_per_year:,.0f} bars per year" in page
    assert re.search(r"SYN from 2020-\d\d-\d\d \d\d:\d\d to 2020-\d\d-\d\d \d\d:\d\d UTC", page)
    assert "Fate of every step" in page and "participation" in page
    assert "participation limits and impact are off" not in page
    bare = evaluate(Flat(), plain_market([100.0, 101.0, 103.0]))
    assert "participation limits and impact are off" in bare.report(tmp_path / "bare.html").read_text()


def test_trades_come_in_order_of_time(market: Market) -> None:
    trades = evaluate(fox_agents.make("random"), market, num_envs=4).trades
    assert len(trades) > 4 and trades["entry_bar"].is_sorted()
    assert isinstance(trades, pl.DataFrame)
