"""Sessions against what the exchanges published: holidays, early closes, breaks, nights and clock changes."""

from __future__ import annotations

import subprocess
import sys
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from fox_env.calendars import ALIASES, TEMPLATES, Sessions, find_sessions
from fox_env.contracts import ContractSpec, known_contracts
from fox_env.errors import ConfigError

pytest.importorskip("pandas_market_calendars")

MINUTE = 60_000_000_000
CHICAGO, NEW_YORK, SHANGHAI, BERLIN = "America/Chicago", "America/New_York", "Asia/Shanghai", "Europe/Berlin"


def spec(session: str) -> ContractSpec:
    return ContractSpec("T", tick_size=1.0, multiplier=1.0, session=session)


def minutes(start: str, stop: str) -> np.ndarray:
    """Return every minute after `start` up to `stop` (UTC) in ns."""
    first, last = (int(np.datetime64(text, "ns").astype(np.int64)) for text in (start, stop))
    return np.arange(first + MINUTE, last + 1, MINUTE)


def sessions_of(name: str, start: str, stop: str) -> Sessions:
    found = find_sessions(spec(name), minutes(start, stop))
    assert found is not None
    return found


def pieces(name: str, day: str, zone: str) -> list[str]:
    """Return the pieces of one trading day on the local clock."""
    found = sessions_of(name, f"{day}T00:00", f"{day}T23:00")
    own = found.day == np.datetime64(day)

    def local(ns: int) -> str:
        return (
            np.datetime64(int(ns), "s")
            .item()
            .replace(tzinfo=ZoneInfo("UTC"))
            .astimezone(ZoneInfo(zone))
            .strftime("%d %H:%M")
        )

    return [
        f"{local(start // 10**9)} - {local(stop // 10**9)}"
        for start, stop in zip(found.opens[own], found.closes[own], strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "day", "zone", "expected"),
    [
        ("CME_EQUITY", "2024-01-10", CHICAGO, ["09 17:00 - 10 16:00"]),
        ("CME_EQUITY", "2024-07-10", CHICAGO, ["09 17:00 - 10 16:00"]),  # summer time
        ("CME_EQUITY", "2023-11-23", CHICAGO, ["22 17:00 - 23 12:00"]),  # Thanksgiving
        ("CME_EQUITY", "2023-11-24", CHICAGO, ["23 17:00 - 24 12:15"]),
        ("CME_EQUITY", "2022-04-15", CHICAGO, []),  # Good Friday
        ("CME_EQUITY", "2023-04-07", CHICAGO, ["06 17:00 - 07 08:15"]),  # the same, on a day of labour figures
        ("CME_EQUITY", "2024-03-29", CHICAGO, []),
        ("CME_FX", "2025-04-18", CHICAGO, []),
        ("CME_EQUITY", "2014-06-10", CHICAGO, ["09 17:00 - 10 15:15", "10 15:30 - 10 16:15"]),
        ("CME_EQUITY", "2021-06-25", CHICAGO, ["24 17:00 - 25 15:15", "25 15:30 - 25 16:00"]),
        ("CME_EQUITY", "2021-06-28", CHICAGO, ["27 17:00 - 28 16:00"]),  # the halt is gone
        ("CME_FX", "2024-01-15", CHICAGO, ["14 17:00 - 15 16:00"]),  # no early close on the King holiday
        ("CME_ENERGY", "2023-11-23", CHICAGO, ["22 17:00 - 23 13:30"]),
        ("CME_METALS", "2024-01-10", CHICAGO, ["09 17:00 - 10 16:00"]),
        ("CME_RATES", "2023-11-24", CHICAGO, ["23 17:00 - 24 12:15"]),
        ("CBOT_GRAINS", "2023-11-21", CHICAGO, ["20 19:00 - 21 07:45", "21 08:30 - 21 13:20"]),
        ("CME_LIVESTOCK", "2023-11-21", CHICAGO, ["21 08:30 - 21 13:05"]),
        ("NYSE", "2024-01-10", NEW_YORK, ["10 04:00 - 10 20:00"]),  # the minutes reach into the night
        ("NYSE", "2023-11-24", NEW_YORK, ["24 04:00 - 24 17:00"]),
        ("EUREX", "2024-01-10", BERLIN, ["10 01:00 - 10 22:00"]),
        ("EUREX", "2024-05-01", BERLIN, []),
        ("EUREX", "2024-12-24", BERLIN, ["24 01:00 - 24 12:30"]),
        ("EUREX", "2024-12-30", BERLIN, ["30 01:00 - 30 22:00"]),
        ("CFFEX", "2024-01-10", SHANGHAI, ["10 09:15 - 10 11:30", "10 13:00 - 10 15:15"]),
        (
            "SHFE", "2019-12-31", SHANGHAI,
            ["30 21:00 - 31 02:30", "31 09:00 - 31 10:15", "31 10:30 - 31 11:30", "31 13:30 - 31 15:00"],
        ),
        (  # the evening before the new year's holiday had no night session
            "SHFE", "2020-01-02", SHANGHAI,
            ["02 09:00 - 02 10:15", "02 10:30 - 02 11:30", "02 13:30 - 02 15:00"],
        ),
        (  # Monday's night session is on Friday evening
            "DCE", "2021-03-08", SHANGHAI,
            ["05 21:00 - 06 02:30", "08 09:00 - 08 10:15", "08 10:30 - 08 11:30", "08 13:30 - 08 15:00"],
        ),
        ("SHFE", "2020-01-01", SHANGHAI, []),
        ("FX", "2024-01-08", NEW_YORK, ["07 17:00 - 08 17:00"]),
        ("FX", "2024-01-07", NEW_YORK, []),  # nothing on Saturday evening
        ("24/7", "2024-01-06", "UTC", ["06 00:00 - 07 00:00"]),
    ],
)  # fmt: skip
def test_trading_days_on_the_local_clock(name: str, day: str, zone: str, expected: list[str]) -> None:
    assert pieces(name, day, zone) == expected


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_is_in_order_and_without_overlap(name: str) -> None:
    found = sessions_of(name, "2019-01-02T00:00", "2020-12-31T00:00")
    assert (found.opens < found.closes).all()
    assert (found.closes[:-1] <= found.opens[1:]).all()
    assert found.session[0] == 0 and set(np.diff(found.session)) <= {0, 1}
    assert len(np.unique(found.day)) > 2 * 240


