"""Checks against the contract's tick grid and of its volume: wrong contracts, indices, float32 rounding."""

from __future__ import annotations

import numpy as np

from fox_env.bars import PRICES, Fault, Flag, Float
from fox_env.checks.series import Series, finding
from fox_env.contracts import ContractSpec
from fox_env.market_columns import SNAP_TICKS

__all__ = ["grid_faults", "volume_faults"]

_ROUNDING = 1e-6
"""Distance, in ticks, that the rounding of 64-bit numbers stays below."""

_INDEX_SHARE = 0.2
_DECIMAL_TICKS = [step * 10.0**-power for power in range(-2, 9) for step in (5.0, 2.5, 2.0, 1.0)]
_BINARY_TICKS = [2.0**-power for power in range(3, 10)]
_TICKS = sorted(_DECIMAL_TICKS + _BINARY_TICKS, reverse=True)
"""Tick sizes that contracts have, largest first."""

_SAMPLE = 5_000


def is_index(series: Series) -> bool:
    """Whether nothing ever traded and most closes are off the tick grid: an index labelled as its future."""
    if series.spec is None or series.volume is None or series.volume.any():
        return False
    return bool(np.mean(_off_grid(series.prices["close"], series.spec.tick_size)) > _INDEX_SHARE)


def grid_faults(series: Series) -> list[Fault]:
    """Report prices off the tick grid, with the tick that would fit them, and float32 rounding."""
    spec, prices = series.spec, series.prices
    if spec is None:
        return []
    if is_index(series):
        message = f"no bar has volume and most closes lie off {spec.symbol}'s tick {spec.tick_size:g}"
        return finding("cash_index", np.arange(len(series.ts)), "close", lambda _: message)
    off = {name: _off_grid(prices[name], spec.tick_size) for name in PRICES}
    if not any(rows.any() for rows in off.values()):
        return _float32_faults(series, spec)
    samples = [prices[name][rows] for name in PRICES for rows in (off[name], ~off[name])]
    fitting = _fitting_tick(np.concatenate([sample[:_SAMPLE] for sample in samples]))
    advice = "" if fitting is None else f"; the tick {fitting:g} would fit"
    return [fault for name in PRICES for fault in _off_tick(name, prices[name], off[name], spec, advice)]


def _off_tick(name: str, values: Float, off: Flag, spec: ContractSpec, advice: str) -> list[Fault]:
    def describe(row: int) -> str:
        return (
            f"price {values[row]:.10g} is not a multiple of {spec.symbol}'s tick {spec.tick_size:g}{advice}"
        )

    return finding("off_tick", off, name, describe)


def _distance(values: Float, tick: float) -> Float:
    """Return the distance from the grid in ticks; 0 for values that are not finite."""
    ticks = values / tick
    distance: Float = np.abs(ticks - np.rint(ticks))
    return np.where(np.isfinite(distance), distance, 0.0)


def _off_grid(values: Float, tick: float) -> Flag:
    off: Flag = _distance(values, tick) > SNAP_TICKS
    return off


def _fitting_tick(values: Float) -> float | None:
    """Return the largest common tick of which the values are multiples, or None."""
    smallest = np.abs(values[np.isfinite(values) & (values != 0.0)]).min(initial=np.inf)
    fitting = (tick for tick in _TICKS if tick <= smallest and not _off_grid(values, tick).any())
    return next(fitting, None)


def _float32_faults(series: Series, spec: ContractSpec) -> list[Fault]:
    close = series.prices["close"]
    distance = _distance(close, spec.tick_size)
    return finding(
        "float32",
        distance > _ROUNDING,
        "close",
        lambda i: f"price {close[i]:.10g} is {distance[i]:.2g} ticks off the grid",
    )


def volume_faults(series: Series) -> list[Fault]:
    """Report missing volume: everywhere, or in single bars."""
    volume = series.volume
    if volume is None or is_index(series):
        return []
    idle = volume == 0
    if idle.all():
        return finding(
            "no_volume", idle, "volume", lambda _: "volume is 0 in every row, so nothing can be filled"
        )
    return finding("zero_volume", idle, "volume", lambda _: "nothing traded")
