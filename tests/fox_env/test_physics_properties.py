"""What holds for every set of options, on series with and without rolls: one table, every property over all of it."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from physics_play import (
    ENVS,
    Steps,
    account,
    actions_for,
    bars_of,
    began_here,
    rollout,
    same,
    walk,
)
from physics_scenario import FLAT, HOLD, LONG, SHORT, SPEC, make_market

from fox_env import FoxFuturesVectorEnv, Market
from fox_env._layout import ExitReason, OrderStatus

STEPS = 200
LEVELS = {"trail_atr": (1.5, 1.0), "profit_target_atr": 1.0}
TABLE: dict[str, dict[str, Any]] = {
    "plain": {},
    "fractions of volume": {"participation": (0.005, 0.01, 0.02), "impact_coef": 0.4},
    "stops": {"trail_atr": (1.0, 0.5)},
    "targets": {"profit_target_atr": 1.0, "queue_prob": 1.0},
    "stops and targets": {**LEVELS, "queue_prob": 0.5, "fee_rate": 1e-4},
    "half lots": {**LEVELS, "lot": 0.5, "max_position": 2.5},
    "small account": {"initial_cash": 5_600.0, "margin": "close", "capital_floor": 0.2},
    "intrabar margin": {**LEVELS, "initial_cash": 5_600.0, "margin": "intrabar", "capital_floor": 0.2},
    "nothing over night": {**LEVELS, "flat_at_session_end": True},
    "short episodes": {**LEVELS, "horizon": 23, "close_at_end": True, "reward": "risk", "risk_unit": 500.0},
    "kelly": {**LEVELS, "kelly": True, "kelly_floor": 0.7, "kelly_safety": 0.9, "horizon": 90},
    "a minimum hold": {**LEVELS, "min_hold_bars": 2, "min_hold": "hard"},
    "a bar of latency": {**LEVELS, "latency_bars": 1, "horizon": 70},
    "good till cancelled": {**LEVELS, "gtc": True, "queue_prob": 1.0},
    "paid by the trade": {
        **LEVELS,
        "reward": "trade",
        "risk_unit": 500.0,
        "shaping_scale": 1.0,
        "horizon": 40,
    },
    "an exploring cost": {**LEVELS, "exploration_scale": 1.0, "saboteur": (0.5, 3.0), "horizon": 60},
}
ACCOUNT: dict[str, Any] = {
    "initial_cash": 1e6,
    "max_position": 5.0,
    "margin": False,
    "participation": (0.3, 0.6, 1.0),
    "maker_fee": -0.5,
}
EVERY_SET = pytest.mark.parametrize("name", TABLE)
BOTH_SERIES = pytest.mark.parametrize("rolls", [False, True], ids=["one contract", "rolls"])


def options_of(name: str) -> dict[str, Any]:
    return {**ACCOUNT, **TABLE[name]}


class Series(NamedTuple):
    """Prices, volume and minutes, and the price gap at the first bar of each new contract."""

    prices: NDArray[np.float64]
    volume: NDArray[np.float64]
    minutes: NDArray[np.int64]
    rolls: dict[int, float]


@functools.cache
def series(rolls: bool) -> Series:
    prices, volume, minutes = walk(6, level=400)
    gaps = {bar: 0.25 * (7 - bar % 19) for bar in range(11, len(prices), 17)} if rolls else {}
    shift = np.zeros(len(prices))
    shift[list(gaps)] = list(gaps.values())
    return Series(prices + np.cumsum(shift)[:, None], volume, minutes, gaps)


def market_of(parts: Series, factor: float = 1.0, spec: dict[str, Any] | None = None) -> Market:
    """A market of the series with its prices times a factor; a negative one turns it upside down."""
    columns = [0, 2, 1, 3] if factor < 0 else [0, 1, 2, 3]
    gaps = {bar: factor * gap for bar, gap in parts.rolls.items()}
    return make_market(factor * parts.prices[:, columns], parts.volume, parts.minutes, spec, gaps)


@functools.cache
def played(name: str, rolls: bool) -> tuple[FoxFuturesVectorEnv, NDArray[np.int64], Steps]:
    env = account(market_of(series(rolls)), options_of(name))
    actions = actions_for(17, STEPS)
    return env, actions, rollout(env, actions, seed=3)


# ---- symmetries -----------------------------------------------------------------------------------------------------
PRICES = ("position", "fill_quantity", "fill_price", "entry_price")


@EVERY_SET
def test_the_mirror_image_of_rolls_earns_the_same(name: str) -> None:
    _, actions, steps = played(name, True)
    options = options_of(name)
    options["trail_atr"] = options.get("trail_atr", (None, None))[::-1]
    swapped = actions.copy()
    swapped[..., 0] = np.choose(actions[..., 0], [LONG, HOLD, SHORT, FLAT])
    image = rollout(account(market_of(series(True), -1.0), options), swapped, seed=3)
    for field in steps:
        if field != "obs":
            sign = -1.0 if field in PRICES else 1.0
            np.testing.assert_array_equal(steps[field], sign * image[field], err_msg=field)


@EVERY_SET
@BOTH_SERIES
@pytest.mark.parametrize(("scale", "precision"), [(8.0, 0.0), (0.04, 1e-9)])
def test_the_price_of_a_tick_does_not_matter(name: str, rolls: bool, scale: float, precision: float) -> None:
    """Prices and tick size times a scale, money per point divided by it: the same money."""
    _, actions, steps = played(name, rolls)
    spec = {"tick_size": SPEC["tick_size"] * scale, "multiplier": SPEC["multiplier"] / scale}
    other = rollout(account(market_of(series(rolls), scale, spec), options_of(name)), actions, seed=3)
    for field in steps:
        factor = scale if field in ("fill_price", "entry_price") else 1.0
        if field != "obs":
            np.testing.assert_allclose(
                other[field], factor * steps[field], rtol=precision, atol=1e3 * precision, err_msg=field
            )


@EVERY_SET
def test_an_account_depends_neither_on_the_batch_nor_on_its_place(name: str) -> None:
    """Some of the accounts, in another order, each with the key of its own seed."""
    actions, keys = actions_for(8, 120), list(range(100, 100 + ENVS))
    market = market_of(series(True))
    whole = rollout(account(market, options_of(name)), actions, keys)
    chosen = np.random.default_rng(0).permutation(ENVS)[:11]
    few = account(market, options_of(name), len(chosen))
    part = rollout(few, actions[:, chosen], [keys[i] for i in chosen])
    same({field: values[:, chosen].copy() for field, values in whole.items()}, part)


# ---- sizes ----------------------------------------------------------------------------------------------------------
@EVERY_SET
@BOTH_SERIES
def test_all_sizes_are_whole_lots_within_the_limit(name: str, rolls: bool) -> None:
    env, _, steps = played(name, rolls)
    lot, most = env.config.lot, env.config.max_position
    for sizes in (steps["position"], steps["fill_quantity"], env.trades()["size"].to_numpy()):
        np.testing.assert_array_equal(sizes, lot * np.rint(sizes / lot))
    assert (env.trades()["size"] <= most).all()
    assert np.abs(steps["position"]).max() == most or env.config.kelly


@pytest.mark.parametrize("name", [name for name, options in TABLE.items() if options.get("margin")])
@BOTH_SERIES
def test_what_is_opened_never_exceeds_the_margin(name: str, rolls: bool) -> None:
    """After its fill an account holds no more than its equity at the decision carries, or no more than before."""
    _, _, steps = played(name, rolls)
    before, equity = steps["position"][:-1], steps["equity"][:-1]
    after = before + steps["fill_quantity"][1:]
    opened = (np.abs(after) > np.abs(before)) | (after * before < 0)
    needed = np.abs(after) * SPEC["initial_margin"]
    assert (needed <= equity)[opened].all()
    assert (needed > 0.9 * equity)[opened].sum() > 20  # the cap was reached
    above = opened & (steps["order_status"][1:] == OrderStatus.MARGIN)
    assert above.sum() > 20


@EVERY_SET
@BOTH_SERIES
def test_a_change_of_size_is_no_trade(name: str, rolls: bool) -> None:
    """A trade ends when the position leaves its sign: by the agent's fill, or by what closes it after that."""
    _, _, steps = played(name, rolls)
    stepped = ~began_here(steps)[1:]
    held, quantity = steps["position"][:-1], steps["fill_quantity"][1:]
    before, between, after = (np.sign(x) for x in (held, held + quantity, steps["position"][1:]))
    left = ((before != 0) & (between != before)).astype(int) + ((between != 0) & (after != between))
    np.testing.assert_array_equal(steps["trade_closed"][1:][stepped], left[stepped])
    resized = stepped & (before == after) & (quantity != 0) & (before != 0)
    assert resized.sum() > 20


