"""Expiries: names of contracts, and last trading days that the exchanges published."""

from __future__ import annotations

import datetime

import pytest

from fox_env.contracts import contract
from fox_env.expiries import expiry_date, readings


@pytest.mark.parametrize(
    ("name", "root", "delivery"),
    [
        ("ESZ13", "ES", (2013, 12)),
        ("ESZ2013", "ES", (2013, 12)),
        ("ESZ98", "ES", (1998, 12)),
        ("rb2110", "rb", (2021, 10)),
        ("201312", "", (2013, 12)),
        ("2013-12", "", (2013, 12)),
        ("ES_201312", "ES", (2013, 12)),
        ("ES 12-13", "ES", (2013, 12)),
        ("IF2406", "IF", (2024, 6)),  # F is no month here: no contract is delivered in the year 2406
        ("CU2406", "CU", (2024, 6)),
        ("AG1912", "AG", (2019, 12)),
    ],
)
def test_a_name_says_its_delivery_month(name: str, root: str, delivery: tuple[int, int]) -> None:
    (reading,) = readings(name)
    assert (reading.root, reading.delivery((2000, 1), (2000, 1))) == (root, delivery)


@pytest.mark.parametrize(
    ("name", "first", "last", "delivery"),
    [
        ("ESZ3", (2013, 9), (2013, 10), (2013, 12)),
        ("ESZ3", (2013, 9), (2013, 12), (2013, 12)),
        ("ESZ3", (2013, 9), (2014, 1), (2013, 12)),  # the bar of New Year's Eve closes in January
        ("ESZ3", (2014, 1), (2014, 1), (2013, 12)),  # and is the only one
        ("ESZ3", (2014, 2), (2014, 3), (2023, 12)),
        ("ESZ3", (2013, 12), (2023, 11), (2023, 12)),  # listed ten years before
        ("ESH0", (2019, 12), (2019, 12), (2020, 3)),
        ("TA109", (2020, 12), (2021, 8), (2021, 9)),
    ],
)
def test_the_bars_tell_the_decade_of_a_year_of_one_digit(
    name: str, first: tuple[int, int], last: tuple[int, int], delivery: tuple[int, int]
) -> None:
    (reading,) = readings(name)
    assert reading.delivery(first, last) == delivery


def test_four_digits_can_be_a_year_or_a_year_and_a_month() -> None:
    found = [(each.root, each.delivery((2000, 1), (2000, 1))) for each in readings("AU2012")]
    assert found == [("A", (2012, 9)), ("AU", (2020, 12))]


@pytest.mark.parametrize(
    "name", ["ES", "6E", "front", "rb2113", "201313", "ES 13-24", "20131220", "ESH4-ESM4", "118012", ""]
)
def test_other_names_say_none(name: str) -> None:
    assert readings(name) == []


@pytest.mark.parametrize(
    ("symbol", "year", "month", "expected"),
    [
        ("ES", 2013, 12, "2013-12-20"),
        ("6E", 2024, 3, "2024-03-18"),
        ("6C", 2024, 3, "2024-03-19"),
        ("CL", 2020, 5, "2020-04-21"),  # the contract that settled at -37.63 the day before
        ("NG", 2024, 7, "2024-06-26"),
        ("RB", 2024, 7, "2024-06-28"),
        ("GC", 2024, 6, "2024-06-26"),
        ("ZN", 2024, 9, "2024-09-19"),
        ("ZF", 2024, 9, "2024-09-30"),
        ("ZC", 2024, 7, "2024-07-12"),
        ("FGBL", 2024, 6, "2024-06-06"),
        ("FDAX", 2024, 6, "2024-06-21"),
        ("cu", 2024, 6, "2024-06-17"),
        ("m", 2024, 9, "2024-09-13"),
        ("IF", 2024, 6, "2024-06-21"),
        ("T", 2024, 6, "2024-06-14"),
    ],
)
def test_last_trading_days_are_those_of_the_exchanges(
    symbol: str, year: int, month: int, expected: str
) -> None:
    assert expiry_date(contract(symbol).expiry, year, month) == datetime.date.fromisoformat(expected)
