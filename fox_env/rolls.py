"""When a continuous contract rolls: the order of the expiries, their trading days, and which one is held."""

from __future__ import annotations

import datetime
import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import Bars, Float, Int, known_intervals, session_breaks
from fox_env.calendars import evening_day, to_monday, wall_clock
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError, DataError
from fox_env.expiries import MONTH_CODES, ContractName, expiry_date, readings

Day = datetime.date | str
Days = NDArray[np.datetime64]

DEFAULT_ROLL_DAYS = 5
"""Business days before the expiry at which the calendar rule rolls where no contract says otherwise."""

_OPEN_INTEREST = ("open_interest", "openinterest", "openint", "open_int", "oi", "opint")
_NEVER = datetime.date(9999, 1, 1)
_DAY_NS = 86_400_000_000_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Expiry:
    """One contract to splice.

    Attributes
    ----------
    name : str
        As the user gave it.
    bars : Bars
    delivery : (year, month) or None
        Delivery month, where the name says it.
    last_day : date or None
        Last trading day, where it is known.
    """

    name: str
    bars: Bars
    delivery: tuple[int, int] | None
    last_day: datetime.date | None


def arrange(
    pairs: Sequence[tuple[str, Bars]], given: Mapping[str, Day], spec: ContractSpec | None
) -> list[Expiry]:
    """Sort expiries by their last trading day or delivery month; names that say neither keep their order.

    Parameters
    ----------
    pairs : sequence of (name, Bars)
    given : mapping of name to date
        Last trading days that the user gave.
    spec : ContractSpec or None
        Contract whose rule gives the last trading day from the delivery month.

    Raises
    ------
    ConfigError, DataError
        As :func:`fox_env.continuous`.
    """
    if unknown := sorted(set(given) - {name for name, _ in pairs}):
        raise ConfigError(
            f"Continuous contract: expiry= names {unknown[0]!r}, which is not among the expiries."
        )
    items = [_expiry(name, bars, given.get(name), spec) for name, bars in pairs]
    keys: list[tuple[int, ...]]
    if all(item.last_day for item in items):
        keys = [item.last_day.timetuple()[:3] for item in items if item.last_day]
    elif all(item.delivery for item in items):
        keys = [item.delivery for item in items if item.delivery]
    elif not any(item.last_day or item.delivery for item in items):
        keys = [(number,) for number in range(len(items))]
    else:
        odd = next(item.name for item in items if not (item.last_day or item.delivery))
        raise ConfigError(
            f"Continuous contract: the name {odd!r} says no expiry while others do; leave it out, or give the "
            "last trading day of each with expiry={name: date}."
        )
    order = sorted(range(len(items)), key=keys.__getitem__)
    for one, two in itertools.pairwise(order):
        if keys[one] == keys[two]:
            raise ConfigError(
                f"Continuous contract: {items[one].name!r} and {items[two].name!r} are the same expiry; "
                "give it once."
            )
    return [items[number] for number in order]


def _expiry(name: str, bars: Bars, given: Day | None, spec: ContractSpec | None) -> Expiry:
    if bars.adjusted != "none" or (bars.roll_gap is not None and bars.roll_gap.any()):
        raise DataError(
            f"Continuous contract: the bars of {name!r} are spliced already; give those of single expiries."
        )
    parsed = read_name(name, bars)
    delivery = None if parsed is None else parsed.delivery(*_span(bars))
    last_day = _as_date(name) if given is None else _as_date(given)
    if given is not None and last_day is None:
        raise ConfigError(
            f"Continuous contract: the expiry of {name!r} must be a date such as '2013-12-20', got {given!r}."
        )
    if last_day is None and delivery is not None and spec is not None and spec.expiry:
        last_day = expiry_date(spec.expiry, *delivery)
    return Expiry(name, bars, delivery, last_day)


def read_name(name: str, bars: Bars) -> ContractName | None:
    """Return what an expiry's name says; where it can mean two things, the delivery nearest to the bars."""
    span = _span(bars)
    return min(readings(name), key=lambda reading: reading.distance(*span), default=None)


