"""Knobs: scalars in device memory that steer a running batch, their kinds, ranges and first values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fox_env import _layout
from fox_env.config import EnvConfig
from fox_env.errors import ConfigError

__all__ = ["KNOBS", "PHYSICS_KNOB_OPTIONS", "KnobRange", "check_knob", "initial_knobs", "with_physics_knobs"]

_MOST = 1e15


@dataclass(frozen=True)
class KnobRange:
    """What a knob may hold, and when it acts."""

    kind: str
    """``physics``: in training and in validation, a part of the policy; ``training``: only while training."""
    low: float
    high: float


_WEIGHTS = tuple(f"weight_{term.name.lower()}" for term in _layout.RewardTerm if term.name != "COUNT")

KNOBS: dict[str, KnobRange] = {
    "exploration_scale": KnobRange("training", 0.0, 1.0),
    "shaping_scale": KnobRange("training", 0.0, 1.0),
    "saboteur_intensity": KnobRange("training", 0.0, 1.0),
    "kelly_floor": KnobRange("physics", 0.0, 1.0),
    "kelly_safety": KnobRange("physics", 0.0, 1.0),
    "trail_short": KnobRange("physics", 0.0, _MOST),
    "trail_long": KnobRange("physics", 0.0, _MOST),
    "early_exit_bars": KnobRange("training", 1.0, _MOST),
    **{name: KnobRange("training", 0.0, _MOST) for name in _WEIGHTS},
}
"""Every knob in the order of ``Knob`` in layout.cuh."""


PHYSICS_KNOB_OPTIONS = ("kelly_floor", "kelly_safety", "trail_atr")
"""Options of :class:`~fox_env.EnvConfig` that are the first values of physics knobs."""


def initial_knobs(config: EnvConfig) -> dict[str, float]:
    """The value of every knob when an environment is made."""
    short, long = (0.0 if k is None else k for k in config.trail_atr)
    return {
        "exploration_scale": config.exploration_scale,
        "shaping_scale": config.shaping_scale,
        "saboteur_intensity": 1.0,
        "kelly_floor": config.kelly_floor,
        "kelly_safety": config.kelly_safety,
        "trail_short": short,
        "trail_long": long,
        "early_exit_bars": config.early_exit_bars,
        **dict(zip(_WEIGHTS, config.reward_weights, strict=True)),
    }


def with_physics_knobs(config: EnvConfig, values: Mapping[str, float]) -> EnvConfig:
    """The options with the physics knobs at these values: the rules that a policy made under them belongs to."""
    trail = tuple(values[name] or None for name in ("trail_short", "trail_long"))
    return config.replace(
        kelly_floor=values["kelly_floor"], kelly_safety=values["kelly_safety"], trail_atr=trail
    )


def check_knob(name: str, value: Any, config: EnvConfig) -> float:
    """The value as a float.

    Raises
    ------
    ConfigError
        For an unknown name, a value outside the knob's range, or a stop's distance where ``config`` has no stop.
    """
    if not isinstance(name, str) or name not in KNOBS:
        raise ConfigError(f"unknown knob {name!r}; the knobs are {', '.join(KNOBS)}")
    allowed = KNOBS[name]
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not allowed.low <= value <= allowed.high:
        raise ConfigError(f"knob {name}={value!r} must be a number from {allowed.low:g} to {allowed.high:g}")
    if name.startswith("trail_") and value > 0 and not config.has_exits:
        raise ConfigError(
            f"knob {name}={value!r}: this environment was made without stops; make it with trail_atr=(short, long)"
        )
    return float(value)
