"""Performance metrics of step returns and closed trades, with every convention stated."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fox_env.errors import ConfigError, DataError

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "COUNTS",
    "ReturnSums",
    "TradeSums",
    "drawdowns",
    "explain",
    "normalised_entropy",
    "plain",
    "return_figures",
    "summary",
    "trade_figures",
]

Float = NDArray[np.float64]

_ROUNDING = 1e-14
"""A standard deviation below this share of the largest return is rounding of equal returns."""
COUNTS = ("n_trades", "max_drawdown_bars")
"""Figures that are whole numbers."""
_LOG_LARGEST = math.log(np.finfo(np.float64).max)


@dataclass(frozen=True)
class ReturnSums:
    """What the figures of returns are made of: arrays of one shape, with an entry an account."""

    bars: Float
    """Number of returns."""
    span: Float
    """Bars that the growth took: the number of returns of one account."""
    mean: Float
    """Their mean, 0 without any."""
    squares: Float
    """Sum of the squared distances from the mean."""
    largest: Float
    """Largest absolute return."""
    downside: Float
    """Sum of ``min(r, 0)²``."""
    growth: Float
    """Final equity over the first."""
    drawdown: Float
    """Deepest drawdown, 0 or negative."""
    drawdown_bars: Float
    """Longest run of bars below a former peak."""


@dataclass(frozen=True)
class TradeSums:
    """What the figures of closed trades are made of: arrays of one shape, with an entry an account."""

    trades: Float
    """Number of closed trades."""
    wins: Float
    """Those with net P&L above 0."""
    gains: Float
    """Sum of the winners' net P&L, money."""
    losses: Float
    """Sum of the losers' net P&L, money, as a positive number."""
    known_r: Float
    """Trades that have an R-multiple."""
    r: Float
    """Sum of those R-multiples."""
    trade_return: Float
    """Sum of net P&L over equity at the trade's start."""
    bars: Float
    """Sum of the bars held."""


_UNKNOWN_TRADES = TradeSums(*[np.asarray(math.nan)] * len(fields(TradeSums)))


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
    returns = _return_sums(_checked(step_returns))
    closed = _UNKNOWN_TRADES if trades is None else _trade_sums(trades)
    figures = return_figures(returns, np.asarray(bars_per_year)) | trade_figures(closed)
    return {
        **plain(figures),
        "bars": int(returns.bars),
        "bars_per_year": float(bars_per_year),
        "notes": explain(figures, returns, closed),
    }


def plain(figures: dict[str, Float]) -> dict[str, int | float]:
    """Figures of one account as Python's numbers; counts are whole ones."""
    return {
        name: int(value) if name in COUNTS and not np.isnan(value) else float(value)
        for name, value in figures.items()
    }


def _ratio(numerator: Float, denominator: Float) -> Float:
    """Divide; 0/0 is 0 and anything else over 0, or too near to it, is NaN."""
    with np.errstate(all="ignore"):
        quotient = np.divide(numerator, denominator)
    divided = np.where((denominator > 0) & np.isfinite(quotient), quotient, math.nan)
    return np.where(np.equal(numerator, 0), 0.0, divided)


def return_figures(sums: ReturnSums, bars_per_year: Float) -> dict[str, Float]:
    """The figures of returns that :func:`summary` defines, for every entry of the sums."""
    bars, root = sums.bars, np.sqrt(bars_per_year)
    deviation = np.sqrt(sums.squares / np.maximum(bars - 1, 1))
    deviation = np.where(deviation <= _ROUNDING * sums.largest, 0.0, deviation)
    downside = np.sqrt(sums.downside / np.maximum(bars, 1))
    cagr = _cagr(sums.growth, sums.span, bars_per_year)
    return {
        "total_return": sums.growth - 1.0,
        "cagr": cagr,
        "volatility": np.where(bars < 2, math.nan, deviation * root),
        "sharpe": _ratio(sums.mean * root, deviation),
        "sortino": _ratio(sums.mean * root, downside),
        "calmar": _ratio(cagr, -sums.drawdown),
        "max_drawdown": sums.drawdown,
        "max_drawdown_bars": sums.drawdown_bars,
    }


