"""A short deterministic run of the fuzz driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_readers import run_case, seeds


@pytest.mark.parametrize("block", range(4))
def test_damaged_files_give_bars_or_one_sentence(tmp_path: Path, block: int) -> None:
    sources = seeds(real=False)
    outcomes = [run_case(sources, 1_000 * block + case, tmp_path)[0] for case in range(100)]
    assert [outcome for outcome in outcomes if outcome.startswith("failed")] == []
    assert {"read", "refused"} <= set(outcomes)
