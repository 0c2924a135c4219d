"""The record of trials: what every validated checkpoint of a run scored, kept by the run itself.

A trial is a checkpoint that was scored on the validation period, and so could have been chosen. One line of
``trials.jsonl`` holds its step, the label of its configuration, and for each of 16 equal consecutive blocks of its
validation returns their number, sum and sum of squares: all that the deflated Sharpe ratio and the probability of
backtest overfitting need.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fox_agents.stats.overfitting import sharpe_of_sums
from fox_env.errors import ConfigError

__all__ = ["BLOCKS", "TRIALS_FILE", "TrialLog", "Trials", "block_sums", "read_trials"]

Float = npt.NDArray[np.float64]

BLOCKS = 16
"""Blocks of a validation period, S of CSCV."""
TRIALS_FILE = "trials.jsonl"
"""Name of the record in a run directory."""


def block_sums(returns: npt.ArrayLike) -> Float:
    """Number, sum and sum of squares of each of 16 equal consecutive blocks of returns (n,): shape (16, 3)."""
    blocks = np.array_split(np.asarray(returns, dtype=np.float64), BLOCKS)
    return np.array([(len(block), block.sum(), (block**2).sum()) for block in blocks])


class TrialLog:
    """Appends the trials of a run to its ``trials.jsonl``.

    Parameters
    ----------
    directory : Path
        The run directory.
    configuration : str, optional
        Label of what was tried; by default the name of the directory.
    step : int
        Step the run goes on from. Trials of a later step, by a run that was killed, are purged, and so is a last line
        that the kill cut short.
    """

    def __init__(self, directory: Path, configuration: str | None = None, *, step: int = 0) -> None:
        self._path = Path(directory) / TRIALS_FILE
        self._configuration = Path(directory).resolve().name if configuration is None else configuration
        if self._path.exists():
            kept = [trial for trial in _lines(self._path) if trial["step"] <= step]
            temporary = self._path.with_suffix(".tmp")
            temporary.write_text("".join(json.dumps(trial) + "\n" for trial in kept), encoding="utf-8")
            os.replace(temporary, self._path)  # whole at every moment

    def record(self, step: int, returns: npt.ArrayLike) -> None:
        """Add one trial: the validation returns (n,) of the checkpoint of this step."""
        line = {
            "step": int(step),
            "configuration": self._configuration,
            "blocks": [[int(n), total, squares] for n, total, squares in block_sums(returns).tolist()],
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class Trials:
    """Trials of one or several runs, all scored on the same validation period."""

    configurations: tuple[str, ...]
    """Label of each trial's configuration, (N,)."""
    steps: npt.NDArray[np.int64]
    """Step of each trial's checkpoint, (N,)."""
    blocks: Float
    """Number, sum and sum of squares of the returns of each trial and block, (N, 16, 3)."""

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def sharpes(self) -> Float:
        """Sharpe ratio per bar of each trial over the whole period, (N,); 0 for one that never traded."""
        return sharpe_of_sums(self.blocks.sum(axis=1))

    @property
    def sharpe_variance(self) -> float:
        """Variance (ddof 1) of those Sharpe ratios, 0 with fewer than two."""
        return float(np.var(self.sharpes, ddof=1)) if len(self) > 1 else 0.0


def read_trials(directories: Iterable[str | Path]) -> Trials:
    """Join the trials of several run directories; one without a record adds none.

    Raises
    ------
    ConfigError
        The trials are not of one validation period: their blocks have other numbers of bars.
    """
    found: list[dict[str, Any]] = []
    for directory in directories:
        path = Path(directory) / TRIALS_FILE
        if not path.exists():
            continue
        for trial in _lines(path):
            if found and _bars(trial) != _bars(found[0]):
                raise ConfigError(
                    f"{path}: step {trial['step']} was validated on {sum(_bars(trial)):,} bars and other trials on "
                    f"{sum(_bars(found[0])):,}; join only runs of one validation period"
                )
            found.append(trial)
    return Trials(
        tuple(trial["configuration"] for trial in found),
        np.array([trial["step"] for trial in found], dtype=np.int64),
        np.array([trial["blocks"] for trial in found], dtype=np.float64).reshape(-1, BLOCKS, 3),
    )


def _bars(trial: dict[str, Any]) -> list[int]:
    return [block[0] for block in trial["blocks"]]


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a record; what follows the last line break was cut short by a kill."""
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1].splitlines()
    try:
        # A step that was gone through twice, before and after a kill, is one trial.
        trials = list({(t["configuration"], t["step"]): t for t in map(json.loads, whole)}.values())
        if not all(np.shape(trial["blocks"]) == (BLOCKS, 3) for trial in trials):
            raise ValueError("a trial has other than 16 blocks")
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is no record of trials ({error}); delete it to start a new one") from None
    return trials
