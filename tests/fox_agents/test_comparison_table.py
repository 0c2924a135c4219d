"""Tables of a comparison: known answers on results made by hand."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fox_agents import comparison_command
from fox_agents.checkpoint import write_arrays
from fox_agents.comparison_table import MARKETS, OVERALL, markdown, market_rows, overall_rows
from fox_agents.evidence import Interval
from fox_env import metrics


def made(
    folder: Path,
    market: str,
    agent: str,
    seed: int,
    sharpe: float | None,
    returns: list[float],
    **numbers: float,
) -> dict[str, Any]:
    """A result as a process writes it."""
    joined = folder / f"{market}-{agent}-{seed}"
    joined.mkdir()
    write_arrays(joined, "series", {"returns": np.array(returns)})
    values = {"total_return": 0.0, "max_drawdown": -0.1, "costs": 1_000.0, "n_trades": 10, "exposure": 0.5}
    return {
        "market": market,
        "agent": agent,
        "seed": seed,
        "budget": "steps",
        "env_steps": 160.0,
        "learning_seconds": 2.0,
        "flat_folds": seed,
        "joined": str(joined),
        "bars_per_year": 252.0,
        "metrics": {**values, **numbers, "sharpe": sharpe},
        "selected_metrics": {"total_return": 0.25},
    }  # fmt: skip


def test_a_row_of_a_market_is_the_mean_over_its_seeds(tmp_path: Path) -> None:
    first = made(tmp_path, "A", "bdq", 0, 1.5, [0.02, -0.01, 0.03], total_return=0.04, n_trades=1_000)
    second = made(tmp_path, "A", "bdq", 1, -0.5, [0.00, 0.01, -0.01], total_return=-0.10, n_trades=3_001)
    rows = market_rows([first, second, made(tmp_path, "A", "flat", 0, 0.0, [0.0, 0.0, 0.0])])
    assert [(row["agent"], row["seeds"]) for row in rows] == [("bdq", 2), ("flat", 1)]
    row = rows[0]
    assert row["total_return"] == pytest.approx(-0.03) and row["selected_return"] == 0.25
    assert (row["flat_folds"], row["env_steps"], row["learning_seconds"]) == (0.5, 160.0, 2.0)
    assert row["seed_sharpes"] == [1.5, -0.5]
    of_the_mean = metrics.summary(np.array([0.01, 0.0, 0.01]), bars_per_year=252.0)["sharpe"]
    assert row["sharpe"].value == pytest.approx(of_the_mean)
    text = markdown(rows[:1], MARKETS).splitlines()
    assert text[0].startswith("| market | equal | agent | seeds | return | Sharpe (95 % interval) |")
    assert text[1] == "|" + "---|" * len(MARKETS)
    assert text[2] == (
        f"| A | steps | bdq | 2 | -3.0% | {of_the_mean:.2f} | 1.50, -0.50 | +25.0% | 0.5 | -10.0% | 1,000 | 2,000 "
        "| 50.0% | 160 | 2 |"
    )


def overall(scores: Mapping[str, Mapping[str, list[float | None]]]) -> dict[str, dict[str, Any]]:
    """Rows over all markets, by agent, of Sharpe ratios by market and agent."""
    rows = [
        {"market": market, "budget": "steps", "agent": agent, "seed_sharpes": sharpes}
        for market, agents in scores.items()
        for agent, sharpes in agents.items()
    ]
    return {row["agent"]: row for row in overall_rows(rows)}


def test_a_row_over_all_markets_takes_all_runs_together() -> None:
    found = overall(
        {
            "A": {"bdq": [1.0, 2.0], "flat": [0.0], "rule": [1.5]},
            "B": {"bdq": [3.0, -4.0], "flat": [0.0], "rule": [3.0]},
        }
    )
    assert (found["bdq"]["markets"], found["bdq"]["runs"]) == (2, 4)
    assert found["bdq"]["sharpe"].value == pytest.approx(1.5)  # of 1 and 2, the middle half
    assert found["bdq"]["sharpe"].low < 1.5 < found["bdq"]["sharpe"].high
    assert found["bdq"]["better_than_flat"] == 0.75 and found["bdq"]["first_better"] is None
    assert found["flat"]["better_than_flat"] == 0.0
    assert found["flat"]["first_better"].value == pytest.approx((1.0 + 0.5) / 2)
    assert found["rule"]["first_better"].value == pytest.approx((0.5 + 0.25) / 2)  # a tie counts half
    assert np.isnan(found["rule"]["sharpe"].low)  # one run a market: nothing to draw from
    line = markdown([found["rule"]], OVERALL).splitlines()[2]
    assert line == "| steps | rule | 2 | 2 | 2.25 | 100.0% | 0.38 |"


def test_an_agent_that_lacks_a_market_or_a_score_has_no_row_over_all() -> None:
    found = overall(
        {
            "A": {"bdq": [1.0], "flat": [0.0], "rule": [None], "other": [1.0]},
            "B": {"flat": [0.0], "rule": [1.0], "other": [1.0]},
        }
    )
    assert list(found) == ["flat", "other"]
    assert found["other"]["first_better"] is None  # another than the first does not stand in for it


def test_one_run_of_each_agent_is_compared_without_intervals() -> None:
    found = overall({"A": {"bdq": [1.0], "flat": [0.0]}})
    assert found["flat"]["first_better"][0] == 1.0 and np.isnan(found["flat"]["first_better"][1])


def test_seeds_that_failed_leave_the_others() -> None:
    found = overall({"A": {"bdq": [1.0, 2.0, 9.0]}, "B": {"bdq": [3.0, 4.0]}})
    assert found["bdq"]["runs"] == 4 and found["bdq"]["sharpe"].value == pytest.approx(2.5)


def test_no_results_are_empty_tables_and_numbers_that_are_none_are_null() -> None:
    assert market_rows([]) == [] and overall_rows([]) == []
    row = {"market": "NaN", "sharpe": Interval(1.0, np.nan, np.inf), "seed_sharpes": [np.nan, 1.0]}
    assert json.loads(json.dumps(comparison_command._plain(row))) == {
        "market": "NaN",
        "sharpe": {"value": 1.0, "low": None, "high": None},
        "seed_sharpes": [None, 1.0],
    }
