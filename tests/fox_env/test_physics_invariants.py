"""Identities and symmetries of the account, in random play with fixed seeds; and no free money."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from physics_play import (
    ENVS,
    FUZZ,
    MULTIPLIER,
    Steps,
    account,
    actions_for,
    bars_of,
    began_here,
    configs,
    configs_with_exits,
    every_config,
    rollout,
    same,
    seeds,
    walk,
    walk_market,
)
from physics_scenario import (
    AGGRESSIVE,
    FLAT,
    FULL,
    HOLD,
    IOC,
    LIMIT,
    LONG,
    MARKET,
    NORMAL,
    PATIENT,
    SHORT,
    make_market,
)

from fox_env import Market, synthetic
from fox_env._layout import ExitReason, OrderStatus


# ---- the account ----------------------------------------------------------------------------------------------------
@FUZZ
@given(options=every_config, seed=seeds, with_volume=st.booleans())
def test_equity_is_cash_plus_open_profit(options: dict[str, Any], seed: int, with_volume: bool) -> None:
    market = walk_market(seed % 3, with_volume)
    steps = rollout(account(market, options), actions_for(seed, 150), seed)
    unrealised = steps["position"] * (bars_of(market, steps, "close") - steps["entry_price"]) * MULTIPLIER
    np.testing.assert_allclose(steps["unrealized"], unrealised, rtol=1e-12, atol=1e-7)
    np.testing.assert_allclose(steps["equity"], steps["cash"] + steps["unrealized"], rtol=1e-12, atol=1e-9)
    assert (np.abs(steps["position"]) <= options["max_position"]).all()
    assert (steps["position"] % options["lot"] == 0).all()
    began = began_here(steps)
    assert (steps["equity"][began] == options["initial_cash"]).all()
    assert (steps["reward"][began] == 0).all()


@FUZZ
@given(options=configs, seed=seeds)
def test_cash_is_what_fills_and_fees_leave(options: dict[str, Any], seed: int) -> None:
    """Initial + realised + unrealised - fees, told in cash flows: every fill at its own price, no rule needed."""
    options = {**options, "margin": False, "initial_cash": 1e7, "close_at_end": False, "horizon": None}
    market = walk_market(seed % 3)
    steps = rollout(account(market, options), actions_for(seed, 150), seed, start=[10] * ENVS)
    paid = np.where(
        steps["fill_quantity"] == 0, 0.0, steps["fill_quantity"] * steps["fill_price"] * MULTIPLIER
    )
    spent = np.cumsum(paid + steps["fees"], axis=0)
    worth = 1e7 - spent + steps["position"] * bars_of(market, steps, "close") * MULTIPLIER
    np.testing.assert_allclose(steps["equity"], worth, rtol=1e-12)
    np.testing.assert_array_equal(np.cumsum(steps["fill_quantity"], axis=0), steps["position"])


def explained(market: Market, steps: Steps, reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Equity change of every step: position times the change of the reference price, less cost."""
    close = bars_of(market, steps, "close")
    before = steps["position"][:-1]
    after = before + steps["fill_quantity"][1:]
    gross = before * (reference[1:] - close[:-1]) + after * (close[1:] - reference[1:])
    return gross * MULTIPLIER - steps["cost"][1:]


@FUZZ
@given(options=configs, seed=seeds)
def test_every_equity_change_is_position_times_price_change_less_cost(
    options: dict[str, Any], seed: int
) -> None:
    """The reference is the open; for a limit that rested, its own price; for what is liquidated, the close."""
    market = walk_market(seed % 3)
    actions = actions_for(seed, 200)
    steps = rollout(account(market, options), actions, seed)
    stepped = ~began_here(steps)[1:]
    change = np.diff(steps["equity"], axis=0)
    opened = bars_of(market, steps, "open")
    own = np.where(np.isnan(steps["fill_price"]), opened, steps["fill_price"])
    tolerance = 1e-12 * np.abs(steps["equity"][1:]) + 1e-8
    at_open = np.abs(change - explained(market, steps, opened)) <= tolerance
    at_fill = np.abs(change - explained(market, steps, own)) <= tolerance
    resting = (actions[..., 2] == LIMIT) & (steps["fill_quantity"][1:] != 0)
    assert np.where(resting, at_open | at_fill, at_open)[stepped].all()
    expected = change / steps["equity"][:-1]
    np.testing.assert_array_equal(steps["step_return"][1:][stepped], expected[stepped])


