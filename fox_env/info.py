"""The info dictionary of a batch: built when somebody looks, with Gymnasium's ``_key`` masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
            super().update(build())

    def __getitem__(self, key: str) -> Any:
        self._fill()
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._fill()
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self._fill()
        super().__delitem__(key)

    def __contains__(self, key: object) -> bool:
        self._fill()
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._fill()
        return super().__iter__()

    def __len__(self) -> int:
        self._fill()
        return super().__len__()

    def __eq__(self, other: object) -> bool:
        self._fill()
        return super().__eq__(other)

    __hash__ = None

    def __repr__(self) -> str:
        self._fill()
        return super().__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        self._fill()
        return dict, (dict(super().items()),)

    def keys(self) -> Any:
        self._fill()
        return super().keys()

    def values(self) -> Any:
        self._fill()
        return super().values()

    def items(self) -> Any:
        self._fill()
        return super().items()

    def get(self, key: str, default: Any = None) -> Any:
        self._fill()
        return super().get(key, default)

    def pop(self, *args: Any) -> Any:
        self._fill()
        return super().pop(*args)

    def update(self, *args: Any, **kwargs: Any) -> None:
        self._fill()
        super().update(*args, **kwargs)

    def setdefault(self, key: str, default: Any = None) -> Any:
        self._fill()
        return super().setdefault(key, default)

    def copy(self) -> dict[str, Any]:
        self._fill()
        return dict(super().items())


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
