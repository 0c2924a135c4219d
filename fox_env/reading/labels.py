"""Which end of a bar its time marks, as far as the times themselves tell."""

from __future__ import annotations

import numpy as np

from fox_env.bars import Int
from fox_env.reading.lengths import DAY_NS, MINUTE_NS, usual_interval

ASSUMED = "the file does not say which end of a bar its times mark"
"""How a sentence on an assumed end begins."""

_PAUSE = 30


def told_label(ns: Int) -> tuple[str | None, bool]:
    """Return the end of the bar that times mark, None where sessions do not tell, and whether that is certain.

    Sessions begin and end on a full or half hour (a quarter for bars of up to five minutes): where the first
    time after each pause of half an hour is such an instant and the last one before it is one bar short of
    one, times mark the open; the other way round they mark the close. In a file of one session its first and
    last rows suggest it, unless it begins at midnight, where files are cut.

    Parameters
    ----------
    ns : int64 array, shape (T,)
        Times in ns; any zone whose offset is whole half hours.
    """
    if len(ns) < 3 or (ns % MINUTE_NS).any():
        return None, False
    minutes = ns // MINUTE_NS
    step = np.diff(minutes)
    bar = usual_interval(ns) // MINUTE_NS
    if not (step > 0).all() or not 0 < bar < 30 or 30 % bar:
        return None, False
    grid = 15 if bar <= 5 and 15 % bar == 0 else 30
    pauses = np.flatnonzero((step >= _PAUSE) & (step > bar))
    first, last = minutes[pauses + 1], minutes[pauses]
    if not pauses.size and len(ns) > 6 and ns[0] % DAY_NS and (ns[0] - bar * MINUTE_NS) % DAY_NS:
        first, last = minutes[:1], minutes[-1:]
    ends = {
        "open": (first % grid == 0) & ((last + bar) % grid == 0),
        "close": ((first - bar) % grid == 0) & (last % grid == 0),
    }
    label = next((end for end, fits in ends.items() if fits.size and float(np.mean(fits)) > 0.5), None)
    return label, bool(pauses.size)


def assumed_label(label: str, dated: bool) -> str:
    """Return the sentence that says which end of a bar was assumed."""
    what = "midnights were taken as the days that they begin" if dated else f"the {label} was assumed"
    other = "close" if label == "open" else "open"
    return f"{ASSUMED}: {what}; pass label='{label}' to confirm or label='{other}' to change it"
