"""Bars, markets and comparisons that the tests of the features share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import talib
from numpy.typing import NDArray

from fox_env.bars import Bars
from fox_env.contracts import ContractSpec
from fox_env.features import FEATURES
from fox_env.market import Market

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
MINUTE = 60_000_000_000
SPEC = ContractSpec("T", tick_size=0.25, multiplier=50.0)
COLUMN = {feature.name: index for index, feature in enumerate(FEATURES)}


def random_bars(
    length: int,
    seed: int = 0,
    *,
    session: int = 100,
    level: float = 5000.0,
    volume: bool = True,
    calm: int = 0,
) -> Bars:
    """On-grid bars in sessions of `session` minutes; `calm` rows at the start do not move at all."""
    rng = np.random.default_rng(seed)
    step = rng.integers(-8, 9, length)
    step[:calm] = 0
    close = level + 0.25 * np.cumsum(step)
    moving = np.arange(length) >= calm
    open_ = np.concatenate(([level], close[:-1])) + 0.25 * rng.integers(-1, 2, length) * moving
    wick = 0.25 * rng.integers(0, 5, (2, length)) * moving
    row = np.arange(length)
    ts = 1_704_205_800_000_000_000 + (row // session) * 86_400_000_000_000 + (row % session) * MINUTE
    return Bars.from_arrays(
        ts,
        open_,
        np.maximum(open_, close) + wick[0],
        np.minimum(open_, close) - wick[1],
        close,
        rng.integers(0, 3000, length) if volume else None,
    )


def features(bars: Bars, spec: str | ContractSpec = SPEC) -> NDArray[np.float32]:
    return Market.from_bars(bars, spec, warmup=0, cache=False).features


def scaled(bars: Bars, factor: float = 1.0, shift: float = 0.0) -> Bars:
    prices = {name: getattr(bars, name) * factor + shift for name in ("open", "high", "low", "close")}
    return replace(bars, **prices)


def assert_same_bits(a: NDArray[np.float32], b: NDArray[np.float32]) -> None:
    differs = np.argwhere(a.view(np.uint32) != b.view(np.uint32))
    assert not len(differs), [(int(row), FEATURES[column].name) for row, column in differs[:5]]


def _hlc(c: Any) -> tuple[Any, Any, Any]:
    return c.high, c.low, c.close


def _moves(c: Any) -> NDArray[np.float64]:
    return np.diff(c.close, prepend=c.close[0])


BY_TALIB: dict[str, Callable[[Any], NDArray[np.float64]]] = {
    "adx_14": lambda c: talib.ADX(c.high, c.low, c.close, 14) / 100,
    "rsi_14": lambda c: talib.RSI(c.close, 14) / 50 - 1,
    "cci_20": lambda c: talib.CCI(c.high, c.low, c.close, 20) / 100,
    "aroon_25": lambda c: talib.AROONOSC(c.high, c.low, 25) / 100,
    "stochastic_14": lambda c: talib.STOCHF(c.high, c.low, c.close, 14, 1)[0] / 50 - 1,
    "ema_distance_30": lambda c: (c.close - talib.EMA(c.close, 30)) / c.atr / np.sqrt(30),
    "macd_histogram": lambda c: talib.MACD(c.close)[2] / c.atr,
    "slope_20": lambda c: talib.LINEARREG_SLOPE(c.close, 20) / c.atr * np.sqrt(20),
    "directional_14": lambda c: (talib.PLUS_DI(*_hlc(c)) - talib.MINUS_DI(*_hlc(c))) / 100,
    "obv_slope_20": lambda c: talib.LINEARREG_SLOPE(talib.OBV(c.close, c.volume), 20) / c.mean_volume,
    "volume_score_120": lambda c: (c.volume - talib.SMA(c.volume, 120)) / talib.STDDEV(c.volume, 120),
    "realised_20": lambda c: np.sqrt(talib.SMA(np.square(_moves(c)), 20)) / c.atr,
    "efficiency_20": lambda c: talib.MOM(c.close, 20) / talib.SUM(np.abs(_moves(c)), 20),
}  # fmt: skip
"""Features that TA-Lib gives directly, as functions of the physics columns."""
