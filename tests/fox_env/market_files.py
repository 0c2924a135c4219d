"""Small market-data files for the tests of the readers, with invented numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

T0 = 1_715_248_800_000_000_000  # 2024-05-09 10:00:00 UTC
MINUTE = 60_000_000_000
ROWS = ((10.0, 11.0, 9.0, 10.5, 100.0), (10.5, 12.0, 10.0, 11.5, 0.0))
HEADER = "time,open,high,low,close,volume\n"
GOOD = HEADER + "".join(f"{1715248800 + 60 * i},1,2,0.5,1.5,7\n" for i in range(4))
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def table(
    times: list[str], header: str = "timestamp,open,high,low,close,volume", delimiter: str = ","
) -> str:
    """Write rows with the given time cells, prices 9 to 12 and the given header."""
    lines = [header.replace(",", delimiter)]
    for i, time in enumerate(times):
        lines.append(delimiter.join([time, *(f"{value:g}" for value in ROWS[i % 2])]))
    return "\n".join(lines) + "\n"


def put(folder: Path, content: str | bytes, name: str = "bars.csv") -> Path:
    """Write text or bytes to a file and return its path."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def utc(*minutes: str) -> list[int]:
    """Return times as ns since 1970 UTC."""
    return [int(np.datetime64(minute, "ns").astype(np.int64)) for minute in minutes]
