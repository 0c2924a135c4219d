"""The categorical return distribution (C51): projection of the Bellman target and its cross-entropy.

Source: Bellemare, Dabney and Munos, "A Distributional Perspective on Reinforcement Learning" (2017).
"""

import torch
from torch import Tensor

__all__ = ["cross_entropy", "project", "support_atoms"]


def support_atoms(v_min: float, v_max: float, atoms: int, device: torch.device | str = "cpu") -> Tensor:
    """Equally spaced atoms of the return, shape (atoms,), float32, in units of the reward."""
    return torch.linspace(v_min, v_max, atoms, dtype=torch.float32, device=device)


def project(probabilities: Tensor, reward: Tensor, discount: Tensor, support: Tensor) -> Tensor:
    """Distribution of ``reward + discount * Z`` on the atoms of Z.

    Every shifted atom shares its probability between its two neighbours with the weight
    ``max(0, 1 - |shifted - atom| / spacing)``. In this form an atom that lands exactly on another keeps all
    of its probability, and no scatter-add is needed, whose order of summation would differ from run to run on
    a GPU.

    Parameters
    ----------
    probabilities : Tensor
        (B, atoms) distribution of the return after the last reward.
    reward : Tensor
        (B,) discounted sum of the rewards up to there.
    discount : Tensor
        (B,) factor of the bootstrap; 0 after a termination, not after a truncation.
    support : Tensor
        (atoms,) equally spaced atoms.

    Returns
    -------
    Tensor
        (B, atoms), each row with the sum of its input row.
    """
    last = support.numel() - 1
    spacing = (support[-1] - support[0]) / last
    shifted = (
        reward[:, None] + discount[:, None] * support - support[0]
    ) / spacing  # in steps from the first atom
    steps = torch.arange(last + 1, dtype=support.dtype, device=support.device)
    weight = (1.0 - (shifted.clamp(0.0, last)[:, :, None] - steps).abs()).clamp(min=0.0)
    return torch.bmm(probabilities[:, None, :], weight)[:, 0, :]


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of ``target`` and softmax(``logits``) over the last dimension, always finite."""
    return -(target * torch.log_softmax(logits.float(), dim=-1)).sum(-1)
