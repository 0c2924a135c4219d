"""Random numbers of the synthetic markets: the same bits for a seed on every machine.

Only the raw words of PCG64 are used, with + - * / and square roots on top; the distributions of numpy call a
mathematical library, whose last bits differ between machines.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fox_env.errors import ConfigError

F64 = NDArray[np.float64]


class Draws:
    """A seeded stream of random numbers.

    Parameters
    ----------
    seed : int
        0 or more.

    Raises
    ------
    ConfigError
        The seed is not an integer of 0 or more.
    """

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
            raise ConfigError(f"Synthetic markets: seed must be an integer of 0 or more, got {seed!r}.")
        self._bits = np.random.PCG64(int(seed))

    def _raw(self, count: int) -> NDArray[np.uint64]:
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)

    def words(self, *shape: int) -> NDArray[np.uint32]:
        """Return uniform 32-bit words."""
        count = int(np.prod(shape))
        return self._raw((count + 1) // 2).view(np.uint32)[:count].reshape(shape)

    def uniform(self, *shape: int) -> F64:
        """Return numbers of [0, 1) in steps of 2^-32."""
        return self.words(*shape).astype(np.float64) * 2.0**-32

    def normal(self, *shape: int) -> F64:
        """Return approximately normal numbers: (number of ones in 64 bits - 32) / 4.

        Mean 0, variance 1 and symmetry are exact; the kurtosis is 3 - 1/32.
        """
        ones = np.bitwise_count(self._raw(int(np.prod(shape))))
        return (ones.reshape(shape) - 32.0) / 4.0

    def sign(self, *shape: int) -> F64:
        """Return -1 or 1 with equal probability."""
        return np.where(self.words(*shape) < 2**31, -1.0, 1.0)


def normal_law() -> tuple[F64, F64]:
    """Return the values that :meth:`Draws.normal` can take and their probabilities; arrays (65,)."""
    ones = range(65)
    return (np.asarray(ones) - 32.0) / 4.0, np.array([math.comb(64, k) for k in ones]) * 2.0**-64


def autoregression(draws: Draws, length: int, persistence: float) -> F64:
    """Return a stationary AR(1) series of unit variance.

    Parameters
    ----------
    draws : Draws
        Source of the innovations.
    length : int
        Values to return.
    persistence : float
        Autocorrelation at lag 1, within [0, 1).

    Notes
    -----
    x_t = sum_j p^j e_t-j is summed by doubling, without a loop over the rows; terms below the precision of
    float64 are left out.
    """
    series = draws.normal(length)
    series[1:] *= float(np.sqrt(1.0 - persistence * persistence))
    weight, width = persistence, 1
    while width < length and weight > 1e-18:
        series[width:] += weight * series[:-width].copy()
        weight, width = weight * weight, 2 * width
    return series
