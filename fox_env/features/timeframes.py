"""The 24 multi-timeframe features: four coarser timeframes x six entries, from completed coarse bars.

A coarse bar is 5, 15 or 60 consecutive bars counted from the session's first bar (what is left at the
session's end is a shorter one), or a whole session. It exists for the agent once its last bar has closed; a
shorter one and a session are known to be complete only when the next session opens. k: the last completed
coarse bar at t; n: the window of the timeframe (14, for sessions 5); ATR_k: Wilder's average true range of
coarse bars over n, at least one tick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fox_env.features.declare import Feature, Inputs
from fox_env.features.windows import F64, change, ratio

SESSION = 0
FACTORS = (5, 15, 60, SESSION)
_INTRADAY_WINDOW = 14
_SESSION_WINDOW = 5


@dataclass(frozen=True)
class CoarseBars:
    """Coarse bars of one timeframe.

    Attributes
    ----------
    high, low, close, atr : float64 arrays (K,)
        Prices and average true range of the coarse bars, in ticks.
    last : int64 array (T,)
        Number of the last coarse bar that is complete at each bar; -1 for none.
    window : int
        Coarse bars in the window of every formula.
    """

    high: F64
    low: F64
    close: F64
    atr: F64
    last: NDArray[np.int64]
    window: int

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Whether the windows have filled at each bar."""
        return self.last >= self.window

    def at(self, values: F64) -> F64:
        """Return, for every bar, the value of the last completed coarse bar (of the first before that)."""
        return values[np.maximum(self.last, 0)]


def coarse_bars(x: Inputs, factor: int) -> CoarseBars:
    """Group bars into coarse bars of `factor` bars, or of whole sessions."""
    position = np.arange(len(x), dtype=np.int64) - x.clock.start
    if factor == SESSION:
        opens, completes = position == 0, np.zeros(len(x), dtype=np.bool_)
    else:
        opens, completes = position % factor == 0, position % factor == factor - 1
    starts = np.flatnonzero(opens)
    number = np.cumsum(opens, dtype=np.int64) - 1
    high, low = np.maximum.reduceat(x.high, starts), np.minimum.reduceat(x.low, starts)
    close = x.close[np.append(starts[1:], len(x)) - 1]
    window = _SESSION_WINDOW if factor == SESSION else _INTRADAY_WINDOW
    return CoarseBars(
        high=high,
        low=low,
        close=close,
        atr=np.maximum(x.ta.ATR(high, low, close, window), 1.0),
        last=np.where(completes, number, number - 1),
        window=window,
    )


def _return(x: Inputs, k: CoarseBars) -> F64:
    return k.at(change(k.close) / k.atr)


def _trend(x: Inputs, k: CoarseBars) -> F64:
    return (x.close - k.at(x.ta.EMA(k.close, k.window))) / k.at(k.atr)


def _rsi(x: Inputs, k: CoarseBars) -> F64:
    return k.at(x.ta.CMO(k.close, k.window)) / 100.0


def _channel(x: Inputs, k: CoarseBars) -> F64:
    high, low = k.at(x.ta.MAX(k.high, k.window)), k.at(x.ta.MIN(k.low, k.window))
    return ratio(2.0 * x.close - high - low, high - low)


def _range(x: Inputs, k: CoarseBars) -> F64:
    return k.at((k.high - k.low) / k.atr)


def _valid(x: Inputs, k: CoarseBars) -> F64:
    return np.ones(len(x))


_ENTRIES: tuple[tuple[str, str, str, Callable[[Inputs, CoarseBars], F64]], ...] = (
    ("return", "(C_k - C_k-1) / ATR_k", "volatility-scaled return", _return),
    ("trend", "(C_t - EMA(n)_k) / ATR_k", "TA-Lib EMA, ATR", _trend),
    ("rsi", "RSI(n)_k / 50 - 1, as CMO(n) / 100", "TA-Lib CMO", _rsi),
    ("channel", "(2C_t - HH(n)_k - LL(n)_k) / (HH(n)_k - LL(n)_k)", "TA-Lib MAX, MIN; Donchian", _channel),
    ("range", "(H_k - L_k) / ATR_k", "bar shape", _range),
    (
        "valid",
        "1 once n + 1 coarse bars are complete, else 0; the five entries above are 0 then",
        "flag",
        _valid,
    ),
)


def _feature(
    factor: int, name: str, formula: str, source: str, entry: Callable[[Inputs, CoarseBars], F64]
) -> Feature:
    def compute(x: Inputs) -> F64:
        coarse = x.keep("coarse", factor, lambda: coarse_bars(x, factor))
        return np.where(coarse.valid, entry(x, coarse), 0.0)

    label = "session" if factor == SESSION else f"{factor}_bars"
    return Feature(f"{name}_{label}", "timeframes", 0, formula, source, compute)


TIMEFRAMES = [_feature(factor, *entry) for factor in FACTORS for entry in _ENTRIES]
