"""Acting rules: from what the network believes about each action to one allowed action a branch.

Every rule has the same signature, takes its uniforms from the caller and picks by argmax over distinct actions, so that
of equal values the first action of the branch wins. `RULES` names them. The ensemble values the direction alone: the
rules that draw on nothing else are greedy in the other branches.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fox_agents.dqn.beliefs import Beliefs, Draws, Knobs, Memory
from fox_env._layout import ACTION_BRANCHES, Direction

__all__ = ["RULES", "Rule", "best_distinct", "contrarian", "select"]

_ACTIONS, _DIRECTIONS = sum(ACTION_BRANCHES), ACTION_BRANCHES[0]
# Plain integers: torch.compile takes a comparison of a tensor with a member of an enum for a Python one.
_SHORT, _HOLD, _LONG = int(Direction.SHORT), int(Direction.HOLD), int(Direction.LONG)
_TINY = 1e-20  # a uniform of exactly 0 has no logarithm
# Of information-directed sampling, as published: floors of the information and of the mean variance of the returns,
# and the smallest ratio of an action's variance to that mean.
_IDS_FLOOR, _IDS_LEAST_RATIO = 1e-5, 0.25

Rule = Callable[[Beliefs, Draws, Knobs, Memory], Tensor]
"""Beliefs, draws, knobs and memory to actions (N, 4) int64."""


def _greedy(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    return _best(beliefs.q, beliefs)


def _epsilon_greedy(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    """Each branch on its own: a random distinct action with its probability, else the best."""
    return torch.where(
        draws.explore < knobs.explores, _best(draws.choice, beliefs), _best(beliefs.q, beliefs)
    )


def _sticky(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    """Epsilon-greedy whose random choices are held, so that exploring a position lasts long enough to pay.

    A branch that holds nothing starts with the probability that makes ``explore`` the share of all steps that are
    random: ``e / (e + L (1 - e))`` for holds of L steps on average. A held direction that is no longer distinct, as
    Long is once the position is full, goes on as Hold; another branch then follows its values.
    """
    least, most = knobs.hold_least, knobs.hold_most
    start = knobs.explores / (knobs.explores + 0.5 * (least + most) * (1.0 - knobs.explores))
    starts = (memory.left == 0) & (draws.explore < start)
    steps = (least + (draws.length * (most - least + 1.0)).floor()).to(torch.int64)
    memory.held.copy_(torch.where(starts, _best(draws.choice, beliefs), memory.held))
    memory.left.copy_(torch.where(starts, steps, memory.left))
    best = _best(beliefs.q, beliefs)
    other = torch.where(_distinct(memory.held, beliefs.mask), memory.held, best)[:, 1:]
    held = torch.cat([_or_hold(memory.held[:, :1], beliefs.mask), other], dim=1)
    actions = torch.where(memory.left > 0, held, best)
    memory.left.copy_((memory.left - 1).clamp(min=0))
    return actions


def _boltzmann(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    """Each branch draws from the softmax of its values at its temperature, by the Gumbel maximum."""
    gumbel = -torch.log(-torch.log(draws.choice.clamp(min=_TINY)))
    temperature = torch.cat(
        [knobs.boltzmann_temperatures[i : i + 1].expand(n) for i, n in enumerate(ACTION_BRANCHES)]
    )
    return _best(beliefs.q + temperature * gumbel, beliefs)


def _thompson(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    """Direction by the values of one head drawn from the ensemble, blended with the expected value."""
    heads = beliefs.ensemble.shape[1]
    head = (draws.head * heads).to(torch.int64)
    return _follow(_head(beliefs, head), beliefs, knobs)


def _persistent_thompson(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    """`_thompson` that follows its head for ``hold_most`` steps, against churn."""
    heads = beliefs.ensemble.shape[1]
    over = memory.head_left == 0
    memory.head.copy_(torch.where(over, (draws.head * heads).to(torch.int64), memory.head))
    memory.head_left.copy_(torch.where(over, knobs.hold_most.to(torch.int64), memory.head_left) - 1)
    return _follow(_head(beliefs, memory.head), beliefs, knobs)


def _thompson_returns(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    """Every action by a sample of its categorical return distribution, blended with the expected value."""
    return _follow(_categorical_sample(beliefs, draws.returns), beliefs, knobs)


def _triple(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    """Direction by the mean of a categorical, a quantile and an ensemble sample; the others without the last."""
    levels = beliefs.quantiles.shape[2]
    level = (draws.choice * levels).to(torch.int64)
    quantile = beliefs.quantiles.gather(2, level[:, :, None])[:, :, 0]
    both = _categorical_sample(beliefs, draws.returns) + quantile
    head = _head(beliefs, (draws.head * beliefs.ensemble.shape[1]).to(torch.int64))
    sample = torch.cat([(both + head)[:, :_DIRECTIONS] / 3.0, both[:, _DIRECTIONS:] / 2.0], dim=1)
    return _follow(sample, beliefs, knobs)


def _cvar(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    """Best sum over the lowest ``cvar_alpha`` of the quantiles, which orders as their mean: conditional value at risk.

    A quantile that lies partly within the share counts in part, and at least the lowest one counts.
    """
    levels = beliefs.quantiles.shape[2]
    share = (knobs.cvar_alpha * levels).clamp(min=1.0, max=float(levels))
    weight = (share - torch.arange(levels, device=share.device)).clamp(0.0, 1.0)
    return _best((beliefs.quantiles * weight).sum(dim=2), beliefs)


def _information_directed(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    """Direction with the smallest squared regret per information, the deterministic variant; others greedy.

    Regret: the largest upper bound minus the own lower one, at ``ids_confidence`` standard deviations of the
    ensemble. Information: ``log(1 + s^2 / r^2)`` with r^2 the variance of the action's return over the mean
    of all. Source: Nikolov et al., "Information-Directed Exploration for Deep Reinforcement Learning" (2019).
    """
    q, allowed = beliefs.q[:, :_DIRECTIONS], beliefs.mask[:, :_DIRECTIONS]
    variance = beliefs.ensemble.var(dim=1, correction=0)
    width = knobs.ids_confidence * variance.sqrt()
    top = (q + width).masked_fill(~allowed, float("-inf")).amax(dim=1, keepdim=True)
    regret = top - (q - width)
    p, z = beliefs.probabilities[:, :_DIRECTIONS], beliefs.atoms[:_DIRECTIONS]
    centred = z - (p * z).sum(dim=2, keepdim=True)
    noise = (p * centred.square()).sum(dim=2)
    mean = (noise * allowed).sum(dim=1, keepdim=True) / allowed.sum(dim=1, keepdim=True)
    ratio = (noise / (mean + _IDS_FLOOR)).clamp(min=_IDS_LEAST_RATIO)
    information = torch.log1p(variance / ratio) + _IDS_FLOOR
    score = torch.cat([-regret.square() / information, beliefs.q[:, _DIRECTIONS:]], dim=1)
    return _best(score, beliefs)


def _hierarchical(beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory) -> Tensor:
    """Trade or not first, then which: epsilon-greedy at both, so that half of what is random does not trade.

    Trading (short, long) and not trading (hold, flat) are compared by their best directions. The second draw of
    the direction reuses its hold length, which this rule does not need.
    """
    action = torch.arange(_ACTIONS, device=beliefs.q.device)
    trading = _is_trade(action)
    wants = _is_trade(_best(beliefs.q, beliefs)[:, 0])
    gate = torch.where(draws.explore[:, 0] < knobs.explores[:1], draws.trade < 0.5, wants)
    within = beliefs.mask & ((trading == gate[:, None]) | (action >= _DIRECTIONS))
    possible = within[:, :_DIRECTIONS].any(dim=1, keepdim=True)  # not so where no trade is distinct
    narrowed = beliefs._replace(mask=torch.where(possible, within, beliefs.mask))
    explores = torch.cat([draws.length[:, :1], draws.explore[:, 1:]], dim=1) < knobs.explores
    return torch.where(explores, _best(draws.choice, narrowed), _best(beliefs.q, narrowed))


RULES: dict[str, Rule] = {
    "boltzmann": _boltzmann,
    "cvar": _cvar,
    "epsilon_greedy": _epsilon_greedy,
    "greedy": _greedy,
    "hierarchical": _hierarchical,
    "information_directed": _information_directed,
    "persistent_thompson": _persistent_thompson,
    "sticky_epsilon_greedy": _sticky,
    "thompson": _thompson,
    "thompson_returns": _thompson_returns,
    "triple": _triple,
}
"""Acting rules by the name that a configuration gives."""


def select(
    direction: str, others: str, beliefs: Beliefs, draws: Draws, knobs: Knobs, memory: Memory
) -> Tensor:
    """Actions (N, 4) int64: the direction by one rule of `RULES`, the other branches by another; then `contrarian`.

    ``memory`` is changed in place.
    """
    actions = RULES[direction](beliefs, draws, knobs, memory)
    if others != direction:
        rest = RULES[others](beliefs, draws, knobs, memory)
        actions = torch.cat([actions[:, :1], rest[:, 1:]], dim=1)
    return contrarian(actions, beliefs.mask, knobs)


def contrarian(actions: Tensor, mask: Tensor, knobs: Knobs) -> Tensor:
    """Where the contrarian signal is up, short and long change places and the smallest size is forced.

    A changed direction that is not distinct in its state becomes Hold.
    """
    direction = actions[:, :1]
    opposite = torch.where(direction == _SHORT, _LONG, _SHORT)
    turned = torch.where(_is_trade(direction), _or_hold(opposite, mask), direction)
    smallest = mask[:, _DIRECTIONS : _DIRECTIONS + ACTION_BRANCHES[1]].to(torch.int64).argmax(dim=1)
    contrary = torch.cat([turned, smallest[:, None], actions[:, 2:]], dim=1)
    return torch.where(knobs.contrarian > 0.5, contrary, actions)


def best_distinct(scores: Tensor, mask: Tensor) -> Tensor:
    """(N, 4) int64: the distinct action with the highest score (N, 13) in each branch, the first of equal ones."""
    allowed = scores.masked_fill(~mask, float("-inf"))
    return torch.stack(
        [part.argmax(dim=1) for part in torch.split(allowed, list(ACTION_BRANCHES), dim=1)], dim=1
    )


def _best(scores: Tensor, beliefs: Beliefs) -> Tensor:
    return best_distinct(scores, beliefs.mask)


def _is_trade(direction: Tensor) -> Tensor:
    return (direction == _SHORT) | (direction == _LONG)


def _follow(sample: Tensor, beliefs: Beliefs, knobs: Knobs) -> Tensor:
    """Best of ``E[Q] + temperature * (sample - E[Q])``."""
    return _best(torch.lerp(beliefs.q, sample, knobs.temperature), beliefs)


def _head(beliefs: Beliefs, head: Tensor) -> Tensor:
    """(N, 13) values of head (N,) for the directions, expected values for the others."""
    picked = beliefs.ensemble.gather(1, head[:, None, None].expand(-1, 1, _DIRECTIONS))[:, 0]
    return torch.cat([picked, beliefs.q[:, _DIRECTIONS:]], dim=1)


def _categorical_sample(beliefs: Beliefs, uniforms: Tensor) -> Tensor:
    """(N, 13) samples of the return by the inverse distribution function.

    The sums of probabilities are a product with a triangular matrix: a cumulative sum of floats on a GPU may differ
    from run to run. The first atom that completes the last sum, which rounding leaves beside 1, is the last that
    can be drawn, so that an atom of probability 0 never is.
    """
    count = beliefs.atoms.shape[1]
    place = torch.arange(count, device=uniforms.device)
    up_to = (place[:, None] <= place).to(beliefs.probabilities.dtype)
    sums = beliefs.probabilities @ up_to
    total = sums[:, :, -1:]
    index = ((sums <= uniforms[:, :, None]) & (sums < total)).sum(dim=2)
    return beliefs.atoms.expand(len(uniforms), -1, -1).gather(2, index[:, :, None])[:, :, 0]


def _distinct(actions: Tensor, mask: Tensor) -> Tensor:
    """(N, 4) bool, whether the actions (N, 4) are distinct."""
    masks = torch.split(mask, list(ACTION_BRANCHES), dim=1)
    return torch.cat([part.gather(1, actions[:, i : i + 1]) for i, part in enumerate(masks)], dim=1)


def _or_hold(direction: Tensor, mask: Tensor) -> Tensor:
    """``direction`` (N, 1) where it is distinct, else Hold."""
    return torch.where(mask.gather(1, direction), direction, _HOLD)
