"""Bars from simulated tick paths: the one path generator behind every synthetic market.

A bar is 60 sub-steps; each moves the price by a whole number of ticks or not at all, with probabilities that
give exactly the drift and the variance asked for. The price therefore stays on the grid without rounding (rounding a
continuous path would make it revert, and a martingale would no longer be one), and high, low and volume
belong to the path. Sessions are simulated side by side, so that a process may use its own past while the loop
runs over the bars of one session.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import Bars
from fox_env.contracts import contract
from fox_env.errors import ConfigError
from fox_env.market import Market
from fox_env.synthetic.draws import F64, Draws

SUBSTEPS = 60
SPEC = replace(contract("ES"), symbol="SYN", session="SYN")
"""Contract of every synthetic market: the terms of ES."""

_START_TICKS = 20_000
_FIRST_DAY = datetime.date(2020, 1, 6)
_OPENING = datetime.time(8, 30)
_MINUTE_NS = 60_000_000_000
_MOST_MINUTES = 1_380
_QUIET_CONTRACTS = 480.0
_CONTRACTS_PER_TICK_TRAVELLED = 20.0
_CONTRACTS_PER_TICK_OF_RANGE = 60.0


class BarLaw(NamedTuple):
    """Distribution of the next bar of every session, in ticks: arrays (sessions,)."""

    drift: F64
    sigma: F64
    jump: F64


class Process(Protocol):
    """A price process; its state belongs to one bar of all sessions at a time."""

    def next_bar(self, minute: int) -> BarLaw:
        """Return the law of the bar that closes `minute` + 1 minutes after the opening."""

    def observe(self, change: F64) -> None:
        """Take note of the change in ticks, array (sessions,), that the bar just simulated made."""

    def hidden(self) -> Mapping[str, F64]:
        """Return what drove the bars and no price shows, by column name: arrays (sessions, minutes)."""


@dataclass(frozen=True)
class Calendar:
    """Weekday sessions of equal length in 1-minute bars from 08:30 Chicago time."""

    sessions: int
    minutes: int

    def __post_init__(self) -> None:
        for name, value in (("sessions", self.sessions), ("session_minutes", self.minutes)):
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
                raise ConfigError(f"Synthetic markets: {name} must be an integer, got {value!r}.")
        if self.sessions < 1:
            raise ConfigError(f"Synthetic markets: sessions must be at least 1, got {self.sessions}.")
        if not 2 <= self.minutes <= _MOST_MINUTES:
            raise ConfigError(
                f"Synthetic markets: session_minutes must be 2 to {_MOST_MINUTES}, got {self.minutes}."
            )

    @property
    def position(self) -> F64:
        """Position of the middle of each bar in its session, from -1 to 1; array (minutes,)."""
        return 2.0 * (np.arange(self.minutes) + 0.5) / self.minutes - 1.0

    @property
    def ts(self) -> NDArray[np.int64]:
        """Bar closes in UTC nanoseconds; array (sessions, minutes)."""
        zone = ZoneInfo(SPEC.timezone)
        opening = []
        for number in range(self.sessions):
            day = _FIRST_DAY + datetime.timedelta(days=7 * (number // 5) + number % 5)
            opening.append(int(datetime.datetime.combine(day, _OPENING, zone).timestamp()))
        minutes = np.arange(1, self.minutes + 1, dtype=np.int64) * _MINUTE_NS
        return np.asarray(opening, dtype=np.int64)[:, None] * 1_000_000_000 + minutes


def simulate(
    process: Process, draws: Draws, calendar: Calendar, *, gap_sigma: float = 0.0, signal: F64 | None = None
) -> Market:
    """Simulate a process and return the market.

    Parameters
    ----------
    process : Process
        Law of every bar.
    draws : Draws
        Source of randomness.
    calendar : Calendar
        Sessions and their length.
    gap_sigma : float
        Standard deviation of the overnight change in ticks; 0: every bar opens at the close before it.
    signal : float64 (sessions * minutes,), optional
        Column that becomes the first order-flow feature.

    Notes
    -----
    ``Bars.extra`` keeps the truth that a score may use and an agent may not: ``drift``, the expected change
    in ticks over each bar given all that came before it (and its phase), and the columns of :meth:`Process.hidden`.
    """
    shape = (calendar.sessions, calendar.minutes)
    high, low, close = (np.empty(shape, dtype=np.int64) for _ in range(3))
    travelled, drift = np.empty(shape), np.empty(shape)
    for minute in range(calendar.minutes):
        law = process.next_bar(minute)
        drift[:, minute] = law.drift
        steps = _steps(law, draws)
        path = np.cumsum(steps, axis=1, dtype=np.int32)
        high[:, minute] = np.maximum(path.max(axis=1), 0)
        low[:, minute] = np.minimum(path.min(axis=1), 0)
        close[:, minute] = path[:, -1]
        travelled[:, minute] = np.abs(steps).sum(axis=1)
        process.observe(close[:, minute].astype(np.float64))
    gaps = np.zeros(shape, dtype=np.int64)
    gaps[1:, 0] = np.rint(draws.normal(calendar.sessions - 1) * gap_sigma)
    level = _START_TICKS + np.cumsum((close + gaps).ravel()).reshape(shape)
    opening = level - close
    volume = _volume(travelled, (high - low).astype(np.float64), draws, calendar)
    first, last = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    first[1:, 0], last[:, -1] = True, True
    extra = {"drift": drift.ravel(), **{name: column.ravel() for name, column in process.hidden().items()}}
    bars = Bars.from_arrays(
        calendar.ts.ravel(),
        open=opening.ravel() * SPEC.tick_size,
        high=(opening + high).ravel() * SPEC.tick_size,
        low=(opening + low).ravel() * SPEC.tick_size,
        close=level.ravel() * SPEC.tick_size,
        volume=volume.ravel(),
        gap=first.ravel(),
        session_end=last.ravel(),
        extra=extra if signal is None else extra | {"signal": signal},
    )
    return Market.from_bars(bars, SPEC)


def _steps(law: BarLaw, draws: Draws) -> NDArray[np.int32]:
    """Draw the moves of one bar of all sessions: int32 (sessions, 60), in ticks.

    A move has k ticks, or k - 1 as often if k is above 1: moves of one size alone would leave out every other tick.
    """
    drift, variance = law.drift / SUBSTEPS, law.sigma * law.sigma / SUBSTEPS
    square = variance + drift * drift
    # The smallest k whose moves have a mean square of at least `square`; it is k^2 - k + 1/2 for k above 1.
    single = square <= 1.0
    size = np.where(single, 1.0, np.maximum(np.ceil(0.5 + np.sqrt(np.maximum(square - 0.25, 0.0))), 2.0))
    mean = np.where(single, 1.0, size - 0.5)
    moving = np.minimum(square / np.where(single, 1.0, size * size - size + 0.5), 1.0)
    lean = np.clip(drift / mean, -moving, moving)
    # 2^32 - 1 keeps a probability of 1 within 32 bits; equal thresholds make both directions equally likely.
    up = (0.5 * (moving + lean) * (2.0**32 - 1.0)).astype(np.uint32)[:, None]
    down = (0.5 * (moving - lean) * (2.0**32 - 1.0)).astype(np.uint32)[:, None]
    words = draws.words(len(drift), SUBSTEPS)
    steps: NDArray[np.int32] = (words < up).astype(np.int32) - (words > np.uint32(2**32 - 1) - down)
    steps *= size.astype(np.int32)[:, None] - ((words & 1).astype(np.int32) & ~single[:, None])
    jumping = np.flatnonzero(law.jump)
    if jumping.size:
        moment = (draws.uniform(jumping.size) * SUBSTEPS).astype(np.int64)
        steps[jumping, moment] += np.rint(law.jump[jumping]).astype(np.int32)
    return steps


def _volume(travelled: F64, spread: F64, draws: Draws, calendar: Calendar) -> F64:
    """Return whole contracts per bar: more at the open and close, and more when the price travels far."""
    season = 0.6 + 1.2 * calendar.position * calendar.position
    path = _CONTRACTS_PER_TICK_TRAVELLED * travelled + _CONTRACTS_PER_TICK_OF_RANGE * spread
    chance = 0.75 + 0.5 * draws.uniform(*travelled.shape)
    return np.floor(season * (_QUIET_CONTRACTS + path) * chance)
