"""Fills that another backtester decides by itself, from the actions and the bars alone."""

from __future__ import annotations

from typing import Any

import backtesting_broker
import backtrader_broker
import numpy as np
import pytest
from fox_play import MARKETS, Account, agree, play, walk
from numpy.typing import NDArray

MARKET, LIMIT = 0, 1
ONE_BAR = 1.5 * backtrader_broker.MINUTE
LIMIT_OFFSET = (2.0, 1.0, 0.0)
ACCOUNT: dict[str, Any] = {
    "initial_cash": 1e6,
    "max_position": 4.0,
    "margin": False,
    "half_spread_ticks": 0.0,
    "impact_coef": 0.0,
    "participation": (1e6, 1e6, 1e6),
    "limit_offset_ticks": LIMIT_OFFSET,
    "queue_prob": 1.0,
}


def ohlc(fox: Account) -> NDArray[np.float64]:
    """(T, 4) prices of every bar."""
    bars = fox.market.bars
    return np.stack([bars.open, bars.high, bars.low, bars.close], axis=-1)


def asked(fox: Account, row: int, position: float) -> float:
    """Contracts that the action decided at the close of a row wants to hold, of at most 4."""
    if not 1 <= row <= len(fox.actions):
        return position
    direction, magnitude = fox.actions[row - 1, :2]
    size = (1.0, 2.0, 4.0)[magnitude]
    return (-size, position, size, 0.0)[direction]


@pytest.mark.parametrize(("market", "half_spread"), [("a walk", 1.5), *((market, 0.5) for market in MARKETS)])
def test_market_orders_are_filled_at_the_next_open_and_pay_the_spread(
    market: str, half_spread: float
) -> None:
    for fox in play(
        MARKETS[market](), 1, seed=21, order=MARKET, **{**ACCOUNT, "half_spread_ticks": half_spread}
    ):

        def decide(trader: Any, row: int, fox: Account = fox) -> None:
            trader.order_target_size(target=asked(fox, row, trader.position.size))

        slippage = half_spread * fox.market.contract.tick_size
        trader = backtrader_broker.run(fox, ohlc(fox), decide, slippage)
        assert len(fox.trades) > 100
        agree(fox, backtrader_broker.outside(trader, fox.bars))


@pytest.mark.parametrize("market", MARKETS)
def test_a_second_program_fills_market_orders_alike(market: str) -> None:
    for fox in play(MARKETS[market](), 1, seed=22, order=MARKET, **ACCOUNT):

        def decide(trader: Any, row: int, fox: Account = fox) -> None:
            if size := asked(fox, row, trader.position.size) - trader.position.size:
                (trader.buy if size > 0 else trader.sell)(size=abs(size))

        statistics = backtesting_broker.run(fox, ohlc(fox), decide)
        assert len(fox.trades) > 100
        agree(fox, backtesting_broker.outside(statistics, fox.bars, fox.fee))


def test_limit_orders_are_filled_where_another_program_fills_them() -> None:
    """Better than the limit at the open where that is better, else at the limit; a bar long, then cancelled."""
    for fox in play(walk(seed=3), 2, seed=23, order=LIMIT, **ACCOUNT):

        def decide(trader: Any, row: int, fox: Account = fox) -> None:
            size = asked(fox, row, trader.position.size) - trader.position.size
            if not size:
                return
            offset = fox.market.contract.tick_size * LIMIT_OFFSET[fox.actions[row - 1, 3]]
            (trader.buy if size > 0 else trader.sell)(
                size=abs(size),
                exectype=backtrader_broker.bt.Order.Limit,
                price=trader.data.close[0] - np.sign(size) * offset,
                valid=ONE_BAR,
            )

        trader = backtrader_broker.run(fox, ohlc(fox), decide)
        assert len(fox.trades) > 60
        agree(fox, backtrader_broker.outside(trader, fox.bars))


@pytest.mark.parametrize(
    "exits",
    [
        {"trail_atr": (2.0, 2.0)},
        {"profit_target_atr": 2.0},
        {"trail_atr": (2.0, 3.0), "profit_target_atr": 2.5},
    ],
    ids=["stop", "target", "both"],
)
def test_stops_and_targets_are_reached_when_another_program_reaches_them(exits: dict[str, Any]) -> None:
    """Fox says where stop and target lie, the other program when they are reached and what they get."""
    for fox in play(walk(seed=4, jumps=False), 2, seed=24, order=MARKET, wait=25, **ACCOUNT, **exits):
        assert (
            fox.trades["bars"] > 0
        ).all()  # the other program knows the levels from the entry bar's close on
        multiplier = fox.market.contract.multiplier

        def decide(trader: Any, row: int, fox: Account = fox, multiplier: float = multiplier) -> None:
            size = asked(fox, row, trader.position.size) - trader.position.size
            for trade in trader.trades:
                if "trail_atr" in exits:
                    trade.sl = None if size else fox.stops[row - 1] * multiplier
                if "profit_target_atr" in exits:
                    trade.tp = None if size else fox.targets[row - 1] * multiplier
            if size:
                (trader.buy if size > 0 else trader.sell)(size=abs(size))

        statistics = backtesting_broker.run(fox, ohlc(fox), decide)
        assert len(fox.trades) > 20
        agree(fox, backtesting_broker.outside(statistics, fox.bars, fox.fee))
