"""Action spaces, and reading the caller's actions into the form that the kernel takes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from fox_env import _layout
from fox_env.backends import Backend
from fox_env.errors import ActionError, ConfigError

__all__ = ["ACTION_TYPES", "ActionReader", "action_space"]

_Format = _layout.ActionFormat
_BRANCH_FORMATS = {"int64": _Format.BRANCHES_I64, "int32": _Format.BRANCHES_I32, "uint8": _Format.BRANCHES_U8}

_BYTE_ROW = 4  # the kernel reads a row of byte branches as one word, so rows begin on multiples of it

ACTION_TYPES = ("branches", "discrete", "continuous")


def action_space(action_type: str) -> gym.Space[Any]:
    """The action space of one environment.

    Raises
    ------
    ConfigError
        For an unknown type.
    """
    if action_type == "branches":
        return gym.spaces.MultiDiscrete(list(_layout.ACTION_BRANCHES))
    if action_type == "discrete":
        return gym.spaces.Discrete(int(_layout.ActionSpace.EXPOSURES))
    if action_type == "continuous":
        return gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    raise ConfigError(f"action_type={action_type!r} must be one of {', '.join(ACTION_TYPES)}")


class ActionReader:
    """Turns NumPy arrays, sequences and torch tensors into one contiguous array of a format the kernel knows.

    Parameters
    ----------
    backend
        Checks host actions, and names the device that tensors must lie on.
    space
        The action space of one environment.
    validate
        Refuse host actions outside the space before the step.
    """

    def __init__(self, backend: Backend, space: gym.Space[Any], validate: bool) -> None:
        self._backend = backend
        self._num_envs = backend.plan.num_envs
        self._device_index = int(
            backend.device.partition(":")[2] or -1
        )  # -1: the CPU, where no tensor is read in place
        self._space = space
        self._validate = validate
        formats: dict[str, int] = {"float32": _Format.CONTINUOUS_F32}
        self._shape: tuple[int, ...] = (self._num_envs, 1)
        if isinstance(space, gym.spaces.MultiDiscrete):
            formats, self._shape = _BRANCH_FORMATS, (self._num_envs, len(_layout.ACTION_BRANCHES))
        elif isinstance(space, gym.spaces.Discrete):
            formats, self._shape = {"int64": _Format.DISCRETE_I64}, (self._num_envs,)
        # By NumPy dtype (native byte order only) and by the name of torch's.
        self._formats = {np.dtype(name): int(code) for name, code in formats.items()}
        self._tensor_formats = {f"torch.{name}": int(code) for name, code in formats.items()}
        self._known_dtypes: dict[Any, int | None] = {}  # torch's own objects, whose names take long to make
        self._continuous = "float32" in formats

    def read(self, actions: Any, conviction: Any | None) -> tuple[Any, int, Any | None]:
        """The actions as the kernel takes them, their format, and the conviction as float32 or None.

        Raises
        ------
        ActionError
            For a wrong shape or dtype, and, on the host, for a value outside the space.
        """
        if _is_device_tensor(actions):
            return (*self._read_tensor(actions), self._read_conviction(conviction))
        values = self._read_host(actions)
        return values, self._formats[values.dtype], self._read_conviction(conviction)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        return shape == self._shape or (self._shape[1:] == (1,) and shape == self._shape[:1])

    def _read_host(self, actions: Any) -> np.ndarray[Any, Any]:
        values = _host_array(actions, "actions")
        if not self._fits(values.shape):
            raise ActionError(f"actions have shape {values.shape}, the batch needs {self._shape}")
        if values.dtype.kind not in ("fiu" if self._continuous else "iu"):
            raise ActionError(f"actions of dtype {values.dtype} do not fit {self._space}; use integers")
        if values.dtype not in self._formats:
            values = values.astype(np.float32 if self._continuous else np.int64)
        values = np.ascontiguousarray(values)
        if self._validate:
            self._refuse_outside(values)
        return values

    def _refuse_outside(self, values: np.ndarray[Any, Any]) -> None:
        bad = self._backend.first_bad_action(values, self._formats[values.dtype])
        if bad >= 0:
            raise ActionError(f"action {values[bad].tolist()} of environment {bad} is outside {self._space}")

    def _read_tensor(self, actions: Any) -> tuple[Any, int]:
        dtype = actions.dtype
        if dtype not in self._known_dtypes:
            self._known_dtypes[dtype] = self._tensor_formats.get(str(dtype))
        code = self._known_dtypes[dtype]
        if code is None or not self._fits(actions.shape):
            wanted = " or ".join(self._tensor_formats)
            raise ActionError(
                f"actions are {dtype} of shape {tuple(actions.shape)}, the batch needs {wanted} of shape {self._shape}"
            )
        self._refuse_elsewhere(actions, "actions")
        values = actions.contiguous()
        aligned = values.data_ptr() % _BYTE_ROW == 0
        return values if aligned else values.clone(), code

    def _refuse_elsewhere(self, values: Any, what: str) -> None:
        if values.get_device() != self._device_index:
            raise ActionError(
                f"{what} lie on {values.device}, the environment on {self._backend.device}; "
                f"use {what}.to({self._backend.device!r})"
            )

    def _read_conviction(self, conviction: Any | None) -> Any | None:
        if conviction is None:
            return None
        if _is_device_tensor(conviction):
            self._refuse_elsewhere(conviction, "convictions")
            values, shape = conviction.float().contiguous(), tuple(conviction.shape)
        else:
            given = _host_array(conviction, "convictions")
            shape = given.shape
            if given.dtype.kind not in "fiu":
                raise ActionError(f"convictions of dtype {given.dtype} do not fit; use numbers from 0 to 1")
            values = np.ascontiguousarray(given, dtype=np.float32)
            if not ((values >= 0) & (values <= 1)).all():
                raise ActionError("conviction must lie between 0 and 1")
        if shape != (self._num_envs,):
            raise ActionError(f"conviction has shape {shape}, the batch needs ({self._num_envs},)")
        return values


def _host_array(values: Any, what: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "data_ptr") else values)
    except (TypeError, ValueError) as error:
        raise ActionError(f"{what} cannot be read as an array of numbers: {error}") from error


def _is_device_tensor(values: Any) -> bool:
    return bool(getattr(values, "is_cuda", False))
