"""The training loss of the branching agent: every term of a batch, each with its budget and its switch.

A term that is ``on`` joins the loss, one that is set to ``measure`` is computed and reported only, one that is
``off`` is neither. Values are in scaled reward (`SignalBus` slot ``value_scale``).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from fox_agents.dqn import losses
from fox_agents.dqn.backup import Candidates, Trained, of_trained
from fox_agents.dqn.beliefs import expected_values
from fox_agents.dqn.branching import Following, Outputs
from fox_agents.dqn.c51 import project
from fox_agents.dqn.quantile import quantile_huber
from fox_agents.dqn.replay import Batch
from fox_agents.dqn.signals import SignalBus
from fox_env._layout import ACTION_BRANCHES

__all__ = ["TERMS", "Objective", "Target", "target_of"]

_DIRECTIONS = ACTION_BRANCHES[0]


class Target(NamedTuple):
    """What the P trained actions of each state are drawn to; no gradient flows into it."""

    probabilities: Tensor
    """(B, P, atoms) on the support of the action's branch."""
    quantiles: Tensor
    """(B, P, quantiles), scaled reward."""
    mean: Tensor
    """(B, P) expected value, scaled reward."""


@torch.no_grad()
def target_of(
    candidates: Candidates,
    trained: Trained,
    best: Tensor,
    after: Following,
    atoms: Tensor,
    bus: SignalBus,
) -> Target:
    """Reward plus discounted return distribution of every trained action.

    A position in a fair game has the same expected return as none. Loss aversion (Kahneman and Tversky 1979, piecewise
    linear) tells them apart in favour of none, by the same share of the risk at every size.

    Parameters
    ----------
    candidates, trained
        Of B states.
    best : Tensor
        (B, K) int64, the direction that the online network prefers after each candidate (double Q).
    after : Following
        Of the target network for the B * K states that follow.
    atoms : Tensor
        (13, atoms) support of each action, scaled reward.
    bus : SignalBus
        Value scale, loss aversion and share of the categorical mean.
    """
    rows, columns = candidates.reward.shape
    pick = torch.arange(rows * columns, device=best.device)
    logits = after.logits[pick, best.reshape(-1)].view(rows, columns, -1)
    quantiles = after.quantiles[pick, best.reshape(-1)].view(rows, columns, -1)
    reward = trained.of_candidate(candidates.reward) / bus.view("value_scale")
    reward = reward - bus.view("loss_aversion") * reward.abs()
    discount = trained.of_candidate(candidates.discount)
    probabilities = trained.of_candidate(torch.softmax(logits, dim=-1))
    shifted = reward[..., None] + discount[..., None] * trained.of_candidate(quantiles)
    onto = trained.by_branch(atoms)
    projected = project(probabilities, reward, discount, atoms[0], onto)
    mean = expected_values(projected, onto, shifted, bus.view("categorical_share"))
    return Target(projected, shifted, mean)


class _Context(NamedTuple):
    """What the terms read."""

    bus: SignalBus
    outputs: Outputs
    q: Tensor  # (B, 13)
    batch: Batch
    trained: Trained
    target: Target
    error: Tensor  # (B, 4) of the directions, 0 where not trained
    direction_active: Tensor  # (B, 4) bool
    direction_mean: Tensor  # (B, 4) target values of the directions
    next_hidden: Tensor  # (B, hidden)
    goes_on: Tensor  # (B,) bool
    usage: Tensor  # (experts,)


def _conservative(c: _Context) -> Tensor:
    loss = losses.conservative(c.q, c.batch.action, c.batch.mask, c.bus.view("cql_temperature"))
    return losses.over_branches(loss, c.batch.active, c.batch.weight, c.bus.view("budget_cql"))


def _ensemble(c: _Context) -> Tensor:
    assert c.outputs.ensemble is not None
    regression = losses.ensemble_regression(c.outputs.ensemble, c.direction_mean, c.direction_active)
    return losses.over_samples(regression, c.batch.weight, c.bus.view("budget_regression"))


def _repulsion(c: _Context) -> Tensor:
    assert c.outputs.ensemble is not None
    mask = c.batch.mask[:, :_DIRECTIONS]
    temperature, bound = c.bus.view("ensemble_temperature"), c.bus.view("ensemble_bound")
    loss = losses.ensemble_repulsion(c.outputs.ensemble, mask, temperature, bound)
    return losses.over_samples(loss, c.batch.weight, c.bus.view("budget_ensemble"))


def _barrier(c: _Context) -> Tensor:
    values, mask = c.q[:, :_DIRECTIONS], c.batch.mask[:, :_DIRECTIONS]
    loss = losses.barrier(values, mask, c.bus.view("health"), c.bus.view("barrier_gap"))
    return losses.over_samples(loss, c.batch.weight, c.bus.view("budget_barrier"))


def _spread(c: _Context) -> Tensor:
    values, mask = c.q[:, :_DIRECTIONS], c.batch.mask[:, :_DIRECTIONS]
    loss = losses.spread(values, mask, c.bus.view("health"), c.bus.view("spread_variance"))
    return losses.over_samples(loss, c.batch.weight, c.bus.view("budget_spread"))


def _predictive(c: _Context) -> Tensor:
    loss = losses.predictive(c.outputs.hidden, c.next_hidden, c.goes_on)
    return losses.over_samples(loss, c.batch.weight, c.bus.view("budget_predictive"))


