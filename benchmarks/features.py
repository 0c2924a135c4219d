"""Time and memory of the feature table: built into the cache, loaded from it, and built in memory.

Every reading is taken in a process of its own, because a process only knows its highest memory use. Bars are a
random walk in whole ticks with sessions of 23 hours.
"""

import argparse
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from harness import print_table, write_json

from fox_env import Bars, ContractSpec, Market

SPEC = ContractSpec("BEN", tick_size=0.25, multiplier=50.0)
SESSION = 1_380
DAY_NS, MINUTE_NS = 86_400_000_000_000, 60_000_000_000
TOUCHED = 10_000


def random_walk(length: int) -> Bars:
    """Bars of one minute with a volume."""
    rng = np.random.default_rng(0)
    close = 5_000.0 + 0.25 * np.cumsum(rng.integers(-8, 9, length, dtype=np.int8), dtype=np.float64)
    open_ = np.concatenate(([5_000.0], close[:-1]))
    row = np.arange(length)
    ts = 1_104_764_400_000_000_000 + row // SESSION * DAY_NS + row % SESSION * MINUTE_NS
    volume = rng.integers(0, 3_000, length, dtype=np.int16)
    high, low = np.maximum(open_, close) + 0.5, np.minimum(open_, close) - 0.25
    return Bars.from_arrays(ts, open_, high, low, close, volume)


def reading(length: int, folder: str, cache: bool) -> dict[str, float]:
    """Build or load one market in this process; a first market of few bars has paid for the imports."""
    os.environ["XDG_CACHE_HOME"] = folder
    Market.from_bars(random_walk(1_000), SPEC, cache=False)
    bars = random_walk(length)
    rows = np.random.default_rng(1).integers(0, length, TOUCHED)
    before = peak_gib()
    begin, cpu = time.perf_counter(), time.process_time()
    market = Market.from_bars(bars, SPEC, cache=cache)
    made, cpu, peak = time.perf_counter(), time.process_time() - cpu, peak_gib()
    total = float(market.features[rows].sum())
    touched = time.perf_counter()
    if not np.isfinite(total):
        raise AssertionError("the features are not finite")
    return {
        "seconds": made - begin,
        "cpu_s": cpu,
        "touch_10k_rows_s": touched - made,
        "peak_gib": peak,
        "of_bars_gib": before,
    }


def peak_gib() -> float:
    """The most memory that this process has had, mapped files included."""
    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def measure(length: int, repeats: int) -> list[dict[str, Any]]:
    """One line for every way to get the table, medians over processes; the highest peak."""
    found: dict[str, list[dict[str, float]]] = {"build": [], "cached": [], "in memory": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for way, results in found.items():
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                    results.append(process.submit(reading, length, folder, way != "in memory").result())
    lines = []
    for way, results in found.items():
        values = {name: statistics.median(result[name] for result in results) for name in results[0]}
        values["peak_gib"] = max(result["peak_gib"] for result in results)
        lines.append({"way": way, "bars": length, **values})
    return lines


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--bars", type=float, nargs="+", default=[1e6], help="lengths of the series (default: 1e6)"
    )
    parser.add_argument("--quick", action="store_true", help="100,000 bars, one repetition")
    parser.add_argument("--out", type=Path, help="JSON file (default: runs/benchmarks/features.json)")
    options = parser.parse_args()
    lengths = [100_000] if options.quick else [int(bars) for bars in options.bars]
    rows = [line for length in lengths for line in measure(length, 1 if options.quick else 3)]
    print_table("Features", rows)
    write_json("features", options.out, {"rows": rows})


if __name__ == "__main__":
    main()