LEDGER_AND_INFO = (
    ("trade_return", "trade_return"), ("r", "trade_r"), ("bars", "trade_bars"), ("exit_bar", "bar_index"),
)  # fmt: skip


@FUZZ
@given(options=every_config, seed=seeds)
def test_trades_add_up_to_the_equity(options: dict[str, Any], seed: int) -> None:
    """Whenever flat, equity less the start is the sum of the trades; so are the costs; info tells the last trade."""
    env = account(walk_market(seed % 3), options)
    steps = rollout(env, actions_for(seed, 200), seed)
    trades = env.trades()
    began = began_here(steps)
    episode = np.cumsum(began, axis=0) - 1
    closed = np.cumsum(steps["trade_closed"], axis=0, dtype=np.int64)
    assert closed[-1].sum() == len(trades)
    for i in range(ENVS):
        rows = trades.filter(trades["env"] == i)
        total = {name: np.append(0.0, rows[name].to_numpy().cumsum()) for name in ("pnl", "costs")}
        spent = steps["cost"][:, i].cumsum()
        first = np.maximum.accumulate(np.where(began[:, i], np.arange(len(began)), 0))
        flat = steps["position"][:, i] == 0
        gained = total["pnl"][closed[:, i]] - total["pnl"][closed[first, i]]
        change = steps["equity"][:, i] - options["initial_cash"]
        np.testing.assert_allclose(change[flat], gained[flat], rtol=1e-9, atol=1e-6)
        paid = total["costs"][closed[:, i]] - total["costs"][closed[first, i]]
        np.testing.assert_allclose((spent - spent[first])[flat], paid[flat], rtol=1e-9, atol=1e-6)
        ending = steps["trade_closed"][:, i] > 0
        last = rows[closed[ending, i] - 1]
        for column, field in LEDGER_AND_INFO:
            np.testing.assert_array_equal(last[column].to_numpy(), steps[field][ending, i], err_msg=column)
        np.testing.assert_array_equal(last["episode"].to_numpy(), episode[ending, i])
        reasons = [ExitReason(code).name.lower() for code in steps["exit_reason"][ending, i]]
        assert last["reason"].to_list() == reasons
    assert (trades["mae"] <= trades["pnl"].clip(upper_bound=0)).all()
    assert (trades["mfe"] >= trades["pnl"].clip(lower_bound=0)).all()
    assert (trades["size"] > 0).all() and trades["side"].is_in([-1, 1]).all()


@FUZZ
@given(options=configs, seed=seeds)
def test_fills_are_never_better_than_the_market(options: dict[str, Any], seed: int) -> None:
    market = walk_market(seed % 3)
    actions = actions_for(seed, 200)
    steps = rollout(account(market, options), actions, seed)
    quantity, price = steps["fill_quantity"][1:], steps["fill_price"][1:]
    filled = quantity != 0
    assert (np.isnan(price) == ~filled).all()
    side = np.sign(quantity)
    opened, high, low = (bars_of(market, steps, name)[1:] for name in ("open", "high", "low"))
    decided = bars_of(market, steps, "close")[:-1]
    order = actions[..., 2]
    assert ((side * (price - opened))[filled & (order != LIMIT)] >= 0).all()
    limits = filled & (order == LIMIT)
    assert ((side * (price - decided))[limits] <= 0).all()
    assert ((price >= low) & (price <= high))[limits & (side * (price - opened) < 0)].all()
    assert (np.abs(quantity) <= np.maximum(bars_of(market, steps, "volume")[1:], options["lot"])).all()
    assert (steps["fees"][1:][filled & (order != LIMIT)] > 0).all()
    assert (steps["spread_cost"] >= 0).all()
    assert (steps["impact_cost"] >= -1e-9).all()
    parts = steps["fees"] + steps["spread_cost"] + steps["impact_cost"]
    np.testing.assert_allclose(parts, steps["cost"], rtol=1e-12, atol=1e-9)
    status = steps["order_status"][1:]
    assert filled[np.isin(status, [OrderStatus.FILLED, OrderStatus.PARTIAL, OrderStatus.PARTICIPATION])].all()
    assert not filled[np.isin(status, [OrderStatus.NONE, OrderStatus.UNFILLED])].any()
    gap = market.bars.gap[steps["bar_index"]][1:]
    assert not (filled & gap & (order != MARKET)).any()


