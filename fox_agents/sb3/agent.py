"""What the agents of Stable-Baselines3 share: its algorithms learn and act, Fox counts, stops, saves and resumes.

The loop is Fox's own, made of the library's ``collect_rollouts`` and ``train``, because its ``learn`` can neither stop
between two updates nor go on from there bit for bit.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from fox_agents.agent_config import LearnerConfig
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
from fox_agents.exposures import EXPOSURE_ACTIONS
from fox_agents.faults import TrainingFault
from fox_agents.plain_values import build
from fox_agents.sb3.counted import CountedVecEnv, shown
from fox_agents.sb3.figures import EpochFigures
from fox_agents.sb3.generators import Generators
from fox_agents.sb3.state import load_policy, policy_tensors, read_loop, write_loop
from fox_agents.trading_rules import agent_rules, without_knobs
from fox_env import EnvConfig, FoxFuturesVectorEnv
from fox_env._layout import ACTION_BRANCHES, Observation
from fox_env.adapters.sb3 import FoxVecEnv
from fox_env.errors import ConfigError

__all__ = ["Sb3Agent"]

_LOG = logging.getLogger(__name__)
_SEEDS = 2**32  # NumPy's legacy generator takes no larger seed


class Sb3Agent:
    """An algorithm of Stable-Baselines3 as an agent.

    Parameters
    ----------
    env : FoxFuturesVectorEnv, optional
        Made with ``output="numpy"``, branch actions and ``autoreset_mode=SAME_STEP``. Without it the agent only acts,
        on the CPU.
    config : LearnerConfig or mapping, optional
        Settings; the defaults when None.
    env_config : EnvConfig, optional
        Trading rules the agent was trained for; those of the environment when one is given.

    Notes
    -----
    The networks are on the environment's device. The process-wide generators that the library draws from are the
    caller's again outside of `learn` and `act`.
    """

    name: ClassVar[str]
    config_class: ClassVar[type[LearnerConfig]]
    output: ClassVar[Literal["numpy", "torch"]] = "numpy"
    learns: ClassVar[bool] = True
    exposures: ClassVar[bool] = False
    """Whether it chooses one of the eight exposures instead of branches."""

    def __init__(
        self,
        env: FoxFuturesVectorEnv | None = None,
        config: LearnerConfig | Mapping[str, Any] | None = None,
        env_config: EnvConfig | None = None,
    ) -> None:
        given = isinstance(config, self.config_class)
        settings = config if given else build(self.config_class, config or {}, "agent")  # type: ignore[arg-type]
        self.config = cast("Any", settings)
        self.env = env
        self._env_config = env_config
        self.env_steps = 0
        self.device = torch.device(env.device if env is not None else "cpu")
        self._vec_env = None if env is None else CountedVecEnv(self._adapted(env), self.exposures)
        self._generators, self._aside = Generators(self.device), Generators(self.device)
        self._policy_only = False
        self._begun = False
        self._diagnostics: dict[str, float] = {}
        with self._aside:
            torch.manual_seed(self.config.seed)
            np.random.seed(self.config.seed % _SEEDS)
        with self._generators:
            self.model = self._made()
        self._figures = EpochFigures(self.model)

    # ---- what an algorithm says of itself ------------------------------------------------------------------

    def _algorithm(self) -> tuple[Any, dict[str, Any]]:
        """Class of the algorithm, and its arguments beside those that all have."""
        raise NotImplementedError

    def _iterate(self) -> None:
        """One collection and its updates."""
        raise NotImplementedError

    def _learning_state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """What else learning goes on from: arrays by name, and plain values."""
        raise NotImplementedError

    def _load_learning_state(
        self, arrays: dict[str, npt.NDArray[Any]], plain: dict[str, Any], directory: Path
    ) -> None:
        """Undo `_learning_state`."""
        raise NotImplementedError

    # ---- acting --------------------------------------------------------------------------------------------

    @property
    def env_config(self) -> EnvConfig | None:
        """The trading rules that the agent is trained for and scored under."""
        return self._env_config if self.env is None else agent_rules(self.env)

    def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> npt.NDArray[np.int64]:
        """Actions (N, 4) int64 for observations (N, 128): the greedy ones, or draws of the training policy."""
        observation = shown(np.asarray(obs, dtype=np.float32))
        if deterministic:
            chosen = self._greedy(observation, masks)
        else:
            with self._aside:
                chosen = self._drawn(observation, masks)
        actions: npt.NDArray[np.int64] = np.asarray(EXPOSURE_ACTIONS[chosen] if self.exposures else chosen)
        return actions.astype(np.int64, copy=False)

    def _greedy(self, observation: npt.NDArray[np.float32], masks: Any) -> Any:
        return self.model.policy.predict(observation, deterministic=True)[0]

    def _drawn(self, observation: npt.NDArray[np.float32], masks: Any) -> Any:
        return self.model.policy.predict(observation, deterministic=False)[0]

    # ---- learning ------------------------------------------------------------------------------------------

    def learn(self, total_steps: int, callbacks: Sequence[Callback] = ()) -> None:
        """Collect and update until ``env_steps`` reaches ``total_steps`` or a callback returns False.

        Raises
        ------
        ConfigError
            Without an environment.
        TrainingFault
            When a number was not finite.
        """
        if self._vec_env is None:
            raise ConfigError("this agent has no environment to learn in; pass env to make() or load()")
        if not self._begun:
            self._begin()
        while self.env_steps < total_steps:
            epoch = self.env_steps // self.config.epoch_steps
            with self._generators:
                self._iterate_or_fault()
            self._figures.add()
            if self.env_steps // self.config.epoch_steps > epoch or self.env_steps >= total_steps:
                self._read_diagnostics()
                for callback in callbacks:
                    callback.on_epoch(self, self.diagnostics())
            goes_on = [callback.on_iteration(self) for callback in callbacks]  # every callback gets its turn
            if not all(goes_on):
                return

    def _iterate_or_fault(self) -> None:
        try:
            self._iterate()
        except (
            ValueError,
            RuntimeError,
        ):  # of a distribution that is not finite, with and without torch's own checks
            self._require_finite()
            raise
        finally:
            self.env_steps = self.model.num_timesteps

    def _begin(self) -> None:
        """Begin the first episodes."""
        if self._policy_only:
            _LOG.warning(
                "%s goes on from its policy only: optimiser, random numbers and experience begin anew",
                self.name,
            )
        with self._generators:
            self._set_up(reset=True)
        self.model.num_timesteps = self.env_steps

    def _set_up(self, *, reset: bool) -> None:
        """Let the library prepare for learning; without ``reset`` the episodes go on."""
        _, self._library_callback = self.model._setup_learn(0, None, reset_num_timesteps=reset)
        self.model._total_timesteps = max(self.config.schedule_steps, 1)
        self._begun = True

    def _step_size(self, remaining: float) -> float:
        """Step size when the share ``remaining`` of the schedule is left; negative after its end."""
        c = self.config
        return float(c.lr_end + (c.lr - c.lr_end) * max(remaining, 0.0))

    def diagnostics(self) -> dict[str, float]:
        """Means over the last epoch, by the names that Fox's own agents give them where they mean the same."""
        return dict(self._diagnostics)

    def _read_diagnostics(self) -> None:
        assert self._vec_env is not None
        self._require_finite()
        self._diagnostics = self._figures.take(self._vec_env)

    def _require_finite(self) -> None:
        """TrainingFault when a parameter is not finite."""
        bad = [name for name, p in self.model.policy.named_parameters() if not bool(torch.isfinite(p).all())]
        if bad:
            raise TrainingFault(
                f"training diverged at step {self.env_steps}: not finite: {bad[0]}; lower agent.lr",
                {"observation": np.asarray(self.model._last_obs)},
                {"env_steps": self.env_steps, "not_finite": bad},
            )

    # ---- making, saving and loading ------------------------------------------------------------------------

    def _adapted(self, env: FoxFuturesVectorEnv) -> FoxVecEnv:
        if env.single_action_space.shape != (len(ACTION_BRANCHES),):
            raise ConfigError(
                f"{self.name} learns in an environment with branch actions; make it with action_type='branches'"
            )
        return FoxVecEnv(env)

    def _made(self) -> Any:
        """The algorithm; it seeds the generators and draws its parameters."""
        algorithm, arguments = self._algorithm()
        c = self.config
        arguments |= {
            "learning_rate": self._step_size,
            "gamma": c.gamma,
            "max_grad_norm": c.grad_clip,
            "seed": c.seed % _SEEDS,
            "device": self.device,
        }
        model = algorithm(env=self._vec_env, _init_setup_model=False, **arguments)
        if self._vec_env is None:
            limit = float(Observation.LIMIT)
            model.observation_space = Box(-limit, limit, (int(Observation.SIZE),), np.float32)
            branches = MultiDiscrete(list(ACTION_BRANCHES))
            model.action_space = Discrete(len(EXPOSURE_ACTIONS)) if self.exposures else branches
            model.n_envs = 1
        model._setup_model()
        return model

    def save(self, directory: str | Path, *, policy_only: bool = False) -> None:
        """Write the agent into ``directory``, atomically and without pickle.

        Everything needed to go on learning bit for bit is included unless ``policy_only``: the optimiser, the replay,
        the environments, the generators and the running sums.

        Raises
        ------
        TrainingFault
            When a parameter is not finite; nothing is written then.
        """
        self._require_finite()
        learning = self._begun and not policy_only
        rules = self.env_config
        state: dict[str, Any] = {
            "agent": self.name,
            "config": asdict(self.config),
            "env_config": asdict(rules) if rules is not None else None,
            "env_steps": self.env_steps,
            "learning": learning,
        }
        with atomic_directory(Path(directory)) as temporary:
            write_arrays(temporary, "policy", policy_tensors(self.model))
            if learning:
                state |= self._write_learning(temporary)
            sections = {"agent": state["config"], "env": state["env_config"] or {}}
            (temporary / "config.toml").write_text(to_toml(sections), encoding="utf-8")
            write_state(temporary, state)

    def _write_learning(self, directory: Path) -> dict[str, Any]:
        """Write the arrays that learning goes on from; return its plain values."""
        assert self.env is not None and self._vec_env is not None
        more, plain = self._learning_state()
        write_arrays(directory, "env", {k: np.asarray(v) for k, v in self.env.state_dict().items()})
        return {
            "num_envs": self.env.num_envs,
            "data": batch_fingerprint(self.env.markets, self.env.market_of),
            "figures": self._figures.state(),
            "algorithm": plain,
            **write_loop(directory, self.model, self._vec_env, self._generators, more),
        }

    @classmethod
    def load(cls, directory: str | Path, env: FoxFuturesVectorEnv | None = None) -> Self:
        """Agent from `save`. With ``env`` (same data, rules and number of environments) it goes on learning.

        On a CPU it does so bit for bit. On a GPU the library's own operations may sum in another order, and the log
        says so.

        Raises
        ------
        CheckpointError
            When the checkpoint is damaged, or differs from the data or the environment; the first difference is named.
        """
        directory = Path(directory)
        state = read_state(directory)
        saved = state["env_config"]
        env_config = build(EnvConfig, saved, "env") if saved is not None else None
        agent = cls(env, build(cls.config_class, state["config"], "agent"), env_config)
        load_policy(agent.model, read_arrays(directory, "policy"), directory)
        agent.env_steps = int(state["env_steps"])
        agent._policy_only = agent.env_steps > 0
        if env is not None and state["learning"]:
            require_same("data", state["data"], batch_fingerprint(env.markets, env.market_of))
            # The environment's state, loaded below, brings the physics knobs to where they stood.
            require_same("environment", without_knobs(saved), without_knobs(asdict(agent_rules(env))))
            counts = {"num_envs": state["num_envs"]}, {"num_envs": env.num_envs}
            require_same("number of environments", *counts)
            agent._load_learning(directory, state)
            env.load_state_dict(read_arrays(directory, "env"))
        return agent

    def _load_learning(self, directory: Path, state: dict[str, Any]) -> None:
        assert self._vec_env is not None
        if self.device.type != "cpu":
            _LOG.warning("%s goes on on a GPU, where its updates are not repeatable bit for bit", self.name)
        more = read_loop(directory, state, self.model, self._vec_env, self._generators)
        with self._generators:
            self._set_up(reset=False)
        self._figures.load(state["figures"])
        self._load_learning_state(more, state["algorithm"], directory)
