"""Continuous contracts: the expiries of one future spliced into one series of bars, with the gap at each roll."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fox_env import contracts
from fox_env.bars import ADJUSTMENTS, PRICE_EXTRAS, PRICES, Bars, Float, Int, session_breaks
from fox_env.contracts import ROLL_RULES, ContractSpec
from fox_env.errors import ConfigError, DataError
from fox_env.rolls import (
    DEFAULT_ROLL_DAYS,
    Day,
    Expiry,
    activity,
    arrange,
    held_expiries,
    in_months,
    leaving_days,
    read_name,
    trading_days,
)

__all__ = ["Roll", "continuous", "roll_schedule"]

Expiries = Mapping[str, Bars] | Sequence[tuple[Day, Bars]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Roll:
    """One roll of a continuous contract.

    Attributes
    ----------
    time : datetime64[ns]
        Close, in UTC, of the first bar of the new contract in the series.
    old, new : str
        Names of the contracts.
    measured : datetime64[ns]
        The last bar before the roll that both contracts have.
    old_close, new_close : float
        Closes of both at `measured`, in price units.
    """

    time: np.datetime64
    old: str
    new: str
    measured: np.datetime64
    old_close: float
    new_close: float

    @property
    def gap(self) -> float:
        """Price of the new contract minus price of the old one, in price units."""
        return self.new_close - self.old_close

    def __str__(self) -> str:
        return f"{self.time.astype('datetime64[s]')} UTC: {self.old} -> {self.new}, gap {self.gap:g}"


class _Piece(NamedTuple):
    """The bars of one expiry while it is held."""

    expiry: Expiry
    rows: slice
    day_of: Int


def continuous(
    expiries: Expiries,
    roll: str | None = None,
    adjust: str = "none",
    *,
    expiry: Mapping[str, Day] | None = None,
    contract: str | ContractSpec | None = None,
    roll_days: int | None = None,
) -> Bars:
    """Splice the expiries of one future into one series of bars.

    The series holds one expiry a trading day and never goes back to an earlier one. It starts with the first
    that trades on the first day, and rolls at the first bar of a day:

    - ``"volume"``: after a day on which a later expiry traded more than the one held, into the one that
      traded most;
    - ``"open_interest"``: the same with the day's last known value of the column of open interest
      (``extra["open_interest"]``, ``"OI"`` or the like); a day on which the one held has none decides nothing;
    - ``"calendar"``: `roll_days` business days before the last trading day, into the next of the contract's
      months.

    By every rule an expiry is left after its last trading day, where that is known. Only days before the roll
    enter the decision, so data that end earlier give the same earlier rolls.

    Parameters
    ----------
    expiries : mapping of name to Bars, or sequence of (name, Bars)
        Names such as ``"ESZ3"``, ``"rb2110"``, ``"201312"``, or dates of expiry, give the order; other names
        keep the order in which they come.
    roll : {"volume", "open_interest", "calendar"}, optional
        None: the rule of the contract, or ``"volume"`` where the contract is unknown.
    adjust : {"none", "difference", "ratio"}
        ``"none"`` keeps the traded prices and sets ``Bars.roll_gap``: close of the new expiry minus close of
        the old one, at the last bar before the roll that both have. ``"difference"`` adds the gaps of all
        later rolls to earlier prices, ``"ratio"`` multiplies earlier prices by the quotients of the two
        closes; both keep the last expiry's prices, leave ``roll_gap`` None and set ``Bars.adjusted``. No
        market is made from a series by ratio. ``bid``, ``ask``, ``upper_limit`` and ``lower_limit`` move with the
        prices, other further columns do not.
    expiry : mapping of name to date, optional
        Last trading days, where neither name nor contract gives them, or a holiday moves them.
    contract : str or ContractSpec, optional
        Contract of the expiries, for its roll rule, months, expiry rule and time zone. None: taken from the
        names where they have a known root.
    roll_days : int, optional
        For the calendar rule, from 0. None: as the contract says, or 5.

    Returns
    -------
    Bars
        ``extra["contract"]`` numbers the expiries held, from 0: the rolls before each bar. A further column
        that only some expiries have is NaN in the others; volume that one of them lacks is unknown in all.

    Raises
    ------
    ConfigError
        An unknown rule or name, a contract that the names are no expiries of, or expiries whose order or last
        trading day is not known.
    DataError
        Nothing to splice, a column that the rule needs is missing, a column ``"contract"`` among the expiries'
        own, or two expiries have no bar in common on the last day before a roll.
    """
    if adjust not in ADJUSTMENTS:
        raise ConfigError(f"Unknown adjust={adjust!r}; use one of {', '.join(ADJUSTMENTS)}.")
    pieces, rolls = _splice(expiries, roll, expiry, contract, roll_days)
    shifts, factors = np.zeros(len(pieces)), np.ones(len(pieces))
    if adjust == "difference":
        shifts[:-1] = np.cumsum([r.gap for r in reversed(rolls)])[::-1]
    elif adjust == "ratio":
        factors[:-1] = np.cumprod([_ratio(r) for r in reversed(rolls)])[::-1]
    if adjust != "none" and rolls:
        _log.warning(
            "Continuous contract: prices before %s UTC are adjusted by %s, so they are not those traded, and "
            "fees by notional do not fit them.", rolls[-1].time.astype("datetime64[s]"), adjust,
        )  # fmt: skip
    return _joined(pieces, rolls, shifts, factors, adjust)


def roll_schedule(
    expiries: Expiries,
    roll: str | None = None,
    *,
    expiry: Mapping[str, Day] | None = None,
    contract: str | ContractSpec | None = None,
    roll_days: int | None = None,
) -> list[Roll]:
    """Return the rolls that :func:`continuous` makes, in time order; parameters and errors are the same."""
    return _splice(expiries, roll, expiry, contract, roll_days)[1]


def _splice(
    expiries: Expiries,
    roll: str | None,
    expiry: Mapping[str, Day] | None,
    contract: str | ContractSpec | None,
    roll_days: int | None,
) -> tuple[list[_Piece], list[Roll]]:
    """Decide which rows of which expiry make up the series."""
    named = _named(expiries)
    common = _common_contract(named)
    spec = common if contract is None else _given_contract(contract, common, named[0][0])
    rule = roll or (spec.roll if spec is not None else "volume")
    if rule not in ROLL_RULES:
        raise ConfigError(f"Unknown roll={roll!r}; use one of {', '.join(ROLL_RULES)}.")
    _check_options(expiry, roll_days)
    items = arrange(named, expiry or {}, spec)
    before = None
    if rule == "calendar":
        items = in_months(items, spec)
        before = roll_days if roll_days is not None else spec.roll_days if spec else DEFAULT_ROLL_DAYS
    days, day_of = trading_days([item.bars.ts for item in items], spec.timezone if spec else "UTC")
    present = np.array([np.bincount(own, minlength=len(days)) > 0 for own in day_of])
    active = activity(items, day_of, len(days), rule)
    held = held_expiries(days, leaving_days(items, before), present, active)
    if (absent := np.flatnonzero(~present[held, np.arange(len(days))])).size:
        _log.warning(
            "Continuous contract: %d of %d trading days are missing, first %s, where %r is held but has no bars.",
            absent.size, len(days), days[absent[0]], items[held[absent[0]]].name,
        )  # fmt: skip
    pieces = []
    for number in np.unique(held).tolist():
        span = np.flatnonzero(held == number)
        start, stop = np.searchsorted(day_of[number], (span[0], span[-1] + 1)).tolist()
        if stop > start:
            pieces.append(_Piece(items[number], slice(start, stop), day_of[number]))
    rolls = [_roll(old, new) for old, new in itertools.pairwise(pieces)]
    return pieces, rolls


def _check_options(expiry: Mapping[str, Day] | None, roll_days: int | None) -> None:
    if expiry is not None and not isinstance(expiry, Mapping):
        raise ConfigError(
            f"Continuous contract: expiry= must map names to last trading days, got {type(expiry).__name__}."
        )
    whole = isinstance(roll_days, int) and not isinstance(roll_days, bool)
    if roll_days is not None and (not whole or roll_days < 0):
        raise ConfigError(f"Continuous contract: roll_days must be a whole number from 0, got {roll_days!r}.")


def _given_contract(contract: str | ContractSpec, common: ContractSpec | None, name: str) -> ContractSpec:
    """Return the contract asked for; a known one must be that of the names, where they say one."""
    spec = contracts.contract(contract)
    if common is not None and spec.symbol != common.symbol and spec.symbol in contracts.known_contracts():
        raise ConfigError(
            f"Continuous contract: {name!r} is an expiry of {common.symbol}, not of {spec.symbol}; leave "
            "contract= out, or give the expiries of that contract."
        )
    return spec


def _named(expiries: Expiries) -> list[tuple[str, Bars]]:
    """Return the expiries as pairs of a name and bars; refuse anything else."""
    pairs = list(expiries.items()) if isinstance(expiries, Mapping) else expiries
    if not isinstance(pairs, (list, tuple)) or not all(isinstance(p, tuple) and len(p) == 2 for p in pairs):
        raise ConfigError(
            "Continuous contract: expiries must be a mapping of names to Bars or a list of (name, Bars), got "
            f"{type(expiries).__name__}."
        )
    for name, bars in pairs:
        if not isinstance(bars, Bars):
            raise ConfigError(
                f"Continuous contract: {str(name)!r} must come with its Bars, got {type(bars).__name__}; read them "
                "with read_bars."
            )
        if "contract" in bars.extra:
            raise DataError(
                f"Continuous contract: the bars of {str(name)!r} have a column 'contract', where the series "
                "numbers its expiries; rename it or leave it out."
            )
    if not pairs:
        raise DataError("Continuous contract: there are no expiries; give at least one.")
    return [(str(name), bars) for name, bars in pairs]


def _common_contract(named: list[tuple[str, Bars]]) -> ContractSpec | None:
    """Return the known contract that every name is an expiry of, or None where names do not say."""
    parsed = {name: read_name(name, bars) for name, bars in named}
    roots = {name: found.root.casefold() for name, found in parsed.items() if found is not None}
    for name, root in roots.items():
        if root != roots[next(iter(roots))]:
            raise ConfigError(
                f"Continuous contract: {next(iter(roots))!r} and {name!r} are expiries of different contracts; "
                "give those of one."
            )
    first = parsed[named[0][0]]
    return contracts.contract_of(first) if first is not None and len(roots) == len(parsed) else None


def _roll(old: _Piece, new: _Piece) -> Roll:
    """Compare the closes of two expiries at the last bar of the old one's last day that both have."""
    bars, other = old.expiry.bars, new.expiry.bars
    last = old.rows.stop - 1
    first = int(np.searchsorted(old.day_of, old.day_of[last]))
    start, stop = np.searchsorted(other.ts, (bars.ts[first], bars.ts[last] + 1)).tolist()
    _, mine, theirs = np.intersect1d(
        bars.ts[first : last + 1], other.ts[start:stop], assume_unique=True, return_indices=True
    )
    time = other.ts[new.rows.start].astype("datetime64[ns]")
    if not mine.size:
        begin, end = (bars.ts[i].astype("datetime64[ns]").astype("datetime64[m]") for i in (first, last))
        raise DataError(
            f"Continuous contract: {old.expiry.name!r} and {new.expiry.name!r} have no bar at the same time from "
            f"{begin} to {end} UTC, the last day before the roll at {time.astype('datetime64[m]')}, so its gap "
            "is unknown; give bars of both there, another roll rule, or fewer expiries."
        )
    row = first + int(mine[-1])
    return Roll(
        time=time,
        old=old.expiry.name,
        new=new.expiry.name,
        measured=bars.ts[row].astype("datetime64[ns]"),
        old_close=float(bars.close[row]),
        new_close=float(other.close[start + int(theirs[-1])]),
    )


