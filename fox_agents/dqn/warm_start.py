"""Warm start: fill a new run's replay with the newest transitions of a checkpoint."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fox_agents.checkpoint import (
    CheckpointError,
    CheckpointStore,
    is_checkpoint,
    read_arrays,
    read_state,
    require_same,
)
from fox_agents.dqn.replay import Replay

__all__ = ["warm_start"]

_PREFIX = "replay."


def warm_start(
    replay: Replay, directory: Path, data: dict[str, Any], rules: dict[str, Any], alpha: Tensor
) -> int:
    """Write the newest saved slots that fit into an empty replay; to be called before `Replay.begin`.

    The saved present state of each environment becomes a state without a transition, so that no sum of rewards runs
    on into the new run. Every transition gets the largest priority.

    Parameters
    ----------
    replay : Replay
        Of as many environments as the saved one; its size may differ.
    directory : Path
        A checkpoint that can go on learning, or a run, whose last one is taken.
    data : dict
        Fingerprint of the present batch's data: slots hold numbers of bars, which mean nothing on another market.
    rules : dict
        Options of the present environment but for its physics knobs: they decide what a reward is.
    alpha : Tensor
        () exponent of the priorities.

    Returns
    -------
    int
        Transitions loaded, over all environments.

    Raises
    ------
    CheckpointError
        When the checkpoint is missing, damaged or without a replay, another market's or of other rules, or its
        replay does not fit. The replay is unchanged then.
    """
    if not is_checkpoint(directory):
        directory = CheckpointStore(directory / "checkpoints").find("last") or directory
    state = read_state(directory)
    if not state.get("learning"):
        raise CheckpointError(
            f"the checkpoint {directory} holds no replay; give the last one of a run, not the best"
        )
    require_same("data", state["data"], data)
    require_same("environment", {name: state["env_config"].get(name) for name in rules}, rules)
    require_same("number of environments", {"num_envs": state["num_envs"]}, {"num_envs": replay.num_envs})
    saved = {
        name.removeprefix(_PREFIX): torch.from_numpy(array)
        for name, array in read_arrays(directory, "loop").items()
        if name.startswith(_PREFIX)
    }
    rings = replay.rings()
    for name, ring in rings.items():
        if name not in saved or saved[name].shape[1:] != ring.shape[1:] or saved[name].dtype != ring.dtype:
            raise CheckpointError(
                f"the replay of {directory} has other contents ({name}); use one with the same full_information"
            )
    rows = len(saved["kind"]) // replay.num_envs
    width = min(replay.rows - 1, rows)  # one slot is left for the state that the new run begins in
    ago = torch.arange(width - 1, -1, -1)
    source = (saved["position"][:, None] - ago).remainder(rows) + rows * torch.arange(replay.num_envs)[
        :, None
    ]
    for name, ring in rings.items():
        by_env = ring.view(replay.num_envs, replay.rows, *ring.shape[1:])
        by_env[:, :width].copy_(saved[name][source])
    rings["stamp"].zero_()
    replay.position.fill_(width)
    stored = rings["kind"] != 0
    slots = torch.arange(len(stored), device=stored.device)
    replay.priorities.set(slots, torch.where(stored, replay.priorities.fresh(alpha), 0))
    return int(np.count_nonzero(stored.cpu().numpy()))
