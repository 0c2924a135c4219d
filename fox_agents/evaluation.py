"""The one way to score an agent: the training environment, training-only scales at zero, played greedily."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from gymnasium.vector import AutoresetMode

from fox_agents.api import Agent, Planner
from fox_agents.report import write_report
from fox_agents.trading_rules import evaluation_config, require_own_rules
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, _layout, metrics
from fox_env.errors import ConfigError

__all__ = ["EvaluationResult", "evaluate"]

Array = npt.NDArray[Any]

_BRANCHES = {
    "direction": _layout.Direction,
    "magnitude": _layout.Magnitude,
    "order": _layout.OrderType,
    "urgency": _layout.Urgency,
}
_CHECK_EVERY = 64  # steps between looks at whether every window has ended; a look waits for the device
_ONE_SIDED_95 = 1.6448536269514722  # normal quantile


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
            from fox_agents.rules import BuyAndHold

            others = [evaluate(BuyAndHold(), self.market, self.config, backend="cpu")]
        return write_report(Path(path), [self, *others])


def evaluate(
    agent: Agent,
    market: Market,
    cfg: EnvConfig | None = None,
    *,
    backend: str = "auto",
    num_envs: int = 1,
    seed: int = 0,
    other_rules: bool = False,
) -> EvaluationResult:
    """Play ``agent`` greedily over every bar of ``market`` once, with all costs.

    Parameters
    ----------
    agent : Agent
        The agent to score; its generators are not touched if it is greedy when deterministic.
    market : Market
        What to trade.
    cfg : EnvConfig, optional
        Trading rules; by default those the agent was trained with, else the defaults. Training-only scales
        are set to zero in any case.
    backend : str
        Backend of the environment. "auto": the CPU for an agent on NumPy arrays, the environment's own for one that
        has an environment, and else the GPU where there is one.
    num_envs : int
        1: one pass with one account. More: the period is cut into this many equal windows, each played once
        from a fresh account, and their returns are joined in order of time.
    seed : int
        Seed of the environment (queue luck of limit orders).
    other_rules : bool
        Allow a ``cfg`` whose costs or limits are not those the agent was trained with, as a study of costs needs.

    Raises
    ------
    ConfigError
        When the market is too short for ``num_envs`` windows, or when ``cfg`` differs from the agent's training in an
        option that touches money and ``other_rules`` is False.
    """
    trained: EnvConfig | None = getattr(agent, "env_config", None)
    if cfg is not None and trained is not None and not other_rules:
        require_own_rules(trained, cfg, market.contract)
    cfg = evaluation_config(cfg or trained or EnvConfig())
    steps = len(market) - 1 - market.first_ready
    if not 1 <= num_envs <= steps:
        raise ConfigError(f"cannot cut {steps} bars into {num_envs} windows; use fewer or a longer market")
    window = math.ceil(steps / num_envs)
    starts = np.arange(market.first_ready, market.first_ready + steps, window)
    if len(starts) > 1:
        cfg = dataclasses.replace(cfg, horizon=window)
    env = FoxFuturesVectorEnv(
        len(starts),
        market,
        cfg,
        backend=_own_backend(agent) if backend == "auto" else backend,
        output=agent.output,
        autoreset_mode=AutoresetMode.NEXT_STEP,  # the ending step then reports the old episode's account
        trade_capacity=2 * window + 2,
    )
    try:
        if isinstance(agent, Planner):
            agent.prepare(env)
        record = _play(agent, env, starts, min(window, steps), seed)
        # Later episodes only follow an early ruin.
        trades = env.trades().filter(pl.col("episode") == 0).sort("entry_bar", "exit_bar")
    finally:
        env.close()
    return _result(agent.name, market, cfg, record, trades)


def _own_backend(agent: Agent) -> str:
    if agent.output == "numpy":
        return "cpu"  # every step of a GPU would wait for the transfer
    own: FoxFuturesVectorEnv | None = getattr(agent, "env", None)
    return (
        "auto" if own is None else own.device.partition(":")[0]
    )  # the backend's name, without the GPU's number


_RECORDED = (
    "equity",
    "step_return",
    "position",
    "cost",
    "fees",
    "spread_cost",
    "impact_cost",
    "fill_quantity",
    "fill_price",
    "order_status",
    "branch_active",
)


def _play(agent: Agent, env: FoxFuturesVectorEnv, starts: Array, steps: int, seed: int) -> dict[str, Array]:
    """Arrays (steps, num_envs) of what happened; ``alive`` marks the steps before each window's end."""
    rows: dict[str, list[Any]] = {name: [] for name in (*_RECORDED, "action", "done")}
    obs, _ = env.reset(seed=seed, options={"start": starts})
    ended: Any = False
    for step in range(steps):
        actions = agent.act(obs, deterministic=True, masks=env.action_masks())
        obs, _, terminated, truncated, info = env.step(actions)
        for name in _RECORDED:
            rows[name].append(info[name])
        rows["action"].append(actions)
        rows["done"].append(terminated | truncated)
        ended = ended | rows["done"][-1]
        if step % _CHECK_EVERY == 0 and bool(ended.all()):
            break
    arrays = {name: _stack(row) for name, row in rows.items()}
    done_before = np.cumsum(arrays["done"], axis=0) - arrays["done"]
    arrays["alive"] = done_before == 0
    return arrays


