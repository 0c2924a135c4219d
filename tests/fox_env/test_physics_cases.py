"""Round trips, costs and sizes, with hand-computed values; the units are those of physics_scenario."""

from __future__ import annotations

from typing import Any

from physics_scenario import (
    BUY,
    CLOSE,
    FREE,
    FULL,
    HALF,
    HOLD,
    KEEP,
    LIMIT,
    LONG,
    MARKET,
    NORMAL,
    QUARTER,
    RISING,
    SELL,
    SHORT,
    Case,
    check,
    named,
    still,
)

from fox_env._layout import OrderStatus

ROUND_TRIPS = [
    Case(
        "+1, -1, 0: both trades pay",
        still(1, 1, 2, 4),
        [BUY, SELL, CLOSE],
        [
            {"equity": 100_000, "position": 1, "fill_quantity": 1, "trade_closed": 0},
            {"equity": 100_168, "position": -1, "fill_quantity": -2, "trade_closed": 1, "exit_reason": 1},
            {"equity": 99_832, "position": 0, "fill_quantity": 1, "trade_closed": 1, "entry_price": 0},
        ],
        [{"pnl": 168, "side": 1, "size": 1}, {"pnl": -336, "side": -1, "size": 1}],
        {**FREE, "max_position": 1.0},
        {"tick_size": 1.0, "multiplier": 168.0},
    ),
    Case(
        "+1, -1, 0 with 2.00 a side: four contracts are charged",
        still(1, 1, 2, 4),
        [BUY, SELL, CLOSE],
        [{"equity": 99_998, "fees": 2}, {"equity": 100_162, "fees": 4}, {"equity": 99_824, "fees": 2}],
        [{"pnl": 164, "costs": 4}, {"pnl": -340, "costs": 4}],
        {"half_spread_ticks": 0.0, "max_position": 1.0},
        {"tick_size": 1.0, "multiplier": 168.0},
    ),
    Case(
        "+2, -1, 0 on ES: six contracts, 186.50 net",
        still(5000, 5000, 5001.25, 4999.75),
        [BUY, (SHORT, HALF, MARKET, NORMAL), CLOSE],
        [{"equity": 99_995.5}, {"equity": 100_113.75, "fill_quantity": -3}, {"equity": 100_186.5}],
        [{"pnl": 116, "size": 2, "exit_price": 5001.25}, {"pnl": 70.5, "size": 1, "entry_price": 5001.25}],
        {"half_spread_ticks": 0.0, "fee_per_side": 2.25},
    ),
    Case(
        "one point of ES less 5.00 a round trip is 45",
        still(5000, 5000, 5000, 5001),
        [BUY, KEEP, CLOSE],
        [
            {"equity": 99_997.5, "cost": 2.5},
            {"equity": 99_997.5, "cost": 0},
            {"equity": 100_045, "cost": 2.5},
        ],
        [{"pnl": 45, "costs": 5, "bars": 2}],
        {"half_spread_ticks": 0.0, "fee_per_side": 2.5, "max_position": 1.0},
    ),
    Case(
        "with a tick of spread on each side it is 20",
        still(5000, 5000, 5001),
        [BUY, CLOSE],
        [{"fill_price": 5000.25, "cost": 15}, {"fill_price": 5000.75, "cost": 15, "equity": 100_020}],
        [{"pnl": 20, "costs": 30, "entry_price": 5000.25, "exit_price": 5000.75}],
        {"half_spread_ticks": 1.0, "fee_per_side": 2.5, "max_position": 1.0},
    ),
    Case(
        "nothing is filled before the decision's own close",
        [(100, 110, 100, 110), (111, 112, 111, 112), (90, 95, 90, 95)],
        [BUY, KEEP],
        [{"fill_price": 111, "equity": 100_001}, {"equity": 99_984}],
        [],
        {**FREE, "max_position": 1.0},
        {"tick_size": 1.0, "multiplier": 1.0},
    ),
    Case(
        "a size change is no trade: averages, realised parts, one row",
        RISING,
        [(LONG, QUARTER, MARKET, NORMAL), BUY, (LONG, HALF, MARKET, NORMAL), CLOSE],
        [
            {"position": 1, "entry_price": 101.125, "trade_closed": 0},
            {"position": 4, "entry_price": (101.125 + 3 * 101.625) / 4, "trade_closed": 0},
            {"position": 2, "entry_price": 101.5, "cash": 100_000 - 12 + 2 * 0.375 * 50, "trade_closed": 0},
            {"position": 0, "equity": 100_000 - 16 + 37.5 - 2 * 1.625 * 50, "trade_closed": 1},
        ],
        [{"size": 4, "pnl": -16 + 37.5 - 162.5, "costs": 16 + 8 * 6.25, "entry_bar": 1, "exit_bar": 4}],
        {"max_position": 4.0},
    ),
    Case(
        "a price below zero: closes of crude in April 2020",
        [*still(10, 10), (10, 10, -37.63, -37.63), (-37.63, 10.01, -37.63, 10.01)],
        [BUY, KEEP, KEEP],
        [{"equity": 100_000}, {"equity": 52_370}, {"equity": 100_010}],
        options={**FREE, "max_position": 1.0},
        spec={"tick_size": 0.01, "multiplier": 1000.0},
    ),
    Case(
        "a price of exactly zero",
        still(1, 1, 0, -1),
        [BUY, KEEP, CLOSE],
        [
            {"equity": 100_000},
            {"equity": 99_950, "step_return": -0.0005},
            {"equity": 99_900, "fill_price": -1},
        ],
        options={**FREE, "max_position": 1.0},
    ),
]

