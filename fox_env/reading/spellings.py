"""Spellings of times that are rewritten before they are parsed: month names, words for a zone, odd separators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fox_env.reading.table import shown

if TYPE_CHECKING:
    import polars as pl

    from fox_env.reading.timestamps import RowError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?i)(?P<name>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_NAMED = (
    re.compile(
        rf"^(?P<day>\d{{1,2}})[-/ .]+{_MONTH.removeprefix('(?i)')}[-/ .,]+(?P<year>\d{{4}})(?P<rest>.*)$"
    ),
    re.compile(
        rf"^{_MONTH.removeprefix('(?i)')}[-/ .]+(?P<day>\d{{1,2}})[-/ .,]+(?P<year>\d{{4}})(?P<rest>.*)$"
    ),
)
_UTC = r"\s*\b(?:UTC|GMT)([+-]\d{2}:?\d{2})?$"
_ZONE = r"^(?P<time>.*\d)\s+(?P<zone>[A-Z][A-Za-z]+(?:/[A-Za-z_]+)+)$"
_BITMEX = r"^(\d{4}-\d{2}-\d{2})D(\d{2}:)"


class Spelled(NamedTuple):
    """Times in the spelling of the parser, and the IANA zone that all of them name, if any."""

    text: pl.Series
    zone: str | None = None


def respelled(text: pl.Series, error: RowError) -> Spelled:
    """Rewrite ``02-Jan-2024``, ``Jan 2, 2024``, ``... UTC``, ``... GMT+0100``, ``... US/Central`` and BitMEX times.

    Raises
    ------
    DataError
        Rows name different zones.
    """
    import polars as pl

    text = text.str.replace(_BITMEX, "$1 $2")
    first = text[0]
    if re.search(_UTC, first):
        offset = text.str.extract(_UTC).fill_null("Z")
        told = text.str.contains(_UTC)
        bare = text.str.replace(_UTC, "")
        text = pl.select(pl.when(told).then(bare + offset).otherwise(text)).to_series()
    for pattern in _NAMED:
        if re.match(f"(?i){pattern.pattern}", first):
            text = _month_numbers(text, pattern.pattern)
            break
    if (match := re.match(_ZONE, first)) is None:
        return Spelled(text)
    zones = text.str.extract(_ZONE, 2)
    other = (zones != match["zone"]).fill_null(True).to_numpy()
    if other.any():
        row = int(other.argmax())
        raise error(row, f"{shown(text[row])} does not name the zone {match['zone']} of row 0; use one zone")
    return Spelled(text.str.extract(_ZONE, 1), match["zone"])


def _month_numbers(text: pl.Series, pattern: str) -> pl.Series:
    """Write dates with the names of months as ``2024-1-2``; other cells stay."""
    import polars as pl

    parts = text.str.extract_groups(f"(?i){pattern}").struct.unnest()
    months = parts["name"].str.to_lowercase().replace_strict(
        _MONTHS, [str(number) for number in range(1, 13)], default=None, return_dtype=pl.String
    )  # fmt: skip
    written = parts["year"] + "-" + months + "-" + parts["day"] + parts["rest"]
    return pl.select(pl.coalesce(written, text)).to_series()
