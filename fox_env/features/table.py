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

Columns 0 to 85 of `market.features`, which are entries 0 to 85 of the observation; `market.feature_names`
lists them. Generated from `fox_env.features.FEATURES` by `python -m fox_env.features > docs/features.md`.

Every feature is causal, computed in float64 and stored in float32, clipped to ±10, unchanged when prices
and tick are scaled together or all prices move by the same amount, and zero before row `ready` (counted from
0). No value depends on later bars, to the last bit. A quotient whose denominator is not positive is 0.

C, O, H, L: close, open, high and low in ticks, less the gaps of all rolls so far (`Bars.roll_gap`), so that a
roll is no move. dC: change of the close. V: volume. ATR: Wilder's average true range over 14 bars, at least one
tick. rms(n): root mean square of dC over n bars. q: signed volume of a bar (recorded buys minus sells, else
V z / sqrt(2 + z²) with z = dC / rms(60)).

A session is what lies between two breaks (`Bars.gap`): a trading day with a lunch break or a night session has
several. A coarse bar is 5, 15 or 60 consecutive bars counted from the first bar of the session, or a session.
k: the last coarse bar that is complete at t. n: the window, 14 coarse bars (5 sessions). ATR_k: average true
range of coarse bars over n, at least one tick.

Order-flow features use these columns of `Bars.extra` where they are there (NaN: missing in that bar):

| column | content |
|---|---|
| `buy_volume`, `sell_volume` | contracts bought and sold by the aggressor within the bar |
| `side_inferred` | 1 where the aggressor of these was guessed from price changes, else 0 |
| `bid`, `ask` | best prices at the bar's close, in price units |
| `bid_size`, `ask_size` | contracts at the best prices at the bar's close |
| `bid_depth`, `ask_depth` | contracts over all recorded levels at the bar's close |
| `ofi` | order-flow imbalance (entry `book_flow`) summed over the bar's changes of the best quotes, in contracts |
| `signal` | planted by the market `signal`, taken as it is |

The entries `reserved_1` to `reserved_4` take other columns of `Bars.extra` by name:
`Market.from_bars(bars, "ES", observe=("my_signal",))`, likewise `Market.from_file`. The values must be finite,
are clipped to ±10 and seen as they are: scale them to about one, and store at each bar only what was known at
its close. A column that holds prices is not adjusted for rolls.
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
