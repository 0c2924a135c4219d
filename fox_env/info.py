"""The info dictionary of a batch: built when somebody looks, with Gymnasium's ``_key`` masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EVENTS", "INFO_LEVELS", "LazyInfo", "build_info"]

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


class LazyInfo(dict[str, Any]):
    """A dictionary whose entries are made at the first look; most steps of a learner never look.

    Parameters
    ----------
    build
        Makes the entries; called once.
    """

    def __init__(self, build: Callable[[], dict[str, Any]]) -> None:
        super().__init__()
        self._build: Callable[[], dict[str, Any]] | None = build

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


def build_info(outputs: dict[str, Any], ended: Any | None) -> dict[str, Any]:
    """The info of one step from the output arrays.

    Parameters
    ----------
    outputs
        Arrays by slot name (``info.equity``, ``final_obs``, ...), NumPy or torch.
    ended
        (N,) bool, the episodes that ended in this step; None outside SAME_STEP mode.

    Returns
    -------
    dict
        Every field with its mask. Where episodes ended, ``final_obs`` and ``final_info``: for NumPy only if there
        are any, with ``final_obs`` an object array; for torch always and dense, so that nothing waits for the device.
    """
    on_host = isinstance(outputs["terminated"], np.ndarray)
    info = _with_masks(_named(outputs, "info."), _ones_like(outputs["terminated"]))
    if ended is None or (on_host and not ended.any()):
        return info
    info["final_obs"] = _object_rows(outputs["final_obs"], ended) if on_host else outputs["final_obs"]
    info["_final_obs"] = ended
    fields = _named(outputs, "final_info.")
    if fields:
        masked = _with_masks(fields, ended)
        info["final_info"] = {k: v & ended if k.startswith("_") else v for k, v in masked.items()}
        info["_final_info"] = ended
    return info


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


def _object_rows(rows: NDArray[np.float32], where: NDArray[np.bool_]) -> NDArray[np.object_]:
    """Gymnasium's form of final_obs: one array an ended environment, None elsewhere."""
    out = np.full(len(rows), None, dtype=object)
    for i in np.flatnonzero(where):
        out[i] = rows[i].copy()
    return out
