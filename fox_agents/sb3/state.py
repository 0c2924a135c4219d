"""The state of a Stable-Baselines3 algorithm as arrays and plain values, which its own files hold as pickles."""

from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor
from torch.optim import Optimizer

from fox_agents.checkpoint import CheckpointError, read_arrays, write_arrays
from fox_agents.sb3.counted import CountedVecEnv
from fox_agents.sb3.generators import Generators

__all__ = ["load_policy", "load_replay", "policy_tensors", "read_loop", "replay_state", "write_loop"]

Arrays = dict[str, npt.NDArray[Any]]

_COUNTERS = (
    "num_timesteps",
    "_n_updates",
    "_n_calls",
    "_episode_num",
    "exploration_rate",
    "_current_progress_remaining",
)
"""Attributes of an algorithm that its next step depends on; those of another algorithm are left out."""
_GENERATORS = "generators."  # before the names of their states
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


def write_loop(
    directory: Path, model: Any, env: CountedVecEnv, generators: Generators, more: Arrays
) -> dict[str, Any]:
    """Write the arrays that the next step of learning depends on, with ``more``; return the plain values."""
    moments, optimiser = _optimiser_state(model.policy.optimizer)
    drawn = {f"{_GENERATORS}{name}": state.numpy() for name, state in generators.tensors().items()}
    last = {"last_obs": model._last_obs, "last_episode_starts": model._last_episode_starts}
    write_arrays(directory, "optimiser", moments)
    write_arrays(directory, "loop", {"sums": env.sums, **last, **drawn, **more})
    return {
        "optimiser": optimiser,
        "counters": {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
        "actions": model.action_space.np_random.bit_generator.state,
    }


def read_loop(
    directory: Path, state: dict[str, Any], model: Any, env: CountedVecEnv, generators: Generators
) -> Arrays:
    """Undo `write_loop`; return what was written with it."""
    loop = read_arrays(directory, "loop")
    _load_optimiser(model.policy.optimizer, read_arrays(directory, "optimiser"), state["optimiser"])
    model._last_obs, model._last_episode_starts = loop.pop("last_obs"), loop.pop("last_episode_starts")
    for name, value in state["counters"].items():
        setattr(model, name, value)
    model.action_space.np_random.bit_generator.state = state["actions"]
    env.sums[:] = loop.pop("sums")
    names = [name for name in loop if name.startswith(_GENERATORS)]
    drawn = {name.removeprefix(_GENERATORS): torch.from_numpy(loop.pop(name)) for name in names}
    generators.load(drawn)
    return loop


def _optimiser_state(optimiser: Optimizer) -> tuple[Arrays, dict[str, Any]]:
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


def _load_optimiser(optimiser: Optimizer, arrays: Arrays, plain: dict[str, Any]) -> None:
    """Undo `_optimiser_state`."""
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
