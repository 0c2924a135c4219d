"""The bytes of a market-data file: its kind by content, unpacked with bounded memory."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import Literal, NoReturn

from fox_env.errors import ConfigError, DataError

ContentKind = Literal["text", "parquet", "arrow", "dbn"]

MAX_BYTES = 2 * 1024**3
"""Largest content that is read, after unpacking."""

MAX_RATIO = 100
"""Largest ratio of unpacked to packed size beyond `FREE_BYTES`: market data pack 3 to 30 times."""

FREE_BYTES = 64 * 1024**2
MAX_MEMBERS = 5_000
_CHUNK = 1024**2
_SIDE_FILES = ((".json", ".md", ".pdf", ".html", ".xml", "readme", "license"), (".txt",))
"""Descriptions and reports that vendors put beside the data."""

_FOREIGN = (
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it"),
    (b"Rar!", "a RAR archive", "unpack it"),
    (b"BZh", "bzip2 data", "unpack them"),
    (b"\xfd7zXZ", "xz data", "unpack them"),
    (b"\x89HDF", "an HDF5 file", "write the table as Parquet or CSV"),
    (b"\x93NUMPY", "a NumPy file", "build the bars with Bars.from_arrays"),
    (b"FEA1", "a Feather file of version 1", "write it as Feather version 2 or Parquet"),
    (b"Obj\x01", "an Avro file", "write it as Parquet or CSV"),
    (b"ORC", "an ORC file", "write it as Parquet or CSV"),
    (b"SQLite format", "an SQLite database", "export the table as CSV"),
    (b"SCID", "a binary Sierra Chart file", "export it as text in Sierra Chart"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook", "save the sheet as CSV"),
    (b"%PDF", "a PDF document", "fetch the data as CSV"),
)  # fmt: skip
_FOREIGN_TEXT = (
    (b"<!doctype", "a web page", "fetch the data file itself"),
    (b"<html", "a web page", "fetch the data file itself"),
    (b"<?xml", "an XML document", "fetch the data as CSV"),
    (b"{", "JSON", "write a table as CSV or Parquet"),
    (b"[", "JSON", "write a table as CSV or Parquet"),
)


@dataclass(frozen=True)
class Content:
    """The unpacked bytes of a file or of one member of an archive.

    Attributes
    ----------
    source : str
        What messages call it: the path, with the member's name for archives.
    name : str
        Name of the file or member, which some vendors use for the date and the contract.
    data : bytes
    kind : {"text", "parquet", "arrow", "dbn"}
    member : bool
        Whether it comes from an archive with several members.
    note : str
        Says which files of the archive are left out.
    """

    source: str
    name: str
    data: bytes
    kind: ContentKind
    member: bool = False
    note: str = ""


def read_contents(path: Path) -> Iterator[Content]:
    """Yield the contents of a file, one for each member of a zip archive.

    Raises
    ------
    DataError
        The file cannot be read, is damaged, of a foreign kind, or unpacks to more than is sensible.
    """
    source = str(path).replace("\n", "\\n")  # a message is one line
    data = _file_bytes(path, source)
    if data.startswith(b"PK\x03\x04") or data.startswith(b"PK\x05\x06"):
        yield from _zip_contents(data, source)
    else:
        yield _recognise(data, source, path.name)


def _file_bytes(path: Path, source: str) -> bytes:
    try:
        before = path.stat()
        if path.is_dir():
            raise DataError(f"{source}: is a directory; name a file in it.")
        if not S_ISREG(before.st_mode):
            raise DataError(f"{source}: is not a regular file; write the data to a file first.")
        if before.st_size > MAX_BYTES:
            raise DataError(f"{source}: holds more than {MAX_BYTES:,} bytes; split it.")
        with path.open("rb") as file:
            data = file.read(before.st_size + 1)
        changed = len(data) != before.st_size or path.stat().st_mtime_ns != before.st_mtime_ns
    except FileNotFoundError:
        raise DataError(f"{source}: there is no such file; check the path.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(
            f"{source}: the file cannot be read: {reason}; check the path and its permissions."
        ) from error
    if changed:
        raise DataError(f"{source}: the file changed while it was read; wait until it is complete.")
    return data


def _recognise(data: bytes, source: str, name: str, member: bool = False, depth: int = 0) -> Content:
    """Unpack what is compressed and tell the kind of what is inside."""
    if depth > 2:
        raise DataError(f"{source}: is compressed more than twice; unpack it first.")
    if data.startswith(b"\x1f\x8b"):
        return _recognise(_gunzip(data, source), source, name.removesuffix(".gz"), member, depth + 1)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return _recognise(_unzstd(data, source), source, name.removesuffix(".zst"), member, depth + 1)
    if data[1:4] == b"\x2a\x4d\x18" and 0x50 <= data[0] <= 0x5F:
        _refuse_skippable(data, source)
    if not data.strip():
        raise DataError(f"{source}: the file is empty; give a file with rows.")
    kind: ContentKind = "text"
    if data.startswith(b"PAR1"):
        kind = "parquet"
    elif data.startswith(b"ARROW1") or data.startswith(b"\xff\xff\xff\xff"):
        kind = "arrow"
    elif data.startswith(b"DBN"):
        kind = "dbn"
    else:
        _refuse_foreign(data, source)
    return Content(source, name, data, kind, member)


def _refuse_foreign(data: bytes, source: str) -> None:
    start = data[:512].lstrip().removeprefix(b"\xef\xbb\xbf").lower()
    for magic, what, mend in _FOREIGN:
        if data.startswith(magic):
            raise DataError(f"{source}: is {what}, which is not read; {mend}.")
    for magic, what, mend in _FOREIGN_TEXT:
        if start.startswith(magic):
            raise DataError(f"{source}: is {what}, which is not read; {mend}.")
    if data[257:262] == b"ustar":
        raise DataError(f"{source}: is a tar archive, which is not read; unpack it.")
    if data.startswith(b"PK\x03\x04"):
        raise DataError(f"{source}: is an archive within an archive; unpack the outer one.")


def _refuse_skippable(data: bytes, source: str) -> NoReturn:
    if b"DBZ" in data[:64]:
        raise DataError(
            f"{source}: is a DBZ file, the format before DBN; convert it with Databento's command-line tool "
            "`dbn`, or request the data again as DBN."
        )
    raise DataError(f"{source}: starts with a skippable Zstandard frame; unpack the file first.")


def _limit(packed: int) -> int:
    """Return how many bytes a packed content may unpack to."""
    return min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * packed))


def _collect(read: Callable[[int], bytes], limit: int, source: str) -> bytes:
    """Read to the end in chunks; stop at once where more than the limit comes."""
    whole = io.BytesIO()
    while chunk := read(_CHUNK):
        if whole.tell() + len(chunk) > limit:
            raise DataError(
                f"{source}: unpacks to more than {limit:,} bytes, far more than market data do; unpack it "
                "yourself and split it if it is sound."
            )
        whole.write(chunk)
    return whole.getvalue()


def _gunzip(data: bytes, source: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return _collect(stream.read, _limit(len(data)), source)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{source}: the gzip data are cut short or damaged; fetch the file again.") from None


def _unzstd(data: bytes, source: str) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise ConfigError(
            f"{source}: Zstandard data need the package zstandard; install fox-futures[data]."
        ) from None
    frames = zstandard.ZstdDecompressor(max_window_size=2**27)
    unpacker = frames.decompressobj()
    position = 0

    def read(_: int) -> bytes:
        """Feed little at a time, as a kilobyte can unpack to 32 MB, until something comes out."""
        nonlocal unpacker, position
        while position < len(data):
            if unpacker.eof:
                unpacker = frames.decompressobj()
            piece = data[position : position + 1024]
            chunk = unpacker.decompress(piece)
            position += len(piece) - len(unpacker.unused_data)
            if chunk:
                return chunk
        return b""

    try:
        unpacked = _collect(read, _limit(len(data)), source)
        if not unpacker.eof:
            raise EOFError
    except (EOFError, zstandard.ZstdError):
        raise DataError(
            f"{source}: the Zstandard data are cut short or damaged; fetch the file again."
        ) from None
    return unpacked


def _without_side_files(members: list[zipfile.ZipInfo]) -> tuple[list[zipfile.ZipInfo], str]:
    """Leave out what vendors put beside the data; text files count as data where there are no others."""
    left_out: list[str] = []
    for suffixes in _SIDE_FILES:
        data = [item for item in members if _ending(item.filename) not in suffixes]
        if data:
            left_out += [item.filename for item in members if item not in data]
            members = data
    return members, ", ".join(left_out) + " in the archive left out" if left_out else ""


def _ending(name: str) -> str:
    """Return the suffix of a file, or all of its name where it has none."""
    path = Path(name.lower())
    return path.suffix or path.name


def _zip_contents(data: bytes, source: str) -> Iterator[Content]:
    damaged = DataError(f"{source}: the zip archive is cut short or damaged; fetch the file again.")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error):
        raise damaged from None
    members = [item for item in archive.infolist() if not item.is_dir()]
    members = [item for item in members if not item.filename.startswith("__MACOSX/")]
    if any(item.filename.startswith(("xl/", "[Content_Types]")) for item in members):
        raise DataError(f"{source}: is an Excel workbook, which is not read; save the sheet as CSV.")
    if not members:
        raise DataError(f"{source}: the zip archive holds no file; fetch the file again.")
    members, note = _without_side_files(members)
    if len(members) > MAX_MEMBERS:
        raise DataError(f"{source}: holds more than {MAX_MEMBERS:,} files; unpack those you need.")
    left = _limit(len(data))
    for item in members:
        name = f"{source}/{item.filename}"
        if item.flag_bits & 1:
            raise DataError(f"{name}: is encrypted; unpack it first.")
        try:
            with archive.open(item) as file:
                content = _collect(file.read, left, name)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, struct.error) as error:
            if isinstance(error, DataError):
                raise
            raise damaged from None
        except NotImplementedError:
            raise DataError(f"{name}: is packed by a method that is not read; unpack it first.") from None
        left -= len(content)
        found = _recognise(content, name, Path(item.filename).name, member=len(members) > 1, depth=1)
        yield replace(found, note=note)
