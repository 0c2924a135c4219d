"""Metrics: hand-computed values, stated conventions, and no infinity for any input."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fox_env.errors import ConfigError, DataError
from fox_env.metrics import drawdowns, summary


def trades(pnl: list[float], r: list[float] | None = None) -> pl.DataFrame:
    n = len(pnl)
    return pl.DataFrame(
        {"pnl": pnl, "trade_return": [p / 1000 for p in pnl], "r": r or [p / 10 for p in pnl],
         "bars": list(range(1, n + 1))},
        schema={"pnl": pl.Float64, "trade_return": pl.Float64, "r": pl.Float64, "bars": pl.Int64},
    )  # fmt: skip


def test_sharpe_uses_ddof_1_and_sortino_all_bars() -> None:
    result = summary([0.02, -0.01, 0.03, -0.02, 0.01], bars_per_year=252)
    assert result["sharpe"] == pytest.approx(4.593220484431882, rel=1e-13)
    assert result["sortino"] == pytest.approx(9.524704719832526, rel=1e-13)
    # Variance (ddof 1): mean .006, squares .000196 .000256 .000576 .000676 .000016, sum .00172, / 4 = .00043.
    assert result["volatility"] == pytest.approx(math.sqrt(0.00043 * 252), rel=1e-13)
    assert (result["bars"], result["bars_per_year"]) == (5, 252.0)


@pytest.mark.parametrize("bars_per_year", [252, 345_000])
def test_annualisation_is_the_square_root_of_time(bars_per_year: float) -> None:
    returns = [0.001, -0.002, 0.0015]
    one, many = (summary(returns, bars_per_year=b) for b in (1, bars_per_year))
    for name in ("sharpe", "sortino", "volatility"):
        assert many[name] == pytest.approx(one[name] * math.sqrt(bars_per_year), rel=1e-13)


def test_a_loss_on_the_first_bar_is_a_drawdown() -> None:
    returns = [-0.10, -0.10, 0.05, 0.20]
    np.testing.assert_allclose(drawdowns(returns), [0, -0.10, -0.19, -0.1495, 0], rtol=0, atol=1e-15)
    result = summary(returns, bars_per_year=4)
    assert result["max_drawdown"] == pytest.approx(-0.19, rel=1e-13)
    assert result["max_drawdown_bars"] == 3
    assert result["total_return"] == pytest.approx(0.0206, rel=1e-12)
    assert result["cagr"] == pytest.approx(0.0206, rel=1e-12)
    assert result["calmar"] == pytest.approx(0.0206 / 0.19, rel=1e-12)


def test_a_run_of_losses_is_measured_from_the_start() -> None:
    result = summary([-0.1] * 3, bars_per_year=3)
    assert result["max_drawdown"] == pytest.approx(0.9**3 - 1, rel=1e-13)
    assert result["max_drawdown_bars"] == 3
    assert result["cagr"] == pytest.approx(0.9**3 - 1, rel=1e-13)


def test_the_longest_drawdown_may_be_another_than_the_deepest() -> None:
    result = summary([-0.5, 1.5, -0.01, 0.001, 0.001, 0.001, 0.5], bars_per_year=1)
    assert result["max_drawdown"] == pytest.approx(-0.5)
    assert result["max_drawdown_bars"] == 4


def test_growth_is_compounded_over_the_calendar_of_the_data() -> None:
    result = summary([0.1] * 4, bars_per_year=2)
    assert result["total_return"] == pytest.approx(1.1**4 - 1, rel=1e-13)
    assert result["cagr"] == pytest.approx(1.1**2 - 1, rel=1e-13)


@pytest.mark.parametrize("returns", [[0.01] * 50, [0.1, 0.1, 0.1]])
def test_equal_gains_have_no_ratio_and_say_why(returns: list[float]) -> None:
    result = summary(returns, bars_per_year=252)
    for name in ("sharpe", "sortino", "calmar"):
        assert math.isnan(result[name]), name
    assert result["notes"]["sharpe"] == "returns have no variance"
    assert result["notes"]["sortino"] == "no bar lost"
    assert result["notes"]["calmar"] == "there was no drawdown"
    assert result["volatility"] == 0.0


def test_an_idle_account_scores_zero() -> None:
    result = summary(np.zeros(40), bars_per_year=252, trades=trades([]))
    for name in ("total_return", "cagr", "volatility", "sharpe", "sortino", "calmar", "max_drawdown"):
        assert result[name] == 0.0, name
    assert result["max_drawdown_bars"] == 0 and result["n_trades"] == 0
    assert math.isnan(result["win_rate"]) and result["notes"] == {"trades": "no trade was closed"}


def test_no_bars_and_one_bar_are_defined() -> None:
    assert summary([], bars_per_year=252)["total_return"] == 0.0
    result = summary([0.01], bars_per_year=252)
    assert math.isnan(result["volatility"]) and math.isnan(result["sharpe"])
    assert result["notes"]["sharpe"] == "needs at least two bars"


@pytest.mark.parametrize(("returns", "total"), [([0.5, -1.0, 0.3, 2.0], -1.0), ([-1.2, -0.5, -3.0], -1.2)])
def test_lost_equity_stays_lost(returns: list[float], total: float) -> None:
    result = summary(returns, bars_per_year=252)
    assert result["total_return"] == pytest.approx(total)
    assert result["cagr"] == -1.0 and "cagr" in result["notes"]
    assert result["max_drawdown"] <= -1.0


def test_growth_too_fast_for_a_year_is_not_infinite() -> None:
    result = summary([0.5, 0.5, -0.1], bars_per_year=350_000)
    assert math.isnan(result["cagr"]) and math.isnan(result["calmar"])
    assert "too few" in result["notes"]["cagr"]


# Closed trades of gross +25, 0, -50 and cost 4 each; a fourth is open at +1000, 2 paid at entry, 2 to come.
CLOSED = [25.0 - 4, 0.0 - 4, -50.0 - 4]


def test_win_rate_counts_closed_trades_net_of_costs() -> None:
    capital, flat_bars = 100_000.0, np.zeros(40)
    marked = [
        *np.array(CLOSED) / capital,
        (1000.0 - 2) / capital,
    ]  # simple money per bar on a constant capital
    result = summary(np.concatenate([flat_bars, marked]), bars_per_year=252, trades=trades(CLOSED))
    assert result["win_rate"] == pytest.approx(1 / 3)
    assert (result["n_trades"], result["trade_pnl"]) == (3, -37.0)
    assert result["profit_factor"] == pytest.approx(21 / 58)
    assert result["total_return"] * capital == pytest.approx(961, abs=1.0)


def test_a_trade_closed_at_the_episode_end_counts() -> None:
    result = summary(np.zeros(40), bars_per_year=252, trades=trades([*CLOSED, 1000.0 - 4]))
    assert (result["n_trades"], result["win_rate"], result["trade_pnl"]) == (4, 0.5, 959.0)


def test_flat_bars_are_in_no_denominator_of_trade_metrics() -> None:
    few, many = (summary(np.zeros(n), bars_per_year=252, trades=trades(CLOSED)) for n in (3, 4000))
    for name in ("win_rate", "profit_factor", "expectancy_r", "mean_trade_return", "mean_trade_bars"):
        assert few[name] == many[name]


def test_means_over_trades() -> None:
    result = summary([0.0], bars_per_year=252, trades=trades([30.0, -10.0], r=[1.5, -0.5]))
    assert result["expectancy_r"] == 0.5
    assert result["mean_trade_return"] == pytest.approx(0.01)
    assert result["mean_trade_bars"] == 1.5
    assert result["profit_factor"] == 3.0


def test_a_break_even_trade_is_a_loss() -> None:
    result = summary([0.0], bars_per_year=252, trades=trades([0.0, 10.0, -5.0]))
    assert result["win_rate"] == pytest.approx(1 / 3)


def test_profit_without_a_loss_has_no_factor() -> None:
    result = summary([0.0, 0.1], bars_per_year=252, trades=trades([5.0]))
    assert (
        math.isnan(result["profit_factor"])
        and result["notes"]["profit_factor"] == "no closed trade lost money"
    )
    assert summary([0.0], bars_per_year=252, trades=trades([-5.0]))["profit_factor"] == 0.0
    result = summary([0.0], bars_per_year=252, trades=trades([5.0, -5e-324]))
    assert math.isnan(result["profit_factor"]) and "too small" in result["notes"]["profit_factor"]


def test_trades_without_an_r_multiple_are_left_out_and_counted() -> None:
    result = summary([0.0], bars_per_year=252, trades=trades([5.0, -5.0, 1.0], r=[1.0, -0.5, math.nan]))
    assert result["expectancy_r"] == 0.25
    assert result["notes"]["expectancy_r"].startswith("1 of 3 trades")


def test_without_a_trade_list_trade_metrics_are_unknown() -> None:
    result = summary([0.01, -0.01], bars_per_year=252)
    assert math.isnan(result["n_trades"]) and math.isnan(result["win_rate"])
    assert result["notes"]["trades"] == "no trade list was given"


@pytest.mark.parametrize(
    ("returns", "options", "error", "message"),
    [
        ([0.1, math.nan], {}, DataError, "bar 1 is nan"),
        ([0.1, -math.inf], {}, DataError, "bar 1 is -inf"),
        ([[0.1, 0.2]], {}, DataError, "got shape (1, 2)"),
        ([0.1], {"bars_per_year": 0}, ConfigError, "bars_per_year must be a positive number, got 0"),
        ([0.1], {"bars_per_year": math.inf}, ConfigError, "bars_per_year must be a positive number"),
        ([0.1], {"trades": pl.DataFrame({"pnl": [1.0]})}, DataError, "trades lack the column 'trade_return'"),
    ],
)
def test_meaningless_input_is_refused(
    returns: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        summary(returns, **({"bars_per_year": 252} | options))


returns_lists = st.lists(st.floats(-1.5, 1.5, allow_nan=False), max_size=60)


@given(
    returns=returns_lists, bars_per_year=st.floats(1, 1e6), pnl=st.lists(st.floats(-1e6, 1e6), max_size=20)
)
def test_nothing_is_infinite_and_every_nan_of_the_returns_has_a_reason(
    returns: list[float], bars_per_year: float, pnl: list[float]
) -> None:
    result = summary(returns, bars_per_year=bars_per_year, trades=trades(pnl))
    notes = result.pop("notes")
    for name, value in result.items():
        assert not math.isinf(value), name
        if math.isnan(value):
            assert name in notes or "trades" in notes or ("cagr" in notes and name == "calmar"), name
    assert result["cagr"] >= -1 or math.isnan(result["cagr"])
    assert 0 <= result["max_drawdown_bars"] <= len(returns)


@given(returns=st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=60))
def test_drawdown_bounds_the_total_return(returns: list[float]) -> None:
    result = summary(returns, bars_per_year=252)
    assert result["max_drawdown"] <= min(0.0, result["total_return"]) + 1e-12
    assert drawdowns(returns).shape == (len(returns) + 1,)


def _returns() -> Any:
    return np.random.default_rng(0).normal(0.0005, 0.01, 500)


def test_it_agrees_with_empyrical() -> None:
    other, returns = pytest.importorskip("empyrical"), _returns()
    found = summary(returns, bars_per_year=252)
    assert found["sharpe"] == pytest.approx(other.sharpe_ratio(returns, annualization=252), rel=1e-9)
    assert found["sortino"] == pytest.approx(other.sortino_ratio(returns, annualization=252), rel=1e-9)
    assert found["volatility"] == pytest.approx(other.annual_volatility(returns, annualization=252), rel=1e-9)
    assert found["cagr"] == pytest.approx(other.annual_return(returns, annualization=252), rel=1e-9)
    assert found["calmar"] == pytest.approx(other.calmar_ratio(returns, annualization=252), rel=1e-9)
    assert found["max_drawdown"] == pytest.approx(other.max_drawdown(returns), rel=1e-9)
    assert found["total_return"] == pytest.approx(other.cum_returns_final(returns), rel=1e-9)
