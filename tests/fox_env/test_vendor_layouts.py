"""Layouts of vendors: each look-alike gives the same six bars, and its documentation agrees with the code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from look_alikes import CLOSES, LOOK_ALIKES, LookAlike, prices
from market_files import MINUTE, put, utc

from fox_env.errors import DataError
from fox_env.readers import read_bars
from fox_env.reading.catalogue import as_markdown
from fox_env.reading.dialect import Dialect
from fox_env.reading.dialects import DIALECTS, NAMED
from fox_env.reading.layout import Hints
from fox_env.reading.sources import pieces_of

EACH = pytest.mark.parametrize("kind", LOOK_ALIKES, ids=lambda kind: kind.name)


@EACH
def test_an_ordinary_export_needs_no_option_but_a_zone_and_gives_its_bars(
    tmp_path: Path, kind: LookAlike
) -> None:
    assert kind.options.keys() <= {"tz", "date_order"}
    path = put(tmp_path, kind.content, kind.file)
    bars = read_bars(path, **kind.options)
    first = utc(kind.first)[0]
    assert bars.ts.tolist() == [first + i * kind.minutes * MINUTE for i in range(len(CLOSES))]
    expected = np.array([prices(close) for close in CLOSES])
    for name, values in zip(("open", "high", "low", "close"), expected.T, strict=True):
        np.testing.assert_array_equal(getattr(bars, name), values, err_msg=name)
    assert (None if bars.volume is None else tuple(bars.volume)) == kind.volume
    assert set(bars.extra) == kind.extra
    assert all(values.dtype == np.float64 for values in bars.extra.values())
    assert bars.repairs == kind.notes


@EACH
def test_the_dialect_is_told_by_content_and_may_be_insisted_on(tmp_path: Path, kind: LookAlike) -> None:
    path = put(tmp_path, kind.content, kind.file)
    told = [piece.layout.dialect.name for piece in pieces_of(path, Hints(**kind.options))]
    assert told == [kind.dialect]
    same = read_bars(path, format=kind.dialect, **kind.options)
    assert same.ts.tolist() == read_bars(path, **kind.options).ts.tolist()


@EACH
def test_another_format_is_refused(tmp_path: Path, kind: LookAlike) -> None:
    other = "sierra" if kind.dialect != "sierra" else "binance"
    with pytest.raises(
        DataError, match=f"is not in the format '{other}'; drop format= to have the format told"
    ):
        read_bars(put(tmp_path, kind.content, kind.file), format=other, **kind.options)


def test_every_dialect_is_read_in_a_test() -> None:
    tried = {kind.dialect for kind in LOOK_ALIKES}
    events = {
        "databento_events",
        "trades_with_depth",
        "lean_quote_bars",
        "fxcm",
        "histdata_ticks",
        "tardis",
        "binance_trades",
        "kibot_ticks",
        "truefx",
        "ninjatrader_ticks",
    }
    assert {dialect.name for dialect in NAMED} == tried | events


def test_the_page_on_reading_is_the_one_that_the_code_prints() -> None:
    page = Path(__file__).parents[2] / "docs" / "reading.md"
    assert page.read_text() == as_markdown(), "run: python -m fox_env.reading > docs/reading.md"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: f"{dialect.name}: {dialect.recognised}")
def test_the_example_of_a_layout_in_the_page_is_told_as_that_layout(dialect: Dialect) -> None:
    cells = dialect.example.replace("\\t", "\t")
    delimiter = max("\t;,", key=cells.count)
    fields = [field.strip() for field in cells.split(delimiter)]
    fits = dialect.fits_row(fields, delimiter) if dialect.fields else dialect.fits_header(fields)
    assert fits
