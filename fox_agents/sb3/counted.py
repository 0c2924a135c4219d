"""The training environment as Stable-Baselines3 sees it: what is shown to it, its choices as branches, and sums."""

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete

from fox_agents.exposures import EXPOSURE_ACTIONS
from fox_agents.sb3.library import VecEnvWrapper
from fox_agents.unseen import COUNTERS
from fox_env._layout import Direction
from fox_env.adapters.sb3 import FoxVecEnv

__all__ = ["CountedVecEnv", "shown"]


def shown(observation: Any) -> npt.NDArray[np.float32]:
    """Observations (..., 128) as a network gets them: a copy with 0 in the entries that none is shown."""
    copied: npt.NDArray[np.float32] = np.array(observation)
    copied[..., COUNTERS] = 0.0
    return copied


class CountedVecEnv(VecEnvWrapper):
    """A `FoxVecEnv` of branch actions that hides the counters of an episode and adds up rewards, ends and directions.

    Parameters
    ----------
    env : FoxVecEnv
        What to step.
    exposures : bool
        Whether the agent chooses one of the eight exposures instead of branches.
    """

    FIGURES = ("reward", "episodes", "terminations", *(f"share_{d.name.lower()}" for d in Direction))
    """What `sums` holds."""

    def __init__(self, env: FoxVecEnv, exposures: bool) -> None:
        super().__init__(env, action_space=Discrete(len(EXPOSURE_ACTIONS)) if exposures else None)
        self._exposures = exposures
        self.sums = np.zeros(len(self.FIGURES))

    def reset(self) -> Any:
        """Begin new episodes."""
        return shown(self.venv.reset())

    def step_async(self, actions: npt.NDArray[np.int64]) -> None:
        """Hold the actions, (N,) exposures or (N, 4) branches, for `step_wait`."""
        branches = EXPOSURE_ACTIONS[actions] if self._exposures else actions
        self.sums[3:] += np.bincount(branches[:, 0], minlength=len(Direction))
        self.venv.step_async(branches)

    def step_wait(self) -> Any:
        """Advance every account by one bar."""
        obs, rewards, dones, infos = self.venv.step_wait()
        for i in np.flatnonzero(dones):
            infos[i]["terminal_observation"] = shown(infos[i]["terminal_observation"])
        truncations = sum(infos[i]["TimeLimit.truncated"] for i in np.flatnonzero(dones))
        ended = int(dones.sum())
        self.sums[:3] += float(rewards.sum(dtype=np.float64)), ended, ended - truncations
        return shown(obs), rewards, dones, infos
