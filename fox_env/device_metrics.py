"""Performance of the accounts of a running batch, from the sums that the step keeps in the memory of its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.backends import Backend
from fox_env.errors import FoxError
from fox_env.market import Market
from fox_env.metrics import (
    COUNTS,
    ReturnSums,
    TradeSums,
    explain,
    normalised_entropy,
    plain,
    return_figures,
    trade_figures,
)

__all__ = ["BatchMetrics", "read_metrics", "require_metrics"]

Float = NDArray[np.float64]

_HISTOGRAMS: dict[str, tuple[int, type[IntEnum]]] = {
    "order_status": (_layout.Executed.STATUS, _layout.OrderStatus),
    "direction": (_layout.Executed.DIRECTION, _layout.Direction),
    "magnitude": (_layout.Executed.MAGNITUDE, _layout.Magnitude),
    "order": (_layout.Executed.ORDER, _layout.OrderType),
    "urgency": (_layout.Executed.URGENCY, _layout.Urgency),
}
"""Histogram -> its first row among the counts, and what the rows from there are."""

_OF_MONEY = (
    "net_pnl", "gross_pnl", "costs", "fees", "slippage", "spread_cost", "impact_cost", "cost_share", "trade_pnl",
    "profit_factor",
)  # fmt: skip
_ANNUAL = ("cagr", "volatility", "sharpe", "sortino", "calmar")


@dataclass(frozen=True)
class BatchMetrics:
    """Figures of every account of a batch and of all together.

    The episodes of an account are joined: its step returns follow each other as if one account had earned them. A
    call that only begins an episode is no bar. An episode that a reset breaks off counts as far as it went; the
    position that it left open is in its returns and no trade.

    ``per_env`` holds arrays (N,), ``pooled`` numbers, both under the names of :func:`fox_env.metrics.summary` and:

    ``net_pnl``, ``gross_pnl``
        Money made after and before costs.
    ``costs``, ``fees``, ``slippage``, ``spread_cost``, ``impact_cost``
        Money. Costs are fees and slippage; slippage is spread and impact.
    ``cost_share``
        Costs / the size of the gross P&L; NaN without any.
    ``turnover``
        Notional of the agent's fills / initial cash.
    ``exposure``
        Share of the bars that ended with a position.
    ``executed``
        Histograms by name, in bars. ``order_status``: the fate of the agent's order. ``fill``: ``buy``, ``sell`` or
        ``none``. ``direction``, ``magnitude``, ``order``, ``urgency``: the choices behind those fills, counted where
        they shaped the order; of a continuous action the nearest magnitude.
    ``executed_entropy``
        Normalised entropy, 0 to 1, of the directions carried out; a bar without a fill counts as Hold.

    Pooled are the step returns of all accounts in one sample (``volatility``, ``sharpe``, ``sortino``), an equal stake
    in every account (``total_return`` is the mean of theirs, ``cagr`` its annual rate over the mean number of bars),
    the deepest and the longest drawdown of any account, and the sums of money, trades, orders and bars. ``turnover``
    is the mean. Money of accounts in different currencies is not added up.

    ``bars_per_year`` annualises: of each account's market, and pooled of the sample as a whole (its bars / its years).
    """

    per_env: dict[str, Any]
    """Arrays (N,) by name; ``executed`` nests them by histogram and choice. Figures without a value are NaN."""
    pooled: dict[str, Any]
    """Numbers by name; ``notes`` says why one is NaN or limited."""

    def __str__(self) -> str:
        numbers = self.pooled
        annual = f"at {numbers['bars_per_year']:,.0f} bars a year"
        lines = [f"{len(self.per_env['bars'])} accounts, {numbers['bars']:,} bars"]
        for name, value in numbers.items():
            if name not in ("bars", "bars_per_year", "executed", "notes"):
                shown = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
                lines.append(f"{name:18} {shown:>14}  {annual if name in _ANNUAL else ''}".rstrip())
        lines += [f"{name}: {why}" for name, why in numbers["notes"].items()]
        return "\n".join(lines)


def require_metrics(backend: Backend) -> None:
    """Refuse a batch that keeps no sums.

    Raises
    ------
    FoxError
        If it keeps none.
    """
    if not backend.plan.named("metrics."):
        raise FoxError("this environment keeps no metrics; make it with metrics=True")


def read_metrics(
    backend: Backend, markets: Sequence[Market], market_of: NDArray[np.int32], initial_cash: float
) -> BatchMetrics:
    """Finish the sums of a batch, after all its enqueued work; they are added up over accounts in their order.

    Raises
    ------
    FoxError
        If the batch keeps no sums.
    """
    require_metrics(backend)
    slots = backend.plan.named("metrics.")
    sums = {field: backend.read(slot).astype(np.float64) for field, slot in slots.items()}
    annual = np.array([market.bars_per_year for market in markets])[market_of]
    figures = _figures(sums, _return_sums(sums), annual, initial_cash)
    whole = {name: figures[name].astype(np.int64) for name in (*COUNTS, "bars")}
    per_env = {**figures, **whole, "executed": _histograms(sums["executed"], sums["bars"])}
    currencies = {markets[market].contract.currency for market in market_of}
    return BatchMetrics(per_env, _pooled(sums, annual, initial_cash, currencies))


def _pooled(
    sums: dict[str, Float], annual: Float, initial_cash: float, currencies: set[str]
) -> dict[str, Any]:
    total = {name: values.sum(axis=-1) for name, values in sums.items()}
    returns = _pooled_returns(sums)
    years = (sums["bars"] / annual).sum()
    same = years == 0 or (annual == annual[0]).all()
    bars_per_year = annual[0] if same else total["bars"] / years
    figures = _figures(total, returns, bars_per_year, initial_cash * len(annual))
    notes = explain(figures, returns, _trade_sums(total))
    if total["bars"] == 0:
        notes |= dict.fromkeys(("exposure", "executed_entropy"), "no bar was played")
    if np.isnan(figures["cost_share"]):
        notes["cost_share"] = "nothing was made or lost before costs"
    if not same:
        notes["bars_per_year"] = f"markets have from {annual.min():,.0f} to {annual.max():,.0f}"
    if len(currencies) > 1:
        figures |= dict.fromkeys(_OF_MONEY, np.asarray(np.nan))
        notes |= dict.fromkeys(_OF_MONEY, f"accounts are in {', '.join(sorted(currencies))}")
    counts = {
        name: {choice: int(count) for choice, count in histogram.items()}
        for name, histogram in _histograms(total["executed"], total["bars"]).items()
    }
    return {**plain(figures), "bars": int(total["bars"]), "executed": counts, "notes": notes}


def _return_sums(sums: dict[str, Float]) -> ReturnSums:
    names = ("mean", "squares", "largest", "downside", "growth", "drawdown", "drawdown_bars")
    return ReturnSums(bars=sums["bars"], span=sums["bars"], **{name: sums[name] for name in names})


def _pooled_returns(sums: dict[str, Float]) -> ReturnSums:
    """All returns in one sample (Chan, Golub and LeVeque 1983), an equal stake in every account, the worst drawdown."""
    bars, mean = sums["bars"], sums["mean"]
    together = (bars * mean).sum() / max(bars.sum(), 1.0)
    return ReturnSums(
        bars=bars.sum(),
        span=bars.mean(),
        mean=together,
        squares=sums["squares"].sum() + (bars * (mean - together) ** 2).sum(),
        largest=sums["largest"].max(),
        downside=sums["downside"].sum(),
        growth=sums["growth"].mean(),
        drawdown=sums["drawdown"].min(),
        drawdown_bars=sums["drawdown_bars"].max(),
    )


def _trade_sums(sums: dict[str, Float]) -> TradeSums:
    names = ("trades", "wins", "gains", "losses", "known_r", "trade_return")
    return TradeSums(r=sums["trade_r"], bars=sums["trade_bars"], **{name: sums[name] for name in names})


def _figures(
    sums: dict[str, Float], returns: ReturnSums, bars_per_year: Float, initial_cash: float
) -> dict[str, Float]:
    """Every figure but the histograms, for accounts or for all of them together."""
    bars = np.where(sums["bars"] > 0, sums["bars"], np.nan)
    costs = sums["fees"] + sums["spread"] + sums["impact"]
    gross = sums["net"] + costs
    return {
        **return_figures(returns, bars_per_year),
        **trade_figures(_trade_sums(sums)),
        "net_pnl": sums["net"],
        "gross_pnl": gross,
        "costs": costs,
        "fees": sums["fees"],
        "slippage": sums["spread"] + sums["impact"],
        "spread_cost": sums["spread"],
        "impact_cost": sums["impact"],
        "cost_share": costs / np.where(gross != 0, np.abs(gross), np.nan),
        "turnover": sums["notional"] / initial_cash,
        "exposure": sums["exposed"] / bars,
        "executed_entropy": _executed_entropy(sums["executed"], sums["bars"]),
        "bars": sums["bars"],
        "bars_per_year": bars_per_year,
    }


def _executed_entropy(executed: Float, bars: Float) -> Float:
    first = int(_layout.Executed.DIRECTION)
    directions = executed[first : first + len(_layout.Direction)].copy()
    directions[_layout.Direction.HOLD] += bars - directions.sum(axis=0)
    return normalised_entropy(np.moveaxis(directions, 0, -1))


def _histograms(executed: Float, bars: Float) -> dict[str, dict[str, Any]]:
    """Counts by histogram and choice, from the (Executed.SIZE, ...) rows."""
    rows = executed.astype(np.int64)
    named: dict[str, dict[str, Any]] = {
        name: {choice.name.lower(): rows[first + choice] for choice in choices}
        for name, (first, choices) in _HISTOGRAMS.items()
    }
    buy, sell = rows[_layout.Executed.BUY], rows[_layout.Executed.SELL]
    return {**named, "fill": {"buy": buy, "sell": sell, "none": bars.astype(np.int64) - buy - sell}}
