"""Entries of the observation that no network is shown."""

from fox_env._layout import Context, Observation, Portfolio

__all__ = ["COUNTERS"]

COUNTERS = (
    int(Observation.PORTFOLIO + Portfolio.EQUITY_RATIO),
    int(Observation.PORTFOLIO + Portfolio.COSTS_PAID),
    int(Observation.PORTFOLIO + Portfolio.TRADES),
    int(Observation.CONTEXT + Context.EPISODE_PROGRESS),
)
"""These count up over an episode. One pass over a long period would take them far outside what short training episodes
show, and they say nothing about the next bars: the drawdown and the margin headroom tell how safe the account is."""
