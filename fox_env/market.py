"""Market: bars of one contract with everything the environment reads from them, shared and read-only."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fox_env import _native, contracts
from fox_env._layout import BarFlag
from fox_env.bars import Bars
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError, DataError
from fox_env.features import RECORDED, WARMUP, Inputs, evaluate, load_or_build
from fox_env.readers import read_bars

Float = NDArray[np.float64]

SNAP_TICKS = 0.02
"""A price this close to the tick grid is taken to be on it; the rest is rounding of the file."""

_MOST = 2.0**50
_PRICE_COLUMNS = ("bid", "ask")
_DAY_NS = 86_400_000_000_000
_YEAR_NS = 365.25 * _DAY_NS
_SHORT_SPAN_NS = 14 * _DAY_NS
_TRADING_DAYS = 252.0
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
        Average true range in ticks, at least 1 (``cuda_src/volatility.cuh``).
    mean_volume : float64 (T,)
        Mean volume of the last 20 bars, in contracts.
    session_progress : float64 (T,)
        Share of the expected session that has passed, 0 to 1, known at the close of the bar.
    flags : uint8 (T,)
        ``BarFlag`` bits: GAP at the first bar after a session break, SESSION_END at the last bar of a
        session.
    """

    open: Float
    high: Float
    low: Float
    close: Float
    volume: Float
    atr: Float
    mean_volume: Float
    session_progress: Float
    flags: NDArray[np.uint8]

    def __getitem__(self, rows: slice) -> MarketColumns:
        """Return a run of rows as views of the same arrays."""
        return MarketColumns(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Market:
    """Bars of one contract with their features and physics columns.

    Build it with :meth:`from_bars` or :meth:`from_file`.

    Attributes
    ----------
    bars : Bars
        The bars, in price units.
    contract : ContractSpec
        What is traded.
    features : float32 (T, 86)
        Market, order-flow and multi-timeframe blocks in observation order (``docs/features.md``).
    bars_per_year : float
        Bars in a year of the data's own calendar, for annualisation.
    first_ready : int
        First bar at which an episode may start to decide.
    columns : MarketColumns
        What the physics reads.
    has_volume : bool
        Whether the volume is known; without it the physics has no participation limit and no impact.
    generator : str
        Name and parameters of the synthetic market that made the bars, as
        :func:`fox_env.synthetic.from_name` reads them; empty for bars of any other origin.
    """

    bars: Bars
    contract: ContractSpec
    features: NDArray[np.float32]
    bars_per_year: float
    first_ready: int
    columns: MarketColumns
    has_volume: bool
    generator: str = ""

    @classmethod
    def from_bars(
        cls,
        bars: Bars,
        contract: str | ContractSpec = "ES",
        warmup: int | None = None,
        *,
        cache: bool = True,
    ) -> Market:
        """Build a market: ticks, physics columns and features (from the feature cache where it has them).

        Parameters
        ----------
        bars : Bars
            Price bars.
        contract : str or ContractSpec
            Name of a shipped contract, or a specification.
        warmup : int, optional
            Bars before the first decision. None: 240, when every window of the market features is full. A
            smaller value starts earlier with features that are still zero.
        cache : bool
            False neither reads nor writes the feature cache.

        Raises
        ------
        ConfigError
            Unknown contract, or a warm-up below 0.
        DataError
            The bars contain rolls or are adjusted by ratio, or a price is absurd for the contract's tick size.
        """
        spec = contracts.contract(contract)
        if warmup is not None and warmup < 0:
            raise ConfigError(f"Market: warmup must not be negative, got {warmup}; use 0 for no warm-up.")
        if bars.adjusted == "ratio":
            raise DataError(
                "Market: the bars are adjusted by ratio, so neither their ticks nor their profits were ever "
                "traded; splice them with adjust='none' or 'difference'."
            )
        if bars.roll_gap is not None and (rolls := np.flatnonzero(bars.roll_gap)).size:
            raise DataError(
                f"Market: row {rolls[0]}, column roll_gap: rolls are not part of the physics yet; "
                "use a series that is back-adjusted by difference, or one expiry."
            )
        inputs = _inputs(bars, spec)
        _warn_off_grid(inputs.close, spec)
        return cls(
            bars=bars,
            contract=spec,
            features=load_or_build(inputs) if cache else evaluate(inputs),
            bars_per_year=bars_per_year(bars.ts),
            first_ready=_first_ready(WARMUP if warmup is None else warmup, len(bars)),
            columns=_columns(bars, inputs),
            has_volume=bars.volume is not None,
        )

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        contract: str | ContractSpec = "ES",
        *,
        warmup: int | None = None,
        cache: bool = True,
        tz: str | None = None,
        label: str | None = None,
        format: str | None = None,
    ) -> Market:
        """Read bars from a file and build a market.

        Parameters
        ----------
        path : str or Path
            CSV or Parquet file.
        contract, warmup, cache
            As in :meth:`from_bars`.
        tz, label, format
            Reading hints, as in :func:`fox_env.read_bars`.

        Raises
        ------
        ConfigError, DataError
            As :func:`fox_env.read_bars` and :meth:`from_bars`.
        """
        bars = read_bars(path, tz=tz, label=label, format=format)
        return cls.from_bars(bars, contract, warmup, cache=cache)

    def split(self, *fractions: float, embargo: int = 0) -> tuple[Market, ...]:
        """Cut the market into consecutive parts that share its arrays.

        Parameters
        ----------
        *fractions : float
            Share of the bars for each part, in time order; together at most 1.
        embargo : int
            Bars left out at the end of every part but the last, so that nothing measured there reaches into
            the next part. The following part keeps its full length.

        Returns
        -------
        tuple of Market
            The features at the start of a part come from earlier bars and are complete, so a later part can
            decide from its first bar; only the warm-up of the whole market is still waited for.

        Raises
        ------
        ConfigError
            A fraction is not positive, they exceed 1 together, or a part has fewer than two bars.
        """
        if not fractions or min(fractions) <= 0.0 or sum(fractions) > 1.0 + 1e-9:
            raise ConfigError(
                f"Market.split: fractions must be positive and sum to at most 1, got {fractions}."
            )
        if embargo < 0:
            raise ConfigError(f"Market.split: embargo must not be negative, got {embargo}.")
        edges = np.rint(np.cumsum((0.0, *fractions)) * len(self)).astype(np.int64).tolist()
        parts = []
        for number, (first, last) in enumerate(itertools.pairwise(edges), start=1):
            stop = min(last, len(self)) - (embargo if number < len(fractions) else 0)
            if stop - first < 2:
                raise ConfigError(
                    f"Market.split: part {number} would have {max(stop - first, 0)} of {len(self)} bars; "
                    "give it a larger fraction or lower the embargo."
                )
            parts.append(self._rows(first, stop))
        return tuple(parts)

    def _rows(self, first: int, stop: int) -> Market:
        rows = slice(first, stop)
        return Market(
            bars=self.bars[rows],
            contract=self.contract,
            features=self.features[rows],
            bars_per_year=self.bars_per_year,
            first_ready=_first_ready(max(self.first_ready - first, 0), stop - first),
            columns=self.columns[rows],
            has_volume=self.has_volume,
            generator=self.generator,
        )

    def __len__(self) -> int:
        return len(self.bars)

    def __repr__(self) -> str:
        return f"Market({self.contract.symbol}, {self.bars!r}, first_ready={self.first_ready})"


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


