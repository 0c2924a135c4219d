"""What every kind of order gets, with hand-computed values: the decision closes at 100."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from physics_scenario import (
    AGGRESSIVE,
    FULL,
    IOC,
    LIMIT,
    LONG,
    MARKET,
    NAN,
    NORMAL,
    PATIENT,
    SHORT,
    Case,
    check,
    make_account,
    make_market,
    named,
    still,
)

from fox_env._layout import OrderStatus

_CLOSED = (100.0, 100.0, 100.0, 100.0)


def fill(
    name: str, action: Any, bar: Any, price: float, quantity: float, status: OrderStatus, **rest: Any
) -> Case:
    options = {"max_position": 10.0, **rest.pop("options", {})}
    cost = rest.pop("cost", None)
    if rest.pop("gap", False):
        bars, rest["minutes"], rest["start"] = [_CLOSED] * 3 + [bar], [0, 1, 2, 600], 2
    else:
        bars = [rest.pop("decision", _CLOSED), bar]
    wanted = {"fill_price": price, "fill_quantity": quantity, "position": quantity, "order_status": status}
    wanted |= {} if cost is None else {"cost": cost}
    return Case(name, bars, [action], [wanted], options=options, **rest)


FILLED, UNFILLED = OrderStatus.FILLED, OrderStatus.UNFILLED
WIDE_SPREAD = {"options": {"half_spread_ticks": 1.0}}
MIDDLE = (100, 101, 99, 100)  # 396 to 404 ticks
THIN = {"options": {"participation": (0.1, 0.1, 0.1)}, "volume": 100.0}

LIMITS = [
    fill("buy patient: two ticks below", (LONG, FULL, LIMIT, PATIENT), MIDDLE, 99.5, 10, FILLED, cost=20),
    fill("buy normal: one tick below", (LONG, FULL, LIMIT, NORMAL), MIDDLE, 99.75, 10, FILLED, cost=20),
    fill("sell patient: two ticks above", (SHORT, FULL, LIMIT, PATIENT), MIDDLE, 100.5, -10, FILLED, cost=20),
    fill("sell normal: one tick above", (SHORT, FULL, LIMIT, NORMAL), MIDDLE, 100.25, -10, FILLED, cost=20),
    fill("buy aggressive: at the close", (LONG, FULL, LIMIT, AGGRESSIVE), MIDDLE, 100, 10, FILLED, cost=20),
    fill("sell aggressive: at the close", (SHORT, FULL, LIMIT, AGGRESSIVE), MIDDLE, 100, -10, FILLED, cost=20),
    fill("not reached", (LONG, FULL, LIMIT, PATIENT), (100, 100, 99.75, 100), NAN, 0, UNFILLED, cost=0),
    fill("not reached by a sell", (SHORT, FULL, LIMIT, PATIENT), (100, 100.25, 99, 100), NAN, 0, UNFILLED),
    fill("only touched", (LONG, FULL, LIMIT, PATIENT), (100, 101, 99.5, 100), NAN, 0, UNFILLED),
    fill("only touched by a sell", (SHORT, FULL, LIMIT, PATIENT), (100, 100.5, 99, 100), NAN, 0, UNFILLED),
    fill(
        "touched, and first in the queue",
        (SHORT, FULL, LIMIT, PATIENT), (100, 100.5, 99, 100), 100.5, -10, FILLED, options={"queue_prob": 1.0},
    ),
    fill(
        "the open's price with its spread is exactly the limit: taker",
        (LONG, FULL, LIMIT, AGGRESSIVE), (99.75, 101, 99.75, 100), 100, 10, FILLED, cost=145, **WIDE_SPREAD,
    ),
    fill(
        "the open's price with its spread is beyond the limit: rests, traded through",
        (LONG, FULL, LIMIT, AGGRESSIVE), (100, 101, 99.75, 100), 100, 10, FILLED, cost=20, **WIDE_SPREAD,
    ),
    fill(
        "opens at the limit and never trades below: only touched",
        (LONG, FULL, LIMIT, AGGRESSIVE), (100, 101, 100, 100), NAN, 0, UNFILLED, **WIDE_SPREAD,
    ),
    fill(
        "opens far through the limit: the open's price, not the limit",
        (SHORT, FULL, LIMIT, PATIENT), (105, 106, 104, 105), 104.875, -10, FILLED, cost=82.5,
    ),
    fill(
        "a buy limit off the grid rounds down",
        (LONG, FULL, LIMIT, AGGRESSIVE), (100.25, 100.25, 99.75, 100), 100, 10, FILLED,
        decision=(100.1, 100.1, 100.1, 100.1),
    ),
    fill(
        "a sell limit off the grid rounds up",
        (SHORT, FULL, LIMIT, AGGRESSIVE), (100, 100.5, 100, 100), 100.25, -10, FILLED,
        decision=(100.1, 100.1, 100.1, 100.1),
    ),
    fill(
        "a buy gets the share of the volume below it: 10 * 4 / 9",
        (LONG, FULL, LIMIT, NORMAL), MIDDLE, 99.75, 4, OrderStatus.PARTIAL, **THIN,
    ),
    fill(
        "a sell gets the share of the volume above it: 10 * 3 / 9",
        (SHORT, FULL, LIMIT, PATIENT), MIDDLE, 100.5, -3, OrderStatus.PARTIAL, **THIN,
    ),
    fill("no volume, no fill", (LONG, FULL, LIMIT, NORMAL), MIDDLE, NAN, 0, UNFILLED, volume=[1e6, 0.0]),
]  # fmt: skip


def ioc(side: int, urgency: int, ticks: int, filled: bool) -> Case:
    """An IOC order where the next bar opens some ticks beyond the close, against the order."""
    sign = 1 if side == LONG else -1
    price = 100 + sign * ticks * 0.25
    got = (price + sign * 0.125, sign * 10, FILLED) if filled else (NAN, 0, UNFILLED)
    name = f"{'buy' if sign > 0 else 'sell'}, urgency {urgency}, open {ticks} ticks against"
    return fill(name, (side, FULL, IOC, urgency), still(price)[0], *got, cost=82.5 if filled else 0)


TAKERS = [
    ioc(side, urgency, ticks, ticks <= tolerance)
    for side in (LONG, SHORT)
    for urgency, tolerance in ((PATIENT, 0), (NORMAL, 1), (AGGRESSIVE, 2))
    for ticks in (-8, 0, 1, 2, 3)
]
TAKERS += [
    fill("the share is of the execution bar's volume", (LONG, FULL, MARKET, NORMAL), _CLOSED, 100.125, 2,
         OrderStatus.PARTICIPATION, options={"participation": (0.1, 0.1, 0.1)}, volume=[80.0, 20.0]),
]  # fmt: skip
TAKERS += [
    fill("market: the whole share", (LONG, FULL, MARKET, NORMAL), _CLOSED, 100.125, 5, OrderStatus.PARTICIPATION,
         options={"participation": (0.05, 0.05, 0.05)}, volume=119.0),
    fill("a share that binary rounding puts just below a lot", (LONG, FULL, MARKET, NORMAL), _CLOSED, 100.125, 29,
         OrderStatus.PARTICIPATION, options={"participation": (0.29, 0.29, 0.29), "max_position": 50.0}, volume=100.0),
    fill("IOC: half the share", (LONG, FULL, IOC, NORMAL), _CLOSED, 100.125, 2, OrderStatus.PARTIAL,
         options={"participation": (0.05, 0.05, 0.05)}, volume=119.0),
    fill("a share below one lot gives a lot", (SHORT, FULL, MARKET, NORMAL), _CLOSED, 99.875, -1,
         OrderStatus.PARTICIPATION, options={"participation": (0.05, 0.05, 0.05)}, volume=3.0),
    fill("no volume, no fill", (LONG, FULL, MARKET, AGGRESSIVE), _CLOSED, NAN, 0, UNFILLED, cost=0,
         volume=[1e6, 0.0]),
]  # fmt: skip
TAKERS += [
    fill(f"urgency {urgency} takes its own share", (LONG, FULL, MARKET, urgency), _CLOSED, 100.125, lots,
         OrderStatus.PARTICIPATION, options={"participation": (0.01, 0.03, 0.07)}, volume=100.0)
    for urgency, lots in ((PATIENT, 1), (NORMAL, 3), (AGGRESSIVE, 7))
]  # fmt: skip
GAPS = [
    fill(f"order type {kind} over a session gap", (LONG, FULL, kind, AGGRESSIVE), (99, 100, 98, 99), *got,
         gap=True)
    for kind, got in (
        (MARKET, (99.125, 10, FILLED)), (LIMIT, (NAN, 0, UNFILLED)), (IOC, (NAN, 0, UNFILLED)),
    )
]  # fmt: skip


@named(LIMITS)
def test_limit_orders(case: Case) -> None:
    check(case)


@named(TAKERS)
def test_market_and_ioc_orders(case: Case) -> None:
    check(case)


@named(GAPS)
def test_only_market_orders_survive_a_session_gap(case: Case) -> None:
    check(case)


def test_touched_limits_are_filled_as_often_as_the_queue_probability_says() -> None:
    bars = [_CLOSED] + [(100, 101, 100, 100)] * 400
    count = 500
    env = make_account(make_market(bars), count, queue_prob=0.25)
    env.reset(seed=3, options={"start": [0] * count})
    _, _, _, _, info = env.step(np.tile([LONG, FULL, LIMIT, AGGRESSIVE], (count, 1)))
    share = float((info["position"] != 0).mean())
    assert abs(share - 0.25) < 4 * math.sqrt(0.25 * 0.75 / count)


def test_every_episode_has_its_own_place_in_the_queue() -> None:
    count = 400
    env = make_account(make_market([_CLOSED, (100, 101, 100, 100), _CLOSED]), count, queue_prob=0.5)
    order = np.tile([LONG, FULL, LIMIT, AGGRESSIVE], (count, 1))
    filled = []
    for seed in (3, None, 3):
        env.reset(seed=seed, options={"start": [0] * count})
        filled.append(env.step(order)[-1]["position"] != 0)
    assert abs(float((filled[0] == filled[1]).mean()) - 0.5) < 4 * math.sqrt(0.25 / count)
    np.testing.assert_array_equal(filled[0], filled[2])
