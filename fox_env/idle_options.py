"""Options that change nothing beside the others they are given with, named in one sentence each."""

from __future__ import annotations

import dataclasses
import logging
from functools import cache

from fox_env.config import EnvConfig

__all__ = ["idle_options", "warn_of_idle_options"]

_log = logging.getLogger(__name__)

_TRADE_REWARD = (
    "reward_weights", "early_exit_bars", "path_band", "carry_price", "floor_penalty", "loss_cap", "gain_cap",
    "shaping_scale",
)  # fmt: skip
_OTHER_ORDERS = ("limit_offset_ticks", "ioc_tolerance_ticks", "gtc")


def idle_options(config: EnvConfig, action_type: str = "branches") -> list[str]:
    """A sentence for every option that differs from its default and has no effect.

    What a knob may wake later (the saboteur's range, the weights of the trade reward) is none of them.

    Parameters
    ----------
    config
        The options.
    action_type
        As of :class:`~fox_env.FoxFuturesVectorEnv`; exposures are traded with market orders alone.
    """
    why: dict[str, str] = {}
    if config.reward != "trade":
        why |= dict.fromkeys(_TRADE_REWARD, f"with reward={config.reward!r}; it belongs to reward='trade'")
        if config.min_hold == "soft":
            why["min_hold_bars"] = (
                f"but on the observation with min_hold='soft' and reward={config.reward!r}; "
                "use min_hold='hard' or reward='trade'"
            )
    if config.min_hold_bars == 0:
        why["min_hold"] = "with min_hold_bars=0; set min_hold_bars"
        why.setdefault("early_exit_bars", "with min_hold_bars=0; set min_hold_bars")
    if config.reward != "return":
        why["reward_scale"] = f"with reward={config.reward!r}; it belongs to reward='return'"
    if not config.kelly:
        why |= dict.fromkeys(("kelly_floor", "kelly_safety"), "without the Kelly cap; set kelly=True")
    if config.saboteur == (1.0, 1.0):
        why["exploration_scale"] = "with saboteur=(1.0, 1.0); give the range of the cost factor"
    if action_type != "branches":
        market_orders = f"with action_type={action_type!r}, whose orders are market orders"
        why |= dict.fromkeys(_OTHER_ORDERS, f"{market_orders}; use action_type='branches'")
        if config.profit_target_atr is None:
            why["queue_prob"] = f"{market_orders}, and without a profit target; use action_type='branches'"
    return [
        f"{field.name}={getattr(config, field.name)!r} has no effect {why[field.name]}"
        for field in dataclasses.fields(config)
        if field.name in why and getattr(config, field.name) != field.default
    ]


def warn_of_idle_options(config: EnvConfig, action_type: str) -> None:
    """Log a warning for each of :func:`idle_options`, once in a process: options are copied to many environments."""
    for sentence in idle_options(config, action_type):
        _warn(sentence)


@cache
def _warn(sentence: str) -> None:
    _log.warning("%s", sentence)
