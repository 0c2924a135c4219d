"""Evaluation results made up by hand, of any length and with any names."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from fox_agents.evaluation import EvaluationResult
from fox_agents.evidence import CostPoint, Evidence, Interval
from fox_env import Bars, ContractSpec, EnvConfig, Market, metrics

CASH = 100_000.0
MINUTE = 60_000_000_000
BEGINS = np.datetime64("2021-11-30T22:00", "ns").astype(np.int64)


def market(steps: int, symbol: str = "T", spacing: int = MINUTE) -> Market:
    """Bars of a walk, without features, which no report reads."""
    close = 1_000.0 + np.cumsum(np.random.default_rng(0).choice([-0.25, 0.25], steps + 1))
    bars = Bars.from_arrays(BEGINS + np.arange(steps + 1) * spacing, close, close, close, close, None)
    spec = ContractSpec(symbol=symbol, tick_size=0.25, multiplier=10.0, fee_per_side=2.0)
    nothing: Any = None
    return Market(bars, spec, np.zeros((0, 86), np.float32), 100_000.0, 0, nothing, has_volume=False)


def trades(pnl: Sequence[float], reason: str = "agent") -> pl.DataFrame:
    """A trade a P&L, one after another, each an R of a hundred."""
    n = len(pnl)
    entry = np.arange(n) * 3
    times = {
        name: pl.Series(BEGINS + bar * MINUTE, dtype=pl.Int64).cast(pl.Datetime("ns", "UTC"))
        for name, bar in (("entry_time", entry), ("exit_time", entry + 2))
    }
    money = np.array(pnl, dtype=np.float64)
    return pl.DataFrame(
        {
            "env": np.zeros(n, np.int64), "episode": np.zeros(n, np.int64),
            "entry_bar": entry, "exit_bar": entry + 2, **times,
            "side": np.where(np.arange(n) % 2, -1, 1), "size": np.ones(n),
            "entry_price": np.full(n, 1_000.25), "exit_price": np.full(n, 1_001.5), "pnl": money,
            "trade_return": money / CASH, "r": money / 100.0, "bars": np.full(n, 2),
            "mae": np.minimum(money, 0.0), "mfe": np.maximum(money, 0.0), "costs": np.full(n, 4.0),
            "reason": [reason] * n,
        }
    )  # fmt: skip


def fills(steps: Sequence[int], played: Market) -> pl.DataFrame:
    """Buys and sells of one contract in turn."""
    at = np.array(steps, dtype=np.int64)
    return pl.DataFrame(
        {
            "step": at,
            "time": pl.Series(played.bars.ts[at + 1], dtype=pl.Int64).cast(pl.Datetime("ns", "UTC")),
            "quantity": np.where(np.arange(len(at)) % 2, -1.0, 1.0),
            "price": played.bars.close[at + 1],
        }
    )


def result(
    returns: npt.ArrayLike,
    pnl: Sequence[float] = (),
    filled: Sequence[int] | None = None,
    *,
    agent: str = "bdq",
    symbol: str = "T",
    reason: str = "agent",
    spacing: int = MINUTE,
    **numbers: float,
) -> EvaluationResult:
    """What an agent with these step returns, trades and fills brought; ``numbers`` override its metrics."""
    made = np.array(returns, dtype=np.float64)
    played, closed = market(len(made), symbol, spacing), trades(pnl, reason)
    at = range(min(2 * len(pnl), len(made))) if filled is None else filled
    figures = metrics.summary(made, bars_per_year=played.bars_per_year, trades=closed)
    figures |= {"costs": 0.0, "gross_pnl": 0.0, "final_equity": CASH, "exposure": 0.5} | numbers
    branches = {
        "direction": {"short": 1, "hold": 2, "long": 3, "flat": 4},
        "magnitude": {"quarter": 10, "half": 0, "full": 0},
        "order": {"market": 10, "limit": 0, "ioc": 0},
        "urgency": {"patient": 10, "normal": 0, "aggressive": 0},
    }
    return EvaluationResult(
        agent=agent,
        market=played,
        config=EnvConfig(initial_cash=CASH),
        metrics=figures,
        equity=CASH * np.concatenate([[1.0], np.cumprod(1.0 + made)]),
        returns=made,
        positions=np.resize([1.0, 0.0, -1.0], len(made)),
        fills=fills(at, played),
        trades=closed,
        actions=branches,
        executed={
            "order_status": {"none": 6, "filled": 4},
            "fill": {"buy": 2, "sell": 2, "none": 6},
            **branches,
        },
    )


def evidence(low: float, high: float, agent: str = "bdq", **fields: Any) -> Evidence:
    """Evidence with this interval of the Sharpe ratio."""
    return Evidence(agent, {"sharpe": Interval((low + high) / 2, low, high)}, **fields)


def costs(free: float) -> tuple[CostPoint, ...]:
    """A study of costs whose free play returned this much."""
    return (
        CostPoint(0.0, free, 0.4, 0.0),
        CostPoint(1.0, free - 0.05, -1.3, 1e4),
        CostPoint(2.0, -0.2, -3.0, 2e4),
    )
