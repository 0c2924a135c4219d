"""How sure we are of a result: intervals, Sharpe ratios deflated by the trials made, overfitting, costs, seeds.

``docs/statistics.md`` says what each number means and when not to trust it.
"""

from fox_agents.stats.bootstrap import bootstrap_intervals
from fox_agents.stats.costs import break_even, cost_sensitivity
from fox_agents.stats.evidence import evidence
from fox_agents.stats.overfitting import probability_of_overfitting
from fox_agents.stats.trials import TrialLog, Trials, read_trials

__all__ = [
    "TrialLog",
    "Trials",
    "bootstrap_intervals",
    "break_even",
    "cost_sensitivity",
    "evidence",
    "probability_of_overfitting",
    "read_trials",
]
