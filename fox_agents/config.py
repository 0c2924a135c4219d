"""Run configuration: frozen dataclasses, TOML files, ``section.key=value`` overrides, and strict checks.

Nothing is guessed: an unknown key or a value of the wrong type is refused with the nearest valid name. A
value that may be absent is written ``"none"`` in TOML, which has no null.
"""

import dataclasses
import difflib
import math
import tomllib
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fox_env import EnvConfig
from fox_env.errors import ConfigError

__all__ = [
    "BDQConfig",
    "DataConfig",
    "RunConfig",
    "TrainConfig",
    "build",
    "load_run_config",
    "nearest",
    "run_config_from_dict",
    "to_toml",
]

T = TypeVar("T")

# What no machine has room or time for is a slip of the keyboard: it is refused here rather than by a failed allocation.
_MOST_STEPS = 10**15
_LARGEST_VALUE = 1e9
_AGENT_RANGES = {
    "hidden": (1, 2**14),
    "atoms": (2, 2**12),
    "n_step": (1, 1000),
    "batch_size": (1, 2**20),
    "replay_size": (1, 2**40),
    "collect_steps": (1, 2**12),  # an interrupt waits for the iteration to end
    "updates": (1, 2**12),
    "epoch_steps": (1, _MOST_STEPS),
    "learning_starts": (0, _MOST_STEPS),
    "epsilon_steps": (0, _MOST_STEPS),
}
_TRAIN_RANGES = {"total_steps": (1, _MOST_STEPS), "num_envs": (1, 2**22), "validation_envs": (1, 2**20)}


@dataclass(frozen=True)
class BDQConfig:
    """The branching C51 agent."""

    hidden: int = 256
    """Width of both trunk layers, units."""
    atoms: int = 51
    """Atoms of each return distribution."""
    v_min: float = -5.0
    """Lowest atom, in units of the reward."""
    v_max: float = 5.0
    """Highest atom, in units of the reward."""
    gamma: float = 0.98
    """Discount per environment step."""
    n_step: int = 3
    """Rewards summed before the bootstrap, environment steps."""
    lr: float = 3e-4
    """Adam step size."""
    grad_clip: float = 10.0
    """Largest global norm of the gradient."""
    target_rate: float = 0.005
    """Polyak rate of the target network per update."""
    batch_size: int = 256
    """Transitions per update."""
    replay_size: int = 500_000
    """Transitions kept, over all environments."""
    collect_steps: int = 1
    """Steps of every environment between updates."""
    updates: int = 1
    """Updates after each collection."""
    learning_starts: int = 10_000
    """Transitions collected before the first update."""
    epsilon_start: float = 1.0
    """Share of random choices, per branch, at the first step."""
    epsilon_end: float = 0.05
    """Share of random choices, per branch, after `epsilon_steps`."""
    epsilon_steps: int = 500_000
    """Transitions over which the share falls linearly."""
    epoch_steps: int = 100_000
    """Transitions per epoch; callbacks run and diagnostics are read at its end."""
    seed: int = 0
    """Seed of the parameters, the exploration, the replay and the environments."""

    def __post_init__(self) -> None:
        for name, (low, high) in _AGENT_RANGES.items():
            _require_between(f"agent.{name}", getattr(self, name), low, high)
        for name in ("v_min", "v_max"):
            _require_between(f"agent.{name}", getattr(self, name), -_LARGEST_VALUE, _LARGEST_VALUE)
        _require(self.v_min < self.v_max, "agent.v_max", self.v_max, f"above agent.v_min = {self.v_min}")
        spacing = (self.v_max - self.v_min) / (self.atoms - 1)
        enough = 1e-6 * max(1.0, abs(self.v_min), abs(self.v_max))  # float32 tells such atoms apart
        rule = f"further above agent.v_min = {self.v_min} for {self.atoms} atoms"
        _require(spacing >= enough, "agent.v_max", self.v_max, rule)
        _require(0.0 <= self.gamma < 1.0, "agent.gamma", self.gamma, "in [0, 1)")
        for name in ("lr", "grad_clip"):
            _require(0.0 < getattr(self, name) < math.inf, f"agent.{name}", getattr(self, name), "positive")
        _require(0.0 < self.target_rate <= 1.0, "agent.target_rate", self.target_rate, "in (0, 1]")
        for name in ("epsilon_start", "epsilon_end"):
            _require(0.0 <= getattr(self, name) <= 1.0, f"agent.{name}", getattr(self, name), "in [0, 1]")
        _require(0 <= self.seed < 2**63, "agent.seed", self.seed, "from 0 to 2^63 - 1")


