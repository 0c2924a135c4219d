"""Market: bars of one contract with everything the environment reads from them, shared and read-only."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env import contracts
from fox_env.bars import Bars
from fox_env.calendars import trading_days
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError, DataError
from fox_env.features import FEATURES, WARMUP, evaluate, load_or_build
from fox_env.market_columns import MarketColumns, convert
from fox_env.prepared import stored_contract
from fox_env.readers import read_bars, read_symbols

_DAY_NS = 86_400_000_000_000
_YEAR_NS = 365.25 * _DAY_NS
_SHORT_SPAN_NS = 14 * _DAY_NS
_TRADING_DAYS = 252.0
_ASSUMED = "ES"
_log = logging.getLogger(__name__)


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
    full_from : int
        First bar at which every window of the market features is full.
    observed : tuple of str
        Columns of ``bars.extra`` that take the reserved entries of the observation, in order.
    """

    bars: Bars
    contract: ContractSpec
    features: NDArray[np.float32]
    bars_per_year: float
    first_ready: int
    columns: MarketColumns
    has_volume: bool
    generator: str = ""
    full_from: int = WARMUP
    observed: tuple[str, ...] = ()

    @classmethod
    def from_bars(
        cls,
        bars: Bars,
        contract: str | ContractSpec | None = None,
        warmup: int | None = None,
        *,
        cache: bool = True,
        observe: Sequence[str] = (),
    ) -> Market:
        """Build a market: ticks, physics columns and features (from the feature cache where it has them).

        Parameters
        ----------
        bars : Bars
            Price bars.
        contract : str or ContractSpec, optional
            Name of a shipped contract, or a specification. None: ES, with a warning.
        warmup : int, optional
            Bars before the first decision. None: 240, when every window of the market features is full. A
            smaller value starts earlier with features that are still zero (see :attr:`starts_early`).
        cache : bool
            False neither reads nor writes the feature cache.
        observe : sequence of str
            Up to four columns of ``bars.extra`` that the agent sees in the reserved entries
            (:attr:`feature_names`), clipped to +-10. A value must be known at the close of its own bar.

        Raises
        ------
        ConfigError
            `bars` are no Bars, an unknown contract, a warm-up that is no whole number from 0, or `observe` names
            a column that is not there.
        DataError
            The bars are adjusted by ratio, a price is absurd for the contract's tick size, or
            an observed column is not finite.
        """
        if not isinstance(bars, Bars):
            raise ConfigError(
                f"Market: bars must be Bars, got {type(bars).__name__}; use Market.from_file for a path or a frame."
            )
        spec = _contract_of("", "Market") if contract is None else contracts.contract(contract)
        if warmup is not None:
            warmup = _count(warmup, "Market: warmup")
        if bars.adjusted == "ratio":
            raise DataError(
                "Market: the bars are adjusted by ratio, so neither their ticks nor their profits were ever "
                "traded; splice them with adjust='none' or 'difference'."
            )
        columns, inputs = convert(bars, spec, observe)
        return cls(
            bars=bars,
            contract=spec,
            features=load_or_build(inputs) if cache else evaluate(inputs),
            bars_per_year=bars_per_year(bars, spec),
            first_ready=_first_ready(WARMUP if warmup is None else warmup, len(bars)),
            columns=columns,
            has_volume=bars.volume is not None,
            observed=tuple(observe),
        )

    @classmethod
    def from_file(
        cls,
        path: str | Path | Sequence[str | Path],
        contract: str | ContractSpec | None = None,
        *,
        warmup: int | None = None,
        cache: bool = True,
        observe: Sequence[str] = (),
        **hints: Any,
    ) -> Market:
        """Read bars from a file and build a market.

        Parameters
        ----------
        path : str, Path, or list of these
            What :func:`fox_env.read_bars` reads.
        contract : str or ContractSpec, optional
            None: the one that a prepared file holds (``scripts/prepare_data.py``), else the one that the file's name
            of its instrument means ("ESU4"); failing that ES, with a warning.
        warmup, cache, observe
            As in :meth:`from_bars`.
        **hints
            Keyword arguments of :func:`fox_env.read_bars`: ``tz``, ``label``, ``format``, ...

        Raises
        ------
        ConfigError, DataError
            As :func:`fox_env.read_bars` and :meth:`from_bars`, or prepared files hold different contracts.
        """
        if contract is None:
            contract = stored_contract(path)
        if contract is None:
            bars, instrument = _read_named(path, hints)
            contract = _contract_of(instrument, path)
            if hints.get("bars") == "1d":  # the contract tells the trading days
                bars = read_bars(path, contract=contract, **hints)
        else:
            contract = contracts.contract(contract)
            bars = read_bars(path, contract=contract, **hints)
        return cls.from_bars(bars, contract, warmup, cache=cache, observe=observe)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the 86 columns of `features`; an observed column stands in place of its reserved entry."""
        columns = iter(self.observed)
        return tuple(
            next(columns, row.name) if row.name.startswith("reserved_") else row.name for row in FEATURES
        )

    @property
    def starts_early(self) -> bool:
        """Whether an episode may start before the market features are complete."""
        return self.first_ready < self.full_from

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
            A fraction is not positive, they exceed 1 together, a part has fewer than two bars, or the embargo is no
            whole number from 0.
        """
        numbers = all(isinstance(share, (int, float, np.number)) for share in fractions)
        if not (numbers and fractions and min(fractions) > 0.0 and sum(fractions) <= 1.0 + 1e-9):
            raise ConfigError(
                f"Market.split: fractions must be positive and sum to at most 1, got {fractions}."
            )
        embargo = _count(embargo, "Market.split: embargo")
        edges = np.rint(np.cumsum((0.0, *fractions)) * len(self)).astype(np.int64).tolist()
        parts = []
        for number, (first, last) in enumerate(itertools.pairwise(edges), start=1):
            stop = min(last, len(self)) - (embargo if number < len(fractions) else 0)
            if stop - first < 2:
                raise ConfigError(
                    f"Market.split: part {number} would have {max(stop - first, 0)} of {len(self)} bars; "
                    "give it a larger fraction or lower the embargo."
                )
            parts.append(self.rows(first, stop))
        return tuple(parts)

    def rows(self, first: int, stop: int) -> Market:
        """Return bars ``first`` to ``stop`` - 1 as a market that shares the arrays, as :meth:`split` does.

        Raises
        ------
        ConfigError
            Fewer than two bars, or rows outside the market.
        """
        if not (first >= 0 and stop <= len(self) and stop - first >= 2):
            raise ConfigError(
                f"Market.rows: from {first} to {stop} is no part of at least two of the {len(self)} bars."
            )
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
            full_from=max(self.full_from - first, 0),
            observed=self.observed,
        )

    def __len__(self) -> int:
        return len(self.bars)

    def __repr__(self) -> str:
        early = ", starts early" if self.starts_early else ""
        return f"Market({self.contract.symbol}, {self.bars!r}, first_ready={self.first_ready}{early})"


