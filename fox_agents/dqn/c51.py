"""The categorical return distribution (C51): supports, projection of the Bellman target, cross-entropy.

Source: Bellemare, Dabney and Munos, "A Distributional Perspective on Reinforcement Learning" (2017).
"""

from importlib.util import find_spec

import torch
from torch import Tensor

_HAS_TRITON = find_spec("triton") is not None  # comes with torch for CUDA on Linux
if _HAS_TRITON:
    from fox_agents.dqn.projection_kernel import project_rows

__all__ = ["cross_entropy", "project", "support", "support_atoms"]

_ROWS = 4096  # distributions projected at once: two buffers of 43 MB at 51 atoms


def support_atoms(v_min: float, v_max: float, atoms: int, device: torch.device | str = "cpu") -> Tensor:
    """Equally spaced atoms of the return, shape (atoms,), float32, in units of the reward."""
    return torch.linspace(v_min, v_max, atoms, dtype=torch.float32, device=device)


def support(low: Tensor, high: Tensor, atoms: int, power: Tensor | None = None) -> Tensor:
    """Atoms between ``low`` and ``high``, which are the first and the last exactly.

    Parameters
    ----------
    low, high : Tensor
        (branches,) float32 ends.
    atoms : int
        Atoms of each branch, at least 2.
    power : Tensor, optional
        (branches,) positive; position s in [-1, 1] is moved to ``sign(s) |s|^power``, so that a power above 1
        puts the atoms closer together at the middle. None or 1: even spacing.

    Returns
    -------
    Tensor
        (branches, atoms), increasing.
    """
    place = torch.arange(atoms, dtype=low.dtype, device=low.device) / (atoms - 1)
    if power is None:
        return torch.lerp(low[:, None], high[:, None], place)
    signed = 2.0 * place - 1.0
    return torch.lerp(low[:, None], high[:, None], 0.5 + 0.5 * signed.sign() * signed.abs() ** power[:, None])


@torch.no_grad()
def project(
    probabilities: Tensor, reward: Tensor, discount: Tensor, support: Tensor, onto: Tensor | None = None
) -> Tensor:
    """Distribution of ``reward + discount * Z`` on given atoms.

    A shifted atom x, clamped between the ends, gives target atom z_j the share
    ``max(0, min((x - z_{j-1}) / (z_j - z_{j-1}), (z_{j+1} - x) / (z_{j+1} - z_j)))``, so that its two
    neighbours hold all of its probability at its own mean. In this form an atom that lands exactly on another
    keeps all of its probability, and no scatter-add is needed, whose order of summation would differ from run
    to run on a GPU. The leading dimensions ``...`` of all arguments are broadcast together. The result is a
    target: no gradient flows through it.

    Parameters
    ----------
    probabilities : Tensor
        (..., atoms) distribution of the return after the last reward.
    reward : Tensor
        (...) discounted sum of the rewards up to there.
    discount : Tensor
        (...) factor of the bootstrap; 0 after a termination, not after a truncation.
    support : Tensor
        (..., atoms) increasing atoms of ``probabilities``.
    onto : Tensor, optional
        (..., target atoms) increasing atoms of the result, at least 2; none: ``support``.

    Returns
    -------
    Tensor
        (..., target atoms), each row with the sum of its input row.
    """
    onto = support if onto is None else onto
    shifted = reward[..., None] + discount[..., None] * support
    shapes = (tensor.shape[:-1] for tensor in (shifted, probabilities, onto))
    leading = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    rows = [_as_rows(tensor, leading) for tensor in (probabilities, shifted, onto)]
    # Triton wants a C compiler at run time, as torch.compile does anyway and an uncompiled agent does not.
    if torch.compiler.is_compiling() and _HAS_TRITON and shifted.is_cuda and shifted.dtype == torch.float32:
        projected: Tensor = project_rows(*(tensor.contiguous() for tensor in rows))
    else:
        parts = zip(*(torch.split(tensor, _ROWS) for tensor in rows), strict=True)
        projected = torch.cat([_project_rows(*part) for part in parts])
    return projected.view(*leading, onto.shape[-1])


def _as_rows(tensor: Tensor, leading: torch.Size) -> Tensor:
    return tensor.expand(*leading, tensor.shape[-1]).reshape(-1, tensor.shape[-1])


def _project_rows(probabilities: Tensor, x: Tensor, onto: Tensor) -> Tensor:
    """`project` of (rows, atoms) probabilities at places ``x`` (rows, atoms) onto (rows, target atoms)."""
    return torch.bmm(probabilities[:, None, :], _shares(x, onto))[:, 0, :]


def _neighbours(onto: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The atoms before and after each of ``onto`` (..., target atoms), and the distances to them.

    Beyond each end stands an atom so far off that the share of the end itself is bounded from its other side only.
    """
    gaps = onto.diff(dim=-1)
    first, last = gaps[..., :1], gaps[..., -1:]
    before = torch.cat([onto[..., :1] - 2.0 * first, onto[..., :-1]], dim=-1)
    after = torch.cat([onto[..., 1:], onto[..., -1:] + 2.0 * last], dim=-1)
    return before, after, torch.cat([first, gaps], dim=-1), torch.cat([gaps, last], dim=-1)


def _shares(x: Tensor, onto: Tensor) -> Tensor:
    """What each of the atoms ``onto`` (..., target atoms) gets of an atom at ``x`` (..., atoms)."""
    x = torch.minimum(torch.maximum(x, onto[..., :1]), onto[..., -1:])[..., None]
    before, after, rise, fall = (part[..., None, :] for part in _neighbours(onto))
    rising, falling = (x - before).div_(rise), (after - x).div_(fall)
    return torch.minimum(rising, falling, out=rising).clamp_(min=0.0)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of ``target`` and softmax(``logits``) over the last dimension, always finite."""
    return -(target * torch.log_softmax(logits.float(), dim=-1)).sum(-1)
