"""What a Parquet file of bars holds beside its columns: a mark, repairs and the adjustment of its prices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from fox_env.bars import ADJUSTMENTS, Bars
from fox_env.errors import DataError
from fox_env.reading.table import Table

__all__ = ["restore", "stored_metadata"]

_MARK, _REPAIRS, _ADJUSTED = "fox_bars", "fox_repairs", "fox_adjusted"


def stored_metadata(bars: Bars) -> dict[str, str]:
    """Return the Parquet metadata of bars.

    The mark says that the columns have their exact names, so that no further column is taken for a price.
    """
    metadata = {_MARK: "1"}
    if bars.repairs:
        metadata[_REPAIRS] = json.dumps(bars.repairs)
    if bars.adjusted != "none":
        metadata[_ADJUSTED] = bars.adjusted
    return metadata


def restore(table: Table, metadata: Mapping[str, str]) -> Table:
    """Return a table with what :func:`stored_metadata` wrote.

    Raises
    ------
    DataError
        An entry is not one that this version writes.
    """
    adjusted = metadata.get(_ADJUSTED, "none")
    try:
        notes = json.loads(metadata.get(_REPAIRS, "[]"))
    except ValueError:
        notes = None
    if (
        adjusted not in ADJUSTMENTS
        or not isinstance(notes, list)
        or not all(isinstance(n, str) for n in notes)
    ):
        entry = _REPAIRS if adjusted in ADJUSTMENTS else _ADJUSTED
        raise DataError(f"{table.source}: the metadata entry {entry} cannot be read; write the file again.")
    own = _MARK in metadata
    return replace(table, notes=(*table.notes, *notes), adjusted=adjusted, exact=own, closes=own)
