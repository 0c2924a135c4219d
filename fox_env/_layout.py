"""The enums and structures of ``cuda_src/layout.cuh``, read from that file so that they are declared once.

Every ``enum`` becomes an :class:`enum.IntEnum` without the common prefix (``DIRECTION_LONG`` is ``Direction.LONG``);
every field list becomes a :mod:`ctypes` structure or a NumPy dtype. ``fox_env._native`` and the CUDA backend compare
the compiled sizes with these.
"""

from __future__ import annotations

import ctypes
import re
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from fox_env.errors import BackendError

__all__ = [
    "ACTION_BRANCHES",
    "ActionFormat",
    "ActionSpace",
    "Actions",
    "AutoresetMode",
    "BarFlag",
    "Batch",
    "Context",
    "Direction",
    "COUNTERFACTUAL_FIELDS",
    "CounterfactualArrays",
    "EnvParams",
    "Executed",
    "ExitReason",
    "Fault",
    "INFO_FIELDS",
    "InfoArrays",
    "Knob",
    "Launch",
    "MARKET_ROW",
    "METRIC_FIELDS",
    "Magnitude",
    "MetricArrays",
    "Observation",
    "OrderStatus",
    "OrderType",
    "Portfolio",
    "ResetRequest",
    "RewardMode",
    "RewardTerm",
    "Rules",
    "RULE_STATE_FIELDS",
    "STATE_FIELDS",
    "STRUCTURES",
    "StateArrays",
    "TRADE_RECORD",
    "TradedMarket",
    "Urgency",
    "source_dir",
]


def source_dir() -> Path:
    """The folder of the shared C++ sources: the checkout's own, or the copy inside an installed wheel."""
    package = Path(__file__).resolve().parent
    for folder in (package.parent / "cuda_src", package / "cuda_src"):
        if (folder / "layout.cuh").is_file():
            return folder
    raise BackendError(f"cuda_src/layout.cuh is missing beside {package}; reinstall Fox with `pip install .`")


_TEXT = (source_dir() / "layout.cuh").read_text(encoding="utf-8")

_C_TYPES: dict[str, Any] = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "i8": ctypes.c_int8,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
    "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
    "f64x3": ctypes.c_double * 3,
    "f32x5": ctypes.c_float * 5,
}


def _enum(name: str) -> Any:
    body = re.search(rf"enum {name} : \w+ \{{(.*?)\}};", _TEXT, re.DOTALL)
    if body is None:
        raise BackendError(f"enum {name} is not declared in cuda_src/layout.cuh; reinstall Fox")
    members = re.findall(r"([A-Z][A-Z0-9_]*) = (\d+)", body.group(1))
    words = [member.split("_") for member, _ in members]
    shared = 0
    while all(len(w) > shared + 1 and w[shared] == words[0][shared] for w in words):
        shared += 1
    return IntEnum(
        name, {"_".join(w[shared:]): int(value) for w, (_, value) in zip(words, members, strict=True)}
    )


def _fields(name: str) -> list[tuple[str, str, str]]:
    """(type, name, meaning) of every field of one FOX_..._FIELDS list, in order."""
    body = re.search(rf"#define FOX_{name}_FIELDS\(X\)(.*?)\n\n", _TEXT, re.DOTALL)
    if body is None:
        raise BackendError(f"FOX_{name}_FIELDS is not declared in cuda_src/layout.cuh; reinstall Fox")
    return re.findall(r'X\(([^,]+), (\w+), "([^"]*)"\)', body.group(1))


def _structure(name: str, fields: list[tuple[str, Any]]) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def _values(name: str, struct: str) -> Any:
    return _structure(struct, [(field, _C_TYPES[kind]) for kind, field, _ in _fields(name)])


def _pointers(struct: str, *names: str, more: tuple[str, ...] = ()) -> Any:
    listed = [field for name in names for _, field, _ in _fields(name)]
    return _structure(struct, [(field, ctypes.c_void_p) for field in (*listed, *more)])


