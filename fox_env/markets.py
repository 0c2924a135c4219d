"""Naming a market by a string, as ``gym.make`` needs it: a synthetic one or a file."""

from __future__ import annotations

import difflib
import inspect
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fox_env.errors import ConfigError
from fox_env.market import Market
from fox_env.readers import read_bars

__all__ = ["DEFAULT_MARKET", "resolve_market", "resolve_markets"]

DEFAULT_MARKET = "regimes:seed=0"


def resolve_market(
    market: Market | str | os.PathLike[str],
    contract: str | None = None,
    read_hints: Mapping[str, Any] | None = None,
) -> Market:
    """The market itself, the synthetic market of a name such as ``"regimes:seed=0"``, or the bars of a file.

    ``read_hints`` holds arguments of :meth:`~fox_env.Market.from_file` for a file, such as ``tz``.

    Raises
    ------
    ConfigError
        If the name is neither a synthetic market nor an existing file, a contract or hints are given for a market
        that is not read from a file, or a hint is unknown.
    """
    _check_hints(read_hints)
    if isinstance(market, Market):
        if contract is not None:
            raise ConfigError("contract= goes with a file; this market already has its contract")
        if read_hints:
            raise ConfigError("read_hints= goes with a file; this market is already read")
        return market
    if not isinstance(market, (str, os.PathLike)):
        raise ConfigError(f"market must be a Market, a name or a path, got {type(market).__name__}")
    path = Path(market)
    if path.is_file():
        status = path.stat()
        version = (status.st_mtime_ns, status.st_size)
        return _file_market(path.resolve(), contract, json.dumps(dict(read_hints or {})), version)
    if contract is not None or read_hints or path.suffix or os.sep in os.fspath(market):
        raise ConfigError(f"no file {os.fspath(market)!r}; check the path, or name a synthetic market")
    return _synthetic_market(os.fspath(market))


def resolve_markets(
    market: Market | str | os.PathLike[str] | None,
    markets: Sequence[Market | str | os.PathLike[str]] | None,
    market_of: ArrayLike | None,
    contract: str | Sequence[str | None] | None,
    read_hints: Mapping[str, Any] | None,
    num_envs: int,
) -> tuple[tuple[Market, ...], NDArray[np.int32]]:
    """The markets of a batch, and (N,) int32: the index of the one that each environment trades.

    Raises
    ------
    ConfigError
        If both ``market`` and ``markets`` are given, there is no market in the list, ``contract`` is a list of another
        length, there are fewer environments than markets, or ``market_of`` is not N indices of markets.
    """
    if markets is None:
        markets = [DEFAULT_MARKET if market is None else market]
    elif market is not None:
        raise ConfigError("give market= or markets=, not both")
    if not isinstance(markets, (list, tuple)) or not markets:
        raise ConfigError("markets must be a list of at least one market; for one alone use market=")
    names = [contract] * len(markets) if contract is None or isinstance(contract, str) else list(contract)
    if len(names) != len(markets):
        raise ConfigError(
            f"contract names {len(names)} contracts for {len(markets)} markets; give one each, or one for all"
        )
    resolved = tuple(resolve_market(m, name, read_hints) for m, name in zip(markets, names, strict=True))
    if market_of is None:
        if num_envs < len(resolved):
            raise ConfigError(
                f"{len(resolved)} markets need as many environments, got num_envs={num_envs}; leave some markets "
                "out, or choose with market_of="
            )
        return resolved, (np.arange(num_envs) % len(resolved)).astype(np.int32)
    index = np.asarray(market_of)
    fits = index.shape == (num_envs,) and index.dtype.kind in "iu"
    if not fits or index.min() < 0 or index.max() >= len(resolved):
        raise ConfigError(
            f"market_of must be {num_envs} whole numbers from 0 to {len(resolved) - 1}, the market of each "
            f"environment, got {market_of!r}"
        )
    return resolved, np.ascontiguousarray(index, dtype=np.int32)


def _check_hints(read_hints: Mapping[str, Any] | None) -> None:
    if read_hints is not None and not isinstance(read_hints, Mapping):
        raise ConfigError(
            f"read_hints={read_hints!r} must be a table of names and values, such as {{'tz': 'UTC'}}"
        )
    known = [
        name
        for function in (read_bars, Market.from_file)
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("source", "path", "contract") and parameter.kind != parameter.VAR_KEYWORD
    ]
    for name, value in (read_hints or {}).items():
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1) or known
            raise ConfigError(f"unknown read hint {name!r}; did you mean {', '.join(near)}?")
        try:
            json.dumps(value)
        except TypeError:
            raise ConfigError(
                f"read hint {name}={value!r} must be text, a number, a list or a table of them; for anything else "
                "read the file with Market.from_file and pass the market"
            ) from None


@lru_cache(maxsize=8)
def _file_market(path: Path, contract: str | None, read_hints: str, version: tuple[int, int]) -> Market:
    """Read a file once for every version of it."""
    return Market.from_file(path, contract=contract, **json.loads(read_hints))


@lru_cache(maxsize=8)
def _synthetic_market(name: str) -> Market:
    from fox_env import synthetic

    return synthetic.from_name(name)
