"""Known optima agree with enumeration, with linear algebra and with play in the environment."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, synthetic
from fox_env.errors import ConfigError
from fox_env.optimum import (
    REFERENCE,
    SignalOptimum,
    average_reward,
    clairvoyant_bound,
    expected_money,
    signal_optimum,
)
from fox_env.order_costs import target_positions

SIGNAL_COLUMN = 42
FULL_SIZE = REFERENCE.max_position


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def fresh_bars() -> Market:
    return synthetic.signal(seed=5, sessions=600)


@pytest.fixture(scope="module")
def optimum(fresh_bars: Market) -> SignalOptimum:
    return signal_optimum(fresh_bars)


# ---- the signal market ---------------------------------------------------------------------------------------


def play(
    market: Market, policy: Any, config: EnvConfig = REFERENCE, windows: int = 400
) -> NDArray[np.float64]:
    """Expected money a bar of a policy (signal, position) -> target, in windows of the market, through the physics."""
    first = market.first_ready
    steps = (len(market) - 1 - first) // windows
    env = FoxFuturesVectorEnv(
        windows, market, config, backend="cpu", action_type="continuous", trade_capacity=0, copy=False
    )
    obs, _ = env.reset(seed=0, options={"start": first + steps * np.arange(windows)})
    held, money = np.zeros(windows), np.zeros(windows)
    for _ in range(steps):
        target = policy(obs[:, SIGNAL_COLUMN], held)
        obs, _, _, _, info = env.step((target / config.max_position).astype(np.float32))
        held = info["position"].copy()
        np.testing.assert_array_equal(held, target)
        money += expected_money(market, info["bar_index"], held, info["cost"])
    env.close()
    return money / steps


def test_the_policy_earns_its_value_in_the_environment(fresh_bars: Market, optimum: SignalOptimum) -> None:
    """Within 3 standard errors of 400 windows of 584 bars; a value off by 3 % would fail."""
    money = play(fresh_bars, optimum.target)
    error = money.std(ddof=1) / np.sqrt(len(money))
    assert optimum.exact
    assert abs(money.mean() - optimum.money_per_bar) < 3.0 * error < 0.03 * optimum.money_per_bar


def test_no_other_policy_earns_more(fresh_bars: Market, optimum: SignalOptimum) -> None:
    """On the same bars, within 3 standard errors of the paired difference."""
    best = play(fresh_bars, optimum.target)
    others = {
        "always the sign": lambda s, p: FULL_SIZE * np.sign(s),
        "half size": lambda s, p: 0.5 * optimum.target(s, 2.0 * p),
        "never": lambda s, p: 0.0 * s,
    }
    for level in (0.3, 0.5, 0.7, 1.0):
        others[f"keep until the signal is {level} against it"] = lambda s, p, level=level: np.where(
            np.abs(s) > level, FULL_SIZE * np.sign(s), p
        )
        others[f"only above {level}"] = lambda s, p, level=level: np.where(
            np.abs(s) > level, FULL_SIZE * np.sign(s), 0
        )
    for name, policy in others.items():
        gain = best - play(fresh_bars, policy)
        assert gain.mean() > -3.0 * gain.std(ddof=1) / np.sqrt(len(gain)), name
        if "keep" not in name:
            assert gain.mean() > 0.02 * optimum.money_per_bar, name


def test_without_costs_it_follows_the_sign(fresh_bars: Market) -> None:
    """Then it earns beta sigma E|s| times the position, E|s| that of a normal variable."""
    found = signal_optimum(fresh_bars, REFERENCE.replace(half_spread_ticks=0.0, fee_per_side=0.0))
    assert found.money_per_bar == pytest.approx(0.1 * 4.0 * 12.5 * 4.0 * np.sqrt(2.0 / np.pi), rel=2e-4)
    for signal in (-1.0, -0.1, 0.1, 1.0):
        np.testing.assert_array_equal(
            found.target(np.full(7, signal), found.positions), np.full(7, FULL_SIZE * np.sign(signal))
        )


def test_a_signal_that_never_pays_is_left_alone() -> None:
    market = synthetic.signal(seed=0, sessions=2, beta=0.1)
    dear = signal_optimum(market, REFERENCE.replace(half_spread_ticks=100.0))
    assert dear.money_per_bar == pytest.approx(0.0, abs=1e-6)
    assert (dear.target(dear.signal, 0.0 * dear.signal) == 0.0).all()


@pytest.mark.parametrize("persistence", [0.0, 0.5, 0.9, 0.98])
def test_the_value_is_that_of_a_simulation(persistence: float) -> None:
    """On 4 million bars of the generator's own signal, within 3 standard errors of 400 windows."""
    market = synthetic.signal(seed=1, sessions=2, beta=0.2, persistence=persistence)
    found = signal_optimum(market)
    draws, windows = synthetic.draws.Draws(7), 400
    series = synthetic.draws.autoregression(draws, 4_000_000, persistence).reshape(windows, -1)
    held, money = np.zeros(windows), np.zeros(windows)
    for signal in series.T:
        target = found.target(signal, held)
        # The reference costs: half a tick of 12.5 and a fee of 2.25 for each contract.
        money += 0.2 * 4.0 * 12.5 * signal * target - 8.5 * np.abs(target - held)
        held = target
    money /= series.shape[1]
    assert abs(money.mean() - found.money_per_bar) < 3.0 * money.std(ddof=1) / np.sqrt(windows)


