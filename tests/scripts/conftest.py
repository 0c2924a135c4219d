"""Scripts run as the program would run them, but within this process: what they import takes two seconds."""

import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> "Callable[..., CompletedProcess[str]]":
    """Runs a script of a name with arguments."""

    def run(name: str, *arguments: str) -> "CompletedProcess[str]":
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
        handler = signal.getsignal(signal.SIGTERM)
        capsys.readouterr()
        try:
            with pytest.raises(SystemExit) as ended:
                runpy.run_path(str(SCRIPTS / name), run_name="__main__")
        finally:
            signal.signal(signal.SIGTERM, handler)
        assert isinstance(ended.value.code, int)
        return CompletedProcess([name, *arguments], ended.value.code, *capsys.readouterr())

    return run
