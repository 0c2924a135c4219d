"""The picture of one account: price bars with fills, levels and forced exits over the position and the equity.

It uses matplotlib's figures without pyplot, so it changes no backend, leaves no figure behind and works in any thread.
The lines are made once and only their data change from frame to frame; what never changes is drawn once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.errors import BackendError
from fox_env.market import Market

__all__ = ["AccountChart", "History"]

_SIZE, _DPI = (8.0, 6.0), 100  # 800 x 600
_TICKS = 6
_DAY_NS = 86_400 * 10**9
_UP, _DOWN = "#1a9850", "#d73027"
_MARKS: dict[str, dict[str, Any]] = {
    "buy": {"marker": "^", "color": _UP, "markersize": 8},
    "sell": {"marker": "v", "color": _DOWN, "markersize": 8},
    "stopped out": {"marker": "X", "color": "#fdae61", "markersize": 8},
    "target met": {"marker": "*", "color": "#3288bd", "markersize": 11},
    "margin call": {"marker": "s", "color": "#542788", "markersize": 7},
    "other exit": {"marker": "D", "color": "black", "markersize": 6},
}
_LEVELS: dict[str, dict[str, Any]] = {
    "stop": {"color": "#f46d43", "linewidth": 1.44},
    "target": {"color": "#3288bd", "linewidth": 1.44},
    "entry": {"color": "0.45", "linewidth": 1.0, "linestyle": (0, (4, 2))},
}
_EXIT_MARKS = {
    _layout.ExitReason.STOP: "stopped out",
    _layout.ExitReason.TARGET: "target met",
    _layout.ExitReason.MARGIN: "margin call",
}


@dataclass(frozen=True)
class History:
    """The last steps of one account; arrays of equal length, prices in the market's units.

    ``stop`` and ``target`` are the levels in force from that step's close on, NaN for none; ``exits`` holds the
    trade records of this episode that the agent's own order did not close.
    """

    bar: NDArray[np.int64]
    equity: NDArray[np.float64]
    position: NDArray[np.float64]
    entry_price: NDArray[np.float64]
    fill_price: NDArray[np.float64]
    fill_quantity: NDArray[np.float64]
    stop: NDArray[np.float64]
    target: NDArray[np.float64]
    exits: NDArray[Any]


class AccountChart:
    """A figure of three panels that shows one account after another.

    Parameters
    ----------
    mode
        The render mode that needs it, for the message where matplotlib is not installed.

    Raises
    ------
    BackendError
        Without matplotlib.
    """

    def __init__(self, mode: str) -> None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.collections import LineCollection
            from matplotlib.figure import Figure
            from matplotlib.ticker import MaxNLocator
        except ImportError as error:
            raise BackendError(
                f"render_mode={mode!r} needs matplotlib; install it with `pip install 'fox-futures[render]'`"
            ) from error
        self.figure = Figure(figsize=_SIZE, dpi=_DPI)
        self._canvas = FigureCanvasAgg(self.figure)
        self._fixed: Any = None
        panels = self._panels = tuple(self.figure.subplots(3, 1, sharex=True, height_ratios=(4, 1, 1.4)))
        self.figure.subplots_adjust(left=0.12, right=0.965, top=0.88, bottom=0.08, hspace=0.06)
        self._price, self._position, self._equity = panels
        self._names = [
            self.figure.text(
                0.028,
                (axes.get_position().y0 + axes.get_position().y1) / 2,
                "",
                fontsize=9,
                rotation=90,
                ha="center",
                va="center",
                multialignment="center",
            )
            for axes in panels
        ]
        self._title = self.figure.text(0.12, 0.965, "", fontsize=8.5, va="center")
        self._bars = LineCollection([], linewidths=1.1)
        self._price.add_collection(self._bars)
        (self._close,) = self._price.plot([], [], color="0.75", linewidth=0.8, zorder=0)
        self._levels = {
            name: self._price.plot([], [], label=name, **style)[0] for name, style in _LEVELS.items()
        }
        self._marks = {
            name: self._price.plot(
                [],
                [],
                linestyle="",
                markeredgecolor="white",
                markeredgewidth=0.6,
                zorder=4,
                label=name,
                **style,
            )[0]
            for name, style in _MARKS.items()
        }
        handles = [*self._levels.values(), *self._marks.values()]
        self.figure.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(0.112, 0.955),
            ncols=len(handles),
            fontsize=8,
            frameon=False,
            columnspacing=1.0,
            handletextpad=0.4,
            handlelength=1.4,
        )
        self._held = [
            self._position.fill_between([], [], step="mid", color=c, alpha=0.6) for c in (_UP, _DOWN)
        ]
        (self._worth,) = self._equity.plot([], [], color="#5e3c99", linewidth=1.4)
        (self._begun,) = self._equity.plot([], [], color="0.6", linewidth=0.8, linestyle=":")
        for axes in panels:
            axes.grid(alpha=0.25, linewidth=0.6)
            axes.tick_params(labelsize=8)
            axes.margins(x=0)
            axes.yaxis.set_major_formatter(_plain)
        for axes in panels[:2]:
            axes.tick_params(axis="x", bottom=False)
        self._position.axhline(0.0, color="0.5", linewidth=0.8)
        self._price.yaxis.set_major_locator(MaxNLocator(6))
        self._position.yaxis.set_major_locator(MaxNLocator(3, integer=True, symmetric=True))
        self._equity.yaxis.set_major_locator(MaxNLocator(3))

    def show(self, history: History, market: Market, title: str) -> None:
        """Put one account's data into the figure."""
        bars, first, last = market.bars, int(history.bar[0]), int(history.bar[-1])
        self._show_times(bars.ts, first, last)
        self._title.set_text(title)
        self._label(market)
        shown = slice(first, last + 1)
        x = np.arange(first, last + 1)
        self._bars.set_segments(
            _ohlc_segments(x, *(p[shown] for p in (bars.open, bars.high, bars.low, bars.close)))
        )
        self._bars.set_color(np.where(bars.close[shown] >= bars.open[shown], _UP, _DOWN).tolist())
        self._close.set_data(x, bars.close[shown])
        self._show_levels(history)
        self._show_marks(history, market)
        self._show_account(history)
        levels = np.concatenate([line.get_ydata() for line in self._levels.values()])
        drawn = [bars.low[shown], bars.high[shown], levels[np.isfinite(levels)]]
        self._price.set_ylim(*_padded(np.concatenate(drawn), market.contract.tick_size))
        self._price.set_xlim(first - 1, max(last, first + 20) + 2)

    def pixels(self) -> NDArray[np.uint8]:
        """The figure as (600, 800, 3) uint8."""
        if self._fixed is None:
            changing = (*self._panels, self._title)
            for artist in changing:
                artist.set_visible(False)
            self._canvas.draw()  # type: ignore[no-untyped-call]
            self._fixed = self._canvas.copy_from_bbox(self.figure.bbox)  # type: ignore[no-untyped-call]
            for artist in changing:
                artist.set_visible(True)
        self._canvas.restore_region(self._fixed)  # type: ignore[no-untyped-call]
        for artist in (*self._panels, self._title):
            self.figure.draw_artist(artist)
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]

    def _label(self, market: Market) -> None:
        """Name the panels; the names are part of what is drawn once."""
        names = (
            f"{market.contract.symbol} price",
            "position\n(contracts)",
            f"equity\n({market.contract.currency})",
        )
        if [text.get_text() for text in self._names] != list(names):
            for text, name in zip(self._names, names, strict=True):
                text.set_text(name)
            self._fixed = None

    def _show_levels(self, history: History) -> None:
        """Each level as steps across the bars after its step, where it is in force; apart where a trade flips."""
        side = np.sign(history.position)
        goes_on = np.append(side[1:] == side[:-1], False)
        for name, values, ahead in (
            ("stop", history.stop, 1),
            ("target", history.target, 1),
            ("entry", np.where(side != 0, history.entry_price, np.nan), 0),
        ):
            left = history.bar + ahead - 0.5
            x = np.stack([left, left + 1, left + 1], axis=1)
            y = np.stack([values, values, np.where(goes_on, values, np.nan)], axis=1)
            self._levels[name].set_data(x.ravel(), y.ravel())

    def _show_marks(self, history: History, market: Market) -> None:
        for name, side in (("buy", 1), ("sell", -1)):
            hit = np.sign(history.fill_quantity) == side
            self._marks[name].set_data(history.bar[hit], history.fill_price[hit])
        marks = np.array(
            [_EXIT_MARKS.get(reason, "other exit") for reason in history.exits["reason"]], dtype=object
        )
        for name in (*_EXIT_MARKS.values(), "other exit"):
            chosen = history.exits[marks == name]
            self._marks[name].set_data(chosen["exit_bar"], chosen["exit"] * market.contract.tick_size)

    def _show_account(self, history: History) -> None:
        for area, held in zip(
            self._held, (history.position.clip(min=0), history.position.clip(max=0)), strict=True
        ):
            area.set_data(history.bar, np.zeros(len(held)), held)
        most = max(np.abs(history.position).max(), 1.0)
        self._position.set_ylim(-1.15 * most, 1.15 * most)
        self._worth.set_data(history.bar, history.equity)
        self._begun.set_data(history.bar[[0, -1]], history.equity[[0, 0]])
        self._equity.set_ylim(*_padded(history.equity, 1.0))

    def _show_times(self, ts: NDArray[np.int64], first: int, last: int) -> None:
        """Ticks at whole bars: the time of day, with the date at the first one and on a new day; days by date."""
        spacing = max(-(-(last - first) // _TICKS), 1)
        ticks = np.arange(first, last + 1, spacing)
        times = [np.datetime64(int(t), "ns").astype("datetime64[s]").item() for t in ts[ticks]]
        if all(ts[first : last + 1] % _DAY_NS == 0):
            labels = [f"{when:%Y-%m-%d}" for when in times]
        else:
            days = [None, *(when.date() for when in times)]
            labels = [
                f"{when:%H:%M}" if when.date() == day else f"{when:%H:%M}\n{when:%Y-%m-%d}"
                for when, day in zip(times, days, strict=False)
            ]
        self._equity.set_xticks(ticks, labels)


def _plain(value: float, _: int) -> str:
    """A number for an axis, without offset or exponent."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.6g}"


def _padded(values: NDArray[np.float64], least: float) -> tuple[float, float]:
    """Limits of an axis that shows all values."""
    low, high = float(values.min()), float(values.max())
    pad = max(0.06 * (high - low), least)
    return low - pad, high + pad


def _ohlc_segments(
    x: NDArray[np.int64],
    open_: NDArray[np.float64],
    high: NDArray[np.float64],
    low: NDArray[np.float64],
    close: NDArray[np.float64],
) -> list[NDArray[np.float64]]:
    """One polyline a bar, T of (7, 2): open tick, spine, close tick."""
    xs = np.stack([x - 0.35, x, x, x, x, x, x + 0.35], axis=1)
    ys = np.stack([open_, open_, high, low, close, close, close], axis=1)
    return list(np.stack([xs, ys], axis=2))
