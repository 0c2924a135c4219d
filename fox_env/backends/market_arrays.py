"""A market as the physics reads it: one 64-byte row a bar, and the feature table padded to 16-byte rows."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.market import Market

__all__ = ["feature_table", "market_rows"]

_rows: WeakKeyDictionary[Market, NDArray[Any]] = WeakKeyDictionary()
_tables: WeakKeyDictionary[Market, NDArray[np.float32]] = WeakKeyDictionary()


def market_rows(market: Market) -> NDArray[Any]:
    """(T,) array of ``MarketRow``, made once a market."""
    if market not in _rows:
        columns = market.columns
        rows = np.zeros(len(market), dtype=_layout.MARKET_ROW)
        for name in _layout.MARKET_ROW.names or ():
            rows[name] = getattr(columns, name)
        _rows[market] = rows
    return _rows[market]


def feature_table(market: Market) -> NDArray[np.float32]:
    """(T, OBS_FEATURE_STRIDE) float32, made once a market."""
    if market not in _tables:
        table = np.zeros((len(market), int(_layout.Observation.FEATURE_STRIDE)), dtype=np.float32)
        table[:, : int(_layout.Observation.FEATURES)] = market.features
        _tables[market] = table
    return _tables[market]