def test_every_shipped_contract_has_known_sessions() -> None:
    unknown = {s.session for s in known_contracts().values()} - set(TEMPLATES) - set(ALIASES)
    assert not unknown
    assert set(ALIASES.values()) <= set(TEMPLATES)


def test_other_names_are_calendars_of_the_library_or_unknown() -> None:
    ts = minutes("2024-01-10T00:00", "2024-01-10T03:00")
    hong_kong = find_sessions(spec("HKEX"), ts)
    assert hong_kong is not None and hong_kong.covers(ts, MINUTE).sum() == 90
    assert find_sessions(spec("nowhere"), ts) is None


def test_regular_hours_hold_for_stocks_unless_bars_lie_outside() -> None:
    regular = minutes("2024-01-10T14:30", "2024-01-10T21:00")
    found = find_sessions(spec("NYSE"), regular)
    assert found is not None and found.covers(regular, MINUTE).all()
    assert (found.closes - found.opens).max() == 390 * MINUTE


def test_a_bar_is_inside_when_any_of_it_is() -> None:
    found = sessions_of("CME_EQUITY", "2024-01-10T00:00", "2024-01-10T21:00")
    close = int(np.datetime64("2024-01-10T22:00", "ns").astype(np.int64))
    ts = np.array([close, close + MINUTE, close + 30 * MINUTE])
    assert found.covers(ts, MINUTE).tolist() == [True, False, False]
    assert found.covers(ts, 60 * MINUTE).tolist() == [True, True, True]


def test_the_end_of_the_night_is_learned_month_by_month() -> None:
    """A product whose nights end at 01:00 in one month and at 23:00 in the next."""
    found = sessions_of("SHFE", "2021-03-01T00:00", "2021-04-30T00:00")
    spring = found.day < np.datetime64("2021-04-01")
    kept = []
    for start, stop, night, early in zip(found.opens, found.closes, found.night, spring, strict=True):
        end = start + (240 if early else 120) * MINUTE if night else stop
        kept.append(np.arange(start + MINUTE, end + 1, MINUTE))
    span = (found.day >= np.datetime64("2021-03-01")) & (found.day < np.datetime64("2021-05-01"))
    ts = np.concatenate([bars for bars, inside in zip(kept, span, strict=True) if inside])
    in_use = found.in_use(ts, MINUTE)
    chosen = (
        in_use.night
        & (in_use.day >= np.datetime64("2021-03-01"))
        & (in_use.day < np.datetime64("2021-05-01"))
    )
    lengths = (in_use.closes - in_use.opens)[chosen] // MINUTE
    assert set(lengths[in_use.day[chosen] < np.datetime64("2021-04-01")]) == {240}
    assert set(lengths[in_use.day[chosen] >= np.datetime64("2021-04-01")]) == {120}
    day = ~in_use.night & (in_use.day == np.datetime64("2021-03-10"))
    assert ((in_use.closes - in_use.opens)[day] // MINUTE).tolist() == [75, 60, 90]


def test_a_month_without_nights_has_none() -> None:
    """Night trading was suspended from February to May 2020."""
    found = sessions_of("SHFE", "2020-02-03T00:00", "2020-04-30T00:00")
    span = (
        (found.day >= np.datetime64("2020-02-03")) & (found.day < np.datetime64("2020-05-01")) & ~found.night
    )
    pairs = zip(found.opens[span], found.closes[span], strict=True)
    ts = np.concatenate([np.arange(start + MINUTE, stop + 1, MINUTE) for start, stop in pairs])
    in_use = found.in_use(ts, MINUTE)
    assert not in_use.night[
        (in_use.day >= np.datetime64("2020-02-01")) & (in_use.day < np.datetime64("2020-05-01"))
    ].any()


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas_market_calendars", None)
    with pytest.raises(ConfigError, match=r"pandas_market_calendars; pip install 'fox-futures\[data\]'"):
        find_sessions(spec("somewhere else"), minutes("2024-01-10T00:00", "2024-01-10T03:00"))


def test_the_library_is_not_imported_with_the_package() -> None:
    code = "import sys, fox_env, fox_env.calendars; print('pandas_market_calendars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
