"""Reference markets of the learner: what is traded, under which rules, and the right answer of each."""

import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fox_agents.oracle import _actions
from fox_agents.rules import Rule
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, _layout, synthetic
from fox_env._layout import Observation, OrderType, Portfolio
from fox_env.errors import ConfigError
from fox_env.optimum import REFERENCE, SignalOptimum, signal_optimum
from fox_env.order_costs import OrderCosts

__all__ = [
    "FIRST_SCORING_SEED",
    "REFERENCE_MARKETS",
    "TRAINING_SESSIONS",
    "MarketOrderEnv",
    "PlantedRule",
    "ReferenceMarket",
    "RuleAgent",
    "planted_rule",
    "reference_market",
]

Float = npt.NDArray[np.float64]

FIRST_SCORING_SEED = 1_000_000
"""Seeds of generated markets from here on are for scoring; training takes smaller ones."""

TRAINING_SESSIONS = 2_500
"""Sessions of a training market, 975,000 bars: with 60 a regression on all features fits the noise (77 % of the
optimum of ``signal``, against 99 % with these)."""

_ORDER_COLUMNS = slice(_layout.ACTION_BRANCHES[0] + _layout.ACTION_BRANCHES[1], -_layout.ACTION_BRANCHES[3])
_POSITION = int(Observation.PORTFOLIO + Portfolio.POSITION)
_FEW_SESSIONS = 2  # enough to ask for parameters and costs


@dataclass(frozen=True)
class ReferenceMarket:
    """A generated market, the rules of its accounts, and the kind of its right answer."""

    name: str
    """Name in `REFERENCE_MARKETS`."""
    generator: str
    """Synthetic market without seed and length, such as ``"signal:beta=0.2"``."""
    config: EnvConfig
    """Rules of training and scoring."""
    answer: Literal["no trade", "optimum", "planted rule", "fixed rules"]
    """``optimum``: the value of a dynamic programme; ``planted rule``: what the rule that knows the drift earns on the
    same bars; ``fixed rules``: the best rule of `fox_agents.fixed_rules` for each phase; ``no trade``: 0."""
    bar: float
    """Share of the answer that passes; for ``fixed rules`` of the best rule that ignores the phase."""
    improves: bool = False
    """Whether an agent passes by getting no worse instead: see `improved`."""

    def market(self, seed: int, sessions: int = TRAINING_SESSIONS) -> Market:
        """Return the market of a seed: below `FIRST_SCORING_SEED` for training, from it on for scoring."""
        name, values = synthetic.parse(self.generator)
        made: Any = synthetic.MARKETS[name]
        market: Market = made(seed=seed, sessions=sessions, **values)
        return market


def _signal(name: str, beta: float, bar: float = 0.95, **rules: Any) -> ReferenceMarket:
    return ReferenceMarket(name, f"signal:beta={beta!r}", REFERENCE.replace(**rules), "optimum", bar)


REFERENCE_MARKETS: Mapping[str, ReferenceMarket] = MappingProxyType(
    {
        each.name: each
        for each in (
            ReferenceMarket("martingale", "martingale", REFERENCE, "no trade", 0.0),
            _signal("signal", 0.1),
            _signal("signal_weak", 0.05),
            _signal("signal_strong", 0.2),
            _signal("signal_strongest", 0.4),
            _signal("signal_cheap", 0.1, half_spread_ticks=0.0),
            _signal("signal_dear", 0.1, half_spread_ticks=1.0),
            replace(_signal("sparse", 0.2, 0.0, reward="trade"), improves=True),
            ReferenceMarket("momentum", "momentum", REFERENCE, "planted rule", 0.8),
            ReferenceMarket("reversal", "reversal", REFERENCE, "planted rule", 0.8),
            ReferenceMarket("regimes", "regimes", REFERENCE, "fixed rules", 1.0),
        )
    }
)
"""The reference markets by name, under `fox_env.optimum.REFERENCE`: 4 contracts, no Kelly cap, margin or impact."""


def reference_market(name: str, **changes: Any) -> ReferenceMarket:
    """Return a reference market with other values of its generator's parameters or of its rules.

    Parameters
    ----------
    name : str
        Key of `REFERENCE_MARKETS`.
    **changes
        Parameters of the generator (``beta=0.3``) and options of `fox_env.EnvConfig` (``half_spread_ticks=2.0``).

    Raises
    ------
    ConfigError
        Unknown names, or values out of range.
    """
    if name not in REFERENCE_MARKETS:
        raise ConfigError(
            f"unknown reference market {name!r}; they are {', '.join(sorted(REFERENCE_MARKETS))}"
        )
    found = REFERENCE_MARKETS[name]
    if not changes:
        return found
    rules = {key: value for key, value in changes.items() if key in EnvConfig.__dataclass_fields__}
    kind, values = synthetic.parse(found.generator)
    values |= {key: value for key, value in changes.items() if key not in rules}
    text = f"{kind}:" + ",".join(f"{key}={value!r}" for key, value in values.items())
    synthetic.parse(text)  # refuses what the generator does not know
    label = ",".join(f"{key}={value}" for key, value in changes.items())
    return replace(found, name=f"{name}:{label}", generator=text, config=found.config.replace(**rules))


