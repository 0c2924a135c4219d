"""How sure a Sharpe ratio is: probabilistic and deflated Sharpe ratio, and the track record that it needs.

With n returns, their Sharpe ratio s *per bar* (mean over the standard deviation with ddof 1, risk-free rate 0),
skewness g3 and kurtosis g4 (3 for a normal distribution), Phi the normal distribution function and s* a benchmark:

    V = 1 - g3 s + (g4 - 1) / 4 s²
    probabilistic Sharpe ratio    PSR(s*) = Phi((s - s*) sqrt(n - 1) / sqrt(V))
    minimum track record length   MinTRL(s*) = 1 + V (z / (s - s*))²,  z = Phi^-1(confidence)
    expected maximum of N tries   s0 = sqrt(v) ((1 - g) Phi^-1(1 - 1/N) + g Phi^-1(1 - 1/(N e)))
    deflated Sharpe ratio         DSR = PSR(s0)

with v the variance of the Sharpe ratios of the N tries and g the Euler-Mascheroni constant. Sources: Bailey and Lopez
de Prado, "The Sharpe Ratio Efficient Frontier", Journal of Risk 15 (2012), equations 10 and 11, and "The Deflated
Sharpe Ratio", Journal of Portfolio Management 40 (2014), equations 1 and 2.

Everything here is per bar; `annual` and `per_bar` are the only conversions.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fox_env import metrics
from fox_env.errors import ConfigError

__all__ = [
    "Moments",
    "annual",
    "deflated_sharpe",
    "expected_maximum_sharpe",
    "minimum_track_record",
    "moments",
    "per_bar",
    "probabilistic_sharpe",
]

_NORMAL = NormalDist()


class Moments(NamedTuple):
    """What the uncertainty of a Sharpe ratio depends on."""

    bars: int
    """Number of returns, n."""
    sharpe: float
    """Per bar."""
    skewness: float = 0.0
    """Third central moment over the cube of the deviation, both with ddof 0; 0 for a normal distribution."""
    kurtosis: float = 3.0
    """Fourth central moment over the squared variance, both with ddof 0; not the excess: 3 for a normal one."""


def per_bar(sharpe: float, bars_per_year: float) -> float:
    """The Sharpe ratio per bar of an annualised one."""
    return sharpe / math.sqrt(bars_per_year)


def annual(sharpe: float, bars_per_year: float) -> float:
    """The annualised Sharpe ratio of one per bar."""
    return sharpe * math.sqrt(bars_per_year)


def moments(returns: npt.ArrayLike) -> Moments | None:
    """Moments of the returns (n,) of one account; None with fewer than two of them or without variance.

    Raises
    ------
    DataError
        A return is not finite, or the array has another shape.
    """
    plain = metrics.summary(returns, bars_per_year=1.0)
    values = np.asarray(returns, dtype=np.float64)
    if not plain["volatility"] > 0.0:
        return None
    standard = (values - values.mean()) / values.std()
    third, fourth = float((standard**3).mean()), float((standard**4).mean())
    return Moments(len(values), plain["sharpe"], third, fourth)


def probabilistic_sharpe(of: Moments, benchmark: float = 0.0) -> float:
    """Probability that the true Sharpe ratio is above ``benchmark``; both per bar.

    Raises
    ------
    ConfigError
        Fewer than two bars, or a kurtosis that no distribution of that skewness has.
    """
    if of.bars < 2:
        raise ConfigError(f"a probabilistic Sharpe ratio needs at least two bars, got {of.bars}")
    distance = (of.sharpe - benchmark) * math.sqrt(of.bars - 1)
    variance = _variance(of)
    if variance == 0.0:  # returns of two values, at the one Sharpe ratio that they cannot miss
        return 0.5 + 0.5 * float(np.sign(distance))
    return _NORMAL.cdf(distance / math.sqrt(variance))


def minimum_track_record(of: Moments, benchmark: float = 0.0, confidence: float = 0.95) -> float | None:
    """Bars after which this Sharpe ratio would be above ``benchmark`` at ``confidence``; None where it is not above.

    ``of.bars`` has no part in it.
    """
    if not of.sharpe > benchmark:
        return None
    if not 0.5 < confidence < 1.0:
        raise ConfigError(f"confidence={confidence!r} must be between 0.5 and 1, such as 0.95")
    needed = _NORMAL.inv_cdf(confidence) / (of.sharpe - benchmark)
    return 1.0 + _variance(of) * needed**2


def expected_maximum_sharpe(trials: int, variance: float) -> float:
    """Best Sharpe ratio to expect of ``trials`` independent tries without skill.

    Parameters
    ----------
    trials : int
        Tries; the best of a single one is expected at 0.
    variance : float
        Of the Sharpe ratios of the tries; the result has their unit (per bar, or annualised).
    """
    if trials < 1 or not variance >= 0.0:
        raise ConfigError(
            f"trials={trials!r} must be 1 or more and variance={variance!r} 0 or more: the number of tries and the "
            "variance of their Sharpe ratios"
        )
    if trials == 1:
        return 0.0
    share = np.euler_gamma
    normal = (1.0 - share) * _NORMAL.inv_cdf(1.0 - 1.0 / trials)
    normal += share * _NORMAL.inv_cdf(1.0 - 1.0 / (trials * math.e))
    return math.sqrt(variance) * normal


def deflated_sharpe(of: Moments, trials: int, variance: float) -> float:
    """Probability that the true Sharpe ratio is above the best to expect of ``trials`` tries without skill.

    ``variance`` is that of the tries' Sharpe ratios per bar.
    """
    return probabilistic_sharpe(of, expected_maximum_sharpe(trials, variance))


def _variance(of: Moments) -> float:
    """The variance of the estimated Sharpe ratio (Mertens 2002)."""
    if of.kurtosis < (1.0 + of.skewness**2) * (1.0 - 1e-9):
        raise ConfigError(
            f"kurtosis={of.kurtosis!r} is below 1 + skewness² (skewness={of.skewness!r}), which no distribution has; "
            "give the kurtosis itself (3 for a normal distribution), not the excess"
        )
    return max(1.0 - of.skewness * of.sharpe + (of.kurtosis - 1.0) / 4.0 * of.sharpe**2, 0.0)
