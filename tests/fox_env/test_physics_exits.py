"""Trailing stops and profit targets: their levels, what they fill at, and the order of events inside a bar."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from physics_scenario import (
    AGGRESSIVE,
    BUY,
    FREE,
    FULL,
    HALF,
    KEEP,
    LIMIT,
    LONG,
    MARKET,
    NORMAL,
    PATIENT,
    SELL,
    SHORT,
    Case,
    check,
    make_account,
    make_market,
    play,
)

from fox_env import ConfigError, EnvConfig, _layout
from fox_env._layout import ExitReason, OrderStatus

CALM = (100, 100.5, 99.5, 100)  # one bar: ATR 4 ticks, 1.0 of price
STOPS: dict[str, Any] = {**FREE, "trail_atr": (2.0, 2.0)}
TARGETS: dict[str, Any] = {**FREE, "profit_target_atr": 2.0}
BOTH: dict[str, Any] = {**STOPS, "profit_target_atr": 2.0}
SURE: dict[str, Any] = {"queue_prob": 1.0}


def after(*bars: tuple[float, float, float, float]) -> list[tuple[float, float, float, float]]:
    """Twenty calm bars, then others; decided on the close of bar 18, so that bar 19 is the entry's."""
    return [CALM] * 20 + list(bars)


def case(name: str, bars: Any, actions: Any, steps: Any, options: Any, **more: Any) -> Case:
    return Case(name, after(*bars), actions, steps, options=options, start=18, **more)


