"""Who may work in a directory: one process at a time, and none in a directory of something else."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from fox_env.errors import ConfigError

__all__ = ["require_own", "run_lock"]

_NAME = ".lock"


@contextmanager
def run_lock(directory: Path) -> Iterator[None]:
    """Hold ``directory`` for this process.

    The operating system drops the lock of a process that ends in any way, so that a file left behind by a killed run
    locks nothing.

    Raises
    ------
    ConfigError
        While another process holds it; the sentence names that process.
    """
    path = directory / _NAME
    handle = _acquire(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: nobody can have locked this file
        os.close(handle)


def require_own(directory: Path, mark: str, beginnings: Sequence[str], option: str) -> None:
    """Refuse a directory that holds something else than what is to be written there; an absent one holds nothing.

    Parameters
    ----------
    directory : Path
        Of a run or a comparison, perhaps a new one.
    mark : str
        Pattern, relative to `directory`, of a file by which it is known to be one already, whatever else lies in it.
    beginnings : Sequence[str]
        Patterns of the names that a process ended before it wrote the mark may have left.
    option : str
        Where the user gave the directory.

    Raises
    ------
    ConfigError
        Naming the first foreign entry.
    """
    if not directory.is_dir() or any(directory.glob(mark)):
        return
    for name in sorted(path.name for path in directory.iterdir()):
        if not any(fnmatch(name, pattern) for pattern in (_NAME, *beginnings)):
            raise ConfigError(
                f"{directory} holds {name} of something else; give {option} a new or empty directory"
            )


def _acquire(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 32).decode(errors="replace").strip() or "of unknown number"
            os.close(handle)
            raise ConfigError(
                f"process {owner} is training in {path.parent}; wait for it, stop it, or give another directory"
            ) from None
        if _is_at(handle, path):
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            return handle
        os.close(handle)  # its last owner removed it between the opening and the locking


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
