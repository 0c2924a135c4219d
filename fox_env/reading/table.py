"""Tables: the rows of one source before their columns are understood, and the errors that name a cell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from fox_env.bars import Int
from fox_env.errors import DataError

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["bars", "trades", "quotes"]
"""What the rows of a table are: price bars, single trades, or states of the best bid and ask."""


@dataclass(frozen=True)
class Table:
    """Rows of a file or frame, with what is needed to name a place in it.

    Attributes
    ----------
    source : str
        Path of the file, or a description of the object.
    frame : polars.DataFrame
        Columns under the names of the source; cells of text files stay text, so that a bad one can be shown.
    lines : int64 array, shape (T,), or None
        Line of the file per row, counted from 1; None where the format has no lines.
    kind : {"bars", "trades", "quotes"}
        What the rows are.
    notes : tuple of str
        A sentence about each kind of row of the source that the frame leaves out.
    delimiter : str
        What parts the fields of a text.
    decimal : {".", ",", ""}
        The mark before decimals in cells of text, as all of them together tell it; empty where they do not.
    symbol : str or None
        The instrument where the container names it; None where a column may.
    rows : int64 array, shape (T,), or None
        Row of the source per row, from 0, where the frame holds only some of them or in another order.
    adjusted : {"none", "difference", "ratio"}
        How the prices were adjusted at rolls, as :class:`fox_env.Bars` has it.
    exact : bool
        The columns are those of :func:`fox_env.write_bars`: roles have their own names and no others.
    closes : bool
        The times are known to be those of the close, midnights of daily bars too.
    """

    source: str
    frame: pl.DataFrame
    lines: Int | None = None
    kind: Kind = "bars"
    notes: tuple[str, ...] = ()
    delimiter: str = ","
    decimal: str = ""
    symbol: str | None = None
    rows: Int | None = None
    adjusted: str = "none"
    exact: bool = False
    closes: bool = False

    def error(self, row: int, column: str, message: str) -> DataError:
        """Make the error for a cell: file, row from 0, line of the file, column, and what is wrong."""
        line = "" if self.lines is None else f" (line {self.lines[row]})"
        number = row if self.rows is None else self.rows[row]
        return DataError(f"{self.source}: row {number}{line}, column {column}: {message}.")

    def take(self, rows: Int) -> Table:
        """Return some rows, in the order given; errors still name their places in the source."""
        return replace(
            self,
            frame=self.frame[rows],
            lines=None if self.lines is None else self.lines[rows],
            rows=rows if self.rows is None else self.rows[rows],
        )

    def reversed(self) -> Table:
        """Return the rows in reverse order."""
        return self.take(np.arange(self.frame.height - 1, -1, -1, dtype=np.int64))


def shown(cell: object) -> str:
    """Return a cell for a message, in quotes and no longer than sixty characters."""
    text = str(cell)
    return repr(text if len(text) <= 60 else text[:57] + "...")
