"""From the options of an environment to a backend with the memory, parameters and rules that they need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from fox_env import _layout
from fox_env.backends import Backend, make_backend, resolve_backend
from fox_env.backends.buffers import plan_buffers
from fox_env.config import EnvConfig
from fox_env.info import info_fields
from fox_env.market import Market
from fox_env.params import make_params, rules_in_use
from fox_env.trades import default_capacity

__all__ = ["allocate_batch"]

_MODES = {mode: _layout.AutoresetMode[mode.name] for mode in AutoresetMode}


def allocate_batch(
    config: EnvConfig,
    markets: Sequence[Market],
    market_of: NDArray[np.int32],
    *,
    backend: str,
    torch_output: bool,
    autoreset_mode: AutoresetMode,
    info_level: str,
    action_type: str,
    trade_capacity: int | None,
    metrics: bool,
    threads: int | None,
) -> Backend:
    """Allocate the batch of an environment; ``market_of`` is the (N,) index of the market of each account.

    The other arguments are those of :class:`~fox_env.FoxFuturesVectorEnv`, checked.

    Raises
    ------
    ConfigError
        For an unknown ``backend``.
    BackendError
        If the backend or its output cannot be used here.
    DataError
        If a market is too short to trade in.
    """
    num_envs = len(market_of)
    fields = info_fields(info_level, config)
    same_step = autoreset_mode == AutoresetMode.SAME_STEP
    if trade_capacity is None:
        longest = max(len(markets[used]) for used in np.unique(market_of))
        trade_capacity = default_capacity(num_envs, longest, info_level)
    plan = plan_buffers(
        num_envs,
        fields,
        same_step=same_step,
        final_info=info_level == "full",
        final_masks=same_step and torch_output and bool(fields) and action_type == "branches",
        counterfactual=config.counterfactual,
        ledger_capacity=trade_capacity,
        metrics=metrics,
    )
    return make_backend(
        resolve_backend(backend, torch_output=torch_output),
        plan,
        [make_params(market, config, _MODES[autoreset_mode]) for market in markets],
        markets,
        market_of,
        rules=rules_in_use(config, markets),
        torch_output=torch_output,
        threads=threads,
    )
