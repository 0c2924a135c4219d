"""The tables of a comparison: each agent on each market, and each agent over all markets, with intervals."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from fox_agents.checkpoint import read_arrays
from fox_agents.evidence import Interval
from fox_agents.stats import bootstrap_intervals
from fox_agents.stats.seeds import interquartile_mean, probability_of_improvement

__all__ = ["MARKETS", "OVERALL", "market_rows", "markdown", "overall_rows", "terminal"]

Row = dict[str, Any]

MARKETS = (
    ("market", "market"),
    ("budget", "equal"),
    ("agent", "agent"),
    ("seeds", "seeds"),
    ("total_return", "return"),
    ("sharpe", "Sharpe (95 % interval)"),
    ("seed_sharpes", "Sharpe of each seed"),
    ("selected_return", "return, agent or flat"),
    ("flat_folds", "folds chosen flat"),
    ("max_drawdown", "max drawdown"),
    ("costs", "costs"),
    ("n_trades", "trades"),
    ("exposure", "exposure"),
    ("env_steps", "steps"),
    ("learning_seconds", "seconds"),
)
"""Columns of the table by market: key and heading."""
OVERALL = (
    ("budget", "equal"),
    ("agent", "agent"),
    ("markets", "markets"),
    ("runs", "runs"),
    ("sharpe", "interquartile mean Sharpe (95 % interval)"),
    ("better_than_flat", "share of runs above 0"),
    ("first_better", "probability that the first agent is better"),
)
"""Columns of the table over all markets."""
_SHARES = {"total_return", "selected_return", "max_drawdown", "exposure", "better_than_flat"}


def market_rows(results: Sequence[Mapping[str, Any]]) -> list[Row]:
    """One row for each market, budget and agent, in the order of the results.

    The interval of the Sharpe ratio is that of the account that holds an equal share of every seed, over the bars of
    the test windows (`bootstrap_intervals`): it says what the length of the test allows to say, where the column of
    the seeds says how much training depends on chance.
    """
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["market"], result["budget"], result["agent"]), []).append(result)
    rows = []
    for (market, budget, agent), group in groups.items():
        returns = np.mean(
            [read_arrays(Path(result["joined"]), "series")["returns"] for result in group], axis=0
        )
        row: Row = {"market": market, "budget": budget, "agent": agent, "seeds": len(group)}
        for name in ("total_return", "max_drawdown", "costs", "n_trades", "exposure"):
            row[name] = statistics.fmean(result["metrics"][name] for result in group)
        row["selected_return"] = statistics.fmean(
            result["selected_metrics"]["total_return"] for result in group
        )
        for name in ("env_steps", "learning_seconds", "flat_folds"):
            row[name] = statistics.fmean(result[name] for result in group)
        row["sharpe"] = bootstrap_intervals(returns, group[0]["bars_per_year"])["sharpe"]
        row["seed_sharpes"] = [result["metrics"]["sharpe"] for result in group]
        rows.append(row)
    return rows


def overall_rows(rows: Sequence[Row]) -> list[Row]:
    """One row for each budget and agent that has all markets: the Sharpe ratios of all runs together.

    Interquartile means and probabilities of improvement as Agarwal et al. (2021) define them, with bootstrap intervals
    stratified by market. An agent without chance in it counts as one run a market.
    """
    markets = list(dict.fromkeys(row["market"] for row in rows))
    scores: dict[tuple[str, str], np.ndarray[Any, Any]] = {}
    for row in rows:
        key = (row["budget"], row["agent"])
        own = [r for r in rows if (r["budget"], r["agent"]) == key]
        least = min(len(r["seed_sharpes"]) for r in own)
        if len(own) == len(markets) and all(None not in r["seed_sharpes"] for r in own):
            scores[key] = np.array([r["seed_sharpes"][:least] for r in own]).T  # (seeds, markets)
    found = []
    for (budget, agent), score in scores.items():
        leader = next(row["agent"] for row in rows if row["budget"] == budget)
        first = scores.get((budget, leader))
        found.append(
            {
                "budget": budget,
                "agent": agent,
                "markets": len(markets),
                "runs": score.size,
                "sharpe": interquartile_mean(score),
                "better_than_flat": float(np.mean(score > 0.0)),
                "first_better": (
                    None if first is None or score is first else probability_of_improvement(first, score)
                ),
            }
        )
    return found


def cell(name: str, value: Any) -> str:
    """A value as the tables show it."""
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return "-"
    if isinstance(value, Interval):
        ends = "" if np.isnan(value.low) else f" ({value.low:.2f} to {value.high:.2f})"
        return f"{value.value:.2f}{ends}"
    if isinstance(value, list):
        return ", ".join(cell(name, item) for item in value)
    if name in _SHARES:
        return f"{value:+.1%}" if "return" in name else f"{value:.1%}"
    if name in ("seed_sharpes", "flat_folds"):
        return f"{value:.2f}" if name == "seed_sharpes" else f"{value:.1f}"
    return value if isinstance(value, str) else f"{value:,.0f}"


def terminal(rows: Sequence[Row], columns: Sequence[tuple[str, str]], title: str) -> Table:
    """A table for the terminal."""
    table = Table(title=title)
    for name, heading in columns:
        text = name in ("market", "budget", "agent")
        table.add_column(heading, justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell(name, row[name])) for name, _ in columns))
    return table


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def markdown(rows: Sequence[Row], columns: Sequence[tuple[str, str]]) -> str:
    """A table in Markdown."""
    lines = [
        "| " + " | ".join(heading for _, heading in columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(_escaped(cell(name, row[name])) for name, _ in columns) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"
