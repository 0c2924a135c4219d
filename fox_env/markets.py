"""Naming a market by a string, as ``gym.make`` needs it: a synthetic one or a file."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from fox_env.errors import ConfigError
from fox_env.market import Market

__all__ = ["resolve_market"]


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


@lru_cache(maxsize=8)
def _file_market(path: Path, contract: str | None, version: tuple[int, int]) -> Market:
    """Read a file once for every version of it."""
    return Market.from_file(path, contract=contract)


@lru_cache(maxsize=8)
def _synthetic_market(name: str) -> Market:
    from fox_env import synthetic

    return synthetic.from_name(name)