@dataclass(frozen=True, eq=False)
class PlantedRule:
    """The policy of someone who knows the score that drives a market: the best there is on ``signal``.

    Attributes
    ----------
    optimum : SignalOptimum
        Policy over (score, position), and its value.
    drift_ticks : float
        Expected change of the next bar in ticks at one unit of the score.
    contract_cost : float
        Money that a contract costs on each side.
    """

    optimum: SignalOptimum
    drift_ticks: float
    contract_cost: float

    def score(self, market: Market) -> Float:
        """Return the score (T,) that is known at the close of each bar; 0 at the last."""
        score: Float = np.zeros(len(market))
        score[:-1] = market.bars.extra["drift"][1:] / self.drift_ticks
        return score


def planted_rule(reference: ReferenceMarket) -> PlantedRule:
    """Return the planted rule of a ``signal``, ``momentum`` or ``reversal`` market.

    Raises
    ------
    ConfigError
        For another market.

    Notes
    -----
    On ``signal`` the score is s_t and the rule the exact optimum. ``momentum`` and ``reversal`` follow
    m' = m + w (c - m), c = g m / d + e the change in deviations, w = 2 / (span + 1), d^2 = w / (2 - w), g the strength
    with the rule's sign. So m is an AR(1) series of persistence f = 1 - w + w g / d and variance
    v = w^2 / (1 - f^2), and the rule is the optimum of the signal market with beta = g sqrt(v) / d and that
    persistence. It leaves out that m begins at 0 in every session and that the drift is limited at 3 d.
    """
    name, given = synthetic.parse(reference.generator)
    small: Any = synthetic.MARKETS[name]
    text = small(seed=0, sessions=_FEW_SESSIONS, **given).generator
    values = synthetic.parse(text)[1]
    if name == "signal":
        beta, persistence = values["beta"], values["persistence"]
    elif name in ("momentum", "reversal"):
        sign = 1.0 if name == "momentum" else -1.0
        weight = 2.0 / (values["span"] + 1.0)
        slope = sign * values["strength"] / math.sqrt(weight / (2.0 - weight))
        persistence = 1.0 - weight + weight * slope
        beta = slope * weight / math.sqrt(1.0 - persistence * persistence)
    else:
        raise ConfigError(
            f"planted_rule: {reference.generator} has no planted score; use signal, momentum or reversal"
        )
    market = synthetic.signal(
        seed=0,
        sessions=_FEW_SESSIONS,
        beta=beta,
        persistence=persistence,
        sigma_ticks=values["sigma_ticks"],
    )
    optimum = signal_optimum(market, reference.config)
    return PlantedRule(optimum, beta * values["sigma_ticks"], contract_cost(market, reference.config))


def contract_cost(market: Market, config: EnvConfig) -> float:
    """Money that one lot costs on a side, by a contract, where it is the same in every bar and size."""
    with closing(OrderCosts(market, config, np.array([1]))) as costs:
        money, _ = costs.ask(np.array([market.first_ready]))
    return float(money[0, 0]) / config.lot


class RuleAgent(Rule):
    """Plays a planted rule through the physics, reading the true score of the bar: a check of the scores.

    Parameters
    ----------
    rule : PlantedRule
        What to play.
    sign : float
        -1 plays it against the score.
    """

    name = "planted_rule"

    def __init__(self, rule: PlantedRule, sign: float = 1.0) -> None:
        super().__init__()
        self._rule, self._sign = rule, sign

    def prepare(self, env: FoxFuturesVectorEnv) -> None:
        """Read the true score of the market that ``env`` trades."""
        self._bar = env.outputs["info.bar_index"]
        self._limit = env.config.max_position
        self._score = self._sign * self._rule.score(env.market)
        self._table = _actions(self._rule.optimum.positions, self._limit)

    def act(
        self, obs: npt.NDArray[np.float32], *, deterministic: bool, masks: Any = None
    ) -> npt.NDArray[np.int64]:
        """The rule's targets by market orders."""
        target = self._rule.optimum.target(self._score[self._bar], obs[:, _POSITION] * self._limit)
        return np.asarray(self._table[np.searchsorted(self._rule.optimum.positions, target)])


class MarketOrderEnv(FoxFuturesVectorEnv):
    """The environment with market orders alone: the masks of branches leave no other, and every order becomes one.

    A limit order is filled inside a bar, at a price and with a drift that `fox_env.optimum.expected_money` cannot know.
    """

    def action_masks(self) -> Any:
        """Return the environment's masks without limit and IOC orders."""
        masks = super().action_masks()
        if self._action_type == "branches":
            _leave_market_orders(masks)
        return masks

    # Both `step` and `rollout` go through this one.
    def _advance(self, actions: Any, conviction: Any | None = None) -> None:
        super()._advance(market_orders(actions) if self._action_type == "branches" else actions, conviction)
        if self._torch and "final_masks" in self.outputs:
            _leave_market_orders(self.outputs["final_masks"])


def _leave_market_orders(masks: Any) -> None:
    masks[:, _ORDER_COLUMNS] = False
    masks[:, _ORDER_COLUMNS.start + int(OrderType.MARKET)] = True


def market_orders(actions: Any) -> Any:
    """Return branch actions (N, 4) with the order type of each row made a market order."""
    changed = np.array(actions) if not hasattr(actions, "clone") else actions.clone()
    changed[:, 2] = int(OrderType.MARKET)
    return changed
