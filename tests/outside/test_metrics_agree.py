"""The metrics against quantstats and empyrical-reloaded: the same figures where they mean the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray

from fox_env.metrics import drawdowns, summary

WHY = "is not installed: pip install '.[outside]'"
quantstats = pytest.importorskip("quantstats", reason=f"quantstats {WHY}")
empyrical = pytest.importorskip("empyrical", reason=f"empyrical-reloaded {WHY}")

Returns = NDArray[np.float64]
QUANTSTATS: dict[str, Callable[[pd.Series, float], float]] = {
    "total_return": lambda r, n: quantstats.stats.comp(r),
    "cagr": lambda r, n: quantstats.stats.cagr(r, periods=n),
    "volatility": lambda r, n: quantstats.stats.volatility(r, periods=n),
    "sharpe": lambda r, n: quantstats.stats.sharpe(r, periods=n),
    "sortino": lambda r, n: quantstats.stats.sortino(r, periods=n),
    "max_drawdown": lambda r, n: quantstats.stats.max_drawdown(r),
    "calmar": lambda r, n: quantstats.stats.calmar(r, periods=n),
}
EMPYRICAL: dict[str, Callable[[pd.Series, float], float]] = {
    "total_return": lambda r, n: empyrical.cum_returns_final(r),
    "cagr": lambda r, n: empyrical.annual_return(r, annualization=n),
    "volatility": lambda r, n: empyrical.annual_volatility(r, annualization=n),
    "sharpe": lambda r, n: empyrical.sharpe_ratio(r, annualization=n),
    "sortino": lambda r, n: empyrical.sortino_ratio(r, annualization=n),
    "max_drawdown": lambda r, n: empyrical.max_drawdown(r),
    "calmar": lambda r, n: empyrical.calmar_ratio(r, annualization=n),
}
LIBRARIES = {"quantstats": QUANTSTATS, "empyrical": EMPYRICAL}
RATIOS = ("sharpe", "sortino", "calmar")


def series(returns: Returns) -> pd.Series:
    return pd.Series(returns, index=pd.date_range("2024-01-02", periods=len(returns), freq="min"))


def draw(kind: str, seed: int) -> Returns:
    rng = np.random.default_rng(seed)
    length = int(rng.integers(40, 900))
    normal = rng.normal(2e-4, 0.006, length)
    return {
        "random": normal,
        "all losing": -np.abs(normal) - 1e-6,
        "mostly idle": np.where(rng.random(length) < 0.8, 0.0, normal),
        "heavy tails": np.clip(rng.standard_t(3, length) * 0.004, -0.5, 0.5),
        "a loss first": np.concatenate(([-0.2], np.abs(normal))),
        "two bars": np.array([0.01, -0.02]) * (1 + seed),
    }[kind]


@pytest.mark.parametrize("bars_per_year", [252, 345_618.25 / 12])
@pytest.mark.parametrize(
    "kind", ["random", "all losing", "mostly idle", "heavy tails", "a loss first", "two bars"]
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_figures_agree(library: str, kind: str, bars_per_year: float) -> None:
    for seed in range(8):
        returns = draw(kind, seed)
        fox = summary(returns, bars_per_year=bars_per_year)
        for name, figure in LIBRARIES[library].items():
            if math.isnan(fox[name]):  # growth that a year cannot hold
                assert name in fox["notes"] and bars_per_year > 252
                continue
            theirs = figure(series(returns), bars_per_year)
            assert fox[name] == pytest.approx(theirs, rel=1e-9, abs=1e-12), (name, seed)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_drawdown_of_every_beginning_agrees(library: str) -> None:
    returns = draw("a loss first", 3)
    lengths = range(1, len(returns) + 1, 20)
    deepest = [LIBRARIES[library]["max_drawdown"](series(returns[:n]), 252) for n in lengths]
    np.testing.assert_allclose([drawdowns(returns[:n]).min() for n in lengths], deepest, rtol=1e-9)


# ---- conventions that differ --------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_an_idle_account_has_ratios_of_zero_here_and_none_there() -> None:
    """0 / 0 is 0 here, because an account that never traded is comparable with others; there it is NaN or an error."""
    idle = np.zeros(60)
    fox = summary(idle, bars_per_year=252)
    for name in ("total_return", "cagr", "volatility", "max_drawdown"):
        for library in LIBRARIES.values():
            assert fox[name] == library[name](series(idle), 252) == 0.0
    assert [fox[name] for name in RATIOS] == [0.0, 0.0, 0.0]
    assert [math.isnan(EMPYRICAL[name](series(idle), 252)) for name in RATIOS] == [True, True, True]
    assert math.isnan(QUANTSTATS["sharpe"](series(idle), 252))


def test_a_ratio_over_nothing_is_nan_here_and_infinite_there() -> None:
    """Without a losing bar there is no downside to divide by: NaN with a note here, infinity in empyrical."""
    winning = np.abs(draw("random", 1)) + 1e-6
    fox = summary(winning, bars_per_year=252)
    assert math.isnan(fox["sortino"]) and fox["notes"]["sortino"] == "no bar lost"
    assert EMPYRICAL["sortino"](series(winning), 252) == math.inf
    assert math.isnan(QUANTSTATS["sortino"](series(winning), 252))
    assert fox["sharpe"] == pytest.approx(EMPYRICAL["sharpe"](series(winning), 252), rel=1e-9)


def test_equal_returns_have_no_deviation_here_and_that_of_rounding_there() -> None:
    equal = np.full(20, 0.01)
    fox = summary(equal, bars_per_year=252)
    assert fox["volatility"] == 0.0 and math.isnan(fox["sharpe"])
    assert 0.0 < QUANTSTATS["volatility"](series(equal), 252) < 1e-15
    assert QUANTSTATS["sharpe"](series(equal), 252) > 1e15


def test_equity_lost_stays_lost_here_and_comes_back_there() -> None:
    """After a bar that loses more than everything both libraries multiply on: a product of negative growths."""
    returns = np.array([0.1, -1.5, -3.0, 0.2])
    fox = summary(returns, bars_per_year=252)
    assert fox["total_return"] == pytest.approx(1.1 * -0.5 - 1.0)
    for library in LIBRARIES.values():
        assert library["total_return"](series(returns), 252) == pytest.approx(np.prod(1.0 + returns) - 1.0)


# ---- trades -------------------------------------------------------------------------------------------------------
def trades(pnl: NDArray[np.float64]) -> pl.DataFrame:
    """A trade list with this P&L on a constant million."""
    return pl.DataFrame({"pnl": pnl, "trade_return": pnl / 1e6, "r": pnl / 100.0, "bars": np.ones(len(pnl))})


@pytest.mark.parametrize("seed", range(4))
def test_win_rate_and_profit_factor_are_those_of_the_trades(seed: int) -> None:
    """quantstats has both for periods; a trade's return in place of a period's gives the same figure."""
    pnl = np.round(np.random.default_rng(seed).normal(5.0, 200.0, 60), 2)
    fox = summary([0.0], bars_per_year=252, trades=trades(pnl))
    periods = series(pnl / 1e6)
    assert fox["win_rate"] == pytest.approx(quantstats.stats.win_rate(periods), rel=1e-12)
    assert fox["profit_factor"] == pytest.approx(quantstats.stats.profit_factor(periods), rel=1e-9)


def test_a_trade_of_nothing_is_a_loss_here_and_left_out_there() -> None:
    pnl = np.array([10.0, 0.0, -5.0, 0.0])
    fox = summary([0.0], bars_per_year=252, trades=trades(pnl))
    theirs = quantstats.stats.win_rate(series(pnl / 1e6))
    assert theirs == 0.5
    assert fox["win_rate"] == theirs * np.count_nonzero(pnl) / len(pnl)


def test_no_losing_trade_leaves_no_profit_factor_here_and_an_infinite_one_there() -> None:
    pnl = np.array([10.0, 3.0])
    fox = summary([0.0], bars_per_year=252, trades=trades(pnl))
    assert math.isnan(fox["profit_factor"]) and "profit_factor" in fox["notes"]
    assert quantstats.stats.profit_factor(series(pnl / 1e6)) == math.inf
