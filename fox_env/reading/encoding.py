"""Bytes to clean text: byte-order marks, code pages, line ends, and characters that no table has."""

from __future__ import annotations

import re

from fox_env.errors import DataError
from fox_env.reading.names import role_of

HEAD_BYTES = 65_536
"""The part of a text that is looked at to tell what it is; no header line is longer."""

_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def line_of(data: bytes, position: int) -> int:
    """Return the line, from 1, in which a position of a text lies."""
    return data.count(b"\n", 0, position) + 1


def clean_utf8(data: bytes, source: str) -> bytes:
    r"""Return a text as UTF-8 without a byte-order mark and with ``\\n`` as the only line end."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            data = data.decode("utf-16").encode()
        except UnicodeError:
            raise DataError(f"{source}: the UTF-16 text is damaged; save the file as UTF-8.") from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.isascii():
        data = _from_encoding(data, source)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if (position := data.find(b"\0")) >= 0:
        raise DataError(
            f"{source}: line {line_of(data, position)} holds a NUL byte, so this is not a clean text file; "
            "export it again."
        )
    if (control := _CONTROL.search(data, 0, HEAD_BYTES)) is not None:
        raise DataError(
            f"{source}: line {line_of(data, control.start())} holds the control character "
            f"{control.group()[0]:#04x}, so this is not a text file; check what it is."
        )
    return data


def _from_encoding(data: bytes, source: str) -> bytes:
    """Return UTF-8 from UTF-8, or from the code pages of Windows whose words are known as column names."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        first, start = data[:4_096].partition(b"\n")[0], error.start
    else:
        return data
    for encoding in ("cp1252", "gb18030"):
        try:
            header = first.decode(encoding)
            named = [name for name in re.split(r"[,;\t|]", header) if not name.isascii() and role_of(name)]
            if named or (encoding == "gb18030" and _is_chinese(data)):
                return data.decode(encoding).encode()
        except UnicodeDecodeError:
            continue
    line = line_of(data, start)
    raise DataError(f"{source}: line {line} is not UTF-8 text; save the file as UTF-8.") from None


def _is_chinese(data: bytes) -> bool:
    """Whether bytes that are not UTF-8 are GB18030: every character outside ASCII is a common Chinese one."""
    try:
        foreign = re.sub(r"[\x00-\x7f]", "", data.decode("gb18030"))
    except UnicodeDecodeError:
        return False
    common = re.findall(r"[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]", foreign)
    return len(common) >= 4 and len(common) == len(foreign)
