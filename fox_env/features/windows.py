"""Windowed arithmetic whose value at row t depends, to the last bit, only on the rows of its own window.

A running sum carries rounding from the first row of the series; the sums here are built afresh for every row
by doubling the window (sum of 2, 4, 8, ... rows), which costs O(log window) vector passes and has one fixed
order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

_TINY = 1e-100


def lag(x: F64, rows: int) -> F64:
    """Return `x` delayed by `rows`; the first `rows` values are zero."""
    out = np.zeros_like(x)
    if rows < len(x):
        out[rows:] = x[: len(x) - rows]
    return out


def change(x: F64, rows: int = 1) -> F64:
    """Return ``x[t] - x[t - rows]``; the first `rows` values are zero."""
    out = np.zeros_like(x)
    if rows < len(x):
        np.subtract(x[rows:], x[:-rows], out=out[rows:])
    return out


def ratio(numerator: F64, denominator: F64) -> F64:
    """Return ``numerator / denominator`` where the denominator is positive, else zero.

    A denominator below 1e-100 counts as zero: the quotient could overflow.
    """
    out = np.zeros_like(numerator)
    np.divide(numerator, denominator, out=out, where=denominator > _TINY)
    return out


def window_sum(x: F64, window: int) -> F64:
    """Return the sum of the last `window` rows at every row; rows before the first count as zero."""
    total = np.zeros_like(x)
    block, width, taken, left = x, 1, 0, window
    while left and taken < len(x):
        if left & 1:
            total[taken:] += block[: len(x) - taken]
            taken += width
        left >>= 1
        if left and width < len(x):
            wider = block.copy()
            wider[width:] += block[: len(x) - width]
            block = wider
        width *= 2
    return total


def window_mean(x: F64, window: int) -> F64:
    """Return the mean of the last `window` rows; meaningful from row ``window - 1`` on."""
    return window_sum(x, window) / window


def window_deviation(x: F64, window: int) -> F64:
    """Return the population standard deviation of the last `window` rows; rounding noise counts as zero."""
    mean = window_mean(x, window)
    square = window_mean(x * x, window)
    variance = square - mean * mean
    variance[variance < 1e-12 * square] = 0.0
    return np.sqrt(variance)


def window_slope(increments: F64, window: int) -> F64:
    """Return the least-squares slope per row, over the last `window` rows, of the sum of `increments`.

    The slope is a fixed weighting of the last ``window - 1`` increments, so the (ever growing) sum itself is
    never formed: slope = sum_j increments[t - j] * j_weight with weights sum_{i >= window - j} (i - mean) /
    sum (i - mean)^2.
    """
    position = np.arange(window, dtype=np.float64) - (window - 1) / 2.0
    weights = np.cumsum(position[::-1]) / float(position @ position)
    slope = np.zeros_like(increments)
    for j in range(min(window - 1, len(increments))):
        slope[j:] += weights[j] * increments[: len(increments) - j]
    return slope


def window_max_suffix(x: F64, window: int) -> F64:
    """Return max(0, largest sum of the last j rows, j = 1 .. `window`): Page's CUSUM with bounded memory.

    `window` must be a power of two. Two neighbouring blocks combine as
    suffix(AB) = max(suffix(B), sum(B) + suffix(A)), sum(AB) = sum(A) + sum(B).
    """
    suffix, total, width = np.maximum(x, 0.0), x, 1
    while width < min(window, len(x)):
        suffix = np.maximum(suffix, total + lag(suffix, width))
        total = total + lag(total, width)
        width *= 2
    return suffix
