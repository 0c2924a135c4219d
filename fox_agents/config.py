"""Run configuration: frozen dataclasses, TOML files, ``section.key=value`` overrides, and strict checks.

Nothing is guessed: an unknown key or a value of the wrong type is refused with the nearest valid name. A
value that may be absent is written ``"none"`` in TOML, which has no null.
"""

import dataclasses
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fox_agents.agent_config import LearnerConfig
from fox_agents.dqn.config import BDQConfig, ReferenceConfig
from fox_agents.plain_values import build, nearest
from fox_agents.ranges import MOST_STEPS, require, require_between
from fox_agents.rule_config import RULES, MeanReversionConfig, MomentumConfig
from fox_agents.sb3.config import SB3_CONFIGS
from fox_env import EnvConfig
from fox_env.errors import ConfigError

__all__ = [
    "AGENTS",
    "BDQConfig",
    "DataConfig",
    "FoldConfig",
    "RunConfig",
    "TrainConfig",
    "load_run_config",
    "run_config_from_dict",
    "to_toml",
]

_CONFIGS: tuple[type[LearnerConfig], ...] = (BDQConfig, ReferenceConfig, *SB3_CONFIGS)
AGENTS: dict[str, type[LearnerConfig]] = {cls.algorithm: cls for cls in _CONFIGS}
"""Settings of the agents that are trained, by name."""

Algorithm = Literal["a2c", "bdq", "dqn", "maskable_ppo", "ppo", "qrdqn", "qrdqn_ref", "recurrent_ppo"]
"""Names in `AGENTS`."""

_TRAIN_RANGES = {
    "total_steps": (1, MOST_STEPS),
    "num_envs": (1, 2**22),
    "validation_envs": (1, 2**20),
    "patience": (0, 2**31),
}


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
        require(ok, "data.validation_fraction", self.validation_fraction, "between 0 and 1")
        require_between("data.embargo", self.embargo, 0, MOST_STEPS)


@dataclass(frozen=True)
class FoldConfig:
    """Walk-forward folds instead of one split; the embargo is `DataConfig.embargo`. See `WalkForward`."""

    count: int = 0
    """Folds; 0: one split by `DataConfig.validation_fraction`."""
    number: int | None = None
    """The one fold, from 0, that this run trains; none: all, each in a directory of its own."""
    train: int | None = None
    """Bars before the validation window of each fold; none: as many as the first fold can have."""
    validation: int | None = None
    """Bars between training and test; none: as many as a test window."""
    test: int | None = None
    """Bars of each test window; none: the later half of the bars in equal windows."""
    anchored: bool = False
    """Training begins at the first bar in every fold."""

    def __post_init__(self) -> None:
        require_between("folds.count", self.count, 0, 1_000)
        if self.number is not None:
            require_between("folds.number", self.number, 0, self.count - 1)
        for name in ("train", "validation", "test"):
            size = getattr(self, name)
            if size is not None:
                require_between(f"folds.{name}", size, 2, MOST_STEPS)


@dataclass(frozen=True)
class TrainConfig:
    """The training run around the agent."""

    algorithm: Algorithm = "bdq"
    """Agent to train; its settings are those of the section agent."""
    total_steps: int = 2_000_000
    """Transitions to collect, over all environments."""
    num_envs: int = 256
    """Environments stepped together."""
    validation_envs: int = 16
    """Equal windows the validation period is cut into while training; the final evaluation is one pass."""
    patience: int = 0
    """Epochs without a better validation score after which training stops; 0: never."""
    baselines: tuple[str, ...] = ("flat", "random", "buy_and_hold")
    """Rules that the trained agent stands beside; flat is always among them."""
    cost_multiples: tuple[float, ...] = (0.0, 2.0)
    """Multiples of the costs under which the chosen checkpoint is played again, each as long as an evaluation."""
    checkpoint_seconds: float = 30.0
    """Least wall time in seconds between two saves of all that a resumed run needs; a stop and the end always save."""

    def __post_init__(self) -> None:
        for name, (low, high) in _TRAIN_RANGES.items():
            require_between(f"train.{name}", getattr(self, name), low, high)
        require(
            "flat" in self.baselines, "train.baselines", self.baselines, "names of rules with flat among them"
        )
        for multiple in self.cost_multiples:
            require(0.0 <= multiple < math.inf, "train.cost_multiples", multiple, "0 or more")
        seconds = self.checkpoint_seconds
        require(0.0 <= seconds < math.inf, "train.checkpoint_seconds", seconds, "0 or more")


