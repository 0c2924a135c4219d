"""Known optima: the best policy of the ``signal`` market, and the clairvoyant bound of any market.

Both are dynamic programmes over (state, position) for market orders of the largest share of volume. What an order
costs and whether it is filled in full is asked of the physics, by executing it once in the environment; only two
facts about the account are used here, both stated in ``docs/physics.md``: an order decided at the close of bar t is
executed at the open of bar t+1 and marked at its close, and the equity changes by position times the change of the
reference price times the tick value, less the cost.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fox_env import synthetic
from fox_env._layout import BarFlag
from fox_env.config import EnvConfig
from fox_env.errors import ConfigError
from fox_env.market import Market
from fox_env.order_costs import (
    OrderCosts,
    costs_are_uniform,
    decision_bars,
    liquidation_costs,
    order_sizes,
    target_positions,
)
from fox_env.synthetic.draws import normal_law

__all__ = [
    "REFERENCE",
    "ClairvoyantBound",
    "SignalOptimum",
    "clairvoyant_bound",
    "expected_money",
    "signal_optimum",
]

Float = NDArray[np.float64]
Index = NDArray[np.intp]

REFERENCE = EnvConfig(
    initial_cash=1e7,
    max_position=4.0,
    margin=False,
    impact_coef=0.0,
    participation=(1.0, 1.0, 1.0),
    capital_floor=0.0,
    reward="risk",
)
"""The configuration of the learner's reference tests: nothing but the signal, the position and linear costs."""

_MOST_LOTS = 64
_STEP, _WIDTH = 0.02, 6.0
_MOST_PERSISTENCE = 0.999
_SAMPLED_BARS = 256
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class SignalOptimum:
    """Optimal value and policy of a ``signal`` market; arrays over n signals and m positions.

    Attributes
    ----------
    money_per_bar : float
        Money: expected change of equity a bar under the optimal policy, after costs, in the long run.
    error : float
        Money: how far `money_per_bar` can be from the fixed point of the programme on its grid.
    exact : bool
        Whether the costs are the same in every bar and every order is filled in full. Otherwise the programme
        uses the mean costs of the market's bars, and `money_per_bar` is an approximation.
    signal : float64 (n,)
        Values of s_t, ascending.
    positions : float64 (m,)
        Contracts, ascending: the targets that the environment offers.
    policy : intp (n, m)
        Index of the best target position for a signal and the position held.
    """

    money_per_bar: float
    error: float
    exact: bool
    signal: Float
    positions: Float
    policy: Index

    def target(self, signal: ArrayLike, position: ArrayLike) -> Float:
        """Return the best target positions in contracts for signals and the positions held, arrays alike."""
        return np.asarray(
            self.positions[self.policy[_nearest(self.signal, signal), _nearest(self.positions, position)]]
        )


@dataclass(frozen=True, eq=False)
class ClairvoyantBound:
    """The most that market orders could have earned on the realised bars, by someone who knew them.

    Attributes
    ----------
    money : float
        Money: change of equity from the first decision to the last bar, after costs.
    first_bar : int
        Bar of the first decision, made with a flat position.
    positions : float64 (m,)
        Contracts, ascending: the positions considered.
    policy : int16 (bars, m)
        Index of the best target after the close of bar ``first_bar + i`` for each position held.
    path : float64 (bars,)
        Contracts held during each bar from ``first_bar + 1`` on the best path.
    """

    money: float
    first_bar: int
    positions: Float
    policy: NDArray[np.int16]
    path: Float

    @property
    def money_per_bar(self) -> float:
        """Money a bar."""
        return self.money / len(self.path)

    def target(self, bar: ArrayLike, position: ArrayLike) -> Float:
        """Return the best target positions in contracts after the close of bars, arrays alike."""
        row = np.asarray(bar) - self.first_bar
        return np.asarray(self.positions[self.policy[row, _nearest(self.positions, position)]])


