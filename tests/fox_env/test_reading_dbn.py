"""DBN files: what each schema gives, and the one sentence for files that make no bars."""

from __future__ import annotations

import io
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fox_env.errors import DataError
from fox_env.readers import read_bars
from fox_env.reading.content import read_contents
from fox_env.reading.dbn import read_dbn
from fox_env.reading.table import Table

vendor = pytest.importorskip("databento_dbn", reason="reading DBN needs fox-futures[data]")

from dbn_files import ES, MINUTE, NQ, START, bar, book, dbn, fixed, mapping, trade  # noqa: E402

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "dbn"
DAY = 1440 * MINUTE
PRICES = (5200.25, 5201.0, 5200.0, 5200.75)
MAY = ("2024-05-09", "2024-05-10")


def times(table: Table) -> list[int]:
    """Return the times of a table in ns."""
    return table.frame["ts"].dt.timestamp("ns").to_list()


def test_a_bar_is_stamped_at_its_close_though_the_record_carries_its_open() -> None:
    table = read_dbn(
        dbn("ohlcv-1m", [bar(0, PRICES, 7), bar(5, PRICES, 8)], [mapping("ESM4", (*MAY, ES))]), "f"
    )
    assert table.kind == "bars"
    assert times(table) == [START + MINUTE, START + 6 * MINUTE]
    assert table.frame.select("open", "high", "low", "close").row(0) == PRICES
    assert table.frame["volume"].to_list() == [7.0, 8.0]
    assert table.frame["symbol"].to_list() == ["ESM4", "ESM4"]


