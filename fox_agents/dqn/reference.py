"""qrdqn_ref, the yardstick: dueling double QR-DQN on the eight exposures, with full-information backups.

A small account does not move the market, so what each of the eight exposures of a step would have led to is known
exactly (`EnvConfig.counterfactual`). Every update therefore trains all eight values of a state, not only that of the
action taken: nothing is left to the luck of exploration. Every other mechanism is compared with this agent.

Sources: Dabney et al., "Distributional Reinforcement Learning with Quantile Regression" (2018); van Hasselt et al.,
"Deep Reinforcement Learning with Double Q-learning" (2016); Wang et al., "Dueling Network Architectures" (2016);
Dabney, Ostrovski and Barreto, "Temporally-Extended epsilon-Greedy Exploration" (2021).
"""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fox_agents.dqn.config import ReferenceConfig
from fox_agents.dqn.graphs import compiled
from fox_agents.dqn.loop import DeviceAgent
from fox_agents.dqn.memory import require_memory
from fox_agents.dqn.optimiser import COPIES, FlatAdamW, Rates, flatten
from fox_agents.dqn.quantile import midpoints, quantile_huber
from fox_agents.dqn.replay import EXPOSURES, Batch
from fox_agents.exposures import EXPOSURE_ACTIONS
from fox_agents.unseen import COUNTERS
from fox_env._layout import Observation

__all__ = ["QRDQNReference"]


class QuantileNetwork(nn.Module):
    """Quantiles of the return of every exposure: (B, 128) observations to (B, 8, quantiles)."""

    def __init__(self, hidden: int, quantiles: int) -> None:
        super().__init__()
        seen = torch.ones(Observation.SIZE)
        seen[list(COUNTERS)] = 0.0
        self.seen: Tensor
        self.register_buffer("seen", seen, persistent=False)
        self.quantiles = quantiles
        layers: list[nn.Module] = []
        for width in (int(Observation.SIZE), hidden):
            layers += [nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.ReLU()]
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.Linear(hidden, (EXPOSURES + 1) * quantiles)

    def forward(self, observation: Tensor) -> Tensor:
        """Dueling: value plus advantages less their mean."""
        heads = self.heads(self.trunk(observation * self.seen)).unflatten(-1, (EXPOSURES + 1, self.quantiles))
        advantage, value = heads[..., :EXPOSURES, :], heads[..., EXPOSURES:, :]
        result: Tensor = value + advantage - advantage.mean(dim=-2, keepdim=True)
        return result


