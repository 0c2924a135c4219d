"""Statistics over seeds: intervals of means, of paired differences, and of the ratio of two spreads."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Estimate", "interval", "paired_difference", "paired_ratio", "paired_spread_ratio"]

# Student's t, two-sided 95 %, by degrees of freedom.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


class Estimate(NamedTuple):
    """A number with its 95 % interval; the ends are None where there are too few seeds."""

    value: float
    low: float | None
    high: float | None


def interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """95 % interval of the mean over seeds by Student's t, or None for a single one."""
    if len(values) < 2:
        return None, None
    half = _student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values) - half, statistics.fmean(values) + half


def paired_difference(values: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Mean of ``values`` - ``baseline`` over seeds; both (n,) in the order of the seeds."""
    differences = [value - base for value, base in zip(values, baseline, strict=True)]
    return Estimate(statistics.fmean(differences), *interval(differences))


def paired_ratio(values: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Geometric mean of ``values`` / ``baseline`` over seeds; positive numbers (n,)."""
    found = paired_difference(*([math.log(value) for value in each] for each in (values, baseline)))
    return Estimate(*(None if end is None else math.exp(end) for end in found))  # type: ignore[arg-type]


def paired_spread_ratio(values: Sequence[float], baseline: Sequence[float]) -> Estimate | None:
    """Standard deviation of ``values`` over that of ``baseline``, (n,) pairs from a bivariate normal distribution.

    None where a deviation is 0 or unknown. With F the ratio of the variances, r the correlation of the pairs and
    K = 1 + 2 (1 - r^2) t^2 / (n - 2), t of n - 2 degrees of freedom, the variance ratio has the exact interval
    F (K -+ sqrt(K^2 - 1)): Pitman, "A Note on Normal Correlation" (1939), Morgan (1939).
    """
    n = len(values)
    if n < 2:
        return None
    spread, base = statistics.stdev(values), statistics.stdev(baseline)
    if not (spread > 0.0 and base > 0.0):
        return None
    ratio = spread / base
    if n < 3:
        return Estimate(ratio, None, None)
    r = statistics.correlation(values, baseline)
    k = 1.0 + 2.0 * max(1.0 - r * r, 0.0) * _student(n - 2) ** 2 / (n - 2)
    wide = math.sqrt(k + math.sqrt(k * k - 1.0))  # the two ends are each other's inverse
    return Estimate(ratio, ratio / wide, ratio * wide)


def _student(freedom: int) -> float:
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    # Beyond the table by the expansion in 1 / freedom (Abramowitz and Stegun, 26.7.5).
    return 1.96 + 2.372 / freedom + 2.823 / freedom**2
