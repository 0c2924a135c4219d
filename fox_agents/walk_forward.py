"""Walk-forward folds: train, validation and test windows that move through the bars in order of time."""

import itertools
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fox_agents.stats.bootstrap import LEAST_BARS
from fox_env import Market
from fox_env.errors import ConfigError

__all__ = ["Fold", "FoldMarkets", "WalkForward", "periods"]

_log = logging.getLogger(__name__)

Size = int | timedelta
Rows = tuple[int, int]
"""First row and the one after the last."""


class FoldMarkets(NamedTuple):
    """The three parts of one fold as markets that share the whole one's arrays."""

    training: Market
    validation: Market | None
    """None where the fold has no validation window."""
    test: Market


@dataclass(frozen=True)
class Fold:
    """Rows of one fold. The embargo stands at the end of `train` and of `validation`, and belongs to neither.

    Every bar of a window is earned or lost in that window: a decision at the last close before it fills inside.
    """

    number: int
    """From 0, in order of time."""
    train: Rows
    validation: Rows
    test: Rows

    def markets(self, market: Market) -> FoldMarkets:
        """Views of ``market``, from which nothing later than a part's own end can be seen."""
        between = self.validation[1] > self.validation[0]
        validation = market.rows(*_decided(self.validation)) if between else None
        return FoldMarkets(market.rows(*self.train), validation, market.rows(*_decided(self.test)))


def _decided(rows: Rows) -> Rows:
    """The rows with the bar before them, at whose close the first decision is made."""
    return rows[0] - 1, rows[1]


