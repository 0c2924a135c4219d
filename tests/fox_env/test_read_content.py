"""Files as bytes: what is unpacked, with how much memory, and what is refused."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from market_files import GOOD, HEADER, MINUTE, T0, put

from fox_env.errors import ConfigError, DataError
from fox_env.readers import list_symbols, read_bars, read_symbols
from fox_env.reading import content

FOUR = [T0 + i * MINUTE for i in range(4)]

FOUR_TIMES = b"a"
for _ in range(4):
    FOUR_TIMES = gzip.compress(FOUR_TIMES, mtime=0)


def archive(members: dict[str, bytes], **options: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, **options) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "pack",
    [
        gzip.compress,
        zstandard.compress,
        lambda data: gzip.compress(data[:40]) + gzip.compress(data[40:]),
        lambda data: zstandard.compress(data[:40]) + zstandard.compress(data[40:]),
        lambda data: zstandard.compress(gzip.compress(data)),
        lambda data: archive({"bars.csv": data}),
        lambda data: archive({"data/bars.csv.gz": gzip.compress(data)}),
        lambda data: archive({"bars.csv": data, "README.txt": b"Made by hand", "metadata.json": b"{}"}),
        lambda data: archive({"bars.txt": data, "metadata.json": b"{}"}),
    ],
)
def test_what_packs_a_file_is_told_by_content_and_undone(tmp_path: Path, pack: Any) -> None:
    assert read_bars(put(tmp_path, pack(GOOD.encode()), "wrong.parquet")).ts.tolist() == FOUR


def test_members_of_an_archive_without_an_instrument_of_their_own_are_instruments(tmp_path: Path) -> None:
    path = put(
        tmp_path, archive({"ESH4.csv": GOOD.encode(), "ESM4.csv": GOOD.replace("1.5", "1.25").encode()})
    )
    assert list_symbols(path) == ["ESH4", "ESM4"]
    assert read_bars(path, symbol="ESM4").close[0] == 1.25
    assert [bars.close[0] for bars in read_symbols(path).values()] == [1.5, 1.25]


def test_files_that_are_left_out_of_an_archive_are_named_on_the_bars(tmp_path: Path) -> None:
    bars = read_bars(
        put(tmp_path, archive({"bars.csv": GOOD.encode(), "README.txt": b"Made by hand"})), label="close"
    )
    assert bars.repairs == ("README.txt in the archive left out",)


@pytest.mark.parametrize(
    "pack",
    [gzip.compress, zstandard.compress, lambda data: archive({"bars.csv": data})],
    ids=["gzip", "zstd", "zip"],
)
def test_bombs_are_refused_in_little_memory(tmp_path: Path, pack: Any) -> None:
    path = put(tmp_path, pack(bytes(150_000_000)))
    code = (
        "import resource, sys, fox_env.readers as r\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: r.read_bars(sys.argv[1])\n"
        "except r.DataError as error: print(error)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    message, growth = run.stdout.splitlines()
    assert "unpacks to more than 67,108,864 bytes" in message
    assert int(growth) < 300


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (archive({"bars.csv": GOOD.encode()})[:-30], "the zip archive is cut short or damaged"),
        (archive({}), "the zip archive holds no file"),
        (archive({"xl/workbook.xml": b"<a/>"}), "is an Excel workbook"),
        (archive({"a.zip": archive({"bars.csv": GOOD.encode()})}), "is an archive within an archive"),
        (archive({"bars.csv": b""}), "/bars.csv: the file is empty"),
        (gzip.compress(GOOD.encode(), mtime=0)[:60], "the gzip data are cut short or damaged"),
        (zstandard.compress(GOOD.encode())[:-4], "the Zstandard data are cut short or damaged"),
        (FOUR_TIMES, "is compressed more than twice"),
        (
            b"\x51\x2a\x4d\x18\x08\x00\x00\x00DBZ\x01abcd",
            "is a DBZ file, the format before DBN; convert it with",
        ),
        (b"\0" * 257 + b"ustar\x0000", "is a tar archive, which is not read; unpack it"),
        (b"BZh91AY", "is bzip2 data, which is not read; unpack them"),
        (b"\xfd7zXZ\x00", "is xz data, which is not read; unpack them"),
        (b"7z\xbc\xaf\x27\x1c", "is a 7-Zip archive"),
        (b"\x89HDF\r\n", "is an HDF5 file"),
        (b"%PDF-1.7", "is a PDF document"),
        (b"<!DOCTYPE html><html></html>", "is a web page, which is not read; fetch the data file itself"),
        (b'[{"time": 1, "open": 2}]', "is JSON, which is not read; write a table"),
        (b"\x01\x02\x03 binary", "holds the control character 0x01, so this is not a text file"),
    ],
)
def test_what_is_not_read_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    path = put(tmp_path, data)
    with pytest.raises(DataError) as caught:
        read_bars(path)
    assert message in str(caught.value) and str(caught.value).startswith(str(path))


def test_an_encrypted_member_is_named(tmp_path: Path) -> None:
    data = bytearray(archive({"bars.csv": GOOD.encode()}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.find(signature) + offset] |= 1
    with pytest.raises(DataError, match=r"bars\.csv: is encrypted; unpack it first"):
        read_bars(put(tmp_path, bytes(data)))


def test_an_archive_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAX_MEMBERS", 3)
    path = put(tmp_path, archive({f"{i}.csv": GOOD.encode() for i in range(4)}))
    with pytest.raises(DataError, match="holds more than 3 files"):
        read_bars(path)


def test_a_missing_file_a_directory_and_a_device_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file; check the path"):
        read_bars(tmp_path / "absent.csv")
    with pytest.raises(DataError, match="is a directory; name a file in it"):
        read_bars(tmp_path)
    with pytest.raises(DataError, match="is not a regular file"):
        read_bars("/dev/zero")
    with pytest.raises(DataError, match="the file cannot be read"):
        read_bars("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_a_missing_permission_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, GOOD)
    path.chmod(0)
    with pytest.raises(DataError, match="the file cannot be read: Permission denied; check"):
        read_bars(path)


def test_an_error_of_the_file_system_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, GOOD)

    def refuse(self: Path, *arguments: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="the file cannot be read: Permission denied; check the path and"):
        read_bars(path)


def test_a_file_that_grows_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, GOOD)
    opened = Path.open

    def grow(self: Path, *arguments: Any) -> Any:
        with opened(self, "ab") as file:
            file.write(b"1715249040,1,2,0.5,1.5,7\n")
        return opened(self, *arguments)

    monkeypatch.setattr(Path, "open", grow)
    with pytest.raises(DataError, match="the file changed while it was read; wait until it is complete"):
        read_bars(path)


@pytest.mark.slow
def test_five_million_bars_are_read_in_less_than_two_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    with path.open("w") as file:
        file.write(HEADER)
        for block in range(50):
            start = 1_150_000_000 + 60 * 100_000 * block
            file.writelines(f"{start + 60 * i},5000.25,5001.25,4999.75,5000.50,{i}\n" for i in range(100_000))
    code = (
        "import resource, sys, fox_env.readers as r\n"
        "print(len(r.read_bars(sys.argv[1])), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows, peak = map(int, run.stdout.split())
    assert rows == 5_000_000 and peak < 2_000


def test_zstandard_data_without_its_package_name_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, zstandard.compress(GOOD.encode()))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError, match=r"need the package zstandard; install fox-futures\[data\]"):
        read_bars(path)
