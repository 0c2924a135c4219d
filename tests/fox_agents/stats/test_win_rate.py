"""The win rate is that of closed trades, net of costs: a planted count of bars is caught."""

from typing import Any

import numpy as np
import pytest

from fox_agents import EvaluationResult, evaluate
from fox_agents.rules import Flat
from fox_env import Bars, ContractSpec, EnvConfig, Market, metrics

LONG, HOLD, FLAT = (2, 2, 0, 1), (1, 0, 0, 1), (3, 0, 0, 1)
CLOSES = [100.0, *[102.5] * 4, *[97.5] * 42, 197.5]
ACTIONS = [LONG, FLAT, LONG, FLAT, LONG, FLAT, *[HOLD] * 40, LONG]
RULES = EnvConfig(max_position=1.0, initial_cash=10_000.0, margin=False, half_spread_ticks=0.0)


class Scripted(Flat):
    """Takes the actions it is given, one a step."""

    def __init__(self) -> None:
        super().__init__()
        self.left = list(ACTIONS)

    def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
        return np.array([self.left.pop(0)])


def played(rules: EnvConfig) -> EvaluationResult:
    """Closed trades of gross +25, 0 and -50 at 4 of costs each, 40 flat bars, and one open, +1,000 at 2 so far."""
    close = np.array(CLOSES)
    opened = np.concatenate([close[:1], close[:-1]])
    ts = np.arange(len(close)) * 60_000_000_000 + 1_700_000_000_000_000_000
    bars = Bars.from_arrays(ts, opened, np.maximum(opened, close), np.minimum(opened, close), close, None)
    spec = ContractSpec(symbol="T", tick_size=0.25, multiplier=10.0, fee_per_side=2.0)
    return evaluate(Scripted(), Market.from_bars(bars, contract=spec, warmup=0, cache=False), rules)


def check_open_trade_marked(result: EvaluationResult) -> None:
    assert result.metrics["n_trades"] == 3
    assert result.metrics["win_rate"] == pytest.approx(1 / 3)  # without gross profit is a net loss
    assert result.metrics["trade_pnl"] == pytest.approx(-37.0)
    assert result.equity[-1] - result.equity[0] == pytest.approx(-37.0 + 998.0)


def check_open_trade_closed(result: EvaluationResult) -> None:
    assert result.metrics["n_trades"] == 4
    assert result.metrics["win_rate"] == pytest.approx(0.5)
    assert result.equity[-1] - result.equity[0] == result.metrics["trade_pnl"] == pytest.approx(959.0)


def test_the_win_rate_is_that_of_closed_trades() -> None:
    check_open_trade_marked(played(RULES))


def test_an_episode_end_that_closes_the_trade_counts_it() -> None:
    check_open_trade_closed(played(RULES.replace(close_at_end=True)))


def test_a_win_rate_by_bars_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: wins are bars with a gain, among all bars, or among those with a position."""
    honest = metrics.summary
    for chosen in (lambda r: r, lambda r: r[r != 0.0]):

        def by_bars(returns: Any, chosen: Any = chosen, **options: Any) -> dict[str, Any]:
            return honest(returns, **options) | {"win_rate": float((chosen(returns) > 0).mean())}

        monkeypatch.setattr(metrics, "summary", by_bars)
        with pytest.raises(AssertionError):
            check_open_trade_marked(played(RULES))
        with pytest.raises(AssertionError):
            check_open_trade_closed(played(RULES.replace(close_at_end=True)))
