"""Draw what each synthetic market looks like: one PNG a market for ``docs/synthetic-markets.md``.

Run ``python docs/figures/stylised_facts.py``; it needs the ``render`` extra.
"""

import argparse
import io
from pathlib import Path
from statistics import NormalDist
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from fox_env import Market, synthetic

F64 = NDArray[np.float64]

MINUTES = 390
LAGS = 60
SHOWN_SESSIONS = 3
INK, ACCENT, SOFT = "#1f2328", "#d1242f", "#1f6feb"
PHASES = (("trending", "#9ac5f4"), ("ranging", "#f4e19a"), ("volatile", "#f4a59a"))
COLOURS = 64


def main() -> None:
    """Draw every market into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder of the pictures")
    parser.add_argument("--sessions", type=int, default=400, help="sessions behind the statistics")
    options = parser.parse_args()
    for name, maker in synthetic.MARKETS.items():
        path = options.out / f"{name}.png"
        save(draw(name, maker(seed=0, sessions=options.sessions)), path)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def draw(name: str, market: Market) -> Figure:
    """The four panels of one market."""
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    figure.suptitle(f"{name}: {len(market):,} bars, seed 0", fontsize=11)
    axes = figure.subplots(2, 2)
    rows = {
        column: getattr(market.columns, column).reshape(-1, MINUTES) for column in ("open", "close", "volume")
    }
    change = np.diff(rows["close"], axis=1)
    price_panel(axes[0, 0], market)
    tail_panel(axes[0, 1], change)
    memory_panel(axes[1, 0], change)
    if name == "signal":
        prediction_panel(axes[1, 1], market, market.bars.extra["signal"], "signal s")
    elif name in ("momentum", "reversal"):
        score = past_score(rows["close"] - rows["open"], int(synthetic.parse(market.generator)[1]["span"]))
        prediction_panel(axes[1, 1], market, score.ravel(), "average of past changes, scaled")
    else:
        season_panel(axes[1, 1], change, rows["volume"])
    for panel in axes.flat:
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def price_panel(axes: Any, market: Market) -> None:
    """The close of a few sessions; phases of the regimes in the background."""
    count = SHOWN_SESSIONS * MINUTES
    axes.plot(market.bars.close[:count], color=INK, linewidth=0.7)
    phase = market.bars.extra.get("phase", np.full(count, -1.0))
    for number, (name, colour) in enumerate(PHASES if "phase" in market.bars.extra else ()):
        axes.fill_between(
            np.arange(count), 0, 1, where=phase[:count] == number, step="mid", color=colour, alpha=0.6,
            linewidth=0, transform=axes.get_xaxis_transform(), label=name,
        )  # fmt: skip
        axes.legend(fontsize=7, loc="best", ncols=3)
    for session in range(1, SHOWN_SESSIONS):
        axes.axvline(session * MINUTES, color="0.7", linewidth=0.6, linestyle=":")
    axes.set_title("close of three sessions", fontsize=9)


def tail_panel(axes: Any, change: F64) -> None:
    """Density of the changes in their own deviations, against the normal law of the same variance."""
    x = change.ravel() / change.std()
    tick = 1.0 / change.std()
    edges = (np.arange(-np.ceil(8.0 / tick), np.ceil(8.0 / tick) + 1) - 0.5) * tick
    density, _ = np.histogram(x, edges)
    axes.semilogy(
        edges[:-1] + 0.5 * tick, density / (len(x) * tick), ".", color=SOFT, markersize=3, label="bars"
    )
    grid = np.linspace(-5.0, 5.0, 201)
    axes.semilogy(grid, [NormalDist().pdf(value) for value in grid], color=INK, linewidth=0.9, label="normal")
    axes.set_title(f"changes of a bar, in deviations: kurtosis {(x**4).mean():.1f}", fontsize=9)
    axes.set_ylim(1e-6, 1.0)
    axes.legend(fontsize=7)


def memory_panel(axes: Any, change: F64) -> None:
    """Autocorrelation within sessions of the changes, and of their sizes without the season."""
    size = np.abs(change) / np.abs(change).mean(axis=0)
    for values, label, colour in ((size - size.mean(), "size", ACCENT), (change, "change", SOFT)):
        variance = (values * values).mean()
        level = [(values[:, lag:] * values[:, :-lag]).mean() / variance for lag in range(1, LAGS + 1)]
        axes.plot(range(1, LAGS + 1), level, color=colour, linewidth=1.0, label=label)
    band = 1.96 / np.sqrt(change.size)
    axes.axhspan(-band, band, color="0.85", label="95 % of no memory")
    axes.axhline(0.0, color=INK, linewidth=0.6)
    axes.set_title("autocorrelation by lag in bars", fontsize=9)
    axes.legend(fontsize=7)


def season_panel(axes: Any, change: F64, volume: F64) -> None:
    """Mean size of the changes and mean volume by the minute of the session, over their means."""
    smooth = np.ones(15) / 15.0
    for values, label, colour in ((np.abs(change), "size", ACCENT), (volume, "volume", SOFT)):
        mean = values.mean(axis=0) / values.mean()
        axes.plot(
            np.convolve(mean, smooth, "valid"), color=colour, linewidth=1.0, label=f"{label} / its mean"
        )
    axes.set_ylim(0.0, None)
    axes.set_title("by minute of the session", fontsize=9)
    axes.legend(fontsize=7)


def prediction_panel(axes: Any, market: Market, known: F64, label: str) -> None:
    """Mean next change by what is known before it, and the drift that the market was made with."""
    following, drift = np.diff(market.columns.close), market.bars.extra["drift"][1:]
    inside = ~market.bars.gap[1:]
    x, y, true = known[:-1][inside], following[inside], drift[inside]
    order = np.argsort(x)
    groups = [np.stack([part.mean() for part in (x[g], y[g], true[g])]) for g in np.array_split(order, 25)]
    centre, mean, expected = np.array(groups).T
    error = 1.96 * y.std() / np.sqrt(len(y) / len(groups))
    axes.errorbar(
        centre, mean, error, fmt=".", color=SOFT, markersize=4, linewidth=0.8, label="mean and 95 %"
    )
    axes.plot(centre, expected, color=ACCENT, linewidth=1.0, label="planted")
    axes.set_title(f"next change in ticks, by the {label}", fontsize=9)
    axes.legend(fontsize=7)


def past_score(change: F64, span: int) -> F64:
    """Exponential average of the changes up to and with each bar of a session, in its deviations."""
    weight = 2.0 / (span + 1.0)
    average, out = np.zeros(len(change)), np.empty_like(change)
    for minute in range(change.shape[1]):
        average = average + weight * (change[:, minute] - average)
        out[:, minute] = average
    return np.asarray(out / (change.std() * np.sqrt(weight / (2.0 - weight))))


def save(figure: Figure, path: Path) -> None:
    """Write a small PNG: few colours, no date."""
    raw = io.BytesIO()
    figure.savefig(raw, dpi=90, metadata={"Software": None})
    Image.open(raw).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
