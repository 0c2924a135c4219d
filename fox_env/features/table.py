"""The feature table: the single declaration of the 86 features in observation order, and its document."""

from __future__ import annotations

from fox_env.features.declare import Feature
from fox_env.features.market_block import MARKET
from fox_env.features.order_flow import ORDER_FLOW
from fox_env.features.timeframes import TIMEFRAMES

FEATURES: tuple[Feature, ...] = (*MARKET, *ORDER_FLOW, *TIMEFRAMES)
"""Index i of this tuple is column i of ``market.features`` and entry i of the observation."""

N_FEATURES = len(FEATURES)
WARMUP = max(feature.ready for feature in MARKET)
"""First row at which every window of the market block is full."""
CLIP = 10.0

_INTRODUCTION = """\
# Features

Columns 0 to 85 of `market.features`, which are entries 0 to 85 of the observation. Generated from
`fox_env.features.FEATURES` by `python -m fox_env.features > docs/features.md`.

Every feature is causal, computed in float64 and stored in float32, clipped to ±10, unchanged when prices
are scaled, and zero before row `ready` (counted from 0). No value depends on later bars, to the last bit.

C, O, H, L: close, open, high and low in ticks. dC: change of the close. V: volume. ATR: Wilder's average
true range over 14 bars, at least one tick. rms(n): root mean square of dC over n bars. q: signed volume of
a bar (recorded buys minus sells, else V z / sqrt(2 + z²) with z = dC / rms(60)).

A coarse bar is 5, 15 or 60 consecutive bars counted from the first bar of the session, or a session. k: the
last coarse bar that is complete at t. n: the window, 14 coarse bars (5 sessions). ATR_k: average true range
of coarse bars over n.
"""
_TITLES = {
    "market": "Market (0 to 41)",
    "order_flow": "Order flow (42 to 61)",
    "timeframes": "Coarser timeframes (62 to 85)",
}


def as_markdown() -> str:
    """Return the feature table as the text of ``docs/features.md``."""
    lines = [_INTRODUCTION]
    for block, title in _TITLES.items():
        lines += [f"## {title}", "", "| index | name | ready | formula | source |", "|---|---|---|---|---|"]
        for index, row in enumerate(FEATURES):
            if row.block == block:
                formula = row.formula.replace("|", "\\|")
                lines.append(f"| {index} | `{row.name}` | {row.ready} | {formula} | {row.source} |")
        lines.append("")
    return "\n".join(lines)
