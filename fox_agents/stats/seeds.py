"""Statistics over seeds: means, paired differences, ratios of spreads, and aggregates over runs and tasks.

The aggregates are those of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(2021), as their library ``rliable`` defines them, of scores (runs, tasks):

    interquartile mean            mean of the middle half of all runs * tasks scores: a quarter (rounded down) of them
                                  is cut off at either end
    probability of improvement    mean over tasks of P(X > Y) + P(X = Y) / 2 over all pairs of a run of X and one of Y

Their intervals are percentile ones of a bootstrap stratified by task: the runs of each task are drawn anew with
replacement. (``rliable`` itself does not run beside the pandas that the other libraries need.)
"""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fox_agents.evidence import Interval
from fox_env.errors import ConfigError

__all__ = [
    "Estimate",
    "interquartile_mean",
    "interval",
    "paired_difference",
    "paired_ratio",
    "paired_spread_ratio",
    "probability_of_improvement",
]

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


def interquartile_mean(scores: npt.ArrayLike, *, resamples: int = 9_999, seed: int = 0) -> Interval:
    """Interquartile mean of ``scores`` (runs, tasks) with its 95 % interval; NaN ends with a single run.

    Raises
    ------
    ConfigError
        The scores have another shape or are not finite, or SciPy is not installed.
    """
    from_tasks = _tasks(scores, "scores")
    from scipy.stats import trim_mean  # slow to import, and most users of this module need none of it

    def aggregate(*tasks: Any, axis: int) -> Any:
        return trim_mean(np.concatenate(tasks, axis=axis), 0.25, axis=axis)

    return _stratified(from_tasks, aggregate, resamples, seed)


def probability_of_improvement(
    scores: npt.ArrayLike, baseline: npt.ArrayLike, *, resamples: int = 9_999, seed: int = 0
) -> Interval:
    """Probability that a run of ``scores`` (runs, tasks) beats one of ``baseline`` (other runs, tasks), with interval.

    Raises
    ------
    ConfigError
        The scores have other shapes or tasks or are not finite, or SciPy is not installed.
    """
    ours, theirs = _tasks(scores, "scores"), _tasks(baseline, "baseline")
    if len(ours) != len(theirs):
        raise ConfigError(
            f"scores are of {len(ours)} tasks and the baseline of {len(theirs)}; give both the same"
        )

    def aggregate(*tasks: Any, axis: int) -> Any:
        pairs = zip(tasks[: len(ours)], tasks[len(ours) :], strict=True)
        wins = [0.5 + 0.5 * np.sign(x[..., :, None] - y[..., None, :]).mean(axis=(-2, -1)) for x, y in pairs]
        return np.mean(wins, axis=0)

    return _stratified([*ours, *theirs], aggregate, resamples, seed)


def _tasks(scores: npt.ArrayLike, name: str) -> list[npt.NDArray[np.float64]]:
    """The scores of each task, (runs,)."""
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.size == 0 or not np.isfinite(table).all():
        raise ConfigError(f"{name} of shape {table.shape} must be finite numbers of shape (runs, tasks)")
    return list(table.T)


def _stratified(
    strata: list[npt.NDArray[np.float64]], aggregate: Callable[..., Any], resamples: int, seed: int
) -> Interval:
    """The aggregate with its interval, every stratum (runs,) resampled by itself."""
    value = float(aggregate(*strata, axis=-1))
    if min(map(len, strata)) < 2:
        return Interval(value, math.nan, math.nan)
    from scipy.stats import bootstrap

    found = bootstrap(
        strata,
        aggregate,
        n_resamples=resamples,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return Interval(value, *map(float, found.confidence_interval))
