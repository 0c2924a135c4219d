"""The record types of Databento's schemas: what each holds, and which of them yield bars."""

from __future__ import annotations

from collections import Counter

from fox_env.errors import DataError

_SECOND_NS = 1_000_000_000
BARS = {32: _SECOND_NS, 33: 60 * _SECOND_NS, 34: 3_600 * _SECOND_NS, 35: 86_400 * _SECOND_NS}
"""Record types of the ohlcv schemas, and the length of their bars."""

CLASSES = {
    **dict.fromkeys(BARS, "OHLCVMsg"),
    0: "TradeMsg",
    **dict.fromkeys((1, 197), "MBP1Msg"),
    10: "MBP10Msg",
    **dict.fromkeys((177, 194), "CMBP1Msg"),
    **dict.fromkeys((192, 193), "CBBOMsg"),
    **dict.fromkeys((195, 196), "BBOMsg"),
}
"""Record types that are read, and the vendor's class that knows their layout."""

SAMPLED = frozenset((192, 193, 195, 196))
"""Record types that give the best quotes at the end of every second or minute."""

_NAMES = {0: "trades", 1: "mbp-1 or tbbo", 10: "mbp-10", 17: "ohlcv of unstated length", 18: "status",
          19: "definition", 20: "imbalance", 21: "error", 22: "symbol mapping", 23: "system",
          24: "statistics", 32: "ohlcv-1s", 33: "ohlcv-1m", 34: "ohlcv-1h", 35: "ohlcv-1d",
          36: "ohlcv-eod", 160: "mbo", 177: "cmbp-1", 192: "cbbo-1s", 193: "cbbo-1m", 194: "tcbbo",
          195: "bbo-1s", 196: "bbo-1m", 197: "tbbo"}  # fmt: skip
SYMBOL_MAPPING = 22
_CONTROL = frozenset((21, SYMBOL_MAPPING, 23))
"""Messages of a live gateway: errors, symbol mappings, heartbeats."""

SNAPSHOT = 1 << 5

TRADES, MBP, MBO, BBO = 0, 1, 160, 196


def single_type(counts: Counter[int], schema: str | None, source: str) -> int:
    """Return the one record type that yields bars.

    Parameters
    ----------
    counts : Counter
        Records of every type.
    schema : str or None
        What the file says it holds.
    source : str

    Raises
    ------
    DataError
        No type yields bars, or several do.
    """
    usable = [rtype for rtype in counts if rtype in CLASSES]
    if len(usable) == 1:
        return usable[0]
    held = ", ".join(f"{_NAMES.get(rtype, rtype)} ({count:,})" for rtype, count in sorted(counts.items()))
    if len(usable) > 1:
        raise DataError(
            f"{source}: holds records of several schemas: {held}; write one schema to each file and read one."
        )
    if not set(counts) - _CONTROL:
        raise DataError(
            f"{source}: holds no records (schema {schema or 'unknown'}); request a period with trading."
        )
    raise DataError(
        f"{source}: holds {held} records, which make no bars; fetch the ohlcv-1m, trades or mbp-1 schema."
    )
