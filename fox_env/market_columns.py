"""Bars in ticks: the columns that the physics reads, and the series that the feature formulas read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fox_env import _native
from fox_env._layout import BarFlag
from fox_env.bars import PRICE_EXTRAS, PRICES, Bars
from fox_env.calendars import trading_days
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError, DataError
from fox_env.features import FEATURES, N_RESERVED, RECORDED, Inputs

Float = NDArray[np.float64]

SNAP_TICKS = 0.02
"""A price this close to the tick grid is taken to be on it; the rest is rounding of the file."""

_MOST = 2.0**50
_OFF_GRID_SHARE = 0.05
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class MarketColumns:
    """The columns that the physics reads; every array is read-only and has one entry per bar.

    Attributes
    ----------
    open, high, low, close : float64 (T,)
        Prices in ticks; exact integers for prices on the grid.
    volume : float64 (T,)
        Contracts; 0 where unknown.
    atr : float64 (T,)
        Average true range in ticks, at least 1 (``cuda_src/volatility.cuh``), without the gaps of rolls.
    mean_volume : float64 (T,)
        Mean volume of the last 20 bars, in contracts.
    session_progress : float64 (T,)
        Share of the expected session that has passed, 0 to 1, known at the close of the bar.
    roll_gap : float64 (T,)
        Ticks by which the new contract lies above the old one at its first bar; 0 elsewhere.
    flags : uint8 (T,)
        ``BarFlag`` bits: GAP at the first bar after a session break, SESSION_END at the last bar of a
        session, DAY_END at the last bar of a trading day, ROLL at the first bar of a new contract, LOCKED_UP and
        LOCKED_DOWN where the whole bar lies at the price limit of ``Bars.extra["upper_limit"]`` or ``["lower_limit"]``,
        OPEN_UP and OPEN_DOWN where it opens there.
    """

    open: Float
    high: Float
    low: Float
    close: Float
    volume: Float
    atr: Float
    mean_volume: Float
    session_progress: Float
    roll_gap: Float
    flags: NDArray[np.uint8]

    def __getitem__(self, rows: slice) -> MarketColumns:
        """Return a run of rows as views of the same arrays."""
        return MarketColumns(**{name: column[rows] for name, column in vars(self).items()})


def to_ticks(price: Float, tick_size: float) -> Float:
    """Return prices in ticks; a price within 0.02 ticks of the grid becomes the exact integer.

    Parameters
    ----------
    price : float64 (T,)
        Price units.
    tick_size : float
        Price units per tick.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # absurd prices become infinite and are refused later
        ticks = price / tick_size
        grid = np.rint(ticks)
        return np.where(np.abs(ticks - grid) <= SNAP_TICKS, grid, ticks)


def convert(bars: Bars, spec: ContractSpec, observe: Sequence[str] = ()) -> tuple[MarketColumns, Inputs]:
    """Convert bars to ticks, for the physics and for the features.

    Parameters
    ----------
    bars : Bars
        Price bars.
    spec : ContractSpec
        Its tick size is the unit of the prices, its zone the clock of the features.
    observe : sequence of str
        Columns of ``bars.extra`` for the reserved entries.

    Returns
    -------
    MarketColumns
        Prices as they were traded, and the gap at every roll.
    Inputs
        Prices less all gaps up to their own bar: the new contract goes on where the old one stood, so that no
        difference, true range or indicator sees a roll, and no price changes when later bars are added.

    Raises
    ------
    ConfigError
        `observe` names a column that is not there, or too many.
    DataError
        A price or volume is absurd, or an observed column is not finite.
    """
    ticks = {name: to_ticks(getattr(bars, name), spec.tick_size) for name in PRICES}
    roll_gap = np.zeros(len(bars)) if bars.roll_gap is None else to_ticks(bars.roll_gap, spec.tick_size)
    _refuse_absurd(bars, ticks | {"roll_gap": roll_gap}, spec)
    _warn_off_grid(ticks["close"], spec)
    traded = np.zeros(len(bars)) if bars.volume is None else bars.volume
    unrolled, shift = ticks, np.zeros(1)
    if roll_gap.any():
        shift = np.cumsum(roll_gap)
        unrolled = {name: column - shift for name, column in ticks.items()}
    atr, mean_volume = _native.physics_columns(unrolled["high"], unrolled["low"], unrolled["close"], traded)
    inputs = Inputs(
        ts=bars.ts,
        session_start=bars.session_start,
        timezone=spec.timezone,
        open=unrolled["open"],
        high=unrolled["high"],
        low=unrolled["low"],
        close=unrolled["close"],
        volume=bars.volume,
        atr=atr,
        mean_volume=mean_volume,
        extra={
            name: to_ticks(column, spec.tick_size) - shift if name in PRICE_EXTRAS else column
            for name, column in bars.extra.items()
            if name in RECORDED
        },
        observed=_observed(bars, observe),
    )
    flags = _at_limits(bars, ticks, spec)
    flags |= np.where(bars.gap, int(BarFlag.GAP), 0) | np.where(bars.session_end, int(BarFlag.SESSION_END), 0)
    flags |= np.where(_rolled(bars), int(BarFlag.ROLL), 0)
    flags |= np.where(_day_ends(bars, spec), int(BarFlag.DAY_END), 0)
    columns = MarketColumns(
        **ticks,
        volume=traded,
        atr=atr,
        mean_volume=mean_volume,
        session_progress=inputs.clock.progress,
        roll_gap=roll_gap,
        flags=flags.astype(np.uint8),
    )
    for column in vars(columns).values():
        column.flags.writeable = False
    return columns, inputs


