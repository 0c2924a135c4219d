"""What happens around learning: curves, validation, checkpoints, progress, and stopping."""

import math
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fox_agents.api import Agent, Callback, Inspected
from fox_agents.checkpoint import CheckpointStore
from fox_agents.evaluation import EvaluationResult
from fox_agents.run_log import RunLog
from fox_agents.stats.trials import TrialLog

__all__ = ["CURVES", "Interrupt", "ProgressDisplay", "TimeLimit", "TrainingCurves", "Validation"]

CURVES = (
    "total_return",
    "sharpe",
    "max_drawdown",
    "n_trades",
    "exposure",
    "costs",
    "mean_return_lower_bound",
)
"""Metrics of the validation that are drawn as curves."""


class TrainingCurves(Callback):
    """Logs the agent's diagnostics under ``train/`` and the speed of learning, without validation, under ``perf/``."""

    def __init__(self, log: RunLog, agent: Agent) -> None:
        self._log, self._steps, self._began = log, agent.env_steps, time.perf_counter()
        self._epoch_ended = False

    def on_iteration(self, agent: Agent) -> bool:
        """Start the clock of an epoch, once all that follows the one before is done."""
        if self._epoch_ended:
            self._epoch_ended, self._began = False, time.perf_counter()
        return True

    def on_epoch(self, agent: Agent, diagnostics: Mapping[str, float]) -> None:
        """Log one epoch."""
        seconds = max(time.perf_counter() - self._began, 1e-9)
        for group, values in _by_group(diagnostics).items():
            self._log.write(group, values, agent.env_steps)
        speed = {"env_steps_per_second": (agent.env_steps - self._steps) / seconds}
        if "updates" in diagnostics:
            speed["updates_per_second"] = diagnostics["updates"] / seconds
        self._log.write("perf", speed, agent.env_steps)
        if isinstance(agent, Inspected):
            for name, values in agent.distributions().items():
                self._log.histogram(f"train/{name}", values, agent.env_steps)
        self._steps, self._epoch_ended = agent.env_steps, True


def _by_group(diagnostics: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Diagnostics by what stands before the slash of their names, ``train`` where there is none."""
    groups: dict[str, dict[str, float]] = {"train": {}}
    for key, value in diagnostics.items():
        group, slash, name = key.rpartition("/")
        groups.setdefault(group if slash else "train", {})[name] = value
    return groups


class Validation(Callback):
    """Scores the agent after every epoch and keeps the last and the best checkpoint.

    The score is the lower confidence bound of the mean step return, on which never trading scores zero: an
    agent whose best score is not above zero loses the model selection to ``flat``.

    Parameters
    ----------
    log : RunLog
        Where the scores go.
    store : CheckpointStore
        Where the checkpoints go.
    trials : TrialLog
        Where every score is kept as one of the trials among which the best is chosen.
    score : Callable
        Evaluates the agent on the validation period.
    save_every : float
        Least wall time in seconds between two saves of the last checkpoint, which holds the whole replay.
    patience : int
        Epochs without a better score after which learning stops; 0: never.
    """

    def __init__(
        self,
        log: RunLog,
        store: CheckpointStore,
        trials: TrialLog,
        score: Callable[[Agent], EvaluationResult],
        save_every: float = 0.0,
        patience: int = 0,
    ) -> None:
        self._log, self._store, self._trials = log, store, trials
        self._evaluate, self._patience = score, patience
        self._save_every, self._next_save = save_every, -math.inf
        self.latest: dict[str, Any] = {}
        self.judged = log.judged[-1] if log.judged else -1  # step of the latest score
        self._exhausted = self._out_of_patience()

    def on_iteration(self, agent: Agent) -> bool:
        """Whether a better score may still come."""
        return not self._exhausted

    def _out_of_patience(self) -> bool:
        """Whether as many epochs as the patience have passed since the best one, whenever this process began."""
        best = self._store.entry("best")
        since = 0 if best is None else sum(step > best["step"] for step in self._log.judged)
        return 0 < self._patience <= since

    def on_epoch(self, agent: Agent, diagnostics: Mapping[str, float]) -> None:
        """Evaluate, log, save."""
        result = self._evaluate(agent)
        self.latest, self.judged = result.metrics, agent.env_steps
        self._trials.record(agent.env_steps, result.returns)
        self._log.write("val", {name: self.latest[name] for name in CURVES}, agent.env_steps)
        for branch, counts in result.actions.items():
            self._log.counts(f"val/actions_{branch}", counts, agent.env_steps)
        self._log.judged.append(agent.env_steps)
        score = self.latest["mean_return_lower_bound"]
        best = self._store.entry("best")
        if best is None or score > best["score"]:
            self._store.save("best", agent.env_steps, partial(agent.save, policy_only=True), score=score)
        self._exhausted = self._out_of_patience()
        if time.monotonic() >= self._next_save:
            self.save_last(agent)

    def save_last(self, agent: Agent) -> None:
        """Save everything needed to resume from here."""
        last = self._store.entry("last")
        if last is None or last["step"] != agent.env_steps:
            self._store.save("last", agent.env_steps, agent.save)
        self._next_save = time.monotonic() + self._save_every


class TimeLimit(Callback):
    """Stops learning after a wall-clock time in seconds."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def on_iteration(self, agent: Agent) -> bool:
        """Whether there is time left."""
        return time.monotonic() < self._deadline


class Interrupt(Callback):
    """Lets the running step finish on the first SIGINT or SIGTERM; a second one acts as usual.

    Use as a context manager around learning.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def on_iteration(self, agent: Agent) -> bool:
        """Whether nobody asked to stop."""
        return not self.requested


class ProgressDisplay(Callback):
    """A progress bar on a terminal, one line per epoch elsewhere; use as a context manager."""

    def __init__(self, console: Console, total: int, validation: Validation) -> None:
        self._console, self._total, self._validation = console, total, validation
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("training", total=total)

    def __enter__(self) -> "ProgressDisplay":
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def on_iteration(self, agent: Agent) -> bool:
        """Move the bar."""
        self._bar.update(self._task, completed=agent.env_steps)
        return True

    def on_epoch(self, agent: Agent, diagnostics: Mapping[str, float]) -> None:
        """Print a line about the epoch."""
        val = self._validation.latest
        loss, reward = diagnostics.get("loss", math.nan), diagnostics.get("reward", math.nan)
        self._console.print(
            f"step {agent.env_steps:>10,} / {self._total:,}  loss {loss:.4f}  reward {reward:+.5f}"
            f"  validation: return {val['total_return']:+.2%}"
            f"  Sharpe {val['sharpe']:.2f}  exposure {val['exposure']:.0%}",
            highlight=False,
        )
