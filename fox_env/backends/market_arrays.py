"""A market as the physics reads it: one 64-byte row a bar, the feature table padded to 16-byte rows, the roll gaps."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.market import Market

__all__ = ["feature_table", "market_rows", "roll_gaps"]

_CACHE_LINE = 64

_rows: WeakKeyDictionary[Market, NDArray[Any]] = WeakKeyDictionary()
_tables: WeakKeyDictionary[Market, NDArray[np.float32]] = WeakKeyDictionary()


def market_rows(market: Market) -> NDArray[Any]:
    """(T,) array of ``MarketRow``, made once a market."""
    if market not in _rows:
        columns = market.columns
        rows = _aligned_zeros(len(market) * _layout.MARKET_ROW.itemsize).view(_layout.MARKET_ROW)
        for name in _layout.MARKET_ROW.names or ():
            rows[name] = getattr(columns, name)
        _rows[market] = rows
    return _rows[market]


def roll_gaps(market: Market) -> NDArray[np.float64]:
    """(T,) float64 ticks; read at the bars that have ``BarFlag.ROLL`` only."""
    return np.ascontiguousarray(market.columns.roll_gap)


def feature_table(market: Market) -> NDArray[np.float32]:
    """(T, OBS_FEATURE_STRIDE) float32, made once a market."""
    if market not in _tables:
        stride = int(_layout.Observation.FEATURE_STRIDE)
        table = _aligned_zeros(len(market) * stride * 4).view(np.float32).reshape(len(market), stride)
        table[:, : int(_layout.Observation.FEATURES)] = market.features
        _tables[market] = table
    return _tables[market]


def _aligned_zeros(size: int) -> NDArray[np.uint8]:
    """`size` zero bytes that begin a cache line, so that a market row lies in one line and not in two."""
    memory = np.zeros(size + _CACHE_LINE, dtype=np.uint8)
    first = -memory.ctypes.data % _CACHE_LINE
    return memory[first : first + size]
