"""Tianshou: a batch of accounts as one of its vectorised environments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fox_env.adapters.batch import adapted_batch, info_slot, last_field, read_info_keys, set_batch_knob
from fox_env.errors import ActionError, ConfigError
from fox_env.vector_env import FoxFuturesVectorEnv

try:
    from tianshou.env import BaseVectorEnv
except ImportError as error:
    raise ImportError(f"{error}; run `pip install 'fox-futures[tianshou]'`") from error

__all__ = ["FoxTianshouEnv"]

Ids = int | Sequence[int] | NDArray[Any] | None

_SPACES = {"action_space": "single_action_space", "observation_space": "single_observation_space"}
_OF_THE_BATCH = ("knobs", "needs_reset", "markets")  # arrays of a state that have no row an environment


class FoxTianshouEnv(BaseVectorEnv):  # type: ignore[misc, unused-ignore]  # a class of Any without tianshou
    """A :class:`~fox_env.FoxFuturesVectorEnv` as a Tianshou ``BaseVectorEnv``.

    Parameters
    ----------
    env
        An environment with NumPy outputs in SAME_STEP mode, best made with ``copy=False``; None makes one.
    info_keys
        Info fields that the dictionaries carry beside ``env_id``, by their names in Fox (``"equity"``).
    **arguments
        Arguments of the environment that is made.

    Raises
    ------
    ConfigError
        If the environment does not fit, or lacks a field of ``info_keys``.

    Notes
    -----
    ``step`` returns the last observation of an episode that ends, and ``reset(ids)`` the first of the next one, as
    Tianshou's collectors want it; the batch has made both in one call. Observations are (R, 128) float32, rewards (R,)
    float32, both flags (R,) bool for R ids: the caller's own arrays.

    A step of some ids moves the whole batch and puts the others back, which costs a copy of the state. A collector does
    so only near the end of ``collect(n_episode=...)``, or when it is asked for fewer episodes than there are accounts.

    ``seed(s)`` begins the episode of ``FoxFuturesEnv.reset(seed=s + i)`` in environment ``i``.

    Examples
    --------
    >>> from fox_env.adapters.tianshou import FoxTianshouEnv
    >>> env = FoxTianshouEnv(num_envs=4, market="regimes:seed=0", action_type="discrete", horizon=100, backend="cpu")
    >>> obs, infos = env.reset()
    >>> env.step([0, 7], id=[1, 3])[0].shape
    (2, 128)
    """

    def __init__(
        self, env: FoxFuturesVectorEnv | None = None, *, info_keys: Iterable[str] = (), **arguments: Any
    ) -> None:
        # The base class's constructor would make one worker an account; nothing else of it is wanted.
        self._info_keys = read_info_keys(info_keys)
        self.env = adapted_batch(env, arguments, output="numpy", info_level="none", info_keys=self._info_keys)
        self.env_num = self.env.num_envs
        self.is_async = False
        self.is_closed = False
        self._already_reset = np.zeros(self.env_num, dtype=np.bool_)
        self._started = False

    # ---- Tianshou's calls --------------------------------------------------------------------------------------

    def reset(
        self, env_id: Ids = None, *, options: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.object_]]:
        """Begin new episodes in the environments of ``env_id``, or in all.

        Parameters
        ----------
        env_id
            Indices; None means all.
        options
            ``{"start": bar}``: the first decision bar, of each of them.

        Returns
        -------
        observations, infos
            (R, 128) float32 and (R,) dictionaries, in the order of ``env_id``. Of an episode that follows another, the
            account's fields are its own; those of events still tell of the step before it.

        Raises
        ------
        ConfigError
            For other arguments; use :meth:`seed` for seeds.
        ActionError
            For a first reset of a part.
        """
        if kwargs:
            raise ConfigError(
                f"reset({min(kwargs)}=) is not for single environments; use seed() and options="
            )
        ids = self._ids(env_id)
        chosen = np.zeros(self.env_num, dtype=np.bool_)
        chosen[ids] = True
        begin = chosen if options else chosen & ~self._already_reset
        if begin.any():
            self._begin(begin, dict(options or {}))
        self._already_reset[chosen] = False
        obs, *infos = (self.env.outputs[name] for name in self._shown)
        return obs[ids], _dictionaries(ids, dict(zip(self._info_keys, infos, strict=True)))

    def step(
        self, action: Any, id: Ids = None
    ) -> tuple[
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.bool_],
        NDArray[np.bool_],
        NDArray[np.object_],
    ]:
        """Advance the environments of ``id``, or all, by one bar; the others stay as they are.

        Returns
        -------
        observations, rewards, terminated, truncated, infos
            In the order of ``id``.

        Raises
        ------
        ActionError
            For actions outside the action space, and for an environment that has ended and was not reset.
        """
        ids = self._ids(id)
        ended = self._already_reset[ids]
        if ended.any():
            raise ActionError(f"the episode of environment {ids[ended][0]} has ended; reset it first")
        given = np.asarray(action)
        if len(given) != len(ids):
            raise ActionError(f"{len(given)} actions for {len(ids)} environments; give one each")
        actions = np.zeros((self.env_num, *given.shape[1:]), dtype=given.dtype)
        actions[ids] = given
        if len(ids) == self.env_num:
            return self._advance(ids, actions)
        others = np.setdiff1d(np.arange(self.env_num), ids)
        state = self.env.state_dict()
        shown = {name: self.env.outputs[name][others] for name in self._shown}
        result = self._advance(ids, actions)
        self._put_back(others, state, shown)
        return result

    def seed(self, seed: int | Sequence[int] | None = None) -> list[list[int] | None]:
        """Begin a seeded episode in every environment: ``seed + i`` in environment ``i``, or one seed each."""
        if seed is None:
            seeds = [int(s) for s in np.random.SeedSequence().generate_state(self.env_num)]
        else:
            seeds = (
                [seed + i for i in range(self.env_num)] if isinstance(seed, (int, np.integer)) else list(seed)
            )
        self.env.reset(seed=seeds)
        self._started = True
        self._already_reset[:] = False
        return [[s] for s in seeds]

    def render(self, **kwargs: Any) -> list[Any]:
        """One text or picture an environment, by ``render_mode``."""
        frames = self.env.render()
        return [None] * self.env_num if frames is None else list(frames)

    def close(self) -> None:
        """Free the batch's memory."""
        self.env.close()
        self.is_closed = True

    # ---- what every environment of the batch has ---------------------------------------------------------------

    def get_env_attr(self, key: str, id: Ids = None) -> list[Any]:
        """An attribute of the batch, once for each of ``id``: its single spaces, and the market of each.

        Raises
        ------
        AttributeError
            If the batch has none of this name.
        """
        ids = self._ids(id)
        if key == "market":
            return [self.env.markets[self.env.market_of[i]] for i in ids]
        return [getattr(self.env, _SPACES.get(key, key))] * len(ids)

    def set_env_attr(self, key: str, value: Any, id: Ids = None) -> None:
        """Set a knob, of the whole batch.

        Raises
        ------
        ConfigError
            For any other attribute, which the accounts would not heed, and for a part of the batch.
        """
        set_batch_knob(self.env, key, value, self._ids(id).tolist(), "id")

    # ---- helpers -----------------------------------------------------------------------------------------------

    def _ids(self, chosen: Ids) -> NDArray[np.int64]:
        """Indices as an array."""
        if chosen is None:
            return np.arange(self.env_num)
        ids = np.atleast_1d(np.asarray(chosen))
        bad = [i for i in ids.tolist() if not 0 <= i < self.env_num]
        if bad or len(np.unique(ids)) != len(ids):
            raise ActionError(f"ids {ids.tolist()} must be different ones from 0 to {self.env_num - 1}")
        return ids.astype(np.int64)

    def _begin(self, mask: NDArray[np.bool_], options: dict[str, Any]) -> None:
        if "start" in options:
            options["start"] = np.full(self.env_num, options["start"])
        if self._started:
            options["reset_mask"] = mask
        elif not mask.all():
            raise ActionError("the first reset must reset every environment; call reset() without ids first")
        self.env.reset(options=options)
        self._started = True

    def _advance(self, ids: NDArray[np.int64], actions: NDArray[Any]) -> tuple[Any, ...]:
        """The rows of ``ids`` after a step of the batch, copied out of it."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        done = terminated | truncated
        rows = obs[ids]
        fields = {name: info[name].copy() for name in self._info_keys}
        for row, i in enumerate(ids.tolist()):
            if done[i]:
                rows[row] = info["final_obs"][i]
                for name in self._info_keys:
                    fields[name][i] = last_field(info, name)[i]
        self._already_reset[ids] = done[ids]
        return rows, reward[ids], terminated[ids], truncated[ids], _dictionaries(ids, fields)

    @property
    def _shown(self) -> list[str]:
        """Names of the outputs that :meth:`reset` reads."""
        return ["obs", *map(info_slot, self._info_keys)]

    def _put_back(
        self, others: NDArray[np.int64], state: dict[str, Any], shown: dict[str, NDArray[Any]]
    ) -> None:
        """Undo the step in the environments ``others``."""
        after = self.env.state_dict()
        for name, rows in after.items():
            if name not in _OF_THE_BATCH:
                rows[others] = state[name][others]
        self.env.load_state_dict(after)
        for name, rows in shown.items():
            self.env.outputs[name][others] = rows


def _dictionaries(ids: NDArray[np.int64], fields: Mapping[str, NDArray[Any]]) -> NDArray[np.object_]:
    """One dictionary for each of ``ids`` with its fields."""
    out = np.empty(len(ids), dtype=object)
    for row, i in enumerate(ids.tolist()):
        out[row] = {"env_id": i, **{name: values[i].tolist() for name, values in fields.items()}}
    return out
