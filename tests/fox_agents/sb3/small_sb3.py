"""Small agents of Stable-Baselines3 and their environment."""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

import fox_agents
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, synthetic

ENVS = 8
MARKET = synthetic.regimes(seed=0, sessions=3)
RULES = EnvConfig(reward="risk", horizon=23, exploration_scale=1.0, saboteur=(0.5, 2.0))
_PPO: dict[str, Any] = {"rollout_steps": 16, "batch_size": 32, "n_epochs": 2}
_DQN: dict[str, Any] = {"learning_starts": 64, "batch_size": 16, "replay_size": 400, "target_interval": 100}
SETTINGS: dict[str, dict[str, Any]] = {
    "a2c": {},
    "dqn": _DQN,
    "maskable_ppo": _PPO,
    "ppo": _PPO,
    "qrdqn": {**_DQN, "quantiles": 8},
    "recurrent_ppo": {**_PPO, "lstm_size": 8},
}
NAMES = tuple(SETTINGS)


def environment(rules: EnvConfig = RULES, market: Market = MARKET, **options: Any) -> FoxFuturesVectorEnv:
    made = {
        "backend": "cpu",
        "output": "numpy",
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "copy": False,
        "info_level": "learn",
    }
    return FoxFuturesVectorEnv(options.pop("num_envs", ENVS), market, rules, **{**made, **options})


def new(name: str, env: FoxFuturesVectorEnv | None = None, **changes: Any) -> Any:
    """An agent in ``env``, a new one when None."""
    settings = {"hidden": 16, "epoch_steps": 128, "schedule_steps": 1_000, **SETTINGS[name], **changes}
    return fox_agents.make(name, environment() if env is None else env, settings)


def observations(rows: int = 40) -> np.ndarray[Any, Any]:
    """Observations of accounts that traded a little."""
    env = environment(num_envs=rows)
    env.reset(seed=1)
    generator = np.random.default_rng(0)
    for _ in range(5):
        obs, *_ = env.step(generator.integers(0, 3, (rows, 4)))
    return np.array(obs)


def weights(agent: Any) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in agent.model.policy.state_dict().items()}
