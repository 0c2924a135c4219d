"""Feature tables on disk, found by a hash of everything they depend on and read memory-mapped.

A cache file is an ordinary ``.npy`` file with its CRC-32 appended (``numpy.load`` ignores the four bytes).
Its name is the hash of the input series, of the feature package's own source and of the TA-Lib version, so a
stale table is never found; a damaged one is recognised by size or checksum and built again.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import logging
import os
import tempfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fox_env.features.declare import Inputs
from fox_env.features.table import N_FEATURES, evaluate

LIMIT_BYTES = 2 << 30
"""The least recently used tables are deleted when the cache grows beyond this."""

_CHECKSUM_BYTES = 4
_log = logging.getLogger(__name__)


def cache_dir() -> Path:
    """Return the directory of the cache: ``$XDG_CACHE_HOME/fox``, else ``~/.cache/fox``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fox"


def load_or_build(inputs: Inputs) -> NDArray[np.float32]:
    """Return the feature table of `inputs`, from the cache if a sound copy is there.

    Parameters
    ----------
    inputs : Inputs
        The series of T bars.

    Returns
    -------
    float32 array (T, 86)
        Read-only; memory-mapped when it comes from the cache. If the cache directory cannot be used, a
        warning is logged and the table lives in memory only.
    """
    path = cache_dir() / f"features-{content_hash(inputs)}.npy"
    table = _load(path, len(inputs))
    if table is None:
        table = evaluate(inputs)
        try:
            _store(path, table)
        except OSError as error:
            _log.warning(
                "The feature cache %s cannot be written (%s); features stay in memory.", path.parent, error
            )
    return table


def content_hash(inputs: Inputs) -> str:
    """Return a hash of everything that a feature table depends on."""
    digest = hashlib.blake2b(_code_hash().encode(), digest_size=20)
    columns = {name: getattr(inputs, name) for name in _SERIES} | dict(sorted(inputs.extra.items()))
    digest.update(f"{inputs.timezone}\0{list(columns)}\0{len(inputs)}".encode())
    for column in columns.values():
        digest.update(b"none" if column is None else np.ascontiguousarray(column).data)
    return digest.hexdigest()


_SERIES = ("ts", "session_start", "open", "high", "low", "close", "volume", "atr", "mean_volume")


@functools.cache
def _code_hash() -> str:
    """Return a hash of the formulas: the source of this package and the version of TA-Lib."""
    digest = hashlib.blake2b(importlib.metadata.version("TA-Lib").encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _load(path: Path, length: int) -> NDArray[np.float32] | None:
    """Return the table at `path`, or None if there is none or it is damaged."""
    try:
        if not _is_sound(path):
            raise ValueError("the checksum differs")
        # A plain view of the map, so that the table is pickled and copied like any other array.
        table: NDArray[np.float32] = np.asarray(np.load(path, mmap_mode="r"))
        if table.shape != (length, N_FEATURES) or table.dtype != np.float32:
            raise ValueError(f"it holds {table.dtype} {table.shape}")
        os.utime(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("The cached features %s cannot be used (%s) and are built again.", path, error)
        return None
    return table


def _store(path: Path, table: NDArray[np.float32]) -> None:
    """Write a table so that no reader ever sees a part of it, and keep the cache within its limit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix="writing-", suffix=".npy")
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, table)
        with open(name, "ab") as file:
            file.write(_checksum(np.memmap(name, dtype=np.uint8, mode="r")))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    _prune(path)


def _checksum(content: NDArray[np.uint8]) -> bytes:
    return zlib.crc32(content.data).to_bytes(_CHECKSUM_BYTES, "little")


def _is_sound(path: Path) -> bool:
    content = np.memmap(path, dtype=np.uint8, mode="r")
    return content[-_CHECKSUM_BYTES:].tobytes() == _checksum(content[:-_CHECKSUM_BYTES])


def _prune(newest: Path) -> None:
    """Delete the least recently used tables beyond the limit; a table that is mapped stays readable."""
    files = []
    for path in newest.parent.glob("features-*.npy"):
        try:
            status = path.stat()
        except FileNotFoundError:  # deleted by another process
            continue
        files.append((status.st_mtime, status.st_size, path))
    used = 0
    for _, size, path in sorted(files, reverse=True):
        used += size
        if used > LIMIT_BYTES and path != newest:
            path.unlink(missing_ok=True)
