"""Contract specifications: what a tick and a contract are worth, what trading costs, what margin is asked."""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import functools
import logging
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from fox_env.errors import ConfigError
from fox_env.expiries import EXPIRY_RULES, MONTH_CODES, ContractName, readings

ENVIRONMENT_VARIABLE = "FOX_CONTRACTS"
"""Names files of contracts that come before the shipped ones, separated as in PATH."""

ROLL_RULES = ("volume", "open_interest", "calendar")
"""When a continuous contract rolls (:func:`fox_env.continuous`)."""

_SHIPPED = Path(__file__).with_name("contracts.toml")
_POSITIVE = ("tick_size", "multiplier")
_NON_NEGATIVE = ("fee_per_side", "fee_rate", "initial_margin", "maintenance_margin")
_OPTIONAL_NON_NEGATIVE = (
    "close_today_fee", "close_today_rate", "day_initial_margin", "day_maintenance_margin",
)  # fmt: skip
_LARGEST = 1e15
_TEXT = ("symbol", "currency", "timezone", "session")
_OPTIONAL_TEXT = ("name", "exchange", "months", "expiry", "margin_date", "source")
_NUMBERED_NAMES = frozenset(("SHFE", "INE", "DCE", "CZCE", "CFFEX", "GFEX"))
"""Exchanges whose expiries are named like rb2110; everywhere else like ESZ3."""

_log = logging.getLogger(__name__)


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
    close_today_fee, close_today_rate : float or None
        Commission per contract in money, and as a fraction of the notional, of closing what was opened on the same
        trading day; lots of earlier days are closed first. None: ``fee_per_side`` and ``fee_rate``.
    day_initial_margin, day_maintenance_margin : float or None
        Margins per contract within a trading day; at the day's last bar ``maintenance_margin`` is asked for. None:
        the margins above hold all day.
    currency : str
        Currency of every money amount here.
    timezone : str
        IANA time zone of the exchange.
    session : str
        Name of the trading-session template (:mod:`fox_env.calendars`).
    name, exchange : str
        What the contract is, and where it trades.
    months : str
        Month codes of the deliveries that a continuous contract by the calendar passes through, such as
        ``"HMUZ"``; empty: all.
    expiry : str
        Rule of the last trading day, one of ``fox_env.expiries.EXPIRY_RULES``; empty: unknown.
    roll : {"volume", "open_interest", "calendar"}
        Rule by which :func:`fox_env.continuous` rolls unless told otherwise.
    roll_days : int
        Business days before the expiry at which the calendar rule rolls.
    margin_date : str
        ISO date of the margins; exchanges change them often.
    source : str
        Where the margins come from.

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
    close_today_fee: float | None = None
    close_today_rate: float | None = None
    day_initial_margin: float | None = None
    day_maintenance_margin: float | None = None
    currency: str = "USD"
    timezone: str = "America/Chicago"
    session: str = "CME_EQUITY"
    name: str = ""
    exchange: str = ""
    months: str = ""
    expiry: str = ""
    roll: str = "volume"
    roll_days: int = 5
    margin_date: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for name in _TEXT:
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ConfigError(f"ContractSpec.{name} must be a non-empty text, got {value!r}.")
        self._check_numbers()
        self._check_texts()

    def _check_numbers(self) -> None:
        for name in (*_POSITIVE, *_NON_NEGATIVE):
            object.__setattr__(self, name, self._number(name))
        optional = [name for name in _OPTIONAL_NON_NEGATIVE if getattr(self, name) is not None]
        for name in (*optional, *(["maker_fee"] if self.maker_fee is not None else [])):
            object.__setattr__(self, name, self._number(name))
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                value = getattr(self, name)
                raise ConfigError(
                    f"ContractSpec {self.symbol!r}: {name} must be greater than 0, got {value:g}."
                )
            if not 1 / _LARGEST <= getattr(self, name) <= _LARGEST:
                raise ConfigError(
                    f"ContractSpec {self.symbol!r}: {name} must lie between {1 / _LARGEST:g} and {_LARGEST:g}, "
                    f"got {getattr(self, name):g}."
                )
        for name in (*_NON_NEGATIVE, *optional):
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
        day = self.day_initial_margin, self.day_maintenance_margin
        if (day[0] is None) != (day[1] is None):
            raise ConfigError(
                f"ContractSpec {self.symbol!r}: give both day_initial_margin and day_maintenance_margin, or neither."
            )
        if day[0] is not None and day[1] is not None and 0 < day[0] < day[1]:
            raise ConfigError(
                f"ContractSpec {self.symbol!r}: day_maintenance_margin {day[1]:g} exceeds "
                f"day_initial_margin {day[0]:g}, so a new position could be liquidated; lower it."
            )
        if isinstance(self.roll_days, bool) or not isinstance(self.roll_days, int) or self.roll_days < 0:
            raise ConfigError(
                f"ContractSpec {self.symbol!r}: roll_days must be a whole number from 0, got {self.roll_days!r}."
            )

    def _check_texts(self) -> None:
        for name in _OPTIONAL_TEXT:
            if not isinstance(value := getattr(self, name), str):
                raise ConfigError(f"ContractSpec {self.symbol!r}: {name} must be a text, got {value!r}.")
        if [code for code in MONTH_CODES if code in self.months] != list(self.months):
            raise ConfigError(
                f"ContractSpec {self.symbol!r}: months must be codes of {MONTH_CODES} in this order, each "
                f"once, got {self.months!r}."
            )
        if self.expiry and self.expiry not in EXPIRY_RULES:
            raise ConfigError(
                f"ContractSpec {self.symbol!r}: unknown expiry rule {self.expiry!r}; "
                f"{_nearest(self.expiry, EXPIRY_RULES)}."
            )
        if self.roll not in ROLL_RULES:
            raise ConfigError(
                f"ContractSpec {self.symbol!r}: roll must be one of {', '.join(ROLL_RULES)}, got {self.roll!r}."
            )
        if self.margin_date:
            try:
                datetime.date.fromisoformat(self.margin_date)
            except ValueError:
                raise ConfigError(
                    f"ContractSpec {self.symbol!r}: margin_date must be a date such as '2025-06-30', "
                    f"got {self.margin_date!r}."
                ) from None
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
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise ConfigError(f"ContractSpec {self.symbol!r}: {name} must be a finite number, got {value!r}.")
        return number

    @property
    def closes_today_apart(self) -> bool:
        """Whether closing what was opened on the same trading day has a fee of its own."""
        return self.close_today_fee is not None or self.close_today_rate is not None

    @property
    def tick_value(self) -> float:
        """Money per tick per contract: ``tick_size * multiplier``."""
        return self.tick_size * self.multiplier


