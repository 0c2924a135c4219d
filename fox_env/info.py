"""The info dictionary of a batch: built when somebody looks, with Gymnasium's ``_key`` masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.config import EnvConfig

__all__ = ["EVENTS", "INFO_LEVELS", "LazyInfo", "build_info", "final_rows", "info_fields"]

INFO_LEVELS: dict[str, tuple[str, ...] | None] = {
    "none": (),
    "learn": ("branch_active", "bar_index"),
    "full": None,
}
"""Fields of each level; None stands for all of them."""

EVENTS = {
    "fill_price": "fill_quantity",
    "fill_quantity": "fill_quantity",
    "trade_return": "trade_closed",
    "trade_r": "trade_closed",
    "trade_bars": "trade_closed",
    "exit_reason": "trade_closed",
}
"""Event field -> the field that is nonzero where the event happened; its mask. Other fields hold at every step."""


def info_fields(level: str, config: EnvConfig) -> tuple[str, ...]:
    """Names of the info arrays of a level; the components of the trade reward exist where that is the reward."""
    fields = INFO_LEVELS[level]
    if fields is not None:
        return fields
    return tuple(n for n in _layout.INFO_FIELDS if n != "reward_components" or config.reward == "trade")


class LazyInfo(dict[str, Any]):
    """A dictionary whose entries are made at the first look; most steps of a learner never look.

    Parameters
    ----------
    build
        Makes the entries; called once. None for a dictionary that has them.
    **entries
        As of ``dict``; wrappers that convert infos make new ones of the same class from converted entries.
    """

    def __init__(self, build: Callable[[], dict[str, Any]] | None = None, /, **entries: Any) -> None:
        super().__init__(entries)
        self._build = build

    def _fill(self) -> None:
        if self._build is not None:
            build, self._build = self._build, None
            dict.update(self, build())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)


def _filled(name: str) -> Callable[..., Any]:
    """``dict``'s method of this name, after the entries are made."""
    method = getattr(dict, name)

    @wraps(method)
    def call(self: LazyInfo, *args: Any, **kwargs: Any) -> Any:
        self._fill()
        return method(self, *args, **kwargs)

    return call


_READING = "__contains__ __eq__ __getitem__ __iter__ __len__ __ne__ __or__ __repr__ __reversed__ __ror__"
_READING += " copy get items keys values"
_WRITING = "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update"
for _name in (*_READING.split(), *_WRITING.split()):
    setattr(LazyInfo, _name, _filled(_name))


def build_info(arrays: dict[str, Any], ended: Any | None, final_obs: Any | None) -> dict[str, Any]:
    """The info of one step.

    Parameters
    ----------
    arrays
        Output arrays by slot name (``info.equity``, ``final_info.equity``), NumPy or torch.
    ended
        (N,) bool, the episodes that ended in this step; None outside SAME_STEP mode.
    final_obs
        Their last observations, None where no episode ended.

    Returns
    -------
    dict
        Every field with its mask, and in SAME_STEP mode ``final_obs`` and ``final_info``: for NumPy where an episode
        ended, for torch always, so that nothing waits for the device. ``final_masks``, the distinct actions of those
        last states, are there where the batch has them.
    """
    everywhere = _ones_like(arrays["terminated"])
    info = _with_masks(_named(arrays, "info."), everywhere)
    for name, values in _named(arrays, "counterfactual.").items():
        info[f"counterfactual_{name}"], info[f"_counterfactual_{name}"] = values, everywhere
    if final_obs is None:
        return info
    info["final_obs"], info["_final_obs"] = final_obs, ended
    if "final_masks" in arrays:
        info["final_masks"], info["_final_masks"] = arrays["final_masks"], ended
    fields = _named(arrays, "final_info.")
    if fields:
        masked = _with_masks(fields, ended)
        info["final_info"] = {k: v & ended if k.startswith("_") else v for k, v in masked.items()}
        info["_final_info"] = ended
    return info


def final_rows(rows: NDArray[np.float32], ended: NDArray[np.bool_]) -> NDArray[np.object_] | None:
    """Gymnasium's form of final_obs: a copy of the row of each ended environment, None elsewhere; or None for none."""
    if not ended.any():
        return None
    out = np.full(len(rows), None, dtype=object)
    for i in np.flatnonzero(ended):
        out[i] = rows[i].copy()
    return out


def _with_masks(fields: dict[str, Any], everywhere: Any) -> dict[str, Any]:
    """Add a ``_key`` mask to every field: where its event happened, or ``everywhere``."""
    out: dict[str, Any] = {}
    for name, values in fields.items():
        out[name] = values
        event = EVENTS.get(name)
        out[f"_{name}"] = fields[event] != 0 if event in fields else everywhere
    return out


def _named(outputs: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in outputs.items() if name.startswith(prefix)}


def _ones_like(flags: Any) -> Any:
    return np.ones_like(flags) if isinstance(flags, np.ndarray) else flags.new_ones(flags.shape)
