"""Probability of backtest overfitting, by combinatorially symmetric cross-validation (CSCV).

The validation period is cut into S equal consecutive blocks. Each choice of S/2 of them is once the period on which
the best of N trials is picked (in sample), and the other half the period on which it is then judged (out of sample).
With r the rank of the picked trial among all N out of sample, 1 the worst, w = r / (N + 1) and the logit
l = ln(w / (1 - w)), the probability of backtest overfitting is the share of choices with l < 0: those in which the
picked trial does worse than the median trial. Source: Bailey, Borwein, Lopez de Prado and Zhu, "The Probability of
Backtest Overfitting", Journal of Computational Finance 20 (2017), section 2 and definitions 2.1 to 2.3.

The score is the Sharpe ratio, which a union of blocks has from their numbers, sums and sums of squares alone. Where
the paper leaves a choice: a trial without variance, such as one that never trades, has the Sharpe ratio 0; trials of
equal score share the mean of their ranks; trials that are best together are picked with equal probability; and l = 0,
the median itself, counts one half, so that a choice without any information gives exactly 0.5.
"""

import itertools

import numpy as np
import numpy.typing as npt

from fox_env.errors import ConfigError

__all__ = ["probability_of_overfitting", "sharpe_of_sums"]

Float = npt.NDArray[np.float64]

_ENTRIES = 2_000_000  # of an array of sums at a time: 16 MB


def sharpe_of_sums(sums: Float) -> Float:
    """Sharpe ratio per bar, as `fox_env.metrics.summary` defines it, from (n, sum, sum of squares).

    Parameters
    ----------
    sums : float64 array, shape (..., 3)
        Number of returns, their sum, and the sum of their squares.

    Returns
    -------
    float64 array, shape (...)
        0 where there is no variance or fewer than two returns.
    """
    n, total, squares = sums[..., 0], sums[..., 1], sums[..., 2]
    with np.errstate(all="ignore"):
        centred = squares - total**2 / n
        sharpe = total / n / np.sqrt(centred / (n - 1))
    # Below this share the difference is rounding of equal returns.
    return np.where((n > 1) & (centred > 1e-12 * squares), sharpe, 0.0)


def probability_of_overfitting(blocks: Float) -> float | None:
    """Probability that the trial picked as the best does worse than the median trial on other data.

    Parameters
    ----------
    blocks : float64 array, shape (N, S, 3)
        Of each trial and block: number of returns, their sum, the sum of their squares. S is even; 16 blocks give
        12,870 choices.

    Returns
    -------
    float or None
        None with fewer than two trials, or where a block is without returns.

    Raises
    ------
    ConfigError
        The array has another shape.
    """
    if blocks.ndim != 3 or blocks.shape[2] != 3 or blocks.shape[1] < 2 or blocks.shape[1] % 2:
        raise ConfigError(
            f"blocks have shape {blocks.shape}, need (trials, an even number of blocks, 3): number of returns, sum "
            "and sum of squares of each"
        )
    trials, count = len(blocks), blocks.shape[1]
    if trials < 2 or not (blocks[:, :, 0] > 0).all():
        return None
    # Equal trials, such as checkpoints that never trade, are one with a weight: that is quicker, and ties stay ties.
    unequal, weights = np.unique(blocks.reshape(trials, -1), axis=0, return_counts=True)
    by_block = unequal.reshape(len(weights), count, 3).transpose(1, 0, 2).reshape(count, -1)
    chosen = _halves(count)
    size = max(_ENTRIES // by_block.shape[1], 1)
    worse = 0.0
    for some in np.split(chosen, range(size, len(chosen), size)):
        within, outside = (
            sharpe_of_sums((half @ by_block).reshape(len(some), -1, 3)) for half in (some, 1.0 - some)
        )
        worse += _worse_than_median(within, outside, weights)
    return worse / len(chosen)


def _halves(count: int) -> Float:
    """All choices of half of the blocks: 1 in sample, 0 out of sample, (choices, count)."""
    members = np.array(list(itertools.combinations(range(count), count // 2)))
    chosen = np.zeros((len(members), count))
    np.put_along_axis(chosen, members, 1.0, axis=1)
    return chosen


def _worse_than_median(within: Float, outside: Float, weights: npt.NDArray[np.int64]) -> float:
    """Number of choices whose best trial of ``within`` is below the median of ``outside``.

    Both are scores (choices, unequal trials), of which each stands for ``weights`` trials.
    """
    best = within == within.max(axis=1, keepdims=True)
    probability = best * weights / (best @ weights)[:, None]
    result = 0.0
    for column in np.flatnonzero(best.any(axis=0)):
        rows = np.flatnonzero(best[:, column])
        others, mine = outside[rows], outside[rows, column, None]
        beaten_by, beats = (
            (others > mine) @ weights,
            (others < mine) @ weights,
        )  # their balance is 2 r - (N + 1)
        overfit = 0.5 + 0.5 * np.sign(beaten_by - beats)
        result += float((probability[rows, column] * overfit).sum())
    return result
