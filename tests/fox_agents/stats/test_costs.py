"""Costs multiplied: closed forms on a market with known trades, and the multiple at which nothing is left."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import fox_agents
from fox_agents import evaluate
from fox_agents.rules import BuyAndHold, Flat
from fox_agents.stats import break_even, cost_sensitivity
from fox_agents.stats.costs import with_costs
from fox_env import Bars, ContractSpec, EnvConfig, Market, synthetic
from fox_env.errors import ConfigError

CLOSES = (100.0, 101.0, 103.0, 109.0)
RULES = EnvConfig(max_position=2.0, initial_cash=10_000.0, margin=False, close_at_end=True)


def market_of(*closes: float, **fees: Any) -> Market:
    close = np.array(closes)
    opened = np.concatenate([close[:1], close[:-1]])
    ts = np.arange(len(close)) * 60_000_000_000 + 1_700_000_000_000_000_000
    bars = Bars.from_arrays(ts, opened, np.maximum(opened, close), np.minimum(opened, close), close, None)
    spec = ContractSpec(symbol="T", tick_size=0.25, multiplier=10.0, **fees)
    return Market.from_bars(bars, contract=spec, warmup=0, cache=False)


@pytest.mark.parametrize(
    ("contract", "options"),
    [
        ({"fee_per_side": 2.0}, {}),
        ({"fee_per_side": 77.0}, {"fee_per_side": 2.0}),
        ({"fee_rate": 1e-3}, {}),
        ({"fee_per_side": 9.0, "close_today_fee": 1.0, "close_today_rate": 1e-3}, {}),
    ],
)
def test_every_cost_is_multiplied_whether_it_is_the_contracts_or_the_options(
    contract: dict[str, float], options: dict[str, float]
) -> None:
    """Two contracts bought at 100 and sold at 109 gain 180 before costs; half a tick of spread is 1.25 each."""
    market, rules = market_of(*CLOSES, **contract), RULES.replace(**options)
    free, once, twice = cost_sensitivity(BuyAndHold(), market, rules)
    own = evaluate(BuyAndHold(), market, rules).metrics
    assert [point.multiple for point in (free, once, twice)] == [0.0, 1.0, 2.0]
    assert free.costs == 0.0 and free.total_return == pytest.approx(180.0 / 10_000)
    assert once.costs == own["costs"] > 4 * 1.25 and once.sharpe == own["sharpe"]
    # A fee that is a share of the price is paid on the fill, which the spread has moved by half a tick.
    assert twice.costs == pytest.approx(2 * once.costs, rel=2e-3)
    for point in (once, twice):
        assert point.total_return == pytest.approx((180.0 - point.costs) / 10_000)


def test_a_rebate_and_the_impact_are_multiplied_too() -> None:
    market = market_of(*CLOSES, fee_per_side=2.0, maker_fee=-0.5)
    priced, rules = with_costs(market, RULES.replace(maker_fee=-0.25, impact_coef=0.4), 3.0)
    assert priced.contract == dataclasses.replace(market.contract, fee_per_side=6.0, maker_fee=-1.5)
    assert (rules.maker_fee, rules.half_spread_ticks) == (-0.75, 1.5)
    assert rules.impact_coef == pytest.approx(1.2)
    assert rules.fee_per_side is None and rules.fee_rate is None  # left to the contract


def test_a_policy_trained_under_other_costs_is_played_all_the_same() -> None:
    agent: Any = Flat()
    agent.env_config = EnvConfig(half_spread_ticks=1.0)
    points = cost_sensitivity(agent, market_of(*CLOSES), multiples=(0.5,))
    assert points == ((0.5, 0.0, 0.0, 0.0),)


def test_a_random_rule_meets_the_same_draws_at_every_multiple() -> None:
    market = synthetic.regimes(seed=2, sessions=2)
    agent = fox_agents.make("random", config={"seed": 1})
    first, second = cost_sensitivity(agent, market, multiples=(1.0, 1.0))
    assert first == second
    assert first.total_return == evaluate(agent, market).metrics["total_return"]


@pytest.mark.parametrize("multiple", [-1.0, float("nan"), float("inf")])
def test_a_multiple_that_is_none_is_refused(multiple: float) -> None:
    with pytest.raises(ConfigError, match="multiple"):
        cost_sensitivity(Flat(), market_of(*CLOSES), multiples=(multiple,))


def test_nothing_is_left_at_the_break_even_multiple() -> None:
    market = market_of(*CLOSES, fee_per_side=2.0)
    multiple = break_even(evaluate(BuyAndHold(), market, RULES))
    assert multiple == pytest.approx(180.0 / (4 * (1.25 + 2.0)))
    (point,) = cost_sensitivity(BuyAndHold(), market, RULES, multiples=(multiple,))
    assert point.total_return == pytest.approx(0.0, abs=1e-12)


def test_there_is_none_without_a_gross_profit_or_without_costs() -> None:
    assert break_even(evaluate(BuyAndHold(), market_of(*CLOSES[::-1]), RULES)) is None
    assert break_even(evaluate(Flat(), market_of(*CLOSES), RULES)) is None
    free = RULES.replace(half_spread_ticks=0.0)
    assert break_even(evaluate(BuyAndHold(), market_of(*CLOSES), free)) is None