def bars_per_year(ts: NDArray[np.int64]) -> float:
    """Return how many bars a year of the data's own calendar has.

    Parameters
    ----------
    ts : int64 (T,)
        Bar closes in ns.

    Notes
    -----
    Data of 14 days and more: bars per calendar time, which counts nights, weekends, holidays and missing bars
    as these data have them. Shorter data do not show a week: bars per day that has bars (UTC), times 252
    trading days.
    """
    span = int(ts[-1] - ts[0])
    if span >= _SHORT_SPAN_NS:
        return (len(ts) - 1) * _YEAR_NS / span
    return len(ts) / len(np.unique(ts // _DAY_NS)) * _TRADING_DAYS


def _first_ready(wanted: int, length: int) -> int:
    """Limit the first decision bar so that one bar is left to trade in."""
    latest = max(length - 2, 0)
    if wanted > latest:
        _log.warning(
            "Market: %d bars are fewer than the warm-up of %d; features are partly zero.", length, wanted
        )
    return min(wanted, latest)


def _warn_off_grid(close: Float, spec: ContractSpec) -> None:
    """Say so when the prices do not look like this contract's: a forgotten contract name is easy to miss."""
    off = int(np.count_nonzero(close != np.floor(close)))
    if off > _OFF_GRID_SHARE * len(close):
        _log.warning(
            "%d of %d closes lie off the tick grid of %s (tick %g); name the contract of these bars",
            off, len(close), spec.symbol, spec.tick_size,
        )  # fmt: skip


def _inputs(bars: Bars, spec: ContractSpec) -> Inputs:
    """Convert prices to ticks and add the physics' volatility and volume columns."""
    ticks = {name: to_ticks(getattr(bars, name), spec.tick_size) for name in ("open", "high", "low", "close")}
    for name in ("high", "low"):
        if (bad := np.flatnonzero(~(np.abs(ticks[name]) <= _MOST))).size:
            raise DataError(
                f"Market: row {bad[0]}, column {name}: {getattr(bars, name)[bad[0]]:g} exceeds 2^50 ticks of "
                f"{spec.tick_size:g} ({spec.symbol}); correct the price or the contract's tick_size."
            )
    traded = np.zeros(len(bars)) if bars.volume is None else bars.volume
    if (bad := np.flatnonzero(traded > _MOST)).size:
        raise DataError(
            f"Market: row {bad[0]}, column volume: {traded[bad[0]]:g} exceeds 2^50; correct the volume."
        )
    atr, mean_volume = _native.physics_columns(ticks["high"], ticks["low"], ticks["close"], traded)
    return Inputs(
        ts=bars.ts,
        session_start=bars.session_start,
        timezone=spec.timezone,
        **ticks,
        volume=bars.volume,
        atr=atr,
        mean_volume=mean_volume,
        extra={
            name: to_ticks(column, spec.tick_size) if name in _PRICE_COLUMNS else column
            for name, column in bars.extra.items()
            if name in RECORDED
        },
    )


def _columns(bars: Bars, inputs: Inputs) -> MarketColumns:
    flags = np.where(bars.gap, BarFlag.GAP, 0) | np.where(bars.session_end, BarFlag.SESSION_END, 0)
    columns = MarketColumns(
        open=inputs.open,
        high=inputs.high,
        low=inputs.low,
        close=inputs.close,
        volume=inputs.traded,
        atr=inputs.atr,
        mean_volume=inputs.mean_volume,
        session_progress=inputs.clock.progress,
        flags=flags.astype(np.uint8),
    )
    for column in vars(columns).values():
        column.flags.writeable = False
    return columns
