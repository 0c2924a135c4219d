"""The page about other libraries: its examples run, and importing Fox loads none of these libraries."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("sb3_contrib", "stable_baselines3", "torchrl", "tianshou")
BLOCKS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs" / "adapters.md").read_text(), re.MULTILINE | re.DOTALL
)


def needed(code: str) -> str | None:
    """The library that an example imports."""
    return next((name for name in LIBRARIES if f"from {name}" in code), None)


def test_every_library_has_an_example() -> None:
    assert {needed(code) for code in BLOCKS} == {None, *LIBRARIES}


@pytest.mark.parametrize("code", BLOCKS, ids=[needed(code) or "gymnasium" for code in BLOCKS])
def test_the_examples_run(code: str, tmp_path: Path) -> None:
    library = needed(code)
    if library is not None:
        pytest.importorskip(library, reason=f"the example needs {library}")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # networks this small only lose by more
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_importing_fox_loads_no_adapter() -> None:
    names = (*LIBRARIES, "tensordict", "torch", "fox_env.adapters")
    code = f"import sys, fox_env; print([m for m in {names} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
