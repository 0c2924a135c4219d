"""The 42 market features: returns, bar shape, volatility, oscillators, trend, volume, time and regime.

C, O, H, L: close, open, high, low in ticks; dC: change of the close; V: volume; ATR: the physics' average
true range over 14 bars (at least one tick); rms(n): root mean square of dC over n bars. Differences are
divided by ATR, never by a price, so every feature keeps its value when prices are scaled or negative.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fox_env.features.declare import Feature, Inputs
from fox_env.features.windows import (
    F64,
    change,
    lag,
    ratio,
    window_deviation,
    window_max_suffix,
    window_mean,
    window_slope,
    window_sum,
)

_PARKINSON = 0.36067376022224085  # 1 / (4 ln 2)
_CUSUM_WINDOW = 128
_CUSUM_DRIFT = 0.25
_CUSUM_SCALE = 10.0
_SESSION_END_MINUTES = 240.0


def _row(
    name: str,
    ready: int,
    formula: str,
    source: str,
    compute: Callable[[Inputs], F64],
    *,
    sequential: bool = False,
) -> Feature:
    return Feature(name, "market", ready, formula, source, compute, sequential)


def _return(bars: int) -> Feature:
    root = float(np.sqrt(bars))
    return _row(
        f"return_{bars}",
        bars,
        f"(C_t - C_t-{bars}) / (ATR sqrt {bars})",
        "volatility-scaled return",
        lambda x: change(x.close, bars) / (x.atr * root),
    )


def _ema_distance(period: int) -> Feature:
    root = float(np.sqrt(period))
    return _row(
        f"ema_distance_{period}",
        period - 1,
        f"(C - EMA({period})) / (ATR sqrt {period})",
        "TA-Lib EMA",
        lambda x: (x.close - x.ta.EMA(x.close, period)) / (x.atr * root),
        sequential=True,
    )


def _close_location(x: Inputs) -> F64:
    return ratio(2.0 * x.close - x.high - x.low, x.range)


def _parkinson(x: Inputs) -> F64:
    return np.sqrt(window_mean(x.range * x.range, 20) * _PARKINSON)


def _stochastic(x: Inputs) -> F64:
    high, low = x.ta.MAX(x.high, 14), x.ta.MIN(x.low, 14)
    return ratio(2.0 * x.close - high - low, high - low)


def _range_ratio(x: Inputs) -> F64:
    previous = np.concatenate((x.open[:1], x.close[:-1]))
    true_range = np.maximum(x.high, previous) - np.minimum(x.low, previous)
    return ratio(x.atr, window_mean(true_range, 240)) - 1.0


def _vwap_distance(x: Inputs) -> F64:
    typical = (x.high + x.low + x.close) / 3.0
    volume = window_sum(x.traded, 120)
    vwap = ratio(window_sum(typical * x.traded, 120), volume)
    return np.where(volume > 0.0, (x.close - vwap) / (x.atr * float(np.sqrt(120))), 0.0)


def _signed_volume(x: Inputs) -> F64:
    return np.sign(x.delta) * x.traded


def _cusum(x: Inputs) -> F64:
    scale = lag(x.realised(60), 1)
    z = np.clip(ratio(x.delta, scale), -10.0, 10.0)
    z[:61] = 0.0  # the scale's own window is not full there
    upward = window_max_suffix(z - _CUSUM_DRIFT, _CUSUM_WINDOW)
    downward = window_max_suffix(-z - _CUSUM_DRIFT, _CUSUM_WINDOW)
    return (upward - downward) / _CUSUM_SCALE


RETURNS = [_return(bars) for bars in (1, 3, 5, 10, 20, 60, 120, 240)]

SHAPE = [
    _row("body", 0, "(C - O) / ATR", "bar shape", lambda x: (x.close - x.open) / x.atr),
    _row(
        "upper_wick",
        0,
        "(H - max(O, C)) / ATR",
        "bar shape",
        lambda x: (x.high - np.maximum(x.open, x.close)) / x.atr,
    ),
    _row(
        "lower_wick",
        0,
        "(min(O, C) - L) / ATR",
        "bar shape",
        lambda x: (np.minimum(x.open, x.close) - x.low) / x.atr,
    ),
    _row("close_location", 0, "(2C - H - L) / (H - L), 0 where H = L", "bar shape", _close_location),
    _row("range", 0, "(H - L) / ATR", "bar shape", lambda x: x.range / x.atr),
    _row(
        "open_gap",
        1,
        "(O_t - C_t-1) / ATR",
        "bar shape",
        lambda x: (x.open - lag(x.close, 1)) / x.atr,
    ),
]

VOLATILITY = [
    _row("realised_20", 20, "rms(20) / ATR", "realised volatility", lambda x: x.realised(20) / x.atr),
    _row(
        "parkinson_20",
        19,
        "sqrt(mean over 20 bars of (H - L)^2 / (4 ln 2)) / ATR",
        "Parkinson 1980",
        lambda x: _parkinson(x) / x.atr,
    ),
    _row(
        "realised_ratio_5_60",
        60,
        "rms(5) / rms(60) - 1",
        "ratio of volatilities",
        lambda x: ratio(x.realised(5), x.realised(60)) - 1.0,
    ),
    _row(
        "realised_ratio_20_120",
        120,
        "rms(20) / rms(120) - 1",
        "ratio of volatilities",
        lambda x: ratio(x.realised(20), x.realised(120)) - 1.0,
    ),
    _row(
        "range_ratio_14_240",
        239,
        "ATR / mean true range of 240 bars - 1",
        "ratio of volatilities",
        _range_ratio,
    ),
]

OSCILLATORS = [
    _row(
        "rsi_14",
        14,
        "RSI(14) / 50 - 1, as CMO(14) / 100 (equal, and 0 where prices stand still)",
        "TA-Lib CMO; Wilder 1978",
        lambda x: x.ta.CMO(x.close, 14) / 100.0,
        sequential=True,
    ),
    _row(
        "stochastic_14",
        13,
        "(2C - HH(14) - LL(14)) / (HH(14) - LL(14)), 0 where they are equal",
        "TA-Lib MAX, MIN; Lane",
        _stochastic,
    ),
    _row(
        "cci_20",
        19,
        "CCI(20) / 100",
        "TA-Lib CCI",
        lambda x: x.ta.CCI(x.high, x.low, x.close, 20) / 100.0,
        sequential=True,
    ),
    _row(
        "aroon_25",
        25,
        "AROONOSC(25) / 100",
        "TA-Lib AROONOSC",
        lambda x: x.ta.AROONOSC(x.high, x.low, 25) / 100.0,
    ),
    _row(
        "efficiency_20",
        20,
        "(C_t - C_t-20) / sum over 20 bars of |dC|",
        "Kaufman efficiency ratio, signed",
        lambda x: ratio(change(x.close, 20), window_sum(np.abs(x.delta), 20)),
    ),
    _row(
        "macd_histogram",
        33,
        "MACD(12, 26, 9) histogram / ATR",
        "TA-Lib MACD",
        lambda x: x.ta.MACD(x.close, 12, 26, 9)[2] / x.atr,
        sequential=True,
    ),
]

TREND = [
    *(_ema_distance(period) for period in (10, 30, 100)),
    _row(
        "slope_20",
        19,
        "sqrt 20 x least-squares slope of C over 20 bars / ATR",
        "TA-Lib LINEARREG_SLOPE",
        lambda x: x.ta.LINEARREG_SLOPE(x.close, 20) * float(np.sqrt(20)) / x.atr,
        sequential=True,
    ),
    _row(
        "directional_14",
        14,
        "(+DI(14) - -DI(14)) / 100",
        "TA-Lib PLUS_DI, MINUS_DI; Wilder 1978",
        lambda x: (
            (x.ta.PLUS_DI(x.high, x.low, x.close, 14) - x.ta.MINUS_DI(x.high, x.low, x.close, 14)) / 100.0
        ),
        sequential=True,
    ),
]

VOLUME = [
    _row(
        "relative_volume",
        19,
        "V / mean V of 20 bars - 1, 0 without volume",
        "relative volume",
        lambda x: np.where(x.mean_volume > 0.0, ratio(x.traded, x.mean_volume) - 1.0, 0.0),
    ),
    _row(
        "volume_score_120",
        119,
        "(V - mean V) / standard deviation of V, over 120 bars",
        "z-score",
        lambda x: ratio(x.traded - window_mean(x.traded, 120), window_deviation(x.traded, 120)),
    ),
    _row(
        "vwap_distance_120",
        119,
        "(C - VWAP of 120 bars) / (ATR sqrt 120)",
        "VWAP of typical prices",
        _vwap_distance,
    ),
    _row(
        "obv_slope_20",
        20,
        "least-squares slope of on-balance volume over 20 bars / mean V of 20 bars",
        "TA-Lib OBV, LINEARREG_SLOPE, rebuilt from the increments of the window",
        lambda x: ratio(window_slope(_signed_volume(x), 20), x.mean_volume),
    ),
    _row(
        "signed_volume_10",
        10,
        "sum of sign(dC) V / sum of V, over 10 bars",
        "tick rule on bars",
        lambda x: ratio(window_sum(_signed_volume(x), 10), window_sum(x.traded, 10)),
    ),
]

TIME = [
    _row(
        "day_sin",
        0,
        "sin(2 pi time of day), exchange clock at the bar's close",
        "clock",
        lambda x: x.day_angle[0],
    ),
    _row("day_cos", 0, "cos(2 pi time of day)", "clock", lambda x: x.day_angle[1]),
    _row("week_sin", 0, "sin(2 pi time of week), from Monday 00:00", "clock", lambda x: x.week_angle[0]),
    _row("week_cos", 0, "cos(2 pi time of week)", "clock", lambda x: x.week_angle[1]),
    _row(
        "minutes_to_session_end",
        0,
        "min(expected minutes to the session's last bar, 240) / 240; expected from completed sessions only",
        "clock",
        lambda x: np.minimum(x.clock.minutes_left, _SESSION_END_MINUTES) / _SESSION_END_MINUTES,
    ),
]

REGIME = [
    _row(
        "adx_14",
        27,
        "ADX(14) / 100",
        "TA-Lib ADX; Wilder 1978",
        lambda x: x.ta.ADX(x.high, x.low, x.close, 14) / 100.0,
        sequential=True,
    ),
    _row(
        "cusum_regime",
        60 + _CUSUM_WINDOW,
        "(S+ - S-) / 10; S+- = max(0, largest sum of the last j <= 128 values of +-z - 0.25), "
        "z = dC / rms(60) of the bar before, within +-10",
        "Page 1954, two-sided CUSUM",
        _cusum,
    ),
]

MARKET = [*RETURNS, *SHAPE, *VOLATILITY, *OSCILLATORS, *TREND, *VOLUME, *TIME, *REGIME]
