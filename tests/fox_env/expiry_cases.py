"""Expiries for the tests of continuous contracts: short sessions of a walk in ticks."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np

from fox_env.bars import Bars

TICK = 0.25
MINUTE = np.timedelta64(60, "s")
FIRST = datetime.date(2013, 11, 25)  # a Monday
SESSION = 20
DAY_NS = 86_400_000_000_000


def weekdays(number: int) -> list[np.datetime64]:
    return [np.busday_offset(FIRST, i) for i in range(number)]


def make(
    volume: list[float],
    *,
    seed: int = 0,
    level: float = 1_800.0,
    start: str = "15:00",
    interest: list[float] | None = None,
    missing: float = 0.0,
) -> Bars:
    """One expiry: sessions of 20 minutes on weekdays, a walk in ticks; a day of volume 0 has no bars."""
    rng = np.random.default_rng(seed)
    days = [day for day, traded in zip(weekdays(len(volume)), volume, strict=True) if traded]
    per_day = [traded for traded in volume if traded]
    ts = np.concatenate(
        [np.datetime64(f"{day}T{start}") + MINUTE * np.arange(1, SESSION + 1) for day in days]
    )
    close = level + TICK * np.cumsum(rng.integers(-4, 5, len(ts)))
    open_ = close - TICK * rng.integers(-2, 3, len(ts))
    high, low = np.maximum(open_, close) + TICK, np.minimum(open_, close) - TICK
    columns = [ts, open_, high, low, close, np.repeat(per_day, SESSION) / SESSION]
    keep = rng.random(len(ts)) >= missing
    extra = {"bid": close - TICK, "upper_limit": close + 100 * TICK}
    if interest is not None:
        extra["open_interest"] = np.repeat([x for x, v in zip(interest, volume, strict=True) if v], SESSION)
    return Bars.from_arrays(
        *(column[keep] for column in columns), extra={k: v[keep] for k, v in extra.items()}
    )


def moved(bars: Bars, years: int) -> Bars:
    """The same bars, so many years of 52 weeks later."""
    return replace(bars, ts=bars.ts + years * 364 * DAY_NS)


def three(missing: float = 0.0, seed: int = 0) -> dict[str, Bars]:
    """Volume moves from December to March after day 3 and on to June after day 7, with a day back between."""
    return {
        "ESH4": make([1, 1, 2, 60, 70, 20, 80, 40, 9, 9], seed=seed + 1, level=1_795, missing=missing),
        "ESZ3": make([90, 90, 80, 50, 60, 50, 10, 5, 1, 1], seed=seed, level=1_800),
        "ESM4": make([1, 1, 1, 1, 1, 1, 30, 50, 60, 90], seed=seed + 2, level=1_790, missing=missing),
    }


def day_of(time: np.datetime64) -> int:
    return int(np.busday_count(FIRST, time.astype("datetime64[D]")))