def _stack(rows: list[Any]) -> Array:
    if isinstance(rows[0], np.ndarray):
        return np.stack(rows)
    import torch

    stacked: Array = torch.stack(rows).cpu().numpy()
    return stacked


def _trading(record: dict[str, Array], alive: Array, cfg: EnvConfig, market: Market) -> dict[str, float]:
    """What trading cost and how much of it there was."""
    costs, fees, spread, impact = (
        float(record[name][alive].sum()) for name in ("cost", "fees", "spread_cost", "impact_cost")
    )
    started = cfg.initial_cash * alive.shape[1]
    last = alive.sum(axis=0) - 1
    gross = float(record["equity"][last, np.arange(alive.shape[1])].sum()) - started + costs
    notional = np.abs(record["fill_quantity"] * np.nan_to_num(record["fill_price"]))[alive].sum()
    chosen = record["action"][alive][:, 0]
    done = np.where(record["fill_quantity"][alive] != 0, chosen, _layout.Direction.HOLD)
    return {
        "costs": costs,
        "fees": fees,
        "slippage": spread + impact,
        "spread_cost": spread,
        "impact_cost": impact,
        "gross_pnl": gross,
        "cost_share": costs / abs(gross) if gross else math.nan,
        "turnover": float(notional) * market.contract.multiplier / started,
        "action_entropy": _entropy(chosen),
        "executed_entropy": _entropy(done),
    }


def _entropy(directions: Array) -> float:
    """Entropy of the directions' shares over its greatest value."""
    shares = np.bincount(directions, minlength=len(_layout.Direction)) / len(directions)
    some = shares[shares > 0]
    return float(-(some * np.log(some)).sum() / math.log(len(_layout.Direction)))


def _histogram(values: Array, names: type[IntEnum]) -> dict[str, int]:
    return {option.name.lower(): int((values == option).sum()) for option in names}


def _executed(record: dict[str, Array], alive: Array) -> dict[str, dict[str, int]]:
    quantity, action = record["fill_quantity"][alive], record["action"][alive]
    counted = record["branch_active"][alive] & (quantity != 0)[:, None]
    buys, sells = int((quantity > 0).sum()), int((quantity < 0).sum())
    return {
        "order_status": _histogram(record["order_status"][alive], _layout.OrderStatus),
        "fill": {"buy": buys, "sell": sells, "none": len(quantity) - buys - sells},
        **{
            branch: _histogram(action[counted[:, b], b], options)
            for b, (branch, options) in enumerate(_BRANCHES.items())
        },
    }


def _result(
    name: str, market: Market, cfg: EnvConfig, record: dict[str, Array], trades: pl.DataFrame
) -> EvaluationResult:
    alive = record["alive"]
    steps = len(market) - 1 - market.first_ready
    windows = alive.shape[1]
    length = math.ceil(steps / windows)
    returns = _in_order(record["step_return"], alive, length)[:steps]  # 0 after a ruin
    if windows == 1:
        path = record["equity"][alive[:, 0], 0]
        rest = np.full(steps - len(path), path[-1])
        equity = np.concatenate([[cfg.initial_cash], path, rest])
    else:
        equity = cfg.initial_cash * np.concatenate([[1.0], np.cumprod(1.0 + returns)])
    numbers: dict[str, Any] = metrics.summary(returns, bars_per_year=market.bars_per_year, trades=trades)
    spread = float(np.std(returns, ddof=1)) if steps > 1 else 0.0
    numbers |= _trading(record, alive, cfg, market)
    numbers |= {
        "final_equity": float(equity[-1]),
        "exposure": float((record["position"][alive] != 0).sum() / steps),
        "mean_return_lower_bound": float(np.mean(returns)) - _ONE_SIDED_95 * spread / math.sqrt(steps),
    }
    chosen = record["action"][alive]
    actions = {
        branch: _histogram(chosen[:, b], options) for b, (branch, options) in enumerate(_BRANCHES.items())
    }
    return EvaluationResult(
        name,
        market,
        cfg,
        numbers,
        equity,
        returns,
        _in_order(record["position"], alive, length)[:steps],
        _fills(record, alive, length, market),
        trades,
        actions,
        _executed(record, alive),
    )


def _in_order(values: Array, alive: Array, length: int) -> Array:
    """Values (steps, windows) as one series in order of time, 0 where a window had ended early."""
    series = np.zeros((alive.shape[1], length))
    series[:, : len(alive)] = np.where(alive, values, 0.0).T
    return series.reshape(-1)


def _fills(record: dict[str, Array], alive: Array, length: int, market: Market) -> pl.DataFrame:
    quantity = _in_order(record["fill_quantity"], alive, length)
    step = np.flatnonzero(quantity)
    closed = market.bars.ts[market.first_ready + 1 + step].astype("datetime64[ns]")
    return pl.DataFrame(
        {
            "step": step,
            "time": pl.Series(closed).dt.replace_time_zone("UTC"),
            "quantity": quantity[step],
            "price": _in_order(np.nan_to_num(record["fill_price"]), alive, length)[step],
        }
    )
