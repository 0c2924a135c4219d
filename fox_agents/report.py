"""A comparison of evaluation results as a terminal table and as one self-contained HTML page."""

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

if TYPE_CHECKING:
    from fox_agents.evaluation import EvaluationResult

__all__ = ["comparison_table", "orders_table", "write_report"]

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
    ("fees", "fees", "{:,.0f}"),
    ("spread_cost", "spread", "{:,.0f}"),
    ("impact_cost", "impact", "{:,.0f}"),
)
_FILLED = ("short", "long", "flat")  # the directions that order something
_FATES = {"none": "no order", "participation": "partial (volume)", "margin": "cut by margin"}
_COLOURS = ("#1f6feb", "#d1242f", "#8250df", "#1a7f37", "#9a6700")
_WIDTH, _HEIGHT, _POINTS = 900, 320, 900


def comparison_table(results: Sequence["EvaluationResult"], title: str) -> Table:
    """Agents by metrics; the caption says how the ratios are annualised."""
    table = Table(title=title, caption=_caption(results))
    table.add_column("agent", overflow="fold")
    for _, heading, _ in _COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        table.add_row(result.agent, *_cells(result))
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


def write_report(path: Path, results: Sequence["EvaluationResult"], remarks: Sequence[str] = ()) -> Path:
    """Write the page: equity curves, metrics, and the choices and fills of the first result. Returns ``path``.

    ``remarks`` are sentences for the head of the page, such as how the result was selected.
    """
    first = results[0]
    choices, executed = _histogram_rows(first.actions), _histogram_rows(first.executed)
    said = "".join(f"<p>{html.escape(remark)}</p>" for remark in remarks)
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
{said}
{_equity_figure(results)}
<h2>Metrics</h2><table><tr><th>agent</th>{head}</tr>{rows}</table>
<h2>Choices of {html.escape(first.agent)}</h2><table>{choices}</table>
<h2>Executed</h2><p>Steps by the fate of their order and by their fill; below, the choices behind the fills.</p>
<table>{executed}</table>
<ul>{notes}</ul>
</body></html>
"""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _histogram_rows(histograms: Mapping[str, Mapping[str, int]]) -> str:
    return "".join(
        f"<tr><th>{html.escape(name.replace('_', ' '))}</th><td>"
        + ", ".join(f"{html.escape(option)} {count:,}" for option, count in counts.items())
        + "</td></tr>"
        for name, counts in histograms.items()
    )


def _caption(results: Sequence["EvaluationResult"]) -> str:
    metrics, market = results[0].metrics, results[0].market
    first, last = (
        np.datetime_as_string(market.bars.ts[i].astype("datetime64[ns]"), unit="m").replace("T", " ")
        for i in (market.first_ready, -1)
    )
    settled = "sold" if results[0].config.sells_at_end else "valued"
    volume = "" if market.has_volume else "; no volume in the data: participation limits and impact are off"
    return (
        f"{market.contract.symbol} from {first} to {last} UTC, {metrics['bars']:,} bars; ratios annualised with "
        f"{metrics['bars_per_year']:,.0f} bars per year; "
        f"an open position at the end is {settled} at the last close{volume}"
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
