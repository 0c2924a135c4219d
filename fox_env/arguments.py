"""Checking what a caller gives an environment: constructor arguments, autoreset mode and reset options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.config import EnvConfig
from fox_env.errors import ActionError, ConfigError
from fox_env.info import INFO_LEVELS

__all__ = [
    "RENDER_FPS",
    "RENDER_MODES",
    "check_arguments",
    "check_whole",
    "first_seed",
    "merge_config",
    "read_autoreset_mode",
    "read_mask",
    "read_start",
    "refuse_ended",
    "refuse_faults",
]

RENDER_MODES = ("ansi", "rgb_array", "human")
RENDER_FPS = 8
_RESET_OPTIONS = ("start", "reset_mask")


def check_arguments(
    num_envs: int,
    output: str,
    info_level: str,
    render_mode: str | None,
    trade_capacity: int | None,
    threads: int | None,
    metrics: bool,
) -> None:
    """Refuse arguments that no environment can have."""
    check_whole("num_envs", num_envs, 1)
    if not isinstance(metrics, bool):
        raise ConfigError(f"metrics={metrics!r} must be True or False")
    if trade_capacity is not None:
        check_whole("trade_capacity", trade_capacity, 0)
    if threads is not None:
        check_whole("threads", threads, 1)
    if output not in ("numpy", "torch"):
        raise ConfigError(f"output={output!r} must be 'numpy' or 'torch'")
    if info_level not in INFO_LEVELS:
        raise ConfigError(f"info_level={info_level!r} must be one of {', '.join(INFO_LEVELS)}")
    if render_mode not in (None, *RENDER_MODES):
        raise ConfigError(f"render_mode={render_mode!r} must be 'ansi', 'rgb_array', 'human' or None")
    if render_mode is not None and (info_level != "full" or output != "numpy"):
        raise ConfigError(
            "rendering shows the info arrays; use info_level='full' and output='numpy' with a render_mode"
        )


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse what is no whole number from ``least`` to 2**31 - 1."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not least <= value < 2**31:
        raise ConfigError(f"{name}={value!r} must be a whole number from {least} to {2**31 - 1}")


def merge_config(
    config: EnvConfig | Mapping[str, Any] | None, options: Mapping[str, Any], max_episode_steps: int | None
) -> EnvConfig:
    """The config with single options laid over it, and Gymnasium's step limit as its horizon."""
    if isinstance(config, Mapping):
        config = EnvConfig.from_mapping(config)
    if config is not None and not isinstance(config, EnvConfig):
        raise ConfigError(f"config={config!r} must be an EnvConfig, or options by name")
    merged = EnvConfig.from_mapping(options) if config is None else config.replace(**_known(options))
    if max_episode_steps is not None:
        merged = merged.replace(horizon=min(max_episode_steps, merged.horizon or max_episode_steps))
    return merged


def _known(options: Mapping[str, Any]) -> Mapping[str, Any]:
    EnvConfig.from_mapping(options)
    return options


def read_autoreset_mode(mode: AutoresetMode | str | None) -> AutoresetMode:
    """The member that ``mode`` names; None is Gymnasium's default, NEXT_STEP."""
    if mode is None:
        return AutoresetMode.NEXT_STEP
    for member in AutoresetMode:
        if mode is member or mode in (member.name, member.value):
            return member
    raise ConfigError(f"autoreset_mode={mode!r} must be one of {', '.join(m.name for m in AutoresetMode)}")


def _host_array(values: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values.cpu() if hasattr(values, "cpu") else values)
    except ValueError as error:
        raise ActionError(f"{name} cannot be read as an array: {error}") from error


def read_mask(options: Mapping[str, Any], num_envs: int) -> NDArray[np.bool_] | None:
    """``options["reset_mask"]`` as (N,) bool, or None; unknown options are refused."""
    for name in options:
        if name not in _RESET_OPTIONS:
            raise ConfigError(f"unknown reset option {name!r}; the options are {', '.join(_RESET_OPTIONS)}")
    if options.get("reset_mask") is None:
        return None
    mask = _host_array(options["reset_mask"], "reset_mask")
    if mask.dtype != np.bool_ or mask.shape != (num_envs,) or not mask.any():
        raise ActionError(
            f"reset_mask must be {num_envs} booleans with at least one True, got {mask.dtype} of shape {mask.shape}"
        )
    return np.ascontiguousarray(mask)


def read_start(options: Mapping[str, Any], bars: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """``options["start"]`` as (N,) decision bars, or None; ``bars`` counts the bars of each environment's market."""
    if options.get("start") is None:
        return None
    start = np.atleast_1d(_host_array(options["start"], "start"))
    if start.shape != bars.shape or start.dtype.kind not in "iu" or (start > bars - 2).any():
        raise ActionError(
            f"start must be {len(bars)} whole decision bars from 0 to {bars.min() - 2}, got {options['start']!r}"
        )
    return np.ascontiguousarray(start, dtype=np.int64)


def first_seed(default: int | None) -> int:
    """The seed of a first reset that is given none: the environment's own, or entropy."""
    if default is not None:
        return default
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)


def refuse_faults(faults: Iterable[_layout.Fault]) -> None:
    """Raise what the device found in an earlier step."""
    for fault in faults:
        if fault == _layout.Fault.BAD_ACTION:
            raise ActionError(
                "an earlier step got an action outside the action space; that row acted as Hold"
            )
        raise ActionError(
            "an earlier step advanced an episode that had ended; reset it with reset_mask first"
        )


def refuse_ended(done: NDArray[np.uint8]) -> None:
    """Refuse to step a batch in DISABLED mode while an episode has ended."""
    ended = np.flatnonzero(done)
    if ended.size:
        raise ActionError(
            f"the episode of environment {ended[0]} has ended; reset() it first (a reset_mask spares the others)"
        )
