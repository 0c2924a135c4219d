"""What was traded, when, and under which conventions: the sentence above every table."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fox_agents.evaluation import EvaluationResult

__all__ = ["caption", "dates"]


def dates(result: "EvaluationResult") -> str:
    """First and last day, UTC."""
    first, last = (np.datetime_as_string(result.times[i], unit="D") for i in (0, -1))
    return f"on {first}" if first == last else f"from {first} to {last}"


def caption(result: "EvaluationResult") -> str:
    """Instrument, period, annualisation, and what becomes of a position that is open at the end."""
    metrics, market = result.metrics, result.market
    first, last = (np.datetime_as_string(result.times[i], unit="m").replace("T", " ") for i in (0, -1))
    settled = "sold" if result.config.sells_at_end else "valued"
    volume = "" if market.has_volume else "; no volume in the data: participation limits and impact are off"
    return (
        f"{market.contract.symbol} from {first} to {last} UTC, {metrics['bars']:,} bars; ratios annualised with "
        f"{metrics['bars_per_year']:,.0f} bars per year; "
        f"an open position at the end is {settled} at the last close{volume}"
    )
