"""All that the statistics say about one evaluation result, as the `Evidence` that a report shows."""

from collections.abc import Sequence

from fox_agents.evaluation import EvaluationResult
from fox_agents.evidence import CostPoint, Evidence
from fox_agents.stats.bootstrap import bootstrap_intervals
from fox_agents.stats.costs import break_even
from fox_agents.stats.overfitting import probability_of_overfitting
from fox_agents.stats.sharpe import deflated_sharpe, minimum_track_record, moments, probabilistic_sharpe
from fox_agents.stats.trials import Trials

__all__ = ["evidence"]


def evidence(
    result: EvaluationResult, *, trials: Trials | None = None, costs: Sequence[CostPoint] = (), seed: int = 0
) -> Evidence:
    """How sure we are of a result.

    Parameters
    ----------
    result : EvaluationResult
        What was found.
    trials : Trials, optional
        Everything among which this agent was chosen (`read_trials`). Without it nothing is known about the choice:
        the deflated Sharpe ratio and the probability of overfitting are None.
    costs : sequence of CostPoint
        The same policy under other costs (`cost_sensitivity`), handed on.
    seed : int
        Of the bootstrap.

    Returns
    -------
    Evidence
        The probabilities and the track record are None for returns without variance, as those of an agent that
        never trades.

    Raises
    ------
    ConfigError
        The library ``arch`` is not installed.
    """
    known = moments(result.returns)
    tried = trials if trials is not None and len(trials) else None
    return Evidence(
        agent=result.agent,
        intervals=bootstrap_intervals(result.returns, result.market.bars_per_year, seed=seed),
        probabilistic_sharpe=None if known is None else probabilistic_sharpe(known),
        deflated_sharpe=(
            None
            if known is None or tried is None
            else deflated_sharpe(known, len(tried), tried.sharpe_variance)
        ),
        trials=1 if tried is None else len(tried),
        overfitting=None if tried is None else probability_of_overfitting(tried.blocks),
        least_track_record=None if known is None else minimum_track_record(known),
        costs=tuple(costs),
        break_even=break_even(result),
    )