def _dtype(structure: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(structure)
    return dtype


def _numpy_fields(name: str) -> dict[str, np.dtype[Any]]:
    return {field: np.dtype(_C_TYPES[kind]) for kind, field, _ in _fields(name)}


Direction = _enum("Direction")
Magnitude = _enum("Magnitude")
OrderType = _enum("OrderType")
Urgency = _enum("Urgency")
ActionFormat = _enum("ActionFormat")
ActionSpace = _enum("ActionSpace")
OrderStatus = _enum("OrderStatus")
ExitReason = _enum("ExitReason")
RewardMode = _enum("RewardMode")
RewardTerm = _enum("RewardTerm")
AutoresetMode = _enum("AutoresetMode")
BarFlag = _enum("BarFlag")
Rules = _enum("Rules")
Knob = _enum("Knob")
Fault = _enum("Fault")
Launch = _enum("Launch")
Executed = _enum("Executed")
Observation = _enum("Observation")
Portfolio = _enum("Portfolio")
Context = _enum("Context")

ACTION_BRANCHES = (len(Direction), len(Magnitude), len(OrderType), len(Urgency))

_RULE_STATE = {
    "EXITS": "EXIT_STATE",
    "KELLY": "KELLY_STATE",
    "LATENCY": "LATENCY_STATE",
    "TRADE_REWARD": "REWARD_STATE",
    "CLOSE_TODAY": "TODAY_STATE",
}
_STATE = ("STEP_STATE", *_RULE_STATE.values(), "EPISODE_STATE")

EnvParams = _values("PARAM", "EnvParams")
StateArrays = _pointers("StateArrays", *_STATE)
InfoArrays = _pointers("InfoArrays", "INFO")
CounterfactualArrays = _pointers("CounterfactualArrays", "COUNTERFACTUAL")
MetricArrays = _pointers("MetricArrays", "METRIC", more=("executed",))
MARKET_ROW = _dtype(_values("MARKET_ROW", "MarketRow"))
TRADE_RECORD = _dtype(_values("TRADE", "TradeRecord"))
STATE_FIELDS = {name: dtype for part in _STATE for name, dtype in _numpy_fields(part).items()}
RULE_STATE_FIELDS = {Rules[rule]: _numpy_fields(fields) for rule, fields in _RULE_STATE.items()}
INFO_FIELDS = _numpy_fields("INFO")
COUNTERFACTUAL_FIELDS = _numpy_fields("COUNTERFACTUAL")
METRIC_FIELDS = _numpy_fields("METRIC")


def _mixed(name: str, struct: str, nested: dict[str, Any]) -> Any:
    """A structure of nested ones, 64-bit counts and pointers."""
    types = {**nested, "i64": ctypes.c_int64}
    return _structure(struct, [(field, types.get(kind, ctypes.c_void_p)) for kind, field, _ in _fields(name)])


TradedMarket = _mixed("MARKET", "TradedMarket", {"EnvParams": EnvParams})
Batch = _mixed(
    "BATCH",
    "Batch",
    {
        "TradedMarket": TradedMarket,
        "StateArrays": StateArrays,
        "InfoArrays": InfoArrays,
        "CounterfactualArrays": CounterfactualArrays,
    },
)
Actions = _structure(
    "Actions", [("values", ctypes.c_void_p), ("format", ctypes.c_int32), ("conviction", ctypes.c_void_p)]
)
ResetRequest = _structure(
    "ResetRequest", [(name, ctypes.c_void_p) for name in ("mask", "start", "keys", "streams")]
)
OutputCopies = _structure(
    "OutputCopies",
    [
        ("outputs", ctypes.c_void_p),
        ("first", ctypes.c_int64 * Launch.COPIES),
        ("bytes", ctypes.c_int64 * Launch.COPIES),
        ("to", ctypes.c_void_p * Launch.COPIES),
    ],
)

STRUCTURES: dict[str, int] = {
    "EnvParams": ctypes.sizeof(EnvParams),
    "MarketRow": MARKET_ROW.itemsize,
    "StateArrays": ctypes.sizeof(StateArrays),
    "InfoArrays": ctypes.sizeof(InfoArrays),
    "CounterfactualArrays": ctypes.sizeof(CounterfactualArrays),
    "TradeRecord": TRADE_RECORD.itemsize,
    "TradedMarket": ctypes.sizeof(TradedMarket),
    "Batch": ctypes.sizeof(Batch),
    "Actions": ctypes.sizeof(Actions),
    "ResetRequest": ctypes.sizeof(ResetRequest),
    "OutputCopies": ctypes.sizeof(OutputCopies),
    "MetricArrays": ctypes.sizeof(MetricArrays),
}
"""Size in bytes of every structure that C++ and Python share, in the order of ``layout_sizes.h``."""
