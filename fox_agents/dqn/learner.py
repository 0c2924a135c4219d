"""The learner of the branching agent: networks, signal bus, optimiser, one update, and the training policy.

An update draws noise, evaluates the network on a batch and on what followed it, sums the terms of the loss, and
applies the clipped gradient where everything was finite. All of it runs on the device without a read-back.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fox_agents.dqn import losses
from fox_agents.dqn.backup import exposure_candidates, taken_candidates
from fox_agents.dqn.beliefs import DRAWS, Beliefs, Draws, Knobs, Memory, expected_values
from fox_agents.dqn.branching import BranchingNetwork, Following, NetworkConfig, Outputs
from fox_agents.dqn.c51 import support
from fox_agents.dqn.config import BDQConfig, NetworkParts
from fox_agents.dqn.curiosity import VisitCounts
from fox_agents.dqn.graphs import compiled
from fox_agents.dqn.memory import require_memory
from fox_agents.dqn.noise import ROWS_PER_GROUP, Noise, Stream
from fox_agents.dqn.objective import TERMS, Objective, target_of
from fox_agents.dqn.optimiser import COPIES, FlatAdamW, Rates, flatten, parameter_groups
from fox_agents.dqn.quantile import midpoints
from fox_agents.dqn.replay import Batch
from fox_agents.dqn.selection import best_distinct, select
from fox_agents.dqn.sentinel import Sentinel, magnitudes
from fox_agents.dqn.signals import SignalBus
from fox_env._layout import ACTION_BRANCHES, Observation, OrderType, Urgency

__all__ = ["BDQLearner"]

_DIRECTIONS = ACTION_BRANCHES[0]
_ACTIONS = sum(ACTION_BRANCHES)
# Parts of the network that the optimiser tells apart, by the beginning of a parameter's name; the rest is a last group.
_GROUPS = ("selection.", "trunk.0.", "trunk.1.", "mixture.", "c51.", "quantile.", "ensemble.")
_KEPT = 1  # the candidate whose hidden state is compared with the present one: hold, or the only one
_LEAST_SCALE = 1e-6
_ASIDE = 2**42  # where the noise of acting outside of training begins, far from that of training
_USAGE_RATE = 0.01  # of the running mean of the experts' use, per update
_CHECKED = ("observation", "reward", "target", "logits", "quantiles", "hidden", "loss")  # of every sample


class _Shared(NamedTuple):
    """What all batches of one update use."""

    noise: Noise | None
    target_noise: Noise | None
    atoms: Tensor  # (13, atoms)
    levels: Tensor  # (13, quantiles)


class _Report(NamedTuple):
    """What one batch says."""

    figures: Tensor  # of `STATISTICS` but the gradient's, then the mean gate
    priority: Tensor  # (B,)
    magnitudes: Tensor  # of `_CHECKED`


class BDQLearner:
    """Branching double C51 and QR-DQN with the mechanisms that the configuration switches on.

    Parameters
    ----------
    config : BDQConfig
        Sizes, switches and rates.
    device : torch.device
        Where everything lives.

    Raises
    ------
    ConfigError
        When the device has not the memory.
    """

    def __init__(self, config: BDQConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        shape = network_config(config)
        mend = "lower agent.hidden, agent.atoms or agent.experts"
        require_memory(4 * COPIES * _least_weights(shape), "the network with its optimiser", mend, device)
        with torch.random.fork_rng(devices=[]):  # the caller's generator is none of our business
            torch.manual_seed(config.seed)
            self.network = BranchingNetwork(shape).to(device)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        self.optimiser = FlatAdamW(self.network, parameter_groups(self.network, _GROUPS))
        self._target_weights = flatten(self.target)
        self.bus = SignalBus(device, _initial_signals(config))
        self.sentinel = Sentinel((*_CHECKED, "gradient", "parameters"), device)
        switches = {name: getattr(config, name) for name in TERMS}
        if not config.mixture:
            switches["balance"] = "off"  # there are no experts
        self._objective = Objective(self.bus, config.c51, {k: v for k, v in switches.items() if v != "off"})
        self._choose = compiled(self._chosen, config.compile)
        self._begin = compiled(self._shared, config.compile)
        self._loss = compiled(self._batch_loss, config.compile)
        self._finish = compiled(self._applied, config.compile)
        self.STATISTICS = ("loss", *self._objective.names, "q", "q_gap", "target", "td_error", "grad_norm")
        self.SIGNALS = tuple(
            name if slot["size"] == 1 else f"{name}_{i}"
            for name, slot in self.bus.layout().items()
            for i in range(slot["size"])
        )
        self.statistics = torch.zeros(len(self.STATISTICS) + 1, dtype=torch.float64, device=device)
        self._usage = torch.full((config.experts,), 1.0 / config.experts, device=device)
        self._draws = torch.zeros(
            (), dtype=torch.int64, device=device
        )  # of noise so far, the noise's counter
        self._draws_aside = torch.full_like(self._draws, _ASIDE)
        sizes = torch.tensor(ACTION_BRANCHES, device=device)
        self._offsets = sizes.cumsum(0) - sizes
        self._branch_of = torch.arange(len(sizes), device=device).repeat_interleave(sizes)
        self._offered = torch.ones(_ACTIONS, dtype=torch.bool, device=device)
        if config.orders == "market":
            self._offered[_DIRECTIONS + ACTION_BRANCHES[1] :] = False
            self._offered[self._offsets[2] + OrderType.MARKET] = True
            self._offered[self._offsets[3] + Urgency.NORMAL] = True
        self._held_out = max(config.batch_size // 8, 1) if config.surgery else 0
        self._knobs = Knobs.of(self.bus)
        self._memory = Memory.empty(0, device)
        self._visits: VisitCounts | None = None
        if config.curiosity > 0.0:
            self._visits = VisitCounts(Observation.SIZE, device, seed=config.seed)

    @property
    def ok(self) -> Tensor:
        """() bool: nothing was ever not finite."""
        return self.sentinel.ok

    @property
    def signals(self) -> Tensor:
        """Every slot of the signal bus, named by `SIGNALS`."""
        return self.bus.tensor

    def faults(self) -> list[str]:
        """Which quantities were not finite."""
        return self.sentinel.raised(self.sentinel.flags.tolist())

    # ---- values ----------------------------------------------------------------------------------------------

    def _supports(self) -> Tensor:
        """(13, atoms): the atoms of every action, those of its branch."""
        view = self.bus.view
        atoms = support(view("support_low"), view("support_high"), self.config.atoms, view("support_power"))
        return atoms[self._branch_of]

    def _expected(self, outputs: Outputs | Following, atoms: Tensor) -> Tensor:
        """Expected return of every action (N, 13), or of the directions, in value scales."""
        probabilities = torch.softmax(outputs.logits, dim=-1)
        atoms = atoms[: probabilities.shape[1]]
        return expected_values(probabilities, atoms, outputs.quantiles, self.bus.view("categorical_share"))

    # ---- acting ----------------------------------------------------------------------------------------------

    def greedy(self, observation: Tensor, masks: Tensor) -> Tensor:
        """Best distinct action of each branch, by the mean weights."""
        q = self._expected(self.network(observation), self._supports())
        return best_distinct(q, masks & self._offered)

    def values(self, observation: Tensor) -> Tensor:
        """Expected return of each direction (N, 4), by the mean weights, in value scales."""
        return self._expected(self.network(observation), self._supports())[:, :_DIRECTIONS]

    def start_acting(self, num_envs: int) -> None:
        """Make the memory of the rules that hold their choices."""
        self._memory = Memory.empty(num_envs, self.device)

    @contextmanager
    def aside(self, num_envs: int) -> Iterator[None]:
        """Explore outside of training: uncompiled, with a memory of its own, and no state counts as visited."""
        kept = self._memory, self._visits, self._choose, self._draws
        share = self.bus.view("explore").clone()
        self._visits, self._choose, self._draws = None, self._chosen, self._draws_aside
        self.start_acting(num_envs)
        try:
            yield
        finally:
            self._memory, self._visits, self._choose, self._draws = kept
            self.bus.view("explore").copy_(share)

    def explore(
        self, observation: Tensor, masks: Tensor, progress: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Choose by the rules of the configuration, on values of a network whose noise 64 environments share."""
        uniforms = torch.rand(len(observation), DRAWS, device=self.device, generator=generator)
        with torch.no_grad():
            return self._choose(observation, masks, progress, uniforms)

    def _chosen(self, observation: Tensor, masks: Tensor, progress: Tensor, uniforms: Tensor) -> Tensor:
        c, atoms = self.config, self._supports()
        self.bus.view("explore").copy_(c.epsilon_start + (c.epsilon_end - c.epsilon_start) * progress)
        self._draws += 1
        groups = -(-len(observation) // ROWS_PER_GROUP)
        outputs = self.network(observation, self._noise(self.network, Stream.ACTING, groups))
        if self._visits is not None:
            self._visits.visit(observation)
        q = self._expected(outputs, atoms)
        beliefs = Beliefs(
            q=q,
            probabilities=torch.softmax(outputs.logits, dim=-1),
            atoms=atoms,
            quantiles=outputs.quantiles,
            ensemble=q[:, None, :_DIRECTIONS] if outputs.ensemble is None else outputs.ensemble,
            mask=masks & self._offered,
        )
        draws = Draws.split(uniforms)
        return select(c.exploration, c.exploration_others, beliefs, draws, self._knobs, self._memory)

    def episode_ended(self, done: Tensor) -> None:
        """Hold nothing any longer where an episode ended, ``done`` (N,) bool."""
        self._memory.forget(done)

    def _noise(self, network: BranchingNetwork, stream: Stream, groups: int = 1) -> Any:
        scale = self.bus.view("sigma") / 0.5  # the layers' own initial scale
        return network.draw_noise(self.config.seed, self._draws, groups=groups, stream=stream, scale=scale)

    # ---- learning --------------------------------------------------------------------------------------------

    def exponents(self, progress: Tensor) -> tuple[Tensor, Tensor]:
        """Exponents of the priorities and, growing to 1, of the importance weights; 0 and 0 without priorities."""
        c = self.config
        if not c.prioritised:
            return torch.zeros_like(progress), torch.zeros_like(progress)
        self.bus.view("per_beta").copy_(c.per_beta + (1.0 - c.per_beta) * progress)
        return self.bus.view("per_alpha")[0], self.bus.view("per_beta")[0]

    def prepare(self, batch: Batch) -> None:
        """Measure the value scale on the first transitions: the deviation of a discounted sum of such rewards.

        With uncorrelated rewards of n steps, of mean square v, it is sqrt(v / (1 - gamma^(2 n))). It stays at 1 where
        no reward was met, as may happen to rewards that come rarely.
        """
        c = self.config
        if c.value_scale is None:
            rewards = batch.reward if batch.exposure_reward is None else batch.exposure_reward
            square = rewards.square().mean()
            scale = (square / (1.0 - c.gamma ** (2 * c.n_step))).sqrt().clamp(min=_LEAST_SCALE)
            self.bus.view("value_scale").copy_(torch.where(square > 0.0, scale, 1.0))

    def update(self, batches: Sequence[Batch], progress: Tensor) -> list[Tensor] | None:
        """One optimiser step on the mean gradient of the batches; returns new priorities (B,) of each."""
        with torch.no_grad():
            shared = self._begin(progress)
        if self._visits is not None:
            bonuses = (self._visits.bonus(b.observation, self.bus.view("curiosity")[0]) for b in batches)
            batches = [b._replace(reward=b.reward + e) for b, e in zip(batches, bonuses, strict=True)]
        reports = self._accumulate(batches, shared)
        with torch.no_grad():
            self._finish([report.figures for report in reports], [report.magnitudes for report in reports])
        return [report.priority for report in reports] if self.config.prioritised else None

    def _shared(self, progress: Tensor) -> _Shared:
        """Set the rates, move the spectral norms on, and draw the noise."""
        c = self.config
        cosine = 0.5 * (1.0 + torch.cos(math.pi * progress))
        self.bus.view("lr").copy_(c.lr_end + (c.lr - c.lr_end) * cosine)
        self._draws += 1
        self.network.power_iteration()
        self.target.power_iteration()
        return _Shared(
            self._noise(self.network, Stream.ONLINE),
            self._noise(self.target, Stream.TARGET),
            self._supports(),
            midpoints(c.quantiles, self.bus.view("tau_spread"))[self._branch_of],
        )

    def _accumulate(self, batches: Sequence[Batch], shared: _Shared) -> list[_Report]:
        """Leave the mean gradient over the batches in the optimiser; returns what each batch says.

        With gradient surgery the last part of each batch is held out: its gradient is taken apart, and what
        conflicts with it is removed from the gradient of the rest.
        """
        cut = self._held_out
        if not cut:
            return self._add_gradients(batches, shared)
        gradient = self.optimiser.gradient
        held = self._add_gradients([_rows(batch, slice(-cut, None)) for batch in batches], shared)
        held_out = gradient.clone()
        kept = self._add_gradients([_rows(batch, slice(None, -cut)) for batch in batches], shared)
        gradient.copy_(losses.project_conflict(gradient, held_out, self.bus.view("surgery")))
        return [
            _Report(a.figures, torch.cat([a.priority, b.priority]), torch.maximum(a.magnitudes, b.magnitudes))
            for a, b in zip(kept, held, strict=True)
        ]

    def _add_gradients(self, batches: Sequence[Batch], shared: _Shared) -> list[_Report]:
        reports: list[_Report] = []
        for batch in batches:
            loss, report = self._loss(batch, shared, len(batches))
            gradients = torch.autograd.grad(loss, self.optimiser.leaves, materialize_grads=True)
            self.optimiser.collect(gradients, add=bool(reports))
            reports.append(report)
        return reports

    def _batch_loss(self, batch: Batch, shared: _Shared, batches: int) -> tuple[Tensor, _Report]:
        """Loss () of a batch as its part of the mean over ``batches`` of them, and what it says."""
        c, atoms = self.config, shared.atoms
        heads = self.network.heads(shared.noise)
        with torch.no_grad():
            directions = heads.first(_DIRECTIONS, c.atoms, c.quantiles)
        if c.full_information:
            outputs = self.network(batch.observation, heads=heads)
            q = self._expected(outputs, atoms)
            with torch.no_grad():
                candidates, trained = exposure_candidates(batch, q, self._offsets, c.orders == "all")
                states = candidates.observation.flatten(0, 1)
                online = self.network.following(states, directions)
        else:
            candidates, trained = taken_candidates(batch, self._offsets)
            states = candidates.observation.flatten(0, 1)
            outputs, online = self.network.paired(batch.observation, heads, states, directions)
            q = self._expected(outputs, atoms)
        with torch.no_grad():
            shape = candidates.reward.shape
            after = self.target.following(states, self.target.heads(shared.target_noise, _DIRECTIONS))
            hidden = candidates.mask.flatten(0, 1).logical_not()
            preferred = self._expected(online, atoms).masked_fill(hidden, float("-inf"))
            target = target_of(candidates, trained, preferred.argmax(1).view(shape), after, atoms, self.bus)
            kept = min(_KEPT, shape[1] - 1)
            next_hidden, goes_on = online.hidden.view(*shape, -1)[:, kept], candidates.discount[:, kept] > 0.0
        terms, priority, error = self._objective(
            outputs, q, batch, trained, target, next_hidden, goes_on, self._usage, atoms, shared.levels
        )
        gap, _ = losses.q_gap(q[:, :_DIRECTIONS].detach(), batch.mask[:, :_DIRECTIONS])
        samples = torch.cat([terms, torch.stack([q.mean(1), gap, target.mean.mean(1), error])])
        means = samples.mean(1)
        learned = self._objective.learned
        every = len(learned) == len(terms)
        loss = (means[: len(terms)] if every else torch.stack([means[i] for i in learned])).sum()
        gate = batch.reward.new_zeros(1, c.experts) if outputs.gate is None else outputs.gate
        checked = (
            batch.observation,
            batch.reward,
            target.mean,
            outputs.logits,
            outputs.quantiles,
            outputs.hidden,
            terms.sum(0),
        )
        figures = torch.cat([loss[None], means, gate.mean(0)]).detach()
        return loss / batches, _Report(figures, priority, magnitudes(checked))

    def _applied(self, figures: list[Tensor], found: list[Tensor]) -> None:
        """Clip, AdamW, Polyak, where everything is finite; and count."""
        view = self.bus.view
        for largest in found:
            self.sentinel.check_magnitudes(_CHECKED, largest)
        self.sentinel.check({"gradient": self.optimiser.gradient})
        rates = Rates(
            *(view(n) for n in ("lr", "grad_bound", "weight_decay", "beta1", "beta2", "epsilon_adam"))
        )
        norm = self.optimiser.step(rates, self.ok)
        self.sentinel.check({"parameters": self.optimiser.parameters})
        self._target_weights.lerp_(self.optimiser.parameters, view("target_rate")[0] * self.ok)
        report = torch.stack(figures).mean(0)
        self._usage.lerp_(report[-len(self._usage) :], _USAGE_RATE)
        means = torch.where(self.ok, torch.cat([report[: -len(self._usage)], norm[None]]), 0.0)
        self.statistics += torch.cat([means, torch.ones_like(norm[None])]).double()

    # ---- checkpoints -----------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Networks, optimiser, signals, flags and sums."""
        networks = {"network": self.network, "target": self.target}
        tensors = {f"{n}.{k}": t for n, module in networks.items() for k, t in module.state_dict().items()}
        own = {"signals": self.bus.tensor, "statistics": self.statistics, "draws": self._draws}
        own |= {"usage": self._usage, "ok": self.sentinel.ok, "flags": self.sentinel.flags}
        if self._visits is not None:
            own |= {f"visits.{name}": tensor for name, tensor in self._visits.tensors().items()}
        return tensors | self.optimiser.tensors() | own

    def acting_tensors(self) -> dict[str, Tensor]:
        """What the training policy remembers of every environment."""
        return self._memory._asdict()

    def architecture(self) -> dict[str, Any]:
        """Sizes and parts of the network, and the layout of the signals."""
        shape = asdict(network_config(self.config))
        return (
            {"observation": int(Observation.SIZE), "branches": list(ACTION_BRANCHES)}
            | shape
            | {"signals": self.bus.layout()}
        )


def _rows(batch: Batch, rows: slice) -> Batch:
    """Some of the samples of a batch."""
    return Batch._make(None if field is None else field[rows] for field in batch)


def network_config(config: BDQConfig) -> NetworkConfig:
    """The network that a configuration asks for; a head is there where its term is."""
    needs_ensemble = config.ensemble != "off" or config.repulsion != "off"
    return NetworkConfig(
        **{field.name: getattr(config, field.name) for field in fields(NetworkParts)},
        hidden=config.hidden,
        ensemble=config.ensemble_heads,
        ensemble_heads=needs_ensemble,
        auxiliary=config.auxiliary != "off",
        confidence=config.confidence != "off",
    )


def _least_weights(shape: NetworkConfig) -> int:
    """Weights of the largest layers."""
    heads = (_ACTIONS + len(ACTION_BRANCHES)) * (shape.atoms * (1 + shape.noisy) + shape.quantiles)
    return shape.hidden * (
        int(Observation.SIZE) + shape.hidden + heads + 2 * shape.experts * shape.expert_width
    )


def _initial_signals(config: BDQConfig) -> dict[str, float]:
    return {
        "label_smoothing": config.label_smoothing,
        "support_low": config.v_min,
        "support_high": config.v_max,
        "value_scale": config.value_scale or 1.0,
        "categorical_share": 0.5 if config.c51 == "on" else 0.0,
        "loss_aversion": config.loss_aversion,
        "sigma": config.sigma,
        "lr": config.lr,
        "target_rate": config.target_rate,
        "grad_bound": config.grad_clip,
        "weight_decay": config.weight_decay,
        "per_alpha": config.per_alpha,
        "per_beta": config.per_beta,
        "explore": config.epsilon_start,
        "temperature": config.temperature,
        "curiosity": config.curiosity,
        "surgery": float(config.surgery),
    }
