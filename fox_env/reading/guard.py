"""Whether polars can read columnar data: it ends the process it runs in on some damaged lengths."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

from fox_env.features.cache import cache_dir

_READ = "import io, sys, polars; getattr(polars, sys.argv[1])(io.BytesIO(sys.stdin.buffer.read()))"


def is_readable(reader: str, data: bytes) -> bool:
    """Whether a function of polars reads data without an error, tried in a process of its own.

    That takes a third of a second, so sound data are remembered by their hash in the cache directory. Where
    no process can be started or nothing can be remembered, the data are read without, or tried every time.

    Parameters
    ----------
    reader : str
        ``read_parquet``, ``read_ipc`` or ``read_ipc_stream``.
    data : bytes
    """
    mark = _mark(data)
    if not sys.executable or (mark is not None and mark.exists()):
        return True
    command = [sys.executable, "-P", "-c", _READ, reader]
    try:
        failed = subprocess.run(command, input=data, capture_output=True, check=False).returncode
    except OSError:
        return True
    if not failed:
        _remember(mark)
    return not failed


def remember_written(path: Path) -> None:
    """Note that a file was just written and so need not be tried."""
    with contextlib.suppress(OSError):
        _remember(_mark(path.read_bytes()))


def _mark(data: bytes) -> Path | None:
    """Return the file whose existence says that the data are sound, or None where there is no place for it."""
    digest = hashlib.blake2b(data, digest_size=20, key=importlib.metadata.version("polars").encode())
    try:
        return cache_dir() / f"readable-{digest.hexdigest()}"
    except OSError:
        return None


def _remember(mark: Path | None) -> None:
    if mark is not None:
        with contextlib.suppress(OSError):  # a directory that cannot be written costs time only
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
