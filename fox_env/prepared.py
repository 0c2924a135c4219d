"""Prepared market files: bars as Parquet with their contract and where they came from, written in one piece."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fox_env.bars import Bars
from fox_env.contracts import ContractSpec
from fox_env.errors import ConfigError, DataError
from fox_env.readers import write_bars

__all__ = ["Source", "stored_contract", "stored_provenance", "write_prepared"]

_CONTRACT, _PROVENANCE = "fox_contract", "fox_provenance"
_PARQUET = b"PAR1"


@dataclasses.dataclass(frozen=True)
class Source:
    """A file from which bars were read, as it was then.

    Attributes
    ----------
    file : str
        Path as given.
    bytes : int
        Size.
    sha256 : str
        Digest of the content, hexadecimal.
    modified_ns : int
        Time of the last change.
    """

    file: str
    bytes: int
    sha256: str
    modified_ns: int

    @classmethod
    def of(cls, path: str | Path) -> Source:
        """Take the digest of a file.

        Raises
        ------
        DataError
            The file cannot be read.
        """
        try:
            with open(path, "rb") as stream:
                status = os.fstat(stream.fileno())
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"{path}: the file cannot be read: {error.strerror or error}.") from error
        return cls(os.fspath(path), status.st_size, digest, status.st_mtime_ns)

    def check_unchanged(self) -> None:
        """Raise DataError if the file is not the one whose digest was taken."""
        status = os.stat(self.file)
        if (status.st_size, status.st_mtime_ns) != (self.bytes, self.modified_ns):
            raise DataError(f"{self.file}: the file changed while it was read; wait until it is complete.")


def write_prepared(
    bars: Bars,
    path: str | Path,
    contract: ContractSpec | None = None,
    sources: Sequence[Source] = (),
    hints: Mapping[str, Any] | None = None,
) -> None:
    """Write bars for training: :func:`fox_env.read_bars` reads them back unchanged and without hints.

    The file appears complete or not at all. The same bars and sources give the same metadata.

    Parameters
    ----------
    bars : Bars
    path : str or Path
        A Parquet file; replaced if it exists.
    contract : ContractSpec, optional
        Kept in the file (:func:`stored_contract`).
    sources : sequence of Source
        Files that the bars came from.
    hints : mapping, optional
        Options with which they were read.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    provenance = {
        "sources": [{"file": s.file, "bytes": s.bytes, "sha256": s.sha256} for s in sources],
        "hints": dict(hints or {}),
        "repairs": list(bars.repairs),
        "rows": len(bars),
        "versions": {name: version(name) for name in ("fox-futures", "numpy", "polars")},
    }
    metadata = {_PROVENANCE: json.dumps(provenance)}
    if contract is not None:
        metadata[_CONTRACT] = json.dumps(dataclasses.asdict(contract))
    write_bars(bars, path, metadata)


def stored_contract(source: object) -> ContractSpec | None:
    """Return the contract kept in a prepared file; None for any other file.

    Parameters
    ----------
    source : path, or list or tuple of paths
        As for :func:`fox_env.read_bars`; of several files those that hold no contract do not count, and frames hold
        none.

    Raises
    ------
    DataError
        A file holds a contract that this version cannot read, or two files hold different ones.
    """
    paths = source if isinstance(source, list | tuple) else [source]
    found = [(path, _contract(path)) for path in paths if isinstance(path, str | os.PathLike)]
    kept = [(path, spec) for path, spec in found if spec is not None]
    for path, spec in kept[1:]:
        if spec != kept[0][1]:
            raise DataError(
                f"{path}: holds the contract {spec.symbol}, {kept[0][0]} the contract {kept[0][1].symbol}"
                f"{' with other terms' if spec.symbol == kept[0][1].symbol else ''}; give files of one contract."
            )
    return kept[0][1] if kept else None


def _contract(path: str | os.PathLike[str]) -> ContractSpec | None:
    text = _metadata(path).get(_CONTRACT)
    if text is None:
        return None
    try:
        return ContractSpec(**json.loads(text))
    except (ValueError, TypeError, ConfigError) as error:
        raise DataError(
            f"{path}: the contract in the file cannot be read ({error}); prepare it again."
        ) from error


def stored_provenance(path: str | Path) -> dict[str, Any] | None:
    """Return where the bars of a prepared file came from; None for any other file.

    Returns
    -------
    dict or None
        ``sources`` (file, bytes, sha256), ``hints``, ``repairs``, ``rows`` and ``versions``.
    """
    text = _metadata(path).get(_PROVENANCE)
    return None if text is None else dict(json.loads(text))


def _metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the key-value metadata of a Parquet file; nothing for other files."""
    import polars as pl

    try:
        with open(path, "rb") as stream:
            if stream.read(len(_PARQUET)) != _PARQUET:
                return {}
        return pl.read_parquet_metadata(Path(path))
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read: {error.strerror or error}.") from error
    except pl.exceptions.PolarsError:
        return {}  # reading the bars says what is wrong with it
