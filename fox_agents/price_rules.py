"""Two rules of past prices that traders have used for decades: follow the trend, and bet on the return to the mean.

Both look at closes up to the present bar only, without the jumps between two contracts at a roll, and trade the full
position with market orders. Nothing is fitted; the lengths are options, to be chosen on data that is not scored.

Sources: Moskowitz, Ooi and Pedersen, "Time Series Momentum" (2012): the sign of the past return. Bollinger, "Bollinger
on Bollinger Bands" (2001): 20 bars and two standard deviations, with the way back to the mean as the exit.
"""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fox_agents.rule_config import MeanReversionConfig, MomentumConfig
from fox_agents.rules import Rule
from fox_env import Market
from fox_env._layout import Direction, Magnitude, Observation, OrderType, Portfolio, Urgency
from fox_env.errors import ConfigError

__all__ = ["MeanReversion", "Momentum"]

Float = npt.NDArray[np.float64]

_POSITION = int(Observation.PORTFOLIO + Portfolio.POSITION)


class _PriceRule(Rule):
    """A rule of one number a bar, computed once for the market that is played."""

    def __init__(self, env: Any = None, config: Any = None) -> None:
        super().__init__(env, config)
        self._indicator: Float | None = None
        if env is not None:
            self.prepare(env)

    def prepare(self, env: Any) -> None:
        """Compute the rule's indicator for the market of ``env``; called before the first `act`."""
        env = getattr(env, "unwrapped", env)
        self._indicator, self._bar = self.indicator(env.market), env.outputs["info.bar_index"]

    def indicator(self, market: Market) -> Float:
        """What the rule decides by after each bar, (T,); 0 while there are too few bars."""
        raise NotImplementedError

    def act(
        self, obs: npt.NDArray[np.float32], *, deterministic: bool, masks: Any = None
    ) -> npt.NDArray[np.int64]:
        """The rule's action for every row of ``obs``, the present observation of the environment given to `prepare`.

        Raises
        ------
        ConfigError
            Before `prepare`, or for observations of another environment.
        """
        if self._indicator is None or len(self._bar) != len(obs):
            raise ConfigError(
                f"{self.name} does not know this environment yet; make it with the environment it plays, "
                f"make({self.name!r}, env)"
            )
        actions = np.empty((len(obs), 4), dtype=np.int64)
        actions[:] = Direction.HOLD, Magnitude.FULL, OrderType.MARKET, Urgency.NORMAL
        actions[:, 0] = self._directions(self._indicator[np.asarray(self._bar)], np.sign(obs[:, _POSITION]))
        return actions

    def _directions(self, indicator: Float, side: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """Direction (N,) for the indicator and the sign of the position of each row."""
        raise NotImplementedError


class Momentum(_PriceRule):
    """Is long after a rise over the look-back, short after a fall, and keeps its position after neither."""

    name = "momentum"
    config_class: ClassVar[type[Any]] = MomentumConfig

    def indicator(self, market: Market) -> Float:
        """Change of the price over the look-back, points (T,)."""
        prices, n = _continuous_closes(market), self.config.lookback
        change = np.zeros(len(prices))
        change[n:] = prices[n:] - prices[:-n]
        return change

    def _directions(self, indicator: Float, side: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        choices = [int(Direction.LONG), int(Direction.SHORT)]
        return np.select([indicator > 0.0, indicator < 0.0], choices, int(Direction.HOLD))


class MeanReversion(_PriceRule):
    """Sells far above the moving mean and buys far below it, and closes on the way back.

    With z the distance from the mean in standard deviations: short from z >= entry until z <= exit, long from
    z <= -entry until z >= -exit.
    """

    name = "mean_reversion"
    config_class: ClassVar[type[Any]] = MeanReversionConfig

    def indicator(self, market: Market) -> Float:
        """The distance z (T,) over the look-back, which ends with the present bar; population standard deviation."""
        prices, n = _continuous_closes(market), self.config.lookback
        z = np.zeros(len(prices))
        if len(prices) < n:
            return z
        lagged = [prices[n - 1 - lag : len(prices) - lag] for lag in range(n)]
        mean = sum(lagged) / n
        spread = np.sqrt(sum((past - mean) ** 2 for past in lagged) / n)
        moved = spread > 1e-6 * market.contract.tick_size  # else rounding alone
        np.divide(lagged[0] - mean, spread, out=z[n - 1 :], where=moved)
        return z

    def _directions(self, indicator: Float, side: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        c = self.config
        reverted = ((side < 0) & (indicator <= c.exit)) | ((side > 0) & (indicator >= -c.exit))
        choices = [int(Direction.SHORT), int(Direction.LONG), int(Direction.FLAT)]
        return np.select(
            [indicator >= c.entry, indicator <= -c.entry, reverted], choices, int(Direction.HOLD)
        )


def _continuous_closes(market: Market) -> Float:
    """Closes less the jumps of all rolls so far: a change of them is a change of the contract held."""
    bars = market.bars
    closes: Float = np.asarray(bars.close, dtype=np.float64)
    return closes if bars.roll_gap is None else closes - np.cumsum(bars.roll_gap)
