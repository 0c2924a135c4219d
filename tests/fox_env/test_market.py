"""Market: ticks, physics columns, warm-up, splits as views, annualisation, refusals."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.bars import Bars
from fox_env.contracts import ContractSpec, contract
from fox_env.errors import ConfigError, DataError
from fox_env.market import Market, bars_per_year
from fox_env.market_columns import to_ticks
from fox_env.prepared import write_prepared
from fox_env.readers import read_bars, write_bars

SPEC = ContractSpec("T", tick_size=0.25, multiplier=50.0)
DAY = 86_400_000_000_000
MINUTE = 60_000_000_000
MONDAY = 1_704_672_000_000_000_000
"""2024-01-08 00:00 UTC."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def make_bars(length: int = 1000, session: int = 100, **change: Any) -> Bars:
    rng = np.random.default_rng(5)
    close = 5000.0 + 0.25 * np.cumsum(rng.integers(-4, 5, length))
    row = np.arange(length)
    fields = {
        "ts": 1_704_205_800_000_000_000 + (row // session) * DAY + (row % session) * MINUTE,
        "open": close,
        "high": close + 0.5,
        "low": close - 0.25,
        "close": close,
        "volume": rng.integers(1, 500, length),
    }
    return Bars.from_arrays(**(fields | change))


def test_seven_bars_are_a_market() -> None:
    market = Market.from_bars(make_bars(7), SPEC, warmup=0)
    assert len(market) == 7 and market.first_ready == 0
    assert market.features.shape == (7, 86) and np.isfinite(market.features).all()


@pytest.mark.parametrize(
    ("length", "warmup", "ready"), [(1000, None, 240), (1000, 17, 17), (100, None, 98), (1, None, 0)]
)
def test_first_ready(length: int, warmup: int | None, ready: int) -> None:
    assert Market.from_bars(make_bars(length), SPEC, warmup).first_ready == ready


def test_warning_when_the_data_are_shorter_than_the_warm_up(caplog: pytest.LogCaptureFixture) -> None:
    Market.from_bars(make_bars(241), SPEC)
    assert "fewer than the warm-up" in caplog.text


def test_prices_near_the_grid_are_whole_ticks_and_others_stay() -> None:
    price = np.array([100.25, 100.2501, 0.07, 100.30, -37.63])
    assert to_ticks(price, 0.25)[:2].tolist() == [401.0, 401.0]
    assert to_ticks(price, 0.01)[[2, 4]].tolist() == [7.0, -3763.0]
    assert to_ticks(price, 0.25)[3] == 100.30 / 0.25


def test_physics_columns() -> None:
    market = Market.from_bars(make_bars(), SPEC)
    columns, bars = market.columns, market.bars
    np.testing.assert_array_equal(columns.close * 0.25, bars.close)
    np.testing.assert_array_equal(columns.volume, bars.volume)
    assert columns.mean_volume[500] == pytest.approx(bars.volume[481:501].mean())  # type: ignore[index]
    assert (columns.atr >= 1.0).all()
    gap = (columns.flags & _layout.BarFlag.GAP) != 0
    end = (columns.flags & _layout.BarFlag.SESSION_END) != 0
    np.testing.assert_array_equal(np.flatnonzero(gap), np.arange(100, 1000, 100))
    np.testing.assert_array_equal(np.flatnonzero(end), np.arange(99, 999, 100))
    assert columns.session_progress[[200, 299]].tolist() == [0.0, 1.0]
    for name, column in vars(columns).items():
        assert len(column) == 1000 and not column.flags.writeable and column.flags.c_contiguous, name


def test_columns_of_a_shorter_series_are_a_prefix() -> None:
    whole, cut = (Market.from_bars(bars, SPEC).columns for bars in (make_bars(), make_bars()[:777]))
    for name in ("open", "high", "low", "close", "volume", "atr", "mean_volume", "session_progress"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name)[:777])


def test_unknown_volume_is_zero_and_said() -> None:
    market = Market.from_bars(make_bars(volume=None), SPEC)
    assert not market.has_volume and not market.columns.volume.any()
    assert Market.from_bars(make_bars(), SPEC).has_volume


def test_cache_changes_nothing() -> None:
    built, stored, read = (Market.from_bars(make_bars(), SPEC, cache=cache) for cache in (False, True, True))
    for market in (stored, read):
        np.testing.assert_array_equal(market.features.view(np.uint32), built.features.view(np.uint32))


