"""The 24 multi-timeframe features: four coarser timeframes x six entries, from completed coarse bars.

A coarse bar is 5, 15 or 60 consecutive bars counted from the session's first bar (what is left at the
session's end is a shorter one), or a whole session. It exists for the agent once its last bar has closed; a
shorter one and a session are known to be complete only when the next session opens. k: the last completed
coarse bar at t; n: the window of the timeframe (14, for sessions 5); ATR_k: Wilder's average true range of
coarse bars over n, at least one tick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

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
    """Coarse bars of one timeframe, and the last complete one at each bar.

    Attributes
    ----------
    high, low, close, atr : float64 arrays (K,)
        Prices and average true range of the coarse bars, in ticks.
    move, size : float64 arrays (K,)
        Change of the close, and high minus low, over `atr`.
    average, strength, highest, lowest : float64 arrays (K,)
        EMA and CMO of the closes, highest high and lowest low, over `window` coarse bars.
    last : int32 array (T,)
        Number of the last coarse bar that is complete at each bar; -1 for none.
    window : int
        Coarse bars in the window of every formula.
    """

    high: F64
    low: F64
    close: F64
    atr: F64
    move: F64
    size: F64
    average: F64
    strength: F64
    highest: F64
    lowest: F64
    last: NDArray[np.int32]
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
    position = (np.arange(len(x), dtype=np.int64) - x.clock.start).astype(np.int32)
    if factor == SESSION:
        opens, completes = position == 0, np.zeros(len(x), dtype=np.bool_)
    else:
        place = position % factor
        opens, completes = place == 0, place == factor - 1
    starts = np.flatnonzero(opens)
    number = np.cumsum(opens, dtype=np.int32) - 1
    high, low = np.maximum.reduceat(x.high, starts), np.minimum.reduceat(x.low, starts)
    close = x.close[np.append(starts[1:], len(x)) - 1]
    window = _SESSION_WINDOW if factor == SESSION else _INTRADAY_WINDOW
    atr = np.maximum(x.ta.ATR(high, low, close, window), 1.0)
    return CoarseBars(
        high=high,
        low=low,
        close=close,
        atr=atr,
        move=change(close) / atr,
        size=(high - low) / atr,
        average=x.ta.EMA(close, window),
        strength=x.ta.CMO(close, window),
        highest=x.ta.MAX(high, window),
        lowest=x.ta.MIN(low, window),
        last=np.where(completes, number, number - 1),
        window=window,
    )


def coarse(x: Inputs, factor: int) -> CoarseBars:
    """Return the coarse bars of the whole series, made once, as they stand at the bars of `x`."""
    whole = x.whole or x
    made = whole.keep("coarse", factor, lambda: coarse_bars(whole, factor))
    return made if x.whole is None else replace(made, last=made.last[x.first : x.first + len(x)])


def _return(x: Inputs, k: CoarseBars) -> F64:
    return k.at(k.move)


def _trend(x: Inputs, k: CoarseBars) -> F64:
    return (x.close - k.at(k.average)) / k.at(k.atr)


def _rsi(x: Inputs, k: CoarseBars) -> F64:
    return k.at(k.strength) / 100.0


def _channel(x: Inputs, k: CoarseBars) -> F64:
    high, low = k.at(k.highest), k.at(k.lowest)
    return ratio(2.0 * x.close - high - low, high - low)


def _range(x: Inputs, k: CoarseBars) -> F64:
    return k.at(k.size)


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
        k = coarse(x, factor)
        return np.where(k.valid, entry(x, k), 0.0)

    label = "session" if factor == SESSION else f"{factor}_bars"
    return Feature(f"{name}_{label}", "timeframes", 0, formula, source, compute)


TIMEFRAMES = [_feature(factor, *entry) for factor in FACTORS for entry in _ENTRIES]