CASES = [
    case(
        "a long stop lies 2 ATR below the fill and fills at its level",
        [(99, 99, 97, 98)],
        [BUY, KEEP],
        [{"position": 2}, {"position": 0, "exit_reason": ExitReason.STOP, "equity": 100_000 - 2 * 2 * 50}],
        STOPS,
        trades=[{"exit_price": 98.0, "reason": "stop", "r": -1.0}],
    ),
    case(
        "a short stop mirrors it",
        [(101, 103, 101, 102)],
        [SELL, KEEP],
        [{"position": -2}, {"position": 0, "exit_reason": ExitReason.STOP, "equity": 100_000 - 2 * 2 * 50}],
        STOPS,
        trades=[{"exit_price": 102.0, "side": -1}],
    ),
    case(
        "an open beyond the stop fills at the open",
        [(97, 97, 96, 96)],
        [BUY, KEEP],
        [{}, {"position": 0, "equity": 100_000 - 2 * 3 * 50}],
        STOPS,
    ),
    case(
        "a stop touched exactly is filled, and pays half-spread and fee",
        [(99, 99, 97.75, 98)],
        [BUY, KEEP],
        [{}, {"position": 0, "fees": 4, "spread_cost": 12.5, "cost": 16.5}],
        {"trail_atr": (None, 2.25)},
        trades=[{"exit_price": 97.625}],
    ),
    case(
        "the level of a fill between ticks is floored: 100.125 - 2 = 98.125 -> 98",
        [(99, 99, 98.25, 99), (99, 99, 98, 99)],
        [BUY, KEEP, KEEP],
        [{}, {"position": 2}, {"position": 0}],
        {"trail_atr": (None, 2.0)},
    ),
    case(
        "a market entry's stop is live in the bar of the entry",
        [(100, 100, 97, 99)],
        [KEEP, BUY],
        [{}, {"position": 0, "trade_closed": 1, "exit_reason": ExitReason.STOP, "fill_quantity": 2}],
        STOPS,
    ),
    case(
        "the stop follows the best close by the ATR of the entry and never goes back",
        [(103, 104, 102.5, 104), (103, 103, 102.5, 103), (102.5, 102.5, 101, 102)],
        [BUY, KEEP, KEEP, KEEP],
        [{}, {}, {"position": 2}, {"position": 0, "equity": 100_000 + 2 * 2 * 50}],
        STOPS,
        trades=[{"exit_price": 102.0}],
    ),
    case(
        "adding to a position keeps the level",
        [(101, 101.5, 100.5, 101), (101, 101, 98.5, 99), (99, 99, 97.5, 98)],
        [(LONG, HALF, MARKET, NORMAL), BUY, KEEP, KEEP],
        [{"position": 1}, {"position": 2}, {"position": 0}, {}],
        STOPS,
        trades=[{"exit_price": 99.0}],
    ),
    case(
        "an order of the same bar to close at the open comes before the stop",
        [(99, 99, 97, 98)],
        [BUY, (3, FULL, MARKET, NORMAL)],
        [{}, {"position": 0, "exit_reason": ExitReason.AGENT, "equity": 100_000 - 2 * 50}],
        STOPS,
    ),
    case(
        "the stop wins over a resting exit, whose order is cancelled",
        [(100, 102, 97, 100)],
        [BUY, (3, FULL, LIMIT, PATIENT)],
        [{}, {"position": 0, "exit_reason": ExitReason.STOP, "order_status": OrderStatus.UNFILLED}],
        STOPS,
    ),
    case(
        "what the stop closed is not opened again by a resting order",
        [(100, 102, 97, 100)],
        [BUY, (SHORT, FULL, LIMIT, PATIENT)],
        [{}, {"position": 0, "trade_closed": 1, "fill_quantity": 0}],
        STOPS,
    ),
    case(
        "an order that adds before the stop is filled on the way to it and stopped out too",
        [(100, 100, 97, 100)],
        [(LONG, HALF, MARKET, NORMAL), (LONG, FULL, LIMIT, NORMAL)],
        [{}, {"fill_price": 99.75, "fill_quantity": 1, "position": 0, "equity": 100_000 - (2.0 + 1.75) * 50}],
        STOPS,
    ),
    case(
        "one that would add beyond the stop is cancelled by it",
        [(99, 99, 96, 97)],
        [(LONG, HALF, MARKET, NORMAL), (LONG, FULL, LIMIT, PATIENT)],
        [{}, {"fill_quantity": 0, "position": 0, "equity": 100_000 - 2.0 * 50}],
        {**STOPS, "limit_offset_ticks": (12.0, 1.0, 0.0)},
    ),
    case(
        "after a resting entry the stop is live in that bar",
        [(100, 100, 97, 100)],
        [KEEP, (LONG, FULL, LIMIT, NORMAL)],
        [
            {},
            {
                "fill_price": 99.75,
                "position": 0,
                "exit_reason": ExitReason.STOP,
                "equity": 100_000 - 2 * 2 * 50,
            },
        ],
        STOPS,
    ),
    case(
        "after a resting entry the target is not",
        [(100, 104, 99.25, 100), (100, 104, 100, 104)],
        [KEEP, (LONG, FULL, LIMIT, NORMAL), KEEP],
        [{}, {"position": 2, "trade_closed": 0}, {"position": 0, "exit_reason": ExitReason.TARGET}],
        TARGETS,
        trades=[{"entry_price": 99.75, "exit_price": 101.75}],
    ),
    case(
        "a target traded through fills at its price with the maker's fee, also where the bar opens beyond it",
        [(103, 104, 102.5, 103)],
        [BUY, KEEP],
        [{}, {"position": 0, "exit_reason": ExitReason.TARGET, "fees": 2 * 0.5, "spread_cost": 0}],
        {"profit_target_atr": 2.0, "maker_fee": 0.5},
        trades=[{"exit_price": 102.25}],
    ),
    case(
        "a target touched exactly needs luck in the queue",
        [(101, 102, 101, 102)],
        [BUY, KEEP],
        [{}, {"position": 2}],
        TARGETS,
    ),
    case(
        "and has it where every touch fills",
        [(101, 102, 101, 102)],
        [BUY, KEEP],
        [{}, {"position": 0}],
        {**TARGETS, **SURE},
    ),
    case(
        "with both in reach of the bar the stop counts",
        [(100, 104, 97, 100)],
        [BUY, KEEP],
        [{}, {"exit_reason": ExitReason.STOP}],
        BOTH,
    ),
    case(
        "a resting exit nearer than the target goes first, the rest at the target",
        [(100, 104, 100, 103)],
        [BUY, (LONG, HALF, LIMIT, PATIENT)],
        [{}, {"fill_price": 100.5, "fill_quantity": -1, "position": 0, "exit_reason": ExitReason.TARGET}],
        TARGETS,
        trades=[{"pnl": (0.5 + 2.0) * 50}],
    ),
    case(
        "a target nearer than the resting exit goes first and cancels it",
        [(100, 104, 100, 103)],
        [BUY, (3, FULL, LIMIT, PATIENT)],
        [
            {},
            {
                "fill_quantity": 0,
                "position": 0,
                "exit_reason": ExitReason.TARGET,
                "equity": 100_000 + 2 * 0.75 * 50,
            },
        ],
        {**FREE, "profit_target_atr": 0.75, "limit_offset_ticks": (4.0, 1.0, 0.0)},
    ),
    case(
        "a resting flip and the stop of the new trade end two trades in one bar",
        [(100, 103, 100, 101)],
        [BUY, (SHORT, FULL, LIMIT, PATIENT)],
        [{}, {"trade_closed": 2, "position": 0, "equity": 100_000 + 2 * (0.5 - 2.0) * 50}],
        STOPS,
        trades=[{"side": 1, "reason": "agent"}, {"side": -1, "reason": "stop", "exit_price": 102.5}],
    ),
    case(
        "a bar without volume trades neither",
        [(100, 104, 97, 100), (99, 99, 97, 98)],
        [BUY, KEEP, KEEP],
        [{}, {"position": 2}, {"position": 0}],
        BOTH,
        volume=[1e6] * 20 + [0.0, 1e6],
    ),
    case(
        "levels roll into the next contract",
        [(105, 105.5, 104.5, 105), (104, 104, 102.5, 103)],
        [BUY, KEEP, KEEP],
        [{}, {"position": 2}, {"position": 0, "exit_reason": ExitReason.STOP}],
        STOPS,
        rolls={20: 5.0},
        trades=[{"exit_price": 103.0}],
    ),
    case(
        "sides have stops of their own: shorts none",
        [(101, 110, 101, 110)],
        [SELL, KEEP],
        [{}, {"position": -2}],
        {**FREE, "trail_atr": (None, 2.0)},
    ),
    case(
        "R counts the stop's multiple, of the other side risk_atr",
        [(99, 99, 98.5, 99), (99, 99, 99, 99)],
        [SELL, KEEP, (3, FULL, MARKET, AGGRESSIVE)],
        [{}, {}, {"trade_r": 1.0 / 4.0}],
        {**FREE, "trail_atr": (None, 2.0), "risk_atr": 4.0},
    ),
]


