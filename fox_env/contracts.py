"""Contract specifications: what a tick and a contract are worth, what trading costs, what margin is asked."""

from __future__ import annotations

import difflib
import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from fox_env.errors import ConfigError

_SHIPPED = Path(__file__).with_name("contracts.toml")
_POSITIVE = ("tick_size", "multiplier")
_NON_NEGATIVE = ("fee_per_side", "fee_rate", "initial_margin", "maintenance_margin")
_TEXT = ("symbol", "currency", "timezone", "session")


@dataclass(frozen=True)
class ContractSpec:
    """One tradable contract.

    Parameters
    ----------
    symbol : str
        Name of the contract.
    tick_size : float
        Smallest price step, in price units. Greater than 0.
    multiplier : float
        Money per 1.0 of price per contract. Greater than 0.
    fee_per_side : float
        Commission per contract and side, in money.
    initial_margin, maintenance_margin : float
        Money per contract; 0 asks for none. The maintenance margin may not exceed a positive initial margin.
    fee_rate : float
        Commission as a fraction of the notional, per side; added to ``fee_per_side``.
    maker_fee : float or None
        Commission per contract of a resting fill, in money; negative: a rebate; None: ``fee_per_side``.
    currency : str
        Currency of every money amount here.
    timezone : str
        IANA time zone of the exchange.
    session : str
        Name of the trading-session template.

    Raises
    ------
    ConfigError
        A field is missing its meaning: not a finite number, out of range, empty, or an unknown time zone.
    """

    symbol: str
    tick_size: float
    multiplier: float
    fee_per_side: float = 0.0
    initial_margin: float = 0.0
    maintenance_margin: float = 0.0
    fee_rate: float = 0.0
    maker_fee: float | None = None
    currency: str = "USD"
    timezone: str = "America/Chicago"
    session: str = "CME"

    def __post_init__(self) -> None:
        for name in _TEXT:
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ConfigError(f"ContractSpec.{name} must be a non-empty text, got {value!r}.")
        for name in (*_POSITIVE, *_NON_NEGATIVE):
            object.__setattr__(self, name, self._number(name))
        if self.maker_fee is not None:
            object.__setattr__(self, "maker_fee", self._number("maker_fee"))
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                value = getattr(self, name)
                raise ConfigError(
                    f"ContractSpec {self.symbol!r}: {name} must be greater than 0, got {value:g}."
                )
        for name in _NON_NEGATIVE:
            if getattr(self, name) < 0:
                value = getattr(self, name)
                raise ConfigError(
                    f"ContractSpec {self.symbol!r}: {name} must not be negative, got {value:g}."
                )
        if 0 < self.initial_margin < self.maintenance_margin:
            raise ConfigError(
                f"ContractSpec {self.symbol!r}: maintenance_margin {self.maintenance_margin:g} exceeds "
                f"initial_margin {self.initial_margin:g}, so a new position could be liquidated; lower it."
            )
        try:
            ZoneInfo(self.timezone)
        except (ValueError, OSError, KeyError):
            raise ConfigError(
                f"ContractSpec {self.symbol!r}: unknown time zone {self.timezone!r}; use an IANA name "
                "such as 'America/Chicago'."
            ) from None

    def _number(self, name: str) -> float:
        """Return field `name` as a finite float or refuse it."""
        value = getattr(self, name)
        try:
            number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise ConfigError(f"ContractSpec {self.symbol!r}: {name} must be a finite number, got {value!r}.")
        return number

    @property
    def tick_value(self) -> float:
        """Money per tick per contract: ``tick_size * multiplier``."""
        return self.tick_size * self.multiplier


def load_contracts(path: str | Path) -> dict[str, ContractSpec]:
    """Read contracts from a TOML file with one table per symbol, laid out as the shipped ``contracts.toml``.

    Parameters
    ----------
    path : str or Path
        TOML file; the keys of each table are the fields of :class:`ContractSpec` except ``symbol``.

    Returns
    -------
    dict of str to ContractSpec
        By symbol, in file order.

    Raises
    ------
    ConfigError
        The file cannot be read or is not TOML, or a table has a wrong, unknown or missing field.
    """
    try:
        tables: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Contracts file {str(path)!r} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Contracts file {str(path)!r} is not valid TOML: {error}.") from error
    known = {field.name for field in fields(ContractSpec)} - {"symbol"}
    specs: dict[str, ContractSpec] = {}
    for symbol, table in tables.items():
        where = f"Contracts file {str(path)!r}, entry {symbol!r}"
        if not isinstance(table, dict):
            raise ConfigError(
                f"{where} is not a table; write [{symbol}] with tick_size and multiplier below it."
            )
        if unknown := sorted(set(table) - known):
            raise ConfigError(
                f"{where} has the unknown field {unknown[0]!r}; known are {', '.join(sorted(known))}."
            )
        if missing := [name for name in _POSITIVE if name not in table]:
            raise ConfigError(f"{where} lacks {' and '.join(missing)}; add it.")
        specs[symbol] = ContractSpec(symbol=symbol, **table)
    return specs


@functools.cache
def known_contracts() -> Mapping[str, ContractSpec]:
    """Return the contracts that ship with the package, by symbol."""
    return MappingProxyType(load_contracts(_SHIPPED))


def contract(name_or_spec: str | ContractSpec) -> ContractSpec:
    """Return a contract by name, or the given specification unchanged.

    Parameters
    ----------
    name_or_spec : str or ContractSpec
        A symbol of the shipped ``contracts.toml`` (exact spelling first, then any case), or a specification.

    Raises
    ------
    ConfigError
        The name is unknown; the message gives the nearest known names.
    """
    if isinstance(name_or_spec, ContractSpec):
        return name_or_spec
    if not isinstance(name_or_spec, str):
        raise ConfigError(f"A contract is a symbol such as 'ES' or a ContractSpec, got {name_or_spec!r}.")
    known = known_contracts()
    if name_or_spec in known:
        return known[name_or_spec]
    by_folded = {symbol.casefold(): symbol for symbol in known}
    folded = name_or_spec.strip().casefold()
    if folded in by_folded:
        return known[by_folded[folded]]
    near = [by_folded[name] for name in difflib.get_close_matches(folded, by_folded, n=3, cutoff=0.4)]
    hint = f"nearest are {', '.join(near)}" if near else f"known are {', '.join(known)}"
    raise ConfigError(
        f"Unknown contract {name_or_spec!r}: {hint}; or pass a ContractSpec with tick_size and multiplier."
    )
