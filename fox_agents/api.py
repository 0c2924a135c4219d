"""What an agent is: the protocol that training and evaluation rely on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

__all__ = ["Agent", "Callback", "Inspected", "Planner"]


class Callback:
    """Hooks into `Agent.learn`; subclasses override what they need."""

    def on_iteration(self, agent: "Agent") -> bool:
        """After every collection and its updates; return False to stop there."""
        return True

    def on_epoch(self, agent: "Agent", diagnostics: Mapping[str, float]) -> None:
        """After every epoch, with what `Agent.diagnostics` read."""


@runtime_checkable
class Agent(Protocol):
    """A trading agent on the MultiDiscrete([4, 3, 3, 3]) action space.

    Constructed as ``cls(env, config)``, where ``env`` may be None for an agent that only acts.
    """

    name: ClassVar[str]
    """Name in the registry."""
    output: ClassVar[Literal["numpy", "torch"]]
    """Kind of arrays the agent works on; evaluation makes its environment accordingly."""
    learns: ClassVar[bool]
    """Whether it has to be trained before its choices mean anything."""
    env_steps: int
    """Transitions collected so far, over all environments."""

    def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
        """Actions (N, 4) int64 for observations (N, 128) float32; ``masks`` (N, 13) marks distinct ones."""
        ...

    def learn(self, total_steps: int, callbacks: Sequence[Callback] = ()) -> None:
        """Train until ``env_steps`` reaches ``total_steps`` or a callback stops it."""
        ...

    def save(self, directory: str | Path, *, policy_only: bool = False) -> None:
        """Write everything needed to act and, unless ``policy_only``, to go on learning; atomically."""
        ...

    @classmethod
    def load(cls, directory: str | Path, env: Any = None) -> Self:
        """Agent from `save`; with ``env`` it can go on learning."""
        ...

    def diagnostics(self) -> dict[str, float]:
        """Named numbers about learning since the last epoch."""
        ...


@runtime_checkable
class Planner(Protocol):
    """An agent that has to know the market it will play."""

    def prepare(self, env: Any) -> None:
        """Called by evaluation with its environment, before the first `Agent.act`."""
        ...


@runtime_checkable
class Inspected(Protocol):
    """An agent that shows more than single numbers of what it has learned."""

    def distributions(self) -> dict[str, Any]:
        """Arrays of values by name, drawn as histograms once an epoch."""
        ...
