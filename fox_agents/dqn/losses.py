"""The terms of the training loss, as pure functions: one number a sample, or one a sample and branch.

Two functions weigh them: `over_branches` and `over_samples`, whose mean over the samples is the loss, so that all terms
are averaged in one reduction. Weights and thresholds are device tensors,
views of the signal bus of shape (1,) or (branches,). No function asks the device for a value or sums in an order that
may change.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from fox_agents.dqn.c51 import cross_entropy
from fox_env._layout import ACTION_BRANCHES

__all__ = [
    "CROSS_ENTROPY_BOUND",
    "auxiliary",
    "barrier",
    "categorical",
    "confidence",
    "conservative",
    "ensemble_regression",
    "ensemble_repulsion",
    "load_balance",
    "over_branches",
    "over_samples",
    "predictive",
    "priority",
    "project_conflict",
    "q_gap",
    "smooth",
    "spread",
]

CROSS_ENTROPY_BOUND = 50.0
"""Largest cross-entropy that one sample reports, nats."""
_MASKED = -1e9  # finite, so that a masked action has probability 0 and no inf - inf can arise
_VARIANCE_FLOOR = 1e-6  # keeps the slope of the standard deviation finite where all values are equal


def over_branches(loss: Tensor, active: Tensor, weight: Tensor, budget: Tensor) -> Tensor:
    """Weighed loss of each sample, (B,): mean over the branches, where one without effect counts as zero.

    Dividing by all branches, not by the active ones, gives each active branch of each sample the same pull on the
    shared layers.

    Parameters
    ----------
    loss : Tensor
        (B, branches).
    active : Tensor
        (B, branches) bool, True where the branch had an effect.
    weight : Tensor
        (B,) importance weight.
    budget : Tensor
        (branches,) or (1,) weight of the term.
    """
    return (loss * active * weight[:, None] * budget).mean(dim=1)


def over_samples(loss: Tensor, weight: Tensor, budget: Tensor) -> Tensor:
    """``loss`` (B,) times the importance ``weight`` (B,) times the ``budget`` (1,): (B,)."""
    return loss * weight * budget


def priority(loss: Tensor, active: Tensor) -> Tensor:
    """(B,) mean of ``loss`` (B, branches), non-negative, over the active branches; detached.

    A mean, so that a step at which only the direction had an effect ranks by its error and not by its number
    of branches; 0 where nothing was active.
    """
    return (loss.detach() * active).sum(dim=1) / active.sum(dim=1).clamp(min=1)


def smooth(target: Tensor, epsilon: Tensor) -> Tensor:
    """Mix the distribution ``target`` (..., atoms) with the uniform one, of which it gets the share ``epsilon`` (1,).

    Source: Szegedy et al., "Rethinking the Inception Architecture" (2016).
    """
    return torch.lerp(target, torch.full_like(target, 1.0 / target.shape[-1]), epsilon)


def categorical(logits: Tensor, target: Tensor, smoothing: Tensor) -> Tensor:
    """Cross-entropy of the smoothed target, (B, branches), reported as at most `CROSS_ENTROPY_BOUND`.

    The bound keeps a sample's loss from growing without limit with its priority. It holds for the value alone:
    the gradient stays ``softmax(logits) - target``, which is bounded anyway, because a sample beyond the bound is the
    one that most needs correcting.

    Parameters
    ----------
    logits : Tensor
        (B, branches, atoms) of the taken actions.
    target : Tensor
        (B, branches or 1, atoms) probabilities.
    smoothing : Tensor
        (1,) share of the uniform distribution in the target.
    """
    value = cross_entropy(logits, smooth(target, smoothing))
    return value - (value.detach() - CROSS_ENTROPY_BOUND).clamp(min=0.0)


def conservative(
    q: Tensor, action: Tensor, mask: Tensor, temperature: Tensor, branches: Sequence[int] = ACTION_BRANCHES
) -> Tensor:
    """Conservative penalty of each sample and branch: soft maximum of the values minus the taken one's.

    ``T logsumexp(Q / T) - Q(a)`` over the distinct actions, among which the taken one always counts, so that
    the penalty is never negative. Source: Kumar et al., "Conservative Q-Learning" (2020), equation 4.

    Parameters
    ----------
    q : Tensor
        (B, actions of all branches) expected values.
    action : Tensor
        (B, branches) int64, taken.
    mask : Tensor
        (B, actions of all branches) bool, distinct actions of the state in which the action was taken.
    temperature : Tensor
        (1,) T, units of the value.
    branches : Sequence[int]
        Number of actions of each branch.

    Returns
    -------
    Tensor
        (B, branches).
    """
    parts = zip(torch.split(q, list(branches), 1), torch.split(mask, list(branches), 1), strict=True)
    penalties = []
    for branch, (values, distinct) in enumerate(parts):
        taken = _one_hot(action[:, branch], values.shape[1])
        counted = values.masked_fill(~(distinct | taken), _MASKED)
        soft_maximum = temperature * torch.logsumexp(counted / temperature, dim=1)
        penalties.append(soft_maximum - (values * taken).sum(dim=1))
    return torch.stack(penalties, dim=1)


def ensemble_regression(values: Tensor, target: Tensor, active: Tensor) -> Tensor:
    """Huber loss (threshold 1) of the trained directions' values, mean over heads and trained directions: (B,).

    Parameters
    ----------
    values : Tensor
        (B, heads, directions).
    target : Tensor
        (B, directions) expected values of the Bellman targets, detached here.
    active : Tensor
        (B, directions) bool: the trained ones; 0 where there is none.
    """
    wanted = target.detach()[:, None, :].expand_as(values)
    loss = functional.huber_loss(values, wanted, reduction="none").mean(dim=1)
    return (loss * active).sum(dim=1) / active.sum(dim=1).clamp(min=1)


def ensemble_repulsion(values: Tensor, mask: Tensor, temperature: Tensor, bound: Tensor) -> Tensor:
    """Minus the mean divergence between the heads' policies, (B,), at least ``-bound``.

    The policy of a head is the softmax of its values at a temperature; the divergence of two heads is
    ``KL(p, q) + KL(q, p) = sum (p - q)(log p - log q)``. Its gradient drives heads apart until their mean
    divergence reaches the bound. The sum over all pairs of K heads is taken at once:
    ``K sum_k p_k (log p_k - mean_l log p_l)``.

    Parameters
    ----------
    values : Tensor
        (B, K, directions), K at least 2.
    mask : Tensor
        (B, directions) bool, distinct directions.
    temperature : Tensor
        (1,) units of the value.
    bound : Tensor
        (1,) nats.
    """
    heads = values.shape[1]
    logs = torch.log_softmax((values / temperature).masked_fill(~mask[:, None, :], _MASKED), dim=2)
    apart = (logs.exp() * (logs - logs.mean(dim=1, keepdim=True))).sum(dim=(1, 2))
    return -torch.minimum(apart * (2.0 / (heads - 1)), bound)


def q_gap(q: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Best minus second-best value among the distinct actions, and whether there are two.

    Parameters
    ----------
    q : Tensor
        (B, actions) values of one branch.
    mask : Tensor
        (B, actions) bool, distinct actions.

    Returns
    -------
    tuple[Tensor, Tensor]
        (B,) gap, 0 where fewer than two actions are distinct, with a gradient to both actions; (B,) bool. Of equal
        values the first is the best.
    """
    allowed = q.masked_fill(~mask, _MASKED)
    best = _one_hot(allowed.argmax(dim=1), q.shape[1])
    second = _one_hot(allowed.masked_fill(best, _MASKED).argmax(dim=1), q.shape[1])
    several = mask.sum(dim=1) >= 2
    return ((q * best).sum(dim=1) - (q * second).sum(dim=1)) * several, several


