"""Accounts kept by backtesting.py, which knows no multiplier: its prices are money per contract."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fox_play import Account, Outside, tape
from numpy.typing import NDArray

backtesting = pytest.importorskip(
    "backtesting", reason="backtesting is not installed: pip install '.[outside]'"
)

Decide = Callable[[Any, int], None]
"""What a strategy orders at the close of a row: called with the strategy and the number of the row."""


def run(fox: Account, ohlc: NDArray[np.float64], decide: Decide) -> Any:
    """Let backtesting.py trade rows of prices, with the account's cash and fees; returns its statistics."""

    class Trader(backtesting.Strategy):
        def init(self) -> None:
            pass

        def next(self) -> None:
            decide(self, len(self.data) - 1)

    frame = pd.DataFrame(
        ohlc * fox.market.contract.multiplier,
        columns=["Open", "High", "Low", "Close"],
        index=pd.date_range("2024-01-02", periods=len(ohlc), freq="min"),
    ).assign(Volume=1e6)
    with warnings.catch_warnings():
        # A contract may be dearer than the cash, a position may stay open, and a ratio may have nothing to divide by.
        warnings.simplefilter("ignore")
        test = backtesting.Backtest(
            frame,
            Trader,
            cash=fox.cash,
            margin=1e-6,  # what an account may carry is Fox's matter here
            commission=lambda size, price: fox.fee * abs(size),
            finalize_trades=False,
        )
        return test.run()


def trade_profits(pieces: pd.DataFrame, still_open: list[Any]) -> list[float]:
    """P&L of finished position cycles: the program lists a piece for each entry and exit, first in first out.

    A cycle ends where no piece goes on, or at a reversal.
    """
    rows = [(p.EntryBar, p.ExitBar, np.sign(p.Size), p.PnL) for p in pieces.itertuples()]
    rows += [(trade.entry_bar, np.inf, np.sign(trade.size), np.nan) for trade in still_open]
    profits: list[float] = []
    last, side = -1.0, 0.0
    for entered, left, its_side, pnl in sorted(rows):
        if entered >= last or its_side != side:
            profits.append(0.0)
        profits[-1] += pnl  # net of commission
        last, side = max(last, left), its_side
    return [pnl for pnl in profits if np.isfinite(pnl)]


def outside(statistics: Any, marks: NDArray[np.int64], fee: float) -> Outside:
    """The account as the program kept it, at the rows ``marks``; what is still open has paid its entry."""
    pieces, still_open = statistics["_trades"], list(statistics["_strategy"].trades)
    fees = float(pieces["Commission"].sum()) + fee * sum(abs(trade.size) for trade in still_open)
    equity = statistics["_equity_curve"]["Equity"].to_numpy()[marks]
    return Outside(equity, np.array(trade_profits(pieces, still_open)), fees)


def replay(fox: Account) -> Outside:
    """Give backtesting.py the account's fills, so that it keeps position, P&L, commission and trades."""
    rows = tape(fox)

    def decide(trader: Any, row: int) -> None:
        if size := rows.orders[row]:
            (trader.buy if size > 0 else trader.sell)(size=abs(size))

    return outside(run(fox, np.repeat(rows.prices[:, None], 4, axis=1), decide), rows.marks, fox.fee)
