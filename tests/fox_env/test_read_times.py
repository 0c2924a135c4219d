"""Times of data files: formats, zones, clock changes, and the end of the bar that they mark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from market_files import MINUTE, T0, put, table, utc

from fox_env.errors import DataError
from fox_env.readers import read_bars


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-09T10:00:00Z", "2024-05-09T10:01:00Z"],
        ["2024-05-09 10:00:00+00:00", "2024-05-09 10:01:00+00:00"],
        ["2024-05-09T06:00:00-04:00", "2024-05-09T06:01:00-0400"],
        ["2024-05-09 15:30+05:30", "2024-05-09 10:01+00"],
        ["1715248800", "1715248860"],
        ["1715248800.0", "1715248860.0"],
        ["1715248800000", "1715248860000"],
        ["1715248800000000", "1715248860000000"],
        ["1715248800000000000", "1715248860000000000"],
    ],
)
def test_absolute_times_need_no_zone(tmp_path: Path, times: list[str]) -> None:
    bars = read_bars(put(tmp_path, table(times)))
    assert bars.ts.tolist() == [T0, T0 + MINUTE]
    assert bars.close.tolist() == [10.5, 11.5]
    assert bars.volume is not None and bars.volume.tolist() == [100.0, 0.0]


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-09 06:00:00", "2024-05-09 06:01:00"],
        ["2024-05-09T06:00", "2024-05-09T06:01"],
        ["2024/5/9 6:00", "2024/5/9 6:01"],
        ["2024.05.09 06:00:00.000000000", "2024.05.09 06:01:00.000"],
        ["20240509 060000", "20240509 060100"],
        ["20240509060000", "20240509060100"],
        ["202405090600", "202405090601"],
        [" 2024-05-09 06:00:00 ", '"2024-05-09 06:01:00"'],
    ],
)
def test_wall_clock_times_take_the_zone(tmp_path: Path, times: list[str]) -> None:
    path = put(tmp_path, table(times))
    assert read_bars(path, tz="America/New_York").ts.tolist() == [T0, T0 + MINUTE]
    with pytest.raises(DataError, match=r"column timestamp have no zone; pass tz="):
        read_bars(path)


def test_fractions_of_a_second_are_kept_to_the_nanosecond(tmp_path: Path) -> None:
    path = put(tmp_path, table(["2024-05-09T10:00:00.5Z", "2024-05-09T10:00:00.500000001Z"]))
    assert read_bars(path).ts.tolist() == [T0 + 500_000_000, T0 + 500_000_001]


@pytest.mark.parametrize("name", ["timestamp_utc", "Datetime_UTC", "Time UTC"])
def test_a_name_that_says_utc_needs_no_zone(tmp_path: Path, name: str) -> None:
    path = put(
        tmp_path, table(["2024-05-09 10:00:00", "2024-05-09 10:01:00"], f"{name},open,high,low,close,volume")
    )
    assert read_bars(path).ts.tolist() == [T0, T0 + MINUTE]
    assert read_bars(path, tz="Asia/Tokyo").ts.tolist() == [T0, T0 + MINUTE]


def test_times_of_the_open_are_moved_to_the_close(tmp_path: Path) -> None:
    path = put(
        tmp_path, table(["2024-05-09T10:00Z", "2024-05-09T10:01Z", "2024-05-09T10:03Z", "2024-05-09T10:04Z"])
    )
    assert (read_bars(path, label="open").ts - read_bars(path).ts).tolist() == [MINUTE] * 4
    assert read_bars(path, label="close").ts.tolist() == read_bars(path).ts.tolist()


@pytest.mark.parametrize("name", ["ts_event", "open_time"])
def test_columns_known_to_hold_the_open_are_moved_without_asking(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, table([str(T0), str(T0 + MINUTE)], f"{name},open,high,low,close,volume"))
    assert read_bars(path).ts.tolist() == [T0 + MINUTE, T0 + 2 * MINUTE]
    assert read_bars(path, label="close").ts.tolist() == [T0, T0 + MINUTE]


def test_bare_dates_mark_the_day_so_the_bar_closes_at_its_end(tmp_path: Path) -> None:
    path = put(tmp_path, table(["2024-05-08", "20240509", "2024-05-10"], "Date,Open,High,Low,Close,Volume"))
    assert read_bars(path, tz="UTC").ts.tolist() == utc("2024-05-09", "2024-05-10", "2024-05-11")
    assert read_bars(path, tz="UTC", label="close").ts.tolist() == utc(
        "2024-05-08", "2024-05-09", "2024-05-10"
    )


def test_one_row_marked_by_its_open_has_no_interval(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="need at least two rows"):
        read_bars(put(tmp_path, table(["1715248800"])), label="open")


@pytest.mark.parametrize("host", ["UTC", "Asia/Tokyo"])
def test_the_zone_of_the_host_does_not_matter(tmp_path: Path, host: str) -> None:
    path = put(tmp_path, table(["2024-03-08 09:30", "2024-03-11 09:30"]))
    code = "import sys, fox_env.readers as r; print(*r.read_bars(sys.argv[1], tz='America/New_York').ts)"
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], env={"TZ": host, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [int(word) for word in run.stdout.split()] == utc("2024-03-08T14:30", "2024-03-11T13:30")


def test_a_repeated_hour_is_resolved_by_row_order(tmp_path: Path) -> None:
    hours = ["2024-11-03 00:30", "2024-11-03 01:30", "2024-11-03 01:30", "2024-11-03 02:30"]
    expected = utc("2024-11-03T05:30", "2024-11-03T06:30", "2024-11-03T07:30", "2024-11-03T08:30")
    assert read_bars(put(tmp_path, table(hours)), tz="America/Chicago").ts.tolist() == expected


@pytest.mark.parametrize(
    ("zone", "switch"), [("America/Chicago", "2024-11-03T07:00"), ("Europe/Berlin", "2023-10-29T01:00")]
)
def test_minutes_through_a_clock_change_stay_a_minute_apart(tmp_path: Path, zone: str, switch: str) -> None:
    expected = np.int64(utc(switch)[0]) + np.arange(-150, 150) * MINUTE
    wall = pl.Series(expected).cast(pl.Datetime("ns", "UTC")).dt.convert_time_zone(zone)
    path = put(tmp_path, table(wall.dt.strftime("%Y-%m-%d %H:%M").to_list()))
    assert read_bars(path, tz=zone).ts.tolist() == expected.tolist()


def test_an_hour_that_the_rows_do_not_settle_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, table(["2024-11-03 00:30", "2024-11-03 01:30", "2024-11-03 02:30"]))
    with pytest.raises(
        DataError, match=r"row 1 \(line 3\), column timestamp: 2024-11-03 01:30:00 occurs twice"
    ):
        read_bars(path, tz="America/Chicago")


def test_a_time_that_the_clocks_skip_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, table(["2024-03-10 01:30", "2024-03-10 02:30"]))
    with pytest.raises(DataError, match=r"row 1 \(line 3\).* does not exist in America/Chicago"):
        read_bars(path, tz="America/Chicago")


def frame(time: pl.Series) -> pl.DataFrame:
    flat = [1.0] * len(time)
    return pl.DataFrame({"Timestamp": time, "open": flat, "high": flat, "low": flat, "close": flat})


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_every_parquet_time_unit_gives_the_same_times(tmp_path: Path, unit: Any) -> None:
    naive = pl.Series([T0, T0 + MINUTE]).cast(pl.Datetime("ns")).dt.cast_time_unit(unit)
    frame(naive.dt.replace_time_zone("America/New_York")).write_parquet(tmp_path / "zoned")
    assert read_bars(tmp_path / "zoned").ts.tolist() == [T0 + 240 * MINUTE, T0 + 241 * MINUTE]
    frame(naive).write_parquet(tmp_path / "naive")
    assert read_bars(tmp_path / "naive", tz="UTC").ts.tolist() == [T0, T0 + MINUTE]
    with pytest.raises(DataError, match="have no zone"):
        read_bars(tmp_path / "naive")
    assert read_bars(tmp_path / "naive", tz="UTC").interval_ns == MINUTE


def test_parquet_times_as_integers_text_and_dates(tmp_path: Path) -> None:
    for values, expected in (
        (pl.Series([T0 // 1_000, (T0 + MINUTE) // 1_000]), [T0, T0 + MINUTE]),
        (pl.Series(["2024-05-09T10:00Z", "2024-05-09T10:01Z"]), [T0, T0 + MINUTE]),
        (pl.Series(["2024-05-09", "2024-05-10"]).str.to_date(), utc("2024-05-10", "2024-05-11")),
    ):
        frame(values).write_parquet(tmp_path / "bars")
        assert read_bars(tmp_path / "bars", tz="UTC").ts.tolist() == expected


@pytest.mark.parametrize(
    ("times", "options"),
    [
        (["05/09/2024 10:00", "05/13/2024 10:00"], {}),
        (["09/05/2024 10:00", "13/05/2024 10:00"], {}),
        (["05/09/2024 10:00", "05/10/2024 10:00"], {"date_order": "mdy"}),
        (["09.05.2024 10:00:00", "10.05.2024 10:00:00"], {"date_order": "dmy"}),
        (["5/9/2024 10:00:00 AM", "5/13/2024 10:00:00 am"], {}),
    ],
)
def test_dates_that_end_in_the_year_follow_from_the_column_or_the_caller(
    tmp_path: Path, times: list[str], options: dict[str, str]
) -> None:
    assert read_bars(put(tmp_path, table(times)), tz="UTC", **options).ts[0] == T0


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            ["05/13/2024 10:00", "13/05/2024 10:00"],
            r"row 1 \(line 3\).*in another order than the rows before",
        ),
        (
            ["05/09/2024 10:00", "05/10/2024 10:00"],
            r"row 0 \(line 2\).*pass date_order='dmy' or date_order='mdy'",
        ),
        (["5/13/2024 13:00 PM", "5/14/2024 1:00 PM"], r"row 0 \(line 2\).*is not a time"),
        (["99999999999", "99999999999"], r"row 0 \(line 2\).*is outside the years 1678 to 2261"),
        (["2300-01-01 00:00", "2300-01-02 00:00"], r"row 0 \(line 2\).*is not a time"),
        (["2024-05-09 10:00:60", "2024-05-09 10:02:00"], r"row 0 \(line 2\).*is not a time"),
    ],
)
def test_times_that_are_not_certain_are_refused(tmp_path: Path, times: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_bars(put(tmp_path, table(times)), tz="UTC")


def test_noon_and_midnight_of_twelve_hour_clocks(tmp_path: Path) -> None:
    path = put(tmp_path, table(["5/13/2024 12:30 AM", "5/13/2024 12:30 PM"]))
    assert read_bars(path, tz="UTC").ts.tolist() == utc("2024-05-13T00:30", "2024-05-13T12:30")


@pytest.mark.parametrize(
    ("cells", "first"), [(["93000", "93100"], "09:30"), (["0", "100"], "00:00"), (["930", "931"], "09:30")]
)
def test_times_of_day_get_back_the_zeros_they_lost(tmp_path: Path, cells: list[str], first: str) -> None:
    text = "Date,Time,Open,High,Low,Close\n" + "".join(f"20240102,{cell},1,2,0.5,1.5\n" for cell in cells)
    bars = read_bars(put(tmp_path, text), tz="UTC")
    assert bars.ts[0] == utc(f"2024-01-02T{first}")[0]


def test_bare_dates_close_at_midnight_of_their_zone_through_clock_changes(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        table(["2024-03-08", "2024-03-09", "2024-03-10", "2024-03-11"], "Date,open,high,low,close,v"),
    )
    assert read_bars(path, tz="America/New_York").ts.tolist() == utc(
        "2024-03-09T05:00", "2024-03-10T05:00", "2024-03-11T04:00", "2024-03-12T04:00"
    )


def test_a_midnight_that_the_clocks_skip_begins_the_day_an_hour_later(tmp_path: Path) -> None:
    path = put(tmp_path, table(["2018-11-02", "2018-11-03", "2018-11-04"], "Date,open,high,low,close,v"))
    assert read_bars(path, tz="America/Sao_Paulo").ts.tolist() == utc(
        "2018-11-03T03:00", "2018-11-04T03:00", "2018-11-05T02:00"
    )


def test_offsets_that_change_within_a_file_are_followed(tmp_path: Path) -> None:
    times = ["2024-11-03T01:30:00-04:00", "2024-11-03T01:30:00-05:00"]
    assert read_bars(put(tmp_path, table(times))).ts.tolist() == utc("2024-11-03T05:30", "2024-11-03T06:30")


def test_the_length_of_a_bar_is_the_most_frequent_spacing(tmp_path: Path) -> None:
    minutes = (0, 1, 2, 5, 9, 10, 20, 22, 24)
    path = put(tmp_path, table([f"2024-05-09T10:{minute:02}Z" for minute in minutes]))
    assert (read_bars(path, label="open").ts - read_bars(path).ts).tolist() == [MINUTE] * len(minutes)


def test_the_open_is_told_from_sessions_that_begin_on_the_hour(tmp_path: Path) -> None:
    def session(first: str, count: int) -> list[str]:
        start = np.datetime64(first, "m")
        return [str(start + i).replace("T", " ") + ":00" for i in range(count)]

    opens = session("2024-01-02 18:00", 60) + session("2024-01-03 18:00", 60)
    closes = session("2024-01-02 18:01", 60) + session("2024-01-03 18:01", 60)
    one = read_bars(put(tmp_path, table(opens)), tz="America/New_York")
    other = read_bars(put(tmp_path, table(closes)), tz="America/New_York")
    assert one.ts.tolist() == other.ts.tolist()
    assert one.ts[0] == utc("2024-01-02T23:01")[0]


def test_half_hours_do_not_tell_the_open_so_the_time_stays_the_close(tmp_path: Path) -> None:
    times = [
        f"2024-01-0{day} {hour:02}:{minute}:00"
        for day in (2, 3)
        for hour in (10, 11)
        for minute in ("00", "30")
    ]
    path = put(tmp_path, table(times))
    assert read_bars(path, tz="UTC").ts[0] == utc("2024-01-02T10:00")[0]


def test_days_that_begin_at_an_hour_close_at_that_hour_through_clock_changes(tmp_path: Path) -> None:
    rows = "".join(f"2024.03.{day:02}\t17:00:00\t1\t2\t0.5\t1.5\t7\n" for day in (8, 9, 10, 11))
    path = put(tmp_path, "<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\n" + rows)
    assert read_bars(path, tz="America/New_York").ts.tolist() == utc(
        "2024-03-09T22:00", "2024-03-10T21:00", "2024-03-11T21:00", "2024-03-12T21:00"
    )


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_datetimes_that_nanoseconds_cannot_hold_are_refused(unit: Any) -> None:
    times = (
        pl.Series([T0 // 1_000_000, 253_370_764_800_000])
        .cast(pl.Datetime("ms", "UTC"))
        .dt.cast_time_unit(unit)
    )
    with pytest.raises(DataError, match=r"row 1, column Timestamp: .* is outside the years 1678 to 2261"):
        read_bars(frame(times))
    with pytest.raises(DataError, match=r"row 1, column Timestamp: .* is outside the years 1678 to 2261"):
        read_bars(frame(times.dt.date()), tz="UTC")
