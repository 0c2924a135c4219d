"""Bar sizes as text: ``5min``, ``1h``, ``1d``, ``500t``, ``1000v``, ``1000000d``."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from fox_env.errors import ConfigError

_UNITS_NS = {"s": 1_000_000_000, "min": 60_000_000_000, "h": 3_600_000_000_000}
_DAY_NS = 86_400_000_000_000


class BarSize(NamedTuple):
    """What completes a bar.

    ``amount`` counts ns for kinds "time" and "day", trades for "trades", contracts for "volume", and price
    units times contracts for "money".
    """

    kind: Literal["time", "day", "trades", "volume", "money"]
    amount: int
    text: str


def parse_size(text: str) -> BarSize:
    """Read a bar size.

    Parameters
    ----------
    text : str
        ``30s``, ``5min``, ``4h`` (a whole fraction of a day), ``1d`` (a trading day), ``500t`` (trades),
        ``1000v`` (contracts), or ``1000000d`` (money: the sum of price times size; any count but 1).

    Raises
    ------
    ConfigError
        The text is none of these.
    """
    match = re.fullmatch(r"([1-9]\d{0,14})(s|min|h|t|v|d)", text) if isinstance(text, str) else None
    if match is None:
        raise ConfigError(
            f"Unknown bar size {text!r}; use a time such as '1min', '1h' or '1d', or '500t' (trades), "
            "'1000v' (contracts) or '1000000d' (money)."
        )
    count, unit = int(match[1]), match[2]
    if unit in _UNITS_NS:
        if _DAY_NS % (count * _UNITS_NS[unit]):
            raise ConfigError(f"Bar size {text!r} does not divide a day; use one such as '5min' or '4h'.")
        return BarSize("time", count * _UNITS_NS[unit], text)
    if text == "1d":
        return BarSize("day", _DAY_NS, text)
    kinds: dict[str, Literal["trades", "volume", "money"]] = {"t": "trades", "v": "volume", "d": "money"}
    return BarSize(kinds[unit], count, text)
