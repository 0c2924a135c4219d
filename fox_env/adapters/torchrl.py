"""TorchRL: a batch of accounts as one of its environments, on the CPU or all on the GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium as gym

from fox_env import _layout
from fox_env.adapters.batch import adapted_batch, info_slot, last_field, read_info_keys
from fox_env.errors import ConfigError
from fox_env.vector_env import FoxFuturesVectorEnv

try:
    import torch
    from tensordict import TensorDict, TensorDictBase
    from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, Unbounded
    from torchrl.envs import EnvBase
except ImportError as error:
    raise ImportError(f"{error}; run `pip install 'fox-futures[torchrl]'`") from error

__all__ = ["FoxTorchRLEnv"]


class FoxTorchRLEnv(EnvBase):  # type: ignore[misc, unused-ignore]  # a class of Any where torchrl is not installed
    """A :class:`~fox_env.FoxFuturesVectorEnv` as a TorchRL ``EnvBase`` of batch size (N,).

    Parameters
    ----------
    env
        An environment with torch outputs in SAME_STEP mode, best made with ``copy=False``; None makes one.
    action_masks
        Add ``"action_mask"``: (N, 13) or (N, 8) bool, the distinct actions.
    info_keys
        Info fields to add, by their names in Fox (``"equity"``, ``"counterfactual_reward"``): (N,) each, (N, 4) for
        ``branch_active``, (N, 8) and (N, 8, 42) for counterfactuals.
    **arguments
        Arguments of the environment that is made.

    Raises
    ------
    ConfigError
        If the environment does not fit, or lacks a field that is asked for.

    Notes
    -----
    ``("next", "observation")`` is the true result of the step, also where an episode ends; the first observation of the
    next episode is what the partial reset after it returns, which resets nothing more. At an end that is true of masks
    and infos as well, but for the masks of single exposures (``action_type="discrete"``), which are all True there. The
    first state of the next episode has infos of its own account; those of events still tell of the step before it.

    Observations (N, 128) float32, ``"reward"`` (N, 1) float32, ``"done"``, ``"terminated"`` and ``"truncated"`` (N, 1)
    bool are tensors of the caller's, on the device of the batch: nothing of a step or of the reset after it crosses to
    the host. ``set_seed(s)`` makes the next reset play as ``FoxFuturesVectorEnv.reset(seed=s)`` does.

    Examples
    --------
    >>> from fox_env.adapters.torchrl import FoxTorchRLEnv
    >>> env = FoxTorchRLEnv(num_envs=4, market="regimes:seed=0", horizon=100, backend="cpu")
    >>> env.rollout(10)["next", "observation"].shape
    torch.Size([4, 10, 128])
    """

    def __init__(
        self,
        env: FoxFuturesVectorEnv | None = None,
        *,
        action_masks: bool = False,
        info_keys: Iterable[str] = (),
        **arguments: Any,
    ) -> None:
        names = read_info_keys(info_keys)
        level = "learn" if action_masks else "none"
        batch = adapted_batch(env, arguments, output="torch", info_level=level, info_keys=names)
        super().__init__(device=torch.device(batch.device), batch_size=torch.Size([batch.num_envs]))
        self.env = batch
        self._info_keys = names
        self._has_masks = action_masks
        self._branches = isinstance(batch.single_action_space, gym.spaces.MultiDiscrete)
        if action_masks and self._branches and "final_masks" not in batch.outputs:
            raise ConfigError(
                "action_masks=True needs the masks of an episode's last state; use info_level='learn'"
            )
        self._seed: int | None = None
        self._already_reset = torch.zeros(self.batch_size, dtype=torch.bool, device=self.device)
        self._make_specs()

    def _make_specs(self) -> None:
        size, device = self.batch_size, self.device
        space: Any = self.env.single_observation_space
        seen: dict[str, Any] = {
            "observation": Bounded(
                float(space.low.min()),
                float(space.high.max()),
                shape=(*size, *space.shape),
                dtype=torch.float32,
                device=device,
            )
        }
        if self._has_masks:
            width = sum(_layout.ACTION_BRANCHES) if self._branches else self._exposures
            seen["action_mask"] = Binary(width, shape=(*size, width), dtype=torch.bool, device=device)
        for name in self._info_keys:
            held = self.env.outputs[info_slot(name)]
            seen[name] = Unbounded(shape=held.shape, dtype=held.dtype, device=device)
        self.observation_spec = Composite(seen, shape=size, device=device)
        self.action_spec = self._make_action_spec()
        self.reward_spec = Unbounded(shape=(*size, 1), dtype=torch.float32, device=device)
        flag = Categorical(2, shape=(*size, 1), dtype=torch.bool, device=device)
        flags = {name: flag.clone() for name in ("done", "terminated", "truncated")}
        self.full_done_spec = Composite(flags, shape=size, device=device)

    @property
    def _exposures(self) -> int:
        """The number of actions of a discrete space."""
        return int(self.env.single_action_space.n)  # type: ignore[attr-defined]

    def _make_action_spec(self) -> Any:
        size, device, space = self.batch_size, self.device, self.env.single_action_space
        if isinstance(space, gym.spaces.MultiDiscrete):
            nvec = space.nvec.tolist()
            return MultiCategorical(nvec, shape=(*size, len(nvec)), dtype=torch.int64, device=device)
        if isinstance(space, gym.spaces.Discrete):
            return Categorical(self._exposures, shape=size, dtype=torch.int64, device=device)
        return Bounded(-1.0, 1.0, shape=(*size, 1), dtype=torch.float32, device=device)

    # ---- TorchRL's calls ---------------------------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        obs, reward, terminated, truncated, info = self.env.step(tensordict["action"])
        done = terminated | truncated
        row = done.unsqueeze(-1)
        out = {"observation": torch.where(row, info["final_obs"], obs)}
        if self._has_masks:
            masks = self.env.action_masks()
            out["action_mask"] = (
                torch.where(row, info["final_masks"], masks) if self._branches else masks | row
            )
        for name in self._info_keys:
            values = info[name]
            rows = done.reshape(-1, *(1,) * (values.ndim - 1))
            out[name] = torch.where(rows, last_field(info, name), values)
        flags = {"reward": reward, "terminated": terminated, "truncated": truncated}
        out |= {name: values.clone().unsqueeze(-1) for name, values in flags.items()}
        self._already_reset = done
        return TensorDict({**out, "done": row}, batch_size=self.batch_size, device=self.device)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None:
            self._begin(None)
        else:
            mask = mask.reshape(self.batch_size)
            unfinished = mask & ~self._already_reset
            if bool(unfinished.any()):
                self._begin(unfinished)
        return self._present()

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Go on with the next episode where one has ended, without asking the device whether any has."""
        tensordict.update(self._present())
        self._already_reset = torch.zeros_like(self._already_reset)
        return tensordict

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Free the batch's memory."""
        super().close(raise_if_closed=raise_if_closed)
        self.env.close()

    # ---- helpers -----------------------------------------------------------------------------------------------

    def _begin(self, mask: torch.Tensor | None) -> None:
        """Reset the batch, or the environments of ``mask``."""
        seed, self._seed = self._seed, None
        self.env.reset(seed=seed, options=None if mask is None else {"reset_mask": mask})
        self._already_reset = torch.zeros_like(self._already_reset)

    def _present(self) -> TensorDictBase:
        """What the batch shows now: the first state of an episode where the last step ended one."""
        live = self.env.outputs
        out: dict[str, Any] = {"observation": live["obs"].clone()}
        if self._has_masks:
            out["action_mask"] = self.env.action_masks()
        out |= {name: live[info_slot(name)].clone() for name in self._info_keys}
        for name in ("done", "terminated", "truncated"):
            out[name] = torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device)
        return TensorDict(out, batch_size=self.batch_size, device=self.device)