def _training_env() -> EnvConfig:
    return EnvConfig(reward="risk", exploration_scale=1.0)


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a training run."""

    data: DataConfig = field(default_factory=DataConfig)
    folds: FoldConfig = field(default_factory=FoldConfig)
    env: EnvConfig = field(default_factory=_training_env)
    agent: LearnerConfig = field(default_factory=BDQConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    momentum: MomentumConfig = field(default_factory=MomentumConfig)
    """Of the rule, wherever it is played."""
    mean_reversion: MeanReversionConfig = field(default_factory=MeanReversionConfig)
    """Likewise."""

    def __post_init__(self) -> None:
        self.agent.require_counterfactuals(self.env.counterfactual)

    def rule_settings(self, name: str, seed: int) -> dict[str, Any]:
        """Settings of a rule by name: its section, or the seed of one that has no section."""
        return dataclasses.asdict(getattr(self, name)) if name in RULES else {"seed": seed}

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain nested dictionary of every field."""
        return dataclasses.asdict(self)


def run_config_from_dict(values: Mapping[str, Any], base: RunConfig | None = None) -> RunConfig:
    """RunConfig from nested sections; what is not given comes from ``base`` (default: RunConfig()).

    With another algorithm than that of ``base`` the agent begins with the defaults of its own.
    """
    base = base or RunConfig()
    algorithm = values["train"].get("algorithm") if isinstance(values.get("train"), Mapping) else None
    sections = {f.name for f in dataclasses.fields(RunConfig)}
    built: dict[str, Any] = {}
    if algorithm in AGENTS and algorithm != base.train.algorithm:
        built["agent"] = AGENTS[algorithm]()
    for section, content in values.items():
        if section not in sections:
            raise ConfigError(f"unknown section {section!r}: {nearest(section, sections)}")
        if not isinstance(content, Mapping):
            raise ConfigError(f"{section} is a section; write [{section}] and its keys below it")
        default = built.get(section, getattr(base, section))
        built[section] = build(type(default), content, section, default)
    return dataclasses.replace(base, **built)


def load_run_config(
    path: Path | None, overrides: Iterable[str] = (), *, rules: Path | None = None
) -> RunConfig:
    """RunConfig from a TOML file and ``section.key=value`` overrides, which win over the file.

    Parameters
    ----------
    path : Path, optional
        The file. Where an override names another algorithm, those of its settings of the agent hold that this one has
        too.
    overrides : Iterable[str]
        Changes of single values.
    rules : Path, optional
        A file below `path`, of which everything but the agent counts.

    Raises
    ------
    ConfigError
        For files that cannot be read, and unknown or wrong values.
    """
    values = _layered({k: v for k, v in _read(rules).items() if k != "agent"}, _read(path))
    changes = _changes(overrides)
    return run_config_from_dict(_layered(_of_agent(values, changes), changes))


def _of_agent(values: dict[str, Any], changes: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """A file's sections with those settings of the agent only that the algorithm named by ``changes`` has too."""
    algorithm = changes.get("train", {}).get("algorithm")
    agent, train = values.get("agent", {}), values.get("train", {})
    if algorithm not in AGENTS or not isinstance(agent, Mapping) or not isinstance(train, Mapping):
        return values
    known, written_for = _keys(algorithm), _keys(train.get("algorithm", TrainConfig.algorithm))
    for key in agent:
        if key not in known | written_for:
            raise ConfigError(f"unknown key agent.{key}: {nearest(key, known)}")
    return values | {"agent": {key: value for key, value in agent.items() if key in known}}


def _keys(algorithm: Any) -> set[str]:
    """Names of an agent's settings; none for a name that is none."""
    known = isinstance(algorithm, str) and algorithm in AGENTS
    return {f.name for f in dataclasses.fields(AGENTS[algorithm])} if known else set()


def _read(path: Path | None) -> dict[str, Any]:
    """The sections of a TOML file, of none where there is no file."""
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin with a byte order mark
        return tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(f"no configuration file {path}; give a preset's name or a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"cannot read {path}: {error}; write a section as [agent] and below it, each key once, lines such as "
            'lr = 1e-4 or precision = "tf32", with words in quotes'
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: {error}; save it as UTF-8 text") from None
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}; give a TOML file that may be read"
        ) from None


def _layered(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of both, key by key; ``above`` wins."""
    layered = dict(below)
    for section, content in above.items():
        under = layered.get(section, {})
        if isinstance(content, Mapping) and isinstance(under, Mapping):
            layered[section] = {**under, **content}
        elif isinstance(under, Mapping):
            layered[section] = content  # no section, which is refused later
    return layered


def _changes(overrides: Iterable[str]) -> dict[str, dict[str, str]]:
    """Overrides by section and key."""
    changes: dict[str, dict[str, str]] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        section, dot, name = key.strip().partition(".")
        if not (equals and dot and name):
            raise ConfigError(
                f"cannot read the override {override!r}; write section.key=value, as in agent.lr=1e-4"
            )
        changes.setdefault(section, {})[name] = value.strip()
    return changes


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
