"""What every adapter asks of its batch: one given or made, that resets in the step that ends an episode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gymnasium.vector import AutoresetMode

from fox_env import _layout
from fox_env.errors import ConfigError
from fox_env.vector_env import FoxFuturesVectorEnv

__all__ = ["adapted_batch", "info_slot", "last_field", "read_info_keys", "refuse_part", "set_batch_knob"]

_COUNTERFACTUAL = tuple(f"counterfactual_{name}" for name in _layout.COUNTERFACTUAL_FIELDS)


def read_info_keys(info_keys: Iterable[str]) -> tuple[str, ...]:
    """The names of info fields that an adapter passes on.

    Raises
    ------
    ConfigError
        For a name that is none.
    """
    if isinstance(info_keys, str):
        raise ConfigError(
            f"info_keys={info_keys!r} must be a sequence of names; use info_keys=({info_keys!r},)"
        )
    names = tuple(info_keys)
    for name in names:
        if name not in (*_layout.INFO_FIELDS, *_COUNTERFACTUAL):
            known = ", ".join((*_layout.INFO_FIELDS, *_COUNTERFACTUAL))
            raise ConfigError(f"info_keys names {name!r}, which no info has; the fields are {known}")
    return names


def info_slot(name: str) -> str:
    """The output array behind an info field."""
    return name.replace("_", ".", 1) if name in _COUNTERFACTUAL else f"info.{name}"


def last_field(info: Mapping[str, Any], name: str) -> Any:
    """A field as the episodes that ended in a step left it; counterfactuals are of the step and have one form."""
    return info[name] if name in _COUNTERFACTUAL else info["final_info"][name]


def adapted_batch(
    env: FoxFuturesVectorEnv | None,
    arguments: Mapping[str, Any],
    *,
    output: str,
    info_level: str,
    info_keys: tuple[str, ...],
) -> FoxFuturesVectorEnv:
    """The batch given, or a new one of ``arguments``: in SAME_STEP mode, without copies since its adapter makes them.

    Parameters
    ----------
    env
        A batch of the caller's, or None.
    arguments
        Those of the batch to be made.
    output
        The kind of arrays that the adapter reads.
    info_level
        Of a batch to be made, unless ``arguments`` has it or asks for pictures.
    info_keys
        The fields that the adapter reads.

    Raises
    ------
    ConfigError
        If the batch cannot serve the adapter, with what to change.
    """
    fixed = {"autoreset_mode": AutoresetMode.SAME_STEP, "output": output, "copy": False}
    if env is None:
        for name in fixed.keys() & arguments.keys():
            raise ConfigError(f"{name}= is the adapter's own choice ({fixed[name]!r}); leave it out")
        whole = any(name in _layout.INFO_FIELDS for name in info_keys)
        level = "full" if whole or arguments.get("render_mode") is not None else info_level
        env = FoxFuturesVectorEnv(**{"info_level": level, **arguments, **fixed})
    elif arguments:
        raise ConfigError(
            f"{min(arguments)}= is an argument of an environment to be made; leave it out beside env="
        )
    if env.autoreset_mode != AutoresetMode.SAME_STEP:
        raise ConfigError(
            f"the adapter needs a reset in the step that ends an episode, and this environment is in "
            f"{env.autoreset_mode.name} mode; make it with autoreset_mode='SAME_STEP'"
        )
    if hasattr(env.outputs["obs"], "data_ptr") != (output == "torch"):
        raise ConfigError(f"the adapter reads {output} arrays; make the environment with output={output!r}")
    for name in info_keys:
        if name in _COUNTERFACTUAL:
            if info_slot(name) not in env.outputs:
                raise ConfigError(
                    f"info_keys names {name!r}, which this environment leaves out; use counterfactual=True"
                )
        elif f"final_info.{name}" not in env.outputs:
            raise ConfigError(
                f"info_keys names {name!r}, which this environment leaves out; use info_level='full'"
            )
    return env


def refuse_part(what: str, env: FoxFuturesVectorEnv, chosen: Sequence[int], argument: str) -> None:
    """Refuse what acts on the whole batch for a part of it.

    Raises
    ------
    ConfigError
        If ``chosen``, the indices that the library's ``argument`` names, are not those of all accounts.
    """
    if sorted(chosen) != list(range(env.num_envs)):
        raise ConfigError(f"{what} acts on all {env.num_envs} accounts; leave {argument} out")


def set_batch_knob(
    env: FoxFuturesVectorEnv, name: str, value: Any, chosen: Sequence[int], argument: str
) -> None:
    """Set a knob where a library sets an attribute of some of its environments.

    Raises
    ------
    ConfigError
        For any other attribute, which the accounts would not heed, and for a part of the batch.
    """
    if name not in env.knobs:
        raise ConfigError(
            f"{name!r} is fixed once the batch is made; make a new one, or set a knob ({', '.join(env.knobs)})"
        )
    refuse_part(f"the knob {name!r}", env, chosen, argument)
    env.set_knob(name, value)
