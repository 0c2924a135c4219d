"""A comparison of evaluation results as a terminal table and as one self-contained HTML page."""

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

if TYPE_CHECKING:
    from fox_agents.evaluation import EvaluationResult

__all__ = ["comparison_table", "write_report"]

# metric, heading, format
_COLUMNS = (
    ("total_return", "return", "{:+.2%}"),
    ("sharpe", "Sharpe", "{:.2f}"),
    ("sortino", "Sortino", "{:.2f}"),
    ("max_drawdown", "max drawdown", "{:.2%}"),
    ("n_trades", "trades", "{:.0f}"),
    ("win_rate", "win rate", "{:.1%}"),
    ("profit_factor", "profit factor", "{:.2f}"),
    ("exposure", "exposure", "{:.1%}"),
    ("costs", "costs", "{:,.0f}"),
)
_COLOURS = ("#1f6feb", "#d1242f", "#8250df", "#1a7f37", "#9a6700")
_WIDTH, _HEIGHT, _POINTS = 900, 320, 900


def comparison_table(results: Sequence["EvaluationResult"], title: str) -> Table:
    """Agents by metrics; the caption says how the ratios are annualised."""
    table = Table(title=title, caption=_caption(results))
    table.add_column("agent")
    for _, heading, _ in _COLUMNS:
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(result.agent, *_cells(result))
    return table


def write_report(path: Path, results: Sequence["EvaluationResult"]) -> Path:
    """Write the page: equity curves, metrics and the choices of the first result. Returns ``path``."""
    first = results[0]
    choices = "".join(
        f"<tr><th>{html.escape(branch)}</th><td>"
        + ", ".join(f"{html.escape(action)} {count:,}" for action, count in counts.items())
        + "</td></tr>"
        for branch, counts in first.actions.items()
    )
    head = "".join(f"<th>{html.escape(heading)}</th>" for _, heading, _ in _COLUMNS)
    rows = "".join(
        f"<tr><th>{html.escape(r.agent)}</th>{''.join(f'<td>{html.escape(c)}</td>' for c in _cells(r))}</tr>"
        for r in results
    )
    notes = "".join(f"<li>{html.escape(str(note))}</li>" for note in _notes(first.metrics))
    title = html.escape(f"{first.agent} on {first.market.contract.symbol}")
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 sans-serif; max-width: 960px; margin: 2rem auto; padding: 0 1rem; color: #1f2328 }}
table {{ border-collapse: collapse; margin: 1rem 0 }}
th, td {{ padding: .25rem .6rem; border-bottom: 1px solid #d1d9e0 }}
td {{ text-align: right; font-variant-numeric: tabular-nums }} th {{ text-align: left }}
</style></head><body>
<h1>{title}</h1>
<p>{html.escape(_caption(results))}</p>
{_equity_figure(results)}
<h2>Metrics</h2><table><tr><th>agent</th>{head}</tr>{rows}</table>
<h2>Choices of {html.escape(first.agent)}</h2><table>{choices}</table>
<ul>{notes}</ul>
</body></html>
"""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _caption(results: Sequence["EvaluationResult"]) -> str:
    metrics = results[0].metrics
    return (
        f"{metrics['bars']:,} bars, ratios annualised with {metrics['bars_per_year']:,.0f} bars per year; "
        "an open position at the end is valued at the last close"
    )


def _cells(result: "EvaluationResult") -> list[str]:
    cells = []
    for name, _, style in _COLUMNS:
        value = result.metrics.get(name)
        cells.append("-" if value is None or not math.isfinite(value) else style.format(value))
    return cells


def _notes(metrics: dict[str, Any]) -> list[Any]:
    notes = metrics.get("notes") or []
    return [f"{k}: {v}" for k, v in notes.items()] if isinstance(notes, dict) else list(notes)


def _equity_figure(results: Sequence["EvaluationResult"]) -> str:
    """Equity curves as inline SVG, thinned to about one point per pixel."""
    low = min(float(r.equity.min()) for r in results)
    high = max(float(r.equity.max()) for r in results)
    span = (high - low) or 1.0

    def points(equity: npt.NDArray[np.float64]) -> str:
        index = np.unique(np.linspace(0, len(equity) - 1, _POINTS).astype(np.int64))
        x = index / max(len(equity) - 1, 1) * _WIDTH
        y = (high - equity[index]) / span * _HEIGHT
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    lines, legend = [], []
    for i, result in enumerate(results):
        colour = _COLOURS[i % len(_COLOURS)]
        lines.append(
            f'<polyline points="{points(result.equity)}" fill="none" stroke="{colour}" stroke-width="1.5">'
            f"<title>{html.escape(result.agent)}</title></polyline>"
        )
        legend.append(f'<span style="color:{colour}">&#9632; {html.escape(result.agent)}</span>')
    return (
        f"<h2>Equity</h2><p>{' &nbsp; '.join(legend)}</p>"
        f'<svg viewBox="-5 -20 {_WIDTH + 10} {_HEIGHT + 45}" width="100%" role="img">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#d1d9e0"/>'
        f'<text y="-6" font-size="12">{high:,.0f}</text>'
        f'<text y="{_HEIGHT + 16}" font-size="12">{low:,.0f}</text>'
        f"{''.join(lines)}</svg>"
    )
