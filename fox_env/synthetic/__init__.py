"""Synthetic markets: seeded, tick-gridded 1-minute bars with known properties; nothing is downloaded.

Every market has weekday sessions from 08:30 Chicago time, the terms of ES under the name SYN, and bars that
come from tick paths of 60 sub-steps (see :mod:`fox_env.synthetic.paths`). ``market.generator`` is the name
that makes the same market again; ``market.bars.extra["drift"]`` is the expected change in ticks over each bar,
for scoring a policy without the noise of its luck, never for the policy itself. ``docs/synthetic-markets.md``
shows what each market looks like.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import ParamSpec

from fox_env.errors import ConfigError
from fox_env.market import Market
from fox_env.synthetic.draws import Draws, autoregression
from fox_env.synthetic.paths import SPEC, Calendar, simulate
from fox_env.synthetic.processes import Feedback, Garch, Regimes, Signal

__all__ = [
    "MARKETS", "SPEC", "from_name", "martingale", "momentum", "parse", "regimes", "reversal", "signal"
]  # fmt: skip

_GAP_SIGMA = 30.0
_SIGNAL_LIMIT = 6.0  # deviations of the signal whose drift the tick paths carry exactly
_MOST_BETA = 0.7

P = ParamSpec("P")


def _named(maker: Callable[P, Market]) -> Callable[P, Market]:
    """Note the generator's name and every parameter in the market that `maker` returns."""
    signature = inspect.signature(maker, eval_str=True)

    @functools.wraps(maker)
    def make(*args: P.args, **kwargs: P.kwargs) -> Market:
        market = maker(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = (
            (key, signature.parameters[key].annotation(value)) for key, value in bound.arguments.items()
        )
        return replace(market, generator=f"{maker.__name__}:" + ",".join(f"{k}={v!r}" for k, v in values))

    return make


@_named
def regimes(
    seed: int = 0, sessions: int = 60, *, session_minutes: int = 390, sigma_ticks: float = 4.0
) -> Market:
    """Return a market that switches between trending, ranging and volatile phases, the default market.

    Reproduces volatility clustering, fat tails, jumps, overnight gaps and the U-shaped day of volatility and
    volume. There is something to learn: trends persist for about 120 bars and ranges revert, each worth
    several times the cost of a trade. ``bars.extra["phase"]`` is the phase of each bar: 0 trending, 1 ranging,
    2 volatile.

    Parameters
    ----------
    seed : int
        Same seed, same bits.
    sessions : int
        Trading days.
    session_minutes : int
        1-minute bars per session, 2 to 1380.
    sigma_ticks : float
        Deviation of a bar's change in ticks, in a quiet phase at the mean of the day.

    Raises
    ------
    ConfigError
        A value out of range.
    """
    draws, calendar = _stage(seed, sessions, session_minutes, sigma_ticks)
    return simulate(Regimes(draws, calendar, sigma_ticks), draws, calendar, gap_sigma=_GAP_SIGMA)


@_named
def martingale(
    seed: int = 0, sessions: int = 60, *, session_minutes: int = 390, sigma_ticks: float = 4.0
) -> Market:
    """Return a market without any edge: zero drift, GARCH volatility, fat tails, symmetric jumps and gaps.

    The right policy is not to trade.

    Parameters
    ----------
    seed, sessions, session_minutes
        As for :func:`regimes`.
    sigma_ticks : float
        Deviation of a bar's change in ticks in a session of mean volatility, at the mean of the day and without
        jumps. The levels of the sessions and the jumps raise that of all bars by about 15 %.

    Raises
    ------
    ConfigError
        A value out of range.
    """
    draws, calendar = _stage(seed, sessions, session_minutes, sigma_ticks)
    return simulate(Garch(draws, calendar, sigma_ticks), draws, calendar, gap_sigma=_GAP_SIGMA)


@_named
def signal(
    seed: int = 0,
    sessions: int = 60,
    *,
    beta: float = 0.1,
    persistence: float = 0.9,
    session_minutes: int = 390,
    sigma_ticks: float = 4.0,
) -> Market:
    """Return a market whose next change is predicted by an observable signal.

    C_t+1 - C_t = beta sigma s_t + noise of deviation sigma, in ticks, with constant sigma and s an AR(1)
    series of unit variance. s_t is the first order-flow feature, unscaled. Every bar opens at the close
    before it, overnight too, so that the whole predicted change can be earned.

    Parameters
    ----------
    seed, sessions, session_minutes
        As for :func:`regimes`.
    beta : float
        Predicted part of the change in deviations, at one deviation of the signal; within +-0.7 and a sixth
        of `sigma_ticks`, which tick paths can carry.
    persistence : float
        Autocorrelation of the signal at lag 1, within [0, 1).
    sigma_ticks : float
        Deviation of a bar's change in ticks.

    Raises
    ------
    ConfigError
        A value out of range.
    """
    draws, calendar = _stage(seed, sessions, session_minutes, sigma_ticks)
    most = min(sigma_ticks / _SIGNAL_LIMIT, _MOST_BETA)
    if not abs(beta) <= most:
        raise ConfigError(
            f"signal: beta must be within +-{most:g}, the smaller of {_MOST_BETA:g} and sigma_ticks / 6; "
            f"got {beta:g}."
        )
    if not 0.0 <= persistence < 1.0:
        raise ConfigError(f"signal: persistence must be within [0, 1), got {persistence:g}.")
    # Rounded as in the feature table, so that what is seen is exactly what drives the price.
    series = (
        autoregression(draws, sessions * session_minutes, persistence).astype("float32").astype("float64")
    )
    drift = beta * sigma_ticks * series
    drift[1:] = drift[:-1].copy()
    drift[0] = 0.0
    process = Signal(drift.reshape(sessions, session_minutes), sigma_ticks)
    return simulate(process, draws, calendar, signal=series)


@_named
def momentum(
    seed: int = 0,
    sessions: int = 60,
    *,
    strength: float = 0.1,
    span: int = 20,
    session_minutes: int = 390,
    sigma_ticks: float = 4.0,
) -> Market:
    """Return a market that continues its recent moves; the edge is visible only through past prices.

    Within a session the drift is strength sigma m / sd(m), m the exponential average of the changes over
    `span` bars (see :class:`fox_env.synthetic.processes.Feedback`).

    Parameters
    ----------
    seed, sessions, session_minutes
        As for :func:`regimes`.
    strength : float
        Drift in deviations at one deviation of the average, within (0, 1].
    span : int
        Span of the average in bars, 1 or more.
    sigma_ticks : float
        Deviation of a bar's change in ticks, at least 3.

    Raises
    ------
    ConfigError
        A value out of range.
    """
    return _feedback("momentum", seed, sessions, strength, 1.0, span, session_minutes, sigma_ticks)


@_named
def reversal(
    seed: int = 0,
    sessions: int = 60,
    *,
    strength: float = 0.2,
    span: int = 10,
    session_minutes: int = 390,
    sigma_ticks: float = 4.0,
) -> Market:
    """Return a market that takes back its recent moves: :func:`momentum` with the sign turned.

    Raises
    ------
    ConfigError
        A value out of range.
    """
    return _feedback("reversal", seed, sessions, strength, -1.0, span, session_minutes, sigma_ticks)


MARKETS: Mapping[str, Callable[..., Market]] = MappingProxyType(
    {maker.__name__: maker for maker in (regimes, martingale, signal, momentum, reversal)}
)
"""The synthetic markets by name."""


def parse(text: str) -> tuple[str, dict[str, int | float]]:
    """Return the name and the parameters given in a text such as ``"signal:seed=3,beta=0.2"``.

    Raises
    ------
    ConfigError
        An unknown name or parameter (with the nearest known one), a parameter given twice, or a value that is
        not a number.
    """
    name, _, rest = text.strip().partition(":")
    name = _known(name.strip(), list(MARKETS), "synthetic market", text)
    parameters = inspect.signature(MARKETS[name], eval_str=True).parameters
    arguments: dict[str, int | float] = {}
    for item in filter(None, (part.strip() for part in rest.split(","))):
        key, _, value = (part.strip() for part in item.partition("="))
        kind = parameters[_known(key, list(parameters), "parameter", text)].annotation
        if key in arguments:
            raise ConfigError(f"Market {text!r}: {key} is given twice; give it once.")
        try:
            arguments[key] = kind(value)
        except ValueError:
            wanted = "an integer" if kind is int else "a number"
            raise ConfigError(f"Market {text!r}: {key} must be {wanted}, got {value!r}.") from None
    return name, arguments


def from_name(text: str) -> Market:
    """Return the market of a text such as ``"regimes"`` or ``"regimes:seed=3,sessions=5"``.

    The last four markets are kept, so that many environments share one.

    Raises
    ------
    ConfigError
        As :func:`parse`, or a value out of range.
    """
    name, arguments = parse(text)
    parameters = inspect.signature(MARKETS[name]).parameters.values()
    return _shared(name, tuple((each.name, arguments.get(each.name, each.default)) for each in parameters))


@functools.lru_cache(maxsize=4)
def _shared(name: str, arguments: tuple[tuple[str, int | float], ...]) -> Market:
    return MARKETS[name](**dict(arguments))


def _known(name: str, names: list[str], what: str, text: str) -> str:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}."
        raise ConfigError(f"Market {text!r}: unknown {what} {name!r}; {hint}")
    return name


def _stage(seed: int, sessions: int, minutes: int, sigma: float) -> tuple[Draws, Calendar]:
    if not 1.0 <= sigma <= 1_000.0:
        raise ConfigError(f"Synthetic markets: sigma_ticks must be within 1 and 1000, got {sigma:g}.")
    return Draws(seed), Calendar(sessions, minutes)


def _feedback(
    name: str, seed: int, sessions: int, strength: float, sign: float, span: int, minutes: int, sigma: float
) -> Market:
    draws, calendar = _stage(seed, sessions, minutes, sigma)
    if not 0.0 < strength <= 1.0:
        raise ConfigError(f"{name}: strength must be within (0, 1], got {strength:g}.")
    if not span >= 1:
        raise ConfigError(f"{name}: span must be at least 1, got {span}.")
    if sigma < Feedback.LIMIT * strength:
        raise ConfigError(f"{name}: sigma_ticks must be at least 3 x strength, got {sigma:g}.")
    return simulate(Feedback(sessions, sigma, sign * strength, span), draws, calendar)
