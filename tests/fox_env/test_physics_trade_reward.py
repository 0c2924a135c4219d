"""The trade reward: paid where trades end, and its shaping terms."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from physics_scenario import (
    BUY,
    CLOSE,
    FREE,
    KEEP,
    SELL,
    Case,
    check,
    make_account,
    make_market,
    named,
    play,
    still,
)

from fox_env import ConfigError, EnvConfig

UNIT: dict[str, Any] = {**FREE, "reward": "trade", "risk_unit": 100.0}
"""A move of 1.0 is 100 of money on two contracts: one risk unit."""


def shaped(*weights: float, **options: Any) -> dict[str, Any]:
    return {**UNIT, "shaping_scale": 1.0, "reward_weights": weights, **options}


CASES = [
    Case(
        "a trade is paid once, at its end",
        still(100, 100, 101, 103, 103),
        [BUY, KEEP, CLOSE],
        [{"reward": 0}, {"reward": 0}, {"reward": 3}],
        options=UNIT,
    ),
    Case(
        "losses are capped at -10, gains at 5",
        still(100, 100, 80, 100, 100),
        [BUY, CLOSE, BUY, SELL],
        [{"reward": 0}, {"reward": -10}, {"reward": 0}, {"reward": 0}],
        options={**UNIT, "horizon": 9},
    ),
    Case(
        "gains are capped at 5",
        still(100, 100, 120, 120),
        [BUY, CLOSE],
        [{"reward": 0}, {"reward": 5}],
        options=UNIT,
    ),
    Case(
        "a loser cannot be carried past the end",
        still(100, 100, 98, 98),
        [BUY, KEEP],
        [{"reward": 0}, {"reward": -2, "truncated": True, "position": 0}],
        options={**UNIT, "horizon": 2},
    ),
    Case(
        "a flip and a stop in one bar pay for both trades",
        [(100, 100.5, 99.5, 100)] * 20 + [(101, 104, 101, 104), (104, 104, 104, 104)],
        [BUY, SELL],
        # the long makes 1.0, the short sold at 101 is stopped 2 ATR of 1.0 above: 1 - 2 units
        [{"reward": 0}, {"trade_closed": 2, "reward": 1 - 2}],
        options={**UNIT, "trail_atr": (2.0, 2.0)},
        start=18,
    ),
    Case(
        "micro pays the change of the open profit and takes it back at the end",
        still(100, 100, 102, 101, 101),
        [BUY, KEEP, KEEP, CLOSE],
        [{"reward": 0}, {"reward": 1.0}, {"reward": -0.5}, {"reward": 0.5 - 0.5}],
        options=shaped(1, 0, 1, 0, 0),
    ),
    Case(
        "carry takes its price for a position without an order, whatever the action is called",
        still(100, 100, 100, 100, 100),
        [BUY, KEEP, BUY, CLOSE],
        [{"reward": 0}, {"reward": -0.05}, {"reward": -0.05}, {"reward": 0}],
        options=shaped(1, 0, 0, 1, 0, carry_price=0.1),
    ),
    Case(
        "path takes what a trade has given back beyond the free band",
        still(100, 100, 104, 103, 101, 101),
        [BUY, KEEP, KEEP, KEEP],
        [{"reward": 0}, {"reward": 0}, {"reward": 0}, {"reward": -1.0}],
        options=shaped(1, 1, 0, 0, 0),
    ),
    Case(
        "opportunity is booked at the next entry",
        still(100, 100, 103, 104, 104),
        [KEEP, KEEP, BUY],
        [{"reward": 0}, {"reward": 0}, {"reward": -0.5 * 4}],
        options=shaped(1, 0, 0, 0, 1),
    ),
    Case(
        "the half-spread of an entry is no missed move",
        still(100, 100, 100),
        [BUY],
        [{"reward": 0}],
        options=shaped(1, 0, 0, 0, 1, half_spread_ticks=2.0),
    ),
    Case(
        "a winner left early is paid less: 3 bars of 5 left, 3 / (3 + 50)",
        still(100, 100, 101, 102, 102),
        [BUY, KEEP, CLOSE],
        [{"reward": 0}, {"reward": 0}, {"reward": 2 * (1 - 3 / 53)}],
        options=shaped(1, 0, 0, 0, 0, min_hold_bars=5),
    ),
    Case(
        "the knob T makes it harder",
        still(100, 100, 101, 102, 102),
        [BUY, KEEP, CLOSE],
        [{"reward": 0}, {"reward": 0}, {"reward": 2 * (1 - 3 / 8)}],
        options=shaped(1, 0, 0, 0, 0, min_hold_bars=5),
        knobs={"early_exit_bars": 5.0},
    ),
    Case(
        "a loser left early is not",
        still(100, 100, 99, 98, 98),
        [BUY, KEEP, CLOSE],
        [{"reward": 0}, {"reward": 0}, {"reward": -2}],
        options=shaped(1, 0, 0, 0, 0, min_hold_bars=5),
    ),
    Case(
        "without shaping the trade term stands alone at weight 1",
        still(100, 100, 104, 103, 101, 101),
        [BUY, KEEP, KEEP, CLOSE],
        [{"reward": 0}, {"reward": 0}, {"reward": 0}, {"reward": 1}],
        options=shaped(1, 1, 1, 1, 1, shaping_scale=0.0),
    ),
    Case(
        "small weights count as the floor, the trade's too",
        still(100, 100, 102, 102, 102),
        [BUY, KEEP, CLOSE],
        [{"reward": 0}, {"reward": 0.5 * 2}, {"reward": 0.5 * 2 - 0.5 * 2}],
        options=shaped(0, 0, 0.01, 0, 0),
    ),
    Case(
        "the capital floor takes its penalty besides",
        still(100, 100, 50, 50),
        [BUY, KEEP],
        [{"reward": 0}, {"reward": -10 - 3, "terminated": True}],
        options=shaped(1, 0, 0, 0, 0, floor_penalty=3.0, capital_floor=0.99),
    ),
]


@named(CASES)
def test_case(case: Case) -> None:
    check(case)


def test_components_sum_to_the_reward_and_only_this_reward_has_them() -> None:
    market = make_market(still(100, 100, 104, 103, 101, 101, 99, 103, 102))
    options = shaped(1, 0.5, 0.2, 0.3, 0.4)
    steps = play(make_account(market, **options), [BUY, KEEP, KEEP, CLOSE, KEEP, SELL, CLOSE])
    for step in steps:
        assert step["reward_components"].shape == (5,)
        assert step["reward_components"].sum(dtype=np.float32) == pytest.approx(step["reward"], abs=1e-6)
    assert any(np.count_nonzero(step["reward_components"]) > 1 for step in steps)
    assert "reward_components" not in play(make_account(market), [BUY])[0]


def test_it_always_closes_at_the_end_and_leaves_no_trace_in_other_rewards() -> None:
    paid = EnvConfig(reward="trade")
    assert paid.sells_at_end
    for other in (paid.replace(reward="risk"), dataclasses.replace(paid, reward="risk")):
        assert other == EnvConfig(reward="risk") and not other.sells_at_end
    assert paid.replace(reward="risk", close_at_end=True).sells_at_end
    market = make_market(still(100, 100, 101))
    ends = [play(make_account(market, reward=reward), [BUY, KEEP])[-1] for reward in ("trade", "risk")]
    assert [step["position"] for step in ends] == [0.0, 2.0]


def test_event_reward_alone_favours_a_discounted_loss() -> None:
    """The documented weakness: with a discount a loser is better ended late, so a learner would hold it."""
    falling = make_market(still(100, 100, *[98] * 30))
    env = make_account(falling, **UNIT)
    discount = 0.95 ** np.arange(25)
    returns = []
    for held in (1, 20):
        rewards = [step["reward"] for step in play(env, [BUY, *[KEEP] * held, CLOSE, *[KEEP] * (23 - held)])]
        returns.append(float(np.dot(discount, rewards)))
    assert returns[0] < returns[1] < 0


def test_caps_pay_for_holding_losers_beyond_them() -> None:
    """The other documented weakness: one loss of 14 units costs 10, two of 7 cost 14."""
    market = make_market(still(100, 100, 93, 93, 86, 86))
    held, cut = ([BUY, KEEP, KEEP, CLOSE], [BUY, CLOSE, BUY, CLOSE])
    paid = [sum(step["reward"] for step in play(make_account(market, **UNIT), plan)) for plan in (held, cut)]
    assert paid == pytest.approx([-10.0, -14.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss_cap": 1.0}, "loss_cap=1.0 must be below 0"),
        ({"gain_cap": 0.0}, "gain_cap=0.0 must be above 0"),
        ({"reward_weights": (1, 2)}, "reward_weights=.* must be 5 finite numbers"),
        ({"early_exit_bars": 0.5}, "early_exit_bars=0.5 must be at least 1"),
        ({"reward": "profit"}, "reward='profit' must be one of return, risk, trade"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EnvConfig(**options)
