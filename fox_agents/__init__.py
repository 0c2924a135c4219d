"""Fox agents: agents by name, one way to evaluate them, and two learners: the branching DQN and its yardstick."""

from importlib.util import find_spec

_EXTRA = (
    "arch",
    "jinja2",
    "plotly",
    "rich",
    "safetensors",
    "scipy",
    "tensorboard",
    "torch",
    "tsdownsample",
    "typer",
)
_MISSING = [name for name in _EXTRA if find_spec(name) is None]
if _MISSING:
    raise ImportError(f"fox_agents needs {', '.join(_MISSING)}; run `pip install 'fox-futures[agents]'`")

from fox_agents.api import Agent, Callback
from fox_agents.checkpoint import CheckpointError
from fox_agents.evaluation import EvaluationResult, evaluate
from fox_agents.registry import load, make, names

__all__ = ["Agent", "Callback", "CheckpointError", "EvaluationResult", "evaluate", "load", "make", "names"]
