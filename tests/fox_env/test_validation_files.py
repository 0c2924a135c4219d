"""The data checks on real files: what their provenance says is found, and nothing false."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fox_env.bars import Bars
from fox_env.readers import read_bars
from fox_env.validation import validate_bars

pytest.importorskip("pandas_market_calendars")

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
CHINA: dict[str, Any] = {"tz": "Asia/Shanghai"}


def load(name: str, **hints: Any) -> Bars:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"market data file {name} is not at hand")
    return read_bars(path, **hints)


@pytest.mark.parametrize(
    ("name", "hints", "contract", "counts"),
    [
        # One missing minute; the early closes of 2023-11-23 and 2023-11-24 are no gaps.
        ("FRD_NQ_1min_20231119-20231204.csv.gz", {"tz": "America/New_York", "label": "open"}, "NQ", {"gap": 1}),
        ("6EH4_1min_202401.csv.gz", {}, "6E", {"jump": 1, "gap": 353}),
        # 42 bars on 2018-11-29, and the evening of 2019-12-25 began at 22:30; ten rolls, and one counting rule.
        (
            "SHFE_rb_HOT_5min.csv.gz", CHINA, "rb",
            {"roll": 10, "open_interest_break": 1, "gap": 2, "flat": 11},
        ),
        (
            "SHFE_cu_HOT_5min.csv.gz", CHINA, "cu",
            {"roll": 13, "open_interest_break": 1, "gap": 2, "flat": 4},
        ),
        (
            "DCE_m_HOT_5min.csv.gz", CHINA, "m",
            {"roll": 10, "open_interest_break": 1, "gap": 2, "missing_session": 1, "flat": 4},
        ),
        # Two bars on the holiday of 2016-06-09.
        (
            "CZCE_TA_HOT_5min.csv.gz", CHINA, "TA",
            {"outside_session": 2, "roll": 10, "open_interest_break": 1, "gap": 1, "missing_session": 1, "flat": 11},
        ),
        # Halts of the circuit breaker on 2016-01-04 and 2016-01-07; prices went through 32-bit numbers.
        ("CFFEX_IF_HOT_5min.csv.gz", CHINA, "IF", {"jump": 1, "roll": 48, "gap": 4, "float32": 50_927}),
        ("BT_2006_min5.txt.gz", {"tz": "Europe/Berlin"}, "FESX", {"cash_index": 2142}),
        ("BT_FESX_1min_2006_badheader.txt.gz", {"tz": "Europe/Berlin"}, "FESX", {"gap": 726}),
        # Hours before and after the regular ones; one bar begins when they end.
        (
            "NT_SPY_1min_201103_semicolon.csv.gz", {"tz": "UTC"}, "EQUITY",
            {"outside_session": 1, "jump": 1, "gap": 1401},
        ),
        # Among them the closures of September 2001 and June 2004; no shortened session is missed.
        (
            "CL_daily_backadjusted_noheader_yyyymmdd.csv.gz", {"tz": "America/New_York"}, "CL",
            {"missing_session": 10},
        ),
    ],
)  # fmt: skip
def test_what_is_known_of_a_file_is_found(
    name: str, hints: dict[str, Any], contract: str, counts: dict[str, int]
) -> None:
    report = validate_bars(load(name, **hints), contract)
    assert report.ok
    assert report.counts == counts
    assert report.sessions.startswith("the sessions ")


def test_rolls_and_the_counting_rule_are_on_their_days() -> None:
    bars = load("SHFE_rb_HOT_5min.csv.gz", **CHINA)
    report = validate_bars(bars, "rb")

    def days(kind: str) -> list[str]:
        rows = [problem.row for problem in report.problems if problem.kind == kind]
        return [str(bars.ts[row].astype("datetime64[ns]"))[:10] for row in rows]

    assert days("open_interest_break") == ["2020-01-02"]
    assert days("roll")[:3] == ["2016-03-11", "2016-08-17", "2018-03-27"]
    assert days("gap") == ["2018-11-29", "2019-12-25"]


def test_bars_stamped_at_their_open_are_suspected_where_a_session_opens() -> None:
    bars = load("nautilus_fxcm_gbpusd-m1-bid-2012.csv.gz", tz="UTC")
    report = validate_bars(bars, "FX")
    assert report.ok and report.counts["outside_session"] == 2
    assert report.first_of("outside_session").message == (
        "2012-02-19T22:00:00 UTC is when a session opens: is the bar stamped at its open (label='open')?"
    )
    opening = load("nautilus_fxcm_gbpusd-m1-bid-2012.csv.gz", tz="UTC", label="open")
    assert "outside_session" not in validate_bars(opening, "FX").counts


def test_a_wrong_zone_is_recognised_by_the_sessions() -> None:
    bars = load("FRD_NQ_1min_20231119-20231204.csv.gz", tz="Asia/Tokyo", label="open")
    report = validate_bars(bars, "NQ")
    assert report.counts["session_mismatch"] == 1
    assert report.sessions == "the spacing of the bars, as the sessions CME_EQUITY do not fit"


def test_without_a_contract_pauses_up_to_half_an_hour_are_gaps() -> None:
    report = validate_bars(load("SHFE_rb_HOT_5min.csv.gz", **CHINA))
    assert report.counts["gap"] == 1405
    assert report.sessions == "the spacing of the bars, as no contract is named"
