"""Stable-Baselines3: a batch of accounts as one of its vectorised environments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env.adapters.batch import adapted_batch, last_field, read_info_keys, refuse_part, set_batch_knob
from fox_env.errors import ActionError, ConfigError
from fox_env.vector_env import FoxFuturesVectorEnv

try:
    from stable_baselines3.common.vec_env import VecEnv
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices
except ImportError as error:
    raise ImportError(f"{error}; run `pip install 'fox-futures[sb3]'`") from error

__all__ = ["FoxVecEnv"]

_DEALT = ("action_masks", "render")  # methods whose result has one item an environment
_REFUSED = ("reset", "step", "close")  # they would pass this class by


class FoxVecEnv(VecEnv):
    """A :class:`~fox_env.FoxFuturesVectorEnv` as a Stable-Baselines3 ``VecEnv``.

    Parameters
    ----------
    env
        An environment with NumPy outputs in SAME_STEP mode, best made with ``copy=False``; None makes one.
    info_keys
        Info fields that the dictionaries carry, by their names in Fox (``"equity"``, ``"counterfactual_reward"``). A
        field of an event (``"trade_return"``) is there where the event happened; where an episode ended every field is
        there, of the episode that ended. Every field costs N Python objects a step.
    **arguments
        Arguments of the environment that is made.

    Raises
    ------
    ConfigError
        If the environment does not fit, or lacks a field of ``info_keys``.

    Notes
    -----
    Observations are (N, 128) float32, rewards (N,) float32, dones (N,) bool: the caller's own arrays, copied once out
    of the batch; a GPU hands all of a step over in one transfer. The info of an ended episode holds
    ``terminal_observation`` (128,) and ``TimeLimit.truncated``, which is False for a ruin on the last allowed bar.

    ``seed(s)`` gives environment ``i`` the seed ``s + i`` at the next reset, as Stable-Baselines3 does: it then plays
    as ``FoxFuturesEnv.reset(seed=s + i)`` does. Batches side by side need seeds at least N apart. ``set_options`` takes
    ``{"start": bar}``, for all or one an environment.

    Examples
    --------
    >>> from fox_env.adapters.sb3 import FoxVecEnv
    >>> env = FoxVecEnv(num_envs=4, market="regimes:seed=0", action_type="discrete", horizon=100, backend="cpu")
    >>> env.seed(7)
    [7, 8, 9, 10]
    >>> env.reset().shape
    (4, 128)
    """

    def __init__(
        self, env: FoxFuturesVectorEnv | None = None, *, info_keys: Iterable[str] = (), **arguments: Any
    ) -> None:
        self._info_keys = read_info_keys(info_keys)
        self.env = adapted_batch(env, arguments, output="numpy", info_level="none", info_keys=self._info_keys)
        self._actions: Any = None
        super().__init__(self.env.num_envs, self.env.single_observation_space, self.env.single_action_space)

    # ---- stepping --------------------------------------------------------------------------------------------

    def reset(self) -> NDArray[np.float32]:
        """Begin new episodes with the seeds and options given since the last reset.

        Raises
        ------
        ActionError, ConfigError
            For options that are unknown or do not fit.
        """
        seeds = None if None in self._seeds else list(self._seeds)
        start = self._take_start()
        obs, info = self.env.reset(seed=seeds, options=None if start is None else {"start": start})  # type: ignore[arg-type]
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = self._dictionaries(info)
        return self._own("obs", obs)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Hold the actions for :meth:`step_wait`."""
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Advance every account by one bar.

        Returns
        -------
        observations, rewards, dones, infos
            An ended episode's observation is the first one of the next.

        Raises
        ------
        ActionError
            For actions outside the action space.
        """
        obs, reward, terminated, truncated, info = self.env.step(self._actions)
        dones = terminated | truncated
        infos = self._dictionaries(info)
        ended = np.flatnonzero(dones).tolist()
        if ended:
            final = info["final_obs"]
            fields = {key: _items(last_field(info, key)) for key in self._info_keys}
            for i in ended:
                infos[i] = {key: values[i] for key, values in fields.items()}
                infos[i]["terminal_observation"] = final[i]
                infos[i]["TimeLimit.truncated"] = bool(truncated[i])  # the batch sets one flag: ruin wins
        return self._own("obs", obs), self._own("reward", reward), dones, infos

    def close(self) -> None:
        """Free the batch's memory."""
        self.env.close()

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """The pictures of ``render_mode="rgb_array"``, one an environment."""
        frames: Any = self.env.render()
        return [None] * self.num_envs if frames is None else list(frames)

    # ---- what every environment of the batch has ---------------------------------------------------------------

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of the batch, once for each of ``indices``; ``market`` and the knobs are those of each.

        Raises
        ------
        AttributeError
            If the batch has none of this name.
        """
        chosen = list(self._get_indices(indices))
        if attr_name == "market":
            return [self.env.markets[self.env.market_of[i]] for i in chosen]
        if attr_name in self.env.knobs:
            return [self.env.knobs[attr_name]["value"]] * len(chosen)
        return [getattr(self.env, attr_name)] * len(chosen)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set a knob, of the whole batch.

        Raises
        ------
        ConfigError
            For any other attribute, which the accounts would not heed, and for a part of the batch.
        """
        set_batch_knob(self.env, attr_name, value, list(self._get_indices(indices)), "indices")

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the batch once.

        Returns
        -------
        list
            For ``action_masks`` (13,) or (8,) bool and for ``render`` a frame of each of ``indices``; for other methods
            the one result, once for each.

        Raises
        ------
        ConfigError
            For ``reset``, ``step`` and ``close``, and for a part of the batch where the method acts on all of it.
        """
        if method_name in _REFUSED:
            raise ConfigError(
                f"env_method({method_name!r}) would pass the VecEnv by; call its own {method_name}()"
            )
        chosen = list(self._get_indices(indices))
        if method_name not in _DEALT:
            refuse_part(f"{method_name}()", self.env, chosen, "indices")
        result = getattr(self.env, method_name)(*method_args, **method_kwargs)
        if method_name in _DEALT and result is not None:
            return [result[i] for i in chosen]
        return [result] * len(chosen)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        """False for each: the batch has no wrapper inside."""
        return [False for _ in self._get_indices(indices)]

    # ---- helpers -----------------------------------------------------------------------------------------------

    def _own(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """The caller's own array: a copy, unless the environment has made one."""
        return values.copy() if values is self.env.outputs[name] else values

    def _take_start(self) -> NDArray[np.int64] | None:
        unknown = set().union(*self._options) - {"start"}
        if unknown:
            raise ConfigError(f"unknown reset option {min(unknown)!r}; an environment takes 'start'")
        if not any(self._options):
            return None
        bars = [options.get("start", -1) for options in self._options]
        for i, bar in enumerate(bars):
            if not isinstance(bar, (int, np.integer)):
                raise ActionError(f"start of environment {i} must be one whole decision bar, got {bar!r}")
        return np.array(bars, dtype=np.int64)

    def _dictionaries(self, info: dict[str, Any]) -> list[dict[str, Any]]:
        """The info of the fields asked for, one dictionary an environment."""
        out: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for key in self._info_keys:
            values, there = _items(info[key]), info[f"_{key}"].tolist()
            for one, value, happened in zip(out, values, there, strict=True):
                if happened:
                    one[key] = value
        return out


def _items(field: NDArray[Any]) -> list[Any]:
    """One item an environment, as a single environment's info has it: a number, a list, or an array of its own."""
    return field.tolist() if field.ndim <= 2 else list(field.copy())