def signal_optimum(market: Market, config: EnvConfig = REFERENCE) -> SignalOptimum:
    """Return the optimal policy of a ``signal`` market under the average-reward criterion.

    Parameters
    ----------
    market : Market
        Made by :func:`fox_env.synthetic.signal`; only its parameters, contract and costs are used.
    config : EnvConfig
        Rules of the account. Margin, the capital floor and the horizon are left out of the programme.

    Raises
    ------
    ConfigError
        The market is not a ``signal`` market; or a rule under which an order depends on more than the position.

    Notes
    -----
    Relative value iteration (Puterman 1994, section 8.5) of

        h(s, p) + rho = max_a { a beta sigma s tick value - cost(p, a) + E[h(s', a) | s] }

    on a grid of s in steps of 0.02 within +-6, s' = phi s + sqrt(1 - phi^2) e with the exact law of e
    (:func:`fox_env.synthetic.draws.normal_law`), split linearly between neighbouring grid points.
    """
    name, values = synthetic.parse(market.generator) if market.generator else ("", {})
    if name != "signal":
        raise ConfigError(
            f"signal_optimum: the market is {market.generator or 'not synthetic'}; "
            "use one of fox_env.synthetic.signal, or clairvoyant_bound for other markets."
        )
    persistence = float(values["persistence"])
    if persistence > _MOST_PERSISTENCE:
        raise ConfigError(
            f"signal_optimum: a persistence of {persistence:g} is above {_MOST_PERSISTENCE:g}, too slow for the "
            "programme's grid; use a market with less."
        )
    _refuse_order_rules("signal_optimum", market, config)
    positions = target_positions(market, config)
    uniform, cost = _mean_costs(market, config, positions)
    points = round(_WIDTH / _STEP)
    signal: Float = np.arange(-points, points + 1, dtype=np.float64) * _STEP
    pay = values["beta"] * values["sigma_ticks"] * market.contract.tick_value * signal
    rho, error, policy = average_reward(pay, _transition(signal, persistence), positions, cost)
    return SignalOptimum(rho, error, uniform and config.margin is False, signal, positions, policy)