def test_average_reward_against_every_policy() -> None:
    """Three signals, three positions: the best of all 19,683 stationary policies, each solved exactly."""
    rng = np.random.default_rng(3)
    pay, positions = np.array([-1.0, 0.2, 1.1]), np.array([-1.0, 0.0, 2.0])
    transition = rng.dirichlet(np.ones(3), size=3)
    cost = 0.4 * np.abs(positions - positions[:, None]) + rng.uniform(0.0, 0.3, (3, 3)) * (1 - np.eye(3))
    value, error, policy = average_reward(pay, transition, positions, cost)
    policies = np.array(list(itertools.product(range(3), repeat=9))).reshape(-1, 3, 3)
    assert any((policies == policy).all(axis=(1, 2)))
    states = np.arange(3)
    reward = pay[:, None] * positions[policies] - cost[states[None, None, :], policies]
    chain = np.zeros((len(policies), 9, 9))
    for s, p, following in itertools.product(states, states, states):
        chain[np.arange(len(policies)), 3 * s + p, 3 * following + policies[:, s, p]] = transition[
            s, following
        ]
    # The long-run average from the flat state: a high power of the lazy chain, which is never periodic.
    chain = 0.5 * (chain + np.eye(9))
    for _ in range(12):
        chain = chain @ chain
    averages = (chain[:, 4] * reward.reshape(-1, 9)).sum(axis=1)
    assert value == pytest.approx(averages.max(), abs=1e-6) and error < 1e-8


def test_costs_come_from_the_physics() -> None:
    """A dearer spread, fee or smaller tick value changes the value as it changes the account."""
    market = synthetic.signal(seed=0, sessions=2)
    cheap = signal_optimum(market).money_per_bar
    assert signal_optimum(market, REFERENCE.replace(half_spread_ticks=1.0)).money_per_bar < cheap
    assert signal_optimum(market, REFERENCE.replace(fee_per_side=0.0)).money_per_bar > cheap
    double = signal_optimum(market, REFERENCE.replace(max_position=8.0)).money_per_bar
    assert double == pytest.approx(2.0 * cheap, rel=1e-6)


def test_varying_costs_are_said_to_be_inexact() -> None:
    market = synthetic.signal(seed=0, sessions=5)
    assert not signal_optimum(market, EnvConfig()).exact
    assert not signal_optimum(market, REFERENCE.replace(margin="close")).exact


def test_the_default_signal_is_solved_in_five_seconds() -> None:
    market = synthetic.signal(seed=0, sessions=5)
    began = time.process_time()
    signal_optimum(market)
    assert time.process_time() - began < 5.0


# ---- the clairvoyant bound -----------------------------------------------------------------------------------


def tiny(seed: int, bars: int, volume: bool = True) -> Market:
    """A few bars of a martingale with an overnight gap among them."""
    whole = synthetic.martingale(seed=seed, sessions=2, session_minutes=30)
    rows = whole.bars[28 : 28 + bars]
    prices = (rows.open, rows.high, rows.low, rows.close)
    bars_ = type(rows).from_arrays(rows.ts, *prices, rows.volume if volume else None)
    return Market.from_bars(bars_, synthetic.SPEC, warmup=0, cache=False)


