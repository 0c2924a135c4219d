"""docs/data-checks.md says what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path

from checked_bars import columns

from fox_env.calendars import ALIASES, TEMPLATES
from fox_env.repair import REPAIRS
from fox_env.validation import KINDS, repairs_of, validate_bars

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "data-checks.md").read_text(encoding="utf-8")


def rows_of(section: str) -> list[list[str]]:
    """Return the cells of the table of a section, without its head."""
    text = DOCUMENT.split(f"## {section}\n")[1].split("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.M)
    ][2:]


def test_the_kinds_are_those_of_the_code_in_order() -> None:
    expected = [
        [
            f"`{name}`",
            kind.severity,
            kind.finds,
            kind.mend,
            ", ".join(f"`{r}`" for r in repairs_of(name)) or "none",
        ]
        for name, kind in KINDS.items()
    ]
    assert rows_of("Kinds") == expected


def test_the_repairs_are_those_of_the_code_in_order() -> None:
    assert rows_of("Repairs") == [[f"`{name}`", r.finding, r.change] for name, r in REPAIRS.items()]
    for name, repair in REPAIRS.items():
        if repair.excludes:
            assert re.search(f"`({name}|{repair.excludes})` and `({name}|{repair.excludes})`", DOCUMENT), name


def test_the_sessions_are_those_of_the_code() -> None:
    table = rows_of("Sessions")
    assert [row[:2] for row in table] == [
        [f"`{name}`", template.calendar] for name, template in TEMPLATES.items()
    ]
    for (_, _, hours), template in zip(table, TEMPLATES.values(), strict=True):
        assert hours.endswith(template.source)
        spans = (*template.hours, *([template.night] if template.night else []))
        assert all(f"{start} to {stop}" in hours for start, stop in spans)
    for alias, name in ALIASES.items():
        assert f"`{alias}` ({name})" in DOCUMENT


def test_the_json_keys_are_documented() -> None:
    documented = {key for row in rows_of("JSON") for key in re.findall(r"`(\w+)`", row[0])}
    assert documented == set(json.loads(validate_bars(columns()).to_json()))