def barrier(q: Tensor, mask: Tensor, health: Tensor, least: Tensor) -> Tensor:
    """(B,) shortfall of the direction's value gap, ``max(0, least * health - gap)``.

    Its gradient raises the best direction and lowers the runner-up.

    Parameters
    ----------
    q, mask : Tensor
        (B, directions) values, and bool: distinct directions.
    health : Tensor
        (1,) learning health in [0, 1].
    least : Tensor
        (1,) gap asked for at health 1, units of the value.
    """
    gap, several = q_gap(q, mask)
    return (least * health - gap).clamp(min=0.0) * several


def spread(q: Tensor, mask: Tensor, health: Tensor, variance: Tensor) -> Tensor:
    """(B,) shortfall of the standard deviation of the direction values, times ``1 - health``.

    It is zero once the variance reaches ``variance``; below, its gradient pushes every value away from their mean.
    The standard deviation is used because the slope of the variance vanishes where values are nearly equal,
    which is where a push is wanted. Source: Bardes, Ponce and LeCun, "VICReg" (2022), equation 1.

    Parameters
    ----------
    q, mask : Tensor
        (B, directions) values, and bool: distinct directions.
    health : Tensor
        (1,) learning health in [0, 1].
    variance : Tensor
        (1,) variance that is enough, square of the value's unit.
    """
    count = mask.sum(dim=1)
    share = mask.to(q.dtype) / count.clamp(min=1)[:, None]
    centred = q - (q * share).sum(dim=1, keepdim=True)
    found = (centred.square() * share).sum(dim=1)
    short = (variance + _VARIANCE_FLOOR).sqrt() - (found + _VARIANCE_FLOOR).sqrt()
    return (1.0 - health) * short.clamp(min=0.0) * (count >= 2)


