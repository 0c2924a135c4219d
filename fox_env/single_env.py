"""One account as an ordinary Gymnasium environment: a batch of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from fox_env.arguments import RENDER_FPS, RENDER_MODES
from fox_env.config import EnvConfig
from fox_env.device_metrics import BatchMetrics
from fox_env.errors import ConfigError
from fox_env.market import Market
from fox_env.vector_env import FoxFuturesVectorEnv

__all__ = ["FoxFuturesEnv"]

_BATCH_ONLY = {
    "autoreset_mode",
    "copy",
    "info_level",
    "market_of",
    "markets",
    "num_envs",
    "output",
    "threads",
}
_INFO = {"info.": "", "counterfactual.": "counterfactual_"}
"""Beginning of a slot's name -> beginning of the name in the info."""


class FoxFuturesEnv(gym.Env[NDArray[np.float32], Any]):
    """A futures account that trades one market.

    Parameters
    ----------
    market, config, contract, read_hints, action_type, trade_capacity, metrics, max_episode_steps, render_mode
        As :class:`~fox_env.FoxFuturesVectorEnv`.
    **options
        As :class:`~fox_env.FoxFuturesVectorEnv`.
    backend
        ``"cpu"`` is fastest for a single account.

    Examples
    --------
    >>> import gymnasium, fox_env
    >>> env = gymnasium.make("Fox-Futures-v0", horizon=100)
    >>> obs, info = env.reset(seed=7)
    >>> obs.shape, info["position"]
    ((128,), 0.0)
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": RENDER_FPS}

    def __init__(
        self,
        market: Market | str | os.PathLike[str] | None = None,
        config: EnvConfig | None = None,
        *,
        contract: str | None = None,
        read_hints: Mapping[str, Any] | None = None,
        backend: str = "cpu",
        action_type: str = "branches",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        for name in _BATCH_ONLY & options.keys():
            raise ConfigError(
                f"{name}= is an option of a batch, and this environment is one account; use FoxFuturesVectorEnv"
            )
        self._batch = FoxFuturesVectorEnv(
            1,
            market,
            config,
            contract=contract,
            read_hints=read_hints,
            backend=backend,
            autoreset_mode=AutoresetMode.DISABLED,
            copy=False,  # this class copies the one row it returns
            action_type=action_type,
            render_mode=render_mode,
            **options,
        )
        fields: dict[str, NDArray[Any]] = {
            key + slot.removeprefix(start): values
            for start, key in _INFO.items()
            for slot, values in self._batch.outputs.items()
            if slot.startswith(start)
        }
        self._scalars = {name: values for name, values in fields.items() if values.ndim == 1}
        self._rows = {name: values for name, values in fields.items() if values.ndim > 1}
        self.observation_space = self._batch.single_observation_space
        self.action_space = self._batch.single_action_space
        self.render_mode = render_mode

    @property
    def market(self) -> Market:
        """The market that the account trades."""
        return self._batch.market

    @property
    def config(self) -> EnvConfig:
        """The account's options."""
        return self._batch.config

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode; ``options["start"]`` names its first decision bar."""
        super().reset(seed=seed)
        chosen = dict(options or {})
        if "start" in chosen:
            chosen["start"] = np.atleast_1d(chosen["start"])
        obs, _ = self._batch.reset(seed=seed, options=chosen)
        return obs[0].copy(), self._info()

    def step(
        self, action: Any, conviction: float | None = None
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Advance by one bar; see :meth:`fox_env.FoxFuturesVectorEnv.step`."""
        factor = None if conviction is None else np.array([conviction], dtype=np.float32)
        obs, reward, terminated, truncated, _ = self._batch.step(np.asarray(action)[None], factor)
        return obs[0].copy(), reward.item(), terminated.item(), truncated.item(), self._info()

    def _info(self) -> dict[str, Any]:
        """The account's scalars and its four branch flags, read at once rather than through the batch's masks."""
        info = {name: values.item() for name, values in self._scalars.items()}
        for name, values in self._rows.items():
            info[name] = values[0].tolist() if values.ndim == 2 else values[0].copy()
        return info

    def action_masks(self) -> NDArray[np.bool_]:
        """Distinct legal actions of the present state: (13,) or (8,) bool."""
        masks: NDArray[np.bool_] = self._batch.action_masks()[0]
        return masks

    @property
    def knobs(self) -> dict[str, dict[str, Any]]:
        """See :attr:`fox_env.FoxFuturesVectorEnv.knobs`."""
        return self._batch.knobs

    def set_knob(self, name: str, value: float) -> None:
        """See :meth:`fox_env.FoxFuturesVectorEnv.set_knob`."""
        self._batch.set_knob(name, value)

    def state_dict(self) -> dict[str, Any]:
        """The exact state as NumPy arrays by name; see :meth:`fox_env.FoxFuturesVectorEnv.state_dict`."""
        return self._batch.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken."""
        self._batch.load_state_dict(state)

    def trades(self) -> Any:
        """Every finished trade since the last seeding, as a polars frame."""
        return self._batch.trades()

    def metrics(self) -> BatchMetrics:
        """See :meth:`fox_env.FoxFuturesVectorEnv.metrics`."""
        return self._batch.metrics()

    def reset_metrics(self) -> None:
        """Begin the figures of :meth:`metrics` anew."""
        self._batch.reset_metrics()

    def render(self) -> Any:
        """A text or a picture of the account, by ``render_mode``."""
        frames = self._batch.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Free the account's memory."""
        self._batch.close()
