"""Typed fields of dataclasses from plain values, as TOML files, command lines and JSON files give them.

Nothing is guessed: an unknown name or a value of the wrong type is refused with the nearest valid name.
"""

import dataclasses
import difflib
import math
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fox_env.errors import ConfigError

__all__ = ["build", "nearest"]

T = TypeVar("T")


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a message: the closest of ``names``, or all of them when none is close."""
    names = sorted(names)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"valid: {', '.join(names)}"


def build(cls: type[T], values: Mapping[str, Any], section: str, base: T | None = None) -> T:
    """Dataclass ``cls`` from ``values``, checked and converted field by field.

    Parameters
    ----------
    cls : type
        A dataclass.
    values : Mapping[str, Any]
        Field values as TOML or as text gives them.
    section : str
        Name used in messages, as in ``section.key``.
    base : optional
        Values of the fields that are not given; the defaults of ``cls`` when None.

    Raises
    ------
    ConfigError
        For an unknown field or a value of the wrong type.
    """
    hints = get_type_hints(cls)
    fields = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise ConfigError(f"unknown key {section}.{key}: {nearest(key, fields)}")
    given = {key: _convert(value, hints[key], f"{section}.{key}") for key, value in values.items()}
    if base is None:
        return cls(**given)
    return dataclasses.replace(base, **given)  # type: ignore[type-var]


def _convert(value: Any, kind: Any, key: str) -> Any:
    """``value`` as ``kind``, or ConfigError; text is read by its words, not by its truth in Python."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _convert_union(value, arguments, key)
    if origin is Literal:
        return _convert_literal(value, arguments, key)
    if origin is tuple:
        return _convert_tuple(value, arguments, key)
    readers = {bool: _read_bool, int: _read_int, float: _read_float, str: _read_str}
    if kind not in readers:
        raise ConfigError(f"{key} cannot be set in a configuration")
    converted = readers[kind](value)
    if converted is None:
        examples = {bool: "true or false", int: "a whole number", float: "a number", str: "text in quotes"}
        raise ConfigError(f"{key} = {value!r} must be {examples[kind]}")
    return converted


def _convert_union(value: Any, members: tuple[Any, ...], key: str) -> Any:
    if type(None) in members and (value is None or (isinstance(value, str) and value.lower() == "none")):
        return None
    failure: ConfigError | None = None
    for member in sorted(
        (m for m in members if m is not type(None)), key=lambda m: m is str
    ):  # text fits all: last
        try:
            return _convert(value, member, key)
        except ConfigError as error:
            failure = error
    assert failure is not None
    raise failure


def _convert_literal(value: Any, choices: tuple[Any, ...], key: str) -> Any:
    for choice in choices:
        if isinstance(choice, bool) and _read_bool(value) is choice:
            return choice
        if not isinstance(choice, bool) and type(value) is type(choice) and value == choice:
            return choice
    raise ConfigError(f"{key} = {value!r} is not one of its values: {nearest(str(value), map(str, choices))}")


def _convert_tuple(value: Any, items: tuple[Any, ...], key: str) -> Any:
    if isinstance(value, str):
        value = [part.strip() for part in value.strip("()[] ").split(",") if part.strip()]
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{key} = {value!r} must be a list")
    if len(items) == 2 and items[1] is Ellipsis:
        items = items[:1] * len(value)
    if len(value) != len(items):
        raise ConfigError(f"{key} = {value!r} must have {len(items)} values")
    return tuple(
        _convert(v, item, f"{key}[{i}]") for i, (v, item) in enumerate(zip(value, items, strict=True))
    )


def _read_bool(value: Any) -> bool | None:
    if isinstance(value, str):
        words = {
            "true": True,
            "yes": True,
            "on": True,
            "1": True,
            "false": False,
            "no": False,
            "off": False,
            "0": False,
        }
        return words.get(value.lower())
    return value if isinstance(value, bool) else None


def _read_int(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lstrip("+-").isdecimal():
        return int(value)  # not by way of a float, which would round a long seed
    number = _read_float(value)
    return int(number) if number is not None and math.isfinite(number) and number == int(number) else None


def _read_float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _read_str(value: Any) -> str | None:
    return value if isinstance(value, str) else None
