"""Showing accounts: a line of text, or a picture of price, fills, position and equity."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env.errors import BackendError, FoxError
from fox_env.market import Market

__all__ = ["Recorder"]

_WINDOW = 240
_FIELDS = ("bar_index", "equity", "position", "entry_price", "unrealized", "fill_price", "fill_quantity")


class Recorder:
    """Keeps the last steps of every account and draws them.

    Parameters
    ----------
    markets
        What each account trades.
    mode
        ``"ansi"`` or ``"rgb_array"``.
    """

    def __init__(self, markets: Sequence[Market], mode: str) -> None:
        self._markets = markets
        self._mode = mode
        self._steps: deque[dict[str, NDArray[Any]]] = deque(maxlen=_WINDOW)

    def record(self, info: dict[str, Any]) -> None:
        """Remember one step of the info arrays."""
        self._steps.append({name: info[name].copy() for name in _FIELDS})

    def frames(self) -> tuple[Any, ...]:
        """One frame for each account: a string, or an (H, W, 3) uint8 picture."""
        if not self._steps:
            raise FoxError("there is nothing to render yet; call reset() or step() first")
        count = len(self._steps[-1]["equity"])
        draw = self._text if self._mode == "ansi" else self._picture
        return tuple(draw(self._history(i), self._markets[i]) for i in range(count))

    def _history(self, env: int) -> dict[str, NDArray[Any]]:
        """The steps since the account's last reset: bar indices rise by one within an episode."""
        columns = {name: np.array([step[name][env] for step in self._steps]) for name in _FIELDS}
        breaks = np.flatnonzero(np.diff(columns["bar_index"]) != 1)
        first = int(breaks[-1]) + 1 if breaks.size else 0
        return {name: column[first:] for name, column in columns.items()}

    def _text(self, history: dict[str, NDArray[Any]], market: Market) -> str:
        last = {name: column[-1] for name, column in history.items()}
        bar = int(last["bar_index"])
        when = np.datetime64(int(market.bars.ts[bar]), "ns").astype("datetime64[s]")
        held = f"{last['position']:+g} at {last['entry_price']:g}" if last["position"] else "flat"
        fill = (
            ""
            if np.isnan(last["fill_price"])
            else f"  fill {last['fill_quantity']:+g} at {last['fill_price']:g}"
        )
        return (
            f"{market.contract.symbol} {when} bar {bar}  close {market.bars.close[bar]:g}  {held}"
            f"  unrealised {last['unrealized']:+,.2f}  equity {last['equity']:,.2f}{fill}"
        )

    def _picture(self, history: dict[str, NDArray[Any]], market: Market) -> NDArray[np.uint8]:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise BackendError(
                "render_mode='rgb_array' needs matplotlib; install it with `pip install 'fox-futures[render]'`"
            ) from error
        bars = history["bar_index"]
        figure = Figure(figsize=(8, 6), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        price, position, equity = figure.subplots(3, 1, sharex=True, height_ratios=(3, 1, 1))
        price.plot(bars, market.bars.close[bars], color="0.3", linewidth=1)
        for side, marker, color in ((1, "^", "tab:green"), (-1, "v", "tab:red")):
            hit = np.sign(history["fill_quantity"]) == side
            price.plot(bars[hit], history["fill_price"][hit], marker, color=color, markersize=6)
        held = np.where(history["position"] != 0, history["entry_price"], np.nan)
        price.plot(bars, held, color="tab:blue", linewidth=1, linestyle="--")
        position.step(bars, history["position"], where="post", color="tab:blue")
        equity.plot(bars, history["equity"], color="tab:purple")
        for axes, label in ((price, "price"), (position, "position"), (equity, "equity")):
            axes.set_ylabel(label)
        price.set_title(self._text(history, market), fontsize=8)
        equity.set_xlabel("bar")
        canvas.draw()  # type: ignore[no-untyped-call]
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]