def best_of_all_plays(market: Market, config: EnvConfig, positions: NDArray[np.float64]) -> float:
    """Largest change of equity over every sequence of targets, each played in the environment."""
    plans = np.array(list(itertools.product(positions, repeat=len(market) - 1)))
    env = FoxFuturesVectorEnv(
        len(plans), market, config, backend="cpu", action_type="continuous", trade_capacity=0
    )
    env.reset(seed=0, options={"start": np.zeros(len(plans), dtype=np.int64)})
    for targets in plans.T:
        *_, info = env.step((targets / config.max_position).astype(np.float32))
    env.close()
    return float(info["equity"].max()) - config.initial_cash


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"half_spread_ticks": 0.0, "fee_per_side": 0.0},
        {"half_spread_ticks": 2.0, "close_at_end": True},
        {"half_spread_ticks": 2.0, "reward": "trade"},
        {"impact_coef": 0.4},
        {"impact_coef": 0.4, "fee_rate": 1e-5, "close_at_end": True},
        {"participation": (5e-4,) * 3},
        {"participation": (5e-4,) * 3, "close_at_end": True, "half_spread_ticks": 3.0},
    ],
)
def test_bound_is_the_best_of_all_plays(seed: int, changes: dict[str, Any]) -> None:
    config = REFERENCE.replace(max_position=2.0, initial_cash=1e6, random_start=False, **changes)
    market = tiny(seed, 6)
    bound = clairvoyant_bound(market, config)
    best = best_of_all_plays(market, config, np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
    assert bound.money == pytest.approx(best, abs=1e-6)


def test_a_last_bar_without_volume_still_costs_what_closing_there_costs() -> None:
    market = tiny(1, 6)
    bars = market.bars
    volume = np.where(np.arange(6) == 5, 0.0, 300.0)
    market = Market.from_bars(replace(bars, volume=volume), synthetic.SPEC, warmup=0, cache=False)
    for changes in ({"half_spread_ticks": 0.5}, {"impact_coef": 0.4}):
        config = REFERENCE.replace(
            max_position=2.0, initial_cash=1e6, random_start=False, close_at_end=True, **changes
        )
        best = best_of_all_plays(market, config, np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
        assert clairvoyant_bound(market, config).money == pytest.approx(best, abs=1e-6)


def test_bound_respects_the_share_of_volume() -> None:
    """Two lots a bar are allowed: an order for more is cut, and the plan builds its position over bars."""
    market = tiny(2, 7)
    share = 2.5 / market.columns.volume[1:].min()
    config = REFERENCE.replace(
        max_position=3.0,
        participation=(share,) * 3,
        half_spread_ticks=0.0,
        fee_per_side=0.0,
        initial_cash=1e6,
    )
    bound = clairvoyant_bound(market, config)
    best = best_of_all_plays(market, config, np.array([-3.0, -1.0, 0.0, 1.0, 3.0]))
    unlimited = clairvoyant_bound(market, config.replace(participation=(1.0,) * 3))
    assert best - 1e-6 <= bound.money < unlimited.money
    assert np.abs(np.diff(bound.path, prepend=0.0)).max() <= np.floor(share * market.columns.volume.max())


@pytest.mark.parametrize(
    ("config", "positions"),
    [
        (REFERENCE, None),
        (EnvConfig(max_position=4.0, margin=False), [-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0]),
        (EnvConfig(max_position=4.0, margin=False), None),
    ],
)
def test_the_plan_earns_exactly_the_bound(config: EnvConfig, positions: list[float] | None) -> None:
    market = synthetic.regimes(seed=8, sessions=3)
    bound = clairvoyant_bound(market, config, positions)
    aggressive = config.participation[2]
    env = FoxFuturesVectorEnv(
        1, market, config.replace(participation=(aggressive,) * 3, random_start=False), backend="cpu",
        action_type="continuous",
    )  # fmt: skip
    _, info = env.reset(seed=0)
    assert info["bar_index"][0] == bound.first_bar
    held = []
    for target in bound.path:
        *_, info = env.step(np.array([target / config.max_position], dtype=np.float32))
        held.append(info["position"][0])
    np.testing.assert_array_equal(held, bound.path)
    assert info["equity"][0] - config.initial_cash == pytest.approx(bound.money, rel=1e-9)
    assert bound.money_per_bar * len(bound.path) == pytest.approx(bound.money)
    assert bound.money > 0.0


def test_no_rule_beats_the_bound() -> None:
    market = synthetic.regimes(seed=9, sessions=2)
    bound = clairvoyant_bound(market, EnvConfig(margin=False))
    rng = np.random.default_rng(0)
    env = FoxFuturesVectorEnv(200, market, EnvConfig(margin=False, random_start=False), backend="cpu")
    env.reset(seed=0)
    for _ in range(len(market) - 1 - market.first_ready):
        actions = np.stack([rng.integers(0, k, 200) for k in (4, 3, 1, 3)], axis=-1)
        *_, info = env.step(actions)
    assert info["equity"].max() - 250_000.0 < bound.money


def test_a_bar_without_volume_cannot_be_traded() -> None:
    market = tiny(1, 6)
    prices = (market.bars.open, market.bars.high, market.bars.low, market.bars.close)
    bars = type(market.bars).from_arrays(market.bars.ts, *prices, np.array([9e3, 9e3, 0.0, 0.0, 9e3, 9e3]))
    quiet = Market.from_bars(bars, synthetic.SPEC, warmup=0, cache=False)
    bound = clairvoyant_bound(quiet, REFERENCE)
    assert bound.path[1] == bound.path[2] == bound.path[0]
    known = clairvoyant_bound(tiny(1, 6, volume=False), REFERENCE)  # unknown volume does not limit anything
    assert known.money > bound.money


def test_bound_of_a_hundred_thousand_bars_in_two_seconds() -> None:
    market = synthetic.martingale(seed=0, sessions=257)
    assert len(market) > 100_000
    began = time.process_time()
    clairvoyant_bound(market, REFERENCE)
    assert time.process_time() - began < 2.0


# ---- what is asked of the physics, and refusals --------------------------------------------------------------


def test_targets_are_the_environments() -> None:
    market = synthetic.signal(seed=0, sessions=2)
    np.testing.assert_array_equal(target_positions(market, EnvConfig()), [-10, -5, -3, 0, 3, 5, 10])
    np.testing.assert_array_equal(target_positions(market, EnvConfig(max_position=1.0)), [-1, 0, 1])


def test_refusals_are_one_sentence_with_the_mend() -> None:
    martingale = synthetic.martingale(seed=0, sessions=2)
    with pytest.raises(ConfigError, match=r"use one of fox_env\.synthetic\.signal"):
        signal_optimum(martingale)
    with pytest.raises(ConfigError, match="not synthetic"):
        signal_optimum(tiny(0, 6))
    with pytest.raises(ConfigError, match="use a market with less"):
        signal_optimum(synthetic.signal(seed=0, sessions=2, persistence=0.9999))
    with pytest.raises(ConfigError, match="use a larger lot"):
        clairvoyant_bound(martingale, EnvConfig(max_position=100.0))
    for positions in ("x", [0.0, np.nan], [[0.0], [1.0, 2.0]]):
        with pytest.raises(ConfigError, match=r"positions must contain 0, .* be numbers of contracts"):
            clairvoyant_bound(martingale, positions=positions)
    with pytest.raises(ConfigError, match="must contain 0"):
        clairvoyant_bound(martingale, positions=[1.0, 2.0])
    with pytest.raises(ConfigError, match=r"whole lots of 1 within \+-10 contracts"):
        clairvoyant_bound(martingale, positions=[0.0, 2.5])
    with pytest.raises(ConfigError, match="no known drift"):
        expected_money(tiny(0, 6), 1, 1.0, 0.0)


@pytest.mark.parametrize(
    "rule", [{"kelly": True}, {"latency_bars": 1}, {"min_hold_bars": 3, "min_hold": "hard"}]
)
def test_rules_that_remember_are_refused(rule: dict[str, Any]) -> None:
    """Under them an order's outcome depends on more than the position, so neither would be a bound."""
    market = synthetic.signal(seed=0, sessions=2)
    for refused in (signal_optimum, clairvoyant_bound):
        with pytest.raises(ConfigError, match=f"{next(iter(rule)).split('_bars')[0]}.* is not covered"):
            refused(market, EnvConfig(**rule))


def test_a_market_with_rolls_is_refused() -> None:
    market = synthetic.martingale(seed=0, sessions=1)
    gaps = np.zeros(len(market))
    gaps[50] = 1.0
    rolled = Market.from_bars(replace(market.bars, roll_gap=gaps), market.contract)
    with pytest.raises(ConfigError, match="the market has rolls"):
        clairvoyant_bound(rolled)
