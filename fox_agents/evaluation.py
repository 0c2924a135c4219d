"""The one way to score an agent: the training environment, training-only scales at zero, played greedily."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from gymnasium.vector import AutoresetMode

from fox_agents.api import Agent
from fox_agents.report import write_report
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, _layout, metrics
from fox_env.errors import ConfigError

__all__ = ["EvaluationResult", "evaluate", "evaluation_config"]

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

    ``metrics`` is `fox_env.metrics.summary` of the step returns and trades plus: ``final_equity`` and
    ``costs`` (money), ``fees`` and ``slippage`` (money: costs are their sum, slippage is spread and impact),
    ``gross_pnl`` (money before costs), ``cost_share`` (costs / |gross P&L|), ``turnover`` (notional of the agent's
    fills / initial cash), ``action_entropy`` (of the directions chosen, 0 to 1), ``exposure`` (share of bars with a
    position), and ``mean_return_lower_bound``, the
    one-sided 95 % lower confidence bound of the mean step return (normal approximation, steps taken as
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
    trades: pl.DataFrame
    """Finished trades, as `FoxFuturesVectorEnv.trades` gives them."""
    actions: dict[str, dict[str, int]]
    """How often each action of each branch was chosen."""

    def report(self, path: str | Path, others: Sequence["EvaluationResult"] = ()) -> Path:
        """Write one self-contained HTML page with the equity against ``others`` (default: buy and hold)."""
        if not others and self.agent != "buy_and_hold":
            from fox_agents.rules import BuyAndHold

            others = [evaluate(BuyAndHold(), self.market, self.config, backend="cpu")]
        return write_report(Path(path), [self, *others])


def evaluation_config(cfg: EnvConfig) -> EnvConfig:
    """``cfg`` without what exists for training only: saboteur, shaping, random starts, horizon."""
    return dataclasses.replace(
        cfg, exploration_scale=0.0, shaping_scale=0.0, random_start=False, horizon=None, counterfactual=False
    )


def evaluate(
    agent: Agent,
    market: Market,
    cfg: EnvConfig | None = None,
    *,
    backend: str = "auto",
    num_envs: int = 1,
    seed: int = 0,
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
        Backend of the environment; "auto" follows the agent's device.
    num_envs : int
        1: one pass with one account. More: the period is cut into this many equal windows, each played once
        from a fresh account, and their returns are joined in order of time.
    seed : int
        Seed of the environment (queue luck of limit orders).

    Raises
    ------
    ConfigError
        When the market is too short for ``num_envs`` windows.
    """
    cfg = evaluation_config(cfg or getattr(agent, "env_config", None) or EnvConfig())
    steps = len(market) - 1 - market.first_ready
    if not 1 <= num_envs <= steps:
        raise ConfigError(f"cannot cut {steps} bars into {num_envs} windows; use fewer or a longer market")
    window = math.ceil(steps / num_envs)
    starts = np.arange(market.first_ready, market.first_ready + steps, window)
    if len(starts) > 1:
        cfg = dataclasses.replace(cfg, horizon=window)
    if backend == "auto":
        backend = (getattr(agent, "device", None) and agent.device.type) or "cpu"  # type: ignore[attr-defined]
    env = FoxFuturesVectorEnv(
        len(starts),
        market,
        cfg,
        backend=backend,
        output=agent.output,
        autoreset_mode=AutoresetMode.NEXT_STEP,  # the ending step then reports the old episode's account
        trade_capacity=2 * window + 2,
    )
    try:
        record = _play(agent, env, starts, min(window, steps), seed)
        # Later episodes only follow an early ruin.
        trades = env.trades().filter(pl.col("episode") == 0).sort("entry_bar", "exit_bar")
    finally:
        env.close()
    return _result(agent.name, market, cfg, record, trades)


_RECORDED = ("equity", "step_return", "position", "cost", "fees", "fill_quantity", "fill_price")


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
    costs, fees = float(record["cost"][alive].sum()), float(record["fees"][alive].sum())
    started = cfg.initial_cash * alive.shape[1]
    last = alive.sum(axis=0) - 1
    gross = float(record["equity"][last, np.arange(alive.shape[1])].sum()) - started + costs
    notional = np.abs(record["fill_quantity"] * np.nan_to_num(record["fill_price"]))[alive].sum()
    shares = np.bincount(record["action"][alive][:, 0], minlength=len(_layout.Direction)) / alive.sum()
    chosen = shares[shares > 0]
    return {
        "fees": fees,
        "slippage": costs - fees,
        "gross_pnl": gross,
        "cost_share": costs / abs(gross) if gross else math.nan,
        "turnover": float(notional) * market.contract.multiplier / started,
        "action_entropy": float(-(chosen * np.log(chosen)).sum() / math.log(len(_layout.Direction))),
    }


def _result(
    name: str, market: Market, cfg: EnvConfig, record: dict[str, Array], trades: pl.DataFrame
) -> EvaluationResult:
    alive = record["alive"]
    steps = len(market) - 1 - market.first_ready
    windows = alive.shape[1]
    length = math.ceil(steps / windows)
    returns = np.zeros((windows, length))  # a ruined account earns nothing for the rest of its window
    returns[:, : len(alive)] = np.where(alive, record["step_return"], 0.0).T
    returns = returns.reshape(-1)[:steps]
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
        "costs": float(record["cost"][alive].sum()),
        "exposure": float((record["position"][alive] != 0).sum() / steps),
        "mean_return_lower_bound": float(np.mean(returns)) - _ONE_SIDED_95 * spread / math.sqrt(steps),
    }
    chosen = record["action"][alive]
    actions = {
        branch: {option.name.lower(): int((chosen[:, b] == option).sum()) for option in options}
        for b, (branch, options) in enumerate(_BRANCHES.items())
    }
    return EvaluationResult(name, market, cfg, numbers, equity, returns, trades, actions)
