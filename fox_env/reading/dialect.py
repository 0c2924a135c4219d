"""What a layout of a vendor is: how it is told, and how it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fox_env.reading.names import field_kind, plain

Label = Literal["open", "close"]
DateOrder = Literal["ymd", "dmy", "mdy"]


@dataclass(frozen=True)
class Dialect:
    """One layout.

    Attributes
    ----------
    name, title : str
        The name for ``format=``, and the producer.
    recognised : str
        How it is told from the others, in words.
    label : {"open", "close"}
        Which end of a bar its time marks.
    certain : bool
        Whether the producer is known to mark that end; else sessions may tell, or it is an assumption.
    example : str
        A header and a row, or a row.
    zone : str, optional
        Zone of its wall-clock times where the layout fixes it.
    zone_note : str
        What to say of the zone in the documentation.
    starts : tuple of str
        The first names of the header, as written.
    has : frozenset of str
        Plain names that the header must hold.
    fields : str
        For layouts without a header: a pattern over the kinds of the fields, see
        :func:`fox_env.reading.names.field_kind`.
    delimiter : str, optional
        The only delimiter.
    order : tuple of str
        Without a header: the roles of the fields in order, an own name for those without a role.
    roles : mapping of str to str
        Plain names with a role, before those of `NAMES`.
    extra : mapping of str to str
        Plain names of further columns to the names they get in ``Bars.extra``; None leaves one out.
    renamed : mapping of str to str
        Plain names to the names under which the columns are read.
    date_order : {"ymd", "dmy", "mdy"}, optional
        Order of numbers in slashed dates where the layout fixes it.
    check : str
        A further condition on the rows, see :mod:`fox_env.reading.layout`.
    """

    name: str
    title: str
    recognised: str
    label: Label
    example: str
    zone: str | None = None
    zone_note: str = "tz= needed"
    starts: tuple[str, ...] = ()
    has: frozenset[str] = frozenset()
    fields: str = ""
    delimiter: str | None = None
    order: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str | None] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    date_order: DateOrder | None = None
    check: str = ""
    certain: bool = True

    def fits_header(self, names: Sequence[str]) -> bool:
        """Whether a header belongs to this dialect; `names` as written, without surrounding blanks."""
        if self.fields:
            return False
        known = {plain(name) for name in names}
        start = tuple(names[: len(self.starts)])
        return start == self.starts and self.has <= known

    def fits_row(self, fields: Sequence[str], delimiter: str) -> bool:
        """Whether a row of a file without a header belongs to this dialect."""
        if not self.fields or self.delimiter not in (None, delimiter):
            return False
        return re.fullmatch(self.fields, "".join(map(field_kind, fields))) is not None
