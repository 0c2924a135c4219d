"""Ticks of last price, bid and ask as platforms write them: which rows are trades, of which size and side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from market_files import put

from fox_env.bars import Bars
from fox_env.errors import DataError
from fox_env.readers import read_bars

METATRADER = "<DATE>\t<TIME>\t<BID>\t<ASK>\t<LAST>\t<VOLUME>\t<FLAGS>\n"


def minute(folder: Path, text: str) -> Bars:
    return read_bars(put(folder, text), tz="UTC", bars="1min")


def traded(bars: Bars) -> float:
    assert bars.volume is not None
    return float(bars.volume.sum())


def test_an_empty_quote_of_metatrader_is_unchanged(tmp_path: Path) -> None:
    bars = minute(
        tmp_path,
        METATRADER + "2024.01.02\t09:30:00.100\t1.1000\t1.1002\t\t\t6\n"
        "2024.01.02\t09:30:00.200\t1.1002\t\t\t\t2\n2024.01.02\t09:30:01.200\t\t1.1008\t\t\t4\n",
    )
    np.testing.assert_allclose([bars.open[0], bars.low[0], bars.close[0]], [1.1001, 1.1001, 1.1005])
    assert bars.volume is None
    assert bars.extra["bid"].tolist() == [1.1002] and bars.extra["ask"].tolist() == [1.1008]


def test_trades_of_metatrader_have_price_volume_and_side(tmp_path: Path) -> None:
    bars = minute(
        tmp_path,
        METATRADER + "2024.01.02\t09:30:00.100\t100\t101\t101\t5\t56\n"
        "2024.01.02\t09:30:00.200\t100\t101\t100\t7\t88\n2024.01.02\t09:30:00.300\t99\t\t\t\t2\n"
        "2024.01.02\t09:30:01.200\t105\t106\t105\t\t56\n",
    )
    assert (bars.open[0], bars.high[0], bars.low[0], bars.close[0]) == (101.0, 105.0, 100.0, 105.0)
    assert traded(bars) == 19.0  # the volume of the last trade is that of the one before
    assert (bars.extra["buy_volume"][0], bars.extra["sell_volume"][0]) == (12.0, 7.0)
    assert bars.extra["bid"].tolist() == [105.0] and bars.extra["trades"].tolist() == [3.0]


def test_a_last_price_with_a_volume_beside_quotes_is_that_of_trades(tmp_path: Path) -> None:
    text = "timestamp,last,bid,ask,volume\n2024-01-02 09:30:00.1,101,100,101,5\n2024-01-02 09:30:00.9,100,100,101,6\n"
    bars = minute(tmp_path, text)
    assert (bars.open[0], bars.close[0], traded(bars)) == (101.0, 100.0, 11.0)
    assert bars.extra["ask"].tolist() == [101.0]


VOLUMES = (1000, 1010, 1010, 1015, 1016, 1017, 1018, 1019, 1020, 1021)
RUNNING = "datetime,symbol,last_price,volume,open_interest\n" + "".join(
    f"2024-01-08 21:00:0{i},rb2405,{3900 + i},{volume},9\n" for i, volume in enumerate(VOLUMES)
)


def test_a_volume_that_counts_up_gives_its_differences(tmp_path: Path) -> None:
    bars = minute(tmp_path, RUNNING)
    assert traded(bars) == 21.0
    assert any("column volume counts up through the day" in sentence for sentence in bars.repairs)


def test_a_volume_that_counts_up_starts_again_with_the_day(tmp_path: Path) -> None:
    bars = minute(
        tmp_path, RUNNING + "2024-01-09 21:00:00,rb2405,3950,30,9\n2024-01-09 21:00:01,rb2405,3950,34,9\n"
    )
    assert traded(bars) == 21.0 + 34.0


def test_a_volume_that_may_count_up_is_refused_until_the_caller_says_what_it_is(tmp_path: Path) -> None:
    path = put(tmp_path, RUNNING.replace("open_interest", "note"))
    with pytest.raises(
        DataError, match=r"column volume seems to count the volume since the start of the day"
    ):
        read_bars(path, tz="UTC", bars="1min")
    told = read_bars(path, tz="UTC", bars="1min", columns={"size": "volume"})
    assert traded(told) == sum(VOLUMES)


def test_a_volume_beside_any_price_is_refused_where_it_never_falls_in_many_rows(tmp_path: Path) -> None:
    rows = [f"2024-01-08 21:00:{i:02},3900,{1000 + 2 * i}\n" for i in range(20)]
    with pytest.raises(DataError, match="seems to count the volume since the start of the day"):
        minute(tmp_path, "datetime,price,volume\n" + "".join(rows))
    assert traded(minute(tmp_path, "datetime,price,volume\n" + "".join(rows[:3]))) == 3006.0


def test_a_volume_that_counts_up_in_rows_out_of_order_is_refused(tmp_path: Path) -> None:
    rows = RUNNING.splitlines(keepends=True)
    path = put(tmp_path, "".join([*rows[:4], rows[5], rows[4], *rows[6:]]))
    with pytest.raises(DataError, match="put the rows in time order and store its differences"):
        read_bars(path, tz="UTC", bars="1min", repair="sort")


def test_sizes_that_rise_and_fall_are_sizes(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-08 21:00:0{i},3900,{size},9\n" for i, size in enumerate((5, 3, 8, 2, 2, 7)))
    assert traded(minute(tmp_path, "datetime,last_price,volume,open_interest\n" + rows)) == 27.0


@pytest.mark.parametrize("words", [("True", "False"), ("true", "false"), ("1", "0")])
def test_the_aggressor_is_the_side_that_is_not_the_maker(tmp_path: Path, words: tuple[str, str]) -> None:
    text = (
        "id,price,qty,time,is_buyer_maker\n"
        f"1,42283.5,0.25,1704067200000,{words[0]}\n2,42283.5,0.5,1704067201000,{words[1]}\n"
    )
    bars = minute(tmp_path, text)
    flow = [bars.extra[name][0] for name in ("buy_volume", "sell_volume", "side_inferred")]
    assert flow == [0.5, 0.25, 0.0]


def test_the_maker_of_a_frame_is_a_flag() -> None:
    frame = pl.DataFrame(
        {"time": [1704067200000], "price": [1.5], "qty": [2.0], "is_buyer_maker": [True]},
    )
    assert read_bars(frame, bars="1min").extra["sell_volume"].tolist() == [2.0]
