"""The document of the contracts: its table is the shipped one, and its example gives what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fox_env.contracts import known_contracts, load_contracts
from fox_env.contracts_table import as_markdown

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "contracts.md").read_text(encoding="utf-8")


def test_the_table_is_generated_from_the_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOX_CONTRACTS", raising=False)
    table = DOCUMENT.split("<!-- begin table -->\n")[1].split("\n<!-- end table -->")[0]
    assert table == as_markdown(), "put the output of python -m fox_env.contracts_table between the markers"
    assert all(table.count(f"| `{symbol}` |") == 2 for symbol in known_contracts())


def test_the_example_prints_what_the_document_shows() -> None:
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-c", found[1]], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == found[2], done.stderr


def test_the_example_of_a_file_can_be_loaded(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    (tmp_path / "mine.toml").write_text(found[1])
    specs = load_contracts(tmp_path / "mine.toml")
    assert specs["ES"].initial_margin == 12_500.0 and specs["ES"].tick_value == 12.5
    assert specs["XY"].tick_value == 10.0
