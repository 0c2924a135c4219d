"""Performance of running accounts: every figure against the step returns, infos and trades that it is made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from gymnasium.vector import AutoresetMode
from metered_accounts import OPTIONS, STOPS, account
from physics_scenario import BUY, CLOSE, KEEP, make_market, still
from small_market import HOLD, make, play, random_actions, rows, small_market

from fox_env import Bars, ContractSpec, FoxFuturesVectorEnv, Market, _layout
from fox_env.metrics import summary

BRANCHES = {
    "direction": _layout.Direction,
    "magnitude": _layout.Magnitude,
    "order": _layout.OrderType,
    "urgency": _layout.Urgency,
}

FIELDS = [name for name in _layout.INFO_FIELDS if name != "reward_components"]  # of the trade reward only


class Played:
    """What a batch showed step by step: arrays (steps, N), and which steps were bars of an episode."""

    def __init__(self, env: FoxFuturesVectorEnv, actions: Any) -> None:
        env.reset(seed=3)
        seen: dict[str, list[Any]] = {name: [] for name in (*FIELDS, "bar", "ended")}
        over = np.zeros(env.num_envs, bool)
        for row in actions:
            _, _, terminated, truncated, info = env.step(row)
            seen["bar"].append(~over)
            ended = terminated | truncated
            seen["ended"].append(ended)
            for name in FIELDS:
                value = info[name].copy()
                if "final_info" in info:  # account fields of the ended episode
                    value[ended] = info["final_info"][name][ended]
                seen[name].append(value)
            over = ended & (env.autoreset_mode == AutoresetMode.NEXT_STEP)
            if env.autoreset_mode == AutoresetMode.DISABLED and ended.any():
                env.reset(options={"reset_mask": ended})
        self.arrays = {name: np.array(values) for name, values in seen.items()}
        self.actions = actions

    def of(self, name: str, i: int) -> Any:
        """The values of environment i at the bars of its episodes."""
        return self.arrays[name][self.arrays["bar"][:, i], i]

    def net(self, i: int, initial_cash: float) -> float:
        equity, ended = self.of("equity", i), self.of("ended", i)
        open_ended = not ended[-1]
        return float(equity[ended].sum() + open_ended * equity[-1]) - initial_cash * (
            ended.sum() + open_ended
        )

    def executed(self, i: int) -> dict[str, dict[str, int]]:
        quantity, active = self.of("fill_quantity", i), self.of("branch_active", i)
        action = self.actions[self.arrays["bar"][:, i], i]
        counted = active & (quantity != 0)[:, None]
        status = self.of("order_status", i)
        buys, sells = int((quantity > 0).sum()), int((quantity < 0).sum())
        return {
            "order_status": {s.name.lower(): int((status == s).sum()) for s in _layout.OrderStatus},
            "fill": {"buy": buys, "sell": sells, "none": len(quantity) - buys - sells},
            **{
                branch: {c.name.lower(): int((action[counted[:, b], b] == c).sum()) for c in choices}
                for b, (branch, choices) in enumerate(BRANCHES.items())
            },
        }


def expect(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if name != "notes":
            assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-12, nan_ok=True), name


class TestFigures:
    @pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
    @pytest.mark.parametrize("options", [{}, STOPS, {**STOPS, "close_at_end": True}], ids=str)
    def test_every_figure_is_that_of_the_steps_and_trades(self, mode: str, options: dict[str, Any]) -> None:
        env = make(6, autoreset_mode=mode, trade_capacity=500, **OPTIONS, **options)
        played = Played(env, random_actions(6, 300))
        if options:
            assert (played.arrays["trade_closed"] == 2).any(), "no bar ended two trades: the test proves less"
        found, cash, trades = env.metrics(), env.config.initial_cash, env.trades()
        for i in range(6):
            one = {name: value[i] for name, value in found.per_env.items() if name != "executed"}
            own = trades.filter(pl.col("env") == i)
            expect(one, summary(played.of("step_return", i), bars_per_year=100_800, trades=own))
            costs, gross = (
                played.of("cost", i).sum(),
                played.net(i, cash) + played.of("cost", i).sum(),
            )
            spread, impact = played.of("spread_cost", i).sum(), played.of("impact_cost", i).sum()
            notional = np.nansum(np.abs(played.of("fill_quantity", i) * played.of("fill_price", i))) * 50
            money = {"costs": costs, "fees": played.of("fees", i).sum(), "spread_cost": spread}
            money |= {"impact_cost": impact, "slippage": spread + impact, "gross_pnl": gross}
            money |= {"net_pnl": played.net(i, cash), "cost_share": costs / abs(gross)}
            expect(one, {**money, "turnover": notional / cash})
            assert one["exposure"] == pytest.approx(np.mean(played.of("position", i) != 0))
            histogram = found.per_env["executed"]
            counted = {
                name: {c: int(n[i]) for c, n in choices.items()} for name, choices in histogram.items()
            }
            assert counted == played.executed(i)

    @pytest.mark.parametrize("options", [{}, STOPS], ids=str)
    def test_pooled_figures_are_those_of_one_sample(self, options: dict[str, Any]) -> None:
        env = make(7, autoreset_mode="SAME_STEP", trade_capacity=500, **OPTIONS, **options)
        played = Played(env, random_actions(7, 200))
        found = env.metrics()
        pooled, each = found.pooled, found.per_env
        every = np.concatenate([played.of("step_return", i) for i in range(7)])
        sample = summary(every, bars_per_year=100_800, trades=env.trades())
        grown = each["total_return"].mean()
        cagr = math.expm1(math.log1p(grown) * 100_800 / 200)
        deepest = each["max_drawdown"].min()
        worst = {"max_drawdown": deepest, "max_drawdown_bars": each["max_drawdown_bars"].max()}
        expect(pooled, {**sample, "total_return": grown, "cagr": cagr, "calmar": cagr / -deepest, **worst})
        for name in ("net_pnl", "gross_pnl", "costs", "fees", "slippage", "spread_cost", "impact_cost"):
            assert pooled[name] == pytest.approx(each[name].sum(), rel=1e-12), name
        assert pooled["cost_share"] == pytest.approx(pooled["costs"] / abs(pooled["gross_pnl"]))
        for name in ("turnover", "exposure"):
            assert pooled[name] == pytest.approx(each[name].mean(), rel=1e-12)
        for name, choices in each["executed"].items():
            assert pooled["executed"][name] == {choice: int(n.sum()) for choice, n in choices.items()}

    def test_entropy_of_what_was_carried_out(self) -> None:
        """Of four bars one bought, one closed and two did nothing: (1/2 ln 2 + 2/4 ln 4) / ln 4."""
        env = account(make_market(still(*[100.0] * 8)))
        env.reset(seed=0)
        for action in (KEEP, BUY, KEEP, CLOSE):
            env.step(np.array([action]))
        found = env.metrics()
        assert found.pooled["executed_entropy"] == pytest.approx(0.75, rel=1e-14)
        assert found.per_env["executed_entropy"].tolist() == [found.pooled["executed_entropy"]]
        env.reset(seed=0)
        env.step(np.array([BUY]))
        env.step(np.array([BUY]))  # at the target already: no order, so not carried out
        assert env.metrics().pooled["executed"]["direction"] == {"short": 0, "hold": 0, "long": 1, "flat": 0}

    @pytest.mark.parametrize(
        ("action_type", "action", "magnitude"),
        [
            ("discrete", 4, "quarter"),
            ("discrete", 0, "full"),
            ("continuous", 0.6, "half"),
            ("continuous", -0.8, "full"),
        ],
    )
    def test_magnitudes_of_other_action_types(self, action_type: str, action: float, magnitude: str) -> None:
        env = make(1, action_type=action_type, metrics=True)
        env.reset(seed=0)
        env.step(np.array([action], dtype=np.float32 if action_type == "continuous" else np.int64))
        executed = env.metrics().pooled["executed"]
        assert executed["magnitude"][magnitude] == executed["order"]["market"] == 1
        assert sum(executed["magnitude"].values()) == 1

    def test_a_sharpe_ratio_is_printed_beside_its_bars_a_year(self) -> None:
        env = make(2, **OPTIONS)
        env.reset(seed=0)
        play(env, random_actions(2, 50))
        found = env.metrics()
        line = next(line for line in str(found).splitlines() if line.startswith("sharpe"))
        assert line.endswith("at 100,800 bars a year") and f"{found.pooled['sharpe']:,.6g}" in line


def account_of_returns(returns: list[float]) -> FoxFuturesVectorEnv:
    """An account that bought one contract without costs, on prices that make it earn these returns."""
    equity = 100_000.0 * np.cumprod(1.0 + np.array([0.0, *returns]))
    close = 100.0 + (equity - equity[0]) / 1000.0
    start = np.concatenate([close[:1], close[:-1]])
    bars = np.stack([start, np.maximum(start, close), np.minimum(start, close), close], axis=1)
    free = {"fee_per_side": 0.0, "initial_margin": 0.0, "maintenance_margin": 0.0}
    market = make_market(bars, spec={"tick_size": 1e-8, "multiplier": 1000.0, **free})
    env = account(market, max_position=1.0, half_spread_ticks=0.0)
    env.reset(seed=0)
    for _ in returns:
        env.step(np.array([BUY]))
    return env


class TestKnownFaults:
    def test_sortino_takes_all_bars_and_sharpe_ddof_1(self) -> None:
        found = account_of_returns([0.02, -0.01, 0.03, -0.02, 0.01]).metrics().pooled
        years = found["bars_per_year"] / 252
        assert found["sortino"] / math.sqrt(years) == pytest.approx(9.524704719832526, rel=1e-9)
        assert found["sharpe"] / math.sqrt(years) == pytest.approx(4.593220484431882, rel=1e-9)

    def test_a_loss_on_the_first_bar_is_a_drawdown(self) -> None:
        found = account_of_returns([-0.10, -0.10, 0.05, 0.20]).metrics()
        assert found.pooled["max_drawdown"] == pytest.approx(-0.19, rel=1e-9)
        assert found.per_env["max_drawdown_bars"].tolist() == [3]
        assert account_of_returns([-0.1] * 3).metrics().pooled["max_drawdown"] == pytest.approx(0.9**3 - 1)

    @pytest.mark.parametrize(
        ("at_end", "trades", "win_rate", "closed", "net"),
        [(False, 3, 1 / 3, -37.0, 961.0), (True, 4, 0.5, 959.0, 959.0)],
    )
    def test_trades_are_closed_ones_net_of_costs(
        self, at_end: bool, trades: int, win_rate: float, closed: float, net: float
    ) -> None:
        """Trades of gross +25, 0 and -50 with 4 of fees each, 40 flat bars, and one open at +1000."""
        prices = [100.0, 100.0, 125.0, 125.0, 125.0, 125.0, 75.0, *[75.0] * 41, 1075.0]
        market = make_market(still(*prices), spec={"multiplier": 1.0})
        env = account(market, max_position=1.0, half_spread_ticks=0.0, close_at_end=at_end)
        env.reset(seed=0)
        for action in [BUY, CLOSE] * 3 + [KEEP] * 40 + [BUY, KEEP]:
            env.step(np.array([action]))
        found = env.metrics().pooled
        assert (found["n_trades"], found["bars"]) == (trades, 48)
        assert found["win_rate"] == pytest.approx(win_rate, rel=1e-12)
        assert (found["trade_pnl"], found["net_pnl"]) == (closed, pytest.approx(net, abs=1e-9))
        assert found["fees"] == found["costs"] == 2 * (7 + at_end)

    def test_no_bar_and_no_trade_have_defined_figures(self) -> None:
        """Before a reset, after one, and after a bar without a trade: every NaN has a reason."""
        env = make(3, metrics=True)
        for calls, bars in enumerate((0, 0, 3)):
            if calls > 0:
                env.reset(seed=0)
            if calls > 1:
                env.step(rows(HOLD, 3))
            found = env.metrics()
            assert found.pooled["bars"] == bars
            assert found.per_env["total_return"].tolist() == [0.0] * 3
            assert found.pooled["n_trades"] == found.pooled["sharpe"] == found.pooled["sortino"] == 0
            missing = {name for name, x in found.pooled.items() if isinstance(x, float) and math.isnan(x)}
            assert missing - found.pooled["notes"].keys() == {
                *("win_rate", "profit_factor", "expectancy_r"),
                *("mean_trade_return", "mean_trade_bars", "trade_pnl"),
            }
            assert found.pooled["notes"]["trades"] == "no trade was closed"


class TestSeveralMarkets:
    def test_each_is_annualised_by_its_own_calendar(self) -> None:
        minutes = small_market()
        daily = make_market(still(*(100.0 + np.arange(400) % 7)), minutes=np.arange(400) * 1440)
        env = make(4, markets=[minutes, daily], **OPTIONS)
        env.reset(seed=0)
        play(env, random_actions(4, 60))
        found = env.metrics()
        years = [minutes.bars_per_year, daily.bars_per_year]
        np.testing.assert_allclose(found.per_env["bars_per_year"], years * 2)
        assert 365 < daily.bars_per_year < 366
        bars = found.per_env["bars"]
        assert found.pooled["bars_per_year"] == pytest.approx(bars.sum() / (bars / (years * 2)).sum())
        assert "from 365 to 100,800" in found.pooled["notes"]["bars_per_year"]
        ratio = found.pooled["volatility"] / math.sqrt(found.pooled["bars_per_year"])
        moved = found.per_env["volatility"] / np.sqrt(years * 2)
        assert moved.min() < ratio < moved.max()

    def test_money_of_two_currencies_is_not_added_up(self) -> None:
        bars = small_market().bars
        prices = (bars.open, bars.high, bars.low, bars.close)
        euro = ContractSpec("EUR", 0.25, 50.0, 2.0, currency="EUR")
        other = Market.from_bars(
            Bars.from_arrays(bars.ts, *prices, bars.volume), contract=euro, warmup=0, cache=False
        )
        env = make(2, markets=[small_market(), other], **OPTIONS)
        env.reset(seed=0)
        play(env, random_actions(2, 60))
        pooled = env.metrics().pooled
        for name in ("net_pnl", "costs", "profit_factor", "cost_share"):
            assert math.isnan(pooled[name]) and pooled["notes"][name] == "accounts are in EUR, USD"
        assert not math.isnan(pooled["sharpe"]) and not math.isnan(pooled["win_rate"])
