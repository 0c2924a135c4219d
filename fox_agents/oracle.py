"""The oracle: plays the known optimum, to show how much a learner leaves on the table."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fox_agents.rules import Rule, RuleConfig
from fox_env import Market, _layout
from fox_env._layout import Direction, Magnitude, Observation, OrderType, Portfolio, Urgency
from fox_env.errors import ConfigError
from fox_env.optimum import clairvoyant_bound, signal_optimum
from fox_env.order_costs import target_positions

__all__ = ["Oracle"]

Actions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_FEATURES = int(Observation.FEATURES)
_SIGNAL = int(Observation.ORDER_FLOW)
_POSITION = int(Observation.PORTFOLIO + Portfolio.POSITION)


class Oracle(Rule):
    """Plays the optimal policy of a ``signal`` market, and on any other market the plan of someone who knows its bars.

    On ``signal`` it is an honest policy: it reads s_t from the observation and knows the generator's parameters, and
    nobody can expect to earn more. Elsewhere it finds its bar by the features it sees and trades with
    knowledge of the future (`fox_env.optimum.clairvoyant_bound` over the environment's targets): a bound, not a
    strategy.

    Parameters
    ----------
    env : FoxFuturesVectorEnv, optional
        Environment to be played. `fox_agents.evaluate` names its own in any case.
    config : RuleConfig, optional
        Options of a rule; the oracle has no random choices.
    """

    name = "oracle"

    def __init__(self, env: Any = None, config: RuleConfig | Mapping[str, Any] | None = None) -> None:
        super().__init__(env, config)
        self._plan: _SignalPlan | _ClairvoyantPlan | None = None
        if env is not None:
            self.prepare(env)

    def prepare(self, env: Any) -> None:
        """Compute the plan for the market and the rules of ``env``; called before the first `act`."""
        env = getattr(env, "unwrapped", env)
        market, config = env.market, env.config
        self._limit = config.max_position
        self._targets = target_positions(market, config)
        self._actions = _actions(self._targets, self._limit)
        self._plan = (
            _SignalPlan(market, config)
            if market.generator.startswith("signal:")
            else _ClairvoyantPlan(market, config, self._targets)
        )

    def act(self, obs: npt.NDArray[np.float32], *, deterministic: bool, masks: Any = None) -> Actions:
        """The best targets, by market orders with the largest share of volume, for every row of ``obs``.

        Raises
        ------
        ConfigError
            Before `prepare`, or for observations of another market.
        """
        if self._plan is None:
            raise ConfigError(
                "the oracle does not know the market yet; make it with the environment, make('oracle', env)"
            )
        position = obs[:, _POSITION].astype(np.float64) * self._limit
        target = self._plan.target(obs, position)
        return np.asarray(self._actions[np.searchsorted(self._targets, target)])


class _SignalPlan:
    """The optimal policy of a signal market."""

    def __init__(self, market: Market, config: Any) -> None:
        self._optimum = signal_optimum(market, config)

    def target(
        self, obs: npt.NDArray[np.float32], position: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        return self._optimum.target(obs[:, _SIGNAL], position)


class _ClairvoyantPlan:
    """The clairvoyant plan, looked up by the bar whose features are seen."""

    def __init__(self, market: Market, config: Any, targets: npt.NDArray[np.float64]) -> None:
        self._bound = clairvoyant_bound(market, config, targets)
        digests = _digests(np.ascontiguousarray(market.features))
        self._bars = np.argsort(digests)
        self._digests = digests[self._bars]

    def target(
        self, obs: npt.NDArray[np.float32], position: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        seen = _digests(np.ascontiguousarray(obs[:, :_FEATURES]))
        place = np.minimum(np.searchsorted(self._digests, seen), len(self._digests) - 1)
        if (self._digests[place] != seen).any():
            raise ConfigError("the oracle was made for another market; make it with the environment it plays")
        first = self._bound.first_bar
        # At the last bar there is nothing left to decide.
        bar = np.clip(self._bars[place], first, first + len(self._bound.path) - 1)
        return self._bound.target(bar, position)


def _digests(rows: npt.NDArray[np.float32]) -> Words:
    """A 64-bit word for the bits of each row (multilinear hashing, Carter and Wegman 1979)."""
    factors = np.random.Generator(np.random.PCG64(0)).integers(1, 2**63, rows.shape[1], dtype=np.uint64) | 1
    return np.asarray(rows.view(np.uint32).astype(np.uint64) @ factors)


def _actions(targets: npt.NDArray[np.float64], limit: float) -> Actions:
    """The action (m, 4) that asks for each target position."""
    table = np.empty((len(targets), len(_layout.ACTION_BRANCHES)), dtype=np.int64)
    shares = {Magnitude.QUARTER: 0.25, Magnitude.HALF: 0.5, Magnitude.FULL: 1.0}
    for row, target in zip(table, targets, strict=True):
        side = Direction.FLAT if target == 0.0 else (Direction.LONG if target > 0.0 else Direction.SHORT)
        size = min(shares, key=lambda name: abs(shares[name] * limit - abs(target)))
        row[:] = side, size, OrderType.MARKET, Urgency.AGGRESSIVE
    return table
