"""What happens around learning: curves and health lines, validation, checkpoints, progress, and stopping."""

import json
import math
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fox_agents.api import Agent, Callback
from fox_agents.checkpoint import CheckpointStore
from fox_agents.evaluation import EvaluationResult

__all__ = ["Interrupt", "ProgressDisplay", "RunLog", "TimeLimit", "TrainingCurves", "Validation"]

_CURVES = (
    "total_return",
    "sharpe",
    "max_drawdown",
    "n_trades",
    "exposure",
    "costs",
    "mean_return_lower_bound",
)


class RunLog:
    """TensorBoard curves and ``health.jsonl`` of a run; the x-axis is environment steps everywhere.

    Parameters
    ----------
    directory : Path
        The run directory.
    step : int
        Step the run goes on from; what was logged later, by a run that was killed, is purged.
    """

    def __init__(self, directory: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._health = directory / "health.jsonl"
        self.judged = -1
        """Step of the latest validation that is logged, -1 before the first."""
        if self._health.exists():
            lines = self._health.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if _step_of(line) <= step]
            self._health.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
            self.judged = max((_step_of(line) for line in kept if '"group": "val"' in line), default=-1)
        purge = step + 1 if (directory / "tb").exists() else None
        self._writer = SummaryWriter(str(directory / "tb"), purge_step=purge)

    def write(self, group: str, values: Mapping[str, Any], step: int) -> None:
        """Log numbers under ``group/``; what is not finite is left out of the curves."""
        numbers = {k: float(v) for k, v in values.items() if isinstance(v, (int, float)) and math.isfinite(v)}
        for name, value in numbers.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)
        with self._health.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "group": group, **numbers}) + "\n")

    def close(self) -> None:
        """Flush and close the files."""
        self._writer.close()


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
    score : Callable
        Evaluates the agent on the validation period.
    save_every : float
        Least wall time in seconds between two saves of the last checkpoint, which holds the whole replay.
    """

    def __init__(
        self,
        log: RunLog,
        store: CheckpointStore,
        score: Callable[[Agent], EvaluationResult],
        save_every: float = 0.0,
    ) -> None:
        self._log, self._store, self._evaluate = log, store, score
        self._save_every, self._next_save = save_every, -math.inf
        self.latest: dict[str, Any] = {}
        self.judged = log.judged  # step of the latest score

    def on_epoch(self, agent: Agent, diagnostics: Mapping[str, float]) -> None:
        """Evaluate, log, save."""
        self.latest, self.judged = self._evaluate(agent).metrics, agent.env_steps
        self._log.write("val", {name: self.latest[name] for name in _CURVES}, agent.env_steps)
        score = self.latest["mean_return_lower_bound"]
        best = self._store.entry("best")
        if best is None or score > best["score"]:
            self._store.save("best", agent.env_steps, partial(agent.save, policy_only=True), score=score)
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


def _step_of(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):  # the line a kill cut short
        return 1 << 62