def trade_figures(sums: TradeSums) -> dict[str, Float]:
    """The figures of closed trades that :func:`summary` defines, for every entry of the sums."""
    trades = np.where(sums.trades > 0, sums.trades, math.nan)
    factor = np.where(sums.losses > 0, _ratio(sums.gains, sums.losses), math.nan)
    return {
        "n_trades": sums.trades,
        "win_rate": sums.wins / trades,
        "profit_factor": factor,
        "expectancy_r": sums.r / np.where(sums.known_r > 0, sums.known_r, math.nan),
        "mean_trade_return": sums.trade_return / trades,
        "mean_trade_bars": sums.bars / trades,
        "trade_pnl": np.where(sums.trades > 0, sums.gains - sums.losses, math.nan),
    }


def explain(figures: dict[str, Float], returns: ReturnSums, trades: TradeSums) -> dict[str, str]:
    """Why figures of one account are NaN or limited, by name."""
    notes: dict[str, str] = {}
    few = "needs at least two bars"
    reasons = {
        "cagr": f"{returns.span:,.0f} bars are too few to extrapolate their growth to a year",
        "volatility": few,
        "sharpe": few if returns.bars < 2 else "returns have no variance",
        "sortino": "no bar lost",
        "calmar": "there was no drawdown" if returns.drawdown == 0 else "the growth has no annual rate",
    }
    notes |= {name: why for name, why in reasons.items() if np.isnan(figures[name])}
    if returns.growth <= 0:
        notes["cagr"] = "the equity was lost; it stays there for the bars after"
    if not trades.trades > 0:
        notes["trades"] = "no trade was closed" if trades.trades == 0 else "no trade list was given"
        return notes
    if np.isnan(figures["profit_factor"]):
        small = "the losses are too small to divide by"
        notes["profit_factor"] = small if trades.losses > 0 else "no closed trade lost money"
    if trades.known_r < trades.trades:
        unknown = trades.trades - trades.known_r
        notes["expectancy_r"] = (
            f"{unknown:.0f} of {trades.trades:.0f} trades have no R-multiple and are left out"
        )
    return notes


def normalised_entropy(counts: Float) -> Float:
    """Entropy of the shares of ``counts`` (..., K) over its greatest value log K; NaN where all are 0."""
    with np.errstate(all="ignore"):
        shares = counts / counts.sum(axis=-1, keepdims=True)
        terms = np.where(shares == 0, 0.0, shares * np.log(shares))
    result: Float = -terms.sum(axis=-1) / math.log(counts.shape[-1]) + 0.0  # no negative zero
    return result


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


def _return_sums(returns: Float) -> ReturnSums:
    equity = _equity(returns)
    below = equity / np.maximum.accumulate(equity) - 1.0
    mean = returns.mean() if returns.size else np.float64(0.0)
    lost = np.minimum(returns, 0.0)
    sums = {
        "bars": returns.size,
        "span": returns.size,
        "mean": mean,
        "squares": ((returns - mean) ** 2).sum(),
        "largest": np.abs(returns).max(initial=0.0),
        "downside": (lost**2).sum(),
        "growth": equity[-1],
        "drawdown": below.min(),
        "drawdown_bars": _longest_run(below < 0),
    }
    return ReturnSums(**{name: np.asarray(value, dtype=np.float64) for name, value in sums.items()})


def _cagr(growth: Float, bars: Float, bars_per_year: Float) -> Float:
    """Compound annual growth rate of equity that went from 1 to `growth` in so many bars; -1 where it was lost."""
    lost = growth <= 0
    exponent = np.log(np.where(lost, 1.0, growth)) * bars_per_year / np.maximum(bars, 1)
    endless = exponent > _LOG_LARGEST
    rate = np.where(endless, math.nan, np.expm1(np.where(endless, 0.0, exponent)))
    return np.where(lost, -1.0, rate)


def _longest_run(flags: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _trade_sums(trades: pl.DataFrame) -> TradeSums:
    columns = ("pnl", "trade_return", "r", "bars")
    if missing := [name for name in columns if name not in trades.columns]:
        raise DataError(f"trades lack the column {missing[0]!r}; pass the frame of env.trades().")
    pnl, trade_return, r, bars = (trades[name].to_numpy().astype(np.float64) for name in columns)
    known = r[np.isfinite(r)]
    sums = {
        "trades": pnl.size,
        "wins": np.count_nonzero(pnl > 0),
        "gains": pnl[pnl > 0].sum(),
        "losses": -pnl[pnl < 0].sum(),
        "known_r": known.size,
        "r": known.sum(),
        "trade_return": trade_return.sum(),
        "bars": bars.sum(),
    }
    return TradeSums(**{name: np.asarray(value, dtype=np.float64) for name, value in sums.items()})
