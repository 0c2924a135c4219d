"""Plotly figures as plain dictionaries; colours of paper and text are left to the page."""

import html
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from fox_agents.evidence import Evidence
from fox_agents.report.thinning import kept
from fox_env import metrics

if TYPE_CHECKING:
    from fox_agents.evaluation import EvaluationResult

__all__ = ["CROWDED", "MARKS", "curve", "equity", "price", "r_multiples", "sensitivity"]

Chart = dict[str, Any]

MARKS = 2_000
"""Most buys, sells, winning and losing exits that are drawn as marks."""
CROWDED = 300
"""Beyond so many trades the marks of their exits are hidden at first, or the price would not be seen."""
_COLOURS = (
    "#2f81f7",
    "#d98c00",
    "#8957e5",
    "#14989a",
    "#bf3989",
    "#6f8f00",
    "#c4603b",
    "#5b7fa8",
    "#a0742f",
    "#7a828e",
)
_UP, _DOWN = "#2da44e", "#e5534b"
_BINS = 40
_HIGHEST_R = 10.0
"""R-multiples beyond it, on either side, are counted in the last bar."""


def equity(results: Sequence["EvaluationResult"]) -> Chart:
    """Account value over drawdown of every result; one click on the legend toggles both curves of an agent."""
    data: list[Chart] = []
    for i, result in enumerate(results):
        colour = _COLOURS[i % len(_COLOURS)]
        style = {
            "mode": "lines",
            "name": html.escape(result.agent),
            "legendgroup": str(i),
            "line": {"color": colour, "width": 2 if i == 0 else 1.2},
        }
        times = _milliseconds(result.times)
        fallen = metrics.drawdowns(result.returns)
        data += [
            style | _line(times, result.equity, 2) | {"hovertemplate": "%{y:,.0f}"},
            style
            | _line(times, fallen, 6)
            | {"yaxis": "y2", "showlegend": False, "hovertemplate": "%{y:.2%}"},
        ]
    currency = html.escape(results[0].market.contract.currency)
    chart = _stacked(data, f"account ({currency})", "drawdown", 0.36)
    chart["layout"] |= {"hovermode": "x unified"}
    deepest = min(result.metrics["max_drawdown"] for result in results)
    chart["layout"]["yaxis2"]["tickformat"] = ".0%" if deepest < -0.05 else ".2%"
    return chart


def price(result: "EvaluationResult") -> Chart:
    """Closes with the fills and exits of one result, over its position."""
    times = _milliseconds(result.times)
    held = np.concatenate([[0.0], result.positions])
    symbol = html.escape(result.market.contract.symbol)
    data = [
        {
            "mode": "lines",
            "name": f"{symbol} close",
            "line": {"color": "#7a828e", "width": 1},
            "hovertemplate": "%{y}",
        }
        | _line(times, result.closes, 9),
        *_fills(result.fills),
        *_exits(result.trades),
        {
            "mode": "lines",
            "name": "position",
            "yaxis": "y2",
            "showlegend": False,
            "line": {"color": _COLOURS[0], "width": 1, "shape": "hv"},
            "fill": "tozeroy",
            "hovertemplate": "%{y} contracts",
        }
        | _line(times, held, 6),
    ]
    return _stacked(data, f"{symbol} price", "contracts", 0.26)


def _fills(fills: pl.DataFrame) -> list[Chart]:
    marks = []
    for name, symbol, colour, wanted in (
        ("buy", "triangle-up", _UP, pl.col("quantity") > 0),
        ("sell", "triangle-down", _DOWN, pl.col("quantity") < 0),
    ):
        chosen = _fewer(fills.filter(wanted))
        marks.append(
            _marks(name, symbol, colour, chosen["time"], chosen["price"])
            | {
                "customdata": chosen["quantity"].abs().to_list(),
                "hovertemplate": f"{name} %{{customdata}} at %{{y}}<br>%{{x}}<extra></extra>",
            }
        )
    return marks


def _exits(trades: pl.DataFrame) -> list[Chart]:
    """Closed trades where they ended, in the colour of what they made."""
    marks = []
    for name, colour, wanted in (
        ("winning exit", _UP, pl.col("pnl") > 0),
        ("losing exit", _DOWN, pl.col("pnl") <= 0),
    ):
        chosen = _fewer(trades.filter(wanted))
        said = chosen.select(
            pl.when(pl.col("side") > 0).then(pl.lit("long")).otherwise(pl.lit("short")).alias("side"),
            pl.col("size").round(6),
            pl.col("pnl").round(2),
            pl.col("reason"),
        )
        text = [
            f"{side} {size:g}, {pnl:+,.2f}, {html.escape(reason)}" for side, size, pnl, reason in said.rows()
        ]
        marks.append(
            _marks(name, "x-thin", colour, chosen["exit_time"], chosen["exit_price"])
            | {
                "text": text,
                "visible": True if len(trades) <= CROWDED else "legendonly",
                "hovertemplate": "%{text}<br>%{x}<extra></extra>",
            }
        )
        marks[-1]["marker"]["line"] = {"color": colour, "width": 1.5}
    return marks


