"""What a learner is told: observations, masks of distinct actions, active branches, against what actions do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray
from physics_play import (
    ENVS,
    FUZZ,
    account,
    actions_for,
    bars_of,
    began_here,
    configs,
    rollout,
    seeds,
    walk,
    walk_market,
)
from physics_scenario import FLAT, FULL, HALF, HOLD, LONG, MARKET, NORMAL, QUARTER, SHORT, make_market

from fox_env import FoxFuturesVectorEnv
from fox_env._layout import Context, Portfolio


# ---- observations ---------------------------------------------------------------------------------------------------
@FUZZ
@given(options=configs, seed=seeds)
def test_observations_are_finite_and_bounded(options: dict[str, Any], seed: int) -> None:
    steps = rollout(account(walk_market(seed % 3), options), actions_for(seed, 150), seed)
    assert np.isfinite(steps["obs"]).all()
    assert np.abs(steps["obs"]).max() <= 10.0
    np.testing.assert_array_equal(steps["obs"][..., :86], walk_market(seed % 3).features[steps["bar_index"]])


def test_the_account_block_says_what_the_account_is() -> None:
    market = walk_market(1)
    options = {"initial_cash": 60_000.0, "max_position": 8.0, "margin": "close", "participation": (1.0, 1.0, 1.0),
               "horizon": 120}  # fmt: skip
    env = account(market, options)
    steps = rollout(env, actions_for(6, 120), start=[30] * ENVS)
    block = steps["obs"][..., 86:118].astype(np.float64)
    equity, position = steps["equity"], steps["position"]
    close, opened = bars_of(market, steps, "close"), steps["entry_price"]
    atr = market.columns.atr[steps["bar_index"]] * 0.25
    away = np.where(position == 0, 0.0, close - opened)
    peak = np.maximum.accumulate(equity, axis=0)
    held = np.zeros_like(position)
    for t in range(1, len(held)):
        same_trade = (np.sign(position[t]) == np.sign(position[t - 1])) & (position[t] != 0)
        held[t] = np.where(same_trade & (steps["trade_closed"][t] == 0), held[t - 1] + 1, 0)
    closed = np.cumsum(steps["trade_closed"], axis=0)
    expected = {
        Portfolio.POSITION: position / 8.0,
        Portfolio.SIDE: np.sign(position),
        Portfolio.UNREALIZED_R: np.sign(position) * away / (2.0 * atr),
        Portfolio.BARS_IN_TRADE: held / 100.0,
        Portfolio.DRAWDOWN: equity / peak - 1.0,
        Portfolio.EQUITY_RATIO: equity / 60_000.0 - 1.0,
        Portfolio.MARGIN_USE: 900.0 * np.abs(position) / equity,
        Portfolio.COSTS_PAID: 100.0 * np.cumsum(steps["cost"], axis=0) / 60_000.0,
        Portfolio.TRADES: closed / 100.0,
        Portfolio.ENTRY_DISTANCE: away / atr,
        Portfolio.MARGIN_HEADROOM: np.clip(np.floor(equity / 1000.0), 0.0, 8.0) / 8.0,
    }
    alive = np.cumsum(began_here(steps), axis=0) == 1
    for slot, values in expected.items():
        wanted = np.clip(values, -10.0, 10.0)[alive]
        np.testing.assert_allclose(block[..., slot][alive], wanted, rtol=1e-5, atol=1e-6, err_msg=slot.name)
    empty = [Portfolio.KELLY_CAP, Portfolio.STOP_DISTANCE, Portfolio.MIN_HOLD_LEFT]
    assert (block[..., [*empty, *range(Portfolio.USED, Portfolio.SIZE)]] == 0).all()
    context = steps["obs"][..., 118:]
    assert (context[..., Context.USED :] == 0).all()
    progress = (steps["bar_index"] - 30) / 120.0
    np.testing.assert_allclose(context[..., Context.EPISODE_PROGRESS][alive], progress[alive], rtol=1e-5)
    np.testing.assert_allclose(context[..., Context.SPREAD], 0.5 * 0.25 / atr, rtol=1e-5)
    assert (np.abs(block[..., Portfolio.TRADE_MAE_R]) > 0).any()
    assert (block[..., Portfolio.TRADE_MAE_R] <= 0).all() and (block[..., Portfolio.TRADE_MFE_R] >= 0).all()


# ---- masks ----------------------------------------------------------------------------------------------------------
DEEP = {"participation": (1.0, 1.0, 1.0), "half_spread_ticks": 0.5, "random_start": True}
MASKED = [
    {"max_position": 10.0, "initial_cash": 1e6},
    {"max_position": 1.0, "initial_cash": 1e6},
    {"max_position": 3.0, "initial_cash": 6_000.0, "capital_floor": 0.0},
    {"max_position": 5.0, "initial_cash": 2_600.0, "capital_floor": 0.0},
]


def states_after(env: FoxFuturesVectorEnv, action: NDArray[Any]) -> list[bytes]:
    """The bytes of every account's state after an action; the environment is put back."""
    saved = env.state_dict()
    env.step(action)
    after = env.state_dict()
    env.load_state_dict(saved)
    arrays = [after[name] for name in sorted(after) if name.startswith("state.") or name == "obs"]
    return [b"".join(np.ascontiguousarray(a[i]).tobytes() for a in arrays) for i in range(env.num_envs)]


