"""The verdict on one agent in plain words: what it made, after which costs, and how sure we are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fox_agents.evidence import Evidence, Interval
from fox_agents.report.figures import money, percent
from fox_agents.report.period import dates
from fox_env._layout import ExitReason

if TYPE_CHECKING:
    from fox_agents.evaluation import EvaluationResult

__all__ = ["Verdict", "judge"]

_CONFIDENT = 0.95  # least probability of the deflated Sharpe ratio
_CHANCE = 0.5  # probability of backtest overfitting among tries without skill


@dataclass(frozen=True)
class Verdict:
    """What a reader should take away."""

    tone: Literal["loss", "gain", "unclear", "idle"]
    """``gain`` only where the evidence excludes luck at 95 %; ``idle``: never traded."""
    headline: str
    """What happened, after how much cost."""
    confidence: str
    """How sure we are, in a few words."""
    details: tuple[str, ...]
    """The numbers behind both, a sentence each."""


def judge(
    result: "EvaluationResult", evidence: Evidence | None = None, others: Sequence["EvaluationResult"] = ()
) -> Verdict:
    """Judge ``result`` by its ``evidence``, with ``others`` as baselines on the same bars."""
    name, made = result.agent, result.metrics["total_return"]
    costs = money(result.metrics["costs"], result.market.contract.currency)
    beside = _baselines(others)
    if result.fills.is_empty() and result.trades.is_empty():
        return Verdict(
            "idle",
            f"{name} NEVER TRADED",
            "Nothing was risked, so nothing is known about its skill",
            (f"No order was filled {dates(result)}; the account kept its cash.", *beside),
        )
    word = "WON" if made > 0 else "LOST" if made < 0 else "BROKE EVEN"
    amount = "" if made == 0 else f" {percent(abs(made))[1:]}"
    sharpe = _known(evidence)
    tone, confidence, why = _certainty(made, sharpe, evidence)
    return Verdict(
        tone,
        f"{name} {word}{amount} after {costs} of costs",
        confidence,
        tuple(
            text
            for text in (*_ruin(result), _without_costs(result, evidence), why, _tries(evidence), *beside)
            if text
        ),
    )


def _known(evidence: Evidence | None) -> Interval | None:
    interval = None if evidence is None else evidence.intervals.get("sharpe")
    return interval if interval is not None and all(map(math.isfinite, interval)) else None


def _certainty(
    made: float, sharpe: Interval | None, evidence: Evidence | None
) -> tuple[Literal["loss", "gain", "unclear"], str, str]:
    """Tone, confidence, and the sentence with the Sharpe ratio."""
    lost: Literal["loss", "unclear"] = "loss" if made < 0 else "unclear"
    if sharpe is None or evidence is None:
        return lost, "How sure is not known", "No interval was computed for its Sharpe ratio."
    said = f"Sharpe ratio {sharpe.value:.2f}, 95% interval {sharpe.low:.2f} to {sharpe.high:.2f}"
    if sharpe.high < 0:
        return lost, "Very likely no edge", f"{said}: wholly below zero, so bad luck hardly explains it."
    if sharpe.low <= 0:
        what = "loss" if made < 0 else "gain" if made > 0 else "result"
        return (
            lost,
            f"No edge shown: luck alone could explain the {what}",
            f"{said}: zero lies inside, so skill and luck cannot be told apart.",
        )
    if not made > 0:  # also where it is no number
        return (
            lost,
            "No edge shown: the average bar gained, but the swings cost more",
            f"{said}: above zero, and yet the losses compounded to more than the gains.",
        )
    if evidence.deflated_sharpe is not None and evidence.deflated_sharpe < _CONFIDENT:
        doubt = f"No edge shown: it may be the luckiest of {evidence.trials:,} tries"
        return "unclear", doubt, f"{said}: above zero, but it was chosen for that."
    if evidence.overfitting is not None and evidence.overfitting >= _CHANCE:
        return "unclear", "No edge shown: the choice is overfitted", f"{said}: above zero on these bars."
    return "gain", "Likely a real edge", f"{said}: wholly above zero, so luck hardly explains it."


def _without_costs(result: "EvaluationResult", evidence: Evidence | None) -> str:
    """What costs took: by the policy played for free where that was done, else by the money before costs."""
    free = next((point for point in evidence.costs if point.multiple == 0), None) if evidence else None
    if free is not None:
        return (
            f"Without any costs the same agent, which may then trade otherwise, returns "
            f"{percent(free.total_return)}."
        )
    gross, currency = result.metrics["gross_pnl"], result.market.contract.currency
    verb = "made" if gross >= 0 else "lost"
    return f"Before costs its trades {verb} {money(abs(gross), currency)}."


def _tries(evidence: Evidence | None) -> str:
    if evidence is None or evidence.trials <= 1:
        return ""
    parts = [f"It was chosen among {evidence.trials:,} tries"]
    if evidence.deflated_sharpe is not None:
        parts.append(
            f"the chance that it is better than the luckiest of them is {evidence.deflated_sharpe:.0%}"
        )
    if evidence.overfitting is not None:
        parts.append(f"the probability of overfitting is {evidence.overfitting:.0%}")
    return "; ".join(parts) + "."


def _ruin(result: "EvaluationResult") -> tuple[str, ...]:
    """The account that fell to its floor, of one window where several were joined."""
    floor = result.config.capital_floor * result.config.initial_cash
    if not (result.trades["reason"] == ExitReason.FLOOR.name.lower()).any():
        return ()
    return (
        f"The account fell to its floor of {money(floor, result.market.contract.currency)} and was closed.",
    )


def _baselines(others: Sequence["EvaluationResult"]) -> tuple[str, ...]:
    if not others:
        return ()
    said = ", ".join(f"{other.agent} {percent(other.metrics['total_return'])}" for other in others)
    return (f"On the same bars: {said}.",)
