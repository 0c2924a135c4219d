"""Fox agents: agents by name, one way to evaluate them, and the first learner, a branching C51."""

from fox_agents.api import Agent, Callback
from fox_agents.checkpoint import CheckpointError
from fox_agents.evaluation import EvaluationResult, evaluate
from fox_agents.registry import load, make, names

__all__ = ["Agent", "Callback", "CheckpointError", "EvaluationResult", "evaluate", "load", "make", "names"]
