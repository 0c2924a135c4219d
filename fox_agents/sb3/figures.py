"""What happened in an epoch of learning, under the names that Fox's own agents use."""

from typing import Any

from fox_agents.sb3.counted import CountedVecEnv
from fox_agents.sb3.library import Logger

__all__ = ["EpochFigures"]

_COUNTS = ("episodes", "terminations")
_ELSEWHERE = ("learning_rate", "n_updates")  # under signals/lr, and counted here


class EpochFigures:
    """Sums over the transitions and the updates since the last epoch.

    Parameters
    ----------
    model : stable_baselines3.common.base_class.BaseAlgorithm
        Algorithm whose log is read; it gets one that writes nothing.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._means: dict[str, list[float]] = {}  # sum and count
        self._updates = 0
        model.set_logger(Logger(None, []))
        model.policy.optimizer.register_step_post_hook(self._count)

    def _count(self, *_: Any) -> None:
        self._updates += 1

    def add(self) -> None:
        """Add what the algorithm logged of its last updates, and clear its log."""
        for key, value in self._model.logger.name_to_value.items():
            group, _, name = key.partition("/")
            if group == "train" and name not in _ELSEWHERE:
                sums = self._means.setdefault(name, [0.0, 0.0])
                sums[0] += float(value)
                sums[1] += 1.0
        self._model.logger.dump()

    def take(self, env: CountedVecEnv) -> dict[str, float]:
        """Figures of the epoch, which ends: means per step, counts of ends and updates, means of what was logged."""
        figures = dict(zip(CountedVecEnv.FIGURES, env.sums.tolist(), strict=True))
        steps = max(sum(value for name, value in figures.items() if name.startswith("share_")), 1.0)
        found = {
            **{name: value if name in _COUNTS else value / steps for name, value in figures.items()},
            "updates": float(self._updates),
            **{name: total / count for name, (total, count) in self._means.items()},
            "signals/lr": float(self._model.policy.optimizer.param_groups[0]["lr"]),
        }
        env.sums[:] = 0.0
        self._means, self._updates = {}, 0
        return found

    def state(self) -> dict[str, Any]:
        """The sums as plain values, without those of the environment."""
        return {"means": self._means, "updates": self._updates}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self._means, self._updates = state["means"], int(state["updates"])