def average_reward(
    pay: Float, transition: Float, positions: Float, cost: Float
) -> tuple[float, float, Index]:
    """Solve an average-reward programme over (state, position) by relative value iteration.

    Parameters
    ----------
    pay : float64 (n,)
        Expected money a contract earns in the bar after each state.
    transition : float64 (n, n)
        Probability of the next state, rows summing to 1; aperiodic with one recurrent class.
    positions : float64 (m,)
        Contracts.
    cost : float64 (m, m)
        Money to go from a position (row) to another (column); infinite where that is impossible.

    Returns
    -------
    value, error, policy
        Money a bar, half the width of the interval that is sure to hold it, and the index of the best
        position (n, m).
    """
    relative = np.zeros((len(pay), len(positions)))
    earned = pay[:, None] * positions
    low, high, scale = -np.inf, np.inf, float(np.abs(earned).max())
    while high - low > _TOLERANCE * scale:
        choice = (earned + transition @ relative)[:, None, :] - cost
        value = choice.max(axis=2)
        low, high = float((value - relative).min()), float((value - relative).max())
        relative = value - value[len(pay) // 2, len(positions) // 2]
    return 0.5 * (low + high), 0.5 * (high - low), choice.argmax(axis=2)


def clairvoyant_bound(
    market: Market, config: EnvConfig | None = None, positions: ArrayLike | None = None
) -> ClairvoyantBound:
    """Return the most that market orders can earn on a market's bars from its first ready bar to its end.

    Parameters
    ----------
    market : Market
        The bars.
    config : EnvConfig, optional
        Rules of the account; the defaults if None. Margin and the capital floor are left out.
    positions : array of float, optional
        Contracts that may be held, 0 among them. None: enough for the bound to hold for every sequence of
        market orders. Where a contract costs the same in every bar and size, the environment's targets are
        enough; otherwise every whole number of lots is considered.

    Raises
    ------
    ConfigError
        Costs that depend on the size with a limit of more than 64 lots and no `positions`; a market with rolls,
        whose costs are no order's; stops and targets; Kelly cap, latency, hard minimum hold or close-today fees.
    """
    config = config or EnvConfig()
    if config.has_exits:
        raise ConfigError(
            "clairvoyant_bound: exits that no order asks for are not covered; leave trail_atr, profit_target_atr, "
            "margin='intrabar' and flat_at_session_end out."
        )
    _refuse_order_rules("clairvoyant_bound", market, config)
    if (market.columns.flags & BarFlag.ROLL).any():
        raise ConfigError(
            "clairvoyant_bound: the market has rolls, which the bound does not cover; splice the expiries with "
            "adjust='difference'."
        )
    uniform = costs_are_uniform(market, config)
    held = _considered(market, config, uniform) if positions is None else _given(positions)
    sizes, order = order_sizes(held, config)
    first, last = decision_bars(market)
    policy = np.empty((last + 1 - first, len(held)), dtype=np.int16)
    value = -liquidation_costs(market, config, held)
    with closing(OrderCosts(market, config, sizes, 1 if uniform else len(policy))) as costs:
        stop = last + 1
        while stop > first:
            start = first if uniform else max(stop - costs.bars, first)
            money, filled = costs.ask(np.arange(start, start + 1 if uniform else stop))
            cost = np.where(filled, money, np.inf)
            value = _backward(market, slice(start, stop), held, cost, order, value, policy[start - first :])
            stop = start
    flat = int(np.searchsorted(held, 0.0))
    return ClairvoyantBound(float(value[flat]), first, held, policy, held[_follow(policy, flat)])


def _refuse_order_rules(who: str, market: Market, config: EnvConfig) -> None:
    """Refuse rules under which what an order does depends on more than the position and the bar."""
    rules = {
        "kelly": config.kelly,
        "latency_bars": config.latency_bars > 0,
        "min_hold='hard'": config.min_hold == "hard" and config.min_hold_bars > 0,
        "a contract with a fee for closing on the same day": market.contract.closes_today_apart,
    }
    for name, on in rules.items():
        if on:
            raise ConfigError(f"{who}: {name} is not covered; leave it out.")


def expected_money(market: Market, bar_index: ArrayLike, position: ArrayLike, cost: ArrayLike) -> Float:
    """Return the expected money of steps on a synthetic market, free of the luck of its noise.

    Parameters
    ----------
    market : Market
        Synthetic: ``bars.extra["drift"]`` is the expected change in ticks over each bar.
    bar_index, position, cost
        Arrays of ``info`` after the steps: bar of the mark, contracts held, money.

    Returns
    -------
    float64
        Drift of the bar times position times tick value, less cost. It is the expectation of the change of equity
        for positions taken at the open of the bar, where a market opens at the close before it.

    Raises
    ------
    ConfigError
        The market has no known drift.
    """
    if "drift" not in market.bars.extra:
        raise ConfigError(
            "expected_money: these bars have no known drift; use a market of fox_env.synthetic."
        )
    drift = market.bars.extra["drift"][np.asarray(bar_index)]
    return np.asarray(drift * np.asarray(position) * market.contract.tick_value - np.asarray(cost))


def _considered(market: Market, config: EnvConfig, uniform: bool) -> Float:
    """Positions that make the bound hold for every sequence of market orders.

    With costs linear in the size the programme splits into one for each contract, whose positions are 0 and 1:
    the best path stays at the limits and zero.
    """
    if uniform:
        return target_positions(market, config)
    if config.max_lots > _MOST_LOTS:
        raise ConfigError(
            f"clairvoyant_bound: costs depend on the size and max_position is {config.max_lots} lots, more than "
            f"{_MOST_LOTS}; use a larger lot, name the positions, or set impact_coef=0, fee_rate=0 and "
            "participation=(1, 1, 1)."
        )
    return np.arange(-config.max_lots, config.max_lots + 1, dtype=np.float64) * config.lot


def _given(positions: ArrayLike) -> Float:
    try:
        held = np.unique(np.asarray(positions, dtype=np.float64))
    except (TypeError, ValueError):
        held = np.empty(0)
    if not np.isfinite(held).all() or 0.0 not in held:
        raise ConfigError(
            "clairvoyant_bound: positions must contain 0, where every account begins, and be numbers of contracts, "
            f"got {positions!r}."
        )
    return held


def _backward(
    market: Market,
    bars: slice,
    held: Float,
    cost: Float,
    order: Index,
    value: Float,
    policy: NDArray[np.int16],
) -> Float:
    """Go back through decision bars: values (m,) after them to values before them; fills `policy` (bars, m).

    `cost` has one row for each bar, or one for all of them.
    """
    columns, tick_value = market.columns, market.contract.tick_value
    opening = columns.open[bars.start + 1 : bars.stop + 1]
    before = np.outer(opening - columns.close[bars], held * tick_value)
    after = np.outer(columns.close[bars.start + 1 : bars.stop + 1] - opening, held * tick_value)
    same, matrix = len(cost) == 1, cost[0][order]
    rows = np.arange(len(held))
    for i in range(len(opening) - 1, -1, -1):
        choice = (after[i] + value) - (matrix if same else cost[i][order])
        best = choice.argmax(axis=1)
        policy[i] = best
        value = before[i] + choice[rows, best]
    return value


def _follow(policy: NDArray[np.int16], index: int) -> Index:
    """Indices of the positions that the policy takes from position `index`."""
    path = []
    for row in policy.tolist():
        index = row[index]
        path.append(index)
    return np.asarray(path, dtype=np.intp)


def _mean_costs(market: Market, config: EnvConfig, positions: Float) -> tuple[bool, Float]:
    """Whether costs are the same in every bar, and money (m, m) from a position (row) to another, the bars' mean."""
    uniform = costs_are_uniform(market, config)
    first, last = decision_bars(market)
    bars = np.unique(np.linspace(first, last, 1 if uniform else _SAMPLED_BARS).astype(np.int64))
    sizes, order = order_sizes(positions, config)
    with closing(OrderCosts(market, config, sizes, len(bars))) as costs:
        money, filled = costs.ask(bars)
    mean = (money * filled).sum(axis=0) / np.maximum(filled.sum(axis=0), 1)
    return uniform, np.where(filled.any(axis=0), mean, np.inf)[order]


def _transition(signal: Float, persistence: float) -> Float:
    """Probabilities (n, n) of the next signal on an even grid.

    Each of its values is split linearly between the neighbouring grid points; what that adds to the variance is
    taken from the innovation.
    """
    values, weights = normal_law()
    count, step = len(signal), signal[1] - signal[0]
    variance = 1.0 - persistence * persistence
    spread = np.full((count, 1), np.sqrt(variance))
    for _ in range(2):
        place = (persistence * signal[:, None] + spread * values - signal[0]) / step
        place = np.clip(place, 0.0, count - 1.0)
        below = np.minimum(place.astype(np.intp), count - 2)
        share = place - below
        added = (share * (1.0 - share)) @ weights * (step * step)
        spread = np.sqrt(variance - added)[:, None]
    table = np.zeros((count, count))
    rows = np.broadcast_to(np.arange(count)[:, None], place.shape)
    np.add.at(table, (rows, below), weights * (1.0 - share))
    np.add.at(table, (rows, below + 1), weights * share)
    return table


def _nearest(grid: Float, values: ArrayLike) -> Index:
    """Indices of the grid points nearest to values."""
    wanted = np.clip(np.asarray(values, dtype=np.float64), grid[0], grid[-1])
    right = np.clip(np.searchsorted(grid, wanted), 1, len(grid) - 1)
    return right - (wanted - grid[right - 1] < grid[right] - wanted)
