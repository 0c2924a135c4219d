"""The verdict says in one line what was made, after which costs, and how sure that is."""

import math

import pytest
from report_cases import costs, evidence, result

from fox_agents.report import judge

LOSING = result([-0.01, 0.0, -0.032], [-500.0], costs=12_345.0, gross_pnl=800.0)
WINNING = result([0.01, 0.0, 0.032], [500.0], costs=321.0, gross_pnl=5_000.0)


def test_a_loss_that_is_no_bad_luck() -> None:
    verdict = judge(LOSING, evidence(-2.1, -0.4, costs=costs(0.008)))
    assert verdict.tone == "loss"
    assert verdict.headline == "bdq LOST 4.2% after 12,345 USD of costs"
    assert verdict.confidence == "Very likely no edge"
    free = "Without any costs the same agent, which may then trade otherwise, returns +0.80%."
    assert verdict.details[0] == free
    assert verdict.details[1].startswith("Sharpe ratio -1.25, 95% interval -2.10 to -0.40")


def test_without_a_study_of_costs_it_gives_the_money_before_costs() -> None:
    assert "Before costs its trades made 800 USD." in judge(LOSING).details
    lost = result([-0.01], [-500.0], gross_pnl=-99.5)
    assert "Before costs its trades lost 99.50 USD." in judge(lost).details


@pytest.mark.parametrize(("played", "tone", "what"), [(LOSING, "loss", "loss"), (WINNING, "unclear", "gain")])
@pytest.mark.parametrize("bounds", [(-2.0, 0.3), (0.0, 2.0), (-2.0, 0.0)])
def test_an_interval_with_zero_shows_nothing(
    played: object, tone: str, what: str, bounds: tuple[float, float]
) -> None:
    verdict = judge(played, evidence(*bounds))  # type: ignore[arg-type]
    assert verdict.tone == tone
    assert verdict.confidence == f"No edge shown: luck alone could explain the {what}"


def test_a_gain_beyond_luck() -> None:
    verdict = judge(WINNING, evidence(0.4, 2.1, deflated_sharpe=0.97, trials=12, overfitting=0.1))
    assert (verdict.tone, verdict.confidence) == ("gain", "Likely a real edge")
    assert verdict.headline == "bdq WON 4.2% after 321 USD of costs"
    tries = "It was chosen among 12 tries; the chance that it is better than the luckiest of them is 97%; "
    assert tries + "the probability of overfitting is 10%." in verdict.details


def test_the_luckiest_of_many_tries_shows_nothing() -> None:
    verdict = judge(WINNING, evidence(0.4, 2.1, deflated_sharpe=0.94, trials=1_200))
    assert (verdict.tone, verdict.confidence) == (
        "unclear",
        "No edge shown: it may be the luckiest of 1,200 tries",
    )
    verdict = judge(WINNING, evidence(0.4, 2.1, overfitting=0.5, trials=9))
    assert (verdict.tone, verdict.confidence) == ("unclear", "No edge shown: the choice is overfitted")


def test_a_loss_with_a_positive_mean_is_no_edge() -> None:
    verdict = judge(LOSING, evidence(0.1, 2.0))
    assert verdict.tone == "loss" and verdict.confidence.startswith("No edge shown: the average bar gained")


def test_no_interval_is_said_aloud() -> None:
    for unknown in (None, evidence(float("nan"), 1.0)):
        verdict = judge(WINNING, unknown)
        assert (verdict.tone, verdict.confidence) == ("unclear", "How sure is not known")


def test_an_agent_that_never_traded_is_neither_good_nor_bad() -> None:
    verdict = judge(result([0.0, 0.0]), evidence(0.0, 0.0), [WINNING])
    assert verdict.tone == "idle" and verdict.headline == "bdq NEVER TRADED"
    assert "nothing is known about its skill" in verdict.confidence
    assert verdict.details[-1] == "On the same bars: bdq +4.2%."


def test_a_result_of_exactly_nothing() -> None:
    verdict = judge(result([0.1, -1 / 11], [0.0], total_return=0.0), evidence(-1.0, 1.0))
    assert verdict.headline == "bdq BROKE EVEN after 0 USD of costs" and verdict.tone == "unclear"


def test_a_ruined_account_is_named() -> None:
    played, floored = (result([-0.3, -0.3], [-500.0], reason=reason) for reason in ("agent", "floor"))
    assert judge(floored).details[0] == "The account fell to its floor of 50,000 USD and was closed."
    # Joined windows may compound to less than the floor of any one account.
    assert "floor" not in " ".join([*judge(LOSING).details, *judge(played).details])


@pytest.mark.parametrize("made", [0.0, math.nan])
def test_what_made_nothing_is_no_edge(made: float) -> None:
    idle = result([0.01, -0.01], [1.0])
    idle.metrics["total_return"] = made
    verdict = judge(idle, evidence(0.2, 1.0))
    assert verdict.tone == "unclear" and verdict.confidence.startswith("No edge shown")


def test_small_returns_keep_two_digits() -> None:
    assert judge(result([0.00123], [1.0])).headline.startswith("bdq WON 0.12%")
