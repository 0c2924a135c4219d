"""Quantile regression of the return: fixed midpoints and the quantile Huber loss.

Source: Dabney, Rowland, Bellemare and Munos, "Distributional Reinforcement Learning with Quantile Regression" (2018).
"""

import torch
from torch import Tensor

__all__ = ["midpoints", "quantile_huber"]


def midpoints(count: int, spread: Tensor) -> Tensor:
    """Levels that the quantiles stand for: ``1/2 + spread * ((2i - 1) / 2N - 1/2)`` for i = 1..N.

    With a spread of 1 they are the midpoints of N equal parts of [0, 1], and the mean of the quantiles is the
    mean of the return up to the width of a part. A smaller spread moves them toward the median; the mean of the
    quantiles is then that of the return's middle.

    Parameters
    ----------
    count : int
        N, quantiles of each distribution.
    spread : Tensor
        (branches,) float32 in (0, 1].

    Returns
    -------
    Tensor
        (branches, count), increasing, in (0, 1).
    """
    steps = torch.arange(count, dtype=spread.dtype, device=spread.device)
    return 0.5 + spread[:, None] * ((steps + 0.5) / count - 0.5)


def quantile_huber(predicted: Tensor, target: Tensor, levels: Tensor, kappa: float = 1.0) -> Tensor:
    """Quantile Huber loss of each sample and branch.

    The term of quantile i and target sample j is ``|tau_i - 1(u < 0)| * huber(u, kappa) / kappa`` with
    ``u = target_j - predicted_i``, where ``huber(u, kappa)`` is ``u^2 / 2`` up to kappa and
    ``kappa (|u| - kappa / 2)`` beyond it. The terms are summed over the quantiles and averaged over the target
    samples; the division by kappa is part of the loss, so that it approaches plain quantile regression as kappa
    goes to 0.

    Parameters
    ----------
    predicted : Tensor
        (B, branches, N) quantiles.
    target : Tensor
        (B, branches or 1, M) samples of the target distribution, of equal probability; no gradient flows into
        them.
    levels : Tensor
        (branches, N) levels of the quantiles, see `midpoints`.
    kappa : float
        Where the square turns into a line, units of the return; positive.

    Returns
    -------
    Tensor
        (B, branches), non-negative; its mean over the branches serves as the replay priority.
    """
    error = target.detach()[:, :, None, :] - predicted[:, :, :, None]  # (B, branches, N, M)
    size = error.abs()
    near = size.clamp(max=kappa)
    huber = near * (size - 0.5 * near) / kappa
    weight = (levels[:, :, None] - (error.detach() < 0.0).to(levels.dtype)).abs()
    return (weight * huber).sum(dim=(2, 3)) / error.shape[3]