# ---- stops and targets ----------------------------------------------------------------------------------------------
WITH_STOPS = [name for name, options in TABLE.items() if "trail_atr" in options]
WITH_TARGETS = [name for name, options in TABLE.items() if "profit_target_atr" in options]


def exits(env: FoxFuturesVectorEnv, reason: str) -> tuple[pl.DataFrame, dict[str, NDArray[np.float64]]]:
    """Trades that ended for a reason, and the prices of the bars that they ended in."""
    rows = env.trades().filter(pl.col("reason") == reason)
    bars = env.market.bars
    columns = ("open", "high", "low")
    return rows, {
        column: np.asarray(getattr(bars, column))[rows["exit_bar"].to_numpy()] for column in columns
    }


@pytest.mark.parametrize("name", WITH_STOPS)
@BOTH_SERIES
def test_a_stop_is_never_better_than_the_market_allowed(name: str, rolls: bool) -> None:
    """Never better than the open, whether the bar opened beyond the level or came down to it; never free."""
    env, _, _ = played(name, rolls)
    rows, bar = exits(env, "stop")
    side, price = rows["side"].to_numpy(), rows["exit_price"].to_numpy()
    assert len(rows) > 50
    assert (side * (price - bar["open"]) < 0).all()
    reached = np.where(side > 0, bar["low"], bar["high"])
    assert (side * (price - reached) > -4 * 0.25).all()  # less spread and impact, here below four ticks


