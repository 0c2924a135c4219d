"""The state of a Stable-Baselines3 algorithm as arrays and plain values, which its own files hold as pickles."""

from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor
from torch.optim import Optimizer

from fox_agents.checkpoint import CheckpointError

__all__ = [
    "COUNTERS",
    "load_optimiser",
    "load_policy",
    "load_replay",
    "optimiser_state",
    "policy_tensors",
    "replay_state",
]

Arrays = dict[str, npt.NDArray[Any]]

COUNTERS = (
    "num_timesteps",
    "_n_updates",
    "_n_calls",
    "_episode_num",
    "exploration_rate",
    "_current_progress_remaining",
)
"""Attributes of an algorithm that its next step depends on; those of another algorithm are left out."""
_REPLAY = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def policy_tensors(model: Any) -> Arrays:
    """Every parameter and buffer of the policy by name, target networks among them."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in model.policy.state_dict().items()}


def load_policy(model: Any, arrays: Arrays, directory: Path) -> None:
    """Copy what `policy_tensors` gave into the policy.

    Raises
    ------
    CheckpointError
        When a tensor is missing, unknown or of another shape.
    """
    try:
        model.policy.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise CheckpointError(f"{directory} does not fit this version of the agent: {detail}") from None


def optimiser_state(optimiser: Optimizer) -> tuple[Arrays, dict[str, Any]]:
    """The moments as arrays by parameter and name, and the rest of the state as plain values."""
    state = optimiser.state_dict()
    arrays, numbers = {}, {}
    for index, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                arrays[f"{index}.{name}"] = value.detach().cpu().numpy()
            else:
                numbers[f"{index}.{name}"] = value
    return arrays, {"numbers": numbers, "groups": state["param_groups"]}


def load_optimiser(optimiser: Optimizer, arrays: Arrays, plain: dict[str, Any]) -> None:
    """Undo `optimiser_state`."""
    state: dict[int, dict[str, Any]] = {}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    for key, value in (tensors | plain["numbers"]).items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimiser.load_state_dict({"state": state, "param_groups": plain["groups"]})


def replay_state(replay: Any) -> tuple[Arrays, dict[str, Any]]:
    """The rows of a replay that hold something, and where the next goes."""
    arrays = {name: getattr(replay, name)[: replay.size()] for name in _REPLAY}
    return arrays, {"pos": replay.pos, "full": replay.full}


def load_replay(replay: Any, arrays: Arrays, plain: dict[str, Any], directory: Path) -> None:
    """Undo `replay_state`.

    Raises
    ------
    CheckpointError
        When the arrays are not those of such a replay.
    """
    for name in _REPLAY:
        kept = getattr(replay, name)
        rows = arrays.get(name)
        size = len(kept) if plain["full"] else int(plain["pos"])
        if rows is None or rows.shape != (size, *kept.shape[1:]):
            raise CheckpointError(f"{directory} does not fit this replay: {name} is missing or reshaped")
        kept[: len(rows)] = rows
    replay.pos, replay.full = int(plain["pos"]), bool(plain["full"])
