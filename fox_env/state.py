"""The exact state of a batch as NumPy arrays by name: taking it, and checking one before it is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env.backends import Backend
from fox_env.config import EnvConfig
from fox_env.errors import ConfigError
from fox_env.knobs import KNOBS, check_knob
from fox_env.market import Market

__all__ = ["read_state", "write_state"]


def _names(backend: Backend) -> list[str]:
    slots = backend.plan.slots
    names = [name for name in slots if name.startswith("state.")]
    kept = [name for name in slots if name == "ledger" or name.startswith("metrics.")]
    return [*names, "knobs", "obs", *kept]


@lru_cache(maxsize=64)
def _market_word(market: Market, units: tuple[float | None, ...]) -> int:
    """64 bits that tell a market from others: its bars, its contract's value, and the units of the state in it."""
    bars, contract = market.bars, market.contract
    digest = hashlib.sha256(f"{contract.symbol} {contract.tick_size} {contract.multiplier} {units}".encode())
    prices = (bars.open, bars.high, bars.low, bars.close)
    for array in (bars.ts, *prices, bars.volume, bars.roll_gap, bars.gap, bars.session_end):
        digest.update(b"none" if array is None else np.ascontiguousarray(array).data)
    return int.from_bytes(digest.digest()[:8], "little")


def _market_words(
    markets: Sequence[Market], market_of: NDArray[np.int32], config: EnvConfig
) -> NDArray[np.uint64]:
    """(N,) the word of each environment's market, of the lot, and of the stops and targets of the state's levels."""
    units = (config.lot, *config.trail_atr, config.profit_target_atr)
    return np.array([_market_word(market, units) for market in markets], dtype=np.uint64)[market_of]


def read_state(
    backend: Backend, markets: Sequence[Market], market_of: NDArray[np.int32], config: EnvConfig
) -> dict[str, NDArray[Any]]:
    """Accounts, random counters, knobs, trades (as bytes), metrics, last observation, after all enqueued work.

    ``"markets"`` tells the markets that the accounts trade, of which ``market_of`` is the (N,) index.
    """
    state = {name: backend.read(name) for name in _names(backend)}
    if "ledger" in state:
        state["ledger"] = state["ledger"].view(np.uint8)
    return {**state, "markets": _market_words(markets, market_of, config)}


def write_state(
    backend: Backend,
    state: Mapping[str, Any],
    markets: Sequence[Market],
    market_of: NDArray[np.int32],
    config: EnvConfig,
) -> None:
    """Load what :func:`read_state` took; a state that does not fit is refused before anything changes.

    Raises
    ------
    ConfigError
        If an array is missing, has another dtype or shape, a knob lies outside its range, an account stands outside
        its market, or that is another market.
    """
    if not isinstance(state, Mapping):
        raise ConfigError(f"a state is what state_dict() gives, not {type(state).__name__}")
    for name in ("needs_reset", "markets"):
        if name not in state:
            raise ConfigError(f"this state has no {name!r}; it is not what state_dict() gives")
    arrays = {name: _checked(backend, name, state) for name in _names(backend)}
    for knob, value in zip(KNOBS, arrays["knobs"], strict=True):
        check_knob(knob, float(value), config)
    bar, bars = arrays["state.bar"], np.array([len(market) for market in markets])[market_of]
    inside = (bar >= 0) & ((bar < bars - 1) | ((bar == bars - 1) & (arrays["state.done"] != 0)))
    if not inside.all():
        env = int(np.argmin(inside))
        raise ConfigError(
            f"an account of this state stands on bar {bar[env]}, which a market of {bars[env]} bars does not have; "
            "load it with the market it was taken with"
        )
    taken, words = np.asarray(state["markets"]), _market_words(markets, market_of, config)
    if taken.shape != words.shape or (taken != words).any():
        raise ConfigError(
            "this state is of other markets, lots, stops or targets; load it with those it was taken with"
        )
    for name, array in arrays.items():
        backend.write(name, array)


def _checked(backend: Backend, name: str, state: Mapping[str, Any]) -> NDArray[Any]:
    """One array of the state, of the dtype and shape of its slot."""
    if name not in state:
        raise ConfigError(f"this state has no {name!r}; it was taken from another kind of environment")
    slot = backend.plan.slots[name]
    given = np.ascontiguousarray(state[name])
    if name == "ledger" and given.dtype == np.uint8 and given.nbytes == slot.nbytes:
        return given.view(slot.dtype).reshape(slot.shape)
    if given.dtype != slot.dtype or given.shape != slot.shape:
        raise ConfigError(
            f"{name!r} of this state is {given.dtype} of shape {given.shape}, this environment needs {slot.dtype} of "
            f"shape {slot.shape}; load it into an environment of the same size and trade_capacity"
        )
    return given