@dataclass(frozen=True)
class DataConfig:
    """Which bars to use and how to split them; give exactly one of `file` and `synthetic`."""

    file: str | None = None
    """Path of a bar file that `fox_env.read_bars` understands."""
    synthetic: str | None = None
    """Name of a generated market, for example ``regimes:seed=0``."""
    contract: str | None = None
    """Contract of the bars in `file`; none: the one that a prepared file holds, else ES."""
    tz: str | None = None
    """Time zone of the stamps in `file`; none: as the file says."""
    label: str | None = None
    """Whether a bar of `file` is stamped at its ``open`` or its ``close``; none: as the file says."""
    symbol: str | None = None
    """Instrument of a `file` that holds several."""
    bars: str | None = None
    """Bar size for a `file` of trades, quotes or finer bars, such as ``5min``; none: as the file says."""
    validation_fraction: float = 0.25
    """Share of the bars, the latest, kept for validation."""
    embargo: int = 240
    """Bars left out between training and validation."""

    def __post_init__(self) -> None:
        ok = 0.0 < self.validation_fraction < 1.0
        _require(ok, "data.validation_fraction", self.validation_fraction, "between 0 and 1")
        _require_between("data.embargo", self.embargo, 0, _MOST_STEPS)


@dataclass(frozen=True)
class TrainConfig:
    """The training run around the agent."""

    total_steps: int = 2_000_000
    """Transitions to collect, over all environments."""
    num_envs: int = 256
    """Environments stepped together."""
    validation_envs: int = 16
    """Equal windows the validation period is cut into while training; the final evaluation is one pass."""
    checkpoint_seconds: float = 30.0
    """Least wall time in seconds between two saves of all that a resumed run needs; a stop and the end always save."""

    def __post_init__(self) -> None:
        for name, (low, high) in _TRAIN_RANGES.items():
            _require_between(f"train.{name}", getattr(self, name), low, high)
        seconds = self.checkpoint_seconds
        _require(0.0 <= seconds < math.inf, "train.checkpoint_seconds", seconds, "0 or more")


def _training_env() -> EnvConfig:
    return EnvConfig(reward="risk", exploration_scale=1.0)


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a training run."""

    data: DataConfig = field(default_factory=DataConfig)
    env: EnvConfig = field(default_factory=_training_env)
    agent: BDQConfig = field(default_factory=BDQConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain nested dictionary of every field."""
        return dataclasses.asdict(self)


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


def run_config_from_dict(values: Mapping[str, Any], base: RunConfig | None = None) -> RunConfig:
    """RunConfig from nested sections; what is not given comes from ``base`` (default: RunConfig())."""
    base = base or RunConfig()
    sections = {f.name for f in dataclasses.fields(RunConfig)}
    built: dict[str, Any] = {}
    for section, content in values.items():
        if section not in sections:
            raise ConfigError(f"unknown section {section!r}: {nearest(section, sections)}")
        if not isinstance(content, Mapping):
            raise ConfigError(f"{section} is a section; write [{section}] and its keys below it")
        default = getattr(base, section)
        built[section] = build(type(default), content, section, default)
    return dataclasses.replace(base, **built)


def load_run_config(path: Path | None, overrides: Iterable[str] = ()) -> RunConfig:
    """RunConfig from a TOML file and ``section.key=value`` overrides, which win over the file."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"no configuration file {path}; give a preset's name or a TOML file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"cannot read {path}: {error}") from None
    config = run_config_from_dict(values)
    changes: dict[str, dict[str, str]] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        section, dot, name = key.strip().partition(".")
        if not (equals and dot and name):
            raise ConfigError(
                f"cannot read the override {override!r}; write section.key=value, as in agent.lr=1e-4"
            )
        changes.setdefault(section, {})[name] = value.strip()
    return run_config_from_dict(changes, config)


def to_toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """TOML text of one level of sections, readable by `load_run_config`."""
    lines: list[str] = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{key} = {_toml_value(value)}" for key, value in values.items()), ""]
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08X}" for c in value)
        return f'"{escaped}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml_value, value))}]"
    return repr(value)


def _require(ok: bool, key: str, value: Any, rule: str) -> None:
    if not ok:
        raise ConfigError(f"{key} = {value!r} must be {rule}")


def _require_between(key: str, value: float, low: float, high: float) -> None:
    _require(low <= value <= high, key, value, f"from {low:,} to {high:,}")


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