def test_daily_bars_close_at_the_midnight_after_their_day(tmp_path: Path) -> None:
    first = START % DAY // MINUTE  # minutes since midnight
    days = [bar(day * 1440 - first, PRICES, 7, rtype=vendor.RType.OHLCV_1D) for day in range(3)]
    path = tmp_path / "days.dbn"
    path.write_bytes(dbn("ohlcv-1d", days))
    bars = read_bars(path)
    assert bars.ts.tolist() == [START // DAY * DAY + day * DAY for day in (1, 2, 3)]
    assert bars.repairs == ()


@given(st.integers(-(2**63), 2**63 - 2))
def test_fixed_point_prices_are_the_floats_nearest_to_their_decimals(price: int) -> None:
    record = vendor.OHLCVMsg(vendor.RType.OHLCV_1M, 1, ES, START, price, price, price, price, 1)
    assert read_dbn(dbn("ohlcv-1m", [record]), "f").frame["open"][0] == float(Decimal(price).scaleb(-9))


def test_instruments_have_the_symbol_of_the_day_or_their_number() -> None:
    day = 1440
    records = [bar(0, PRICES, 1), bar(1, PRICES, 1, NQ), bar(day, PRICES, 1), bar(day + 1, PRICES, 1, 99)]
    names = [
        mapping("ESM4", (*MAY, ES)),
        mapping("NQM4", (*MAY, NQ)),
        mapping("GCM4", ("2024-05-10", "2024-05-11", ES)),
    ]
    assert read_dbn(dbn("ohlcv-1m", records, names), "f").frame["symbol"].to_list() == [
        "ESM4",
        "NQM4",
        "GCM4",
        "99",
    ]


def test_a_continuous_symbol_says_where_it_passes_to_another_instrument() -> None:
    spans = (("2024-05-09", "2024-05-10", ES), ("2024-05-10", "2024-05-11", NQ))
    records = [bar(0, PRICES, 1), bar(1440, PRICES, 1, NQ), bar(1441, PRICES, 1, NQ)]
    table = read_dbn(dbn("ohlcv-1m", records, [mapping("ES.c.0", *spans)]), "f")
    assert table.frame["symbol"].to_list() == ["ES.c.0"] * 3
    assert table.notes == (
        "ES.c.0 passes to another instrument in 1 rows, first row 1: the price gaps there are no moves of the market",
    )


def test_a_live_capture_is_read_without_its_control_messages() -> None:
    number = vendor.SType.INSTRUMENT_ID
    records = [
        vendor.SystemMsg(START, "Heartbeat"),
        vendor.SymbolMappingMsg(0, ES, START, vendor.SType.PARENT, "ES.FUT", number, "ESM4", START, START),
        trade(5, 5200.25, 3, "B"),
        vendor.ErrorMsg(START, "slow reader"),
        trade(7, 5200.5, 2, "A"),
        trade(9, 5200.5, 1, "N"),
    ]
    frame = read_dbn(dbn(None, records), "f").frame
    assert frame["symbol"].to_list() == ["ESM4"] * 3
    assert frame.select("price", "size", "side").rows() == [
        (5200.25, 3.0, 1),
        (5200.5, 2.0, -1),
        (5200.5, 1.0, 0),
    ]


def test_times_of_sending_after_live_records_are_passed_over() -> None:
    live = vendor.Metadata(
        dataset="GLBX.MDP3",
        start=START,
        stype_in=None,
        stype_out=vendor.SType.INSTRUMENT_ID,
        schema=None,
        ts_out=True,
    )
    records = [bytes(bar(i, PRICES, 7 + i)) for i in range(2)]
    sent = b"".join(bytes([16]) + record[1:] + (START + 9).to_bytes(8, "little") for record in records)
    frame = read_dbn(live.encode() + sent, "f").frame
    assert frame["close"].to_list() == [5200.75, 5200.75] and frame["volume"].to_list() == [7.0, 8.0]


def test_an_undefined_price_is_no_quote_and_a_snapshot_starts_anew() -> None:
    records = [
        book(1, (99.0, 4), (None, 0), flags=160),
        book(2, (99.0, 4), (99.5, 6)),
        book(3, (99.0, 4), (99.5, 6), (99.5, 2, "B")),
    ]
    table = read_dbn(dbn("mbp-1", records), "f")
    assert table.kind == "quotes"
    assert np.isnan(table.frame["ask"][0]) and table.frame["ask"].to_list()[1:] == [99.5, 99.5]
    assert table.frame["reset"].to_list() == [True, False, False]
    assert np.isnan(table.frame["price"].to_numpy()).tolist() == [True, True, False]
    assert table.frame["size"].to_list() == [0.0, 0.0, 2.0]


def test_depth_is_summed_over_the_levels_of_the_book() -> None:
    levels = [vendor.BidAskPair(fixed(100 - i), fixed(101 + i), 10 + i, 20 + i, 1, 1) for i in range(10)]
    record = vendor.MBP10Msg(
        1, ES, START, fixed(100), 1, vendor.Action.ADD, vendor.Side.BID, 0, START, levels=levels
    )
    row = read_dbn(dbn("mbp-10", [record]), "f").frame.row(0, named=True)
    assert (row["bid"], row["ask"], row["bid_size"], row["ask_size"]) == (100.0, 101.0, 10.0, 20.0)
    assert (row["bid_depth"], row["ask_depth"]) == (145.0, 245.0)


def test_sampled_quotes_are_bars_of_the_mid_and_one_sided_ones_are_counted() -> None:
    def sample(minute: int, bid: float | None) -> bytes:
        price = vendor.UNDEF_PRICE if bid is None else fixed(bid)
        stamp = START + minute * MINUTE
        pair = vendor.BidAskPair(price, fixed(100.5), 5, 6, 1, 1)
        return bytes(
            vendor.BBOMsg(vendor.RType.BBO_1M, 1, ES, stamp - 9, 0, 0, vendor.Side.NONE, stamp, levels=pair)
        )

    table = read_dbn(dbn("bbo-1m", [sample(1, 100.0), sample(2, None), sample(3, 99.5)]), "f")
    assert table.kind == "bars"
    assert times(table) == [START + MINUTE, START + 3 * MINUTE]
    assert table.frame.select("open", "high", "low", "close", "bid", "ask").row(0) == (
        *[100.25] * 4,
        100.0,
        100.5,
    )
    assert table.notes == ("1 rows without both a bid and an ask made no bar, first row 1",)


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], "holds no records (schema trades)"),
        (
            [vendor.StatusMsg(1, ES, START, START)],
            "holds status (1) records, which make no bars; fetch the ohlcv-1m",
        ),
        (
            [trade(1, 5.0, 1), bar(0, PRICES, 1)],
            "several schemas: trades (1), ohlcv-1m (1); write one schema",
        ),
    ],
)
def test_a_file_that_makes_no_bars_says_what_it_holds(records: list[object], words: str) -> None:
    with pytest.raises(DataError, match="f: holds") as caught:
        read_dbn(dbn("trades", records), "f")
    assert words in str(caught.value)


def test_a_file_cut_anywhere_is_refused_or_loses_no_record() -> None:
    data = dbn("ohlcv-1m", [bar(i, PRICES, 7) for i in range(4)], [mapping("ESM4", (*MAY, ES))])
    start = len(data) - 4 * 56
    for size in range(len(data)):
        if size > start and (size - start) % 56 == 0:
            assert read_dbn(data[:size], "f").frame.height == (size - start) // 56
        else:
            with pytest.raises(DataError, match=r"cut short|damaged|no records"):
                read_dbn(data[:size], "f")


