"""The trade ledger as a table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.market import Market

if TYPE_CHECKING:
    import polars as pl

__all__ = ["default_capacity", "trades_frame"]

_LEDGER_BYTES = 64 * 2**20
_LEAST_TRADES = 16


def default_capacity(num_envs: int, bars: int, info_level: str) -> int:
    """Trades kept per environment: all of them where 64 MiB allow it, none for a learner that reads no trades."""
    if info_level != "full":
        return 0
    affordable = _LEDGER_BYTES // (num_envs * _layout.TRADE_RECORD.itemsize)
    return int(min(max(affordable, _LEAST_TRADES), 2 * bars))


def trades_frame(
    ledger: NDArray[Any], counts: NDArray[np.int32], markets: Sequence[Market], market_of: NDArray[np.int32]
) -> pl.DataFrame:
    """One row a finished trade, by environment and time.

    Parameters
    ----------
    ledger
        (N, capacity) ring of trade records.
    counts
        (N,) trades ever written to each ring.
    markets
        Give times and the price of a tick.
    market_of
        (N,) index of each environment's market.

    Returns
    -------
    polars.DataFrame
        env, episode, entry_bar, exit_bar, entry_time, exit_time, side (+1, -1), size (most contracts held),
        entry_price (average), exit_price, pnl (money, net), trade_return, r, bars, mae, mfe (money), costs (money),
        reason. A warning tells how many older trades the ring has overwritten.
    """
    import polars as pl

    num_envs, capacity = ledger.shape
    kept = np.minimum(counts, capacity)
    lost = int(np.sum(counts.astype(np.int64) - kept))
    if lost:
        warnings.warn(
            f"{lost} older trades were overwritten; make the environment with a larger trade_capacity",
            stacklevel=3,
        )
    envs = np.repeat(np.arange(num_envs), kept)
    runs = [np.arange(count - keep, count) for count, keep in zip(counts, kept, strict=True)]
    order = np.concatenate(runs).astype(np.int64)
    records = ledger[envs, order % capacity]
    tick = np.array([market.contract.tick_size for market in markets])[market_of[envs]]
    first_row = np.concatenate(([0], np.cumsum([len(market) for market in markets])[:-1]))[market_of[envs]]
    times = np.concatenate([market.bars.ts for market in markets])
    names = np.array([reason.name.lower() for reason in _layout.ExitReason])
    return pl.DataFrame(
        {
            "env": envs.astype(np.int64),
            "episode": records["episode"],
            "entry_bar": records["entry_bar"],
            "exit_bar": records["exit_bar"],
            "entry_time": pl.Series(times[first_row + records["entry_bar"]]).cast(pl.Datetime("ns", "UTC")),
            "exit_time": pl.Series(times[first_row + records["exit_bar"]]).cast(pl.Datetime("ns", "UTC")),
            "side": records["side"],
            "size": records["size"],
            "entry_price": records["entry"] * tick,
            "exit_price": records["exit"] * tick,
            "pnl": records["pnl"],
            "trade_return": records["trade_return"],
            "r": records["r"],
            "bars": records["exit_bar"] - records["entry_bar"],
            "mae": records["mae"],
            "mfe": records["mfe"],
            "costs": records["costs"],
            "reason": names[records["reason"]],
        }
    )
