"""How much of a result the trading costs are: the same policy under other costs, and the costs that would use it up.

    break-even multiple = gross P&L / costs

of the trades that were made: with their costs multiplied by it, nothing would be left of their P&L before costs. It
moves no trade; a policy played again under other costs (`cost_sensitivity`) may trade otherwise, as fills, margin and
equity change.
"""

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

from fox_agents.api import Agent
from fox_agents.evaluation import EvaluationResult, evaluate
from fox_agents.evidence import CostPoint
from fox_env import EnvConfig, Market
from fox_env.errors import ConfigError

__all__ = ["break_even", "cost_sensitivity", "with_costs"]

# A fee of the options that is None is the contract's, whose own rules then hold; so both are multiplied.
_OPTIONS = ("half_spread_ticks", "fee_per_side", "fee_rate", "maker_fee", "impact_coef")
_CONTRACT = ("fee_per_side", "fee_rate", "maker_fee", "close_today_fee", "close_today_rate")


def with_costs(market: Market, cfg: EnvConfig, multiple: float) -> tuple[Market, EnvConfig]:
    """The market and options with half-spread, impact and every fee or rebate multiplied.

    Raises
    ------
    ConfigError
        ``multiple`` is negative or not finite.
    """
    if not 0.0 <= multiple < float("inf"):
        raise ConfigError(f"multiple={multiple!r} of the costs must be a finite number, 0 or more")

    options = _times(cfg, _OPTIONS, multiple)
    contract = _times(market.contract, _CONTRACT, multiple)
    return dataclasses.replace(
        market, contract=dataclasses.replace(market.contract, **contract)
    ), cfg.replace(**options)


def cost_sensitivity(
    agent: Agent,
    market: Market,
    cfg: EnvConfig | None = None,
    multiples: Sequence[float] = (0.0, 1.0, 2.0),
    *,
    backend: str = "auto",
    num_envs: int = 1,
    seed: int = 0,
) -> tuple[CostPoint, ...]:
    """Play the agent's policy once for each multiple of the costs.

    Parameters
    ----------
    agent, market, cfg, backend, num_envs, seed
        As for `fox_agents.evaluate`. A rule-based agent is copied, so that each multiple meets the same draws of its
        generator.
    multiples : sequence of float
        Of the half-spread, the impact and all fees and rebates, those of the contract included.

    Raises
    ------
    ConfigError
        A multiple is negative or not finite, or `evaluate` refuses.
    """
    rules = cfg or getattr(agent, "env_config", None) or EnvConfig()
    points = []
    for multiple in multiples:
        priced, options = with_costs(market, rules, multiple)
        found = evaluate(
            agent if agent.learns else copy.deepcopy(agent),
            priced,
            options,
            backend=backend,
            num_envs=num_envs,
            seed=seed,
            other_rules=True,
        ).metrics
        points.append(CostPoint(float(multiple), found["total_return"], found["sharpe"], found["costs"]))
    return tuple(points)


def break_even(result: EvaluationResult) -> float | None:
    """Multiple of the costs at which the gross P&L of these very trades is used up.

    None where there is no gross profit to use up, or no cost to multiply. Below 1 the result lost money.
    """
    gross, costs = result.metrics["gross_pnl"], result.metrics["costs"]
    return gross / costs if gross > 0.0 and costs > 0.0 else None


def _times(holder: Any, names: Sequence[str], multiple: float) -> dict[str, Any]:
    """The fields that are given, multiplied."""
    given = {name: getattr(holder, name) for name in names}
    return {name: multiple * value for name, value in given.items() if value is not None}
