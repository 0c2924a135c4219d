"""Expiries of futures: what a contract's name says about its delivery month, and when a contract expires."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

MONTH_CODES = "FGHJKMNQUVXZ"
"""Letters of the delivery months January to December, as all exchanges outside Asia use them."""

_CODED = re.compile(rf"(?P<root>[^\s-]+?)\s?(?P<code>[{MONTH_CODES}])(?P<year>\d{{1,2}}|19[7-9]\d|20\d{{2}})")
_DASHED = re.compile(r"(?P<root>\S+) (?P<month>\d{2})-(?P<year>\d{2})")
_NUMBERED = re.compile(r"(?P<root>[A-Za-z]+)(?P<year>\d{1,2})(?P<month>\d{2})")
_WHOLE = re.compile(r"(?:(?P<root>[A-Za-z0-9]+)[_ ])?(?P<year>(?:19|20)\d{2})-?(?P<month>\d{2})")
_CENTURY_TURN = 70
"""Two-digit years from here on belong to the 20th century."""

_BEFORE_FIRST, _BEFORE_LAST = 1, 12
"""Months by which the delivery can lie before the first and the last bar: a bar of the last day of a month
closes in the next, and some data go on after the expiry."""


class ContractName(NamedTuple):
    """What a contract's name says: the root symbol, the delivery month, and the year as far as it is given.

    ``year`` is complete, or the last digit of the year where ``one_digit`` is set. ``numbered`` marks names
    such as ``rb2110``, with the year and the month in digits behind the root.
    """

    root: str
    month: int
    year: int
    one_digit: bool
    numbered: bool

    def delivery(self, first: tuple[int, int], last: tuple[int, int]) -> tuple[int, int]:
        """Return (year, month) of delivery.

        A one-digit year is the first that is at most one month before `first` and twelve before `last`, the
        (year, month) of the first and the last bar.
        """
        if not self.one_digit:
            return self.year, self.month
        earliest = max(_months(first) - _BEFORE_FIRST, _months(last) - _BEFORE_LAST)
        year = earliest // 12
        year += (self.year - year) % 10
        return (year if _months((year, self.month)) >= earliest else year + 10), self.month

    def distance(self, first: tuple[int, int], last: tuple[int, int]) -> int:
        """Return how many months the delivery is from the last bar."""
        return abs(_months(self.delivery(first, last)) - _months(last))


def _months(date: tuple[int, int]) -> int:
    year, month = date
    return 12 * year + month - 1


def readings(name: str) -> list[ContractName]:
    """Return what the name of one expiry can mean; nothing where it says no delivery month.

    Only four digits behind letters can mean two things: ``AU2012`` is September 2012 of ``A`` or December 2020
    of ``AU``. The known contracts or the times of the bars tell which.

    Parameters
    ----------
    name : str
        Root, month code and year (``ESZ3``, ``ESZ13``, ``ES Z2013``), root and ``MM-YY`` (``ES 12-13``), root
        and year and month in digits (``rb2110``, ``TA109``), or ``YYYYMM`` (``ES_201312``, or alone: root ``""``).
    """
    name = name.strip()
    found = []
    if coded := _CODED.fullmatch(name):
        found.append(_name(coded["root"], MONTH_CODES.index(coded["code"]) + 1, coded["year"]))
    if numbered := _NUMBERED.fullmatch(name):
        found.append(_name(numbered["root"], int(numbered["month"]), numbered["year"], numbered=True))
    if other := _DASHED.fullmatch(name) or _WHOLE.fullmatch(name):
        found.append(_name(other["root"] or "", int(other["month"]), other["year"]))
    return [each for each in found if each is not None]


def _name(root: str, month: int, year: str, numbered: bool = False) -> ContractName | None:
    if not 1 <= month <= 12:
        return None
    number = int(year)
    if len(year) == 2:
        number += 1900 if number >= _CENTURY_TURN else 2000
    return ContractName(root, month, number, one_digit=len(year) == 1, numbered=numbered)


def _offset(day: np.datetime64, days: int, weekmask: str = "1111100") -> np.datetime64:
    """Return the day `days` after the first day of the mask that is not before `day`."""
    result: np.datetime64 = np.busday_offset(day, days, roll="forward", weekmask=weekmask)
    return result


def _first(month: np.datetime64) -> np.datetime64:
    """Return the first day of a month."""
    day: np.datetime64 = month.astype("datetime64[D]")
    return day


def _weekday(number: int, weekday: str, days: int = 0) -> Callable[[np.datetime64], np.datetime64]:
    """Return the rule "`days` after the `number`-th such weekday of the month"."""
    return lambda month: _offset(_first(month), number - 1, weekday) + np.timedelta64(days, "D")


def _from_end(number: int, months: int = 0) -> Callable[[np.datetime64], np.datetime64]:
    """Return the rule "the `number`-th last business day of the month `months` after the delivery month"."""
    return lambda month: _offset(_first(month + np.timedelta64(months + 1, "M")), -number)


def _day(number: int, days: int) -> Callable[[np.datetime64], np.datetime64]:
    """Return the rule "`days` business days after the `number`-th of the month"."""
    return lambda month: _offset(_first(month) + np.timedelta64(number - 1, "D"), days)


def _crude(month: np.datetime64) -> np.datetime64:
    """Three business days before the 25th of the month before delivery, or the business day before that."""
    last = _first(month - np.timedelta64(1, "M")) + np.timedelta64(24, "D")
    result: np.datetime64 = np.busday_offset(last, -3, roll="backward")
    return result


EXPIRY_RULES: Mapping[str, Callable[[np.datetime64], np.datetime64]] = {
    "third_friday": _weekday(3, "Fri"),
    "second_friday": _weekday(2, "Fri"),
    "monday_before_third_wednesday": _weekday(3, "Wed", -2),
    "tuesday_before_third_wednesday": _weekday(3, "Wed", -1),
    "last_business_day": _from_end(1),
    "third_last_business_day": _from_end(3),
    "eighth_last_business_day": _from_end(8),
    "last_business_day_before_month": _from_end(1, -1),
    "third_last_business_day_before_month": _from_end(3, -1),
    "three_business_days_before_25th_before_month": _crude,
    "business_day_before_15th": _day(15, -1),
    "15th_or_next_business_day": _day(15, 0),
    "tenth_business_day": lambda month: _offset(_first(month), 9),
    "two_business_days_before_10th": _day(10, -2),
}
"""Last trading day by name of the rule, from the delivery month (datetime64[M])."""


def expiry_date(rule: str, year: int, month: int) -> datetime.date:
    """Return the last trading day of a contract by one of the :data:`EXPIRY_RULES`.

    Business days are Monday to Friday: exchange holidays are not known here, so the date can be a few days
    from the exchange's own, which a calendar roll some sessions earlier bears.
    """
    day = EXPIRY_RULES[rule](np.datetime64(f"{year:04d}-{month:02d}", "M"))
    return datetime.date.fromisoformat(str(day))
