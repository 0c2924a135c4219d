"""Results of an evaluation: joined over windows, and the same after writing and reading."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fox_agents
from fox_agents import CheckpointError, evaluate
from fox_agents.results import EvaluationResult, joined, load_result, save_result
from fox_env import EnvConfig, metrics, synthetic
from fox_env.errors import ConfigError

MARKET = synthetic.regimes(seed=2, sessions=4)
RULES = EnvConfig(trail_atr=(2.0, 2.0), limit_offset_ticks=(3, 2, 1))
CUTS = (300, 700, 1_000)


def random_play(first: int, stop: int) -> EvaluationResult:
    return evaluate(fox_agents.make("random"), MARKET.rows(first - 1, stop), RULES)


@pytest.fixture(scope="module")
def windows() -> list[EvaluationResult]:
    return [random_play(CUTS[0], CUTS[1]), random_play(CUTS[1], CUTS[2])]


@pytest.fixture(scope="module")
def whole(windows: list[EvaluationResult]) -> EvaluationResult:
    return joined(windows, MARKET.rows(CUTS[0] - 1, CUTS[2]))


def test_joined_windows_compound(windows: list[EvaluationResult], whole: EvaluationResult) -> None:
    assert len(whole.returns) == CUTS[2] - CUTS[0]
    growth = [1.0 + result.metrics["total_return"] for result in windows]
    assert whole.metrics["total_return"] == pytest.approx(growth[0] * growth[1] - 1.0)
    assert whole.equity[0] == RULES.initial_cash
    assert whole.metrics["final_equity"] == pytest.approx(RULES.initial_cash * growth[0] * growth[1])
    np.testing.assert_array_equal(whole.times[1:], MARKET.bars.ts[CUTS[0] : CUTS[2]].astype("datetime64[ns]"))


def test_joined_money_and_counts_are_sums(windows: list[EvaluationResult], whole: EvaluationResult) -> None:
    for name in (
        "costs",
        "fees",
        "spread_cost",
        "impact_cost",
        "slippage",
        "gross_pnl",
        "turnover",
        "n_trades",
    ):
        assert whole.metrics[name] == pytest.approx(sum(result.metrics[name] for result in windows)), name
    assert len(whole.fills) == sum(len(result.fills) for result in windows)
    for branch, counts in whole.actions.items():
        assert sum(counts.values()) == len(whole.returns), branch
    assert whole.metrics["exposure"] == pytest.approx(np.mean(whole.positions != 0))


def test_trades_and_fills_of_a_later_window_point_at_their_own_bars(whole: EvaluationResult) -> None:
    ts = whole.market.bars.ts.astype("datetime64[ns]")
    for bar, time in (("entry_bar", "entry_time"), ("exit_bar", "exit_time")):
        np.testing.assert_array_equal(ts[whole.trades[bar].to_numpy()], whole.trades[time].to_numpy())
    np.testing.assert_array_equal(
        whole.times[whole.fills["step"].to_numpy() + 1], whole.fills["time"].to_numpy()
    )
    assert whole.trades["entry_bar"].max() > CUTS[1] - CUTS[0]  # type: ignore[operator]


def test_the_sharpe_of_joined_windows_is_that_of_all_their_returns(whole: EvaluationResult) -> None:
    expected = metrics.summary(whole.returns, bars_per_year=MARKET.bars_per_year)
    assert whole.metrics["sharpe"] == expected["sharpe"]
    assert whole.metrics["max_drawdown"] == expected["max_drawdown"]


def test_windows_with_a_gap_are_refused(windows: list[EvaluationResult]) -> None:
    with pytest.raises(ConfigError, match="2 windows of 700 bars do not cover a market of 701 bars"):
        joined(windows, MARKET.rows(CUTS[0] - 1, CUTS[2] + 1))


def test_a_result_is_the_same_after_writing_and_reading(
    tmp_path: Path, windows: list[EvaluationResult]
) -> None:
    first = windows[0]
    save_result(tmp_path / "kept", first)
    again = load_result(tmp_path / "kept", first.market)
    for name in ("equity", "returns", "positions"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    assert again.trades.equals(first.trades) and again.fills.equals(first.fills)
    assert (again.agent, again.config, again.actions, again.executed) == (
        first.agent,
        first.config,
        first.actions,
        first.executed,
    )
    assert json.dumps(again.metrics) == json.dumps(first.metrics)  # NaN compares unequal to itself


def test_a_result_of_another_market_is_refused(tmp_path: Path, windows: list[EvaluationResult]) -> None:
    save_result(tmp_path / "kept", windows[0])
    with pytest.raises(CheckpointError, match="market"):
        load_result(tmp_path / "kept", windows[1].market)


def test_a_damaged_table_is_one_sentence(tmp_path: Path, windows: list[EvaluationResult]) -> None:
    save_result(tmp_path / "kept", windows[0])
    (tmp_path / "kept" / "trades.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(CheckpointError, match=r"damaged result in .*evaluate again"):
        load_result(tmp_path / "kept", windows[0].market)


def test_trades_keep_their_types_when_none_was_made(tmp_path: Path) -> None:
    flat = evaluate(fox_agents.make("flat"), MARKET.rows(299, 400), RULES)
    both = joined([flat, random_play(400, 500)], MARKET.rows(299, 500))
    assert both.trades.schema["entry_time"] == pl.Datetime("ns", "UTC")