THIN: dict[str, Any] = {**FREE, "initial_cash": 3_000.0}
CASES += [
    case(
        "with intrabar margin the adverse extreme is enough for a call, and is the price",
        [(100, 100, 85, 99), (99, 99, 99, 99)],
        [BUY, KEEP, KEEP],
        [
            {},
            {"position": 0, "exit_reason": ExitReason.MARGIN, "equity": 3_000 - 2 * 15 * 50},
            {"position": 0},
        ],
        {**THIN, "margin": "intrabar"},
        trades=[{"exit_price": 85.0, "reason": "margin"}],
    ),
    case(
        "a short's adverse extreme is the high",
        [(100, 115, 100, 101)],
        [SELL, KEEP],
        [{}, {"position": 0, "exit_reason": ExitReason.MARGIN, "equity": 3_000 - 2 * 15 * 50}],
        {**THIN, "margin": "intrabar"},
    ),
    case(
        "checked at the close alone the same bar is survived",
        [(100, 100, 85, 99)],
        [BUY, KEEP],
        [{}, {"position": 2}],
        {**THIN, "margin": "close"},
    ),
    case(
        "a stop comes before the margin call of the same bar",
        [(100, 100, 85, 99)],
        [BUY, KEEP],
        [{}, {"exit_reason": ExitReason.STOP, "equity": 3_000 - 2 * 2 * 50}],
        {**THIN, "margin": "intrabar", "trail_atr": (None, 2.0)},
    ),
    case(
        "nothing is held over a session's end: sold at its last close, with costs",
        [(101, 101, 101, 101), (102, 102, 102, 102), (110, 110, 110, 110)],
        [BUY, KEEP, KEEP, KEEP],
        [
            {"position": 2},
            {"position": 2},
            {"position": 0, "exit_reason": ExitReason.SESSION, "cost": 16.5},
            {"position": 0, "cost": 0},
        ],
        {"flat_at_session_end": True},
        minutes=[*range(22), 600],
        trades=[{"exit_price": 101.875, "reason": "session"}],
    ),
    case(
        "an order filled in a session's last bar is closed there",
        [(101, 101, 101, 101), (102, 102, 102, 102)],
        [KEEP, BUY],
        [{}, {"fill_quantity": 2, "position": 0, "trade_closed": 1}],
        {**FREE, "flat_at_session_end": True},
        minutes=[*range(21), 600],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    check(case)


def test_the_distance_to_the_stop_is_observed() -> None:
    env = make_account(make_market(after((101, 101.5, 100.5, 101))), **STOPS)
    steps = play(env, [BUY, KEEP], start=18)
    entry = int(_layout.Observation.PORTFOLIO + _layout.Portfolio.STOP_DISTANCE)
    assert steps[0]["before"][entry] == 0.0
    assert steps[0]["obs"][entry] == pytest.approx(2.0)
    assert steps[1]["obs"][entry] == pytest.approx(2.0, rel=0.1)  # followed the close by 2 ATR of the entry


def test_infinity_is_no_stop() -> None:
    config = EnvConfig(trail_atr=(float("inf"), None), profit_target_atr=float("inf"))
    assert config == EnvConfig() and not config.has_exits


@pytest.mark.parametrize(
    "option",
    [{"trail_atr": 2.0}, {"trail_atr": (2.0,)}, {"trail_atr": (0.0, 2.0)}, {"profit_target_atr": -1.0},
     {"trail_atr": ("a", None)}, {"profit_target_atr": float("nan")}],
)  # fmt: skip
def test_wrong_multiples_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"EnvConfig.{next(iter(option))}="):
        EnvConfig(**option)


def test_levels_that_are_never_reached_change_no_bit() -> None:
    rng = np.random.default_rng(0)
    market = make_market(after(*[CALM] * 200))
    far: dict[str, Any] = {"trail_atr": (1e6, 1e6), "profit_target_atr": 1e6, "max_position": 4.0}
    with_exits, without = (
        make_account(market, 8, **{**options, "risk_atr": 1e6}) for options in (far, {"max_position": 4.0})
    )
    for env in (with_exits, without):
        env.reset(seed=0)
    stop = int(_layout.Observation.PORTFOLIO + _layout.Portfolio.STOP_DISTANCE)
    for _ in range(150):
        actions = np.stack([rng.integers(0, k, 8) for k in (4, 3, 3, 3)], -1)
        a, b = with_exits.step(actions), without.step(actions)
        np.testing.assert_array_equal(np.delete(a[0], stop, 1), np.delete(b[0], stop, 1))
        for name in ("equity", "cash", "position", "trade_r", "cost"):
            np.testing.assert_array_equal(a[4][name], b[4][name])
