"""Performance metrics of step returns and closed trades, with every convention stated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fox_env.errors import ConfigError, DataError

if TYPE_CHECKING:
    import polars as pl

Float = NDArray[np.float64]

_TRADE_METRICS = (
    "win_rate", "profit_factor", "expectancy_r", "mean_trade_return", "mean_trade_bars", "trade_pnl",
)  # fmt: skip
_ROUNDING = 1e-14
"""A standard deviation below this share of the largest return is rounding of equal returns."""


def drawdowns(step_returns: ArrayLike) -> Float:
    """Return the drawdown after each step as a fraction of the running peak of equity, 0 or negative.

    Parameters
    ----------
    step_returns : array, shape (T,)
        Simple returns per bar.

    Returns
    -------
    float64 array, shape (T + 1,)
        Entry 0 is the start, whose equity is the first peak: a loss on the first bar counts.
    """
    equity = _equity(_checked(step_returns))
    result: Float = equity / np.maximum.accumulate(equity) - 1.0
    return result


def summary(
    step_returns: ArrayLike, *, bars_per_year: float, trades: pl.DataFrame | None = None
) -> dict[str, Any]:
    """Summarise one account's step returns and its closed trades.

    Parameters
    ----------
    step_returns : array, shape (T,)
        ``(equity' - equity) / equity`` per bar, flat bars included. An open position is in them at its mark.
    bars_per_year : float
        Bars of the data's own calendar in a year; annualises every figure below.
    trades : polars.DataFrame, optional
        Closed trades as of ``env.trades()``: columns ``pnl`` (net money), ``trade_return``, ``r`` and
        ``bars``. An open position is no trade. Bars are in no denominator here.

    Returns
    -------
    dict
        ``total_return``, ``cagr``
            Compounded; the equity stays where it is once it is 0 or less, and the CAGR is then -1.
        ``volatility``
            Standard deviation (ddof 1) times the square root of `bars_per_year`.
        ``sharpe``
            Mean over standard deviation (ddof 1) times the square root of `bars_per_year`, risk-free rate 0.
        ``sortino``
            Mean over the root mean square of ``min(r, 0)`` over all bars, annualised likewise, target 0.
        ``calmar``
            ``cagr / |max_drawdown|``.
        ``max_drawdown``, ``max_drawdown_bars``
            Deepest drawdown (negative fraction; the first peak is the start), and the longest run of bars
            below a former peak.
        ``n_trades``, ``win_rate``, ``profit_factor``, ``expectancy_r``, ``mean_trade_return``,
        ``mean_trade_bars``, ``trade_pnl``
            Of closed trades, net of costs. A trade that makes 0 or less is a loss. ``profit_factor`` is the
            sum of gains over the sum of losses, ``expectancy_r`` the mean R-multiple.
        ``bars``, ``bars_per_year``
            T and the annualisation in force.
        ``notes``
            dict of metric name to the reason why it is NaN or limited. Ratios whose denominator is 0 are 0.0
            when the numerator is 0 too (``sharpe``, ``sortino``, ``calmar``), else NaN; nothing is infinite.
            Trade metrics are NaN without trades; ``n_trades`` is NaN only when no trade list is given.

    Raises
    ------
    DataError
        A return is not finite, the array has another shape, or `trades` lacks a column.
    ConfigError
        `bars_per_year` is not a positive number.

    References
    ----------
    Sharpe (1994), "The Sharpe Ratio"; Sortino and Price (1994), "Performance Measurement in a Downside Risk
    Framework" (downside deviation over all observations).
    """
    if not (math.isfinite(bars_per_year) and bars_per_year > 0):
        raise ConfigError(f"bars_per_year must be a positive number, got {bars_per_year!r}.")
    returns = _checked(step_returns)
    notes: dict[str, str] = {}
    numbers = _return_metrics(returns, float(bars_per_year), notes)
    numbers |= _trade_metrics(trades, notes)
    return {**numbers, "bars": len(returns), "bars_per_year": float(bars_per_year), "notes": notes}


def _checked(step_returns: ArrayLike) -> Float:
    returns = np.asarray(step_returns, dtype=np.float64)
    if returns.ndim != 1:
        raise DataError(
            f"step_returns must have one dimension, got shape {returns.shape}; pass one account's bars."
        )
    if (bad := np.flatnonzero(~np.isfinite(returns))).size:
        raise DataError(f"step_returns: bar {bad[0]} is {returns[bad[0]]}; a return must be finite.")
    return returns


def _equity(returns: Float) -> Float:
    """Compound from 1; hold the equity from the first bar at which it is 0 or less."""
    growth = 1.0 + returns
    if (ruin := np.flatnonzero(growth <= 0)).size:
        growth[ruin[0] + 1 :] = 1.0
    return np.concatenate(([1.0], np.cumprod(growth)))


def _ratio(numerator: float, denominator: float, name: str, reason: str, notes: dict[str, str]) -> float:
    """Divide; 0/0 is 0.0 and anything else over 0, or too near to it, is NaN with its reason."""
    if numerator == 0:
        return 0.0
    if denominator > 0 and math.isfinite(ratio := numerator / denominator):
        return ratio
    notes[name] = reason
    return math.nan


def _return_metrics(returns: Float, bars_per_year: float, notes: dict[str, str]) -> dict[str, Any]:
    equity = _equity(returns)
    below = equity / np.maximum.accumulate(equity) - 1.0
    deepest = float(below.min())
    mean = float(returns.mean()) if returns.size else 0.0
    deviation = float(returns.std(ddof=1)) if returns.size > 1 else 0.0
    if returns.size and deviation <= _ROUNDING * float(np.abs(returns).max()):
        deviation = 0.0
    downside = math.sqrt(float(np.mean(np.minimum(returns, 0.0) ** 2))) if returns.size else 0.0
    root = math.sqrt(bars_per_year)
    volatility = deviation * root
    if returns.size < 2:
        notes["volatility"] = "needs at least two bars"
        volatility = math.nan
    spread = "needs at least two bars" if returns.size < 2 else "returns have no variance"
    cagr = _cagr(float(equity[-1]), len(returns), bars_per_year, notes)
    return {
        "total_return": float(equity[-1]) - 1.0,
        "cagr": cagr,
        "volatility": volatility,
        "sharpe": _ratio(mean * root, deviation, "sharpe", spread, notes),
        "sortino": _ratio(mean * root, downside, "sortino", "no bar lost", notes),
        "calmar": _ratio(cagr, -deepest, "calmar", "there was no drawdown", notes),
        "max_drawdown": deepest,
        "max_drawdown_bars": _longest_run(below < 0),
    }


def _cagr(final: float, bars: int, bars_per_year: float, notes: dict[str, str]) -> float:
    """Return the compound annual growth rate of equity that went from 1 to `final`."""
    if bars == 0:
        return 0.0
    if final <= 0:
        notes["cagr"] = "the equity was lost; it stays there for the bars after"
        return -1.0
    exponent = math.log(final) * bars_per_year / bars
    if exponent > math.log(np.finfo(np.float64).max):
        notes["cagr"] = f"{bars} bars are too few to extrapolate their growth to a year"
        return math.nan
    return math.expm1(exponent)


def _longest_run(flags: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _trade_metrics(trades: pl.DataFrame | None, notes: dict[str, str]) -> dict[str, Any]:
    if trades is None or len(trades) == 0:
        notes["trades"] = "no trade list was given" if trades is None else "no trade was closed"
        return {"n_trades": math.nan if trades is None else 0, **dict.fromkeys(_TRADE_METRICS, math.nan)}
    columns = ("pnl", "trade_return", "r", "bars")
    if missing := [name for name in columns if name not in trades.columns]:
        raise DataError(f"trades lack the column {missing[0]!r}; pass the frame of env.trades().")
    pnl, trade_return, r, bars = (trades[name].to_numpy().astype(np.float64) for name in columns)
    gains, losses = float(pnl[pnl > 0].sum()), float(-pnl[pnl < 0].sum())
    if losses > 0:
        factor = _ratio(gains, losses, "profit_factor", "the losses are too small to divide by", notes)
    else:
        factor = math.nan
        notes["profit_factor"] = "no closed trade lost money"
    known = r[np.isfinite(r)]
    if known.size < r.size:
        notes["expectancy_r"] = (
            f"{r.size - known.size} of {r.size} trades have no R-multiple and are left out"
        )
    return {
        "n_trades": len(pnl),
        "win_rate": float(np.mean(pnl > 0)),
        "profit_factor": factor,
        "expectancy_r": float(known.mean()) if known.size else math.nan,
        "mean_trade_return": float(trade_return.mean()),
        "mean_trade_bars": float(bars.mean()),
        "trade_pnl": float(pnl.sum()),
    }