@pytest.mark.parametrize("name", WITH_STOPS)
def test_a_stop_stays_where_it_was_promised(name: str) -> None:
    """It never goes back while a trade lasts, and what it closed got no more than its level at the decision."""
    env = account(market_of(series(False)), options_of(name), trade_capacity=STEPS)
    env.reset(seed=3)
    promised: dict[tuple[int, int, int], float] = {}
    held, level = np.zeros(ENVS), np.zeros(ENVS)
    for action in actions_for(17, STEPS):
        *_, info = env.step(action)
        state = env.state_dict()
        side, stop = np.sign(np.array(info["position"])), 0.25 * state["state.stop"]
        closed, filled = np.array(info["trade_closed"]), np.array(info["fill_quantity"])
        lasting = (held != 0) & (side == held) & (closed == 0) & (state["state.stop_distance"] > 0)
        assert (side * (stop - level) >= 0)[lasting].all()
        for i in np.flatnonzero((held != 0) & (closed == 1) & (filled == 0)):
            promised[int(i), int(state["state.episode"][i]), int(info["bar_index"][i])] = level[i]
        held, level = side, stop
    trades = env.trades().filter(pl.col("reason") == "stop")
    touched = 0
    for row in trades.iter_rows(named=True):
        key = (row["env"], row["episode"], row["exit_bar"])
        if key in promised:
            assert row["side"] * (row["exit_price"] - promised[key]) < 0
            touched += 1
    assert touched > 50


@pytest.mark.parametrize("name", WITH_TARGETS)
@BOTH_SERIES
def test_a_target_is_reached_by_the_bar_and_not_in_the_bar_of_a_resting_entry(name: str, rolls: bool) -> None:
    env, _, steps = played(name, rolls)
    rows, bar = exits(env, "target")
    side, price = rows["side"].to_numpy(), rows["exit_price"].to_numpy()
    assert len(rows) > 50
    assert (side * (price - np.where(side > 0, bar["high"], bar["low"])) <= 0).all()
    by_target = (steps["trade_closed"] == 1) & (steps["exit_reason"] == ExitReason.TARGET)
    at_once = by_target & (steps["trade_bars"] == 0)
    assert at_once.any()
    better = np.sign(steps["fill_quantity"]) * (bars_of(env.market, steps, "open") - steps["fill_price"])
    assert (better < 0)[at_once].all()  # the entry took the open and paid the spread
