"""Naming a market by a string, as ``gym.make`` needs it: a synthetic one or a file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from fox_env.errors import ConfigError
from fox_env.market import Market

__all__ = ["resolve_market"]


def resolve_market(market: Market | str, contract: str | None = None) -> Market:
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
    if not isinstance(market, str):
        raise ConfigError(f"market must be a Market, a name or a path, got {type(market).__name__}")
    return _named_market(market, contract)


@lru_cache(maxsize=8)
def _named_market(name: str, contract: str | None) -> Market:
    if Path(name).exists():
        return Market.from_file(name, contract=contract or "ES")
    from fox_env import synthetic

    if contract is not None:
        raise ConfigError(f"no file {name!r}; contract= goes with a file")
    return synthetic.from_name(name)
