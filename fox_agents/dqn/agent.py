"""The branching C51 agent: act, collect, learn, save, load.

The whole loop works on device tensors. The host only counts iterations, launches steps and, once per epoch,
reads one tensor of diagnostics.
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
    CheckpointError,
    atomic_directory,
    batch_fingerprint,
    read_arrays,
    read_state,
    require_same,
    write_arrays,
    write_state,
)
from fox_agents.config import BDQConfig, build, to_toml
from fox_agents.dqn.graphs import Repeated
from fox_agents.dqn.learner import Learner
from fox_agents.dqn.network import greedy
from fox_agents.dqn.replay import Replay
from fox_env import EnvConfig, FoxFuturesVectorEnv, _layout
from fox_env._layout import Direction
from fox_env.errors import ConfigError, FoxError
from fox_env.knobs import PHYSICS_KNOB_OPTIONS
from fox_env.params import risk_unit

__all__ = ["BDQAgent"]

_ACTIONS = sum(_layout.ACTION_BRANCHES)


class BDQAgent:
    """Branching dueling double C51 with uniform replay and epsilon-greedy exploration.

    Parameters
    ----------
    env : FoxFuturesVectorEnv, optional
        Made with ``output="torch"``, ``autoreset_mode=SAME_STEP`` and ``info_level="learn"``. Without it the
        agent cannot learn, and acts on the device of the observations it is given.
    config : BDQConfig or mapping, optional
        Settings; the defaults when None.
    env_config : EnvConfig, optional
        Trading rules the agent was trained for; those of the environment when one is given, with the present values of
        its physics knobs and the risk unit that its market gives.
    """

    name: ClassVar[str] = "bdq"
    output: ClassVar[Literal["numpy", "torch"]] = "torch"
    learns: ClassVar[bool] = True

    def __init__(
        self,
        env: FoxFuturesVectorEnv | None = None,
        config: BDQConfig | Mapping[str, Any] | None = None,
        env_config: EnvConfig | None = None,
    ) -> None:
        self.config = config if isinstance(config, BDQConfig) else build(BDQConfig, config or {}, "agent")
        self.env = env
        self._env_config = env_config
        self.env_steps = 0
        self._diagnostics: dict[str, float] = {}
        self._replay: Replay | None = None  # made when learning starts
        self._settle(torch.device(env.device if env is not None else "cpu"))

    @property
    def env_config(self) -> EnvConfig | None:
        """The trading rules that the agent is trained for and scored under."""
        return self._env_config if self.env is None else _rules(self.env)

    def _settle(self, device: torch.device) -> None:
        """Make what acting and learning work with on ``device``."""
        self.device = device
        self.learner = Learner(self.config, device)
        self.generator = torch.Generator(device).manual_seed(self.config.seed)
        self._step_counter = torch.zeros((), dtype=torch.float64, device=device)  # env_steps, seen by graphs
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
            actions = greedy(self.learner.q_values(observation), allowed, self.learner.branches)
        else:
            actions = self._explore(observation, allowed)
        return actions.to(obs.device) if isinstance(obs, Tensor) else actions.cpu().numpy()

    def _epsilon(self) -> Tensor:
        c = self.config
        progress = (self._step_counter / max(c.epsilon_steps, 1)).clamp(max=1.0)
        return c.epsilon_start + (c.epsilon_end - c.epsilon_start) * progress

    def _explore(self, observation: Tensor, masks: Tensor) -> Tensor:
        """Epsilon-greedy, drawn for every branch on its own, among distinct actions."""
        count, branches = len(observation), len(self.learner.branches)
        draws = torch.rand(count, branches + _ACTIONS, device=self.device, generator=self.generator)
        best = greedy(self.learner.q_values(observation), masks, self.learner.branches)
        other = greedy(draws[:, branches:], masks, self.learner.branches)
        return torch.where(draws[:, :branches] < self._epsilon(), other, best)

    def learn(self, total_steps: int, callbacks: Sequence[Callback] = ()) -> None:
        """Collect and update until ``env_steps`` reaches ``total_steps`` or a callback returns False.

        Raises
        ------
        ConfigError
            Without an environment, or with one that does not fit.
        FoxError
            When a gradient was not finite; nothing was learned from it on.
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
            if self.env_steps >= max(c.learning_starts, c.n_step * env.num_envs):
                for _ in range(c.updates):
                    self._update()
            if self.env_steps // c.epoch_steps > epoch or self.env_steps >= total_steps:
                self._read_diagnostics()
                for callback in callbacks:
                    callback.on_epoch(self, self.diagnostics())
            goes_on = [callback.on_iteration(self) for callback in callbacks]  # every callback gets its turn
            if not all(goes_on):
                return

    def _learning_env(self) -> FoxFuturesVectorEnv:
        if self.env is None:
            raise ConfigError("this agent has no environment to learn in; pass env to make() or load()")
        return self.env

    def _allocate(self) -> None:
        """Make the buffers of the loop and the two steps that run on them."""
        env = self._learning_env()
        self._data = batch_fingerprint(env.markets, env.market_of)
        rows = max(self.config.replay_size // env.num_envs, self.config.n_step)
        branches = len(self.learner.branches)
        self._replay = Replay(rows, env.num_envs, _layout.Observation.SIZE, branches, _ACTIONS, self.device)
        self._observation = torch.zeros(env.num_envs, _layout.Observation.SIZE, device=self.device)
        self._masks = torch.zeros(env.num_envs, _ACTIONS, dtype=torch.bool, device=self.device)
        self._collect = Repeated(self._collect_step, self.device, [self.generator])
        self._update = Repeated(self._update_step, self.device, [self.generator])

    def _start(self) -> None:
        env = self._learning_env()
        fits = isinstance(env.observation, Tensor) and "final_obs" in env.outputs
        if not fits or "info.branch_active" not in env.outputs or env.single_action_space.shape != (4,):
            raise ConfigError(
                'bdq learns in a vector environment with branch actions made with output="torch", '
                'autoreset_mode=SAME_STEP and info_level="learn" or "full"'
            )
        self._allocate()
        observation, _ = env.reset(seed=self.config.seed)
        self._observation.copy_(observation)
        self._masks.copy_(env.action_masks())

    def _collect_step(self) -> None:
        """One step of every environment, stored in the replay.

        After an episode's end ``observation`` and the masks belong to the next episode, so the transition
        takes ``final_obs`` and ``final_masks``.
        """
        env, replay = self._learning_env(), self._replay
        assert replay is not None
        with torch.no_grad():
            actions = self._explore(self._observation, self._masks)
            observation, reward, terminated, truncated, info = env.step(actions)
            done = terminated | truncated
            masks = env.action_masks()
            replay.add(
                observation=self._observation,
                action=actions,
                active=info["branch_active"],
                reward=reward,
                terminated=terminated,
                done=done,
                next_observation=torch.where(done[:, None], info["final_obs"], observation),
                next_mask=torch.where(done[:, None], info["final_masks"], masks),
            )
            self._observation.copy_(observation)
            self._masks.copy_(masks)
            self._step_counter += len(actions)
            chosen = torch.zeros_like(masks).scatter_(1, actions + self.learner.offsets, True)
            sums = torch.stack([reward.sum(), done.sum(), terminated.sum()])
            self._collected += torch.cat([sums, chosen.sum(0)]).double()

    def _update_step(self) -> None:
        assert self._replay is not None
        c = self.config
        self.learner.update(self._replay.sample(c.batch_size, c.n_step, c.gamma, self.generator))

    def _read_diagnostics(self) -> None:
        """Read the sums since the last epoch in one transfer and start new ones."""
        tail = torch.stack([self._epsilon(), self.learner.finite.double()])
        values = torch.cat([self.learner.statistics, self._collected, tail]).tolist()
        self.learner.statistics.zero_()
        self._collected.zero_()
        *sums, epsilon, finite = values
        if not finite:
            raise FoxError(
                f"training diverged at step {self.env_steps}: a gradient was not finite; lower agent.lr"
            )
        names = Learner.STATISTICS
        *learned, updates = sums[: len(names) + 1]
        reward, episodes, terminations, *chosen = sums[len(names) + 1 :]
        directions = chosen[: len(Direction)]
        steps = max(sum(directions), 1.0)  # every step took one direction
        self._diagnostics = {
            "reward": reward / steps,
            "episodes": episodes,
            "terminations": terminations,
            "epsilon": epsilon,
            "updates": updates,
            **{name: value / max(updates, 1.0) for name, value in zip(names, learned, strict=True)},
            **{
                f"share_{d.name.lower()}": count / steps
                for d, count in zip(Direction, directions, strict=True)
            },
        }

    def diagnostics(self) -> dict[str, float]:
        """Means over the last epoch: reward per step, losses, Q values, choices; and counts of ends."""
        return dict(self._diagnostics)

    def save(self, directory: str | Path, *, policy_only: bool = False) -> None:
        """Write the agent into ``directory``, atomically.

        Everything needed to go on learning bit for bit is included unless ``policy_only``: the replay, the
        environments, the generators and the running sums.
        """
        learning = self._replay is not None and not policy_only
        state: dict[str, Any] = {
            "agent": self.name,
            "config": asdict(self.config),
            "env_config": asdict(self.env_config) if self.env_config is not None else None,
            "architecture": self._architecture(),
            "env_steps": self.env_steps,
            "learning": learning,
        }
        if learning:
            env = self._learning_env()
            state |= {"num_envs": env.num_envs, "data": self._data}
        with atomic_directory(Path(directory)) as temporary:
            write_arrays(temporary, "learner", _to_numpy(self.learner.tensors()))
            if learning:
                write_arrays(temporary, "loop", _to_numpy(self._loop_tensors()))
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
        agent = cls(env, build(BDQConfig, state["config"], "agent"), env_config)
        require_same("architecture", state["architecture"], agent._architecture())
        _restore(agent.learner.tensors(), read_arrays(directory, "learner"), directory)
        agent.env_steps = int(state["env_steps"])
        if env is not None and state["learning"]:
            agent._allocate()
            require_same("data", state["data"], agent._data)  # before the risk unit, which it decides
            # The environment's state, loaded below, brings the physics knobs to where they stood.
            require_same("environment", _without_knobs(saved), _without_knobs(asdict(_rules(env))))
            require_same(
                "number of environments", {"num_envs": state["num_envs"]}, {"num_envs": env.num_envs}
            )
            loop = read_arrays(directory, "loop")
            agent.generator.set_state(torch.from_numpy(loop.pop("generator")))
            _restore({k: v for k, v in agent._loop_tensors().items() if k != "generator"}, loop, directory)
            env.load_state_dict(read_arrays(directory, "env"))
        return agent

    def _architecture(self) -> dict[str, Any]:
        sizes = {"observation": _layout.Observation.SIZE, "branches": list(_layout.ACTION_BRANCHES)}
        return sizes | {key: getattr(self.config, key) for key in ("hidden", "atoms", "v_min", "v_max")}

    def _loop_tensors(self) -> dict[str, Tensor]:
        assert self._replay is not None
        return {
            "generator": self.generator.get_state(),
            "observation": self._observation,
            "masks": self._masks,
            "step_counter": self._step_counter,
            "collected": self._collected,
            **{f"replay.{name}": tensor for name, tensor in self._replay.tensors().items()},
        }


def _rules(env: FoxFuturesVectorEnv) -> EnvConfig:
    """The environment's rules with the risk unit of its market, so that it travels with the agent.

    Several markets have a unit each, which no single number can stand for.
    """
    config = env.present_config
    if len(env.markets) > 1:
        return config
    return config.replace(risk_unit=risk_unit(env.market, config))


def _without_knobs(rules: dict[str, Any]) -> dict[str, Any]:
    """Rules but for those that are physics knobs, which may have been set since the environment was made."""
    return {name: value for name, value in rules.items() if name not in PHYSICS_KNOB_OPTIONS}


def _to_numpy(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def _restore(
    tensors: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray[Any, Any]], directory: Path
) -> None:
    """Copy saved arrays into the agent's tensors, in place, so that views and captured graphs stay valid."""
    for name, tensor in tensors.items():
        if name not in arrays or arrays[name].shape != tuple(tensor.shape):
            raise CheckpointError(
                f"{directory} does not fit this version of the agent: {name} is missing or reshaped"
            )
        tensor.copy_(torch.from_numpy(arrays[name]))