@dataclass(frozen=True)
class WalkForward:
    """How to cut bars into folds whose test windows follow each other without a gap or an overlap.

    Parameters
    ----------
    folds : int
        How many.
    train : int, timedelta or None
        Bars, or time, before the validation window of each fold, its embargo included. None: as many as the first
        fold can have.
    validation : int, timedelta or None
        Bars, or time, between training and test, its embargo included; 0 for none. None: as many as a test window.
    test : int, timedelta or None
        Bars, or time, of each test window. None: the later half of the bars in equal windows.
    embargo : int
        Bars left out at the end of the training and of the validation window, so that nothing learned from or
        measured on them reaches into the next. At least the bars that a label or a return of the learner looks ahead.
    anchored : bool
        Training begins at the first bar in every fold; else its window moves along.

    Notes
    -----
    The last test window ends at the last bar. Features of the first bars of a window look back beyond its begin, as
    they would in live trading: each is a function of earlier bars alone, with nothing fitted on the whole.
    """

    folds: int
    train: Size | None = None
    validation: Size | None = None
    test: Size | None = None
    embargo: int = 0
    anchored: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.folds, bool) or not isinstance(self.folds, int) or self.folds < 1:
            raise ConfigError(f"WalkForward: folds must be a whole number from 1, got {self.folds!r}")
        if isinstance(self.embargo, bool) or not isinstance(self.embargo, int) or self.embargo < 0:
            raise ConfigError(
                f"WalkForward: embargo must be a whole number of bars from 0, got {self.embargo!r}"
            )
        for name, least in (("train", 1), ("validation", 0), ("test", 1)):
            size = getattr(self, name)
            if size is None or (isinstance(size, timedelta) and size > timedelta(0)):
                continue
            if isinstance(size, bool) or not isinstance(size, int) or size < least:
                raise ConfigError(
                    f"WalkForward: {name} must be a whole number of bars from {least}, a positive timedelta or "
                    f"None, got {size!r}"
                )

    def split(self, market: Market | int) -> list[Fold]:
        """The folds, in order of time.

        Warns, once in a process, of test windows of less than 30 bars: below so many returns the bootstrap gives no
        interval (`fox_agents.stats.bootstrap.LEAST_BARS`), and a fold's figures cannot be told from chance.

        Parameters
        ----------
        market : Market or int
            What to cut, or a number of bars where no size is a time.

        Raises
        ------
        ConfigError
            The bars are too few for the folds, or a window is no longer than its embargo.
        """
        edges = _Edges(market)
        tests = self._tests(edges)
        between = tests[0][1] - tests[0][0] if self.validation is None else self.validation
        learned = edges.back(tests[0][0], between)  # where training of the first fold ends
        begin = 0 if self.train is None else edges.back(learned, self.train)
        length = learned if self.train is None else self.train
        folds = []
        for number, test in enumerate(tests):
            validation = edges.back(test[0], between)
            train = begin if self.anchored else edges.back(validation, length)
            folds.append(self._fold(number, (train, validation), (validation, test[0]), test))
        _warn_of_short(folds)
        return folds

    def _tests(self, edges: "_Edges") -> list[Rows]:
        """Test windows, back from the last bar."""
        if self.test is None:
            marks = np.rint(np.linspace(edges.bars // 2, edges.bars, self.folds + 1)).astype(int).tolist()
            return list(itertools.pairwise(marks))
        marks = [edges.bars]
        for _ in range(self.folds):
            marks.append(edges.back(marks[-1], self.test))
        marks.reverse()
        return list(itertools.pairwise(marks))

    def _fold(self, number: int, train: Rows, validation: Rows, test: Rows) -> Fold:
        stops = {"train": train[1] - self.embargo, "test": test[1]}
        if validation[1] > validation[0]:
            stops["validation"] = validation[1] - self.embargo
        rows = {"train": train, "validation": validation, "test": test}
        for name, stop in stops.items():
            if stop - rows[name][0] < 2:
                raise ConfigError(
                    f"WalkForward: fold {number} would have {max(stop - rows[name][0], 0)} bars to {name} after "
                    f"an embargo of {self.embargo}; use fewer folds, a larger {name} window or a lower embargo"
                )
        return Fold(
            number,
            (train[0], stops["train"]),
            (validation[0], stops.get("validation", validation[1])),
            test,
        )


def _warn_of_short(folds: Sequence[Fold]) -> None:
    """Log a warning of the shortest test window, where it is too short for an interval."""
    bars, number = min((fold.test[1] - fold.test[0], fold.number) for fold in folds)
    if bars < LEAST_BARS:
        _warn(
            f"WalkForward: the test window of fold {number} has {bars} bars, and with fewer than {LEAST_BARS} its "
            "figures cannot be told from chance; use fewer folds, larger test windows or more bars"
        )


@cache
def _warn(sentence: str) -> None:
    _log.warning("%s", sentence)


class _Edges:
    """Rows so many bars, or so much time, before another."""

    def __init__(self, market: Market | int) -> None:
        self.bars = market if isinstance(market, int) else len(market)
        self._times: npt.NDArray[np.int64] | None = None if isinstance(market, int) else market.bars.ts

    def back(self, row: int, size: Size) -> int:
        """Row at which a window of ``size`` begins that ends before ``row``; ConfigError before the first bar.

        Time counts back from the close of the window's last bar, so that no window is spent on a weekend.
        """
        if isinstance(size, timedelta):
            if self._times is None:
                raise ConfigError("WalkForward: a window in time needs a market, not a number of bars")
            begin = int(self._times[row - 1]) - math.ceil(size / timedelta(microseconds=1)) * 1000
            if begin < self._times[0]:
                raise _too_few(self.bars)
            return int(np.searchsorted(self._times, begin, side="right"))
        if size > row:
            raise _too_few(self.bars)
        return row - size


def _too_few(bars: int) -> ConfigError:
    return ConfigError(
        f"WalkForward: the windows reach back beyond the first of {bars:,} bars; use fewer folds or smaller windows"
    )


def periods(times: npt.NDArray[np.int64], windows: Sequence[Rows]) -> list[str]:
    """Each window as dates, such as ``2016-01-04 to 2018-03-01``; ``-`` for an empty one."""
    days = times.astype("datetime64[ns]").astype("datetime64[D]")
    return [f"{days[first]} to {days[stop - 1]}" if stop > first else "-" for first, stop in windows]
