"""The report's tables as plain rows of text and numbers; the page's template escapes and lays them out."""

import calendar
import dataclasses
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fox_agents.evidence import Evidence, FoldRow, Interval
from fox_agents.report.figures import GROUPS, Figure, cell, percent, shown

if TYPE_CHECKING:
    from fox_agents.evaluation import EvaluationResult

__all__ = [
    "MOST_TRADES",
    "choices",
    "fold_cells",
    "key_figures",
    "monthly",
    "rules",
    "trade_csv",
    "trade_rows",
]

MOST_TRADES = 5_000
"""Most trades in the list of the page."""
_MOST_CSV = 2 * 2**20
_BRANCHES = ("direction", "magnitude", "order", "urgency")
_TRADE_COLUMNS = (
    ("entry_time", "entry"), ("exit_time", "exit"), ("side", "side"), ("size", "size"), ("entry_price", "in at"),
    ("exit_price", "out at"), ("pnl", "P&L"), ("r", "R"), ("mae", "MAE"), ("mfe", "MFE"), ("costs", "costs"),
    ("bars", "bars"), ("reason", "reason"),
)  # fmt: skip


def key_figures(
    results: Sequence["EvaluationResult"], evidence: Mapping[str, Evidence]
) -> list[dict[str, Any]]:
    """By group one row a figure that any result knows: the figure, and for each result its value and interval."""
    groups = []
    for heading, figures in GROUPS:
        rows = [
            {
                "figure": figure,
                "cells": [_shown(figure, result, evidence.get(result.agent)) for result in results],
            }
            for figure in figures
        ]
        rows = [row for row in rows if any(value != "-" for value, _ in row["cells"])]
        if rows:
            groups.append({"heading": heading, "rows": rows})
    return groups


def _shown(figure: Figure, result: "EvaluationResult", evidence: Evidence | None) -> tuple[str, str]:
    """A figure of the result, or else of its evidence, and its interval."""
    interval = None if evidence is None else evidence.intervals.get(figure.name)
    known = vars(evidence) if evidence is not None else {}
    if interval is not None:
        known = {figure.name: interval.value} | known
    return cell(figure, known | result.metrics), "" if interval is None else between(interval, figure.style)


def between(interval: Interval, style: str = "{:.2f}") -> str:
    """The bounds in words."""
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return "unknown"
    return f"{shown(interval.low, style)} to {shown(interval.high, style)}"


def monthly(result: "EvaluationResult") -> dict[str, Any]:
    """Compounded return of every calendar month, UTC, by year; None where there are no bars."""
    months = result.times[1:].astype("datetime64[M]").astype(np.int64)
    starts = np.flatnonzero(np.diff(months, prepend=months[0] - 1))
    growth = dict(
        zip(months[starts].tolist(), np.multiply.reduceat(1.0 + result.returns, starts).tolist(), strict=True)
    )
    first, last = 1970 + months[0] // 12, 1970 + months[-1] // 12
    rows = []
    for year in range(first, last + 1):
        made = [growth.get((year - 1970) * 12 + month) for month in range(12)]
        total = math.prod(g for g in made if g is not None) - 1.0
        rows.append({"year": year, "cells": [None if g is None else g - 1.0 for g in made], "total": total})
    largest = max(abs(g - 1.0) for g in growth.values())
    return {"months": list(calendar.month_abbr)[1:], "rows": rows, "largest": largest or 1.0}


def choices(result: "EvaluationResult") -> list[dict[str, Any]]:
    """For each branch of the action the share of each option among the choices and among the filled orders."""
    tables = []
    for branch in _BRANCHES:
        chosen, executed = result.actions[branch], result.executed[branch]
        rows = [
            (option, count, _share(count, chosen), executed[option], _share(executed[option], executed))
            for option, count in chosen.items()
        ]
        tables.append({"name": branch, "rows": rows})
    return tables


def _share(count: int, counts: Mapping[str, int]) -> float:
    return count / max(sum(counts.values()), 1)


def trade_rows(result: "EvaluationResult") -> dict[str, Any]:
    """Headings, decimals and rows of the trade list in order of time.

    Of more than `MOST_TRADES` trades those with the largest gains and losses.
    """
    trades = result.trades
    if len(trades) > MOST_TRADES:
        chosen = trades.with_row_index("number").sort(pl.col("pnl").abs(), descending=True).head(MOST_TRADES)
        trades = chosen.sort("number")
    digits = {
        "entry_price": _decimals(result.market.contract.tick_size),
        "size": _decimals(result.config.lot),
    }
    digits["exit_price"] = digits["entry_price"]
    digits |= dict.fromkeys(("pnl", "r", "mae", "mfe", "costs"), 2)
    names = [name for name, _ in _TRADE_COLUMNS]
    rounded = trades.select(names).with_columns(
        pl.col("entry_time", "exit_time").dt.strftime("%Y-%m-%d %H:%M"),
        pl.when(pl.col("side") > 0).then(pl.lit("long")).otherwise(pl.lit("short")).alias("side"),
        *(pl.col(name).cast(pl.Float64).round(places) for name, places in digits.items()),
    )
    rows = [
        [None if isinstance(value, float) and not math.isfinite(value) else value for value in row]
        for row in rounded.rows()
    ]
    headings = [heading for _, heading in _TRADE_COLUMNS]
    return {"headings": headings, "digits": [digits.get(name, 0) for name in names], "rows": rows}


def _decimals(step: float) -> int:
    """Decimals that whole multiples of a tick or a lot have."""
    text = f"{step:.8f}".rstrip("0")
    return len(text.partition(".")[2])


def trade_csv(trades: pl.DataFrame) -> str | None:
    """The whole list as CSV; None beyond 2 MiB."""
    buffer = io.StringIO()
    trades.write_csv(buffer, float_precision=6)
    text = buffer.getvalue()
    return text if len(text) <= _MOST_CSV else None


def rules(result: "EvaluationResult") -> list[tuple[str, list[tuple[str, str]]]]:
    """What was traded and under which rules, as named lists of options."""
    market, spec = result.market, result.market.contract
    data = [
        ("bars", f"{result.metrics['bars']:,}"),
        ("bars a year", f"{result.metrics['bars_per_year']:,.0f}"),
        ("volume known", "yes" if market.has_volume else "no"),
        ("generator", market.generator or "none: bars from outside"),
    ]
    contract = [(field.name, str(getattr(spec, field.name))) for field in dataclasses.fields(spec)]
    config = [
        (field.name, str(getattr(result.config, field.name))) for field in dataclasses.fields(result.config)
    ]
    return [("Data", data), ("Contract", contract), ("Rules of the account (EnvConfig)", config)]


def fold_cells(row: FoldRow) -> list[str]:
    """Text of one fold's row."""
    return [
        str(row.fold), row.train, row.validation, row.test, row.selected, percent(row.total_return),
        f"{shown(row.sharpe.value, '{:.2f}')} ({between(row.sharpe)})", f"{row.costs:,.0f}", f"{row.trades:,}",
    ]  # fmt: skip
