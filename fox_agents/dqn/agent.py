"""The branching distributional agent, registered as ``bdq``."""

from typing import ClassVar

from fox_agents.dqn.config import BDQConfig
from fox_agents.dqn.learner import BDQLearner
from fox_agents.dqn.loop import DeviceAgent

__all__ = ["BDQAgent"]


class BDQAgent(DeviceAgent):
    """Branching dueling double C51 with quantile heads and switchable mechanisms."""

    name: ClassVar[str] = "bdq"
    config_class = BDQConfig
    learner_class = BDQLearner
