"""The loop that every value-learning agent shares: act, collect, store, update, save, load.

Everything works on device tensors. The host only counts iterations, launches steps and, once per epoch, reads one
tensor of diagnostics. What is learned, and how to act on it, is the business of a `ValueLearner`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from fox_agents.api import Callback
from fox_agents.checkpoint import (
    atomic_directory,
    batch_fingerprint,
    read_arrays,
    read_state,
    require_same,
    write_arrays,
    write_state,
)
from fox_agents.config import to_toml
from fox_agents.dqn.config import LoopConfig
from fox_agents.dqn.graphs import Repeated, compiled
from fox_agents.dqn.market_table import MarketTable
from fox_agents.dqn.replay import Batch, Replay
from fox_agents.dqn.value_learner import ValueLearner, restore, to_numpy
from fox_agents.dqn.warm_start import warm_start
from fox_agents.faults import TrainingFault
from fox_agents.plain_values import build
from fox_agents.trading_rules import agent_rules, without_knobs
from fox_env import EnvConfig, FoxFuturesVectorEnv, _layout
from fox_env._layout import Direction
from fox_env.errors import ConfigError

__all__ = ["DeviceAgent"]

_ACTIONS = sum(_layout.ACTION_BRANCHES)
_STORED = ("branch_active", "final_obs", "final_masks", "bar_index")
_STORED_EXPOSURES = ("counterfactual_reward", "counterfactual_terminated", "counterfactual_account")
_PREPARATION = 4096  # transitions that `ValueLearner.prepare` looks at


class DeviceAgent:
    """An agent whose environment, replay and learner share one device; subclasses name a configuration and a learner.

    Parameters
    ----------
    env : FoxFuturesVectorEnv, optional
        Made with ``output="torch"``, ``autoreset_mode=SAME_STEP`` and ``info_level="learn"``. Without it the
        agent cannot learn, and acts on the device of the observations it is given.
    config : LoopConfig or mapping, optional
        Settings; the defaults when None.
    env_config : EnvConfig, optional
        Trading rules the agent was trained for; those of the environment when one is given, with the present values of
        its physics knobs and the risk unit that its market gives.
    """

    name: ClassVar[str]
    config_class: ClassVar[type[LoopConfig]]
    learner_class: ClassVar[Any]
    output: ClassVar[Literal["numpy", "torch"]] = "torch"
    learns: ClassVar[bool] = True

    def __init__(
        self,
        env: FoxFuturesVectorEnv | None = None,
        config: LoopConfig | Mapping[str, Any] | None = None,
        env_config: EnvConfig | None = None,
    ) -> None:
        given = isinstance(config, self.config_class)
        self.config: Any = config if given else build(self.config_class, config or {}, "agent")  # type: ignore[arg-type]
        self.env = env
        self._env_config = env_config
        self.env_steps = 0
        self._diagnostics: dict[str, float] = {}
        self._replay: Replay | None = None  # made when learning starts
        self._settle(torch.device(env.device if env is not None else "cpu"))

    @property
    def env_config(self) -> EnvConfig | None:
        """The trading rules that the agent is trained for and scored under."""
        return self._env_config if self.env is None else agent_rules(self.env)

    def _settle(self, device: torch.device) -> None:
        """Make what acting and learning work with on ``device``."""
        self.device = device
        self.learner: ValueLearner = self.learner_class(self.config, device)
        self.generator = torch.Generator(device).manual_seed(self.config.seed)
        self._aside = torch.Generator(device).manual_seed(
            self.config.seed
        )  # of acting that is no part of learning
        self._step_counter = torch.zeros((), dtype=torch.float64, device=device)  # env_steps, seen by graphs
        sizes = torch.tensor(_layout.ACTION_BRANCHES, device=device)
        self._first_column = sizes.cumsum(0) - sizes  # of each branch among the 13 actions
        self._collected = torch.zeros(3 + _ACTIONS, dtype=torch.float64, device=device)

    def _follow(self, obs: Any) -> None:
        """Move to the device of the observations, unless an environment binds the agent to its own."""
        if self.env is None and isinstance(obs, Tensor) and obs.device != self.device:
            learned = self.learner.tensors()
            self._settle(obs.device)
            for name, tensor in self.learner.tensors().items():
                tensor.copy_(learned[name])

    @torch.no_grad()
    def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
        """Actions (N, 4) int64 for observations (N, 128): the greedy ones, or those of the training policy.

        The answer is a tensor on the device of ``obs``, or an array when ``obs`` is one.
        """
        self._follow(obs)
        observation = torch.as_tensor(obs, dtype=torch.float32, device=self.device)
        if masks is None:
            allowed = torch.ones(len(observation), _ACTIONS, dtype=torch.bool, device=self.device)
        else:
            allowed = torch.as_tensor(masks, dtype=torch.bool, device=self.device)
        if deterministic:
            actions = self.learner.greedy(observation, allowed)
        else:
            with self.learner.aside(len(observation)):
                actions = self.learner.explore(observation, allowed, self._progress(), self._aside)
        return actions.to(obs.device) if isinstance(obs, Tensor) else actions.cpu().numpy()

    def _progress(self) -> Tensor:
        progress: Tensor = self._step_counter / max(self.config.schedule_steps, 1)
        return progress.clamp(max=1.0).float()

    def learn(self, total_steps: int, callbacks: Sequence[Callback] = ()) -> None:
        """Collect and update until ``env_steps`` reaches ``total_steps`` or a callback returns False.

        Raises
        ------
        ConfigError
            Without an environment, or with one that does not fit.
        TrainingFault
            When a number was not finite; nothing was learned from it on.
        """
        c = self.config
        if self._replay is None:
            self._start()
        env = self._learning_env()
        while self.env_steps < total_steps:
            epoch = self.env_steps // c.epoch_steps
            for _ in range(c.collect_steps):
                self._collect()
            self.env_steps += c.collect_steps * env.num_envs
            starts = max(c.learning_starts, env.num_envs)
            if self.env_steps - c.collect_steps * env.num_envs < starts <= self.env_steps:
                self.learner.prepare(self._sample(_PREPARATION, torch.zeros((), device=self.device)))
            if self.env_steps >= starts:
                for _ in range(c.updates):
                    self._update()
            if self.env_steps // c.epoch_steps > epoch or self.env_steps >= total_steps:
                self._read_diagnostics()
                for callback in callbacks:
                    callback.on_epoch(self, self.diagnostics())
            goes_on = [callback.on_iteration(self) for callback in callbacks]  # every callback gets its turn
            if not all(goes_on):
                self._require_finite()
                return

    def _require_finite(self) -> None:
        """TrainingFault when something was not finite; waits for the device."""
        if not bool(self.learner.ok):
            raise self._fault(dict(zip(self.learner.SIGNALS, self.learner.signals.tolist(), strict=True)))

    def _learning_env(self) -> FoxFuturesVectorEnv:
        if self.env is None:
            raise ConfigError("this agent has no environment to learn in; pass env to make() or load()")
        return self.env

    def _allocate(self) -> None:
        """Make the buffers of the loop and the two steps that run on them."""
        env, c = self._learning_env(), self.config
        self._data = batch_fingerprint(env.markets, env.market_of)
        rows = (
            max(c.replay_size // env.num_envs, c.n_step) + 2
        )  # the newest state, and one that an episode ended in
        table = MarketTable(env.markets, env.market_of, c.move_horizon, self.device)
        self._replay = Replay(rows, table, c.full_information, self.device)
        self._observation = torch.zeros(env.num_envs, _layout.Observation.SIZE, device=self.device)
        self._masks = torch.zeros(env.num_envs, _ACTIONS, dtype=torch.bool, device=self.device)
        self.learner.start_acting(env.num_envs)
        # Slots of the latest update, or of the one that failed, and what they held was written at.
        self._suspect = torch.zeros(2, c.accumulate * c.batch_size, dtype=torch.int64, device=self.device)
        self._store = compiled(self._stored, c.compile)
        self._draw = compiled(self._drawn, c.compile)
        self._rank = compiled(self._ranked, c.compile)
        self._collect = Repeated(self._collect_step, self.device, [self.generator], c.precision)
        self._update = Repeated(self._update_step, self.device, [self.generator], c.precision)

    def _start(self) -> None:
        env = self._learning_env()
        fits = isinstance(env.observation, Tensor) and "final_obs" in env.outputs
        if not fits or "info.branch_active" not in env.outputs or env.single_action_space.shape != (4,):
            raise ConfigError(
                f'{self.name} learns in a vector environment with branch actions made with output="torch", '
                'autoreset_mode=SAME_STEP and info_level="learn" or "full"'
            )
        self.config.require_counterfactuals(env.config.counterfactual)
        self._allocate()
        observation, info = env.reset(seed=self.config.seed)
        self._observation.copy_(observation)
        self._masks.copy_(env.action_masks())
        assert self._replay is not None
        if self.config.warm_start is not None:
            alpha, _ = self.learner.exponents(self._progress())
            rules = without_knobs(asdict(agent_rules(env)))
            warm_start(self._replay, Path(self.config.warm_start), self._data, rules, alpha)
        self._replay.begin(self._observation, info["bar_index"], self._masks)

    def _collect_step(self) -> None:
        """One step of every environment, stored in the replay."""
        env = self._learning_env()
        with torch.no_grad():
            actions = self.learner.explore(self._observation, self._masks, self._progress(), self.generator)
            observation, reward, terminated, truncated, info = env.step(actions)
            stored = {name: info[name] for name in _STORED}
            if self.config.full_information:
                stored |= {name: info[name] for name in _STORED_EXPOSURES}
            self._store(
                actions, observation, reward, terminated, terminated | truncated, env.action_masks(), stored
            )

    def _stored(
        self,
        actions: Tensor,
        observation: Tensor,
        reward: Tensor,
        terminated: Tensor,
        done: Tensor,
        masks: Tensor,
        info: dict[str, Tensor],
    ) -> None:
        """Put one step of every environment away.

        After an episode's end ``observation`` and the masks belong to the next episode; the replay takes the state
        that the episode ended in from ``final_obs`` and ``final_masks``.
        """
        replay = self._replay
        assert replay is not None
        self.learner.episode_ended(done)
        replay.add(
            action=actions,
            active=info["branch_active"],
            reward=reward,
            terminated=terminated,
            done=done,
            final_observation=info["final_obs"],
            final_mask=info["final_masks"],
            next_observation=observation,
            next_bar=info["bar_index"],
            next_mask=masks,
            alpha=self.learner.exponents(self._progress())[0],
            exposure_reward=info.get("counterfactual_reward"),
            exposure_terminated=info.get("counterfactual_terminated"),
            exposure_account=info.get("counterfactual_account"),
        )
        self._observation.copy_(observation)
        self._masks.copy_(masks)
        self._step_counter += len(actions)
        chosen = torch.zeros_like(masks).scatter_(1, actions + self._first_column, True)
        sums = torch.stack([reward.sum(), done.sum(), terminated.sum()])
        self._collected += torch.cat([sums, chosen.sum(0)]).double()

    def _update_step(self) -> None:
        c = self.config
        shape = c.accumulate, c.batch_size
        uniforms = torch.rand(shape, dtype=torch.float64, device=self.device, generator=self.generator)
        batches = []
        for uniform in uniforms:
            with torch.no_grad():
                progress, batch = self._draw(uniform)
            batches.append(batch)
        stored = [torch.stack([batch.slot, batch.stamp.long()]) for batch in batches]
        self._suspect.copy_(torch.where(self.learner.ok, torch.cat(stored, dim=1), self._suspect))
        priorities = self.learner.update(batches, progress)
        for batch, priority in zip(batches, priorities or [], strict=priorities is not None):
            with torch.no_grad():
                self._rank(batch, priority)

    def _drawn(self, uniform: Tensor) -> tuple[Tensor, Batch]:
        """Progress (), and a batch for uniforms (B,)."""
        assert self._replay is not None
        progress = self._progress()
        beta = self.learner.exponents(progress)[1]
        return progress, self._replay.sample(uniform, self.config.n_step, self.config.gamma, beta)

    def _ranked(self, batch: Batch, priority: Tensor) -> None:
        """Store new priorities (B,) of a batch."""
        assert self._replay is not None
        self._replay.set_priorities(batch, priority, self.learner.exponents(self._progress())[0])

    def _sample(self, size: int, beta: Tensor) -> Batch:
        assert self._replay is not None
        uniform = torch.rand(size, dtype=torch.float64, device=self.device, generator=self.generator)
        return self._replay.sample(uniform, self.config.n_step, self.config.gamma, beta)

    def _read_diagnostics(self) -> None:
        """Read the sums since the last epoch, the signals and the replay's figures in one transfer."""
        assert self._replay is not None
        learner, replay = self.learner, self._replay
        parts = {
            "learned": learner.statistics,
            "collected": self._collected,
            "signals": learner.signals.double(),
            "replay": replay.figures(),
            "state": torch.stack([self._progress().double(), learner.ok.double()]),
        }
        host = torch.split(torch.cat(list(parts.values())).cpu(), [len(part) for part in parts.values()])
        values = {name: part.tolist() for name, part in zip(parts, host, strict=True)}
        signals = dict(zip(learner.SIGNALS, values["signals"], strict=True))
        learner.statistics.zero_()
        self._collected.zero_()
        progress, ok = values["state"]
        if not ok:
            raise self._fault(signals)
        *learned, updates = values["learned"]
        reward, episodes, terminations, *chosen = values["collected"]
        directions = chosen[: len(Direction)]
        steps = max(sum(directions), 1.0)  # every step took one direction
        c = self.config
        self._diagnostics = {
            "reward": reward / steps,
            "episodes": episodes,
            "terminations": terminations,
            "epsilon": c.epsilon_start + (c.epsilon_end - c.epsilon_start) * progress,
            "updates": updates,
            **{name: v / max(updates, 1.0) for name, v in zip(learner.STATISTICS, learned, strict=True)},
            **{f"share_{d.name.lower()}": n / steps for d, n in zip(Direction, directions, strict=True)},
            **{f"replay/{name}": v for name, v in zip(replay.FIGURES, values["replay"], strict=True)},
            **{f"signals/{name}": v for name, v in signals.items()},
        }

    def _fault(self, signals: Mapping[str, float]) -> TrainingFault:
        """The error for something that was not finite, with the samples of the update that met it."""
        assert self._replay is not None
        names, c = self.learner.faults(), self.config
        slots, stamps = self._suspect
        batch = self._replay.at(slots, c.n_step, c.gamma, torch.zeros((), device=self.device))
        arrays = {name: tensor for name, tensor in batch._asdict().items() if tensor is not None}
        arrays["still_there"] = batch.stamp == stamps  # False: overwritten before the fault was noticed
        return TrainingFault(
            f"training diverged at step {self.env_steps}: not finite: {', '.join(names)}; lower agent.lr",
            to_numpy(arrays),
            {"env_steps": self.env_steps, "not_finite": names, "signals": dict(signals)},
        )

    def diagnostics(self) -> dict[str, float]:
        """Means over the last epoch: reward per step, losses, values, choices; counts of ends; and, under ``replay/``
        and ``signals/``, how both stand.
        """
        return dict(self._diagnostics)

    def distributions(self) -> dict[str, np.ndarray[Any, Any]]:
        """Values of every direction or exposure at the present states, and the best one's lead over the next."""
        with torch.no_grad():
            values = self.learner.values(self._observation).cpu().numpy()
        ordered = np.sort(values, axis=1)
        return {"values": values.reshape(-1), "value_gaps": ordered[:, -1] - ordered[:, -2]}

    def save(self, directory: str | Path, *, policy_only: bool = False) -> None:
        """Write the agent into ``directory``, atomically.

        Everything needed to go on learning bit for bit is included unless ``policy_only``: the replay, the
        environments, the generators and the running sums.

        Raises
        ------
        TrainingFault
            When something was not finite while learning; nothing is written then.
        """
        learning = self._replay is not None and not policy_only
        if learning:
            self._require_finite()  # the last good checkpoint stays
        state: dict[str, Any] = {
            "agent": self.name,
            "config": asdict(self.config),
            "env_config": asdict(self.env_config) if self.env_config is not None else None,
            "architecture": self.learner.architecture(),
            "env_steps": self.env_steps,
            "learning": learning,
        }
        if learning:
            env = self._learning_env()
            state |= {"num_envs": env.num_envs, "data": self._data}
        with atomic_directory(Path(directory)) as temporary:
            write_arrays(temporary, "learner", to_numpy(self.learner.tensors()))
            if learning:
                write_arrays(temporary, "loop", to_numpy(self._loop_tensors()))
                write_arrays(temporary, "env", {k: np.asarray(v) for k, v in env.state_dict().items()})
            sections = {"agent": state["config"], "env": state["env_config"] or {}}
            (temporary / "config.toml").write_text(to_toml(sections), encoding="utf-8")
            write_state(temporary, state)

    @classmethod
    def load(cls, directory: str | Path, env: FoxFuturesVectorEnv | None = None) -> Self:
        """Agent from `save`. With ``env`` (same data, rules and number of environments) it goes on learning.

        Raises
        ------
        CheckpointError
            When the checkpoint is damaged, or differs from the data or the environment; the first difference
            is named.
        """
        directory = Path(directory)
        state = read_state(directory)
        saved = state["env_config"]
        env_config = build(EnvConfig, saved, "env") if saved is not None else None
        agent = cls(env, build(cls.config_class, state["config"], "agent"), env_config)
        require_same("architecture", state["architecture"], agent.learner.architecture())
        restore(agent.learner.tensors(), read_arrays(directory, "learner"), directory)
        agent.env_steps = int(state["env_steps"])
        agent._step_counter.fill_(agent.env_steps)
        if env is not None and state["learning"]:
            agent._allocate()
            require_same("data", state["data"], agent._data)  # before the risk unit, which it decides
            # The environment's state, loaded below, brings the physics knobs to where they stood.
            require_same("environment", without_knobs(saved), without_knobs(asdict(agent_rules(env))))
            require_same(
                "number of environments", {"num_envs": state["num_envs"]}, {"num_envs": env.num_envs}
            )
            loop = read_arrays(directory, "loop")
            agent.generator.set_state(torch.from_numpy(loop.pop("generator")))
            restore({k: v for k, v in agent._loop_tensors().items() if k != "generator"}, loop, directory)
            env.load_state_dict(read_arrays(directory, "env"))
        return agent

    def _loop_tensors(self) -> dict[str, Tensor]:
        assert self._replay is not None
        return {
            "generator": self.generator.get_state(),
            "observation": self._observation,
            "masks": self._masks,
            "step_counter": self._step_counter,
            "collected": self._collected,
            **{f"acting.{name}": tensor for name, tensor in self.learner.acting_tensors().items()},
            **{f"replay.{name}": tensor for name, tensor in self._replay.tensors().items()},
        }
