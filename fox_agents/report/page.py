"""The comparison of evaluation results as one HTML file that opens without a network."""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fox_agents.evidence import CostPoint, Evidence, FoldRow, Interval
from fox_agents.report import charts, tables
from fox_agents.report.figures import FIGURES, percent, shown
from fox_agents.report.health import FIRST, read_health
from fox_agents.report.period import caption, dates
from fox_agents.report.verdict import judge
from fox_env.errors import ConfigError

if TYPE_CHECKING:
    from fox_agents.evaluation import EvaluationResult

__all__ = ["write_report"]

_FOLD_HEADINGS = (
    "fold",
    "train",
    "validation",
    "test",
    "played",
    "return",
    "Sharpe (95% interval)",
    "costs",
    "trades",
)


def write_report(
    path: str | Path,
    results: Sequence["EvaluationResult"],
    remarks: Sequence[str] = (),
    *,
    evidence: Mapping[str, Evidence] | None = None,
    folds: Sequence[FoldRow] = (),
    health: str | Path | None = None,
) -> Path:
    """Write the page. Returns its path.

    Parameters
    ----------
    path : str or Path
        The file; its folder is made.
    results : sequence of EvaluationResult
        The agent in question, then its baselines on the same market and steps.
    remarks : sequence of str
        Sentences for the head of the page, such as how the result was selected.
    evidence : mapping of str to Evidence, optional
        How sure we are, by name of agent.
    folds : sequence of FoldRow
        The folds whose test windows, joined, are the first result.
    health : str or Path, optional
        ``health.jsonl`` of the training run.

    Raises
    ------
    ConfigError
        There is no result.
    DataError
        ``health`` cannot be read.
    """
    if not results:
        raise ConfigError("a report needs at least one evaluation result; give the agent in question first")
    path, known = Path(path), dict(evidence or {})
    first, own = results[0], known.get(results[0].agent)
    sharpe = None if own is None else own.intervals.get("sharpe")
    drawn = _drawn(results, own)
    curves = [] if health is None else read_health(Path(health))
    drawn |= {f"health-{i}": charts.curve(curve.steps, curve.values) for i, curve in enumerate(curves)}
    page = _render(
        {
            "title": f"{first.agent} on {first.market.contract.symbol}",
            "period": f"{first.market.contract.symbol} {dates(first)}",
            "caption": caption(first),
            "verdict": judge(first, own, results[1:]),
            "scale": _scale(sharpe) if sharpe is not None and all(map(math.isfinite, sharpe)) else None,
            "remarks": remarks,
            "agents": [result.agent for result in results],
            "key_figures": tables.key_figures(results, known),
            "costs": [_cost_cells(point) for point in sorted(own.costs)] if own is not None else [],
            "break_even": own.break_even if own is not None else None,
            "fold_headings": _FOLD_HEADINGS,
            "folds": [tables.fold_cells(row) for row in folds],
            "monthly": tables.monthly(first),
            "choices": tables.choices(first),
            "fates": [(name, count) for name, count in first.executed["order_status"].items() if count],
            "trades": tables.trade_rows(first),
            "number_of_trades": len(first.trades),
            "csv": tables.trade_csv(first.trades),
            "hidden": len(first.trades) > charts.CROWDED,
            "thinned": max(len(first.fills), len(first.trades)) > charts.MARKS,
            "most_marks": charts.MARKS,
            "curves": [(f"health-{i}", curve.name, curve.name in FIRST) for i, curve in enumerate(curves)],
            "rules": tables.rules(first),
            "notes": [(r.agent, name, why) for r in results for name, why in r.metrics["notes"].items()],
            "definitions": FIGURES.values(),
            "charts": drawn,
            "percent": percent,
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _drawn(results: Sequence["EvaluationResult"], own: Evidence | None) -> dict[str, Any]:
    """The charts by the id of their place in the page."""
    first = results[0]
    drawn: dict[str, Any] = {"equity": charts.equity(results), "price": charts.price(first)}
    if own is not None and own.costs:
        drawn["sensitivity"] = charts.sensitivity(own)
    if (histogram := charts.r_multiples(first.trades)) is not None:
        drawn["r-multiples"] = histogram
    return drawn


def _cost_cells(point: CostPoint) -> list[str]:
    return [
        f"× {point.multiple:g}",
        percent(point.total_return),
        shown(point.sharpe, "{:.2f}"),
        f"{point.costs:,.0f}",
    ]


def _scale(interval: Interval) -> dict[str, float]:
    """Where the interval, its value and zero lie on a bar, in percent of its width."""
    low, high = min(*interval, 0.0), max(*interval, 0.0)
    pad = 0.08 * ((high - low) or 1.0)
    places = interval._asdict() | {"zero": 0.0}
    return {
        name: round(100 * (place - low + pad) / (high - low + 2 * pad), 2) for name, place in places.items()
    }


def _render(values: dict[str, Any]) -> str:
    """Fill the template, which escapes every value; the page runs its own two scripts and nothing else."""
    import jinja2
    from plotly.offline import get_plotlyjs

    folder = files(__package__)
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    scripts = [get_plotlyjs(), (folder / "page.js").read_text(encoding="utf-8")]
    return environment.get_template("page.html").render(
        **values,
        style=(folder / "page.css").read_text(encoding="utf-8"),
        scripts=scripts,
        hashes=[_hash(script) for script in scripts],
    )


def _hash(script: str) -> str:
    """Source of a script as a Content-Security-Policy names it."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
