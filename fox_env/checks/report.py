"""The report of the data checks: what was found, on a terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fox_env.checks.kinds import KINDS, repairs_of

__all__ = ["DataReport", "Problem"]


class Problem(NamedTuple):
    """One finding: its kind, the row (from 0), the column and a sentence."""

    kind: str
    row: int
    column: str
    message: str


@dataclass(frozen=True)
class DataReport:
    """What :func:`validate_bars` found.

    Attributes
    ----------
    rows : int
        Rows checked.
    problems : list of Problem
        ``(kind, row, column, message)``, errors first, then warnings and notes; for each kind and column the
        first 20 rows.
    counts : dict of str to int
        Rows with each kind of problem, all of them, in the same order.
    repairs : tuple of str
        What was changed or left out when the bars were read (``Bars.repairs``).
    first, last : str
        Time of the first and last bar, UTC.
    interval_s : float
        Median spacing of the bars, s.
    contract : str or None
        Symbol of the contract.
    sessions : str
        What gaps were judged by.
    """

    rows: int
    problems: list[Problem] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    repairs: tuple[str, ...] = ()
    first: str = ""
    last: str = ""
    interval_s: float = 0.0
    contract: str | None = None
    sessions: str = ""

    @property
    def ok(self) -> bool:
        """Whether there is no error: the values can be made into bars. Warnings and notes do not count."""
        return not any(KINDS[kind].severity == "error" for kind in self.counts)

    def first_of(self, kind: str) -> Problem:
        """Return the problem of a kind in the first row that has it."""
        return min((problem for problem in self.problems if problem.kind == kind), key=lambda p: p.row)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values: the document of :meth:`to_json`."""
        return {
            "ok": self.ok,
            "rows": self.rows,
            "first": self.first,
            "last": self.last,
            "interval_s": self.interval_s,
            "contract": self.contract,
            "sessions": self.sessions,
            "repairs": list(self.repairs),
            "kinds": {
                kind: {
                    "severity": KINDS[kind].severity,
                    "rows": count,
                    "mend": KINDS[kind].mend,
                    "repairs": list(repairs_of(kind)),
                }
                for kind, count in self.counts.items()
            },
            "problems": [problem._asdict() for problem in self.problems],
        }

    def to_json(self) -> str:
        """Return the report as a JSON document.

        Returns
        -------
        str
            An object with the keys ``ok``, ``rows``, ``first``, ``last``, ``interval_s``, ``contract``,
            ``sessions``, ``repairs``, ``kinds`` (severity, rows, mend and repairs of each kind found) and
            ``problems`` (kind, row, column, message).
        """
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        lines = [f"{self.rows:,} bars: {'ok' if self.ok else 'not usable'}"]
        lines += [f"  reading: {sentence}" for sentence in self.repairs]
        for kind, count in self.counts.items():
            problem = self.first_of(kind)
            lines.append(
                f"  {KINDS[kind].severity}: {kind} in {count:,} rows, "
                f"first row {problem.row}, column {problem.column}: {problem.message}"
            )
            names = " or ".join(f"repair={name!r}" for name in repairs_of(kind))
            lines.append(f"    mend: {KINDS[kind].mend}{f' ({names})' if names else ''}")
        return "\n".join(lines)
