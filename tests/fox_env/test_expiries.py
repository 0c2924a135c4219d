"""Expiries: names of contracts, and last trading days that the exchanges published."""

from __future__ import annotations

import datetime

import pytest

from fox_env.contracts import contract
from fox_env.expiries import expiry_date, parse_name


@pytest.mark.parametrize(
    ("name", "after", "delivery"),
    [
        ("ESZ3", (2013, 10), (2013, 12)),
        ("ESZ3", (2013, 12), (2013, 12)),
        ("ESZ3", (2014, 1), (2023, 12)),
        ("ESH0", (2019, 12), (2020, 3)),
        ("ESZ13", (2020, 1), (2013, 12)),
        ("ESZ98", (2020, 1), (1998, 12)),
        ("TA109", (2020, 12), (2021, 9)),
        ("rb2110", (2021, 1), (2021, 10)),
        ("201312", (2000, 1), (2013, 12)),
        ("2013-12", (2000, 1), (2013, 12)),
        ("ES_201312", (2000, 1), (2013, 12)),
        ("ES 12-13", (2000, 1), (2013, 12)),
    ],
)
def test_a_name_says_its_delivery_month(name: str, after: tuple[int, int], delivery: tuple[int, int]) -> None:
    parsed = parse_name(name)
    assert parsed is not None and parsed.delivery(after) == delivery


@pytest.mark.parametrize(
    "name", ["ES", "6E", "front", "rb2113", "201313", "ES 13-24", "20131220", "ESH4-ESM4", "118012", ""]
)
def test_other_names_say_none(name: str) -> None:
    assert parse_name(name) is None


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
