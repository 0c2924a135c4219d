"""Checkpoint directories: written whole or not at all, readable without pickle.

A checkpoint is a directory of ``state.json`` (plain values), ``config.toml`` and safetensors files. It is
written beside its final name, synced to the disk and renamed, so a kill at any moment leaves the previous one
usable.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from fox_env import Market
from fox_env.errors import FoxError

__all__ = [
    "CheckpointError",
    "CheckpointStore",
    "atomic_directory",
    "batch_fingerprint",
    "is_checkpoint",
    "market_fingerprint",
    "read_arrays",
    "read_state",
    "require_same",
    "write_arrays",
    "write_state",
]

Arrays = dict[str, npt.NDArray[Any]]

FORMAT = 1
_TRADED = (
    "symbol", "tick_size", "multiplier", "fee_per_side", "fee_rate", "maker_fee", "initial_margin",
    "maintenance_margin", "currency", "timezone", "session",
)  # fmt: skip
"""Fields of a contract that a run depends on; the others say where its numbers come from."""

STATE = "state.json"


class CheckpointError(FoxError):
    """A checkpoint that is missing, damaged, or does not fit the data or the agent."""


@contextmanager
def atomic_directory(target: Path) -> Iterator[Path]:
    """A temporary directory that becomes ``target`` when the block ends without an exception.

    An older checkpoint at ``target`` is replaced; anything else there is left alone.

    Raises
    ------
    CheckpointError
        If ``target`` exists and is no checkpoint.
    """
    target = Path(os.path.abspath(target))
    previous = _previous(target)
    if (
        target.exists()
        and not (target / STATE).is_file()
        and not (target.is_dir() and not any(target.iterdir()))
    ):
        raise CheckpointError(f"{target} exists and is no checkpoint; give another directory to save to")
    temporary = target.with_name(f".{target.name}.tmp-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for path in (*temporary.iterdir(), temporary):
            _sync(path)
        if target.exists():
            shutil.rmtree(previous, ignore_errors=True)
            os.rename(target, previous)
        os.rename(temporary, target)
        _sync(target.parent)
        shutil.rmtree(previous, ignore_errors=True)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def write_state(directory: Path, state: Mapping[str, Any]) -> None:
    """Write the plain values of a checkpoint."""
    text = json.dumps({"format": FORMAT, **state}, indent=1, allow_nan=True)
    (directory / STATE).write_text(text, encoding="utf-8")


def read_state(directory: Path) -> dict[str, Any]:
    """Read the plain values of a checkpoint; CheckpointError when there are none or they are damaged."""
    path = _existing(directory) / STATE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"no checkpoint in {directory}; give the directory that holds {STATE}"
        ) from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"damaged checkpoint file {path}: {error}; use another checkpoint") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not in checkpoint format {FORMAT}; use the version of Fox that wrote it"
        )
    return state


def is_checkpoint(directory: Path) -> bool:
    """Whether `read_state` would find a checkpoint in ``directory``, whole or damaged."""
    return (_existing(directory) / STATE).is_file()


def write_arrays(directory: Path, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays to ``name.safetensors``."""
    save_file({key: np.asarray(a, order="C") for key, a in arrays.items()}, directory / f"{name}.safetensors")


def read_arrays(directory: Path, name: str) -> Arrays:
    """Read the arrays of ``name.safetensors``; CheckpointError when the file is missing or damaged."""
    path = _existing(directory) / f"{name}.safetensors"
    try:
        arrays: Arrays = load_file(path)
    except FileNotFoundError:
        raise CheckpointError(f"the checkpoint {directory} has no {path.name}") from None
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"damaged checkpoint file {path}: {error}; use another checkpoint") from None
    return arrays


def require_same(what: str, saved: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """CheckpointError naming the first field in which a checkpoint and the present ``what`` differ."""
    for key in sorted(saved.keys() | current.keys()):
        a, b = saved.get(key), current.get(key)
        if json.dumps(a) != json.dumps(b):  # tuples and lists are the same here
            raise CheckpointError(f"the checkpoint's {what} differs in {key}: saved {a!r}, now {b!r}")


def market_fingerprint(market: Market) -> dict[str, Any]:
    """What identifies the data of a market: its contract's money rules, length, and a digest of bars and features."""
    bars, digest = market.bars, hashlib.sha256()
    prices = (bars.open, bars.high, bars.low, bars.close, bars.volume, bars.roll_gap)
    for array in (bars.ts, *prices, bars.gap, bars.session_end, market.features):
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    contract = {name: getattr(market.contract, name) for name in _TRADED}
    return {"contract": contract, "bars": len(market), "digest": digest.hexdigest()}


def batch_fingerprint(markets: Sequence[Market], market_of: npt.NDArray[Any]) -> dict[str, Any]:
    """What identifies the data of a batch: that of its market, or of every market and who trades which."""
    prints = [market_fingerprint(market) for market in markets]
    if len(prints) == 1:
        return prints[0]
    several = {f"{key} of market {i}": value for i, one in enumerate(prints) for key, value in one.items()}
    return several | {"market_of": hashlib.sha256(np.asarray(market_of, np.int64).tobytes()).hexdigest()}


class CheckpointStore:
    """The checkpoints of a run: the last one and the best one, found through ``index.json``.

    Parameters
    ----------
    root : Path
        Directory of the checkpoints; created on the first save.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def entry(self, name: str) -> dict[str, Any] | None:
        """Directory name, ``step`` and ``score`` of the ``"last"`` or ``"best"`` checkpoint, or None."""
        return self._index().get(name)

    def find(self, name: str) -> Path | None:
        """Directory of the checkpoint called ``"last"`` or ``"best"``, or None."""
        entry = self.entry(name)
        return self.root / entry["directory"] if entry else None

    def save(self, name: str, step: int, write: Callable[[Path], None], score: float | None = None) -> None:
        """Let ``write`` fill a new directory, then point ``name`` at it and delete what nothing points at."""
        index = self._index()
        directory = f"{name}-{step:012d}"
        if name in index and index[name]["directory"] == directory:
            directory += "-again"  # never overwrite the checkpoint that the index points at
        write(self.root / directory)
        index[name] = {"directory": directory, "step": step, "score": score}
        temporary = self.root / ".index.json"
        temporary.write_text(json.dumps(index), encoding="utf-8")
        _sync(temporary)
        os.replace(temporary, self.root / "index.json")
        _sync(self.root)
        kept = {entry["directory"] for entry in index.values()}
        for path in self.root.iterdir():
            if path.is_dir() and path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def _index(self) -> dict[str, dict[str, Any]]:
        path = self.root / "index.json"
        if not path.exists():
            return {}
        try:
            index: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
            for entry in index.values():
                entry["directory"] = Path(entry["directory"]).name  # a bare name: never outside the root
        except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
            raise CheckpointError(f"damaged checkpoint index {path}: {error}; use another run") from None
        return index


def _previous(target: Path) -> Path:
    return target.with_name(f".{target.name}.previous")


def _existing(directory: Path) -> Path:
    """``directory``, or its predecessor when a save was killed between the two renames."""
    previous = _previous(Path(os.path.abspath(directory)))
    return previous if not directory.exists() and previous.exists() else directory


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
