"""Stable-Baselines3 and sb3-contrib, or one sentence that says how to install them."""

from fox_env.errors import ConfigError

try:
    from sb3_contrib import QRDQN, MaskablePPO, RecurrentPPO
    from stable_baselines3 import A2C, DQN, PPO
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import VecEnvWrapper
except ImportError as error:
    raise ConfigError(
        f"the agents of Stable-Baselines3 need it: {error}; run `pip install 'fox-futures[sb3]'`"
    ) from None

__all__ = ["A2C", "DQN", "PPO", "QRDQN", "Logger", "MaskablePPO", "RecurrentPPO", "VecEnvWrapper"]