def _rolled(bars: Bars) -> NDArray[np.bool_]:
    """Return whether each bar is the first of a new contract, also of one whose price is the same."""
    if bars.roll_gap is None:
        return np.zeros(len(bars), dtype=np.bool_)
    rolled: NDArray[np.bool_] = bars.roll_gap != 0.0
    if "contract" in bars.extra:
        rolled[1:] |= np.diff(bars.extra["contract"]) != 0.0
    return rolled


def _day_ends(bars: Bars, spec: ContractSpec) -> NDArray[np.bool_]:
    """Return whether each bar is the last of a trading day; of the last bar of all nobody knows."""
    day = trading_days(bars, spec)
    ends = np.zeros(len(bars), dtype=np.bool_)
    ends[:-1] = day[1:] != day[:-1]
    return ends


def _at_limits(bars: Bars, ticks: dict[str, Float], spec: ContractSpec) -> NDArray[np.int64]:
    """Return the flags of bars that lie at a price limit as a whole, or open there."""
    flags = np.zeros(len(bars), dtype=np.int64)
    limits = (
        ("upper_limit", BarFlag.LOCKED_UP, BarFlag.OPEN_UP),
        ("lower_limit", BarFlag.LOCKED_DOWN, BarFlag.OPEN_DOWN),
    )
    for name, locked, opens in limits:
        if name in bars.extra:
            limit = to_ticks(bars.extra[name], spec.tick_size)
            flags |= np.where(ticks["open"] == limit, int(opens), 0)
            flags |= np.where((ticks["low"] == limit) & (ticks["high"] == limit), int(locked), 0)
    return flags


def _refuse_absurd(bars: Bars, ticks: dict[str, Float], spec: ContractSpec) -> None:
    for name in ("high", "low", "roll_gap"):
        if (bad := np.flatnonzero(~(np.abs(ticks[name]) <= _MOST))).size:
            raise DataError(
                f"Market: row {bad[0]}, column {name}: {getattr(bars, name)[bad[0]]:g} exceeds 2^50 ticks of "
                f"{spec.tick_size:g} ({spec.symbol}); correct the price or the contract's tick_size."
            )
    if bars.volume is not None and (bad := np.flatnonzero(bars.volume > _MOST)).size:
        raise DataError(
            f"Market: row {bad[0]}, column volume: {bars.volume[bad[0]]:g} exceeds 2^50; correct the volume."
        )


def _warn_off_grid(close: Float, spec: ContractSpec) -> None:
    """Say so when the prices do not look like this contract's: a forgotten contract name is easy to miss."""
    off = int(np.count_nonzero(close != np.floor(close)))
    if off > _OFF_GRID_SHARE * len(close):
        _log.warning(
            "%d of %d closes lie off the tick grid of %s (tick %g); name the contract of these bars",
            off, len(close), spec.symbol, spec.tick_size,
        )  # fmt: skip


def _observed(bars: Bars, observe: Sequence[str]) -> tuple[Float, ...]:
    """Return the columns that the user wants to see, checked."""
    if isinstance(observe, str):
        raise ConfigError(f"Market: observe must be a list of column names; write observe=({observe!r},).")
    if not isinstance(observe, Sequence) or not all(isinstance(name, str) for name in observe):
        raise ConfigError(f"Market: observe must be a list of column names, got {observe!r}.")
    names = tuple(observe)
    if len(names) > N_RESERVED or len(set(names)) < len(names):
        raise ConfigError(
            f"Market: observe takes up to {N_RESERVED} different columns, got {', '.join(names)}."
        )
    taken = {feature.name for feature in FEATURES}
    for name in names:
        if name not in bars.extra:
            there = ", ".join(sorted(bars.extra)[:10]) or "none"
            raise ConfigError(f"Market: observe: bars.extra has no column {name!r}; it has: {there}.")
        if name in taken:
            raise ConfigError(f"Market: observe: {name!r} is the name of a feature; rename the column.")
        if (bad := np.flatnonzero(~np.isfinite(bars.extra[name]))).size:
            raise DataError(
                f"Market: row {bad[0]}, column {name}: {bars.extra[name][bad[0]]} cannot be observed; fill it, "
                "for instance with 0."
            )
    return tuple(bars.extra[name] for name in names)
