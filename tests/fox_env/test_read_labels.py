"""Which end of a bar a time marks, how long a bar is, and which times stand for days."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from market_files import MINUTE, put, utc

from fox_env.errors import DataError
from fox_env.readers import read_bars, read_symbols

EASTERN = {"tz": "America/New_York"}
ROW = ",10,11,9,10.5,100"
CLOSE_NOTE = "the file does not say which end of a bar its times mark: the close was assumed"
DAY_NOTE = "the file does not say which end of a bar its times mark: midnights were taken as the days"


def sessions(
    first: str = "09:30", last: str = "15:59", days: tuple[int, ...] = (2, 3, 4)
) -> list[datetime.datetime]:
    """Return the minutes of some days of January 2024."""
    found: list[datetime.datetime] = []
    for day in days:
        start, end = (np.datetime64(f"2024-01-{day:02}T{time}", "m") for time in (first, last))
        found += np.arange(start, end + 1).tolist()
    return found


SPELLINGS = {
    "timestamp": ("timestamp,open,high,low,close,volume", "%Y-%m-%d %H:%M:%S"),
    "datetime": ("datetime,open,high,low,close,volume", "%Y-%m-%d %H:%M:%S"),
    "DateTime": ("DateTime,Open,High,Low,Close,Volume", "%Y-%m-%d %H:%M:%S"),
    "without seconds": ("timestamp,open,high,low,close,volume", "%Y-%m-%d %H:%M"),
    "date and time": ("date,time,open,high,low,close,volume", "%Y-%m-%d,%H:%M"),
    "offsets": ("timestamp,open,high,low,close,volume", "%Y-%m-%dT%H:%M:%S-05:00"),
    "no header": (None, "%Y-%m-%d %H:%M:%S"),
}


@pytest.mark.parametrize("days", [(2, 3, 4), (2,)], ids=["three sessions", "one session"])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("end", ["open", "close"])
def test_sessions_tell_the_end_of_the_bar_however_the_header_is_spelled(
    tmp_path: Path, spelling: str, end: str, days: tuple[int, ...]
) -> None:
    header, pattern = SPELLINGS[spelling]
    times = sessions(days=days) if end == "open" else sessions("09:31", "16:00", days)
    lines = [*([] if header is None else [header]), *(time.strftime(pattern) + ROW for time in times)]
    bars = read_bars(put(tmp_path, "\n".join(lines) + "\n"), **EASTERN)
    assert [bars.ts[0], bars.ts[-1]] == utc("2024-01-02T14:31", f"2024-01-0{days[-1]}T21:00")
    # The first and the last row of a file may be those of a part that was cut out.
    assert [f"the {end} was assumed" in note for note in bars.repairs] == [True] * (len(days) == 1)


def frame(times: pl.Series, name: str = "timestamp", **further: list[Any]) -> pl.DataFrame:
    flat = dict.fromkeys(("open", "high", "low", "close"), [1.0] * len(times))
    return pl.DataFrame({name: times, **flat, **further})


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_sessions_of_frames_tell_it_too(zone: str | None) -> None:
    times = pl.Series(sessions()).dt.replace_time_zone(zone)
    assert read_bars(frame(times), **EASTERN).ts[0] == utc("2024-01-02T14:31")[0]


@pytest.mark.parametrize(
    "times",
    [
        sessions("00:00", "23:59"),  # a market around the clock, cut by date
        sessions("09:30", "09:40"),
        sessions("09:30", "16:00"),  # both ends taken
        [datetime.datetime(2024, 1, day, hour, 30) for day in (2, 3) for hour in range(9, 16)],
    ],
    ids=["around the clock", "part of a session", "both ends", "hours"],
)
def test_an_end_that_nothing_tells_is_noted(times: list[datetime.datetime]) -> None:
    bars = read_bars(frame(pl.Series(times)), tz="UTC")
    assert bars.ts[0] == utc(times[0].isoformat())[0]
    assert len(bars.repairs) == 1 and bars.repairs[0].startswith(CLOSE_NOTE)
    assert "label='open' to change it" in bars.repairs[0]
    for label in ("open", "close"):
        assert read_bars(frame(pl.Series(times)), tz="UTC", label=label).repairs == ()


@pytest.mark.parametrize("name", ["timestamp", "datetime", "unix", "Date", ""])
@pytest.mark.parametrize("pattern", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y%m%d 0000", "epoch"])
def test_midnights_a_day_apart_are_days_under_any_name(tmp_path: Path, name: str, pattern: str) -> None:
    days = [datetime.datetime(2024, 3, day, tzinfo=datetime.UTC) for day in (7, 8, 11)]
    cells = [f"{day.timestamp():.0f}" if pattern == "epoch" else day.strftime(pattern) for day in days]
    path = put(tmp_path, f"{name},open,high,low,close,volume\n" + "".join(f"{cell}{ROW}\n" for cell in cells))
    bars = read_bars(path, tz="UTC")
    assert bars.ts.tolist() == utc("2024-03-08", "2024-03-09", "2024-03-12")
    assert [note.startswith(DAY_NOTE) for note in bars.repairs] == ([] if name == "Date" else [True])
    assert read_bars(path, tz="UTC", label="close").ts.tolist() == utc(
        "2024-03-07", "2024-03-08", "2024-03-11"
    )


def test_a_frame_of_midnights_and_its_text_give_the_same_days(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    index = pandas.date_range("2024-03-07", periods=5)
    held = pandas.DataFrame(dict.fromkeys(("open", "high", "low", "close"), [1.0] * 5), index=index)
    expected = utc("2024-03-08T05:00", "2024-03-09T05:00", "2024-03-10T05:00", "2024-03-11T04:00",
                   "2024-03-12T04:00")  # fmt: skip
    assert read_bars(held, **EASTERN).ts.tolist() == expected
    assert read_bars(put(tmp_path, held.to_csv()), **EASTERN).ts.tolist() == expected


def test_thin_files_follow_the_files_that_tell(tmp_path: Path) -> None:
    header = "timestamp,open,high,low,close,volume\n"

    def file(name: str, times: list[datetime.datetime]) -> Path:
        return put(tmp_path, header + "".join(f"{time}{ROW}\n" for time in times), name)

    thin = file("thin.csv", sessions("10:02", "10:09", (5,)))
    full = file("full.csv", sessions(days=(2, 3)))
    one = file("one.csv", sessions(days=(4,)))
    bars = read_bars([full, one, thin], **EASTERN)
    assert bars.repairs == ()
    assert [bars.ts[0], bars.ts[-1]] == utc("2024-01-02T14:31", "2024-01-05T15:10")
    bars = read_bars([one, thin], **EASTERN)
    assert bars.ts[-1] == utc("2024-01-05T15:10")[0]
    assert len(bars.repairs) == 1 and "the open was assumed" in bars.repairs[0]


def test_thin_instruments_follow_those_that_tell(tmp_path: Path) -> None:
    rows = [f"{time},ESH4" for time in sessions(days=(2, 3))] + ["2024-01-03 11:07:00,ESM4"]
    text = "timestamp,symbol,open,high,low,close,volume\n" + "".join(f"{row}{ROW}\n" for row in rows)
    read = read_symbols(put(tmp_path, text), **EASTERN)
    assert read["ESM4"].ts.tolist() == utc("2024-01-03T16:08")
    assert read["ESM4"].repairs == ()


def test_days_of_a_zone_close_at_its_midnight_through_clock_changes() -> None:
    pandas = pytest.importorskip("pandas")
    index = pandas.date_range("2024-03-08", periods=4, tz="America/New_York")
    held = pandas.DataFrame(dict.fromkeys(("open", "high", "low", "close"), [1.0] * 4), index=index)
    expected = utc("2024-03-09T05:00", "2024-03-10T05:00", "2024-03-11T04:00", "2024-03-12T04:00")
    assert read_bars(held).ts.tolist() == read_bars(held, tz="Asia/Tokyo").ts.tolist() == expected
    assert read_bars(pl.from_pandas(held.reset_index(names="timestamp"))).ts.tolist() == expected


def test_days_of_local_midnights_with_offsets_are_days(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-{day:02}T00:00:00-05:00{ROW}\n" for day in (2, 3, 4))
    path = put(tmp_path, "timestamp,open,high,low,close,volume\n" + rows)
    assert read_bars(path).ts[0] == utc("2024-01-03T05:00")[0]


@pytest.mark.parametrize("days", [(5, 8), (5,), (5, 8, 9)])
@pytest.mark.parametrize("stored", [False, True])
def test_few_days_close_on_the_next_midnight(tmp_path: Path, days: tuple[int, ...], stored: bool) -> None:
    cells = [datetime.datetime(2024, 1, day) for day in days]
    text = "Date,open,high,low,close,volume\n" + "".join(f"{cell:%Y-%m-%d}{ROW}\n" for cell in cells)
    source: Any = frame(pl.Series(cells), "Date") if stored else put(tmp_path, text)
    assert read_bars(source, tz="UTC").ts.tolist() == utc(*(f"2024-01-{day + 1:02}" for day in days))


def test_one_date_of_several_instruments_closes_on_the_next_midnight(tmp_path: Path) -> None:
    text = "ts_code,trade_date,open,high,low,close,vol\n" + "".join(
        f"{name},20240109{ROW}\n" for name in ("RB2405", "RB2410")
    )
    read = read_symbols(put(tmp_path, text), tz="UTC")
    assert [bars.ts.tolist() for bars in read.values()] == [utc("2024-01-10")] * 2


def test_weeks_keep_their_length(tmp_path: Path) -> None:
    text = "Date,open,high,low,close,volume\n" + "".join(f"2024-01-{day:02}{ROW}\n" for day in (1, 8, 15))
    assert read_bars(put(tmp_path, text), tz="UTC").ts.tolist() == utc(
        "2024-01-08", "2024-01-15", "2024-01-22"
    )


@pytest.mark.parametrize(
    ("numbers", "first"),
    [
        ([202401020930, 202401020931], "2024-01-02T09:30"),
        ([20240102093000, 20240102093100], "2024-01-02T09:30"),
    ],
)
def test_whole_numbers_that_spell_a_time_are_read_as_text_is(numbers: list[int], first: str) -> None:
    assert read_bars(frame(pl.Series(numbers)), tz="UTC").ts.tolist() == [
        utc(first)[0],
        utc(first)[0] + MINUTE,
    ]


def test_two_rows_from_the_newest_to_the_oldest_are_put_in_order(tmp_path: Path) -> None:
    text = "timestamp,open,high,low,close\n2024-01-02T09:31Z,2,2,2,2\n2024-01-02T09:30Z,1,1,1,1\n"
    assert read_bars(put(tmp_path, text)).close.tolist() == [1.0, 2.0]


def test_a_date_beside_a_span_since_midnight_is_a_time() -> None:
    days = pl.Series([datetime.datetime(2024, 1, 2)] * 2)
    spans = [datetime.timedelta(hours=9, minutes=minute) for minute in (30, 31)]
    assert read_bars(frame(days, "date", time=spans), tz="UTC").ts[0] == utc("2024-01-02T09:30")[0]
    with pytest.raises(DataError, match=r"row 1, column time: .* is not a time of day"):
        read_bars(frame(days, "date", time=[spans[0], datetime.timedelta(hours=24)]), tz="UTC")


def test_times_beyond_int64_are_refused() -> None:
    times = pl.Series([2**63 + 5, 2**63 + 6], dtype=pl.UInt64)
    with pytest.raises(DataError, match=r"row 0, column timestamp: 9\d+ is outside the years 1678 to 2261"):
        read_bars(frame(times), tz="UTC")


FINAM = "<TICKER>,<PER>,<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>\n"


@pytest.mark.parametrize(("per", "minutes"), [("1", 1), ("60", 60), ("D", 1440)])
def test_a_recorded_length_closes_even_a_single_bar(tmp_path: Path, per: str, minutes: int) -> None:
    path = put(tmp_path, FINAM + f"SPFB,{per},20240102,000000{ROW}\n")
    assert read_bars(path, tz="UTC").ts.tolist() == [utc("2024-01-02")[0] + minutes * MINUTE]


def test_thin_bars_take_the_recorded_length(tmp_path: Path) -> None:
    rows = "".join(f"SPFB,1,20240102,10{minute:02}00{ROW}\n" for minute in (0, 15, 30, 45))
    assert read_bars(put(tmp_path, FINAM + rows), tz="UTC").ts[0] == utc("2024-01-02T10:01")[0]
    text = "open_time,interval,open,high,low,close,volume\n" + "".join(
        f"2024-01-02T10:{minute:02}Z,1m{ROW}\n" for minute in (0, 15, 30)
    )
    assert read_bars(put(tmp_path, text)).ts[0] == utc("2024-01-02T10:01")[0]


def test_bars_of_several_lengths_in_a_file_are_refused(tmp_path: Path) -> None:
    rows = f"SPFB,1,20240102,100000{ROW}\nSPFB,5,20240102,100500{ROW}\n"
    with pytest.raises(DataError, match=r"row 1 \(line 3\), column <PER>: '5' is another length of a bar"):
        read_bars(put(tmp_path, FINAM + rows), tz="UTC")


@pytest.mark.parametrize(
    ("minutes", "length"),
    [
        ((0, 2, 4, 5, 7, 9, 11), 1),  # thin minutes
        ((0, 5, 10, 15, 25, 30, 40), 5),
        ((30, 60, 120, 180, 1470, 1500, 1560, 1620), 60),  # hours whose first one is half as long
    ],
)
def test_the_length_is_one_whose_grid_the_bars_keep(
    tmp_path: Path, minutes: tuple[int, ...], length: int
) -> None:
    start = datetime.datetime(2024, 1, 2, 9)
    cells = [start + datetime.timedelta(minutes=minute) for minute in minutes]
    text = "open_time,open,high,low,close,volume\n" + "".join(f"{cell}Z{ROW}\n" for cell in cells)
    assert read_bars(put(tmp_path, text)).ts[0] == utc(cells[0].isoformat())[0] + length * MINUTE


def test_bars_of_bids_and_asks_of_fxcm_are_bars_of_the_mid_price_by_their_open(tmp_path: Path) -> None:
    header = "DateTime,BidOpen,BidHigh,BidLow,BidClose,AskOpen,AskHigh,AskLow,AskClose\n"
    rows = "".join(f"01/22/2024 09:{minute}:00,10,12,9,11,10.5,12.5,9.5,11.5\n" for minute in (30, 31))
    bars = read_bars(put(tmp_path, header + rows))
    assert bars.ts.tolist() == utc("2024-01-22T09:31", "2024-01-22T09:32")
    assert (bars.open[0], bars.high[0], bars.low[0], bars.close[0]) == (10.25, 12.25, 9.25, 11.25)