def test_split_shares_the_arrays() -> None:
    market = Market.from_bars(make_bars(), SPEC)
    parts = market.split(0.6, 0.2, 0.2, embargo=60)
    assert [len(part) for part in parts] == [540, 140, 200]
    assert [part.first_ready for part in parts] == [240, 0, 0]
    for part, first in zip(parts, (0, 600, 800), strict=True):
        rows = slice(first, first + len(part))
        np.testing.assert_array_equal(part.features, market.features[rows])
        np.testing.assert_array_equal(part.bars.ts, market.bars.ts[rows])
        assert np.shares_memory(part.features, market.features)
        assert np.shares_memory(part.bars.close, market.bars.close)
        for name, column in vars(part.columns).items():
            assert np.shares_memory(column, getattr(market.columns, name))
        assert part.bars_per_year == market.bars_per_year and part.contract is market.contract


def test_warm_up_reaches_into_the_parts_it_covers() -> None:
    market = Market.from_bars(make_bars(), SPEC)
    assert [part.first_ready for part in market.split(0.1, 0.2, 0.7)] == [98, 140, 0]


@pytest.mark.parametrize(
    ("fractions", "embargo", "message"),
    [
        ((), 0, "positive"),
        ((0.5, 0.0), 0, "positive"),
        ((0.8, 0.3), 0, "at most 1"),
        ((0.5, 0.5), -1, "embargo must be a whole number of bars from 0, got -1"),
        ((0.5, 0.5), 2.5, "embargo must be a whole number of bars from 0, got 2.5"),
        ((0.5, "x"), 0, "fractions must be positive"),
        ((0.5, float("nan")), 0, "fractions must be positive"),
        ((float("nan"),), 0, "fractions must be positive"),
        ((0.1, 0.9), 99, "part 1 would have 1 of 1000 bars"),
    ],
)
def test_split_refuses(fractions: tuple[Any, ...], embargo: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Market.from_bars(make_bars(), SPEC).split(*fractions, embargo=embargo)


def test_bars_per_year_follows_the_calendar_of_the_data() -> None:
    def of(ts: NDArray[np.int64]) -> float:
        flat = np.full(len(ts), 5000.0)
        return bars_per_year(Bars.from_arrays(ts, flat, flat, flat, flat), contract("ES"))

    minutes = np.arange(30 * 1440, dtype=np.int64) * MINUTE
    assert of(minutes) == pytest.approx(525_960.0)
    days = np.arange(0, 5 * 365, dtype=np.int64)
    weekdays = days[(days % 7) < 5] * DAY
    assert of(weekdays) == pytest.approx(365.25 * 5 / 7, rel=1e-3)
    one_day = MONDAY + np.arange(1, 391, dtype=np.int64) * MINUTE
    assert of(one_day) == 390 * 252
    globex = MONDAY - 60 * MINUTE + np.arange(1, 1381, dtype=np.int64) * MINUTE  # 23:00 UTC to 22:00
    assert of(globex) == 1380 * 252
    assert of(np.concatenate((globex, globex + DAY))) == 1380 * 252


def test_a_roll_is_marked_in_ticks_at_its_bar() -> None:
    gaps = np.zeros(1000)
    gaps[321] = -1.25
    columns = Market.from_bars(make_bars(roll_gap=gaps), SPEC).columns
    assert np.flatnonzero(columns.flags & _layout.BarFlag.ROLL).tolist() == [321]
    assert columns.roll_gap[321] == -1.25 / SPEC.tick_size


def test_a_roll_without_a_gap_shows_in_the_contract_column() -> None:
    contract = (np.arange(1000) >= 500).astype(np.float64)
    bars = make_bars(roll_gap=np.zeros(1000), extra={"contract": contract})
    flags = Market.from_bars(bars, SPEC).columns.flags
    assert np.flatnonzero(flags & _layout.BarFlag.ROLL).tolist() == [500]


@pytest.mark.parametrize(("warmup", "early"), [(None, False), (240, False), (239, True), (0, True)])
def test_an_earlier_start_is_flagged(warmup: int | None, early: bool) -> None:
    market = Market.from_bars(make_bars(), SPEC, warmup)
    assert market.starts_early is early and ("starts early" in repr(market)) is early
    first, second = market.split(0.6, 0.4)
    assert first.starts_early is early and not second.starts_early


def test_observed_columns_take_the_reserved_entries() -> None:
    bars = make_bars()
    rng = np.random.default_rng(0)
    mine, other = rng.normal(size=1000), 100.0 * rng.normal(size=1000)
    bars = replace(bars, extra={"other": other, "mine": mine, "unused": np.full(1000, np.nan)})
    plain = Market.from_bars(bars, SPEC)
    market = Market.from_bars(bars, SPEC, observe=("mine", "other"))
    places = [index for index, name in enumerate(plain.feature_names) if name.startswith("reserved_")]
    assert not plain.features[:, places].any()
    assert [market.feature_names[place] for place in places] == ["mine", "other", "reserved_3", "reserved_4"]
    np.testing.assert_array_equal(market.features[:, places[0]], mine.astype(np.float32))
    np.testing.assert_array_equal(market.features[:, places[1]], np.clip(other, -10, 10).astype(np.float32))
    rest = [index for index in range(86) if index not in places[:2]]
    np.testing.assert_array_equal(market.features[:, rest], plain.features[:, rest])
    assert market.split(0.5, 0.5)[1].feature_names == market.feature_names
    swapped = Market.from_bars(bars, SPEC, observe=("other", "mine"))
    np.testing.assert_array_equal(swapped.features[:, places[1]], mine.astype(np.float32))


def test_feature_names_are_those_of_the_table() -> None:
    names = Market.from_bars(make_bars(), SPEC).feature_names
    assert len(names) == len(set(names)) == 86
    assert names[0] == "return_1" and names[40] == "adx_14" and names[85] == "valid_session"


@pytest.mark.parametrize(
    ("observe", "error", "message"),
    [
        ("mine", ConfigError, r"write observe=\('mine',\)"),
        (("absent",), ConfigError, "no column 'absent'; it has: holes, mine, spread"),
        (("mine", "mine"), ConfigError, "up to 4 different columns"),
        (("a", "b", "c", "d", "e"), ConfigError, "up to 4 different columns"),
        (("spread",), ConfigError, "'spread' is the name of a feature; rename"),
        (("holes",), DataError, "row 3, column holes: nan cannot be observed; fill it"),
    ],
)
def test_columns_that_cannot_be_observed_are_refused(
    observe: Any, error: type[Exception], message: str
) -> None:
    holes = np.where(np.arange(1000) == 3, np.nan, 1.0)
    extra = {"mine": np.ones(1000), "holes": holes, "spread": np.ones(1000)}
    with pytest.raises(error, match=message):
        Market.from_bars(replace(make_bars(), extra=extra), SPEC, observe=observe)


def test_refusals_name_the_mend() -> None:
    for warmup in (1.5, True, "7"):
        with pytest.raises(ConfigError, match="warmup must be a whole number of bars from 0, got "):
            Market.from_bars(make_bars(), SPEC, warmup)  # type: ignore[arg-type]
    for observe in (5, [5]):
        with pytest.raises(ConfigError, match="observe must be a list of column names, got "):
            Market.from_bars(make_bars(), SPEC, observe=observe)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"bars must be Bars, got str; use Market.from_file"):
        Market.from_bars("bars.csv", SPEC)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="warmup must be a whole number of bars from 0, got -1"):
        Market.from_bars(make_bars(), SPEC, warmup=-1)
    with pytest.raises(ConfigError, match="Unknown contract"):
        Market.from_bars(make_bars(), "NOPE")
    with pytest.raises(DataError, match=r"row 0, column high: .* exceeds 2\^50 ticks .* tick_size"):
        Market.from_bars(make_bars(), replace(SPEC, tick_size=1e-13))
    volume = np.ones(1000)
    volume[7] = 1e300
    with pytest.raises(DataError, match=r"row 7, column volume: 1e\+300"):
        Market.from_bars(make_bars(volume=volume), SPEC)
    gaps = np.zeros(1000)
    gaps[7] = -1e300
    with pytest.raises(DataError, match=r"row 7, column roll_gap: -1e\+300 exceeds 2\^50 ticks"):
        Market.from_bars(make_bars(roll_gap=gaps), SPEC)


