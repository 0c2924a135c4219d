"""Showing accounts: a line of text, a picture of price, fills, levels, position and equity, or a window of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.chart import AccountChart, History
from fox_env.errors import FoxError
from fox_env.market import Market
from fox_env.window import Window

__all__ = ["Recorder"]

_STEPS = 120
_FIELDS = ("bar_index", "equity", "position", "entry_price", "unrealized", "fill_price", "fill_quantity")
_ASKED_FOR = (_layout.ExitReason.NONE, _layout.ExitReason.AGENT)
_STATE = ("stop", "stop_distance", "target", "episode")


class Recorder:
    """Keeps the last steps of every account and draws them.

    Parameters
    ----------
    markets
        What each account trades.
    mode
        ``"ansi"``, ``"rgb_array"``, or ``"human"``, which shows the first account in a window at every step.
    targets
        Whether the accounts have profit targets.
    read
        Gives a host copy of one of the batch's arrays by name.
    keeps_trades
        Whether there is a ledger among them; without it the exits that no agent asked for have no mark.
    """

    def __init__(
        self,
        markets: Sequence[Market],
        mode: str,
        *,
        targets: bool,
        read: Callable[[str], NDArray[Any]],
        keeps_trades: bool,
    ) -> None:
        self._markets = markets
        self._mode = mode
        self._targets = targets
        self._read = read
        self._keeps_trades = keeps_trades
        self._steps: deque[dict[str, NDArray[Any]]] = deque(maxlen=_STEPS)
        self._chart: AccountChart | None = None
        self._window: Window | None = None

    def record(self, info: dict[str, Any]) -> None:
        """Remember one step of the info arrays and the levels that are in force after it."""
        step = {name: info[name].copy() for name in (*_FIELDS, "exit_reason")}
        if self._mode != "ansi":
            step.update({name: self._read(f"state.{name}") for name in _STATE})
        self._steps.append(step)
        if self._mode == "human":
            self._show()

    def frames(self) -> tuple[Any, ...] | None:
        """One frame for each account: a string, or a (600, 800, 3) uint8 picture; None for a window."""
        if not self._steps:
            raise FoxError("there is nothing to render yet; call reset() or step() first")
        if self._mode == "human":
            return None
        count = len(self._markets)
        if self._mode == "ansi":
            return tuple(self._text(i) for i in range(count))
        ledger = self._ledger()
        return tuple(self._picture(i, ledger[i]).pixels() for i in range(count))

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()

    def _show(self) -> None:
        chart = self._picture(0, self._ledger()[0])
        if self._window is None:
            self._window = Window(chart.figure, f"Fox: {self._markets[0].contract.symbol}")
        self._window.refresh()

    def _picture(self, env: int, trades: NDArray[Any]) -> AccountChart:
        if self._chart is None:
            self._chart = AccountChart(self._mode)
        self._chart.show(self._history(env, trades), self._markets[env], self._title(env))
        return self._chart

    def _ledger(self) -> list[NDArray[Any]]:
        """The trades kept of each account; none where all that ended in sight were the agent's own."""
        forced = any(not np.isin(step["exit_reason"], _ASKED_FOR).all() for step in self._steps)
        if not (self._keeps_trades and forced):
            return [np.zeros(0, dtype=_layout.TRADE_RECORD)] * len(self._markets)
        ledger, counts = self._read("ledger"), self._read("state.ledger_count")
        return [records[:count] for records, count in zip(ledger, counts, strict=True)]

    def _columns(self, env: int) -> dict[str, NDArray[Any]]:
        """The steps since the account's last reset: bar indices rise by one within an episode."""
        columns = {name: np.array([step[name][env] for step in self._steps]) for name in self._steps[-1]}
        breaks = np.flatnonzero(np.diff(columns["bar_index"]) != 1)
        first = int(breaks[-1]) + 1 if breaks.size else 0
        return {name: column[first:] for name, column in columns.items()}

    def _history(self, env: int, trades: NDArray[Any]) -> History:
        steps, tick = self._columns(env), self._markets[env].contract.tick_size
        bar, held = steps["bar_index"], steps["position"] != 0
        shown = (trades["episode"] == steps["episode"][-1]) & (trades["exit_bar"] >= bar[0])
        forced = trades["reason"] != _layout.ExitReason.AGENT
        return History(
            bar=bar,
            equity=steps["equity"],
            position=steps["position"],
            entry_price=steps["entry_price"],
            fill_price=steps["fill_price"],
            fill_quantity=steps["fill_quantity"],
            stop=np.where(held & (steps["stop_distance"] > 0), steps["stop"] * tick, np.nan),
            target=np.where(held & self._targets, steps["target"] * tick, np.nan),
            exits=trades[shown & forced],
        )

    def _last(self, env: int) -> tuple[Market, dict[str, Any], np.datetime64, str]:
        """The account's market, its last step, the time of that bar and what it holds."""
        market, last = self._markets[env], {name: values[env] for name, values in self._steps[-1].items()}
        when = np.datetime64(int(market.bars.ts[last["bar_index"]]), "ns").astype("datetime64[s]")
        held = f"{last['position']:+g} at {last['entry_price']:g}" if last["position"] else "flat"
        return market, last, when, held

    def _text(self, env: int) -> str:
        market, last, when, held = self._last(env)
        bar = int(last["bar_index"])
        fill = (
            ""
            if np.isnan(last["fill_price"])
            else f"  fill {last['fill_quantity']:+g} at {last['fill_price']:g}"
        )
        return (
            f"{market.contract.symbol} {when} bar {bar}  close {market.bars.close[bar]:g}  {held}"
            f"  unrealised {last['unrealized']:+,.2f}  equity {last['equity']:,.2f}{fill}"
        )

    def _title(self, env: int) -> str:
        _, last, when, held = self._last(env)
        stamp = str(when)[:16].replace("T", " ")
        return (
            f"{stamp} UTC    {held}    unrealised {last['unrealized']:+,.0f}    equity {last['equity']:,.0f}"
        )
