"""What an evaluation found: the result of one agent on one market, joined over windows, written and read."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from fox_agents.checkpoint import (
    CheckpointError,
    atomic_directory,
    market_fingerprint,
    read_arrays,
    read_state,
    require_same,
    write_arrays,
    write_state,
)
from fox_agents.plain_values import build
from fox_agents.report import write_report
from fox_env import EnvConfig, Market, metrics
from fox_env.errors import ConfigError

__all__ = ["EvaluationResult", "joined", "load_result", "numbers_of", "save_result", "with_shares"]

Array = npt.NDArray[Any]

_ONE_SIDED_95 = 1.6448536269514722  # normal quantile
_PLAIN = ("agent", "metrics", "actions", "executed")
_TABLES = ("trades", "fills")
_SERIES = ("equity", "returns", "positions")


@dataclass(frozen=True)
class EvaluationResult:
    """What one agent did on one market.

    ``metrics`` is `fox_env.metrics.summary` of the step returns and trades plus:

    ``final_equity``
        Money at the last close.
    ``costs``, ``fees``, ``slippage``, ``spread_cost``, ``impact_cost``
        Money. Costs are fees and slippage; slippage is what the half-spreads and the impact inside the fill prices
        took, against the reference price of each fill.
    ``gross_pnl``, ``cost_share``
        Money made before costs, and costs / |gross P&L|.
    ``turnover``
        Notional of the agent's fills / initial cash.
    ``exposure``
        Share of bars with a position.
    ``action_entropy``, ``executed_entropy``
        Normalised entropy, 0 to 1, of the directions chosen, and of those carried out (a step in which none of the
        agent's orders was filled counts as Hold).
    ``mean_return_lower_bound``
        One-sided 95 % lower confidence bound of the mean step return (normal approximation, steps taken as
        independent).
    """

    agent: str
    """Name of the agent."""
    market: Market
    """What was traded."""
    config: EnvConfig
    """Rules that applied."""
    metrics: dict[str, Any]
    """Named numbers; ``notes`` says what they leave out."""
    equity: npt.NDArray[np.float64]
    """Account value in money before the first step and after each, shape (steps + 1,)."""
    returns: npt.NDArray[np.float64]
    """Account return of each step, a fraction, shape (steps,)."""
    positions: npt.NDArray[np.float64]
    """Signed contracts held after each step, shape (steps,)."""
    fills: pl.DataFrame
    """One row a fill of the agent's orders: step, time (of the bar's close), quantity (signed), price."""
    trades: pl.DataFrame
    """Finished trades, as `FoxFuturesVectorEnv.trades` gives them."""
    actions: dict[str, dict[str, int]]
    """How often each action of each branch was chosen."""
    executed: dict[str, dict[str, int]]
    """What was really done, in steps. ``order_status``: the fate of each step's order, by the names of the physics
    (``none``: nothing to order, ``partial`` and ``participation``: filled in part, ``margin``: cut by the margin, ...).
    ``fill``: ``buy`` and ``sell`` for orders of the agent filled at least in part, ``none`` for the other steps.
    ``direction``, ``magnitude``, ``order``, ``urgency``: the choices behind those fills, counted where they shaped the
    order."""

    @property
    def times(self) -> npt.NDArray[np.datetime64]:
        """Close of the bar of each entry of `equity`, UTC, shape (steps + 1,)."""
        return self.market.bars.ts[self.market.first_ready :].astype("datetime64[ns]")

    @property
    def closes(self) -> npt.NDArray[np.float64]:
        """Price at each of `times`, shape (steps + 1,)."""
        return self.market.bars.close[self.market.first_ready :]

    def report(self, path: str | Path, others: Sequence["EvaluationResult"] = ()) -> Path:
        """Write one self-contained HTML page with the equity against ``others`` (default: buy and hold)."""
        if not others and self.agent != "buy_and_hold":
            from fox_agents.evaluation import evaluate
            from fox_agents.rules import BuyAndHold

            others = [evaluate(BuyAndHold(), self.market, self.config, backend="cpu")]
        from fox_agents.stats import evidence

        found = {result.agent: evidence(result) for result in (self, *others)}
        return write_report(Path(path), [self, *others], evidence=found)


def _entropy(counts: Mapping[str, int]) -> float:
    """Entropy of the shares of what was counted over its greatest value."""
    shares = np.array(list(counts.values())) / max(sum(counts.values()), 1)
    some = shares[shares > 0]
    return abs(float((some * np.log(some)).sum())) / math.log(len(counts))


def numbers_of(
    market: Market,
    returns: Array,
    equity: Array,
    positions: Array,
    trades: pl.DataFrame,
    actions: dict[str, dict[str, int]],
    executed: dict[str, dict[str, int]],
) -> dict[str, Any]:
    """The metrics that follow from the series and the histograms."""
    steps = len(returns)
    spread = float(np.std(returns, ddof=1)) if steps > 1 else 0.0
    done = dict(executed["direction"])
    done["hold"] += sum(actions["direction"].values()) - sum(done.values())
    return metrics.summary(returns, bars_per_year=market.bars_per_year, trades=trades) | {
        "final_equity": float(equity[-1]),
        "exposure": float(np.mean(positions != 0)),
        "action_entropy": _entropy(actions["direction"]),
        "executed_entropy": _entropy(done),
        "mean_return_lower_bound": float(np.mean(returns)) - _ONE_SIDED_95 * spread / math.sqrt(steps),
    }


def with_shares(sums: dict[str, float]) -> dict[str, float]:
    """The sums of trading with what follows from them."""
    gross = sums["gross_pnl"]
    return sums | {
        "slippage": sums["spread_cost"] + sums["impact_cost"],
        "cost_share": sums["costs"] / abs(gross) if gross else math.nan,
    }


def joined(results: Sequence[EvaluationResult], market: Market) -> EvaluationResult:
    """One result out of those of consecutive windows of ``market``, each begun with a fresh account.

    Parameters
    ----------
    results : Sequence[EvaluationResult]
        Of one agent under the same rules, in order of time, without a gap; the last ends with ``market``.
    market : Market
        From the bar of the first decision to the end of the last window.

    Returns
    -------
    EvaluationResult
        Returns one after the other, compounded to one equity curve; money figures are sums over the accounts.

    Raises
    ------
    ConfigError
        The windows do not cover the market.
    """
    steps = [len(result.returns) for result in results]
    if market.first_ready != 0 or sum(steps) != len(market) - 1:
        raise ConfigError(
            f"{len(results)} windows of {sum(steps)} bars do not cover a market of {len(market) - 1} bars after the "
            "first decision; join consecutive windows, all of them"
        )
    first = results[0]
    offsets = np.concatenate([[0], np.cumsum(steps)[:-1]]).tolist()
    returns = np.concatenate([result.returns for result in results])
    positions = np.concatenate([result.positions for result in results])
    equity = first.config.initial_cash * np.concatenate([[1.0], np.cumprod(1.0 + returns)])
    trades = pl.concat(
        result.trades.with_columns(pl.col("entry_bar", "exit_bar") + offset)
        for result, offset in zip(results, offsets, strict=True)
    )
    fills = pl.concat(
        result.fills.with_columns(pl.col("step") + offset)
        for result, offset in zip(results, offsets, strict=True)
    )
    actions, executed = (
        _added([getattr(result, name) for result in results]) for name in ("actions", "executed")
    )
    numbers = numbers_of(market, returns, equity, positions, trades, actions, executed)
    sums = ("costs", "fees", "spread_cost", "impact_cost", "gross_pnl", "turnover")
    numbers |= with_shares({name: sum(result.metrics[name] for result in results) for name in sums})
    return EvaluationResult(
        first.agent,
        market,
        first.config,
        numbers,
        equity,
        returns,
        positions,
        fills,
        trades,
        actions,
        executed,
    )


def _added(histograms: Sequence[dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    return {
        branch: {option: sum(h[branch][option] for h in histograms) for option in options}
        for branch, options in histograms[0].items()
    }


def save_result(directory: Path, result: EvaluationResult) -> None:
    """Write a result: state.json, series.safetensors, trades.parquet and fills.parquet; all or nothing."""
    with atomic_directory(directory) as temporary:
        write_arrays(temporary, "series", {name: getattr(result, name) for name in _SERIES})
        for name in _TABLES:
            getattr(result, name).write_parquet(temporary / f"{name}.parquet")
        state = {name: getattr(result, name) for name in _PLAIN}
        state |= {
            "market": market_fingerprint(result.market),
            "config": dataclasses.asdict(result.config),
        }
        write_state(temporary, state)


def load_result(directory: Path, market: Market) -> EvaluationResult:
    """Read a result of `save_result`.

    Parameters
    ----------
    directory : Path
        Where it was written.
    market : Market
        The market it was played on; results do not hold bars.

    Raises
    ------
    CheckpointError
        When there is none, it is damaged, or it is of another market.
    """
    state = read_state(directory)
    require_same("market", state["market"], market_fingerprint(market))
    try:
        parts: dict[str, Any] = {name: pl.read_parquet(directory / f"{name}.parquet") for name in _TABLES}
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CheckpointError(f"damaged result in {directory}: {error}; evaluate again") from None
    config = build(EnvConfig, state["config"], "env")
    parts |= {name: state[name] for name in _PLAIN} | read_arrays(directory, "series")
    return EvaluationResult(market=market, config=config, **parts)
