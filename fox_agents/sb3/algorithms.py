"""The algorithms of Stable-Baselines3 and sb3-contrib that Fox compares with, as agents."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from fox_agents.agent_config import LearnerConfig
from fox_agents.dqn.memory import require_memory
from fox_agents.sb3 import config as settings
from fox_agents.sb3.agent import Sb3Agent
from fox_agents.sb3.library import A2C, DQN, PPO, QRDQN, MaskablePPO, RecurrentPPO
from fox_agents.sb3.state import load_replay, replay_state
from fox_env._layout import Observation

__all__ = ["A2CAgent", "DQNAgent", "MaskablePPOAgent", "PPOAgent", "QRDQNAgent", "RecurrentPPOAgent"]

Arrays = dict[str, npt.NDArray[Any]]


class _OnPolicy(Sb3Agent):
    """Collects a rollout with the present policy and learns from it."""

    def _common(self) -> dict[str, Any]:
        c = self.config
        return {
            "policy": "MlpPolicy",
            "n_steps": c.rollout_steps,
            "gae_lambda": c.gae_lambda,
            "ent_coef": c.ent_coef,
            "vf_coef": c.vf_coef,
            "policy_kwargs": {"net_arch": [c.hidden, c.hidden]},
        }

    def _iterate(self) -> None:
        m = self.model
        m.collect_rollouts(m.env, self._library_callback, m.rollout_buffer, n_rollout_steps=m.n_steps)
        m._update_current_progress_remaining(m.num_timesteps, m._total_timesteps)
        m.train()

    def _learning_state(self) -> tuple[Arrays, dict[str, Any]]:
        return {}, {}  # a rollout is never kept

    def _load_learning_state(self, arrays: Arrays, plain: dict[str, Any], directory: Path) -> None:
        pass


class A2CAgent(_OnPolicy):
    """Advantage actor-critic."""

    name = "a2c"
    config_class: ClassVar[type[LearnerConfig]] = settings.A2CConfig

    def _algorithm(self) -> tuple[Any, dict[str, Any]]:
        return A2C, self._common()

    def _read_diagnostics(self) -> None:
        super()._read_diagnostics()
        d, c = self._diagnostics, self.config  # the library logs the parts only
        d["loss"] = d["policy_loss"] + c.ent_coef * d["entropy_loss"] + c.vf_coef * d["value_loss"]


class PPOAgent(_OnPolicy):
    """Proximal policy optimisation."""

    name = "ppo"
    config_class: ClassVar[type[LearnerConfig]] = settings.PPOConfig

    def _algorithm(self) -> tuple[Any, dict[str, Any]]:
        return PPO, self._common()

    def _common(self) -> dict[str, Any]:
        c = self.config
        batch = min(c.batch_size, c.rollout_steps * (1 if self.env is None else self.env.num_envs))
        own = {"batch_size": batch, "n_epochs": c.n_epochs, "clip_range": c.clip_range}
        return super()._common() | own


class MaskablePPOAgent(PPOAgent):
    """PPO that draws distinct actions only."""

    name = "maskable_ppo"
    config_class: ClassVar[type[LearnerConfig]] = settings.MaskablePPOConfig

    def _algorithm(self) -> tuple[Any, dict[str, Any]]:
        return MaskablePPO, self._common()

    def _greedy(self, observation: npt.NDArray[np.float32], masks: Any) -> Any:
        return self.model.policy.predict(observation, deterministic=True, action_masks=masks)[0]

    def _drawn(self, observation: npt.NDArray[np.float32], masks: Any) -> Any:
        return self.model.policy.predict(observation, deterministic=False, action_masks=masks)[0]


class RecurrentPPOAgent(PPOAgent):
    """PPO with an LSTM; what it remembers of the rows it acts for begins anew with `prepare`."""

    name = "recurrent_ppo"
    config_class: ClassVar[type[LearnerConfig]] = settings.RecurrentPPOConfig
    _memory: Any = None

    def prepare(self, env: Any) -> None:
        """Forget: new episodes begin."""
        self._memory = None

    def _algorithm(self) -> tuple[Any, dict[str, Any]]:
        arguments = self._common()
        arguments["policy"] = "MlpLstmPolicy"
        arguments["policy_kwargs"]["lstm_hidden_size"] = self.config.lstm_size
        return RecurrentPPO, arguments

    def _greedy(self, observation: npt.NDArray[np.float32], masks: Any) -> Any:
        return self._remembered(observation, deterministic=True)

    def _drawn(self, observation: npt.NDArray[np.float32], masks: Any) -> Any:
        return self._remembered(observation, deterministic=False)

    def _remembered(self, observation: npt.NDArray[np.float32], deterministic: bool) -> Any:
        if self._memory is not None and self._memory[0].shape[1] != len(observation):
            self._memory = None  # other rows
        starts = np.full(len(observation), self._memory is None)
        chosen, self._memory = self.model.policy.predict(
            observation, self._memory, starts, deterministic=deterministic
        )
        return chosen

    def _learning_state(self) -> tuple[Arrays, dict[str, Any]]:
        states = self.model._last_lstm_states
        pairs = {"pi": states.pi, "vf": states.vf}
        return {f"lstm.{k}.{i}": t.cpu().numpy() for k, pair in pairs.items() for i, t in enumerate(pair)}, {}

    def _load_learning_state(self, arrays: Arrays, plain: dict[str, Any], directory: Path) -> None:
        kind = type(self.model._last_lstm_states)
        pairs = [
            tuple(torch.from_numpy(arrays[f"lstm.{k}.{i}"]).to(self.device) for i in range(2))
            for k in ("pi", "vf")
        ]
        self.model._last_lstm_states = kind(*pairs)


class DQNAgent(Sb3Agent):
    """Deep Q-network on the eight exposures."""

    name = "dqn"
    config_class: ClassVar[type[LearnerConfig]] = settings.DQNConfig
    exposures = True

    def _algorithm(self) -> tuple[Any, dict[str, Any]]:
        return DQN, self._common()

    def _common(self) -> dict[str, Any]:
        c = self.config
        size = 8 * int(Observation.SIZE) * c.replay_size
        require_memory(size, "the replay", "lower agent.replay_size", torch.device("cpu"))
        return {
            "policy": "MlpPolicy",
            "batch_size": c.batch_size,
            "buffer_size": c.replay_size if self.env is not None else 1,
            "learning_starts": c.learning_starts,
            "train_freq": c.collect_steps,
            "gradient_steps": c.updates,
            "target_update_interval": c.target_interval,
            "exploration_initial_eps": c.epsilon_start,
            "exploration_final_eps": c.epsilon_end,
            "exploration_fraction": 1.0,  # of the schedule
            "policy_kwargs": {"net_arch": [c.hidden, c.hidden]},
        }

    def _iterate(self) -> None:
        m, c = self.model, self.config
        m.collect_rollouts(
            m.env,
            train_freq=m.train_freq,
            action_noise=None,
            callback=self._library_callback,
            learning_starts=m.learning_starts,
            replay_buffer=m.replay_buffer,
        )
        if m.num_timesteps > m.learning_starts:
            m.train(gradient_steps=c.updates, batch_size=c.batch_size)

    def _drawn(self, observation: npt.NDArray[np.float32], masks: Any) -> Any:
        """Epsilon-greedy, for each row by itself."""
        c = self.config
        progress = min(self.env_steps / max(c.schedule_steps, 1), 1.0)
        epsilon = c.epsilon_start + (c.epsilon_end - c.epsilon_start) * progress
        random = np.random.rand(len(observation)) < epsilon
        exposures = np.random.randint(self.model.action_space.n, size=len(observation))
        return np.where(random, exposures, self._greedy(observation, masks))

    def _read_diagnostics(self) -> None:
        super()._read_diagnostics()
        self._diagnostics["epsilon"] = float(self.model.exploration_rate)
        replay = self.model.replay_buffer
        self._diagnostics["replay/fill"] = replay.size() / replay.buffer_size

    def _learning_state(self) -> tuple[Arrays, dict[str, Any]]:
        arrays, plain = replay_state(self.model.replay_buffer)
        return {f"replay.{name}": array for name, array in arrays.items()}, plain

    def _load_learning_state(self, arrays: Arrays, plain: dict[str, Any], directory: Path) -> None:
        replay = {name.removeprefix("replay."): array for name, array in arrays.items()}
        load_replay(self.model.replay_buffer, replay, plain, directory)


class QRDQNAgent(DQNAgent):
    """Quantile regression DQN on the eight exposures."""

    name = "qrdqn"
    config_class: ClassVar[type[LearnerConfig]] = settings.QRDQNConfig

    def _algorithm(self) -> tuple[Any, dict[str, Any]]:
        arguments = self._common()
        arguments["policy_kwargs"]["n_quantiles"] = self.config.quantiles
        return QRDQN, arguments
