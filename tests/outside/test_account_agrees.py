"""The account against two other backtesters: every fill of a random play replayed through them, to a cent."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import backtesting_broker
import backtrader_broker
import pytest
from fox_play import MARKETS, Account, Outside, agree, play

PLAYS: dict[str, dict[str, Any]] = {
    "every order, cut by volume": {"participation": (0.005, 0.01, 0.02)},
    "stops, targets and session ends": {
        "participation": (1.0, 1.0, 1.0),
        "trail_atr": (1.5, 2.0),
        "profit_target_atr": 2.0,
        "queue_prob": 1.0,
        "flat_at_session_end": True,
    },
    "margin calls inside bars": {
        "initial_cash": 8_500.0,
        "margin": "intrabar",
        "capital_floor": 0.0,
        "participation": (1.0, 1.0, 1.0),
        "half_spread_ticks": 0.0,
        "impact_coef": 0.0,
    },
}


REASONS = {
    "every order, cut by volume": {"agent"},
    "stops, targets and session ends": {"agent", "stop", "target"},
    "margin calls inside bars": {"agent", "margin"},
}
CASES = [(market, name) for market in MARKETS for name in PLAYS if market == "a walk" or "margin" not in name]
"""Only the contract of the walk is held on a margin that the moves of a bar use up."""


@cache
def accounts(market: str, name: str) -> list[Account]:
    options = {
        "initial_cash": 1e6,
        "max_position": 8.0,
        "close_at_end": False,
        "margin": False,
        **PLAYS[name],
    }
    return play(MARKETS[market](), accounts=2, seed=11, **options)


@pytest.mark.parametrize("replay", [backtrader_broker.replay, backtesting_broker.replay])
@pytest.mark.parametrize(("market", "name"), CASES)
def test_other_programs_keep_the_same_account(
    market: str, name: str, replay: Callable[[Account], Outside]
) -> None:
    for fox in accounts(market, name):
        assert len(fox.trades) > 50
        assert REASONS[name] <= set(fox.trades["reason"])
        agree(fox, replay(fox))
