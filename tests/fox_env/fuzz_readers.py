"""Fuzz the readers: damaged look-alikes and real files give bars or one sentence, soon and in little memory.

Run as a script: ``python tests/fox_env/fuzz_readers.py --minutes 10 --seed 1``. A case that fails is written
to ``--save`` (default: the current folder) with its seed; ``fuzz-running.txt`` there holds the seed of the case
that ended or stopped the process, if one did.
"""

from __future__ import annotations

import argparse
import gzip
import io
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import polars as pl
from look_alikes import LOOK_ALIKES
from market_files import SHARED

from fox_env.bars import PRICES, Bars
from fox_env.errors import ConfigError, DataError
from fox_env.readers import read_symbols

SECONDS = 10
"""A file of at most `MAX_ROWS` rows takes well under one second."""

GROWTH_MB = 400
"""Peak memory that one small file may add; the packed bombs of the cases unpack to at most 64 MiB."""

MAX_ROWS = 400
REPAIRS = (
    (),
    (),
    ("sort", "keep_last"),
    ("widen", "drop_non_finite", "drop_zero_price", "sort", "keep_first"),
)


@dataclass(frozen=True)
class Seed:
    """A sound file: its name, bytes and options."""

    name: str
    content: bytes
    options: dict[str, Any]


def seeds(real: bool) -> list[Seed]:
    """Return the look-alikes and, if asked for, the starts of the real files."""
    found = [Seed(kind.file, kind.content, {"tz": "UTC"} | kind.options) for kind in LOOK_ALIKES]
    found += _columnar()
    if not real or not SHARED.exists():
        return found
    for path in sorted(SHARED.glob("*.gz")):
        with gzip.open(path) as file:
            lines = b"".join(line for _, line in zip(range(MAX_ROWS), file, strict=False))
        found.append(Seed(path.name.removesuffix(".gz"), lines, {"tz": "America/New_York"}))
    for path in sorted([*SHARED.glob("lean_raw_zip/*trade.zip"), *SHARED.glob("dbn/*")]):
        found.append(Seed(path.name, path.read_bytes(), {"tz": "UTC"}))
    return found


def _columnar() -> list[Seed]:
    """Return the same bars as Parquet and Arrow."""
    ts = pl.Series(range(0, 60 * 50, 60)).cast(pl.Int64) * 1_000_000 + 1_715_248_800_000_000
    close = [100.0 + i % 7 for i in range(50)]
    frame = pl.DataFrame(
        {"ts": ts.cast(pl.Datetime("us", "UTC")), "open": close, "high": close, "low": close, "close": close}
    )
    found = []
    for name, write in (("bars.parquet", frame.write_parquet), ("bars.arrow", frame.write_ipc)):
        buffer = io.BytesIO()
        write(buffer)
        found.append(Seed(name, buffer.getvalue(), {}))
    return found


def _flip_bits(data: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 20)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _splice(data: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 5)):
        start = rng.randrange(len(data) + 1)
        stop = start + rng.choice((0, 1, 2, 30))
        data[start:stop] = rng.choice(TOKENS) if rng.random() < 0.7 else rng.randbytes(rng.randint(0, 8))
    return bytes(data)


def _truncate(data: bytearray, rng: random.Random) -> bytes:
    return bytes(data[: rng.randrange(len(data))])


def _lines(data: bytearray, rng: random.Random) -> bytes:
    lines = bytes(data).split(b"\n")
    change = rng.choice(("shuffle", "double", "delete", "swap", "header"))
    at = rng.randrange(len(lines))
    if change == "shuffle":
        rng.shuffle(lines)
    elif change == "double":
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif change == "delete":
        del lines[at]
    elif change == "swap":
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, lines[0])
    return b"\n".join(lines)


def _columns(data: bytearray, rng: random.Random) -> bytes:
    mark = rng.choice((b",", b";", b"\t"))
    rows = [line.split(mark) for line in bytes(data).split(b"\n")]
    at, other = rng.randrange(len(rows[0]) + 1), rng.randrange(len(rows[0]) + 1)
    change = rng.choice(("delete", "double", "swap", "fill"))
    for row in rows:
        if max(at, other) >= len(row):
            continue
        if change == "delete":
            del row[at]
        elif change == "double":
            row.insert(at, row[other])
        elif change == "swap":
            row[at], row[other] = row[other], row[at]
        else:
            row[at] = rng.choice(TOKENS)
    return b"\n".join(mark.join(row) for row in rows)


def _cells(data: bytearray, rng: random.Random) -> bytes:
    lines = bytes(data).split(b"\n")
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines))
        mark = max((b",", b";", b"\t"), key=lines[at].count)
        cells = lines[at].split(mark)
        cells[rng.randrange(len(cells))] = rng.choice(TOKENS)
        lines[at] = mark.join(cells)
    return b"\n".join(lines)


def _encode(data: bytearray, rng: random.Random) -> bytes:
    text = bytes(data).decode("utf-8", errors="replace")
    encoding = rng.choice(("utf-16", "utf-16-le", "utf-8-sig", "latin-1", "gb18030", "cp1252"))
    return text.encode(encoding, errors="replace")


