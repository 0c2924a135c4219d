"""Price processes of the synthetic markets, all sessions side by side; units are ticks per bar."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fox_env.synthetic.draws import F64, Draws, autoregression
from fox_env.synthetic.paths import BarLaw, Calendar

TREND, RANGE, VOLATILE = 0, 1, 2


def volatility_season(calendar: Calendar) -> F64:
    """Return the factor of the volatility at each minute: higher at the open and close, mean 1."""
    square = calendar.position * calendar.position
    season = 0.8 + 0.6 * square * square
    return season / (math.fsum(season) / calendar.minutes)


def session_levels(draws: Draws, calendar: Calendar) -> F64:
    """Return the factor of the volatility of each session: persistent from day to day, within 0.5 and 2."""
    return np.clip(1.0 + 0.3 * autoregression(draws, calendar.sessions, 0.8), 0.5, 2.0)


class _Visible:
    """A process with nothing hidden beyond the drift."""

    def hidden(self) -> Mapping[str, F64]:
        """Return no columns."""
        return {}


class Garch(_Visible):
    """Zero drift, GARCH(1, 1) volatility (Bollerslev 1986) and rare symmetric jumps.

    variance' = (1 - a - b) level^2 + a change^2 + b variance, a = 0.10, b = 0.85, with the seasonal factor
    taken out of the change.
    """

    REACTION, MEMORY = 0.10, 0.85
    JUMP_PROBABILITY, JUMP_SIGMAS = 0.004, 4.0

    def __init__(self, draws: Draws, calendar: Calendar, sigma: float) -> None:
        self._draws = draws
        self._season = volatility_season(calendar)
        self._level = (sigma * session_levels(draws, calendar)) ** 2
        self._variance = self._level.copy()
        self._factor = 1.0

    def next_bar(self, minute: int) -> BarLaw:
        """Return zero drift, the conditional deviation and sometimes a jump."""
        self._factor = float(self._season[minute])
        sigma = np.sqrt(self._variance) * self._factor
        return BarLaw(
            np.zeros_like(sigma), sigma, jumps(self._draws, sigma * self.JUMP_SIGMAS, self.JUMP_PROBABILITY)
        )

    def observe(self, change: F64) -> None:
        """Update the variance; a change counts as at most five deviations, or a jump would explode it."""
        square = np.minimum((change / self._factor) ** 2, 25.0 * self._variance)
        rest = 1.0 - self.REACTION - self.MEMORY
        self._variance = rest * self._level + self.REACTION * square + self.MEMORY * self._variance


@dataclass
class Signal(_Visible):
    """Drift proportional to a known series, constant volatility."""

    drift: F64
    sigma: float

    def next_bar(self, minute: int) -> BarLaw:
        """Return the planned drift."""
        drift = self.drift[:, minute]
        return BarLaw(drift, np.full_like(drift, self.sigma), np.zeros_like(drift))

    def observe(self, change: F64) -> None:
        """Ignore the price."""


class Feedback(_Visible):
    """Drift proportional to a moving average of past changes: momentum, or reversal if negative.

    m' = m + 2 / (span + 1) (change / sigma - m) from 0 at each opening; drift = strength sigma m / sd(m),
    within 3 deviations, where sd(m) is that of independent changes.
    """

    LIMIT = 3.0

    def __init__(self, sessions: int, sigma: float, strength: float, span: int) -> None:
        self._sigma = sigma
        self._strength = strength
        self._weight = 2.0 / (span + 1.0)
        self._deviation = float(np.sqrt(self._weight / (2.0 - self._weight)))
        self._average = np.zeros(sessions)

    def next_bar(self, minute: int) -> BarLaw:
        """Return the drift that the past changes imply."""
        score = np.clip(self._average / self._deviation, -self.LIMIT, self.LIMIT)
        return BarLaw(
            self._strength * self._sigma * score, np.full_like(score, self._sigma), np.zeros_like(score)
        )

    def observe(self, change: F64) -> None:
        """Update the moving average."""
        self._average = self._average + self._weight * (change / self._sigma - self._average)


class Regimes:
    """Markov switching (Hamilton 1989) between a trending, a ranging and a volatile phase.

    Trending: a constant drift of 0.15 deviations up or down. Ranging: the price is drawn back to where the
    phase began, by 5 % of the distance per bar. Volatile: no drift, 2.2 times the deviation, frequent jumps.
    A session opens in a phase of the stationary shares.
    """

    STAY = (1.0 - 1.0 / 120.0, 1.0 - 1.0 / 120.0, 1.0 - 1.0 / 60.0)
    SIGMA = (1.0, 0.8, 2.2)
    JUMP_PROBABILITY = (0.001, 0.001, 0.025)
    TREND_DRIFT, PULL, PULL_LIMIT, JUMP_TICKS = 0.15, 0.05, 0.5, 20.0

    def __init__(self, draws: Draws, calendar: Calendar, sigma: float) -> None:
        sessions = calendar.sessions
        self._draws = draws
        self._season = sigma * volatility_season(calendar)
        self._level = session_levels(draws, calendar)
        # Either other phase follows: stationary shares 2 : 2 : 1 for mean stays of 120, 120 and 60 bars.
        self._phase = np.minimum((draws.uniform(sessions) * 5.0).astype(np.int64) // 2, VOLATILE)
        self._side = draws.sign(sessions)
        self._price = np.zeros(sessions)
        self._anchor = np.zeros(sessions)
        self._phases = np.empty((sessions, calendar.minutes))

    def next_bar(self, minute: int) -> BarLaw:
        """Switch phases and return the law of the present one."""
        self._switch()
        self._phases[:, minute] = self._phase
        base = self._season[minute] * self._level
        sigma = base * np.take(self.SIGMA, self._phase)
        pull = np.clip(
            self.PULL * (self._anchor - self._price), -self.PULL_LIMIT * base, self.PULL_LIMIT * base
        )
        drift = np.choose(self._phase, [self.TREND_DRIFT * base * self._side, pull, np.zeros_like(pull)])
        probability = np.take(self.JUMP_PROBABILITY, self._phase)
        return BarLaw(drift, sigma, jumps(self._draws, self.JUMP_TICKS * self._level, probability))

    def _switch(self) -> None:
        count = len(self._phase)
        leaving = self._draws.uniform(count) >= np.take(self.STAY, self._phase)
        other = (self._phase + 1 + (self._draws.words(count) & 1)) % 3
        self._phase = np.where(leaving, other, self._phase)
        self._side = np.where(leaving, self._draws.sign(count), self._side)
        self._anchor = np.where(leaving, self._price, self._anchor)

    def observe(self, change: F64) -> None:
        """Follow the price of the session."""
        self._price = self._price + change

    def hidden(self) -> Mapping[str, F64]:
        """Return the phase of each bar: 0 trending, 1 ranging, 2 volatile."""
        return {"phase": self._phases}


def jumps(draws: Draws, scale: F64, probability: F64 | float) -> F64:
    """Return symmetric jumps of 0.5 to 1.5 times `scale` with a probability, else zero."""
    happens = draws.uniform(len(scale)) < probability
    return np.where(happens, draws.sign(len(scale)) * np.rint(scale * (0.5 + draws.uniform(len(scale)))), 0.0)