def test_damaged_files_give_a_table_or_one_sentence() -> None:
    data = dbn("mbp-1", [book(i, (99.0, 4), (99.5, 6)) for i in range(40)], [mapping("ESM4", (*MAY, ES))])
    rng = np.random.default_rng(0)
    refused = []
    for _ in range(300):
        changed = bytearray(data)
        for place in rng.integers(8, len(data), 3):
            changed[place] ^= int(rng.integers(1, 256))
        try:
            assert read_dbn(bytes(changed), "f").frame.height <= 40
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert all(sentence.startswith("f: ") and sentence.endswith(".") for sentence in refused)
    assert any("damaged after 0 records (Malformed" in sentence for sentence in refused)


def test_a_symbol_that_is_no_text_is_one_sentence() -> None:
    number = vendor.SType.INSTRUMENT_ID
    message = vendor.SymbolMappingMsg(
        0, ES, START, vendor.SType.PARENT, "ES.FUT", number, "ESM4", START, START
    )
    data = dbn(None, [message, trade(5, 5200.25, 3, "B")]).replace(b"ESM4", b"E\xffM4")
    with pytest.raises(DataError, match="f: the DBN data are damaged after 0 records"):
        read_dbn(data, "f")


def test_without_the_decoder_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "databento_dbn", None)
    with pytest.raises(DataError, match=r"pip install 'fox-futures\[data\]'"):
        read_dbn(dbn("ohlcv-1m", [bar(0, PRICES, 7)]), "f")


def test_more_records_than_memory_should_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fox_env.reading.dbn._MAX_RECORDS", 3)
    with pytest.raises(DataError, match="more than 3 records"):
        read_dbn(dbn("trades", [trade(i, 5.0, 1) for i in range(4)]), "f")


NO_BARS = "which make no bars; fetch the ohlcv-1m, trades or mbp-1 schema."
LIVE = (
    "holds records of several schemas: trades (2), mbp-1 or tbbo (2), mbp-10 (2), definition (2), "
    "symbol mapping (20), statistics (9), ohlcv-1s (2), ohlcv-1m (2), mbo (5); write one schema to each file "
    "and read one."
)
NOON = 1_609_160_400_000_000_000  # 2020-12-28 13:00:00 UTC
MIDNIGHT = 1_609_113_600_000_000_000  # 2020-12-28 00:00:00 UTC
SECOND, HOUR = 1_000_000_000, 3_600_000_000_000
SAMPLES = {
    "bbo-1m": ("bars", 4, MIDNIGHT, MIDNIGHT + 3 * MINUTE),
    "bbo-1s": ("bars", 4, MIDNIGHT, MIDNIGHT + 3 * SECOND),
    "cbbo-1s": ("bars", 2, NOON + 6_136_329, NOON + 6_246_513),
    "cmbp-1": ("quotes", 2, NOON + 6_136_329, NOON + 6_246_513),
    "mbo": f"holds mbo (2) records, {NO_BARS}",
    "mbp-1": ("quotes", 2, NOON + 6_136_329, NOON + 6_246_513),
    "mbp-10": ("quotes", 2, NOON + 704_060, NOON + 750_544),
    "ohlcv-1d": "holds no records (schema ohlcv-1d); request a period with trading.",
    "ohlcv-1h": ("bars", 2, NOON + HOUR, NOON + 2 * HOUR),
    "ohlcv-1m": ("bars", 2, NOON + MINUTE, NOON + 2 * MINUTE),
    "ohlcv-1s": ("bars", 2, NOON + SECOND, NOON + 2 * SECOND),
    "status": f"holds status (4) records, {NO_BARS}",
    "tbbo": ("quotes", 2, NOON + 99_150_057, NOON + 108_142_648),
    "trades": ("trades", 2, NOON + 99_150_057, NOON + 108_142_648),
}
FILES = {
    **{
        f"dbn__test_data.{schema}.{version}": result
        for schema, result in SAMPLES.items()
        for version in ("dbn", "v2.dbn.zst", "v3.dbn.zst")
    },
    "dbn__test_data.mbo.v3.dbn": SAMPLES["mbo"],
    **{
        f"databento-python__GLBX.MDP3__test_data.{schema}.dbn.zst": result
        for schema, result in {
            "bbo-1m": SAMPLES["bbo-1m"],
            "bbo-1s": SAMPLES["bbo-1s"],
            "definition": f"holds definition (1) records, {NO_BARS}",
            "mbo": f"holds mbo (4) records, {NO_BARS}",
            "mbp-1": ("quotes", 4, MIDNIGHT + 6_150_193, MIDNIGHT + 76_436_915),
            "mbp-10": ("quotes", 4, MIDNIGHT + 6_150_193, MIDNIGHT + 76_436_915),
            "ohlcv-1d": ("bars", 1, MIDNIGHT + 24 * HOUR, MIDNIGHT + 24 * HOUR),
            "ohlcv-1h": ("bars", 4, MIDNIGHT + HOUR, MIDNIGHT + 4 * HOUR),
            "ohlcv-1m": ("bars", 4, MIDNIGHT + MINUTE, MIDNIGHT + 4 * MINUTE),
            "ohlcv-1s": ("bars", 4, MIDNIGHT + SECOND, MIDNIGHT + 8 * SECOND),
            "statistics": f"holds statistics (4) records, {NO_BARS}",
            "status": f"holds status (4) records, {NO_BARS}",
            "tbbo": ("quotes", 4, MIDNIGHT + 246_821_748, MIDNIGHT + 721_589_695),
            "trades": ("trades", 4, MIDNIGHT + 246_821_748, MIDNIGHT + 721_589_695),
        }.items()
    },
    "databento-python__LIVE__test_data.live.dbn.zst": LIVE,
    "nautilus__definition-glbx-es-fut.dbn.zst": f"holds definition (2) records, {NO_BARS}",
    "nautilus__definition-glbx-es-futspread.dbn.zst": f"holds definition (2) records, {NO_BARS}",
    "nautilus__historical_bars_catalog__futures_definition.dbn.zst": f"holds definition (2) records, {NO_BARS}",
    "nautilus__options_catalog__futures_definition.dbn.zst": f"holds definition (2) records, {NO_BARS}",
    "nautilus__esh4-glbx-mdp3-20231224.mbo.dbn.zst": f"holds mbo (8,725) records, {NO_BARS}",
    "nautilus__futures_bbo-1m_2024-05-09T09-55_2024-05-09T10-05.dbn.zst": (
        "bars", 20, START - 5 * MINUTE, START + 4 * MINUTE,
    ),
    "nautilus__futures_ohlcv-1m_2024-05-09T09-55_2024-05-09T10-05.dbn.zst": (
        "bars", 20, START - 4 * MINUTE, START + 5 * MINUTE,
    ),
    "nautilus__futures_ohlcv-1m_2024-07-01T23-40_2024-07-02T00-10.dbn.zst": (
        "bars", 60, 1_719_877_260_000_000_000, 1_719_879_000_000_000_000,
    ),
    "nautilus__futures_mbp-1_2024-07-01T23-58_2024-07-02T00-02.dbn.zst": (
        "quotes", 2288, 1_719_878_281_218_485_389, 1_719_878_519_824_434_324,
    ),
    "nautilus__futures_trades_2024-07-01T23-58_2024-07-02T00-02.dbn.zst": (
        "trades", 120, 1_719_878_281_218_485_389, 1_719_878_512_813_670_786,
    ),
}  # fmt: skip
"""What every shared file gives: kind, rows, first and last time; or the sentence that refuses it."""

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="no shared market data beside the project")