def predictive(hidden: Tensor, next_hidden: Tensor, same_segment: Tensor) -> Tensor:
    """(B,) mean squared difference of consecutive hidden states (B, width).

    0 where ``same_segment`` (B,) bool is False: the second state belongs to another episode.
    """
    return (next_hidden - hidden).square().mean(dim=1) * same_segment


def auxiliary(logit: Tensor, future_return: Tensor, known: Tensor) -> Tensor:
    """(B,) binary cross-entropy of "the price is higher at the horizon"; 0 where that is not known.

    Parameters
    ----------
    logit : Tensor
        (B,) of the probability of a rise.
    future_return : Tensor
        (B,) log return up to the horizon; a return of exactly 0 counts half as a rise.
    known : Tensor
        (B,) bool, whether the horizon lies within the data.
    """
    rise = 0.5 + 0.5 * future_return.sign()
    return functional.binary_cross_entropy_with_logits(logit, rise, reduction="none") * known


def confidence(predicted: Tensor, error: Tensor) -> Tensor:
    """(B,) Huber loss (threshold 1) between ``predicted`` (B,) and the size of the TD ``error`` (B,), detached."""
    return functional.huber_loss(predicted, error.detach().abs(), reduction="none")


def load_balance(gate: Tensor, usage: Tensor) -> Tensor:
    """(B,) share that each sample adds to the experts that are used most; its mean is 0 when all are used alike.

    With ``usage`` the mean gates of late, the mean of ``experts * sum(gate * usage) - 1`` is the squared coefficient
    of variation of the usage (Shazeer et al., "Outrageously Large Neural Networks", 2017, equation 7), and its
    gradient points the same way. Being a mean over samples it does not depend on how a batch is cut into parts.

    Parameters
    ----------
    gate : Tensor
        (B, experts) shares, each row with the sum 1.
    usage : Tensor
        (experts,) running mean of the gate, detached here.
    """
    return gate.shape[1] * (gate * usage.detach()).sum(dim=1) - 1.0


@torch.no_grad()
def project_conflict(gradient: Tensor, held_out: Tensor, share: Tensor) -> Tensor:
    """Remove from ``gradient`` what would raise the loss on a held-out slice.

    Where the two gradients conflict, ``gradient . held_out < 0``, the component of ``gradient`` along ``held_out`` is
    taken out; otherwise nothing changes. Source: Yu et al., "Gradient Surgery for Multi-Task Learning" (2020).

    Parameters
    ----------
    gradient, held_out : Tensor
        (parameters,) flat gradients.
    share : Tensor
        (1,) how much of the component to remove: 0 none, 1 all.
    """
    conflict = (gradient * held_out).sum().clamp(max=0.0)
    length = held_out.square().sum().clamp(min=torch.finfo(held_out.dtype).tiny)
    return gradient - share * (conflict / length) * held_out


def _one_hot(index: Tensor, size: int) -> Tensor:
    """(B,) int64 to (B, size) bool; a comparison, where an indexed write would add up in any order."""
    return index[:, None] == torch.arange(size, device=index.device)
