"""Test statistics for price series; every one is robust against heteroskedasticity, as clustered volatility needs."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

LEVEL = 0.001
"""Level of every test: the probability that a market which keeps its promise fails it. Seeds are fixed."""
Z = NormalDist().inv_cdf(1.0 - LEVEL / 2.0)


def chi_square_limit(freedom: int) -> float:
    """Quantile of the chi-square law at 1 - LEVEL (Wilson and Hilferty 1931, within 1 %)."""
    z, spread = NormalDist().inv_cdf(1.0 - LEVEL), 2.0 / (9.0 * freedom)
    return float(freedom * (1.0 - spread + z * np.sqrt(spread)) ** 3)


def mean_score(x: F64) -> float:
    """Mean in standard errors."""
    return float(x.mean() / x.std(ddof=1) * np.sqrt(x.size))


def autocorrelation_statistic(x: F64, lags: int) -> float:
    """Box-Pierce statistic of rows of `x` (sessions, bars), chi-square with `lags` degrees of freedom.

    Every autocovariance is divided by its own standard error under independence of the signs (Diebold 1986).
    """
    total = 0.0
    for lag in range(1, lags + 1):
        product = x[:, lag:] * x[:, :-lag]
        total += product.sum() ** 2 / (product**2).sum()
    return float(total)


def variance_ratio_score(x: F64, horizon: int) -> float:
    """Variance ratio of sums over `horizon` bars within rows, less 1, in standard errors (Lo and MacKinlay 1988)."""
    square = float((x**2).sum())
    ratio = variance = 0.0
    for lag in range(1, horizon):
        weight = 2.0 * (horizon - lag) / horizon
        product = x[:, lag:] * x[:, :-lag]
        ratio += weight * product.sum() / square
        variance += weight**2 * (product**2).sum() / square**2
    return float(ratio / np.sqrt(variance))


def regression_statistic(y: F64, table: NDArray[np.floating]) -> tuple[float, int]:
    """Wald statistic that no column of `table` (n, k) predicts y, and its degrees of freedom (White 1980)."""
    x = table.astype(np.float64)
    x = x[:, x.std(axis=0) > 1e-9]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    x = x @ vectors[:, values > 1e-6]
    score = x.T @ y
    return float(score @ np.linalg.solve((x * (y * y)[:, None]).T @ x, score)), x.shape[1]


def slope(y: F64, x: F64) -> tuple[float, float]:
    """Least-squares slope through the origin and its robust standard error."""
    square = float((x * x).sum())
    value = float((x * y).sum()) / square
    return value, float(np.sqrt((x * x * (y - value * x) ** 2).sum()) / square)