def sensitivity(evidence: Evidence) -> Chart:
    """Return over the multiple of the costs."""
    points = sorted(evidence.costs)
    chart: Chart = {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "return",
                "x": [point.multiple for point in points],
                "y": [_number(point.total_return, 6) for point in points],
                "line": {"color": _COLOURS[0]},
                "hovertemplate": "costs × %{x}: %{y:+.2%}<extra></extra>",
            }
        ],
        "layout": {
            "xaxis": {"title": {"text": "multiple of the costs"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "return"}, "tickformat": ".1%", "zeroline": True},
            "showlegend": False,
        },
    }
    even = evidence.break_even
    if even is not None and even <= 1.25 * points[-1].multiple:
        line = {"dash": "dot", "width": 1.5, "color": _COLOURS[1]}
        ends = {"x0": even, "x1": even, "y0": 0, "y1": 1, "yref": "paper"}
        chart["layout"]["shapes"] = [{"type": "line", "line": line, **ends}]
        label = {"x": even, "y": 1, "yref": "paper", "xanchor": "left", "yanchor": "top", "showarrow": False}
        chart["layout"]["annotations"] = [{"text": f"break-even × {even:.2f}", **label}]
    return chart


def r_multiples(trades: pl.DataFrame) -> Chart | None:
    """How many trades made how many R; None where no trade has an R-multiple."""
    r = trades["r"].to_numpy().astype(np.float64)
    r = r[np.isfinite(r)]
    if not r.size:
        return None
    shown = np.clip(r, -_HIGHEST_R, _HIGHEST_R)
    low, high = float(np.floor(shown.min())), float(np.ceil(shown.max() + 1e-9))
    width = _bin_width(high - low)
    edges = np.arange(round(low / width), round(high / width) + 1) * width
    counts, _ = np.histogram(shown, edges)
    middles = (edges[1:] + edges[:-1]) / 2
    return {
        "data": [
            {
                "type": "bar",
                "name": "trades",
                "x": np.round(middles, 6).tolist(),
                "y": counts.tolist(),
                "width": width,
                "marker": {"color": [_UP if x > 0 else _DOWN for x in middles]},
                "customdata": [f"{a:.2f} to {b:.2f} R" for a, b in itertools.pairwise(edges)],
                "hovertemplate": "%{customdata}: %{y} trades<extra></extra>",
            }
        ],
        "layout": {
            "xaxis": {"title": {"text": "R-multiple"}, "zeroline": True},
            "yaxis": {"title": {"text": "trades"}},
            "showlegend": False,
            "bargap": 0.05,
        },
    }


def _bin_width(span: float) -> float:
    """The finest round width, of which a whole number fits into 1 R, with at most `_BINS` bins."""
    return next((width for width in (0.05, 0.1, 0.25, 0.5) if span / width <= _BINS), 1.0)


def curve(steps: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> Chart:
    """One small curve over environment steps."""
    data = {
        "mode": "lines+markers" if len(steps) <= 30 else "lines",
        "line": {"color": _COLOURS[0], "width": 1.5},
    }
    return {
        "data": [
            data | _line(steps, values, 8, points=1_000) | {"hovertemplate": "%{y:.5g}<extra>%{x:,}</extra>"}
        ],
        "layout": {"showlegend": False, "xaxis": {"nticks": 5}, "yaxis": {"nticks": 5}},
    }


def _stacked(data: list[Chart], above: str, below: str, share: float) -> Chart:
    """Two panels over one axis of time; ``share`` of the height is the lower one's."""
    for trace in data:
        trace.setdefault("xaxis", "x")
    return {
        "data": data,
        "layout": {
            "xaxis": {"type": "date", "anchor": "y2"},
            "yaxis": {"title": {"text": above}, "domain": [share + 0.04, 1]},
            "yaxis2": {"title": {"text": below}, "domain": [0, share], "zeroline": True},
        },
    }


def _line(
    x: npt.NDArray[Any], values: npt.NDArray[np.float64], decimals: int, points: int | None = None
) -> Chart:
    chosen = kept(values) if points is None else kept(values, points)
    return {"type": "scatter", "x": x[chosen].tolist(), "y": _numbers(values[chosen], decimals)}


def _marks(name: str, symbol: str, colour: str, times: pl.Series, values: pl.Series) -> Chart:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "marker": {"symbol": symbol, "color": colour, "size": 8 if len(times) <= CROWDED else 5},
        "x": _milliseconds(times.to_numpy()).tolist(),
        "y": _numbers(values.to_numpy(), 9),
    }


def _fewer(rows: pl.DataFrame) -> pl.DataFrame:
    """Every so many-th row, that at most `MARKS` are left."""
    return rows.gather_every(-(-len(rows) // MARKS)) if len(rows) > MARKS else rows


def _milliseconds(times: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Times as Plotly takes them without a time zone: UTC, milliseconds since 1970."""
    return times.astype("datetime64[ms]").astype(np.int64)


def _number(value: float, decimals: int) -> float | None:
    return round(float(value), decimals) if np.isfinite(value) else None


def _numbers(values: npt.NDArray[np.float64], decimals: int) -> list[float | None]:
    return [_number(value, decimals) for value in values]
