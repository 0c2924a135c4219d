"""The one way to score an agent: the training environment, training-only scales at zero, played greedily."""

import dataclasses
import math
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from gymnasium.vector import AutoresetMode

from fox_agents.api import Agent, Planner
from fox_agents.results import EvaluationResult, numbers_of, with_shares
from fox_agents.trading_rules import evaluation_config, require_own_rules
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, _layout
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
    return {
        "costs": costs,
        "fees": fees,
        "spread_cost": spread,
        "impact_cost": impact,
        "gross_pnl": gross,
        "turnover": float(notional) * market.contract.multiplier / started,
    }


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
    chosen = record["action"][alive]
    actions = {
        branch: _histogram(chosen[:, b], options) for b, (branch, options) in enumerate(_BRANCHES.items())
    }
    executed = _executed(record, alive)
    positions = _in_order(record["position"], alive, length)[:steps]
    numbers = numbers_of(market, returns, equity, positions, trades, actions, executed)
    numbers |= with_shares(_trading(record, alive, cfg, market))
    return EvaluationResult(
        name,
        market,
        cfg,
        numbers,
        equity,
        returns,
        positions,
        _fills(record, alive, length, market),
        trades,
        actions,
        executed,
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