def _auxiliary(c: _Context) -> Tensor:
    assert c.outputs.auxiliary is not None
    loss = losses.auxiliary(c.outputs.auxiliary, c.batch.future_move, c.batch.future_known)
    return losses.over_samples(loss, c.batch.weight, c.bus.view("budget_auxiliary"))


def _confidence(c: _Context) -> Tensor:
    assert c.outputs.confidence is not None
    counted = c.direction_active.sum(1).clamp(min=1)
    loss = losses.confidence(c.outputs.confidence, c.error.abs().sum(1) / counted)
    return losses.over_samples(loss, c.batch.weight, c.bus.view("budget_confidence"))


def _balance(c: _Context) -> Tensor:
    assert c.outputs.gate is not None
    loss = losses.load_balance(c.outputs.gate, c.usage)
    return losses.over_samples(loss, c.batch.weight, c.bus.view("budget_balance"))


TERMS: dict[str, Callable[[_Context], Tensor]] = {
    "cql": _conservative,
    "ensemble": _ensemble,
    "repulsion": _repulsion,
    "barrier": _barrier,
    "spread": _spread,
    "predictive": _predictive,
    "auxiliary": _auxiliary,
    "confidence": _confidence,
    "balance": _balance,
}
"""Terms beside the two distributional ones, by the name of their switch."""


class Objective:
    """Computes the loss of a batch.

    Parameters
    ----------
    bus : SignalBus
        Budgets and shapes.
    c51 : str
        ``"on"``, or ``"measure"`` to leave the C51 cross-entropy out of the loss.
    switches : dict
        ``"on"`` or ``"measure"`` for every term of `TERMS` that is not off.
    """

    def __init__(self, bus: SignalBus, c51: str, switches: dict[str, str]) -> None:
        self._bus, self._c51, self._switches = bus, c51, switches
        self.names = ("c51", "quantile", *switches)
        """Terms in the order that `__call__` reports them."""
        every = {"c51": c51, "quantile": "on", **switches}
        self.learned = [i for i, name in enumerate(self.names) if every[name] == "on"]
        """Places of the terms that the loss is the sum of."""

    def __call__(
        self,
        outputs: Outputs,
        q: Tensor,
        batch: Batch,
        trained: Trained,
        target: Target,
        next_hidden: Tensor,
        goes_on: Tensor,
        usage: Tensor,
        atoms: Tensor,
        levels: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Terms of each sample (T, B) in the order of `names`, priorities (B,), and the size (B,) of its TD errors.

        The loss is the sum of the means of those in `learned`; the others carry no gradient.

        Parameters
        ----------
        outputs
            Of the online network for the B states, with gradient.
        q : Tensor
            (B, 13) its expected values, with gradient.
        next_hidden : Tensor
            (B, hidden) of one state that may have followed, without gradient.
        goes_on : Tensor
            (B,) bool, whether the episode goes on to that state.
        usage : Tensor
            (experts,) running mean of the mixture's gate.
        atoms : Tensor
            (13, atoms) supports.
        levels : Tensor
            (13, quantiles) of each action, those of its branch.
        """
        bus = self._bus
        categorical = losses.categorical(
            of_trained(outputs.logits, trained), target.probabilities, bus.view("label_smoothing")
        )
        quantile = quantile_huber(
            of_trained(outputs.quantiles, trained), target.quantiles, trained.by_branch(levels)
        )
        every = torch.ones_like(batch.active)
        c51 = losses.over_branches(
            _branch_means(categorical, trained), every, batch.weight, bus.view("budget_c51")
        )
        primary = losses.over_branches(
            _branch_means(quantile, trained), every, batch.weight, bus.view("budget_quantile")
        )
        context = _context(bus, outputs, q, batch, trained, target, next_hidden, goes_on, usage)
        terms = [c51.detach() if self._c51 == "measure" else c51, primary]
        for name, switch in self._switches.items():
            with torch.set_grad_enabled(switch == "on" and torch.is_grad_enabled()):
                terms.append(TERMS[name](context))
        error = context.error.abs().sum(1) / context.direction_active.sum(1).clamp(min=1)
        return torch.stack(terms), losses.priority(quantile, trained.active), error


def _branch_means(loss: Tensor, trained: Trained) -> Tensor:
    """Mean (B, 4) of the losses (B, P) over the trained actions of each branch; 0 where not active or none."""
    loss, sizes = loss * trained.active, [trained.branches.count(b) for b in range(len(ACTION_BRANCHES))]
    parts = torch.split(loss, sizes, dim=1)  # the trained actions stand in the order of their branches
    return torch.stack([part.sum(1) / max(size, 1) for part, size in zip(parts, sizes, strict=True)], dim=1)


def _context(
    bus: SignalBus,
    outputs: Outputs,
    q: Tensor,
    batch: Batch,
    trained: Trained,
    target: Target,
    next_hidden: Tensor,
    goes_on: Tensor,
    usage: Tensor,
) -> _Context:
    """Gather the targets by direction, whichever of them were trained."""
    directions = torch.arange(_DIRECTIONS, device=q.device)
    hit = (trained.column[:, :, None] == directions) & trained.active[:, :, None]  # (B, P, 4)
    mean = (target.mean[:, :, None] * hit).sum(1)
    active = hit.any(1)
    error = (mean - q[:, :_DIRECTIONS].detach()) * active
    return _Context(bus, outputs, q, batch, trained, target, error, active, mean, next_hidden, goes_on, usage)
