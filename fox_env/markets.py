"""Naming a market by a string, as ``gym.make`` needs it: a synthetic one or a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fox_env.errors import ConfigError
from fox_env.market import Market

__all__ = ["resolve_market", "resolve_markets"]


def resolve_market(market: Market | str | os.PathLike[str], contract: str | None = None) -> Market:
    """The market itself, the synthetic market of a name such as ``"regimes:seed=0"``, or the bars of a file.

    Raises
    ------
    ConfigError
        If the name is neither a synthetic market nor an existing file, or a contract is given for a market that
        already has one.
    """
    if isinstance(market, Market):
        if contract is not None:
            raise ConfigError("contract= goes with a file; this market already has its contract")
        return market
    if not isinstance(market, (str, os.PathLike)):
        raise ConfigError(f"market must be a Market, a name or a path, got {type(market).__name__}")
    path = Path(market)
    if path.is_file():
        status = path.stat()
        return _file_market(path.resolve(), contract, (status.st_mtime_ns, status.st_size))
    if contract is not None or path.suffix or os.sep in os.fspath(market):
        raise ConfigError(f"no file {os.fspath(market)!r}; check the path, or name a synthetic market")
    return _synthetic_market(os.fspath(market))


def resolve_markets(
    markets: Sequence[Market | str | os.PathLike[str]],
    market_of: ArrayLike | None,
    contract: str | None,
    num_envs: int,
) -> tuple[tuple[Market, ...], NDArray[np.int32]]:
    """The markets of a batch, and (N,) int32: the index of the one that each environment trades.

    Raises
    ------
    ConfigError
        If there is no market, or ``market_of`` is not N indices of markets.
    """
    if isinstance(markets, (Market, str, os.PathLike)) or not len(markets):
        raise ConfigError("markets must be a list of at least one market; for one alone use market=")
    resolved = tuple(resolve_market(market, contract) for market in markets)
    if market_of is None:
        return resolved, (np.arange(num_envs) % len(resolved)).astype(np.int32)
    index = np.asarray(market_of)
    fits = index.shape == (num_envs,) and index.dtype.kind in "iu"
    if not fits or index.min() < 0 or index.max() >= len(resolved):
        raise ConfigError(
            f"market_of must be {num_envs} whole numbers from 0 to {len(resolved) - 1}, the market of each "
            f"environment, got {market_of!r}"
        )
    return resolved, np.ascontiguousarray(index, dtype=np.int32)


@lru_cache(maxsize=8)
def _file_market(path: Path, contract: str | None, version: tuple[int, int]) -> Market:
    """Read a file once for every version of it."""
    return Market.from_file(path, contract=contract)


@lru_cache(maxsize=8)
def _synthetic_market(name: str) -> Market:
    from fox_env import synthetic

    return synthetic.from_name(name)
