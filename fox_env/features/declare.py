"""What a feature is: one row of the table, and the series that the formulas read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fox_env.features.calendar import (
    DAY_SECONDS,
    WEEK_SECONDS,
    SessionClock,
    local_seconds_of_week,
    session_clock,
    sin_cos_turns,
)
from fox_env.features.windows import F64, change, ratio, window_mean

_COLUMNS = ("ts", "session_start", "open", "high", "low", "close", "atr", "mean_volume")
_BVC_WINDOW = 60
_MOST_RECORDED = 2.0**50
Kept = TypeVar("Kept")


@dataclass(frozen=True, eq=False)
class Inputs:
    """The series that feature formulas read; prices in ticks, intermediate series computed once and kept.

    Attributes
    ----------
    ts : int64 array (T,)
        Bar closes, UTC nanoseconds.
    session_start : bool array (T,)
        True at the first bar of each session.
    timezone : str
        IANA zone of the exchange.
    open, high, low, close : float64 arrays (T,)
        Prices in ticks.
    volume : float64 array (T,) or None
        Contracts; None when unknown.
    atr : float64 array (T,)
        Wilder's average true range over 14 bars in ticks, at least 1 (the physics' own column).
    mean_volume : float64 array (T,)
        Mean volume of the last 20 bars (the physics' own column).
    extra : mapping of str to float64 array (T,)
        Recorded order-flow columns by name.
    observed : tuple of float64 array (T,)
        The user's own columns, for the reserved entries in order.
    whole : Inputs or None
        The series that these are a run of rows of, from row `first` on; None for a whole series.
    first : int
        See `whole`.
    """

    ts: NDArray[np.int64]
    session_start: NDArray[np.bool_]
    timezone: str
    open: F64
    high: F64
    low: F64
    close: F64
    volume: F64 | None
    atr: F64
    mean_volume: F64
    extra: Mapping[str, F64]
    observed: tuple[F64, ...] = ()
    whole: Inputs | None = None
    first: int = 0

    def rows(self, first: int, stop: int) -> Inputs:
        """Return the rows from `first` to before `stop` as views."""
        rows = slice(first, stop)
        return replace(
            self,
            **{name: getattr(self, name)[rows] for name in _COLUMNS},
            volume=None if self.volume is None else self.volume[rows],
            extra={name: column[rows] for name, column in self.extra.items()},
            observed=tuple(column[rows] for column in self.observed),
            whole=self,
            first=first,
        )

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def ta(self) -> Any:
        """TA-Lib, imported on first use because it pulls pandas where that is installed."""
        import talib

        return talib

    @cached_property
    def zeros(self) -> F64:
        """Zeros of the length of the series."""
        return np.zeros(len(self))

    @cached_property
    def traded(self) -> F64:
        """Volume, or zeros where it is unknown."""
        return self.zeros if self.volume is None else self.volume

    @cached_property
    def delta(self) -> F64:
        """Close-to-close change in ticks."""
        return change(self.close)

    @cached_property
    def range(self) -> F64:
        """High minus low in ticks."""
        return self.high - self.low

    @cached_property
    def clock(self) -> SessionClock:
        """Session position of every bar, in the whole series."""
        if self.whole is not None:
            return self.whole.clock[self.first : self.first + len(self)]
        return session_clock(self.ts, self.session_start, self.timezone)

    @cached_property
    def day_angle(self) -> tuple[F64, F64]:
        """Sine and cosine of the exchange's time of day."""
        return sin_cos_turns((self._seconds % DAY_SECONDS) / DAY_SECONDS)

    @cached_property
    def week_angle(self) -> tuple[F64, F64]:
        """Sine and cosine of the exchange's time of the week."""
        return sin_cos_turns(self._seconds / WEEK_SECONDS)

    @cached_property
    def _seconds(self) -> F64:
        return local_seconds_of_week(self.ts, self.timezone)

    @cached_property
    def _kept(self) -> dict[tuple[str, int], Any]:
        return {}

    def keep(self, kind: str, parameter: int, make: Callable[[], Kept]) -> Kept:
        """Return ``make()``, computed on the first call with this kind and parameter."""
        if (kind, parameter) not in self._kept:
            self._kept[kind, parameter] = make()
        kept: Kept = self._kept[kind, parameter]
        return kept

    def realised(self, window: int) -> F64:
        """Root mean square of the close-to-close change over `window` bars, in ticks."""
        return self.keep("realised", window, lambda: np.sqrt(window_mean(self.delta * self.delta, window)))

    @cached_property
    def flow(self) -> F64:
        """Signed volume of every bar: recorded buys minus sells, else by bulk-volume classification.

        Bulk-volume classification (Easley, Lopez de Prado and O'Hara 2012) counts the share F(dC / sigma) of
        the volume as bought. F is Student's t with two degrees of freedom, 2 F(z) - 1 = z / sqrt(2 + z^2),
        which needs no transcendental function; sigma is the realised deviation of the last 60 bars.
        """
        if self.has_trades:
            return recorded(self.extra["buy_volume"]) - recorded(self.extra["sell_volume"])
        z = ratio(self.delta, self.realised(_BVC_WINDOW))
        return self.traded * (z / np.sqrt(2.0 + z * z))

    @cached_property
    def flow_volume(self) -> F64:
        """Volume that `flow` is a share of."""
        if self.has_trades:
            return recorded(self.extra["buy_volume"]) + recorded(self.extra["sell_volume"])
        return self.traded

    @property
    def has_trades(self) -> bool:
        """Whether buy and sell volumes were recorded."""
        return {"buy_volume", "sell_volume"} <= self.extra.keys()


def recorded(column: F64) -> F64:
    """Return a recorded column with missing (not finite) and absurd values as zero."""
    return np.where(np.abs(column) <= _MOST_RECORDED, column, 0.0)


@dataclass(frozen=True)
class Feature:
    """One row of the feature table.

    Attributes
    ----------
    name : str
        Unique short name.
    block : str
        ``market``, ``order_flow`` or ``timeframes``.
    ready : int
        First row (counted from 0) at which the value is used; it is zero before.
    formula : str
        The definition, in ticks and bars.
    source : str
        TA-Lib function, paper or common usage.
    compute : callable
        Inputs -> float64 array (T,), before clipping to +-10 and rounding to float32.
    sequential : bool
        Whether the formula passes over the whole series (a recursion, or running sums whose rounding depends
        on the first row) and so cannot be evaluated in runs of rows.
    """

    name: str
    block: str
    ready: int
    formula: str
    source: str
    compute: Callable[[Inputs], F64]
    sequential: bool = False
