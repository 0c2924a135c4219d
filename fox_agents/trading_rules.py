"""The rules an agent is scored under: its own, without what exists for training only."""

import dataclasses
from typing import Any

from fox_env import ContractSpec, EnvConfig, FoxFuturesVectorEnv
from fox_env.errors import ConfigError
from fox_env.knobs import PHYSICS_KNOB_OPTIONS
from fox_env.params import risk_unit

__all__ = ["agent_rules", "evaluation_config", "first_difference", "require_own_rules", "without_knobs"]

# Options that decide no fill, no cost and no limit while the scales are 0. Every other one is a rule of the account.
_NO_MONEY = frozenset(
    (
        "exploration_scale",
        "shaping_scale",
        "saboteur",
        "counterfactual",
        "random_start",
        "horizon",
        "reward",
        "reward_scale",
        "risk_unit",
        "reward_weights",
        "early_exit_bars",
        "path_band",
        "carry_price",
        "floor_penalty",
        "loss_cap",
        "gain_cap",
        "validate_actions",
    )
)


def agent_rules(env: FoxFuturesVectorEnv) -> EnvConfig:
    """The environment's rules with the risk unit of its market, so that it travels with the agent.

    Several markets have a unit each, which no single number can stand for.
    """
    config = env.present_config
    if len(env.markets) > 1:
        return config
    return config.replace(risk_unit=risk_unit(env.market, config))


def without_knobs(rules: dict[str, Any]) -> dict[str, Any]:
    """Rules but for those that are physics knobs, which may have been set since the environment was made."""
    return {name: value for name, value in rules.items() if name not in PHYSICS_KNOB_OPTIONS}


def evaluation_config(cfg: EnvConfig) -> EnvConfig:
    """``cfg`` without what exists for training only: saboteur, shaping, random starts, horizon."""
    return dataclasses.replace(
        cfg, exploration_scale=0.0, shaping_scale=0.0, random_start=False, horizon=None, counterfactual=False
    )


def first_difference(
    first: EnvConfig, second: EnvConfig, contract: ContractSpec
) -> tuple[str, Any, Any] | None:
    """The first option touching money in which two configurations differ, with both values; None without one.

    A fee left to the contract equals the same fee given by number.
    """
    ours, theirs = _money(first, contract), _money(second, contract)
    for name, value in ours.items():
        if value != theirs[name]:
            return name, value, theirs[name]
    return None


def require_own_rules(trained: EnvConfig, given: EnvConfig, contract: ContractSpec) -> None:
    """ConfigError naming the first rule in which an evaluation differs from the agent's training."""
    difference = first_difference(trained, given, contract)
    if difference is not None:
        name, own, other = difference
        raise ConfigError(
            f"the agent was trained with {name}={own!r} and would be evaluated with {other!r}; leave cfg out, or pass "
            "other_rules=True to evaluate it under other rules on purpose"
        )


def _money(cfg: EnvConfig, contract: ContractSpec) -> dict[str, Any]:
    rules = {
        field.name: getattr(cfg, field.name)
        for field in dataclasses.fields(cfg)
        if field.name not in _NO_MONEY
    }
    rules["close_at_end"] = cfg.sells_at_end
    rules["fee for closing on the same day"] = (
        contract.closes_today_apart and cfg.fee_per_side is None and cfg.fee_rate is None
    )
    for name in ("fee_per_side", "fee_rate"):
        if rules[name] is None:
            rules[name] = getattr(contract, name)
    if rules["maker_fee"] is None:
        rules["maker_fee"] = contract.maker_fee if contract.maker_fee is not None else rules["fee_per_side"]
    return rules
