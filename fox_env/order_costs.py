"""What market orders cost and whether they are filled in full, asked of the physics instead of computed again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.config import EnvConfig
from fox_env.errors import ConfigError
from fox_env.market import Market
from fox_env.params import make_params
from fox_env.vector_env import FoxFuturesVectorEnv

__all__ = [
    "OrderCosts",
    "costs_are_uniform",
    "decision_bars",
    "liquidation_costs",
    "order_sizes",
    "target_positions",
]

Float = NDArray[np.float64]

_ENVS = 32_768  # accounts that execute orders at a time


class OrderCosts:
    """Costs of market orders of some sizes, decided at the close of any bar.

    Every order is executed once by the physics, at the urgency with the largest share of volume, from a flat
    account with twice the position limit, so that a reversal is one order too. Close it when done.

    Parameters
    ----------
    market : Market
        The bars.
    config : EnvConfig
        Rules of the account.
    sizes : int64 (k,)
        Signed lots.
    bars : int
        Most bars to be asked about in one call.
    close_at_end : bool
        At the last bar, also sell at its close what the order opened.
    """

    def __init__(
        self,
        market: Market,
        config: EnvConfig,
        sizes: NDArray[np.int64],
        bars: int = 1,
        *,
        close_at_end: bool = False,
    ) -> None:
        largest = config.participation[_layout.Urgency.AGGRESSIVE]
        asked = _limitless(config).replace(
            max_position=2.0 * config.max_position, participation=(largest,) * 3, close_at_end=close_at_end
        )
        self.bars = max(min(_ENVS // len(sizes), bars), 1)
        self._shape = self.bars, len(sizes)
        lots = np.tile(sizes, self.bars)
        self._contracts = (lots * config.lot).reshape(self._shape)
        self._half_lot = 0.5 * config.lot
        self._exposure = (lots / (2.0 * config.max_lots)).astype(np.float32)
        self._env = FoxFuturesVectorEnv(
            len(lots), market, asked, backend="cpu", action_type="continuous", trade_capacity=0, copy=False
        )

    def ask(self, bars: NDArray[np.int64]) -> tuple[Float, NDArray[np.bool_]]:
        """Return money and whether the order is filled in full, both (bars, k), for at most ``self.bars`` bars."""
        asked = np.concatenate([bars, np.full(self.bars - len(bars), bars[0])])
        self._env.reset(seed=0, options={"start": np.repeat(asked, self._shape[1])})
        *_, info = self._env.step(self._exposure)
        cost = np.array(info["cost"], dtype=np.float64).reshape(self._shape)
        filled = np.abs(info["fill_quantity"].reshape(self._shape) - self._contracts) < self._half_lot
        return cost[: len(bars)], filled[: len(bars)]

    def close(self) -> None:
        """Free the accounts."""
        self._env.close()


def decision_bars(market: Market) -> tuple[int, int]:
    """First and last bar at whose close an order can be decided."""
    return min(market.first_ready, len(market) - 2), len(market) - 2


def costs_are_uniform(market: Market, config: EnvConfig) -> bool:
    """Whether a contract costs the same in every bar and size, and every market order is filled in full.

    The cost of a market order varies with the bar only through the impact and the fee on the notional, both
    parameters of the physics. Fills are cut most where the volume is smallest; the largest orders are tried
    there.
    """
    params = make_params(market, config, 0)
    if params.impact_coef != 0.0 or params.fee_rate != 0.0:
        return False
    if not market.has_volume:
        return True
    first, last = decision_bars(market)
    thinnest = first + int(np.argmin(market.columns.volume[first + 1 : last + 2]))
    sizes = np.array([-2, 2]) * config.max_lots
    with closing(OrderCosts(market, config, sizes)) as costs:
        return bool(costs.ask(np.array([thinnest]))[1].all())


def order_sizes(positions: Float, config: EnvConfig) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the distinct order sizes in lots between positions, and which of them leads from a row to a column."""
    lots = np.rint(positions / config.lot).astype(np.int64)
    if (
        np.abs(lots * config.lot - positions).max() > 1e-9 * config.lot
        or np.abs(lots).max() > config.max_lots
    ):
        raise ConfigError(
            f"clairvoyant_bound: positions {positions.tolist()} must be whole lots of {config.lot:g} within "
            f"+-{config.max_position:g} contracts."
        )
    sizes, order = np.unique(lots[None, :] - lots[:, None], return_inverse=True)
    return sizes, order.reshape(len(lots), len(lots))


def liquidation_costs(market: Market, config: EnvConfig, positions: Float) -> Float:
    """Return the money that closing positions at the last bar costs; 0 where they are only valued at the mark."""
    if not config.sells_at_end:
        return np.zeros(len(positions))
    lots = np.rint(positions / config.lot).astype(np.int64)
    # No position may be cut before it is sold, nor unopened as the last bar has no volume; closing needs none.
    opened = config.replace(participation=(1e9,) * 3)
    volume = market.columns.volume.copy()
    volume[-1] = max(volume[-1], 1.0)
    market = replace(market, columns=replace(market.columns, volume=volume))
    paid = []
    for sold in (False, True):
        with closing(OrderCosts(market, opened, lots, close_at_end=sold)) as costs:
            paid.append(costs.ask(np.array([len(market) - 2]))[0][0])
    return np.asarray(paid[1] - paid[0])


def target_positions(market: Market, config: EnvConfig) -> Float:
    """Return the contracts that the environment's actions ask for, ascending: full short to full long, and 0."""
    actions = np.array(
        [(side, size, _layout.OrderType.MARKET, _layout.Urgency.AGGRESSIVE)
         for side in (_layout.Direction.SHORT, _layout.Direction.LONG, _layout.Direction.FLAT)
         for size in _layout.Magnitude]
    )  # fmt: skip
    asked = _limitless(config).replace(participation=(1e9,) * 3)
    bar = int(np.argmax(market.columns.volume[1:]))  # in a bar without volume nothing is filled
    with closing(FoxFuturesVectorEnv(len(actions), market, asked, backend="cpu", trade_capacity=0)) as env:
        env.reset(seed=0, options={"start": np.full(len(actions), bar)})
        *_, info = env.step(actions)
        return np.unique(np.asarray(info["position"], dtype=np.float64))


def _limitless(config: EnvConfig) -> EnvConfig:
    """`config` for an account that no margin, floor, horizon or saboteur stops."""
    return config.replace(
        initial_cash=1e15,
        trail_atr=(None, None),
        profit_target_atr=None,
        flat_at_session_end=False,
        capital_floor=0.0,
        margin=False,
        horizon=None,
        exploration_scale=0.0,
        random_start=False,
        close_at_end=False,
        reward="return",  # the trade reward sells at the end
    )
