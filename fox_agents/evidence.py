"""How sure an evaluation is of itself: the plain values that statistics find and that reports show."""

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["CostPoint", "Evidence", "FoldRow", "Interval"]


class Interval(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


class CostPoint(NamedTuple):
    """The same policy played with its trading costs multiplied."""

    multiple: float
    """Of the half-spread, the impact and all fees: 0 trades for free, 1 as trained."""
    total_return: float
    sharpe: float
    costs: float
    """Money."""


@dataclass(frozen=True)
class Evidence:
    """How sure we are of one evaluation result; None where a number cannot be known.

    `fox_agents.stats` says how each is found, with the source of its formula.
    """

    agent: str
    """Name of the agent."""
    intervals: dict[str, Interval] = field(default_factory=dict)
    """By metric of the result: ``sharpe``, ``mean_return``, ``total_return``, ``max_drawdown``."""
    probabilistic_sharpe: float | None = None
    """Probability that the true Sharpe ratio is above zero."""
    deflated_sharpe: float | None = None
    """The same, above the best Sharpe ratio that `trials` tries without skill are expected to show."""
    trials: int = 1
    """Checkpoints and configurations among which this one was chosen."""
    overfitting: float | None = None
    """Probability of backtest overfitting over those trials."""
    least_track_record: float | None = None
    """Bars that this Sharpe ratio needs to be above zero at 95 %; None where it is not positive."""
    costs: tuple[CostPoint, ...] = ()
    """The policy under other costs."""
    break_even: float | None = None
    """Multiple of the costs at which the gross profit of these trades is used up; None without a gross profit."""


@dataclass(frozen=True)
class FoldRow:
    """One fold of a walk-forward study: periods as text, and what the test window brought."""

    fold: int
    train: str
    validation: str
    test: str
    selected: str
    """What the validation period chose to be played in the test window: the agent, or ``flat``."""
    total_return: float
    sharpe: Interval
    costs: float
    trades: int
