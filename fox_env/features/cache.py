"""Feature tables on disk, found by a hash of everything they depend on and read memory-mapped.

A cache file is an ordinary ``.npy`` file with the checksums of its runs of rows appended (``numpy.load``
ignores what follows the array). Its name is the hash of the input series, of the feature package's own source
and of the TA-Lib version, so a stale table is never found; a damaged one is recognised by its size or a
checksum and built again. Tables are written to a name of their own and renamed, so writers do not meet.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import io
import logging
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fox_env.features.declare import Inputs
from fox_env.features.evaluation import F32, ROWS, each, evaluate, stream
from fox_env.features.table import N_FEATURES

LIMIT_BYTES = 2 << 30
"""The least recently used tables are deleted when the cache grows beyond this."""

ABANDONED_SECONDS = 86_400.0
"""A half-written file that has not changed for this long belongs to a process that was killed."""

_WRITING = "writing-"
_ROW_BYTES = 4 * N_FEATURES
_WORDS = _ROW_BYTES // 8
_log = logging.getLogger(__name__)


def cache_dir() -> Path:
    """Return the directory of the cache: ``$XDG_CACHE_HOME/fox``, else ``~/.cache/fox``.

    Raises
    ------
    FileNotFoundError
        That variable is not set and the user has no home directory, as in some containers.
    """
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "fox"
    try:
        return Path.home() / ".cache" / "fox"
    except RuntimeError as error:
        raise FileNotFoundError("there is no home directory; set XDG_CACHE_HOME") from error


def load_or_build(inputs: Inputs) -> F32:
    """Return the feature table of `inputs`, from the cache if a sound copy is there.

    Parameters
    ----------
    inputs : Inputs
        The series of T bars.

    Returns
    -------
    float32 array (T, 86)
        Read-only and memory-mapped: building it takes little memory beside the inputs. If the cache
        directory cannot be written, a warning is logged and the table lives in memory only.
    """
    try:
        path = cache_dir() / f"features-{content_hash(inputs)}.npy"
        table = _load(path, len(inputs))
        if table is not None:
            return table
        _store(path, inputs)
        return _map(path, len(inputs))
    except OSError as error:
        _log.warning("The feature cache cannot be written (%s); features stay in memory.", error)
        return evaluate(inputs)


def content_hash(inputs: Inputs) -> str:
    """Return a hash of everything that a feature table depends on."""
    digest = hashlib.sha256(_code_hash().encode())
    columns = {name: getattr(inputs, name) for name in _SERIES} | dict(sorted(inputs.extra.items()))
    digest.update(f"{inputs.timezone}\0{list(columns)}\0{len(inputs)}".encode())
    for column in (*columns.values(), *inputs.observed):
        digest.update(b"none" if column is None else np.ascontiguousarray(column).data)
    return digest.hexdigest()[:_NAME_DIGITS]


_NAME_DIGITS = 40
_SERIES = ("ts", "session_start", "open", "high", "low", "close", "volume", "atr", "mean_volume")


@functools.cache
def _code_hash() -> str:
    """Return a hash of the formulas: the source of this package and the version of TA-Lib."""
    digest = hashlib.blake2b(importlib.metadata.version("TA-Lib").encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _load(path: Path, length: int) -> F32 | None:
    """Return the table at `path`, or None if there is none, it cannot be read, or it is damaged."""
    try:
        _check(path, length)
        table = _map(path, length)
    except OSError:  # if the directory is at fault, writing the table will say so
        return None
    except ValueError as error:
        _log.warning("The cached features %s cannot be used (%s) and are built again.", path, error)
        return None
    with contextlib.suppress(OSError):  # a directory that may only be read is as good
        os.utime(path)
    return table


def _map(path: Path, length: int) -> F32:
    """Return the table as a plain view of the map, so that it is pickled and copied like any other array."""
    offset = len(_header(length))
    return np.asarray(np.memmap(path, dtype=np.float32, mode="r", offset=offset, shape=(length, N_FEATURES)))


def _check(path: Path, length: int) -> None:
    """Raise ValueError unless the file holds a whole, undamaged table of `length` rows."""
    header = _header(length)
    starts = range(0, length, ROWS)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != len(header) + (length + len(starts)) * _ROW_BYTES or file.read(len(header)) != header:
            raise ValueError(f"it is not a table of {length} bars")
        file.seek(-len(starts) * _ROW_BYTES, os.SEEK_END)
        stored = np.frombuffer(file.read(), dtype=np.uint64).reshape(len(starts), _WORDS)

    def is_sound(first: int) -> bool:
        # Read, not mapped: pages that are only checked must not count as memory of this process.
        rows = np.empty((min(ROWS, length - first), N_FEATURES), dtype=np.float32)
        with path.open("rb", buffering=0) as file:
            file.seek(len(header) + first * _ROW_BYTES)
            whole = file.readinto(rows.data.cast("B")) == rows.nbytes
        return whole and bool((_checksum(rows) == stored[first // ROWS]).all())

    if not all(each(is_sound, starts, length)):
        raise ValueError("a checksum differs")


def _checksum(rows: F32) -> NDArray[np.uint64]:
    """Return the sums of the 64-bit words of a run of rows, word by word of the row, modulo 2^64.

    Every row is weighted by an odd number of its own, so that a flipped bit always shows, and so do blanked or
    misplaced rows unless they hold the same; at a third of the time of CRC-32.
    """
    weights = np.arange(1, 2 * len(rows), 2, dtype=np.uint64)
    sums: NDArray[np.uint64] = np.einsum("i,ij->j", weights, rows.view(np.uint64))
    return sums


def _header(length: int) -> bytes:
    """Return the header of an ``.npy`` file with a table of `length` rows."""
    header = io.BytesIO()
    description = {"descr": "<f4", "fortran_order": False, "shape": (length, N_FEATURES)}
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()


def _store(path: Path, inputs: Inputs) -> None:
    """Build a table into a file so that no reader ever sees a part of it, and limit the cache's size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_WRITING, suffix=".npy")
    try:
        with os.fdopen(handle, "wb") as file:
            _write(file, inputs)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    _prune(path)


def _write(file: BinaryIO, inputs: Inputs) -> None:
    header = _header(len(inputs))
    checksums = np.zeros((len(range(0, len(inputs), ROWS)), _WORDS), dtype=np.uint64)
    one_at_a_time = threading.Lock()

    def write(first: int, rows: F32) -> None:
        checksums[first // ROWS] = _checksum(rows)
        with one_at_a_time:
            file.seek(len(header) + first * _ROW_BYTES)
            file.write(rows.data)

    file.write(header)
    stream(inputs, write)
    file.seek(0, os.SEEK_END)
    file.write(checksums.tobytes())


def _prune(newest: Path) -> None:
    """Delete the least recently used tables beyond the limit, and files that a killed writer left.

    A table that is mapped stays readable.
    """
    for path in newest.parent.glob(f"{_WRITING}*.npy"):
        with contextlib.suppress(FileNotFoundError):  # finished or deleted by another process
            if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                path.unlink()
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
