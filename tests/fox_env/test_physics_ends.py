"""Margin, ruin and ends of an episode, with hand-computed values; the units are those of physics_scenario."""

from __future__ import annotations

from typing import Any

from physics_scenario import (
    BUY,
    FREE,
    KEEP,
    LONG,
    MARKET,
    NAN,
    NORMAL,
    QUARTER,
    SELL,
    Case,
    check,
    named,
    still,
)

from fox_env._layout import ExitReason, OrderStatus

HALF_MARGIN: dict[str, Any] = {"initial_margin": 1000.0, "maintenance_margin": 500.0}
SMALL: dict[str, Any] = {
    "initial_cash": 3_500.0,
    "max_position": 10.0,
    "margin": "close",
    "half_spread_ticks": 0.0,
}

MARGIN = [
    Case(
        "the cap limits what is opened and never reduces",
        still(100, 100, 96, 96, 96, 96),
        [BUY, KEEP, BUY, (LONG, QUARTER, MARKET, NORMAL), SELL],
        [
            {"position": 3, "order_status": OrderStatus.MARGIN, "equity": 3_494},
            {"position": 3, "order_status": OrderStatus.NONE, "equity": 2_894},
            {"position": 3, "order_status": OrderStatus.MARGIN, "fill_quantity": 0, "cost": 0},
            {"position": 3, "order_status": OrderStatus.NONE, "fill_quantity": 0, "equity": 2_894},
            {"position": -2, "order_status": OrderStatus.MARGIN, "fill_quantity": -5, "equity": 2_884},
        ],
        [{"size": 3, "pnl": -612}],
        SMALL,
        HALF_MARGIN,
    ),
    Case(
        "with nothing left to open, the other side only closes",
        still(100, 100, 83.5, 83.5),
        [BUY, KEEP, SELL],
        [{"position": 3}, {"position": 3, "equity": 1_019}, {"position": -1}],
        options=SMALL,
        spec={**HALF_MARGIN, "maintenance_margin": 100.0},
    ),
    Case(
        "liquidated at the close, at market cost, and booked",
        [*still(100, 100), (98, 98, 85, 86)],
        [BUY, KEEP],
        [
            {"position": 3, "equity": 3_494 - 18.75},
            {
                "position": 0, "cash": 1_350.5, "equity": 1_350.5, "fees": 6, "cost": 6 + 18.75, "fill_quantity": 0,
                "fill_price": NAN, "trade_closed": 1, "exit_reason": ExitReason.MARGIN, "terminated": 0,
            },
        ],
        [{"pnl": -2_149.5, "reason": "margin", "exit_price": 85.875, "costs": 49.5, "exit_bar": 2, "bars": 1}],
        {**SMALL, "max_position": 3.0, "half_spread_ticks": 0.5},
    ),
    Case(
        "equity of exactly the maintenance margin is enough",
        still(100, 100, 98, 97.75),
        [BUY, KEEP, KEEP],
        [{"position": 1}, {"position": 1, "equity": 900}, {"position": 0, "equity": 887.5, "exit_reason": 4}],
        options={**FREE, "initial_cash": 1_000.0, "max_position": 1.0, "margin": "close"},
    ),
    Case(
        "two trades can end in one bar: a flip, then its liquidation",
        [*still(100, 100), (100, 114, 100, 114)],
        [BUY, SELL],
        [
            {"position": 3},
            {"position": 0, "trade_closed": 2, "exit_reason": ExitReason.MARGIN, "trade_bars": 0, "fill_quantity": -6},
        ],
        [{"side": 1, "reason": "agent", "pnl": -12, "bars": 1}, {"side": -1, "reason": "margin", "pnl": -2_112}],
        {**SMALL, "max_position": 3.0},
    ),
    Case(
        "a low that breaks the margin inside a bar is not looked at, only the close",
        [*still(5000, 5000), (5000, 5010, 4975, 5010)],
        [BUY, KEEP],
        [{"position": 1}, {"position": 1, "equity": 10_500}],
        options={**FREE, "initial_cash": 10_000.0, "max_position": 1.0, "margin": "close"},
        spec={"maintenance_margin": 9_000.0, "initial_margin": 9_000.0},
    ),
    Case(
        "no margin asked for: neither cap nor liquidation",
        still(100, 100, 90),
        [BUY, KEEP],
        [{"position": 10}, {"position": 10, "equity": 1_100, "trade_closed": 0}],
        options={**SMALL, "initial_cash": 6_120.0, "margin": False},
    ),
]  # fmt: skip

