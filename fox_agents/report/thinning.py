"""Long curves as few points, such that every peak, trough and end is still there."""

import numpy as np
import numpy.typing as npt
from tsdownsample import M4Downsampler

__all__ = ["POINTS", "kept"]

POINTS = 4_000
"""Most points of one curve; more than the pixels of a wide screen."""


def kept(values: npt.ArrayLike, points: int = POINTS) -> npt.NDArray[np.int64]:
    """Indices of the points to draw, ascending: all of them up to ``points``.

    Beyond that the first, lowest, highest and last point of each of ``points / 4`` equal runs of samples: a line
    through them covers the same pixels as the whole curve (M4: Jugel et al. 2014, "M4: A Visualization-Oriented Time
    Series Data Aggregation").

    Parameters
    ----------
    values : array, shape (T,)
        The curve, finite.
    points : int
        A multiple of 4.
    """
    curve = np.ascontiguousarray(values, dtype=np.float64)
    if len(curve) <= points:
        return np.arange(len(curve))
    chosen = M4Downsampler().downsample(curve, n_out=points)  # type: ignore[no-untyped-call]
    return np.unique(chosen).astype(np.int64)