def _ratio(roll: Roll) -> float:
    """Return by what an adjustment by ratio multiplies the prices before a roll."""
    if min(roll.old_close, roll.new_close) <= 0:
        raise DataError(
            f"Continuous contract: at the roll from {roll.old!r} to {roll.new!r} the closes are "
            f"{roll.old_close:g} and {roll.new_close:g}, and only positive prices have a ratio; use "
            "adjust='difference'."
        )
    return roll.new_close / roll.old_close


def _joined(pieces: list[_Piece], rolls: list[Roll], shifts: Float, factors: Float, adjust: str) -> Bars:
    """Put the rows of the pieces behind each other, with earlier prices moved."""
    parts = [piece.expiry.bars[piece.rows] for piece in pieces]
    lengths = [len(part) for part in parts]
    first = np.cumsum([0, *lengths[:-1]])
    moves = list(zip(parts, shifts.tolist(), factors.tolist(), strict=True))
    ts = np.concatenate([part.ts for part in parts])
    gap = np.concatenate([part.gap for part in parts])
    session_end = np.concatenate([part.session_end for part in parts])
    seams = first[1:]
    gap[seams] |= session_breaks(ts)[seams] | session_end[seams - 1]
    session_end[seams - 1] = gap[seams]
    roll_gap = None
    if rolls and adjust == "none":
        roll_gap = np.zeros(len(ts))
        roll_gap[seams] = [roll.gap for roll in rolls]
    extra = {}
    for name in dict.fromkeys(name for part in parts for name in part.extra):
        columns = [part.extra.get(name, np.full(len(part), math.nan)) for part in parts]
        if name in PRICE_EXTRAS:
            columns = [c * factor + shift for c, (_, shift, factor) in zip(columns, moves, strict=True)]
        extra[name] = np.concatenate(columns)
    extra["contract"] = np.repeat(np.arange(len(pieces), dtype=np.float64), lengths)
    volumes = [part.volume for part in parts if part.volume is not None]
    prices = {name: np.concatenate([getattr(part, name) * f + s for part, s, f in moves]) for name in PRICES}
    return Bars.from_arrays(
        ts,
        prices["open"],
        prices["high"],
        prices["low"],
        prices["close"],
        np.concatenate(volumes) if len(volumes) == len(parts) else None,
        roll_gap=roll_gap,
        session_end=session_end,
        gap=gap,
        extra=extra,
        repairs=[f"{piece.expiry.name}: {text}" for piece in pieces for text in piece.expiry.bars.repairs],
        adjusted=adjust if rolls else "none",
    )
