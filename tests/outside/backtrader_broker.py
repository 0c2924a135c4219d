"""Accounts kept by backtrader."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fox_play import Account, Outside, tape
from numpy.typing import NDArray

bt = pytest.importorskip("backtrader", reason="backtrader is not installed: pip install '.[outside]'")

MINUTE = datetime.timedelta(minutes=1)
Decide = Callable[[Any, int], None]
"""What a strategy orders at the close of a row: called with the strategy and the number of the row."""


class Trader(bt.Strategy):
    """Orders what ``decide`` says and notes the value of the account at every close."""

    params = (("decide", None),)

    def __init__(self) -> None:
        self.values: list[float] = []
        self.finished: list[float] = []
        self.commission = 0.0

    def next(self) -> None:
        self.values.append(self.broker.getvalue())
        self.p.decide(self, len(self) - 1)

    def notify_order(self, order: Any) -> None:
        assert order.status not in (order.Margin, order.Rejected)
        if order.status == order.Completed:
            self.commission += order.executed.comm

    def notify_trade(self, trade: Any) -> None:
        if trade.isclosed:
            self.finished.append(trade.pnlcomm)


def run(fox: Account, ohlc: NDArray[np.float64], decide: Decide, slippage: float = 0.0) -> Trader:
    """Let backtrader trade rows of prices a minute apart, with the account's cash, fees and multiplier."""
    frame = pd.DataFrame(
        ohlc,
        columns=["open", "high", "low", "close"],
        index=pd.date_range("2024-01-02", periods=len(ohlc), freq=MINUTE),
    ).assign(volume=1e6, openinterest=0.0)
    cerebro = bt.Cerebro(stdstats=False)
    cerebro.adddata(bt.feeds.PandasData(dataname=frame))
    cerebro.addstrategy(Trader, decide=decide)
    broker = cerebro.broker
    broker.setcash(fox.cash)
    broker.set_checksubmit(False)
    margin = 1e-6  # what an account may carry is Fox's matter here
    broker.setcommission(commission=fox.fee, margin=margin, mult=fox.market.contract.multiplier)
    if slippage:
        broker.set_slippage_fixed(slippage, slip_open=True, slip_match=True, slip_out=True)
    return cerebro.run()[0]


def outside(trader: Trader, marks: NDArray[np.int64]) -> Outside:
    """The account as the program kept it, at the rows ``marks``."""
    return Outside(np.array(trader.values)[marks], np.array(trader.finished), trader.commission)


def replay(fox: Account) -> Outside:
    """Give backtrader the account's fills, so that it keeps position, average price, P&L, commission and trades."""
    rows = tape(fox)

    def decide(trader: Trader, row: int) -> None:
        if size := rows.orders[row]:
            (trader.buy if size > 0 else trader.sell)(size=abs(size))

    return outside(run(fox, np.repeat(rows.prices[:, None], 4, axis=1), decide), rows.marks)