def load(name: str) -> Table:
    """Read one shared file."""
    content = next(read_contents(DATA / name))
    return read_dbn(content.data, content.source)


@needs_data
def test_every_shared_file_is_in_the_table() -> None:
    assert {path.name for path in DATA.iterdir()} == FILES.keys()


@needs_data
@pytest.mark.parametrize("name", FILES)
def test_every_shared_file_gives_its_rows_or_the_sentence(name: str) -> None:
    expected = FILES[name]
    if isinstance(expected, str):
        with pytest.raises(DataError) as caught:
            load(name)
        assert str(caught.value) == f"{DATA / name}: {expected}"
        return
    table = load(name)
    assert (table.kind, table.frame.height, times(table)[0], times(table)[-1]) == expected
    if table.kind == "bars":
        low, high = pl.col("low"), pl.col("high")
        within = [pl.col(name).is_between(low, high).all() for name in ("open", "close")]
        assert table.frame.select(within).row(0) == (True, True)


@needs_data
@pytest.mark.parametrize(
    "schema", [schema for schema, result in SAMPLES.items() if isinstance(result, tuple)]
)
def test_the_versions_of_one_file_hold_the_same_rows(schema: str) -> None:
    first = load(f"dbn__test_data.{schema}.dbn").frame
    for version in ("v2", "v3"):
        assert load(f"dbn__test_data.{schema}.{version}.dbn.zst").frame.equals(first)


@needs_data
def test_rows_are_those_of_the_vendors_csv() -> None:
    name = "nautilus__futures_ohlcv-1m_2024-07-01T23-40_2024-07-02T00-10.dbn.zst"
    text = io.BytesIO()
    writer = vendor.Transcoder(text, vendor.Encoding.CSV, vendor.Compression.NONE)
    writer.write(next(read_contents(DATA / name)).data)
    writer.finish()
    expected = pl.read_csv(text.getvalue())
    columns = ["open", "high", "low", "close", "volume", "symbol"]
    assert load(name).frame.select(columns).rows() == expected.select(columns).rows()
