"""Decimal and thousands marks, the volume of a table, and prices in other units."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from market_files import put

from fox_env.bars import PRICES
from fox_env.errors import DataError
from fox_env.readers import read_bars


def semicolons(header: str, *rows: str) -> str:
    """Write rows under a header, one minute each from 2024-01-02 14:30 on."""
    return header + "\n" + "".join(f"2024-01-02 14:{30 + i};{row}\n" for i, row in enumerate(rows))


ENGLISH = "timestamp_utc;open;high;low;close;volume"
GERMAN = "Datum;Eröffnung;Hoch;Tief;Schluss;Volumen"


def volumes(folder: Path, text: str) -> list[float]:
    volume = read_bars(put(folder, text), tz="UTC").volume
    assert volume is not None
    return volume.tolist()


# --- decimal marks -----------------------------------------------------------------------------------


def test_a_point_in_prices_makes_the_comma_of_volumes_part_thousands(tmp_path: Path) -> None:
    text = semicolons(
        ENGLISH + ";oi",
        "4780.25;4781.00;4779.50;4780.00;1,000;2,500",
        "4780.25;4781.00;4779.50;4780.00;12,500;2,600",
    )
    assert volumes(tmp_path, text) == [1000.0, 12_500.0]
    assert read_bars(put(tmp_path, text)).extra["oi"].tolist() == [2500.0, 2600.0]


@pytest.mark.parametrize("header", [ENGLISH, GERMAN])
def test_a_comma_in_prices_makes_the_point_of_volumes_part_thousands(tmp_path: Path, header: str) -> None:
    text = semicolons(
        header, "4.780,25;4.781,00;4.779,50;4.780,00;1.234", "4.780,25;4.781,00;4.779,50;4.780,00;15.500"
    )
    assert volumes(tmp_path, text) == [1234.0, 15_500.0]


def test_german_names_make_points_doubtful_where_nothing_else_tells(tmp_path: Path) -> None:
    text = semicolons(GERMAN, "15.500;15.510;15.490;15.505;1.234", "15.500;15.510;15.490;15.505;1.235")
    with pytest.raises(DataError, match=r"the point in '15.500' may be a decimal point or part thousands"):
        read_bars(put(tmp_path, text), tz="UTC")
    bars = read_bars(put(tmp_path, text), tz="UTC", price_scale=1000)
    assert bars.close.tolist() == [15_505.0, 15_505.0]
    assert bars.volume is not None and bars.volume.tolist() == [1234.0, 1235.0]


def test_a_comma_in_volumes_beside_whole_prices_is_refused(tmp_path: Path) -> None:
    text = semicolons(ENGLISH, "10;11;9;10;1,000", "10;11;9;10;1,200")
    with pytest.raises(DataError, match=r"column volume: '1,000' is not a number"):
        read_bars(put(tmp_path, text))


def test_commas_in_prices_and_volumes_alike_are_refused(tmp_path: Path) -> None:
    text = semicolons(ENGLISH, "4,780;4,781;4,779;4,780;1,000", "4,780;4,781;4,779;4,780;1,000")
    with pytest.raises(DataError, match=r"column open: '4,780' is not a number"):
        read_bars(put(tmp_path, text))
    bars = read_bars(put(tmp_path, text.replace(";1,000", ";900")))
    assert bars.close.tolist() == [4.78, 4.78]


def test_prices_with_both_marks_are_read(tmp_path: Path) -> None:
    text = semicolons(ENGLISH, "4,780.25;4,781;4,779.5;4,780.0;1,000", "999.25;999.5;999.0;999.25;10")
    with pytest.raises(DataError, match=r"column high: '4,781' is not a number"):
        read_bars(put(tmp_path, text))
    assert read_bars(put(tmp_path, text.replace("4,781;", "4,781.0;"))).high.tolist() == [4781.0, 999.5]


# --- units -------------------------------------------------------------------------------------------


def test_the_scale_of_prices_is_that_of_roll_gaps(tmp_path: Path) -> None:
    rows = "1715248800,10000,10000,10000,10000,0\n1715248860,10500,10500,10500,10500,500\n"
    text = "time,open,high,low,close,roll_gap\n" + rows
    bars = read_bars(put(tmp_path, text), price_scale=1e-4)
    assert bars.close.tolist() == [1.0, 1.05]
    assert bars.roll_gap is not None and bars.roll_gap.tolist() == [0.0, 0.05]


def test_a_volume_without_values_is_unknown_in_frames_as_in_text() -> None:
    frame = pl.DataFrame({"time": [1715248800, 1715248860], **{name: [1.0, 1.0] for name in PRICES}})
    assert read_bars(frame.with_columns(volume=pl.lit(None))).volume is None
    assert np.isnan(read_bars(frame.with_columns(flow=pl.lit(None))).extra["flow"]).all()


# --- volume ------------------------------------------------------------------------------------------

BARS = (
    "timestamp_utc,open,high,low,close,{}\n2024-01-02 14:30,1,2,0.5,1.5,{}\n2024-01-02 14:31,1,2,0.5,1.5,{}\n"
)


@pytest.mark.parametrize(
    ("names", "cells", "expected", "note"),
    [
        ("Up,Down", "300,212", 512.0, "volume is the sum of columns Up and Down"),
        ("Volume (contracts)", "512", 512.0, "volume is column Volume (contracts)"),
        ("Total Volume,Open Int", "512,9", 512.0, "volume is column Total Volume"),
        ("Volume BTC,Volume USD", "512,9000", 512.0, "volume is column Volume BTC"),
        ("Volume_(BTC),Volume_(Currency)", "512,9000", 512.0, "volume is column Volume_(BTC)"),
        ("Up,Volume,Down", "300,512,200", 512.0, None),
        ("Up,Down", "0,1", None, None),
        ("MA,Up,Down", "2,300,212", None, None),
        ("vol_ratio", "0.75", None, "no volume was taken from column vol_ratio"),
        ("volume", "-1", None, "column volume is -1 in every row, which stands for no volume"),
        ("cum_vol,volatility", "512,3", None, "no volume was taken from column cum_vol; pass columns={'volume'"),
        ("vol_a,note_vol", "512,x", None, "no volume was taken from column vol_a"),
    ],
)  # fmt: skip
def test_no_volume_is_lost_in_silence(
    tmp_path: Path, names: str, cells: str, expected: float | None, note: str | None
) -> None:
    bars = read_bars(put(tmp_path, BARS.format(names, cells, cells)))
    assert (None if bars.volume is None else bars.volume[0]) == expected
    about = [sentence for sentence in bars.repairs if "vol" in sentence]
    assert about == [] if note is None else any(note in sentence for sentence in about)


def test_a_volume_of_minus_one_in_one_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 0 \(line 2\), column volume: volume is -1.0"):
        read_bars(put(tmp_path, BARS.format("volume", -1, 5)))


# --- Databento's fixed-point prices ------------------------------------------------------------------


def databento(*prices: str, rtype: bool = True) -> str:
    """Write flat bars of one minute in Databento's columns."""
    header = f"ts_event,{'rtype,' if rtype else ''}open,high,low,close,volume\n"
    return header + "".join(
        f"{1704205800000000000 + 60_000_000_000 * i},{'33,' if rtype else ''}{price},{price},{price},{price},5\n"
        for i, price in enumerate(prices)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (databento("0", "0", "0", "250000000", "0"), [0.0, 0.0, 0.0, 0.25, 0.0]),
        (databento("65000", "65500", "66000"), [6.5e-5, 6.55e-5, 6.6e-5]),
        (databento("65000", "65500", "66000", rtype=False), [65000.0, 65500.0, 66000.0]),
        (databento("4780250000000", "4780500000000", rtype=False), [4780.25, 4780.5]),
        (databento("1000000.000000000", "1000500.000000000"), [1e6, 1_000_500.0]),
        (databento("40000.000000000", "40005.000000000"), [40000.0, 40005.0]),
    ],
)
def test_fixed_point_is_told_by_whole_numbers(tmp_path: Path, text: str, expected: list[float]) -> None:
    assert read_bars(put(tmp_path, text)).close.tolist() == expected


def test_frames_of_integers_hold_fixed_point_and_those_of_floats_do_not() -> None:
    times = {"ts_event": [1704205800000000000, 1704205860000000000], "rtype": [33, 33]}
    whole = pl.DataFrame({**times, **{name: [65000, 65500] for name in PRICES}})
    assert read_bars(whole).close.tolist() == [6.5e-5, 6.55e-5]
    floats = whole.with_columns(pl.col(PRICES).cast(pl.Float64))
    assert read_bars(floats).close.tolist() == [65000.0, 65500.0]