FLOOR = [
    Case(
        "a wiped-out account is closed and never recovers",
        still(5000, 5000, 4975, 5100),
        [BUY, KEEP],
        [{"terminated": 0}, {"equity": -250, "position": 0, "terminated": 1, "exit_reason": ExitReason.FLOOR}],
        [{"pnl": -1_250, "reason": "floor", "exit_price": 4975}],
        {**FREE, "initial_cash": 1_000.0, "max_position": 1.0, "capital_floor": 0.0},
    ),
    Case(
        "equity of exactly the floor ends the episode, at market cost",
        still(100, 100, 90.5, 90.25, 90),
        [BUY, KEEP, KEEP],
        [
            {"terminated": 0, "equity": 9_975},
            {"terminated": 0, "equity": 9_025, "position": 2},
            {
                "terminated": 1, "truncated": 0, "position": 0, "equity": 8_975, "cost": 25, "fees": 12.5,
                "step_return": -50 / 9_025, "reward": -5_000 / 9_025, "exit_reason": ExitReason.FLOOR,
            },
        ],
        [{"pnl": -1_025, "reason": "floor", "costs": 50, "exit_price": 90.125, "bars": 2}],
        {"capital_floor": 0.9, "initial_cash": 10_000.0, "fee_per_side": 6.25},
    ),
    Case(
        "ruin on the last bar: terminated wins over truncated",
        still(100, 100, 50),
        [BUY, KEEP],
        [{"terminated": 0, "truncated": 0}, {"terminated": 1, "truncated": 0, "position": 0, "exit_reason": 7}],
        [{"reason": "floor"}],
        {"capital_floor": 0.99, "close_at_end": True},
    ),
    Case(
        "ruin by the costs of the sale at the end",
        still(100, 100, 100),
        [BUY, KEEP],
        [
            {"equity": 9_983.5, "terminated": 0},
            {"equity": 9_967, "terminated": 1, "truncated": 0, "exit_reason": ExitReason.EPISODE_END},
        ],
        [{"reason": "episode_end"}],
        {"capital_floor": 0.9975, "initial_cash": 10_000.0, "close_at_end": True},
    ),
    Case(
        "no ruin where the position is only valued at the end",
        still(100, 100, 100),
        [BUY, KEEP],
        [{"equity": 9_983.5}, {"equity": 9_983.5, "terminated": 0, "truncated": 1, "position": 2}],
        options={"capital_floor": 0.9975, "initial_cash": 10_000.0},
    ),
]  # fmt: skip

ENDS = [
    Case(
        "the data end: truncated, valued at the mark, no trade booked",
        still(100, 100, 110),
        [BUY, KEEP],
        [{"truncated": 0}, {"truncated": 1, "terminated": 0, "position": 2, "equity": 100_983.5, "trade_closed": 0}],
        [],
    ),
    Case(
        "close_at_end sells at the last mark, at market cost",
        still(100, 100, 110),
        [BUY, KEEP],
        [
            {"truncated": 0, "position": 2},
            {"truncated": 1, "position": 0, "equity": 100_967, "cost": 16.5, "exit_reason": ExitReason.EPISODE_END},
        ],
        [{"pnl": 967, "reason": "episode_end", "exit_price": 109.875, "entry_price": 100.125, "bars": 1}],
        {"close_at_end": True},
    ),
    Case(
        "the horizon truncates",
        still(*[100] * 9),
        [KEEP, KEEP, KEEP],
        [{"truncated": 0}, {"truncated": 0}, {"truncated": 1, "terminated": 0, "bar_index": 5}],
        options={"horizon": 3},
        start=2,
    ),
    Case(
        "horizon and end of data on one bar",
        still(100, 100, 100),
        [KEEP, KEEP],
        [{"truncated": 0}, {"truncated": 1, "terminated": 0, "bar_index": 2}],
        options={"horizon": 2},
    ),
    Case(
        "the data end before the horizon",
        still(100, 100, 100),
        [KEEP],
        [{"truncated": 1, "bar_index": 2}],
        options={"horizon": 50},
        start=1,
    ),
    Case(
        "an order on the last step is executed and sold in one bar",
        [(100, 100, 100, 100), (100, 104, 100, 104)],
        [BUY],
        [{"position": 0, "fill_quantity": 2, "trade_closed": 1, "cost": 33, "equity": 100_367, "trade_bars": 0}],
        [{"pnl": 367, "entry_bar": 1, "exit_bar": 1, "reason": "episode_end"}],
        {"close_at_end": True},
    ),
]  # fmt: skip


@named(MARGIN)
def test_margin(case: Case) -> None:
    check(case)


@named(FLOOR)
def test_capital_floor(case: Case) -> None:
    check(case)


@named(ENDS)
def test_ends(case: Case) -> None:
    check(case)
