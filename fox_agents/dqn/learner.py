"""One gradient step of the branching C51: targets, loss, clipped Adam, and the slow target network.

Parameters, gradients and Adam's moments are flat vectors that the layers view, so the optimiser is a few
vector operations on the device: no host value enters, and a captured graph sees every change.
"""

import copy

import torch
from torch import Tensor, nn

from fox_agents.config import BDQConfig
from fox_agents.dqn.c51 import cross_entropy, project, support_atoms
from fox_agents.dqn.memory import require_memory
from fox_agents.dqn.network import BranchingC51, greedy, taken
from fox_agents.dqn.replay import Batch
from fox_env import _layout
from fox_env._layout import Context, Observation, Portfolio

__all__ = ["Learner"]

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-5  # Adam; a larger epsilon than usual, as distributional agents use
# These count up over an episode. One pass over a long period would take them far outside what short training episodes
# show, and they say nothing about the next bars: the drawdown and the margin headroom tell how safe the account is.
_COUNTERS = (
    Observation.PORTFOLIO + Portfolio.EQUITY_RATIO,
    Observation.PORTFOLIO + Portfolio.COSTS_PAID,
    Observation.PORTFOLIO + Portfolio.TRADES,
    Observation.CONTEXT + Context.EPISODE_PROGRESS,
)
_COPIES = 5  # of every weight: network, target, gradient and two moments
_ALIGN = 64  # floats; keeps every layer's view on the boundary that fast matrix kernels want


class Learner:
    """Network, target network and optimiser.

    Parameters
    ----------
    config : BDQConfig
        Architecture and optimiser settings.
    device : torch.device
        Where everything lives.
    """

    STATISTICS = ("loss", "td_error", "q", "target", "grad_norm")
    """Sums kept in ``statistics``, which ends with the number of updates they run over."""

    def __init__(self, config: BDQConfig, device: torch.device) -> None:
        self.config = config
        self.branches = _layout.ACTION_BRANCHES
        hidden, outputs = config.hidden, (sum(self.branches) + len(self.branches)) * config.atoms
        weights = hidden * (Observation.SIZE + hidden + outputs)
        mend = "lower agent.hidden or agent.atoms"
        require_memory(4 * _COPIES * weights, "the network with its optimiser", mend, device)
        with torch.random.fork_rng(devices=[]):  # the caller's generator is none of our business
            torch.manual_seed(config.seed)
            network = BranchingC51(Observation.SIZE, self.branches, config.atoms, config.hidden, _COUNTERS)
        self.network = network.to(device)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        self.parameters = _flatten(self.network)
        self.target_parameters = _flatten(self.target)
        self.gradient = torch.zeros_like(self.parameters)
        _view_gradients(self.network, self.gradient)
        self.moment1 = torch.zeros_like(self.parameters)
        self.moment2 = torch.zeros_like(self.parameters)
        self.updates = torch.zeros((), dtype=torch.float64, device=device)
        self.finite = torch.ones(
            (), dtype=torch.bool, device=device
        )  # False for good after a non-finite gradient
        self.support = support_atoms(config.v_min, config.v_max, config.atoms, device)
        sizes = torch.tensor(self.branches, device=device)
        self.offsets = sizes.cumsum(0) - sizes
        self.statistics = torch.zeros(len(self.STATISTICS) + 1, dtype=torch.float64, device=device)

    def q_values(self, observation: Tensor) -> Tensor:
        """Expected return of every action, (B, 13), in units of the reward."""
        logits: Tensor = self.network(observation)
        return self._mean(torch.softmax(logits, dim=-1))

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """Projected Bellman target, (B, atoms), shared by the branches.

        Double Q: the online network picks the next direction among the distinct ones, the target network
        gives its distribution. The bootstrap is the direction's alone: it is trained at every step, whereas
        another branch is trained only where it had an effect, so that its value of a state in which one
        rather holds is not the value of that state (tests/fox_agents/test_learner.py has the case).
        """
        directions = self.branches[0]
        q = self.q_values(batch.next_observation)[:, :directions]
        best = greedy(q, batch.next_mask[:, :directions], (directions,))
        logits = taken(self.target(batch.next_observation), best, self.offsets[:1])[:, 0]
        return project(torch.softmax(logits, dim=-1), batch.reward, batch.discount, self.support)

    def update(self, batch: Batch) -> None:
        """One step on the cross-entropy of the branches that had an effect, over samples times branches."""
        target = self.targets(batch)
        logits = taken(self.network(batch.observation), batch.action, self.offsets)  # (B, branches, atoms)
        loss = (cross_entropy(logits, target[:, None, :]) * batch.active).mean()
        self.gradient.zero_()
        torch.autograd.backward(loss)
        norm = self._apply_gradient()
        with torch.no_grad():
            q, wanted = self._mean(torch.softmax(logits, dim=-1)), self._mean(target)
            error = (wanted[:, None] - q).abs().mean()
            self.statistics[:-1] += torch.stack([loss, error, q.mean(), wanted.mean(), norm]).double()
            self.statistics[-1] += 1

    @torch.no_grad()
    def _apply_gradient(self) -> Tensor:
        """Clip, Adam, Polyak; a gradient that is not finite is dropped and remembered. Returns its norm."""
        norm: Tensor = torch.linalg.vector_norm(self.gradient)
        self.finite &= torch.isfinite(norm)
        scale = (self.config.grad_clip / (norm + 1e-6)).clamp(max=1.0)
        gradient = torch.where(self.finite, self.gradient * scale, 0.0)
        self.updates += 1
        self.moment1.lerp_(gradient, 1.0 - _BETA1)
        self.moment2.lerp_(gradient * gradient, 1.0 - _BETA2)
        step = (self.moment1 / (1.0 - _BETA1**self.updates).float()) / (
            (self.moment2 / (1.0 - _BETA2**self.updates).float()).sqrt() + _EPSILON
        )
        self.parameters -= self.config.lr * torch.where(self.finite, step, 0.0)
        self.target_parameters.lerp_(self.parameters, self.config.target_rate)
        return norm

    def _mean(self, probabilities: Tensor) -> Tensor:
        return torch.sum(probabilities * self.support, dim=-1)

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of the learner by name, for a checkpoint; copying into them restores the learner."""
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {f"target.{name}": tensor for name, tensor in self.target.state_dict().items()}
        names = ("moment1", "moment2", "updates", "finite", "statistics")
        return tensors | {name: getattr(self, name) for name in names}


def _offsets(module: nn.Module) -> tuple[list[int], int]:
    offsets, end = [], 0
    for parameter in module.parameters():
        offsets.append(end)
        end += -(-parameter.numel() // _ALIGN) * _ALIGN
    return offsets, end


def _flatten(module: nn.Module) -> Tensor:
    """Move the parameters of ``module`` into one vector, which they view from now on."""
    offsets, size = _offsets(module)
    flat = torch.zeros(size, device=next(module.parameters()).device)
    for parameter, offset in zip(module.parameters(), offsets, strict=True):
        view = flat[offset : offset + parameter.numel()].view_as(parameter)
        view.copy_(parameter.detach())
        parameter.data = view
    return flat


def _view_gradients(module: nn.Module, flat: Tensor) -> None:
    """Let backward accumulate into ``flat``, laid out as `_flatten` does."""
    for parameter, offset in zip(module.parameters(), _offsets(module)[0], strict=True):
        parameter.grad = flat[offset : offset + parameter.numel()].view_as(parameter)
