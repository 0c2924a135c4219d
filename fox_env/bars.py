"""Bars: validated price bars in time order, the one form in which market data enter Fox."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fox_env.bar_columns import as_array, flags, numbers
from fox_env.errors import DataError

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Flag = NDArray[np.bool_]

PRICES = ("open", "high", "low", "close")
PRICE_EXTRAS = ("bid", "ask", "upper_limit", "lower_limit")
"""Further columns that are prices, and are scaled and adjusted with them."""

ADJUSTMENTS = ("none", "difference", "ratio")
"""What may have been done to earlier prices of a continuous contract."""

SESSION_BREAK_NS = 30 * 60 * 1_000_000_000
"""A longer pause between two bars starts a new session (and is longer than one interval)."""

_INTERVAL_ROWS = 241
"""First rows whose spacing decides the interval for the session flags."""

_HOUR_NS = 3_600_000_000_000
_DAY_NS = 24 * _HOUR_NS
_RECURRENCE_DAYS, _RECURRENCES = 14, 3
"""Days that are looked back, past a week of holidays, and how many of them must have had the same pause."""


class Fault(NamedTuple):
    """One kind of unusable value: the rows that have it and a function that describes one of them."""

    kind: str
    rows: Int
    column: str
    describe: Callable[[int], str]


def median_interval(ts: Int) -> int:
    """Return the median positive spacing of time stamps in ns; 0 for fewer than two distinct stamps."""
    spacing = np.diff(ts)
    spacing = spacing[spacing > 0]
    return int(np.median(spacing)) if spacing.size else 0


def known_intervals(ts: Int) -> Int:
    """Return the bar interval as it is known at each bar, in ns, (T,).

    It is the lower median of the spacings up to the bar and at most of the first 240, so later bars never
    change it. Bar 0 has that of bar 1; a single bar has 0.
    """
    result = np.zeros(len(ts), dtype=np.int64)
    spacings: list[int] = []
    for row, spacing in enumerate(np.diff(ts[:_INTERVAL_ROWS]).tolist(), start=1):
        if spacing > 0:
            bisect.insort(spacings, spacing)
        result[row] = spacings[(len(spacings) - 1) // 2] if spacings else 0
    result[:1] = result[1:2].max(initial=0)
    result[_INTERVAL_ROWS:] = result[_INTERVAL_ROWS - 1] if len(ts) > _INTERVAL_ROWS else 0
    return result


def session_breaks(ts: Int) -> Flag:
    """Return whether a session break is before each bar: no bar for more than 30 minutes and the interval.

    Where a single intraday bar is missing the time stamps do not tell a break of that length (from 17:00 to
    18:00 in Chicago) from a gap in the data. It is a break if the same pause, within an hour of the time of
    day for the change of clocks, was there on three of the fourteen days before. Each flag depends on the
    time stamps up to its bar only.
    """
    breaks = np.zeros(len(ts), dtype=np.bool_)
    interval = known_intervals(ts)[1:]
    pause = np.diff(ts)
    breaks[1:] = pause > np.maximum(SESSION_BREAK_NS, interval)
    single = np.flatnonzero(breaks[1:] & (pause <= 2 * interval) & (interval < _DAY_NS)) + 1
    begin = ts[single - 1]
    days = np.zeros(len(single), dtype=np.int64)
    for day in range(1, _RECURRENCE_DAYS + 1):
        then = begin - day * _DAY_NS
        days += np.searchsorted(begin, then + _HOUR_NS, "right") > np.searchsorted(begin, then - _HOUR_NS)
    breaks[single] = days >= _RECURRENCES
    return breaks


def find_faults(ts: Int, prices: Mapping[str, Float], volume: Float | None) -> Iterator[Fault]:
    """Yield every kind of value that bars may not hold, with all rows that have it.

    Parameters
    ----------
    ts : int64 array, shape (T,)
        Time stamps in ns.
    prices : mapping of ``open``, ``high``, ``low``, ``close`` to float64 arrays, shape (T,)
    volume : float64 array, shape (T,), or None
    """

    def fault(kind: str, bad: Flag, column: str, describe: Callable[[int], str]) -> Iterator[Fault]:
        rows = np.flatnonzero(bad)
        if rows.size:
            yield Fault(kind, rows, column, describe)

    def stamp(i: int) -> str:
        return str(ts[i].astype("datetime64[ns]")).rstrip("0").rstrip(".")

    # Compared, not subtracted: the difference of distant times wraps around.
    earlier, same = np.zeros((2, len(ts)), dtype=np.bool_)
    earlier[1:], same[1:] = ts[1:] < ts[:-1], ts[1:] == ts[:-1]
    yield from fault(
        "order",
        earlier,
        "ts",
        lambda i: f"time {stamp(i)} UTC is earlier than {stamp(i - 1)} in the row before",
    )
    yield from fault("duplicate", same, "ts", lambda i: f"time {stamp(i)} UTC repeats the row before")
    for name in PRICES:
        column = prices[name]
        yield from fault("non_finite", ~np.isfinite(column), name, lambda i, c=column: f"price is {c[i]}")  # type: ignore[misc]
    open_, high, low, close = (prices[name] for name in PRICES)
    upper, lower = np.maximum(open_, close), np.minimum(open_, close)
    yield from fault(
        "ohlc", high < upper, "high", lambda i: f"high {high[i]} is below max(open, close) = {upper[i]}"
    )
    yield from fault(
        "ohlc", low > lower, "low", lambda i: f"low {low[i]} is above min(open, close) = {lower[i]}"
    )
    if volume is not None:
        traded = volume
        yield from fault("non_finite", ~np.isfinite(traded), "volume", lambda i: f"volume is {traded[i]}")
        yield from fault("negative_volume", traded < 0, "volume", lambda i: f"volume is {traded[i]}")


def first_fault(ts: Int, prices: Mapping[str, Float], volume: Float | None) -> tuple[Fault, int] | None:
    """Return the fault with the smallest row, and that row, or None for usable values."""
    faults = list(find_faults(ts, prices, volume))
    if not faults:
        return None
    worst = min(faults, key=lambda fault: int(fault.rows[0]))
    return worst, int(worst.rows[0])


def as_nanoseconds(ts: ArrayLike) -> Int:
    """Return time stamps as int64 ns since 1970 UTC.

    Parameters
    ----------
    ts : array
        ``datetime64`` of any unit (UTC), or integers that already count ns.

    Raises
    ------
    DataError
        Another type, a NaT, or a date that ns cannot hold (before 1677 or after 2262).
    """
    array = as_array(ts, "ts")
    if array.ndim != 1:
        raise DataError(f"Bars: ts must have one dimension, got shape {array.shape}.")
    if array.dtype.kind == "M":
        missing = np.flatnonzero(np.isnat(array))
        if missing.size:
            raise DataError(
                f"Bars: row {missing[0]}, column ts: the time is missing (NaT); fill or remove the row."
            )
        nanoseconds = array.astype("datetime64[ns]")
        # NumPy wraps around silently when a date does not fit.
        lost = np.flatnonzero(nanoseconds.astype(array.dtype) != array)
        if lost.size:
            raise DataError(
                f"Bars: row {lost[0]}, column ts: {array[lost[0]]} is outside the years 1678 to 2261."
            )
        return nanoseconds.astype(np.int64)
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise DataError("Bars: column ts holds integers beyond the int64 range; pass ns since 1970.")
        nanoseconds = array.astype(np.int64)
        missing = np.flatnonzero(nanoseconds == np.iinfo(np.int64).min)  # NaT as an integer
        if missing.size:
            raise DataError(
                f"Bars: row {missing[0]}, column ts: the time is missing (NaT); fill or remove the row."
            )
        return nanoseconds
    raise DataError(
        f"Bars: ts must be datetime64 or int64 ns since 1970 UTC, got dtype {array.dtype}; convert it first."
    )


def _roll_gaps(values: ArrayLike, length: int, adjusted: str) -> Float:
    rolls = numbers(values, "roll_gap", length)
    if (bad := np.flatnonzero(~np.isfinite(rolls))).size:
        raise DataError(
            f"Bars: row {bad[0]}, column roll_gap: {rolls[bad[0]]} is not finite; write 0 for no roll."
        )
    if adjusted != "none" and (left := np.flatnonzero(rolls)).size:
        raise DataError(
            f"Bars: row {left[0]}, column roll_gap: prices adjusted by {adjusted} have no gap at a roll; leave "
            "roll_gap out, or give adjusted='none'."
        )
    return rolls


def _further(extra: Mapping[str, ArrayLike], length: int) -> dict[str, Float]:
    if not isinstance(extra, Mapping):
        raise DataError(f"Bars: extra must map names to columns, got {type(extra).__name__}.")
    for name in extra:
        if not isinstance(name, str):
            raise DataError(f"Bars: the name {name!r} of a further column must be a text.")
    return {name: numbers(values, name, length) for name, values in extra.items()}


@dataclass(frozen=True, eq=False)
class Bars:
    """Price bars in time order; every array is read-only and has one entry per bar.

    Build it with :meth:`from_arrays`, which checks and converts; the constructor itself checks nothing.

    Attributes
    ----------
    ts : int64, shape (T,)
        Close of each bar, ns since 1970 UTC, strictly increasing. A bar may be used from this time on.
    open, high, low, close : float64, shape (T,)
        Prices in price units; zero and negative prices are legal.
    volume : float64, shape (T,), or None
        Contracts traded; None when unknown.
    session_end : bool, shape (T,)
        The bar is the last of its session. Unless given it is derived from the time of the next bar, in place
        of a calendar that would tell it beforehand: so no feature, and never set for the last bar of the data.
    gap : bool, shape (T,)
        The bar is the first after a session break. Missing bars within a session set no flag: minutes without
        a trade are ordinary, and orders outlast them.
    roll_gap : float64, shape (T,), or None
        Price of the new contract minus the old one at a roll bar, 0 elsewhere; None when there is no roll.
    extra : mapping of str to float64 arrays, shape (T,)
        Further columns by name; NaN marks a missing value.
    repairs : tuple of str
        What the repairs asked for changed in the file's rows, one sentence each (:mod:`fox_env.repair`).
    adjusted : {"none", "difference", "ratio"}
        How earlier prices were moved to close the gaps at rolls (:func:`fox_env.continuous`): not at all, by
        adding, or by multiplying. Adjusted prices are not those that were traded.
    """

    ts: Int
    open: Float
    high: Float
    low: Float
    close: Float
    volume: Float | None
    session_end: Flag
    gap: Flag
    roll_gap: Float | None
    extra: Mapping[str, Float]
    repairs: tuple[str, ...] = ()
    adjusted: str = "none"

    @classmethod
    def from_arrays(
        cls,
        ts: ArrayLike,
        open: ArrayLike,
        high: ArrayLike,
        low: ArrayLike,
        close: ArrayLike,
        volume: ArrayLike | None = None,
        roll_gap: ArrayLike | None = None,
        *,
        session_end: ArrayLike | None = None,
        gap: ArrayLike | None = None,
        extra: Mapping[str, ArrayLike] | None = None,
        repairs: Iterable[str] = (),
        adjusted: str = "none",
    ) -> Bars:
        """Check, convert and copy arrays into bars.

        Parameters
        ----------
        ts : datetime64 of any unit, or int64 ns since 1970 UTC, shape (T,)
            Close of each bar in UTC.
        open, high, low, close, volume, roll_gap, session_end, gap, extra, repairs, adjusted
            As the attributes of the class. Session flags that are not given are derived from the time stamps:
            a pause longer than 30 minutes and than the bar interval ends a session, but for a single missing
            bar where no such pause recurs (:func:`session_breaks`). Flags are True and False, or 1 and 0.

        Raises
        ------
        DataError
            No rows, unequal lengths, a wrong type, or a value that a bar may not hold; the message names the
            first bad row (counted from 0) and its column.
        """
        if adjusted not in ADJUSTMENTS:
            raise DataError(f"Bars: adjusted must be one of {', '.join(ADJUSTMENTS)}, got {adjusted!r}.")
        stamps = as_nanoseconds(ts)
        length = len(stamps)
        if length == 0:
            raise DataError("Bars: there are no rows; give at least one bar.")
        stamps.flags.writeable = False

        prices = {
            name: numbers(v, name, length) for name, v in zip(PRICES, (open, high, low, close), strict=True)
        }
        traded = None if volume is None else numbers(volume, "volume", length)
        found = first_fault(stamps, prices, traded)
        if found is not None:
            fault, row = found
            raise DataError(
                f"Bars: row {row}, column {fault.column}: {fault.describe(row)}; correct or remove the row."
            )
        rolls = None if roll_gap is None else _roll_gaps(roll_gap, length, adjusted)
        after_break = session_breaks(stamps) if gap is None else flags(gap, "gap", length)
        if session_end is None:
            last = np.append(after_break[1:], False)
        else:
            last = flags(session_end, "session_end", length)
            if gap is None:
                after_break = after_break | np.concatenate(([False], last[:-1]))
        return cls(
            ts=stamps,
            **prices,
            volume=traded,
            session_end=flags(last, "session_end", length),
            gap=flags(after_break, "gap", length),
            roll_gap=rolls,
            extra=_further({} if extra is None else extra, length),
            repairs=tuple(repairs),
            adjusted=adjusted,
        )

    def __len__(self) -> int:
        return len(self.ts)

    def __getitem__(self, rows: slice) -> Bars:
        """Return a run of bars as views of the same arrays, flags included.

        Raises
        ------
        TypeError
            `rows` is not a slice.
        DataError
            The slice has a step other than 1 or selects nothing.
        """
        if not isinstance(rows, slice):
            raise TypeError(f"Bars are indexed by a slice such as bars[10:20], got {rows!r}.")
        if rows.step not in (None, 1):
            raise DataError(
                f"Bars: a slice must have step 1 to keep the time order and interval, got {rows.step}."
            )
        start, stop, _ = rows.indices(len(self))
        if stop <= start:
            raise DataError(f"Bars: slice {rows.start}:{rows.stop} of {len(self)} bars is empty; widen it.")
        cut = slice(start, stop)
        return Bars(
            ts=self.ts[cut],
            open=self.open[cut],
            high=self.high[cut],
            low=self.low[cut],
            close=self.close[cut],
            volume=None if self.volume is None else self.volume[cut],
            session_end=self.session_end[cut],
            gap=self.gap[cut],
            roll_gap=None if self.roll_gap is None else self.roll_gap[cut],
            extra={name: values[cut] for name, values in self.extra.items()},
            repairs=self.repairs,
            adjusted=self.adjusted,
        )

    @property
    def interval_ns(self) -> int:
        """Median spacing of the bars in ns; 0 for a single bar."""
        return median_interval(self.ts)

    @property
    def session_start(self) -> Flag:
        """Whether each bar is the first of a session in these data: ``gap``, and bar 0. Causal."""
        start = self.gap.copy()
        start[0] = True
        return start

    def __repr__(self) -> str:
        first, last = (str(self.ts[i].astype("datetime64[ns]").astype("datetime64[s]")) for i in (0, -1))
        return f"Bars({len(self):,} from {first} to {last} UTC, interval {self.interval_ns / 1e9:g} s)"
