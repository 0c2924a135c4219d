"""Checks of numbers in a configuration: one message for what is wrong, where, and which values fit."""

from typing import Any

from fox_env.errors import ConfigError

__all__ = ["MOST_STEPS", "require", "require_between"]

MOST_STEPS = 10**15
"""What no machine has time for is a slip of the keyboard: it is refused rather than tried."""


def require(ok: bool, key: str, value: Any, rule: str) -> None:
    """ConfigError unless ``ok``: ``key`` has ``value``, which must be ``rule``."""
    if not ok:
        raise ConfigError(f"{key} = {value!r} must be {rule}")


def require_between(key: str, value: float, low: float, high: float) -> None:
    """ConfigError unless ``low <= value <= high``."""
    require(low <= value <= high, key, value, f"from {low:,} to {high:,}")