def _span(bars: Bars) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (year, month) of the first and the last close, in UTC."""
    first, last = bars.ts[[0, -1]].astype("datetime64[ns]").astype("datetime64[M]").tolist()
    return (first.year, first.month), (last.year, last.month)


def _as_date(value: Day) -> datetime.date | None:
    """Return a date, or a text that is one, as a date."""
    if isinstance(value, datetime.date):
        return value.date() if isinstance(value, datetime.datetime) else value
    try:
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def in_months(items: list[Expiry], spec: ContractSpec | None) -> list[Expiry]:
    """Leave out the deliveries that a roll by the calendar does not pass through."""
    if spec is None or not spec.months:
        return items
    kept = [i for i in items if i.delivery is None or MONTH_CODES[i.delivery[1] - 1] in spec.months]
    if not kept:
        raise DataError(
            f"Continuous contract: no expiry is in the months {spec.months} of {spec.symbol}; give others, or a "
            "ContractSpec with other months."
        )
    if left := [item.name for item in items if item not in kept]:
        _log.info("Left out, as they are not in the months %s: %s", spec.months, ", ".join(left))
    return kept


def leaving_days(items: list[Expiry], before: int | None) -> Days:
    """Return the first day on which each expiry is not held any more.

    Parameters
    ----------
    items : list of Expiry
    before : int or None
        Business days before the last trading day (the calendar rule), or None: the day after it.
    """
    if before is None:
        known: Days = np.array([item.last_day or _NEVER for item in items], dtype="datetime64[D]")
        return known + np.timedelta64(1, "D")
    if unknown := [item.name for item in items if item.last_day is None]:
        raise ConfigError(
            f"Continuous contract: roll='calendar' needs the expiry of {unknown[0]!r}; give contract=, or "
            f"expiry={{{unknown[0]!r}: '2013-12-20', ...}}."
        )
    last = np.array([item.last_day for item in items], dtype="datetime64[D]")
    days: Days = np.busday_offset(last, -before, roll="backward")
    return days


def trading_days(stamps: list[Int], timezone: str) -> tuple[Days, list[Int]]:
    """Return the trading days of all expiries together, and the number of its day for each bar.

    A bar belongs to the day, at the exchange, on which its session ends or it closes: a session (no pause
    beyond 30 minutes in all expiries together) that opens in the evening is part of the next day, and a
    weekend is part of the Monday.

    Parameters
    ----------
    stamps : list of int64 (T,)
        Bar closes in ns UTC of each expiry.
    timezone : str
        IANA zone of the exchange.
    """
    union = np.sort(np.concatenate(stamps), kind="stable")  # merges runs that are sorted already
    union = union[np.diff(union, prepend=union[0] - 1) > 0]
    starts = session_breaks(union)
    starts[0] = True
    opening = wall_clock((union - known_intervals(union))[starts], timezone)
    evening = evening_day(opening)[np.cumsum(starts) - 1]
    day = to_monday(np.maximum(wall_clock(union - 1, timezone) // _DAY_NS, evening))
    day = np.maximum.accumulate(day)
    new = np.diff(day, prepend=day[0] - 1) > 0
    number = np.cumsum(new) - 1
    return day[new].astype("datetime64[D]"), [number[np.searchsorted(union, ts)] for ts in stamps]


def open_interest_column(columns: Iterable[str]) -> str | None:
    """Return the name among these of the column of open interest, however files spell it, or None."""
    folded = {name.casefold().replace(" ", "_"): name for name in columns}
    return next((folded[name] for name in _OPEN_INTEREST if name in folded), None)


def activity(items: list[Expiry], day_of: list[Int], days: int, rule: str) -> Float:
    """Return what the rule compares for each expiry and day, (K, D): 0 where an expiry has no bars.

    Volume is summed over the day; of the open interest the last known value of the day counts, and NaN stands
    for a day with bars that has none; the calendar rule compares nothing.
    """
    table = np.zeros((len(items), days))
    for number, (item, day) in enumerate(zip(items, day_of, strict=True)):
        if rule == "volume":
            if item.bars.volume is None:
                raise DataError(
                    f"Continuous contract: roll='volume' needs the volume, which the bars of {item.name!r} "
                    "lack; use roll='calendar'."
                )
            table[number] = np.bincount(day, weights=item.bars.volume, minlength=days)
        elif rule == "open_interest":
            if (name := open_interest_column(item.bars.extra)) is None:
                raise DataError(
                    f"Continuous contract: roll='open_interest' needs the column open_interest, which the bars "
                    f"of {item.name!r} lack; use roll='volume'."
                )
            interest = item.bars.extra[name]
            known = np.isfinite(interest)
            table[number, day] = np.nan
            table[number, day[known]] = interest[known]  # the last bar of a day is written last
    return table


def held_expiries(days: Days, leaving: Days, present: NDArray[np.bool_], active: Float) -> Int:
    """Return the number of the expiry that is held on each day, (D,), never descending.

    Parameters
    ----------
    days : datetime64[D] (D,)
        Trading days.
    leaving : datetime64[D] (K,)
        First day on which an expiry is not held any more.
    present : bool (K, D)
        Whether an expiry has bars on a day.
    active : float64 (K, D)
        What decides; only the days before enter the choice for a day. While it is unknown (NaN) for the expiry
        held, nothing is decided, and no expiry is chosen for an unknown value.

    Raises
    ------
    DataError
        No expiry is left on the first day.
    """
    usable = np.flatnonzero(days[0] < leaving)
    if not usable.size:
        raise DataError(
            f"Continuous contract: by their expiries all contracts are left before {days[0]}, where the data "
            "begin; give later ones or correct expiry=."
        )
    traded = usable[present[usable, 0]]
    held = int(traded[0] if traded.size else usable[0])
    numbers = np.empty(len(days), dtype=np.int64)
    for day, date in enumerate(days):
        before = active[:, day - 1] if day else np.zeros(len(leaving))
        known = np.nan_to_num(before)
        if (later := known[held + 1 :]).size and later.max() > before[held]:
            held += 1 + int(later.argmax())
        while date >= leaving[held] and held + 1 < len(leaving):
            held += 1 + int(known[held + 1 :].argmax())
        numbers[day] = held
    return numbers
