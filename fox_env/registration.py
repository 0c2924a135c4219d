"""Registering the environments with Gymnasium."""

from __future__ import annotations

import gymnasium as gym

__all__ = ["ENV_IDS", "register_envs"]

ENV_IDS = {
    "Fox-Futures-v0": "branches",
    "Fox-FuturesDiscrete-v0": "discrete",
    "Fox-FuturesContinuous-v0": "continuous",
}
"""Environment id -> action type. Any change of a fill rule raises the version."""


def register_envs() -> None:
    """Register every id with a single and a native vector entry point; a second call changes nothing."""
    for env_id, action_type in ENV_IDS.items():
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point="fox_env.single_env:FoxFuturesEnv",
                vector_entry_point="fox_env.vector_env:FoxFuturesVectorEnv",
                kwargs={"action_type": action_type},
                disable_env_checker=True,  # the test suite runs the checker; at every step it costs more than the step
            )