COSTS = [
    Case(
        "a fee as a rate of the fill's notional",
        still(5000, 5000, 5100),
        [BUY, CLOSE],
        [
            {"fill_price": 5001, "fees": 2 * 1e-4 * 5001 * 10, "cost": 10.002 + 20},
            {"fill_price": 5099, "fees": 10.198, "equity": 100_000 + 1_960 - 10.002 - 10.198},
        ],
        options={"half_spread_ticks": 1.0},
        spec={"tick_size": 1.0, "multiplier": 10.0, "fee_per_side": 0.0, "fee_rate": 1e-4},
    ),
    Case(
        "fixed fee and rate add up, and a rate of a negative price is still paid",
        still(-40, -40),
        [BUY],
        [{"fees": 2 * (2 + 1e-3 * 40 * 50), "equity": 100_000 - 8, "cash": 100_000 - 8}],
        options={"half_spread_ticks": 0.0, "fee_rate": 1e-3},
    ),
    Case(
        "the maker's fee for a resting limit, without spread",
        [(100, 100, 100, 100), (100, 100.5, 99, 100)],
        [(LONG, FULL, LIMIT, NORMAL)],
        [
            {
                "fill_price": 99.75,
                "fees": 1.0,
                "spread_cost": 0,
                "impact_cost": 0,
                "cost": 1.0,
                "equity": 100_000 - 1 + 25,
            }
        ],
        options={"maker_fee": 0.5},
    ),
    Case(
        "a limit marketable at the open is a taker at the open's price",
        [(100, 100, 100, 100), (99, 100.5, 99, 100)],
        [(LONG, FULL, LIMIT, NORMAL)],
        [{"fill_price": 99.125, "fees": 4, "spread_cost": 12.5, "cost": 16.5, "equity": 100_000 - 4 + 87.5}],
        options={"maker_fee": 0.5},
    ),
    Case(
        "the contract's maker fee holds where the config gives none",
        [(100, 100, 100, 100), (100, 101, 100, 100)],
        [(SHORT, FULL, LIMIT, NORMAL)],
        [{"fill_price": 100.25, "fees": 0.5}],
        spec={"maker_fee": 0.25},
    ),
    Case(
        "impact: 0.5 * 4 ticks * sqrt(4 / 10000) = 0.04 ticks against the buyer",
        [(100, 100.5, 99.5, 100)] * 2,
        [BUY],
        [{"fill_price": 100.01, "cost": 4 * (2 + 0.04 * 12.5)}],
        options={"max_position": 4.0, "impact_coef": 0.5, "half_spread_ticks": 0.0},
        volume=10_000.0,
    ),
    Case(
        "impact against the seller, of the whole flip",
        [(100, 100.5, 99.5, 100)] * 3,
        [(LONG, HALF, MARKET, NORMAL), (SHORT, HALF, MARKET, NORMAL)],
        [
            {"fill_quantity": 2},
            {
                "fill_quantity": -4,
                "fill_price": 99.99,
                "spread_cost": 0,
                "impact_cost": 4 * 0.04 * 12.5,
                "cost": 4 * (2 + 0.04 * 12.5),
            },
        ],
        options={"max_position": 4.0, "impact_coef": 0.5, "half_spread_ticks": 0.0},
        volume=10_000.0,
    ),
    Case(
        "impact comes from the decision bar's range and volume",
        [(100, 100.5, 99.5, 100), (100, 200, 50, 100)],
        [BUY],
        [{"fill_price": 100.01}],
        options={"max_position": 4.0, "impact_coef": 0.5, "half_spread_ticks": 0.0},
        volume=[10_000.0, 4.0],
    ),
    Case(
        "data without volume: no participation limit, no impact, the spread stays",
        still(100, 100),
        [BUY],
        [{"position": 10, "fill_price": 100.125, "cost": 10 * 8.25, "order_status": OrderStatus.FILLED}],
        options={"max_position": 10.0, "impact_coef": 0.4, "participation": (0.0, 0.0, 0.0)},
        volume=None,
    ),
]

