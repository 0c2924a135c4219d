"""The entries of the observation that the physics writes, and random draws, with values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from physics_scenario import (
    BUY,
    CLOSE,
    FULL,
    HOLD,
    KEEP,
    LIMIT,
    LONG,
    PATIENT,
    make_account,
    make_market,
    play,
)

from fox_env._layout import Context, Observation, Portfolio

# Every bar spans 1.0 of price, which is 4 ticks, so that the average true range is 4 ticks on every bar.
QUIET = [(100.0, 100.5, 99.5, 100.0)] * 40
COSTS: dict[str, Any] = {"max_position": 4.0, "impact_coef": 0.5, "half_spread_ticks": 0.5}


def context(obs: Any) -> Any:
    return obs[Observation.CONTEXT : Observation.SIZE]


def portfolio(obs: Any) -> Any:
    return obs[Observation.PORTFOLIO : Observation.CONTEXT]


def observed(scale: float = 1.0) -> dict[int, float]:
    """Cost levels of the quiet market with 10,000 contracts a bar, at a factor on spread and impact."""
    return {
        Context.SPREAD: scale * 0.5 / 4,
        Context.FEE: 2.0 / (4 * 12.5),
        Context.IMPACT: scale * 0.5 * math.sqrt(4 / 10_000),
        Context.TICK: 1 / 4,
    }


def test_the_context_shows_the_costs_in_force() -> None:
    env = make_account(make_market(QUIET, 10_000.0), **COSTS)
    obs, _ = env.reset(seed=0, options={"start": [30]})
    for entry, value in observed().items():
        assert context(obs[0])[entry] == pytest.approx(value, rel=1e-6)
    assert not context(obs[0])[Context.USED :].any()
    assert not portfolio(obs[0])[Portfolio.USED :].any()


def test_the_context_shows_the_saboteurs_costs_while_it_acts() -> None:
    env = make_account(make_market(QUIET, 10_000.0), **COSTS, exploration_scale=1.0, saboteur=(3.0, 3.0))
    obs, _ = env.reset(seed=0, options={"start": [30]})
    for entry, value in observed(3.0).items():
        assert context(obs[0])[entry] == pytest.approx(value, rel=1e-6)
    env.set_knob("exploration_scale", 0.0)
    obs, *_ = env.step(np.array([KEEP]))
    assert context(obs[0])[Context.SPREAD] == pytest.approx(observed()[Context.SPREAD], rel=1e-6)


def test_episode_progress_is_steps_over_the_horizon() -> None:
    env = make_account(make_market(QUIET), horizon=8)
    steps = play(env, [KEEP] * 3)
    seen = [context(step["obs"])[Context.EPISODE_PROGRESS] for step in steps]
    assert seen == pytest.approx([1 / 8, 2 / 8, 3 / 8])


def test_session_progress_is_the_markets() -> None:
    market = make_market(QUIET, minutes=np.arange(40) + 600 * (np.arange(40) // 10))
    steps = play(make_account(market), [KEEP] * 35)
    seen = [context(step["obs"])[Context.SESSION_PROGRESS] for step in steps]
    assert seen == pytest.approx(market.columns.session_progress[1:36])
    assert len(set(seen)) > 5


def test_the_open_trade_is_shown_in_units_of_its_risk() -> None:
    """Long 2 at 100; a bar from 98 to 103 closing at 101: worst -200, best +300, open +100 of money.

    The risk is 2 ATR of 4 ticks, 2 contracts, 12.5 a tick: 200. Without costs.
    """
    bars = [*QUIET, (100.0, 100.5, 99.5, 100.0), (100.0, 103.0, 98.0, 101.0), (101.0, 101.0, 101.0, 101.0)]
    env = make_account(make_market(bars), half_spread_ticks=0.0, fee_per_side=0.0)
    step = play(env, [BUY, KEEP], start=39)[-1]
    assert step["equity"] == 100_100.0
    seen = portfolio(step["obs"])
    assert seen[Portfolio.TRADE_MAE_R] == pytest.approx(-1.0)
    assert seen[Portfolio.TRADE_MFE_R] == pytest.approx(1.5)
    assert seen[Portfolio.TRADE_RETURN] == pytest.approx(100 * 100 / 100_100, rel=1e-6)


def test_a_resting_fill_inside_a_trade_does_not_hide_the_bars_extremes() -> None:
    """Long 2 at 100 through a bar from 104 to 90: worst -1,000 and best +400 of money, whatever is filled in it."""
    bars = [(100.0, 100.0, 100.0, 100.0), (100.0, 100.0, 100.0, 100.0), (100.0, 104.0, 90.0, 101.0), *QUIET]
    env = make_account(make_market(bars), half_spread_ticks=0.0, fee_per_side=0.0, max_position=4.0)
    half = (LONG, 1, 0, 1)
    steps = play(env, [half, (LONG, FULL, LIMIT, PATIENT), CLOSE])
    assert steps[1]["fill_price"] == 99.5
    trade = env.trades().to_dicts()[0]
    assert trade["mae"] <= -1_000.0 and trade["mfe"] >= 400.0


def test_a_liquidation_pays_spread_and_impact() -> None:
    """Three contracts sold at the close of 86: half a tick and 0.5 ATR sqrt(3 / 10,000) below it."""
    bars = [*QUIET, (100.0, 100.5, 99.5, 100.0), (98.0, 98.0, 85.0, 86.0), (86.0, 86.0, 86.0, 86.0)]
    options = {**COSTS, "max_position": 3.0, "initial_cash": 3_500.0, "margin": "close", "capital_floor": 0.0}
    steps = play(make_account(make_market(bars, 10_000.0), **options), [BUY, KEEP], start=39)
    slippage = (0.5 + 0.5 * 4 * math.sqrt(3 / 10_000)) * 12.5 * 3
    assert steps[1]["exit_reason"] == 4
    assert steps[1]["cost"] == pytest.approx(slippage + 6.0)


def test_the_costs_of_an_episodes_last_step_count() -> None:
    env = make_account(make_market(QUIET), horizon=1, close_at_end=True)
    step = play(env, [BUY])[-1]
    assert step["cost"] == pytest.approx(2 * 2 * (2.0 + 6.25))
    assert portfolio(step["obs"])[Portfolio.COSTS_PAID] == pytest.approx(100 * 33.0 / 100_000, rel=1e-6)


def test_a_flip_pays_the_impact_of_the_whole_order() -> None:
    env = make_account(make_market(QUIET, 10_000.0), **COSTS)
    short = (0, FULL, 0, 1)
    steps = play(env, [BUY, short, CLOSE], start=30)
    assert steps[0]["fill_price"] == pytest.approx(100 + 0.25 * (0.5 + 0.5 * 4 * math.sqrt(4 / 10_000)))
    assert steps[1]["fill_price"] == pytest.approx(100 - 0.25 * (0.5 + 0.5 * 4 * math.sqrt(8 / 10_000)))


def test_every_step_draws_its_own_luck_in_the_queue() -> None:
    """A limit two ticks below, touched exactly in every bar: each step fills a quarter of the accounts, but others."""
    touching = [(100.0, 100.5, 99.5, 100.0)] * 60
    env = make_account(make_market(touching, None), num_envs=2_000, queue_prob=0.25)
    env.reset(seed=5, options={"start": [10] * 2_000})
    filled = []
    for _ in range(2):
        *_, info = env.step(np.tile((LONG, FULL, LIMIT, PATIENT), (2_000, 1)))
        filled.append(info["fill_quantity"] != 0)
    first, second = filled[0], filled[1][~filled[0]]
    assert abs(first.mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 2_000)
    assert abs(second.mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 1_500)


def test_the_saboteur_draws_evenly_from_its_range() -> None:
    env = make_account(
        make_market(QUIET), num_envs=4_000, exploration_scale=1.0, saboteur=(0.5, 2.5), random_start=True
    )
    obs, _ = env.reset(seed=1)
    factor = obs[:, Observation.CONTEXT + Context.SPREAD] / (0.5 / 4)
    assert 0.5 <= factor.min() < 0.51 and 2.49 < factor.max() <= 2.5
    assert abs(factor.mean() - 1.5) < 4 * (2.0 / math.sqrt(12)) / math.sqrt(4_000)
    assert len(np.unique(factor)) > 3_900


def test_hold_shows_the_same_account_again() -> None:
    env = make_account(make_market(QUIET))
    first, second = play(env, [(HOLD, FULL, 0, 0)] * 2)
    assert (portfolio(first["obs"]) == portfolio(second["obs"])).all()