def played(options: dict[str, Any], action_type: str) -> FoxFuturesVectorEnv:
    """Accounts in the middle of random play, on a market with volume for every order."""
    prices, _, _ = walk(4)
    env = account(make_market(prices, 1e6), {**DEEP, **options}, action_type=action_type)
    env.reset(seed=1)
    rng = np.random.default_rng(9)
    for _ in range(25):
        shape = (ENVS,) if action_type == "discrete" else (ENVS, 4)
        env.step(
            rng.integers(0, 8, shape) if action_type == "discrete" else actions_for(rng.integers(1e6), 1)[0]
        )
    done = env.state_dict()["state.done"].astype(bool)
    if done.any():
        env.reset(options={"reset_mask": done})
    return env


@pytest.mark.parametrize("options", MASKED)
def test_exposures_are_masked_exactly_where_another_does_the_same(options: dict[str, Any]) -> None:
    env = played(options, "discrete")
    masks = env.action_masks()
    states = [states_after(env, np.full(ENVS, action)) for action in range(8)]
    for i in range(ENVS):
        legal = [states[a][i] for a in np.flatnonzero(masks[i])]
        assert len(set(legal)) == len(legal), f"account {i}: two distinct exposures do the same"
        assert {states[a][i] for a in range(8)} == set(legal), (
            f"account {i}: a masked exposure does something else"
        )


@pytest.mark.parametrize("options", MASKED)
def test_branches_are_masked_exactly_where_they_do_the_same(options: dict[str, Any]) -> None:
    env = played(options, "branches")
    masks = env.action_masks()
    result = {
        (d, m): states_after(env, np.tile([d, m, MARKET, NORMAL], (ENVS, 1)))
        for d in (SHORT, HOLD, LONG, FLAT)
        for m in (QUARTER, HALF, FULL)
    }
    for i in range(ENVS):
        hold, flat = result[HOLD, FULL][i], result[FLAT, FULL][i]
        assert masks[i, HOLD]
        assert masks[i, FLAT] == (flat != hold)
        for side in (LONG, SHORT):
            assert masks[i, side] == any(
                result[side, m][i] not in (hold, flat) for m in (QUARTER, HALF, FULL)
            )
        assert masks[i, 4 + QUARTER]
        for m in (HALF, FULL):
            differs = any(result[side, m][i] != result[side, m - 1][i] for side in (LONG, SHORT))
            assert masks[i, 4 + m] == differs
        assert masks[i, 7:].all()


@pytest.mark.parametrize("options", MASKED)
def test_inactive_branches_have_no_effect_and_an_active_size_has(options: dict[str, Any]) -> None:
    env = played(options, "branches")
    actions = actions_for(31, 1)[0]
    actions[:, 2:] = (MARKET, NORMAL)
    saved = env.state_dict()
    active = env.step(actions)[-1]["branch_active"]
    env.load_state_dict(saved)
    chosen = states_after(env, actions)
    differs = np.zeros(ENVS, dtype=bool)
    for branch, width in ((1, 3), (2, 3), (3, 3)):
        for value in range(width):
            other = actions.copy()
            other[:, branch] = value
            changed = np.array([a != b for a, b in zip(chosen, states_after(env, other), strict=True)])
            assert not (changed & ~active[:, branch]).any()
            differs |= changed & (branch == 1)
    np.testing.assert_array_equal(differs, active[:, 1])