# ---- symmetries -----------------------------------------------------------------------------------------------------
MONEY = (
    "equity", "cash", "unrealized", "fees", "cost", "step_return", "reward", "order_status", "trade_closed",
    "trade_return", "trade_r", "trade_bars", "exit_reason", "terminated", "truncated", "bar_index",
)  # fmt: skip


@FUZZ
@given(options=configs_with_exits, seed=seeds)
def test_the_mirror_image_earns_the_same(options: dict[str, Any], seed: int) -> None:
    prices, volume, minutes = walk(seed % 3)
    mirrored = make_market(-prices[:, [0, 2, 1, 3]], volume, minutes)
    actions = actions_for(seed, 200)
    swapped = actions.copy()
    swapped[..., 0] = np.choose(actions[..., 0], [LONG, HOLD, SHORT, FLAT])
    steps = rollout(account(walk_market(seed % 3), options), actions, seed)
    image = rollout(account(mirrored, {**options, "trail_atr": options["trail_atr"][::-1]}), swapped, seed)
    for name in MONEY:
        np.testing.assert_array_equal(steps[name], image[name], err_msg=name)
    for name in ("position", "fill_quantity", "fill_price", "entry_price"):
        np.testing.assert_array_equal(steps[name], -image[name], err_msg=name)


@pytest.mark.parametrize(("scale", "precision"), [(4.0, 0.0), (0.4, 1e-12), (0.0002, 1e-12)])
def test_only_ticks_matter_not_the_price_of_one(scale: float, precision: float) -> None:
    prices, volume, minutes = walk(1)
    spec = {"tick_size": 0.25 * scale, "multiplier": MULTIPLIER / scale}
    scaled = make_market(prices * scale, volume, minutes, spec)
    options = {"initial_cash": 30_000.0, "participation": (0.1, 0.1, 0.1), "fee_rate": 1e-4, "horizon": 90}
    actions = actions_for(4, 250)
    steps = rollout(account(walk_market(1), options), actions)
    other = rollout(account(scaled, options), actions)
    for name in (*MONEY, "position", "fill_quantity"):
        np.testing.assert_allclose(
            other[name], steps[name], rtol=precision * 100, atol=precision * 1e5, err_msg=name
        )


def test_accounts_do_not_depend_on_the_batch_they_are_in() -> None:
    options = {"horizon": 50, "exploration_scale": 1.0, "saboteur": (0.5, 2.0), "initial_cash": 20_000.0}
    actions = actions_for(8, 150)
    whole = rollout(account(walk_market(), options), actions)
    part = rollout(account(walk_market(), options, 7), actions[:, :7])
    same({name: values[:, :7].copy() for name, values in whole.items()}, part)


def test_accounts_do_not_depend_on_their_order() -> None:
    options = {"horizon": 50, "exploration_scale": 1.0, "saboteur": (0.5, 2.0), "initial_cash": 20_000.0}
    actions, keys = actions_for(8, 150), list(range(100, 100 + ENVS))
    order = np.random.default_rng(0).permutation(ENVS)
    steps = rollout(account(walk_market(), options), actions, keys)
    shuffled = rollout(account(walk_market(), options), actions[:, order], [keys[i] for i in order])
    same({name: values[:, order].copy() for name, values in steps.items()}, shuffled)


# ---- training and validation ----------------------------------------------------------------------------------------
@FUZZ
@given(options=every_config, seed=seeds, intensity=st.floats(0, 1), weight=st.floats(0, 9))
def test_with_both_scales_at_zero_training_is_validation(
    options: dict[str, Any], seed: int, intensity: float, weight: float
) -> None:
    market, actions = walk_market(seed % 3), actions_for(seed, 150)
    plain = {**options, "exploration_scale": 0.0, "saboteur": (1.0, 1.0)}
    validation = rollout(account(market, plain), actions, seed)
    training = {
        "exploration_scale": 1.0,
        "shaping_scale": 1.0,
        "saboteur": (0.0, 5.0),
        "floor_penalty": weight,
    }
    env = account(market, {**options, **training, "counterfactual": not options["latency_bars"]})
    env.set_knob("saboteur_intensity", intensity)
    env.set_knob("early_exit_bars", 1.0 + weight)
    for term in ("path", "micro", "carry", "opportunity"):
        env.set_knob(f"weight_{term}", weight)
    env.set_knob("exploration_scale", 0.0)
    env.set_knob("shaping_scale", 0.0)
    steps = rollout(env, actions, seed)
    same(
        validation, {name: values for name, values in steps.items() if not name.startswith("counterfactual")}
    )


