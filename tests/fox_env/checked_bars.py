"""Clean bars into which the tests of the data checks plant faults."""

from __future__ import annotations

from typing import Any

import numpy as np

from fox_env.contracts import ContractSpec

T0 = 1_715_248_800_000_000_000  # Thursday 2024-05-09 10:00 UTC, 05:00 in Chicago
MINUTE = 60_000_000_000
SPEC = ContractSpec(symbol="T", tick_size=0.25, multiplier=50.0, session="CME_EQUITY")


def columns(length: int = 200) -> dict[str, Any]:
    """Return clean one-minute bars on a grid of 0.25, a range of 1 to 2 points each, all with volume."""
    rng = np.random.default_rng(0)
    close = 100 + 0.25 * np.cumsum(rng.integers(-2, 3, length))
    open_ = np.concatenate(([100.0], close[:-1]))
    high, low = np.maximum(open_, close) + 0.5, np.minimum(open_, close) - 0.5
    ts = np.int64(T0) + np.arange(length, dtype=np.int64) * MINUTE
    return {
        "ts": ts,
        "open": open_,
        "high": high,
        "low": low,
        "close": close,
        "volume": np.full(length, 10.0),
    }
