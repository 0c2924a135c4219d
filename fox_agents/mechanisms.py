"""Variants of a baseline configuration of the branching agent, each with one mechanism changed."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, make_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from fox_agents.dqn.config import ENSEMBLE_RULES, BDQConfig, Switch
from fox_agents.plain_values import build, nearest
from fox_env.errors import ConfigError

__all__ = ["BASELINE", "MECHANISMS", "REFERENCE", "Variant", "variants_of"]

BASELINE, REFERENCE = "baseline", "reference"
_EVERYTHING = "all"
_BY_VALUES = "sticky_epsilon_greedy"  # explores without the ensemble
_NOT_MECHANISMS = ("compile", "exploration_others", "orders", "precision")
"""Fields with few values that change nothing where every order is a market order, or the arithmetic alone."""

_TYPES = get_type_hints(BDQConfig)
_FIELDS = [field.name for field in fields(BDQConfig)]


def _few_values(name: str) -> bool:
    return _TYPES[name] is bool or get_origin(_TYPES[name]) is Literal


MECHANISMS = tuple(name for name in _FIELDS if _few_values(name) and name not in _NOT_MECHANISMS)
"""Fields of `BDQConfig` that switch something or choose between named ways: what ``all`` varies."""


@dataclass(frozen=True)
class Variant:
    """A configuration to compare with the baseline."""

    name: str
    """What was changed, such as ``"full_information=true, n_step=1"``."""
    agent: str
    """Name in the registry."""
    changes: Mapping[str, Any]
    """Settings that differ from the baseline's."""


def variants_of(text: str, baseline: BDQConfig) -> list[Variant]:
    """The variants that a comma-separated list asks for.

    Parameters
    ----------
    text : str
        Items ``name`` (every other value of a mechanism that is not ``measure``), ``name=value`` or
        ``name=value|value`` (any field of the configuration), ``reference`` (the agent ``qrdqn_ref``), and ``all``:
        every mechanism and the reference.
    baseline : BDQConfig
        What they differ from.

    Raises
    ------
    ConfigError
        For a name that there is not, with the nearest one; for a value that does not fit, is the baseline's, or cannot
        be combined with it.
    """
    found: dict[str, Variant] = {}
    for item in (part.strip() for part in text.split(",")):
        for variant in _variants(item, baseline):
            found[variant.name] = variant
    return list(found.values())


def _variants(item: str, baseline: BDQConfig) -> list[Variant]:
    if item == _EVERYTHING:
        every = [_changed(name, v, baseline) for name in MECHANISMS for v in _other_values(name, baseline)]
        return [*every, Variant(REFERENCE, "qrdqn_ref", {})]
    if item == REFERENCE:
        return [Variant(REFERENCE, "qrdqn_ref", {})]
    name, equals, values = item.partition("=")
    if name not in (_FIELDS if equals else MECHANISMS):
        if name in _FIELDS:
            raise ConfigError(f"{name} needs the values to try, as in {name}=VALUE|VALUE")
        names = (*(_FIELDS if equals else MECHANISMS), REFERENCE, _EVERYTHING)
        raise ConfigError(f"unknown mechanism {name!r}: {nearest(name, names)}")
    given = values.split("|") if equals else _other_values(name, baseline)
    return [_changed(name, value, baseline) for value in given]


def _other_values(name: str, baseline: BDQConfig) -> list[Any]:
    """The values of a mechanism but for the present one; measuring changes nothing that is learned."""
    present = getattr(baseline, name)
    if _TYPES[name] is bool:
        return [not present]
    if _TYPES[name] == Switch:
        return ["off" if present == "on" else "on"]
    return [value for value in get_args(_TYPES[name]) if value != present]


def _changed(name: str, value: Any, baseline: BDQConfig) -> Variant:
    alone: Any = make_dataclass(
        "Alone", [(name, _TYPES[name])]
    )  # one field, without the checks against others
    value = getattr(build(alone, {name: value}, "agent"), name)
    asked = {name: value, **_companions(name, value, baseline)}
    config = build(BDQConfig, asked, "agent", baseline)
    changes = {key: getattr(config, key) for key in asked if getattr(config, key) != getattr(baseline, key)}
    if name not in changes:
        raise ConfigError(f"{name}={_word(value)} is the baseline's own value; give another one")
    return Variant(", ".join(f"{key}={_word(v)}" for key, v in changes.items()), "bdq", changes)


def _companions(name: str, value: Any, baseline: BDQConfig) -> dict[str, Any]:
    """Settings without which this one means nothing or is refused."""
    if name == "full_information" and value:
        return {"n_step": 1, "curiosity": 0.0}
    if (name == "curiosity" and value > 0.0) or (name == "n_step" and value > 1):
        return {"full_information": False}
    if name == "mixture" and not value:
        return {"balance": "off"}
    if name == "balance" and value != "off":
        return {"mixture": True}
    if name == "ensemble" and value != "on":
        by_values = {"exploration": _BY_VALUES} if baseline.exploration in ENSEMBLE_RULES else {}
        return {"repulsion": "off", **by_values}
    if (name == "repulsion" and value != "off") or (name == "exploration" and value in ENSEMBLE_RULES):
        return {"ensemble": "on"}
    return {}


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