def test_the_saboteur_does_act_when_its_scale_is_not_zero() -> None:
    options = {"saboteur": (2.0, 3.0), "initial_cash": 1e6, "horizon": 60}
    actions = actions_for(2, 60)
    actions[..., 2] = MARKET
    plain = rollout(account(walk_market(), options), actions, start=[20] * ENVS)
    harder = rollout(
        account(walk_market(), {**options, "exploration_scale": 1.0}), actions, start=[20] * ENVS
    )
    taken = (plain["fill_quantity"] != 0) & (plain["fill_quantity"] == harder["fill_quantity"])
    assert (harder["cost"][taken] >= plain["cost"][taken]).all()
    assert harder["cost"].sum() > 1.5 * plain["cost"].sum()


@pytest.mark.parametrize("cut", [70, 180, 181])
def test_later_bars_change_nothing_that_was_seen_before(cut: int) -> None:
    prices, volume, minutes = walk(2)
    other_prices, other_volume, _ = walk(77)
    later = np.arange(len(prices)) > cut
    shift = prices[cut, 3] - other_prices[cut, 3]
    changed = make_market(
        np.where(later[:, None], other_prices + shift, prices), np.where(later, other_volume, volume), minutes
    )
    options = {"initial_cash": 50_000.0, "reward": "risk", "risk_unit": 700.0, "random_start": False}
    actions = actions_for(3, cut + 40)
    known = rollout(account(walk_market(2), options), actions)
    altered = rollout(account(changed, options), actions)
    head = slice(0, cut + 1)
    assert (known["bar_index"][head] <= cut).all()
    same(
        {name: values[head].copy() for name, values in known.items()},
        {name: values[head].copy() for name, values in altered.items()},
    )
    assert known["equity"][cut + 5].tobytes() != altered["equity"][cut + 5].tobytes()


# ---- no free money --------------------------------------------------------------------------------------------------
@functools.cache
def martingale_profits() -> tuple[list[tuple[int, int, int]], NDArray[np.float64]]:
    """Money per session of fixed plans without any fee, spread or impact; (plan, session).

    Every plan enters with its side, order type and urgency, holds, and leaves with the same type and urgency, over and
    over. A sample is a session's profit: sessions are independent, bars of one are not.
    """
    plans = [(side, order, urgency) for side in (LONG, SHORT) for order in (MARKET, LIMIT, IOC)
             for urgency in (PATIENT, NORMAL, AGGRESSIVE)]  # fmt: skip
    options = {
        "initial_cash": 1e9, "max_position": 1.0, "half_spread_ticks": 0.0, "impact_coef": 0.0, "fee_per_side": 0.0,
        "participation": (1.0, 1.0, 1.0), "margin": False, "random_start": False, "queue_prob": 1.0,
    }  # fmt: skip
    entry = np.array([(side, FULL, order, urgency) for side, order, urgency in plans])
    leave = np.array([(FLAT, FULL, order, urgency) for _, order, urgency in plans])
    profits = []
    for seed in range(3):
        market = synthetic.martingale(seed=seed, sessions=30, session_minutes=120)
        env = account(market, options, len(plans), trade_capacity=0)
        actions = [entry, entry, leave, leave] * (len(market) // 4 + 1)
        first = int(env.reset(seed=0)[1]["bar_index"][0])
        steps = rollout(env, np.array(actions[: len(market) - 1 - first]))
        session = np.cumsum(market.bars.session_start)[steps["bar_index"][:, 0]]
        gains = np.diff(steps["equity"], axis=0)
        profits.append([gains[session[1:] == s].sum(0) for s in np.unique(session)])
    return plans, np.concatenate(profits).T


@pytest.mark.parametrize("number", range(18))
def test_a_martingale_pays_nobody(number: int) -> None:
    plans, profits = martingale_profits()
    sample = profits[number]
    assert sample.std() > 0
    error = sample.std(ddof=1) / np.sqrt(len(sample))
    assert sample.mean() <= 3 * error, f"side, order, urgency {plans[number]}"


def test_the_martingale_test_would_notice_half_a_tick_a_trade() -> None:
    """Power: 30 round trips a session; half a tick of price improvement on each side is far above 3 errors."""
    _, profits = martingale_profits()
    errors = profits.std(axis=1, ddof=1) / np.sqrt(profits.shape[1])
    assert (3 * errors < 30 * 0.5 * 12.5 * 2).all()