class ReferenceLearner:
    """Network, target network, average of the weights, and optimiser of `QRDQNReference`."""

    STATISTICS = ("loss", "q", "target", "grad_norm")
    SIGNALS = ("lr",)

    def __init__(self, config: ReferenceConfig, device: torch.device) -> None:
        self.config = config
        weights = config.hidden * (Observation.SIZE + config.hidden + (EXPOSURES + 1) * config.quantiles)
        mend = "lower agent.hidden or agent.quantiles"
        require_memory(4 * (COPIES + 1) * weights, "the network with its optimiser", mend, device)
        with torch.random.fork_rng(devices=[]):  # the caller's generator is none of our business
            torch.manual_seed(config.seed)
            self.network = QuantileNetwork(config.hidden, config.quantiles).to(device)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        self.optimiser = FlatAdamW(self.network)
        self._target_weights, self._average_weights = flatten(self.target), flatten(self.average)
        self.ok = torch.ones((), dtype=torch.bool, device=device)
        self.statistics = torch.zeros(len(self.STATISTICS) + 1, dtype=torch.float64, device=device)
        self._levels = midpoints(config.quantiles, torch.ones(EXPOSURES, device=device))
        self._branches = torch.tensor(EXPOSURE_ACTIONS, device=device)
        self._rates = Rates(
            *(
                torch.tensor([value], device=device)
                for value in (config.lr, config.grad_clip, config.weight_decay, 0.9, 0.999, 1e-5)
            )
        )

        self.start_acting(0)
        self._choose = compiled(self._chosen, config.compile)
        self._loss = compiled(self._batch_loss, config.compile)
        self._finish = compiled(self._applied, config.compile)

    @property
    def signals(self) -> Tensor:
        """The step size."""
        return self._rates.lr

    # ---- acting ----------------------------------------------------------------------------------------------

    def greedy(self, observation: Tensor, masks: Tensor) -> Tensor:
        """Best exposures of the averaged network; equal exposures have equal values, so no mask is needed."""
        return self._branches[self.values(observation).argmax(1)]

    def values(self, observation: Tensor) -> Tensor:
        """Expected return of each exposure (N, 8), by the averaged network."""
        means: Tensor = self.average(observation).mean(-1)
        return means

    def start_acting(self, num_envs: int) -> None:
        """Nobody holds a random exposure yet."""
        self._held = torch.zeros(num_envs, dtype=torch.int64, device=self.ok.device)
        self._left = torch.zeros(num_envs, dtype=torch.int64, device=self.ok.device)

    @contextmanager
    def aside(self, num_envs: int) -> Iterator[None]:
        """Explore outside of training: uncompiled, and with a memory of its own."""
        kept = self._held, self._left, self._choose
        self._choose = self._chosen
        self.start_acting(num_envs)
        try:
            yield
        finally:
            self._held, self._left, self._choose = kept

    def explore(
        self, observation: Tensor, masks: Tensor, progress: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Greedy, but for a share of the steps in which a random exposure is held for a while."""
        shape = 3, len(observation)
        uniforms = torch.rand(shape, dtype=torch.float64, device=observation.device, generator=generator)
        with torch.no_grad():
            return self._choose(observation, progress, uniforms)

    def _chosen(self, observation: Tensor, progress: Tensor, uniforms: Tensor) -> Tensor:
        c = self.config
        start, exposure, length = uniforms
        share = c.epsilon_start + (c.epsilon_end - c.epsilon_start) * progress
        shortest, longest = c.hold_random
        mean = (shortest + longest) / 2
        # Who starts a hold of mean length m with probability p when free is held p m / (1 - p + p m) of the time.
        probability = share / (share + mean * (1.0 - share))
        starts = (self._left == 0) & (start < probability)
        drawn = shortest + (length * (longest - shortest + 1)).long()
        self._held.copy_(torch.where(starts, (exposure * EXPOSURES).long(), self._held))
        self._left.copy_(torch.where(starts, drawn, self._left))
        best = self.network(observation).mean(-1).argmax(1)
        chosen = torch.where(self._left > 0, self._held, best)
        self._left.sub_(1).clamp_(min=0)
        return self._branches[chosen]

    def episode_ended(self, done: Tensor) -> None:
        """A held exposure ends with its episode."""
        self._left.masked_fill_(done, 0)

    # ---- learning --------------------------------------------------------------------------------------------

    def exponents(self, progress: Tensor) -> tuple[Tensor, Tensor]:
        """Transitions are drawn alike, so there is nothing to correct."""
        return torch.zeros_like(progress), torch.zeros_like(progress)

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """Quantiles (B, 8, quantiles) of reward + discount * Z(next state) of every exposure.

        Double Q: the online network chooses the next exposure, the target network gives its distribution.
        """
        assert batch.exposure_observation is not None
        assert batch.exposure_reward is not None and batch.exposure_discount is not None
        best = self.network(batch.exposure_observation).mean(-1).argmax(-1)
        after = self.target(batch.exposure_observation)
        index = best[..., None, None].expand(-1, -1, 1, self.config.quantiles)
        chosen = after.gather(-2, index).squeeze(-2)
        target: Tensor = batch.exposure_reward[..., None] + batch.exposure_discount[..., None] * chosen
        return target

    def prepare(self, batch: Batch) -> None:
        """Nothing here depends on the scale of the rewards."""

    def update(self, batches: Sequence[Batch], progress: Tensor) -> list[Tensor] | None:
        """One step on the quantile Huber loss of all eight exposures, averaged over them."""
        figures: list[Tensor] = []
        for batch in batches:
            loss, figure = self._loss(batch, len(batches))
            self.optimiser.collect(torch.autograd.grad(loss, self.optimiser.leaves), add=bool(figures))
            figures.append(figure)
        with torch.no_grad():
            self._finish(figures, progress)
        return None

    def _batch_loss(self, batch: Batch, batches: int) -> tuple[Tensor, Tensor]:
        """Loss () of a batch as its part of the mean over ``batches`` of them, and its figures (3,)."""
        target = self.targets(batch)
        predicted = self.network(batch.observation)
        loss = quantile_huber(predicted, target, self._levels).mean()
        return loss / batches, torch.stack([loss.detach(), predicted.detach().mean(), target.mean()])

    def _applied(self, figures: list[Tensor], progress: Tensor) -> None:
        """Clip, AdamW and the slow copies of the weights, where the gradient is finite; and count."""
        self.ok &= torch.isfinite(self.optimiser.gradient.square().sum())
        self._rates.lr.copy_(self._lr(progress))
        norm = self.optimiser.step(self._rates, self.ok)
        weights = self.optimiser.parameters
        self._target_weights.lerp_(weights, self.config.target_rate * self.ok)
        self._average_weights.lerp_(weights, self.config.average_rate * self.ok)
        means = torch.stack(figures).mean(0)
        self.statistics += torch.cat([means, norm[None], torch.ones_like(norm[None])]).double()

    def _lr(self, progress: Tensor) -> Tensor:
        c = self.config
        return c.lr_end + (c.lr - c.lr_end) * 0.5 * (1.0 + torch.cos(math.pi * progress))

    # ---- checkpoints -----------------------------------------------------------------------------------------

    def faults(self) -> list[str]:
        """The only thing that is checked."""
        return ["gradient"]

    def tensors(self) -> dict[str, Tensor]:
        """Networks, optimiser, and the flags and sums of learning."""
        networks = {"network": self.network, "target": self.target, "average": self.average}
        tensors = {f"{n}.{k}": t for n, module in networks.items() for k, t in module.state_dict().items()}
        return tensors | self.optimiser.tensors() | {"ok": self.ok, "statistics": self.statistics}

    def acting_tensors(self) -> dict[str, Tensor]:
        """The random exposures held, and for how long still."""
        return {"held": self._held, "left": self._left}

    def architecture(self) -> dict[str, Any]:
        """Sizes of the network."""
        return {"observation": int(Observation.SIZE), "exposures": EXPOSURES} | {
            key: getattr(self.config, key) for key in ("hidden", "quantiles")
        }


class QRDQNReference(DeviceAgent):
    """The reference agent; needs ``EnvConfig(counterfactual=True)`` to learn."""

    name: ClassVar[str] = "qrdqn_ref"
    config_class = ReferenceConfig
    learner_class = ReferenceLearner
