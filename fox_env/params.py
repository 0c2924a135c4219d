"""From options, contract and market to the parameter structure that the physics reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.config import EnvConfig
from fox_env.errors import ActionError, DataError
from fox_env.market import Market

__all__ = ["make_params", "risk_unit", "rules_in_use", "seed_arrays", "seed_key"]


def risk_unit(market: Market, config: EnvConfig) -> float:
    """Money: U = risk_atr * mean ATR * max_position * tick value, over the bars that episodes may start on.

    A validation environment takes the training market's value through ``EnvConfig.risk_unit``.
    """
    if config.risk_unit is not None:
        return config.risk_unit
    mean_atr = float(market.columns.atr[market.first_ready :].mean())
    return config.risk_atr * mean_atr * config.max_position * market.contract.tick_value


def rules_in_use(config: EnvConfig, markets: Sequence[Market]) -> int:
    """``Rules`` bits (layout.cuh) of the groups of rules that accounts of these options and markets use."""
    day_margins = config.margin and any(
        market.contract.day_maintenance_margin is not None for market in markets
    )
    used = {
        _layout.Rules.EXITS: config.has_exits or day_margins,
        _layout.Rules.KELLY: config.kelly,
        _layout.Rules.LATENCY: config.latency_bars > 0,
        _layout.Rules.TRADE_REWARD: config.reward == "trade",
        _layout.Rules.CLOSE_TODAY: any(market.contract.closes_today_apart for market in markets),
    }
    return sum(int(rule) for rule, on in used.items() if on)


def _starts(market: Market, config: EnvConfig) -> tuple[int, int]:
    """First start and number of starts: a drawn episode has room for its whole horizon where the data allow it."""
    if len(market) < 2:
        raise DataError("a market of 1 bar has no bar to trade in; use at least 2 bars")
    first = min(market.first_ready, len(market) - 2)
    last = len(market) - 1 - (config.horizon or 1) if config.random_start else first
    return first, max(last - first, 0) + 1


def make_params(market: Market, config: EnvConfig, autoreset_mode: int) -> Any:
    """Fill ``EnvParams`` (layout.cuh)."""
    contract = market.contract
    first_start, start_count = _starts(market, config)

    def own(option: float | None, otherwise: float) -> float:
        return otherwise if option is None else option

    fee = own(config.fee_per_side, contract.fee_per_side)
    fee_rate = own(config.fee_rate, contract.fee_rate)
    maker = config.maker_fee if config.maker_fee is not None else own(contract.maker_fee, fee)
    initial, maintenance = contract.initial_margin, contract.maintenance_margin
    # Fees given by name are those of every fill: the contract's fee for closing on the same day goes with its others.
    own_fees = config.fee_per_side is not None or config.fee_rate is not None
    return _layout.EnvParams(
        initial_cash=config.initial_cash,
        lot=config.lot,
        tick_value=contract.tick_value,
        tick_size=contract.tick_size,
        floor_equity=config.capital_floor * config.initial_cash,
        half_spread=config.half_spread_ticks,
        impact_coef=config.impact_coef if market.has_volume else 0.0,
        fee_per_side=fee,
        fee_rate=fee_rate,
        maker_fee=maker,
        initial_margin=own(contract.day_initial_margin, initial) if config.margin else 0.0,
        maintenance_margin=own(contract.day_maintenance_margin, maintenance) if config.margin else 0.0,
        overnight_margin=maintenance if config.margin else 0.0,
        today_fee=own(contract.close_today_fee, fee),
        today_fee_rate=own(contract.close_today_rate, fee_rate),
        participation=config.participation,
        limit_offset=config.limit_offset_ticks,
        ioc_tolerance=config.ioc_tolerance_ticks,
        queue_prob=config.queue_prob,
        risk_atr=config.risk_atr,
        target_atr=own(config.profit_target_atr, 0.0),
        risk_unit=risk_unit(market, config),
        reward_scale=config.reward_scale,
        loss_cap=config.loss_cap,
        gain_cap=config.gain_cap,
        path_band=config.path_band,
        carry_price=config.carry_price,
        floor_penalty=config.floor_penalty,
        saboteur_low=config.saboteur[0],
        saboteur_high=config.saboteur[1],
        max_lots=config.max_lots,
        horizon=config.horizon or 0,
        first_start=first_start,
        start_count=start_count,
        reward_mode=_layout.RewardMode[config.reward.upper()],
        autoreset_mode=autoreset_mode,
        has_volume=market.has_volume,
        close_at_end=config.sells_at_end,
        good_till_cancelled=config.gtc,
        close_today=contract.closes_today_apart and not own_fees,
        min_hold=config.min_hold_bars,
        hard_hold=config.min_hold == "hard",
        kelly=config.kelly,
        latency=config.latency_bars,
        intrabar_margin=config.margin == "intrabar",
        flat_at_session_end=config.flat_at_session_end,
    )


def seed_arrays(seed: int | Sequence[int], num_envs: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Random key and counter word of every environment.

    One seed gives one key and the environment's index as its counter word; a list gives every environment the key of
    its own seed and the counter word 0, as an environment alone would have.
    """
    if isinstance(seed, (int, np.integer)):
        keys = np.full(num_envs, seed_key(_whole(seed)), dtype=np.uint64)
        return keys, np.arange(num_envs, dtype=np.uint32)
    if not isinstance(seed, (list, tuple, np.ndarray)):
        raise ActionError(f"seed={seed!r} must be a whole number from 0, or a list of {num_envs} of them")
    if len(seed) != num_envs:
        raise ActionError(f"reset got {len(seed)} seeds for {num_envs} environments; give one each")
    keys = np.array([seed_key(_whole(s)) for s in seed], dtype=np.uint64)
    return keys, np.zeros(num_envs, dtype=np.uint32)


def _whole(seed: object) -> int:
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ActionError(f"seed {seed!r} must be a whole number from 0")
    return int(seed)


def seed_key(seed: int) -> int:
    """The random key of a seed: splitmix64 (Steele et al. 2014) of its low 64 bits."""
    mask = 2**64 - 1
    z = (seed + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)
