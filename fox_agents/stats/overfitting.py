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

_ENTRIES = 2_000_000  # of an array of partial sums at a time: 16 MB


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
    by_block = np.ascontiguousarray(blocks.transpose(1, 2, 0))
    chosen = np.array(list(itertools.combinations(range(count), count // 2)))
    others = chosen[::-1]  # combinations come in an order in which each one's complement is its mirror image
    size = max(_ENTRIES // (count // 2 * 3 * trials), 1)
    worse = sum(
        _worse_than_median(
            _scores(by_block, chosen[at : at + size]), _scores(by_block, others[at : at + size])
        )
        for at in range(0, len(chosen), size)
    )
    return float(worse / len(chosen))


def _scores(by_block: Float, chosen: npt.NDArray[np.int64]) -> Float:
    """Sharpe ratios (choices, trials) of the union of each choice of blocks."""
    # Summed block by block: a matrix product may round equal trials differently and break their ties.
    sums: Float = sum(by_block[chosen[:, k]] for k in range(chosen.shape[1]))  # type: ignore[assignment]
    return sharpe_of_sums(sums.transpose(0, 2, 1))


def _worse_than_median(within: Float, outside: Float) -> float:
    """Number of choices whose best trial of ``within`` is below the median of ``outside``; (choices, trials) each."""
    best = within == within.max(axis=1, keepdims=True)
    share = best / best.sum(axis=1, keepdims=True)
    # Twice the rank less N + 1, which is negative below the median: trials beaten less trials that beat it.
    result = 0.0
    for column in np.flatnonzero(best.any(axis=0)):
        rows = best[:, column]
        mine = outside[rows, column, None]
        balance = (outside[rows] < mine).sum(axis=1) - (outside[rows] > mine).sum(axis=1)
        result += float(
            (share[rows, column] * np.where(balance < 0, 1.0, np.where(balance == 0, 0.5, 0.0))).sum()
        )
    return result
