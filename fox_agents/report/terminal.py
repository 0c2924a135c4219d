"""Evaluation results as tables on a terminal."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from fox_agents.evidence import FoldRow
from fox_agents.report.figures import FIGURES, cell
from fox_agents.report.period import caption

if TYPE_CHECKING:
    from fox_agents.evaluation import EvaluationResult

__all__ = ["comparison_table", "folds_table", "orders_table"]

_SHOWN = (
    "total_return",
    "sharpe",
    "sortino",
    "max_drawdown",
    "n_trades",
    "win_rate",
    "profit_factor",
    "exposure",
    "costs",
    "fees",
    "spread_cost",
    "impact_cost",
)
_SHORT = {"sharpe": "Sharpe", "sortino": "Sortino"}
_FILLED = ("short", "long", "flat")  # the directions that order something
_FATES = {"none": "no order", "participation": "partial (volume)", "margin": "cut by margin"}


def comparison_table(results: Sequence["EvaluationResult"], title: str) -> Table:
    """Agents by metrics; the caption says how the ratios are annualised."""
    table = Table(title=title, caption=caption(results[0]))
    table.add_column("agent", overflow="fold")
    columns = [FIGURES[name] for name in _SHOWN]
    for figure in columns:
        table.add_column(_SHORT.get(figure.name, figure.label), justify="right", no_wrap=True)
    for result in results:
        table.add_row(result.agent, *(cell(figure, result.metrics) for figure in columns))
    return table


def orders_table(results: Sequence["EvaluationResult"]) -> Table:
    """What became of the steps of each agent: fills by the direction behind them, and the orders' fates."""
    statuses = [
        status
        for status in results[0].executed["order_status"]
        if any(result.executed["order_status"][status] for result in results)
    ]
    table = Table(title="Executed orders and the fate of every step's order", caption="counts of steps")
    table.add_column("agent", overflow="fold")
    for heading in (*(f"filled {d}" for d in _FILLED), *(_FATES.get(s, s) for s in statuses)):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        fills, fates = result.executed["direction"], result.executed["order_status"]
        cells = [*(fills[d] for d in _FILLED), *(fates[s] for s in statuses)]
        table.add_row(result.agent, *(f"{count:,}" for count in cells))
    return table


def folds_table(rows: Sequence[FoldRow]) -> Table:
    """The folds of a walk-forward study: what each was tested on, and what the test window brought."""
    table = Table(title="Folds", caption="Sharpe with its 95 % interval; selected: by the validation window")
    for heading in ("fold", "test", "selected"):
        table.add_column(heading)
    for heading in ("return", "Sharpe", "costs", "trades"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        value, low, high = row.sharpe
        table.add_row(
            str(row.fold),
            row.test,
            row.selected,
            f"{row.total_return:+.2%}",
            f"{value:.2f} ({low:.2f} to {high:.2f})" if math.isfinite(value + low + high) else "-",
            f"{row.costs:,.0f}",
            f"{row.trades:,}",
        )
    return table