def test_pickle_round_trip() -> None:
    market = Market.from_bars(make_bars(), SPEC)
    again = pickle.loads(pickle.dumps(Market.from_bars(make_bars(), SPEC)))
    np.testing.assert_array_equal(again.features, market.features)
    np.testing.assert_array_equal(again.columns.atr, market.columns.atr)
    assert again.contract == market.contract and repr(again) == repr(market)


def test_from_file_reads_bars(tmp_path: Path) -> None:
    bars = make_bars(300)
    rows = zip(bars.ts // 1_000_000_000, bars.open, bars.high, bars.low, bars.close, bars.volume, strict=True)  # type: ignore[arg-type]
    text = "timestamp,open,high,low,close,volume\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    path = tmp_path / "bars.csv"
    path.write_text(text)
    market = Market.from_file(path, SPEC, label="close")
    np.testing.assert_array_equal(market.features, Market.from_bars(bars, SPEC).features)
    assert market.contract is SPEC and market.first_ready == 240
    with pytest.raises(TypeError, match="unknown_hint"):
        Market.from_file(path, SPEC, unknown_hint=1)


def test_from_file_observes_a_column_of_the_file(tmp_path: Path) -> None:
    mine = np.random.default_rng(1).normal(size=300)
    path = tmp_path / "bars.parquet"
    write_bars(replace(make_bars(300), extra={"mine": mine}), path)
    market = Market.from_file(path, SPEC, observe=["mine"])
    seen = market.features[:, market.feature_names.index("mine")]
    np.testing.assert_array_equal(seen, mine.astype(np.float32))


def test_a_file_without_a_named_contract_has_that_of_its_instrument(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "bars.csv"
    row = "2024-05-09T10:{:02d}:00Z,{},5000,5001,4999,5000,1\n"

    def write(symbol: str) -> None:
        rows = "".join(row.format(minute, symbol) for minute in range(20))
        path.write_text("timestamp_utc,symbol,open,high,low,close,volume\n" + rows)

    write("CLM4")
    assert Market.from_file(path, label="close", warmup=0).contract.symbol == "CL"
    assert Market.from_file(path, label="close", warmup=0, symbol="CLM4").contract.symbol == "CL"
    assert Market.from_file(path, "GC", label="close", warmup=0).contract.symbol == "GC"
    assert not [record for record in caplog.records if "pass contract=" in record.message]
    write("NOBODY")
    assert Market.from_file(path, label="close", warmup=0).contract.symbol == "ES"
    assert (
        "the instrument 'NOBODY' is no known contract, so the bars are taken for ES; pass contract="
        in caplog.text
    )


def test_a_file_that_names_nothing_is_taken_for_es_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_bars(make_bars(50), tmp_path / "bars.parquet")
    assert Market.from_file(tmp_path / "bars.parquet", warmup=0).contract.symbol == "ES"
    assert "bars.parquet: no contract is named, so the bars are taken for ES; pass contract=" in caplog.text
    assert Market.from_bars(make_bars(50), warmup=0).contract.symbol == "ES"
    assert "Market: no contract is named, so the bars are taken for ES; pass contract=" in caplog.text


def test_parts_of_one_prepared_market_keep_their_contract(tmp_path: Path) -> None:
    bars, parts = make_bars(100), [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    write_prepared(bars[:60], parts[0], contract("rb"))
    write_prepared(bars[60:], parts[1], contract("rb"))
    assert Market.from_file(parts, warmup=0).contract == contract("rb")
    write_prepared(bars[60:], parts[1], contract("cu"))
    with pytest.raises(DataError, match="give files of one contract"):
        Market.from_file(parts, warmup=0)


@pytest.mark.parametrize("prices", ["open,high,low,close,volume", "price,size"])
def test_daily_bars_of_a_file_are_those_of_the_trading_days_of_its_contract(
    tmp_path: Path, prices: str
) -> None:
    """A night from 21:00 in Shanghai belongs to the next day, of bars and of trades."""
    path = tmp_path / "cu.csv"
    values = "70000,70010,69990,70000,1" if prices.startswith("open") else "70000,1"
    hours = [*range(13, 17), 25, 26, 30]  # UTC: night, morning, afternoon
    start = np.datetime64("2024-05-06T00:10")
    times = [start + np.timedelta64(24 * day + hour, "h") for day in range(3) for hour in hours]
    path.write_text(f"timestamp_utc,symbol,{prices}\n" + "".join(f"{t}:00Z,cu2407,{values}\n" for t in times))
    for contract_ in (None, "cu"):
        market = Market.from_file(path, contract_, bars="1d", warmup=0)
        assert (market.contract.symbol, len(market)) == ("cu", 3)
        assert market.bars.volume is not None and market.bars.volume.tolist() == [7.0, 7.0, 7.0]
    assert len(read_bars(path, bars="1d")) == 4