def load_contracts(path: str | Path) -> dict[str, ContractSpec]:
    """Read contracts from a TOML file with one table per symbol, laid out as the shipped ``contracts.toml``.

    Parameters
    ----------
    path : str or Path
        TOML file; the keys of each table are the fields of :class:`ContractSpec` except ``symbol``. With
        ``like = "ES"`` a table takes every field that it does not name from that contract, which stands above
        in the same file or is shipped.

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
        tables: dict[str, Any] = tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Contracts file {str(path)!r} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Contracts file {str(path)!r} is not valid TOML: {error}.") from error
    specs: dict[str, ContractSpec] = {}
    for symbol, table in tables.items():
        where = f"Contracts file {str(path)!r}, entry {symbol!r}"
        if not isinstance(table, dict):
            raise ConfigError(
                f"{where} is not a table; write [{symbol}] with tick_size and multiplier below it."
            )
        specs[symbol] = _from_table(symbol, table, where, specs)
    return specs


def _from_table(
    symbol: str, table: dict[str, Any], where: str, above: Mapping[str, ContractSpec]
) -> ContractSpec:
    """Make the contract of one table of a file; `above` are the contracts of the tables before it."""
    known = {field.name for field in dataclasses.fields(ContractSpec)} - {"symbol"}
    if unknown := sorted(set(table) - known - {"like"}):
        raise ConfigError(
            f"{where} has the unknown field {unknown[0]!r}; {_nearest(unknown[0], {*known, 'like'})}."
        )
    given = dict(table)
    if isinstance(given.get("margin_date"), datetime.date):
        given["margin_date"] = given["margin_date"].isoformat()
    if "like" in given:
        other = given.pop("like")
        pattern = above.get(other) or _shipped().get(other) if isinstance(other, str) else None
        if pattern is None:
            raise ConfigError(
                f"{where} is like {other!r}, which is neither above it in the file nor shipped; name another."
            )
        given = {name: getattr(pattern, name) for name in known} | given
    if missing := [name for name in _POSITIVE if name not in given]:
        raise ConfigError(f"{where} lacks {' and '.join(missing)}; add it.")
    return ContractSpec(symbol=symbol, **given)


@functools.cache
def _shipped() -> Mapping[str, ContractSpec]:
    return MappingProxyType(load_contracts(_SHIPPED))


@functools.cache
def _with_files(paths: str) -> Mapping[str, ContractSpec]:
    known = dict(_shipped())
    for path in reversed([part for part in paths.split(os.pathsep) if part]):
        known |= load_contracts(path)
    return MappingProxyType(known)


def known_contracts() -> Mapping[str, ContractSpec]:
    """Return the contracts known by name: those that ship with the package, and the user's own.

    The environment variable ``FOX_CONTRACTS`` names TOML files (separated as in PATH) whose entries are added
    to the shipped ones and replace them where the symbol is the same; the first file wins. Each is read once.
    """
    return _with_files(os.environ.get(ENVIRONMENT_VARIABLE, ""))


def contract(name_or_spec: str | ContractSpec) -> ContractSpec:
    """Return a contract by name, or the given specification unchanged.

    Parameters
    ----------
    name_or_spec : str or ContractSpec
        A symbol of :func:`known_contracts` (exact spelling first, then any case); the name of one expiry
        (``"ESU4"``, ``"6EH2024"``, ``"rb2110"``), which means the contract it belongs to; a symbol of a file,
        ``"path/to/mine.toml:SYM"`` (without ``:SYM`` where the file has one entry); or a specification.

    Raises
    ------
    ConfigError
        The name is unknown; the message gives the nearest known names. Or the file cannot be used.
    """
    if isinstance(name_or_spec, ContractSpec):
        return name_or_spec
    if not isinstance(name_or_spec, str):
        raise ConfigError(f"A contract is a symbol such as 'ES' or a ContractSpec, got {name_or_spec!r}.")
    path, suffix, symbol = name_or_spec.rpartition(".toml")
    if suffix and (not symbol or symbol.startswith(":")):
        return _of_file(path + suffix, symbol[1:])
    name = name_or_spec.strip()
    if (spec := _find(name, known_contracts())) is not None:
        return spec
    if (spec := _of_expiry(name)) is not None:
        _log.info("%r is an expiry of %s, %s", name, spec.symbol, spec.name)
        return spec
    raise ConfigError(
        f"Unknown contract {name_or_spec!r}: {_nearest(name, known_contracts())}; or pass a ContractSpec "
        "with tick_size and multiplier, or 'my.toml:SYM'."
    )


def _find(symbol: str, known: Mapping[str, ContractSpec]) -> ContractSpec | None:
    """Return the contract of this spelling, or else of this spelling in another case."""
    if symbol in known:
        return known[symbol]
    return next((spec for key, spec in known.items() if key.casefold() == symbol.casefold()), None)


def _of_expiry(name: str) -> ContractSpec | None:
    """Return the contract that a name such as ESU4 or rb2110 is an expiry of, if it is one."""
    found = (contract_of(reading) for reading in (*readings(name), *readings(name.upper())))
    return next((spec for spec in found if spec is not None), None)


def contract_of(name: ContractName) -> ContractSpec | None:
    """Return the known contract that an expiry belongs to, by its root and by how its exchange names expiries."""
    candidates = {
        symbol: spec
        for symbol, spec in known_contracts().items()
        if (spec.exchange in _NUMBERED_NAMES) == name.numbered
    }
    return _find(name.root, candidates)


def _of_file(path: str, symbol: str) -> ContractSpec:
    specs = load_contracts(path)
    if symbol in specs:
        return specs[symbol]
    if not symbol and len(specs) == 1:
        return next(iter(specs.values()))
    held = ", ".join(specs) or "no entries"
    if not symbol:
        raise ConfigError(f"Contracts file {path!r} holds {held}; name one as '{path}:SYM'.")
    raise ConfigError(f"Contracts file {path!r} has no entry {symbol!r}; it holds {held}.")


def _nearest(name: str, known: Mapping[str, Any] | set[str]) -> str:
    """Say which known names are nearest to a wrong one."""
    by_folded = {key.casefold(): key for key in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.4)
    if near:
        return f"nearest are {', '.join(by_folded[key] for key in near)}"
    return f"known are {', '.join(sorted(known) if isinstance(known, set) else known)}"