def bars_per_year(bars: Bars, spec: ContractSpec) -> float:
    """Return how many bars a year of the data's own calendar has.

    Parameters
    ----------
    bars : Bars
    spec : ContractSpec
        Its zone tells the trading days.

    Notes
    -----
    Data of 14 days and more: bars per calendar time, which counts nights, weekends, holidays and missing bars
    as these data have them. Shorter data do not show a week: bars per trading day that has bars
    (:func:`fox_env.calendars.trading_days`), times 252.
    """
    span = int(bars.ts[-1] - bars.ts[0])
    if span >= _SHORT_SPAN_NS:
        return (len(bars) - 1) * _YEAR_NS / span
    return len(bars) / len(np.unique(trading_days(bars, spec))) * _TRADING_DAYS


def _count(value: int, name: str) -> int:
    """Return a whole number of bars, checked."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ConfigError(f"{name} must be a whole number of bars from 0, got {value!r}.")
    return int(value)


def _read_named(source: object, hints: Mapping[str, Any]) -> tuple[Bars, str]:
    """Read the bars of one instrument and its name in the source, empty where it has none."""
    if hints.get("symbol") is None:
        named = read_symbols(source, **{name: value for name, value in hints.items() if name != "symbol"})
        if len(named) == 1:
            instrument, bars = named.popitem()
            return bars, instrument
    return read_bars(source, **hints), str(hints.get("symbol"))  # refuses several instruments


def _contract_of(instrument: str, source: object) -> ContractSpec:
    """Return the contract that an instrument's name means, else ES, said aloud."""
    why = "no contract is named"
    if instrument:
        try:
            return contracts.contract(instrument)
        except ConfigError:
            why = f"the instrument {instrument!r} is no known contract"
    _log.warning("%s: %s, so the bars are taken for %s; pass contract=", source, why, _ASSUMED)
    return contracts.contract(_ASSUMED)


def _first_ready(wanted: int, length: int) -> int:
    """Limit the first decision bar so that one bar is left to trade in."""
    latest = max(length - 2, 0)
    if wanted > latest:
        _log.warning(
            "Market: %d bars are fewer than the warm-up of %d; features are partly zero.", length, wanted
        )
    return min(wanted, latest)
