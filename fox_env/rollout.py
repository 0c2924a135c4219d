"""Collecting many steps with one policy: a loop on the CPU, one replayed CUDA graph on a GPU, the same bits on both.

PyTorch is imported when the first rollout is collected.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gymnasium.vector import AutoresetMode

from fox_env.arguments import check_whole
from fox_env.errors import ActionError, BackendError, ConfigError

if TYPE_CHECKING:
    import torch

    Policy = Callable[[torch.Tensor], Any]
    Advance = Callable[[torch.Tensor], None]

__all__ = ["Rollout", "RolloutCollector"]

_FLAGS = {"rewards": "reward", "terminated": "terminated", "truncated": "truncated"}


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments, torch tensors on the environment's device.

    In SAME_STEP mode ``obs[t + 1]`` is the first observation of the next episode where step t ended one; collect
    ``"final_obs"`` to have the last one of the ended episode. In NEXT_STEP mode the step after an end resets: its
    action is ignored, its reward is 0, and a learner should leave it out.
    """

    obs: torch.Tensor
    """(T + 1, N, 128) float32: what the policy saw at each step, and after the last one."""
    actions: torch.Tensor
    """(T, N, ...) as the policy gave them."""
    rewards: torch.Tensor
    """(T, N) float32."""
    terminated: torch.Tensor
    """(T, N) bool."""
    truncated: torch.Tensor
    """(T, N) bool."""
    extras: dict[str, torch.Tensor] = field(default_factory=dict)
    """(T, N, ...) whatever else the policy returned, by name."""
    info: dict[str, torch.Tensor] = field(default_factory=dict)
    """(T, N, ...) the asked-for fields; rows of ``final_...`` count only where the step ended an episode."""

    def clone(self) -> Rollout:
        """A copy that later rollouts do not overwrite."""

        def copied(named: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {name: values.clone() for name, values in named.items()}

        plain = copied({name: getattr(self, name) for name in ("obs", "actions", *_FLAGS)})
        return replace(self, **plain, extras=copied(self.extras), info=copied(self.info))


class RolloutCollector:
    """Collects rollouts of one environment and keeps the last captured graph.

    Parameters
    ----------
    device
        The environment's device.
    outputs
        Its live output arrays by slot name, always at the same addresses.
    autoreset_mode
        What it does where an episode ends.

    Raises
    ------
    ConfigError
        If the outputs are not torch tensors, or nothing resets an episode that ended.
    """

    def __init__(self, device: str, outputs: Mapping[str, Any], autoreset_mode: AutoresetMode) -> None:
        if not hasattr(outputs["obs"], "data_ptr"):
            raise ConfigError("a rollout is made of torch tensors; make the environment with output='torch'")
        if autoreset_mode == AutoresetMode.DISABLED:
            raise ConfigError(
                "a rollout goes on after an episode's end; make the environment with autoreset_mode='SAME_STEP' "
                "or 'NEXT_STEP'"
            )
        self._device = device
        self._outputs = outputs
        self._kept: _Loop | None = None
        self._graph: torch.cuda.CUDAGraph | None = None

    def collect(
        self,
        advance: Advance,
        policy: Policy,
        steps: int,
        *,
        info: Sequence[str] = (),
        generators: Sequence[torch.Generator] = (),
        graph: bool | None = None,
        copy: bool = True,
    ) -> Rollout:
        """Collect ``steps`` steps; on a GPU nothing waits for the device.

        There the first call runs step by step, the second records all steps as one CUDA graph, and it and every
        later call with the same policy, steps, info and generators replay it, with the same bits. One graph is kept:
        pass the same policy object, not a new lambda. What the policy computes in Python is recorded once; weights
        and other tensors changed in place are seen.

        Parameters
        ----------
        advance
            Steps the environment with (N, ...) actions.
        policy
            Called without gradients with the (N, 128) float32 observation, valid until it returns; gives actions as
            ``step`` takes them, or a pair of actions and a dictionary of (N, ...) tensors to keep.
        steps
            Steps T, from 1.
        info
            Info fields to keep, such as ``"equity"`` or, in SAME_STEP mode, ``"final_obs"``.
        generators
            CUDA generators of its own that the policy draws from; torch's default one need not be named.
        graph
            False runs step by step on a GPU too; None and True use a graph there.
        copy
            False: what a graph filled is valid until the next rollout.

        Raises
        ------
        ConfigError
            For unknown fields, a graph on the CPU, or a rollout larger than the memory.
        ActionError
            If the policy returns what does not fit the batch.
        BackendError
            If the policy cannot be captured, for example because it waits for the GPU.
        """
        check_whole("steps", steps, 1)
        if not callable(policy):
            raise ConfigError(f"policy={policy!r} must be a function of the observation")
        if not isinstance(generators, (list, tuple)):
            raise ConfigError(f"generators={generators!r} must be a list of torch generators")
        slots = self._info_slots(info)
        on_gpu = self._device != "cpu"
        if graph and not on_gpu:
            raise ConfigError(
                "graph=True needs the environment on a GPU, and it is on the CPU; leave graph out"
            )
        loop = _Loop(policy, steps, slots, tuple(generators), self._outputs)
        if graph is False or not on_gpu:
            loop.run(advance)
            return loop.rollout()
        import torch

        with torch.cuda.device(self._device):
            if self._kept is None or self._kept.key != loop.key:
                self.forget()
                loop.run_beside(advance)
                self._kept = loop
            else:
                loop = self._kept
                self._graph = self._graph or loop.capture(advance)
                self._graph.replay()
        return loop.rollout().clone() if copy else loop.rollout()

    def forget(self) -> None:
        """Free the captured graph and its buffers."""
        self._kept = self._graph = None

    def _info_slots(self, names: Sequence[str]) -> dict[str, str]:
        if isinstance(names, str):
            raise ConfigError(f"info={names!r} must be a sequence of names; use info=({names!r},)")
        known = {
            slot.removeprefix("info.").replace("counterfactual.", "counterfactual_"): slot
            for slot in self._outputs
            if slot.startswith(("info.", "counterfactual.")) or slot in ("final_obs", "final_masks")
        }
        for name in names:
            if name not in known:
                have = ", ".join(known) or "none, with info_level='none'"
                raise ConfigError(f"this environment has no info field {name!r} to collect; it has {have}")
        return {name: known[name] for name in names}


class _Loop:
    """The steps of one rollout and the buffers that they fill."""

    def __init__(
        self,
        policy: Policy,
        steps: int,
        slots: Mapping[str, str],
        generators: tuple[torch.Generator, ...],
        outputs: Mapping[str, Any],
    ) -> None:
        self._policy, self._steps, self._generators = policy, steps, generators
        self._slots, self._live = slots, outputs
        self._buffers: dict[str, torch.Tensor] = {}
        self.key = (policy, steps, tuple(slots), tuple(map(id, generators)))

    def run(self, advance: Advance) -> None:
        """Collect every step."""
        import torch

        with torch.no_grad():
            for step in range(self._steps):
                self._step(advance, step)
            self._store("obs", self._steps, self._live["obs"])

    def run_beside(self, advance: Advance) -> None:
        """Collect on a side stream: libraries initialise what they may not during a capture.

        From the second step on a policy that makes the host wait is named.
        """
        import torch

        here, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(here)
        with torch.cuda.stream(side), torch.no_grad():
            self._step(advance, 0)
            with _no_waiting(self._policy):
                for step in range(1, self._steps):
                    self._step(advance, step)
            self._store("obs", self._steps, self._live["obs"])
        here.wait_stream(side)
        for values in self._buffers.values():
            values.record_stream(here)

    def capture(self, advance: Advance) -> torch.cuda.CUDAGraph:
        """Record every step in one graph; recording runs nothing."""
        import torch

        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        drawn = (torch.cuda.default_generators[torch.cuda.current_device()], *self._generators)
        before = [generator.clone_state() for generator in drawn]
        try:
            with torch.cuda.graph(graph):
                self.run(advance)
        except RuntimeError as error:
            # A capture that breaks off leaves the state of each generator inside it.
            for generator, state in zip(drawn, before, strict=True):
                generator.graphsafe_set_state(state)
            raise _not_capturable(self._policy, error) from error
        return graph

    def _step(self, advance: Advance, step: int) -> None:
        actions, extras = self._decide(self._live["obs"])
        if not self._buffers:
            self._allocate(actions, extras)
        kept = [name.removeprefix("extras.") for name in self._buffers if name.startswith("extras.")]
        if list(extras) != kept:
            raise ActionError(f"the policy returned the extras {list(extras)}, and {kept} at the first step")
        self._store("obs", step, self._live["obs"])
        self._store("actions", step, actions)
        for name, values in extras.items():
            self._store(f"extras.{name}", step, values)
        advance(self._buffers["actions"][step])
        for name, slot in _FLAGS.items():
            self._store(name, step, self._live[slot])
        for name, slot in self._slots.items():
            self._store(f"info.{name}", step, self._live[slot])

    def _decide(self, obs: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Ask the policy, and check what it returned without looking at any value."""
        import torch

        returned = self._policy(obs)
        pair = returned if isinstance(returned, tuple) else (returned, {})
        if len(pair) != 2:
            raise ActionError(
                f"the policy returned {len(pair)} values; give actions, or actions and a dictionary"
            )
        actions, extras = pair
        if not isinstance(extras, Mapping):
            raise ActionError(
                f"the policy returned extras of type {type(extras).__name__}; use a dictionary of tensors"
            )
        for name, values in {"actions": actions, **extras}.items():
            if not isinstance(values, torch.Tensor):
                raise ActionError(
                    f"the policy returned {name} of type {type(values).__name__}; use torch tensors"
                )
            if values.device != obs.device:
                raise ActionError(
                    f"the policy returned {name} on {values.device}, the environment is on {obs.device}"
                )
            if values.shape[:1] != obs.shape[:1]:
                raise ActionError(
                    f"the policy returned {name} of shape {tuple(values.shape)}; the first size must be {len(obs)}"
                )
        return actions, dict(extras)

    def _store(self, name: str, step: int, values: torch.Tensor) -> None:
        row = self._buffers[name][step]
        if row.shape != values.shape or row.dtype != values.dtype:
            raise ActionError(
                f"the policy returned {name} as {values.dtype} of shape {tuple(values.shape)}, "
                f"and as {row.dtype} of shape {tuple(row.shape)} at the first step"
            )
        row.copy_(values)

    def _allocate(self, actions: torch.Tensor, extras: Mapping[str, torch.Tensor]) -> None:
        import torch

        like = {"obs": self._live["obs"], "actions": actions}
        like |= {name: self._live[slot] for name, slot in _FLAGS.items()}
        like |= {f"extras.{name}": values for name, values in extras.items()}
        like |= {f"info.{name}": self._live[slot] for name, slot in self._slots.items()}
        shapes = {name: (self._steps + (name == "obs"), *values.shape) for name, values in like.items()}
        _refuse_too_large(
            sum(math.prod(shapes[name]) * values.element_size() for name, values in like.items()),
            self._steps,
            len(actions),
            actions.device,
        )
        self._buffers = {
            name: torch.empty(shapes[name], dtype=values.dtype, device=values.device)
            for name, values in like.items()
        }

    def rollout(self) -> Rollout:
        """The buffers by their public names."""
        parts: dict[str, Any] = {"extras": {}, "info": {}}
        for name, values in self._buffers.items():
            part, _, key = name.partition(".")
            if key:
                parts[part][key] = values
            else:
                parts[part] = values
        return Rollout(**parts)


@contextmanager
def _no_waiting(policy: Policy) -> Iterator[None]:
    """Let PyTorch refuse what makes the host wait, which a capture would refuse with less to say."""
    import torch

    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that not every wait is seen; the capture sees the others
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        raise _not_capturable(policy, error) from error
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def _not_capturable(policy: Policy, error: RuntimeError) -> BackendError:
    name = getattr(policy, "__qualname__", type(policy).__name__)
    reason = str(error).strip().split("\n", 1)[0]
    return BackendError(
        f"the policy {name} cannot be captured in a CUDA graph ({reason}); keep its values on the GPU (no .item(), "
        ".cpu() or selection by a mask), name its random generators with generators=, or use graph=False"
    )


def _refuse_too_large(needed: int, steps: int, num_envs: int, device: torch.device) -> None:
    import torch

    if device.type == "cuda":
        # What torch holds without using it is free for torch.
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        free, where = torch.cuda.mem_get_info(device)[0] + unused, f"free on {device}"
    else:
        free, where = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "in this machine"
    if needed > free:
        raise ConfigError(
            f"a rollout of {steps} steps of {num_envs} environments needs {needed / 2**30:.1f} GiB, "
            f"{free / 2**30:.1f} GiB are {where}; take fewer steps or environments"
        )
