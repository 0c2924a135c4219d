"""Intervals of the figures of one series of returns, by the stationary bootstrap.

A resample joins blocks of consecutive returns that start anywhere and whose lengths are geometric of mean b, until it
is as long as the series, the end followed by the start: dependence over times much shorter than b survives, and the
result is stationary. Source: Politis and Romano, "The Stationary Bootstrap", Journal of the American Statistical
Association 89 (1994). The mean length b is chosen from the data: Politis and White, "Automatic Block-Length Selection
for the Dependent Bootstrap", Econometric Reviews 23 (2004), with the correction of Patton, Politis and White (2009).
Both are the library ``arch``'s. An interval goes from the 2.5 % to the 97.5 % quantile of the figure over the
resamples (percentile method).

A series of more than 5,000 returns is cut into 5,000 runs of consecutive returns, of equal length to one, and whole
runs are drawn. The figures of a resample are still those of all its returns, drawdowns inside of a run included; what
is assumed is that nothing is lost when blocks start and end only where runs do, which holds once a run is short
against the series (at most 1/5,000 of it).
"""

import numpy as np
import numpy.typing as npt

from fox_agents.evidence import Interval
from fox_env import metrics

__all__ = ["FIGURES", "LEAST_BARS", "bootstrap_intervals"]

Float = npt.NDArray[np.float64]

FIGURES = ("sharpe", "mean_return", "total_return", "max_drawdown")
"""Figures that have an interval."""
LEAST_BARS = 30
"""Returns below which no interval is given."""
_RUNS = 5_000


def bootstrap_intervals(
    returns: npt.ArrayLike, bars_per_year: float, *, seed: int = 0, resamples: int = 2000
) -> dict[str, Interval]:
    """95 % intervals of the figures of one account's returns.

    Parameters
    ----------
    returns : array, shape (n,)
        Return of each bar, a fraction, flat bars included.
    bars_per_year : float
        Annualises the Sharpe ratio.
    seed : int
        Of the resamples: the same seed gives the same intervals.
    resamples : int
        Number of resamples; 2,000 leave an error of a twentieth of the interval's width in its ends.

    Returns
    -------
    dict of str to Interval
        ``sharpe`` (annualised), ``total_return``, ``max_drawdown`` as `fox_env.metrics.summary` defines them, and
        ``mean_return``, the mean per bar. Where all returns are equal, as those of an account that never trades, both
        ends are the value. With fewer than 30 returns both ends are NaN: the quantiles of so few would be narrower
        than 95 %. The value of the ``max_drawdown`` may lie outside of the middle of its interval: a resample has
        the same bars in another order, and the interval says how deep they could have gone.

    Raises
    ------
    DataError
        A return is not finite, or the array has another shape.
    ConfigError
        The library ``arch`` is not installed, or `bars_per_year` is not a positive number.
    """
    values = np.asarray(returns, dtype=np.float64)
    summary = metrics.summary(values, bars_per_year=bars_per_year)
    summary["mean_return"] = float(values.mean()) if values.size else 0.0
    if len(values) < LEAST_BARS:
        return {name: Interval(summary[name], np.nan, np.nan) for name in FIGURES}
    if np.ptp(values) == 0.0:
        return {name: Interval(*[summary[name]] * 3) for name in FIGURES}
    found = _figures(_resample(_runs(values), resamples, seed), bars_per_year)
    low, high = np.nanquantile(found, (0.025, 0.975), axis=0)
    return {name: Interval(summary[name], float(low[k]), float(high[k])) for k, name in enumerate(FIGURES)}


def _runs(returns: Float) -> Float:
    """What the figures need of each run: shape (runs, 7).

    Number, sum and sum of squares of its returns, and the logarithms of its growth, of its peak, of its deepest
    fall from a peak inside of it and of its trough, against the equity before its first return.
    """
    edges = np.linspace(0, len(returns), min(_RUNS, len(returns)) + 1).astype(np.int64)
    starts, lengths = edges[:-1], np.diff(edges)
    sums = [np.add.reduceat(x, starts) for x in (returns, returns**2)]
    # One row a run, short ones filled with bars without return, which change neither peak nor fall.
    grid = np.zeros((len(starts), lengths.max()))
    column = np.arange(len(returns)) - np.repeat(starts, lengths)
    with np.errstate(divide="ignore"):  # the equity that was lost stays lost: its logarithm is -inf
        grid[np.repeat(np.arange(len(starts)), lengths), column] = np.log(np.maximum(1.0 + returns, 0.0))
    path = np.pad(np.cumsum(grid, axis=1), ((0, 0), (1, 0)))
    peak = np.maximum.accumulate(path, axis=1)
    return np.column_stack(
        [lengths, *sums, path[:, -1], peak[:, -1], (path - peak).min(axis=1), path.min(axis=1)]
    )


def _sums(runs: Float) -> Float:
    """Of the series that these runs (runs, 7) make: (5,).

    Number, sum and sum of squares of its returns, and the logarithms of its growth and of its deepest fall from a
    peak.
    """
    n, total, squares, growth, high, fall, low = runs.T
    end = np.cumsum(growth)
    start = np.concatenate(([0.0], end[:-1]))
    former_peak = np.maximum.accumulate(np.concatenate(([0.0], (start + high)[:-1])))
    deepest = min(fall.min(), (start + low - former_peak).min())
    return np.array([n.sum(), total.sum(), squares.sum(), end[-1], deepest])


def _figures(sums: Float, bars_per_year: float) -> Float:
    """The figures of series of such sums (..., 5), in the order of `FIGURES`: (..., 4)."""
    n, total, squares, growth, deepest = np.moveaxis(sums, -1, 0)
    mean = total / n
    found = metrics.return_figures(
        metrics.ReturnSums(
            bars=n,
            span=n,
            mean=mean,
            squares=np.maximum(squares - n * mean**2, 0.0),
            largest=np.sqrt(squares),  # no less than the largest, to tell rounding from a deviation
            downside=np.full_like(n, np.nan),
            growth=np.exp(growth),
            drawdown=np.expm1(deepest),
            drawdown_bars=np.full_like(n, np.nan),
        ),
        np.asarray(bars_per_year),
    )
    found["mean_return"] = mean
    return np.stack([found[name] for name in FIGURES], axis=-1)


def _resample(runs: Float, resamples: int, seed: int) -> Float:
    """Sums (resamples, 5) of stationary resamples of the runs."""
    from arch.bootstrap import StationaryBootstrap, optimal_block_length  # takes a second to import

    length = float(optimal_block_length(runs[:, 1])["stationary"].iloc[0])
    length = max(length, 1.0) if np.isfinite(length) else 1.0
    # The mean length need not be whole, whatever the annotation says.
    drawn = StationaryBootstrap(length, runs, seed=np.random.default_rng(seed))  # type: ignore[arg-type]
    result: Float = drawn.apply(_sums, resamples)
    return result
