"""Every kind of problem that the data checks know: its severity, what it means and the mend."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from fox_env.repair import REPAIRS

__all__ = ["KINDS", "Kind", "repairs_of"]


class Kind(NamedTuple):
    """A kind of problem.

    Attributes
    ----------
    severity : {"error", "warning", "note"}
        An error makes bars unusable, a warning asks for a look, a note is legal and worth knowing.
    finds : str
        What is reported.
    mend : str
        What to do about it.
    """

    severity: Literal["error", "warning", "note"]
    finds: str
    mend: str


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "order": Kind("error", "a row earlier than the row before it", "sort the rows by time"),
        "duplicate": Kind(
            "error", "a row with the time of the row before it", "keep one row per time, or one instrument"
        ),
        "non_finite": Kind(
            "error", "a price or volume that is empty, NaN or infinite", "fill in the value or drop the row"
        ),
        "ohlc": Kind(
            "error",
            "a high below, or a low above, the open or the close",
            "fetch the bars again, or widen them where only rounding is at fault",
        ),
        "negative_volume": Kind("error", "a volume below 0", "correct or drop the row"),
        "time_unit": Kind(
            "warning", "a time before June 1970", "check whether seconds, ms or us were taken for ns"
        ),
        "year": Kind(
            "warning",
            "a time that lies ahead of today, or more than 300 days after the bar before",
            "check the year in the file",
        ),
        "row_limit": Kind(
            "warning",
            "exactly as many rows as a spreadsheet holds (1,048,576 or 65,536, with or without a header)",
            "export again without a spreadsheet: later rows are probably cut off",
        ),
        "session_mismatch": Kind(
            "warning",
            "more than 5 % of the bars outside the sessions of the contract",
            "check the contract, the time zone and whether bars are stamped at their open or close",
        ),
        "outside_session": Kind(
            "warning",
            "a bar while the market is closed: on a weekend or holiday, or after an early close",
            "drop such prints, unless the session template is wrong for the contract",
        ),
        "zero_price": Kind("warning", "a price of exactly 0", "drop the row unless 0 was really traded"),
        "spike": Kind(
            "warning",
            "a price at least 5 times, or at most a fifth of, the closes on both sides",
            "correct the decimal point or drop the row",
        ),
        "jump": Kind(
            "warning",
            "a move beyond 25 average true ranges (100 across a session break)",
            "check the prices on both sides; mark a roll in roll_gap",
        ),
        "off_tick": Kind(
            "warning",
            "a price more than 0.02 ticks off the contract's tick grid",
            "name the right contract, or undo a rounding or adjustment of the prices",
        ),
        "cash_index": Kind(
            "warning",
            "no volume at all and most closes off the tick grid: an index rather than its future",
            "use bars of the future; an index cannot be traded",
        ),
        "no_volume": Kind(
            "warning", "volume 0 in every row", "drop the column where the volume is not known"
        ),
        "roll": Kind(
            "warning",
            "open interest changed by more than 15 % and the price by more than an average true range over a "
            "session break: probably a roll",
            "back-adjust the series, or mark the rolls in roll_gap (prepare_data.py --mark-rolls)",
        ),
        "open_interest_break": Kind(
            "warning",
            "open interest halved from one session to the next: probably a new counting rule",
            "do not compare open interest or volume before and after",
        ),
        "zero_volume": Kind("note", "a bar in which nothing traded", "nothing: such bars fill no order"),
        "gap": Kind("note", "missing bars within a session", "nothing, if no one traded; else fetch them"),
        "missing_session": Kind(
            "note", "a whole session without bars", "fetch it; nothing, if the market was closed"
        ),
        "negative_price": Kind("note", "a price below 0", "nothing: it is legal, crude oil had it in 2020"),
        "flat": Kind(
            "note",
            "10 or more bars at one single price",
            "nothing, if locked at a price limit; drop bars that were filled forward",
        ),
        "float32": Kind(
            "note",
            "prices within 0.02 ticks of the grid but not on it, as 32-bit numbers are",
            "nothing: a market snaps them to the grid",
        ),
    }
)
"""By name, in the order of reports: errors, then warnings, then notes."""


def repairs_of(kind: str) -> tuple[str, ...]:
    """Return the names of the repairs that remove a kind of problem."""
    return tuple(name for name, repair in REPAIRS.items() if kind in repair.kinds)
