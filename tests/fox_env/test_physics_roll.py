"""Rolls: the position goes over to the next contract, the gap is nobody's profit, two sides are paid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from physics_play import actions_for, rollout, walk
from physics_scenario import (
    AGGRESSIVE,
    BUY,
    FREE,
    FULL,
    IOC,
    KEEP,
    LIMIT,
    LONG,
    NAN,
    NORMAL,
    SELL,
    Case,
    check,
    make_account,
    make_market,
    still,
)

GAPS = (5.0, -5.0)
SIDE = 2.0 + 0.125 * 50.0  # fee and half-spread of one contract and side, in money


def rolled(gap: float) -> list[tuple[float, float, float, float]]:
    return [*still(100, 100), *still(100 + gap, 100 + gap)]


CASES = [
    *(
        Case(
            f"a {name} position over a gap of {gap}: the entry moves along, two sides are paid",
            rolled(gap),
            [action, KEEP, KEEP],
            [
                {"position": 2 * side, "entry_price": 100 + side * 0.125, "equity": 100_000 - 2 * SIDE},
                {
                    "position": 2 * side,
                    "entry_price": 100 + side * 0.125 + gap,
                    "fees": 8,
                    "spread_cost": 25,
                    "cost": 4 * SIDE,
                    "equity": 100_000 - 6 * SIDE,
                    "fill_quantity": 0,
                    "trade_closed": 0,
                },
                {"cost": 0, "equity": 100_000 - 6 * SIDE},
            ],
            rolls={2: gap},
        )
        for gap in GAPS
        for name, side, action in (("long", 1, BUY), ("short", -1, SELL))
    ),
    Case(
        "a roll of a flat account costs nothing, and an order in its bar is filled in the new contract",
        rolled(5.0),
        [KEEP, BUY],
        [{"cost": 0}, {"fill_price": 105.125, "entry_price": 105.125, "cost": 2 * SIDE}],
        rolls={2: 5.0},
    ),
    Case(
        "the trade bears the cost of its rolls",
        [*rolled(5.0), *still(105)],
        [BUY, KEEP, SELL],
        [{}, {}, {"trade_closed": 1, "trade_return": -8 * SIDE / 100_000}],
        rolls={2: 5.0},
    ),
    Case(
        "a limit is measured from the close in the new contract's prices",
        [*still(100, 100), (105, 105, 104, 105)],
        [KEEP, (LONG, FULL, LIMIT, NORMAL)],
        [{}, {"fill_price": 104.75}],
        rolls={2: 5.0},
    ),
    Case(
        "and so is the tolerance of an IOC order",
        [*still(100, 100), *still(105, 104)],
        [KEEP, (LONG, FULL, IOC, AGGRESSIVE)],
        [{}, {"fill_price": 105.125}],
        rolls={2: 5.0},
    ),
    Case(
        "a gap that is not a roll is profit",
        rolled(5.0),
        [BUY, KEEP],
        [{}, {"equity": 100_000 + 2 * 5 * 50, "fill_price": NAN}],
        options=FREE,
    ),
    Case(
        "a rate of the notional is paid on both contracts' prices",
        rolled(50.0),
        [BUY, KEEP],
        [{}, {"fees": 2 * 1e-3 * (100 + 150) * 50}],
        options={**FREE, "fee_rate": 1e-3},
        rolls={2: 50.0},
    ),
    Case(
        "impact of both sides: 2 * 0.5 * 4 ticks * sqrt(4 / 10000)",
        [(100, 100.5, 99.5, 100)] * 2 + [(101, 101.5, 100.5, 101)],
        [BUY, KEEP],
        [{}, {"impact_cost": 4 * 2 * 0.04 * 12.5, "spread_cost": 0, "cost": 4 * (4 + 2 * 0.04 * 12.5)}],
        options={"max_position": 4.0, "impact_coef": 0.5, "half_spread_ticks": 0.0},
        volume=10_000.0,
        rolls={2: 1.0},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("seed", range(3))
def test_without_costs_a_series_with_rolls_earns_what_its_difference_adjusted_twin_earns(seed: int) -> None:
    prices, volume, minutes = walk(seed)
    rng = np.random.default_rng(seed)
    rolls = {
        int(bar): 0.25 * float(rng.integers(-40, 41)) for bar in rng.choice(np.arange(2, 400), 20, False)
    }
    gaps = np.zeros(len(prices))
    for bar, gap in rolls.items():
        gaps[bar] = gap
    spliced = prices + np.cumsum(gaps)[:, None]
    options: dict[str, Any] = {**FREE, "queue_prob": 0.25, "max_position": 10.0, "horizon": 120}
    actions = actions_for(seed, 380, 16)
    with_rolls, adjusted = (
        rollout(make_account(market, 16, **options), actions)
        for market in (
            make_market(spliced, volume, minutes, rolls=rolls),
            make_market(prices, volume, minutes),
        )
    )
    assert np.abs(np.diff(adjusted["equity"], axis=0)).max() > 100
    np.testing.assert_allclose(with_rolls["equity"], adjusted["equity"], rtol=1e-12)
    np.testing.assert_array_equal(with_rolls["position"], adjusted["position"])
    np.testing.assert_array_equal(with_rolls["order_status"], adjusted["order_status"])