SABOTEUR = {"saboteur": (3.0, 3.0), "max_position": 4.0, "impact_coef": 0.5}
COSTS += [
    Case(
        f"x {x}, intensity {intensity}: spread and impact times {factor}, fees as ever",
        [(100, 100.5, 99.5, 100)] * 2,
        [BUY],
        [{"fill_price": 100 + factor * 0.54 / 4, "cost": 4 * (2 + factor * 0.54 * 12.5), "fees": 8}],
        options={**SABOTEUR, "exploration_scale": x},
        knobs={"saboteur_intensity": intensity},
        volume=10_000.0,
    )
    for x, intensity, factor in ((0.0, 1.0, 1.0), (1.0, 1.0, 3.0), (0.5, 1.0, 2.0), (1.0, 0.0, 1.0), (1.0, 0.25, 1.5))
]  # fmt: skip


def sizing(name: str, actions: list[Any], positions: list[float], **fields: Any) -> Case:
    bars = fields.pop("bars", still(*[100] * (len(actions) + 1)))
    return Case(name, bars, actions, [{"position": p} for p in positions], **fields)


SIZES = [
    sizing(
        "a quarter, a half and the whole of ten, half up",
        [(LONG, m, MARKET, NORMAL) for m in (QUARTER, HALF, FULL)],
        [3, 5, 10],
        options={"max_position": 10.0},
    ),
    sizing(
        "a target is one lot at least",
        [(SHORT, QUARTER, MARKET, NORMAL), (LONG, HALF, MARKET, NORMAL), BUY],
        [-1, 1, 1],
        options={"max_position": 1.0},
    ),
    Case(
        "lots of a tenth of a contract",
        still(100, 100, 100, 101),
        [(LONG, QUARTER, MARKET, NORMAL), BUY, CLOSE],
        [
            {"position": 0.3, "fees": 0.6, "cost": 0.3 * 8.25},
            {"position": 1.0, "fill_quantity": 0.7},
            {"position": 0, "equity": 100_000 - 4 - 12.5 + 50},
        ],
        [{"size": 1.0, "pnl": 33.5}],
        {"lot": 0.1, "max_position": 1.0},
    ),
    Case(
        "participation rounds down to the lot",
        still(100, 100),
        [BUY],
        [{"position": 0.5, "order_status": OrderStatus.PARTICIPATION}],
        options={"lot": 0.25, "max_position": 1.0, "participation": (0.1, 0.1, 0.1)},
        volume=7.0,
    ),
    sizing(
        "conviction multiplies the size before rounding, one lot stays, zero closes",
        [BUY, BUY, BUY, (HOLD, FULL, MARKET, NORMAL), BUY],
        [10, 5, 1, 1, 0],
        options={"max_position": 10.0},
        conviction=[1.0, 0.5, 0.01, 0.0, 0.0],
    ),
    sizing(
        "eight exposures",
        [0, 1, 2, 3, 4, 5, 6, 7],
        [-4, -2, -1, -1, 1, 2, 4, 0],
        options={"max_position": 4.0, "action_type": "discrete"},
    ),
    sizing(
        "a continuous target rounds to the lot, also to none",
        [[0.34], [-1.0], [0.04], [-0.05], [-0.04], [0.05]],
        [3, -10, 0, -1, 0, 1],
        options={"max_position": 10.0, "action_type": "continuous"},
    ),
]  # fmt: skip


@named(ROUND_TRIPS)
def test_round_trips(case: Case) -> None:
    check(case)


@named(COSTS)
def test_costs(case: Case) -> None:
    check(case)


@named(SIZES)
def test_sizes(case: Case) -> None:
    check(case)
