"""The environment's options: what an account may do and what it costs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np

from fox_env.errors import ConfigError

__all__ = ["EnvConfig"]

_SMALLEST, _LARGEST = 1e-15, 1e15
_REWARDS = ("return", "risk", "trade")


@dataclass(frozen=True)
class EnvConfig:
    """Options of one environment; immutable, validated when made.

    Every field has the unit in its comment. Fields that touch money belong to the policy and travel with it;
    ``exploration_scale``, ``shaping_scale`` and ``saboteur`` are for training, without effect while the scales are 0.

    Raises
    ------
    ConfigError
        If a value is out of range or of the wrong type, or two options contradict each other.

    Examples
    --------
    >>> EnvConfig(max_position=2.0, reward="risk").max_position
    2.0
    """

    initial_cash: float = 250_000.0
    """Money at the start of every episode."""
    max_position: float = 10.0
    """Contracts: the position limit L, a whole number of lots."""
    lot: float = 1.0
    """Contracts: every order and position is a whole number of lots."""
    horizon: int | None = None
    """Steps of an episode; None runs until the data end."""
    capital_floor: float = 0.5
    """Fraction of initial_cash; equity at or below it ends the episode."""
    latency_bars: int = 0
    """Bars between decision and execution beyond the next bar: 0 or 1."""
    half_spread_ticks: float = 0.5
    """Ticks paid on each side by an order that takes."""
    fee_per_side: float | None = None
    """Money per contract and side; None uses the contract's."""
    fee_rate: float | None = None
    """Fraction of the notional per side; None uses the contract's."""
    maker_fee: float | None = None
    """Money per contract and side of a resting fill; None uses the contract's."""
    impact_coef: float = 0.4
    """Coefficient eta of the square-root impact, in ATR."""
    participation: tuple[float, float, float] = (0.005, 0.01, 0.02)
    """Share of the bar's volume that an order may take, by urgency."""
    limit_offset_ticks: tuple[float, float, float] = (2.0, 1.0, 0.0)
    """Ticks between the close and a limit price, by urgency."""
    ioc_tolerance_ticks: tuple[float, float, float] = (0.0, 1.0, 2.0)
    """Ticks that the open may lie beyond the close for an IOC order, by urgency."""
    queue_prob: float = 0.25
    """Probability that a limit order touched exactly is filled."""
    gtc: bool = False
    """Limit and IOC orders are good till cancelled: a session gap before the execution bar does not cancel them."""
    kelly: bool = False
    """Limit what an order may open to a fraction of max_position that the account's own trades justify."""
    kelly_floor: float = 0.25
    """Least Kelly fraction, before kelly_safety; a knob."""
    kelly_safety: float = 1.0
    """Factor in [0, 1] on the Kelly fraction; a knob."""
    margin: Literal[False, "close", "intrabar"] = "close"
    """Maintenance checked at the ``close`` or at a bar's adverse extreme too (``intrabar``); False: no margin."""
    trail_atr: tuple[float | None, float | None] = (None, None)
    """ATR multiples, (short, long), between a trade's entry or best close and its trailing stop; None: none; knobs."""
    profit_target_atr: float | None = None
    """ATR multiples between a trade's entry and its profit target; None: no target."""
    risk_atr: float = 2.0
    """ATR multiples that count as one R where no stop is set."""
    risk_unit: float | None = None
    """Money: the unit U of the risk and the trade reward; None: risk_atr * mean ATR * L * tick value of the
    market's bars."""
    flat_at_session_end: bool = False
    """Close the position at the close of a session's last bar, at market cost."""
    min_hold_bars: int = 0
    """Bars that a trade is to be held."""
    min_hold: Literal["soft", "hard"] = "soft"
    """``hard``: the agent's orders in a younger trade are ignored; ``soft``: only the trade reward sees it."""
    close_at_end: bool = False
    """Sell at the last mark, at market cost, when an episode ends; otherwise an open position is valued at the mark.
    The trade reward sells whatever this says (``sells_at_end``)."""
    reward: Literal["return", "risk", "trade"] = "return"
    """``return``: step_return * reward_scale; ``risk``: equity change / risk_unit; ``trade``: paid where trades end."""
    reward_scale: float = 100.0
    """Factor of the return reward; 100 makes it percent."""
    loss_cap: float = -10.0
    """Least trade reward of one trade, in risk units."""
    gain_cap: float = 5.0
    """Greatest trade reward of one trade, in risk units."""
    reward_weights: tuple[float, float, float, float, float] = (1.0, 0.1, 0.0, 0.1, 0.0)
    """Weights of the trade reward's terms: trade, path, micro, carry, opportunity; 0 switches a term off; knobs."""
    early_exit_bars: float = 50.0
    """Bars T of the factor d / (d + T) by which a winner ended d bars before min_hold_bars is paid less; a knob."""
    path_band: float = 1.0
    """Risk units of an open trade's drawdown that the path term leaves free."""
    carry_price: float = 0.01
    """Risk units that the carry term takes for a bar with a position and no order."""
    floor_penalty: float = 0.0
    """Risk units taken off the trade reward where the capital floor ends an episode, times shaping_scale."""
    exploration_scale: float = 0.0
    """x in [0, 1]: strength of the cost saboteur; 0 in validation."""
    shaping_scale: float = 0.0
    """y in [0, 1]: strength of the trade reward's shaping terms; 0 in validation."""
    saboteur: tuple[float, float] = (1.0, 1.0)
    """Range of the cost factor drawn for each exploring episode."""
    counterfactual: bool = False
    """Also give what each of the eight exposures would have led to (``info["counterfactual_reward"]``, ...)."""
    random_start: bool = True
    """Draw the first decision bar of an episode; False starts at the market's first ready bar."""
    validate_actions: bool = True
    """Refuse host actions outside the action space before the step; False lets them act as Hold and report later."""

    def __post_init__(self) -> None:
        for name in ("participation", "limit_offset_ticks", "ioc_tolerance_ticks"):
            object.__setattr__(self, name, self._numbers(name, 3))
        object.__setattr__(self, "saboteur", self._numbers("saboteur", 2))
        object.__setattr__(self, "reward_weights", self._numbers("reward_weights", 5))
        self._check_exits()
        self._check_numbers()
        self._check_counts()
        self._check_choices()
        self._check_lots()

    def _numbers(self, name: str, count: int) -> tuple[float, ...]:
        value = getattr(self, name)
        if not isinstance(value, (tuple, list)) or len(value) != count or not all(map(_is_number, value)):
            raise ConfigError(f"EnvConfig.{name}={value!r} must be {count} finite numbers")
        if min(value) < 0:
            raise ConfigError(f"EnvConfig.{name}={value!r} must not be negative")
        self._check_sizes(name, *value)
        return tuple(float(x) for x in value)

    def _check_exits(self) -> None:
        """Check stops and targets; infinity, which is never reached, becomes None."""
        trail = self.trail_atr
        if not isinstance(trail, (tuple, list)) or len(trail) != 2:
            raise ConfigError(
                f"EnvConfig.trail_atr={trail!r} must be (short, long), each a multiple of ATR or None"
            )
        exits = {"trail_atr": tuple(trail), "profit_target_atr": (self.profit_target_atr,)}
        for name, values in exits.items():
            kept = tuple(
                None if isinstance(value, float) and value == math.inf else value for value in values
            )
            for value in kept:
                if value is not None and not (_is_number(value) and value > 0):
                    raise ConfigError(
                        f"EnvConfig.{name}={getattr(self, name)!r} must be above 0, or None for none"
                    )
            self._check_sizes(name, *(value for value in kept if value is not None))
            kept = tuple(None if value is None else float(value) for value in kept)
            object.__setattr__(self, name, kept if name == "trail_atr" else kept[0])

    @property
    def has_exits(self) -> bool:
        """Whether a position may be closed by more than the agent, a margin call at the close or the episode's end."""
        levels = (*self.trail_atr, self.profit_target_atr)
        return (
            any(value is not None for value in levels)
            or self.margin == "intrabar"
            or self.flat_at_session_end
        )

    @property
    def sells_at_end(self) -> bool:
        """Whether an open position is sold when an episode ends: asked for, or paid for by the trade reward."""
        return self.close_at_end or self.reward == "trade"

    def _check_numbers(self) -> None:
        above_zero = (
            "initial_cash",
            "max_position",
            "lot",
            "risk_atr",
            "reward_scale",
            "gain_cap",
        )
        at_least_zero = (
            "half_spread_ticks", "impact_coef", "fee_per_side", "fee_rate", "path_band", "carry_price", "floor_penalty",
        )  # fmt: skip
        fractions = (
            "capital_floor", "queue_prob", "exploration_scale", "shaping_scale", "kelly_floor", "kelly_safety",
        )  # fmt: skip
        optional = ("fee_per_side", "fee_rate", "maker_fee", "risk_unit")
        for name in dict.fromkeys(
            (*above_zero, *at_least_zero, *fractions, *optional, "loss_cap", "early_exit_bars")
        ):
            value = getattr(self, name)
            if name in optional and value is None:
                continue
            if not _is_number(value):
                raise ConfigError(f"EnvConfig.{name}={value!r} must be a finite number")
            if (name in above_zero or name == "risk_unit") and value <= 0:
                raise ConfigError(f"EnvConfig.{name}={value!r} must be above 0")
            if name in at_least_zero and value < 0:
                raise ConfigError(f"EnvConfig.{name}={value!r} must not be negative")
            if name in fractions and not 0 <= value <= 1:
                raise ConfigError(f"EnvConfig.{name}={value!r} must lie between 0 and 1")
            self._check_sizes(name, value)
            object.__setattr__(self, name, float(value))
        if self.loss_cap >= 0:
            raise ConfigError(f"EnvConfig.loss_cap={self.loss_cap!r} must be below 0")
        if self.early_exit_bars < 1:
            raise ConfigError(f"EnvConfig.early_exit_bars={self.early_exit_bars!r} must be at least 1")
        if self.saboteur[0] > self.saboteur[1]:
            raise ConfigError(f"EnvConfig.saboteur={self.saboteur!r} must be (low, high) with low <= high")

    def _check_counts(self) -> None:
        if not _is_integer(self.latency_bars) or self.latency_bars not in (0, 1):
            raise ConfigError(f"EnvConfig.latency_bars={self.latency_bars!r} must be 0 or 1")
        if not _is_integer(self.min_hold_bars) or not 0 <= self.min_hold_bars < 2**30:
            raise ConfigError(
                f"EnvConfig.min_hold_bars={self.min_hold_bars!r} must be a whole number of bars from 0"
            )
        if self.horizon is not None and not (_is_integer(self.horizon) and 1 <= self.horizon < 2**31):
            raise ConfigError(
                f"EnvConfig.horizon={self.horizon!r} must be None or a whole number of steps from 1"
            )
        for name in ("horizon", "latency_bars", "min_hold_bars"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, int(getattr(self, name)))

    def _check_sizes(self, name: str, *values: float) -> None:
        """Refuse sizes whose products would overflow or vanish in the account's arithmetic."""
        if not all(value == 0 or _SMALLEST <= abs(value) <= _LARGEST for value in values):
            raise ConfigError(
                f"EnvConfig.{name}={getattr(self, name)!r} must be 0 or between {_SMALLEST:g} and {_LARGEST:g} in size"
            )

    def _check_choices(self) -> None:
        if not _is_one_of(self.reward, _REWARDS):
            raise ConfigError(f"EnvConfig.reward={self.reward!r} must be one of {', '.join(_REWARDS)}")
        if self.margin is not False and not _is_one_of(self.margin, ("close", "intrabar")):
            raise ConfigError(f"EnvConfig.margin={self.margin!r} must be False, 'close' or 'intrabar'")
        if not _is_one_of(self.min_hold, ("soft", "hard")):
            raise ConfigError(f"EnvConfig.min_hold={self.min_hold!r} must be 'soft' or 'hard'")
        switches = ("gtc", "kelly", "close_at_end", "flat_at_session_end", "counterfactual", "random_start")
        for name in (*switches, "validate_actions"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"EnvConfig.{name}={getattr(self, name)!r} must be True or False")
        if self.counterfactual and self.latency_bars:
            raise ConfigError(
                "EnvConfig.counterfactual=True with latency_bars=1: an action has no effect within its own step, so "
                "there is nothing to compare; use latency_bars=0"
            )

    def _check_lots(self) -> None:
        lots = self.max_position / self.lot
        if abs(lots - round(lots)) > 1e-9 * max(lots, 1.0) or not 1 <= round(lots) < 2**30:
            raise ConfigError(
                f"EnvConfig.max_position={self.max_position!r} must be a whole number of lots of {self.lot!r} contracts"
            )

    @property
    def max_lots(self) -> int:
        """The position limit in lots."""
        return round(self.max_position / self.lot)

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> EnvConfig:
        """Build a config from names and values; an unknown name is refused with the nearest known one."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in options:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; the options are {', '.join(known)}"
                raise ConfigError(f"unknown environment option {name!r}{hint}")
        return cls(**options)

    def replace(self, **changes: Any) -> EnvConfig:
        """A copy with some options changed."""
        return dataclasses.replace(self, **changes)


def _is_number(value: object) -> bool:
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def _is_one_of(value: object, choices: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in choices


def _is_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
