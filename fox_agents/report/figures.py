"""The figures a report shows: for each its label, its format and its definition, in one table."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["FIGURES", "GROUPS", "Figure", "cell", "money", "percent", "shown"]


class Figure(NamedTuple):
    """One figure of an evaluation or of the evidence about it."""

    name: str
    """Key of `EvaluationResult.metrics`, or field of `Evidence`."""
    label: str
    style: str
    """Format specification in braces."""
    definition: str


_RETURN = (
    Figure(
        "total_return",
        "return",
        "{:+.2%}",
        "Final account value over the first, minus 1, after all costs. Where the period was cut into windows with a "
        "fresh account each, the returns of the windows are compounded.",
    ),
    Figure(
        "cagr",
        "return a year",
        "{:+.2%}",
        "The constant yearly growth that gives the same return (CAGR).",
    ),
    Figure(
        "mean_return",
        "mean return a bar",
        "{:+.4%}",
        "Average of the account's returns over all bars, flat bars included.",
    ),
    Figure(
        "sharpe",
        "Sharpe ratio",
        "{:.2f}",
        "Mean of the bar returns over their standard deviation, times the square root of the bars in a year; risk-free "
        "rate 0 (Sharpe 1994). Above 0 is a gain; above 1 over years is good.",
    ),
    Figure(
        "sortino",
        "Sortino ratio",
        "{:.2f}",
        "As the Sharpe ratio, but over the root mean square of the losses alone, counted over all bars "
        "(Sortino and Price 1994).",
    ),
    Figure("calmar", "Calmar ratio", "{:.2f}", "Return a year over the deepest drawdown."),
    Figure("volatility", "volatility", "{:.2%}", "Standard deviation of the bar returns, scaled to a year."),
    Figure(
        "max_drawdown",
        "max drawdown",
        "{:.2%}",
        "Deepest fall of the account below its highest value so far, as a share of that value.",
    ),
    Figure(
        "max_drawdown_bars",
        "longest drawdown",
        "{:,.0f} bars",
        "Longest run of bars below an earlier peak.",
    ),
)

_TRADES = (
    Figure(
        "n_trades",
        "trades",
        "{:,.0f}",
        "Closed trades: from a position's opening to its close or its turn to the other side. "
        "A position still open at the end is none.",
    ),
    Figure(
        "win_rate", "win rate", "{:.1%}", "Closed trades that made money after costs, of all closed trades."
    ),
    Figure(
        "profit_factor",
        "profit factor",
        "{:.2f}",
        "Sum of the winning trades' gains over the sum of the losses.",
    ),
    Figure(
        "expectancy_r",
        "mean R",
        "{:+.2f}",
        "Average R-multiple of the closed trades: profit over the money at risk when the trade was opened.",
    ),
    Figure("mean_trade_bars", "bars a trade", "{:,.1f}", "Average length of a closed trade in bars."),
    Figure("exposure", "exposure", "{:.1%}", "Share of the bars that end with a position."),
    Figure(
        "turnover", "turnover", "{:,.1f}", "Notional value of all fills over the initial cash of all windows."
    ),
)

_COSTS = (
    Figure("final_equity", "final account", "{:,.0f}", "Account value at the last close, money."),
    Figure("gross_pnl", "profit before costs", "{:+,.0f}", "Money made by the trades before costs."),
    Figure("costs", "costs", "{:,.0f}", "Money: fees plus what the fills lost to spread and impact."),
    Figure("fees", "fees", "{:,.0f}", "Money paid to broker and exchange."),
    Figure("spread_cost", "spread", "{:,.0f}", "Money that the half-spreads inside the fill prices took."),
    Figure(
        "impact_cost",
        "impact",
        "{:,.0f}",
        "Money that the own orders' push on the price took (square root of the order's share of the volume).",
    ),
    Figure("cost_share", "costs / gross", "{:.1%}", "Costs over the size of the profit before costs."),
)

_CHOICES = (
    Figure(
        "action_entropy",
        "entropy of choices",
        "{:.2f}",
        "How evenly the directions were chosen: 0 always the same one, 1 all equally often.",
    ),
    Figure(
        "executed_entropy",
        "entropy of deeds",
        "{:.2f}",
        "The same for what was carried out; a step without a fill counts as Hold.",
    ),
)

_CERTAINTY = (
    Figure(
        "probabilistic_sharpe",
        "P(Sharpe > 0)",
        "{:.1%}",
        "Probability that the true Sharpe ratio is above zero, given length, skew and tails of the returns "
        "(probabilistic Sharpe ratio, Bailey and López de Prado 2012).",
    ),
    Figure(
        "deflated_sharpe",
        "P(better than luck)",
        "{:.1%}",
        "The same, above the best Sharpe ratio that as many tries without skill would show "
        "(deflated Sharpe ratio, Bailey and López de Prado 2014). Below 95% the best of many tries explains it.",
    ),
    Figure("trials", "tries", "{:,.0f}", "Checkpoints and configurations among which this one was chosen."),
    Figure(
        "overfitting",
        "P(overfitting)",
        "{:.1%}",
        "How often the best try of one half of the data is below the middle of the tries on the other half "
        "(probability of backtest overfitting by CSCV, Bailey et al. 2017). 50% is what tries without skill show.",
    ),
    Figure(
        "least_track_record",
        "bars needed",
        "{:,.0f}",
        "Bars that this Sharpe ratio needs to be above zero at 95% (minimum track record length).",
    ),
    Figure(
        "break_even",
        "break-even costs",
        "× {:.2f}",
        "Multiple of the costs at which the profit before costs of these trades is used up; below 1 they lose.",
    ),
)

GROUPS = (
    ("Return and risk", _RETURN),
    ("How sure", _CERTAINTY),
    ("Trades", _TRADES),
    ("Costs", _COSTS),
    ("Choices", _CHOICES),
)
"""All figures in the order of the report, under their headings."""
FIGURES = {figure.name: figure for _, figures in GROUPS for figure in figures}
"""The same by name."""

_LARGEST, _LARGEST_SHARE = 1e12, 1e3
"""Figures beyond them, such as the yearly growth of a few lucky days, are given by their order of magnitude."""


def cell(figure: Figure, values: Mapping[str, Any]) -> str:
    """The figure in words, a dash where it is unknown."""
    return shown(values.get(figure.name), figure.style)


def shown(value: float | None, style: str) -> str:
    """A number in the format ``style``, a dash where it is unknown."""
    if value is None or not math.isfinite(value):
        return "-"
    share = style.endswith("%}")
    if abs(value) >= (_LARGEST_SHARE if share else _LARGEST):
        return f"{100 * value:+.1e}%" if share else f"{value:.1e}"
    return style.format(value or 0.0)  # no negative zero


def percent(fraction: float) -> str:
    """A return, with its sign and two digits that matter."""
    if fraction == 0:
        return "0%"
    digits = 1 if abs(fraction) >= 0.01 else 2
    return f"{fraction:+.{digits}%}"


def money(amount: float, currency: str) -> str:
    """Whole money with its currency; cents only below 100."""
    return f"{amount:,.0f} {currency}" if abs(amount) >= 100 or amount == 0 else f"{amount:,.2f} {currency}"