def _line_ends(data: bytearray, rng: random.Random) -> bytes:
    ends = (b"\n", b"\r\n", b"\r", b"\n\n", b" \n")
    return b"".join(line + rng.choice(ends) for line in bytes(data).split(b"\n"))


def _marks(data: bytearray, rng: random.Random) -> bytes:
    old, new = (
        rng.choice((b",", b";", b"\t", b".", b"-", b":", b" ")),
        rng.choice((b",", b";", b"\t", b".", b"|", b"")),
    )
    return bytes(data).replace(old, new)


def _pack(data: bytearray, rng: random.Random) -> bytes:
    packed = gzip.compress(bytes(data) * rng.choice((1, 1, 50)))
    return packed if rng.random() < 0.5 else packed[: rng.randrange(1, len(packed))]


TOKENS = (
    b"", b"NaN", b"null", b"-", b"0", b"-1", b"1e400", b"-1e308", b"1,000", b"1.000,5", b'"1,234.5"', b'"', b"\0",
    b"9223372036854775807", b"99999999999999999999", b"3.4028234663852886e+38", b"inf", b"1715248800",
    b"1715248800000000000", b"20240230", b"2024-11-03 01:30:00", b"2024-03-10 02:30:00", b"9999-12-31", b"0001-01-01",
    b"31/12/2024", b"12/31/2024", b"24:00:00", b"10:00:60", b"2024-01-02T10:00:00+25:99", b"\xff\xfe", b"\xe2\x82",
    b"\xb0\xa1", "日期".encode(), b"time", b"open", b"symbol", b"=1+1", b"#", b"{", b"\n", b"\r",
)  # fmt: skip
MUTATIONS: tuple[Callable[[bytearray, random.Random], bytes], ...] = (
    _flip_bits, _splice, _truncate, _lines, _columns, _cells, _encode, _line_ends, _marks, _pack,
)  # fmt: skip


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Damage a file in one to three ways."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if content:
            content = rng.choice(MUTATIONS)(bytearray(content), rng)
    return content


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError where the block takes longer."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check_bars(bars: Bars) -> None:
    """Assert what every user of bars relies on."""
    assert bars.ts.dtype == np.int64 and len(bars) > 0
    assert np.all(np.diff(bars.ts) > 0)
    columns = [getattr(bars, name) for name in PRICES]
    for values in columns:
        assert values.dtype == np.float64 and np.isfinite(values).all()
    assert (bars.high >= np.maximum(bars.open, bars.close)).all()
    assert (bars.low <= np.minimum(bars.open, bars.close)).all()
    if bars.volume is not None:
        assert bars.volume.dtype == np.float64 and (bars.volume >= 0).all() and np.isfinite(bars.volume).all()
    for values in (*columns, bars.session_end, bars.gap, *bars.extra.values()):
        assert values.shape == bars.ts.shape
    assert all(values.dtype == np.float64 for values in bars.extra.values())


def check_case(path: Path, options: dict[str, Any]) -> str:
    """Read a file and assert that it gives bars or one sentence; return which."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with time_limit(SECONDS):
        try:
            read = read_symbols(path, **options)
        except (DataError, ConfigError) as error:
            message = str(error)
            assert message.endswith("."), message
            assert "\n" not in message and len(message) < 1_500, message
            outcome = "refused"
        else:
            for bars in read.values():
                check_bars(bars)
            outcome = "read"
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1_024
    assert growth < GROWTH_MB, f"memory grew by {growth:.0f} MB"
    return outcome


def run_case(sources: list[Seed], seed: int, folder: Path) -> tuple[str, Path, dict[str, Any]]:
    """Make the case of a seed and return its outcome, or "failed: ..." with what was raised."""
    rng = random.Random(seed)
    source = rng.choice(sources)
    path = folder / source.name
    path.write_bytes(mutate(source.content, rng))
    options = dict(source.options, repair=rng.choice(REPAIRS))
    if rng.random() < 0.2:
        options["bars"] = rng.choice(("1min", "5min", "1h", "1d", "10t", "100v"))
    try:
        return check_case(path, options), path, options
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"failed: {type(error).__name__}: {error}", path, options


def main() -> int:
    """Run cases until the time is up; return 1 where one has failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, default=Path("."))
    options = parser.parse_args()
    sources, counts = seeds(real=True), {"read": 0, "refused": 0, "failed": 0}
    running = options.save / "fuzz-running.txt"
    end, seed = time.monotonic() + 60 * options.minutes, options.seed * 1_000_000
    with tempfile.TemporaryDirectory() as name:
        while time.monotonic() < end:
            running.write_text(f"{seed}\n")
            outcome, path, used = run_case(sources, seed, Path(name))
            counts[outcome.partition(":")[0]] += 1
            if outcome.startswith("failed"):
                kept = options.save / f"fuzz-{seed}-{path.name}"
                kept.write_bytes(path.read_bytes())
                print(f"seed {seed}, {kept}, {used}: {outcome}", flush=True)
            seed += 1
    running.unlink(missing_ok=True)
    print(", ".join(f"{count:,} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
