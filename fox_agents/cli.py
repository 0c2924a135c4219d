"""What the scripts share: options, exit codes, and one-line messages for a user's mistakes."""

import functools
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

from fox_agents.config import AGENTS, RunConfig, TrainConfig, load_run_config
from fox_agents.plain_values import nearest
from fox_agents.sb3.config import SB3_CONFIGS
from fox_env.errors import ActionError, BackendError, ConfigError, FoxError

__all__ = [
    "Contract",
    "Data",
    "Device",
    "Json",
    "Label",
    "Quiet",
    "Synthetic",
    "Zone",
    "agent_preset",
    "backend_of",
    "console",
    "count_of",
    "data_overrides",
    "fresh_logdir",
    "path_of",
    "preset_config",
    "run",
    "run_labels",
    "show_json",
]

# Idle CPU threads give their core away: spinning ones slow a busy machine down tenfold. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_SMALLER = "use fewer environments, a smaller replay or batch, or less data"

UsageError: Any = typer.BadParameter.__bases__[0]  # typer has no public name for the base of its usage errors

Data = Annotated[str | None, typer.Option("--data", help="File of bars: CSV or Parquet.")]
Synthetic = Annotated[
    str | None, typer.Option("--synthetic", help="Generated market, for example regimes:seed=0.")
]
Contract = Annotated[
    str | None,
    typer.Option("--contract", help="Contract of the bars in --data. [default: the file's own, else ES]"),
]
Zone = Annotated[str | None, typer.Option("--tz", help="Time zone of the stamps in --data.")]
Label = Annotated[
    str | None, typer.Option("--label", help="Whether a bar is stamped at its open or its close.")
]
Device = Annotated[str, typer.Option("--device", help="auto, cuda or cpu.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON and nothing else.")]


def run(command: Callable[..., None]) -> None:
    """Run ``command`` as the program and leave with its exit code.

    0: done. 2: wrong usage or bad input, one line on stderr. 1: anything else; what is not a FoxError keeps
    its traceback.
    """
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(_interruptible(command))
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        _fail(error.format_message(), 2)
    except (BackendError, ActionError) as error:
        _fail(str(error), 1)
    except FoxError as error:
        _fail(str(error), 2 if _is_users(error) else 1)
    except OSError as error:  # a path or a disk that does not do what was asked of it
        _fail(
            f"{error.filename or 'a file'}: {error.strerror or error}; check the path, its permissions and the disk",
            2,
        )
    except MemoryError as error:
        _fail(f"not enough memory ({error}); {_SMALLER}", 1)
    except typer.Abort:
        _fail("interrupted", 1)
    except RuntimeError as error:  # how torch says that there is no memory
        if "out of memory" not in str(error) and "can't allocate memory" not in str(error):
            raise
        _fail(f"not enough memory ({str(error).splitlines()[0]}); {_SMALLER}", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with an interrupt as an ordinary failure; typer would leave with a code of its own."""

    @functools.wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            raise typer.Abort from None

    return call


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Let SIGTERM do what Ctrl-C does."""
    raise KeyboardInterrupt


def _is_users(error: FoxError) -> bool:
    """Subclasses say what kind of input was bad; a plain FoxError is a failure of the run itself."""
    return type(error) is not FoxError


def _fail(message: str, code: int) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def console(quiet: bool, as_json: bool) -> Console:
    """Where progress and tables go; nowhere with ``--quiet`` or ``--json``."""
    return Console(quiet=quiet or as_json, width=None if sys.stdout.isatty() else 140)


def show_json(values: Mapping[str, Any]) -> None:
    """Print one JSON document on stdout."""
    print(json.dumps(values, indent=1))


def backend_of(device: str) -> str:
    """Backend for ``--device``; ConfigError for an unknown one or a GPU that is not there."""
    choices = ("auto", "cpu", "cuda")
    if device not in choices:
        raise ConfigError(f"unknown device {device!r} given to --device: {nearest(device, choices)}")
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise ConfigError(
                "no GPU for --device cuda: torch finds none; use --device cpu, or install a CUDA torch"
            )
    return device


def count_of(number: float, option: str) -> int:
    """A whole number given to an option, perhaps as 1.6e5; ConfigError for one that is no number."""
    if not math.isfinite(number):
        raise ConfigError(f"{option} = {number} is no count; give a whole number")
    return int(number)


def path_of(text: str, option: str) -> Path:
    """The path given to an option; ConfigError for an empty one, which would mean the present directory."""
    if not text.strip():
        raise ConfigError(f"{option} is empty; give a path")
    return Path(text)


def run_labels(paths: Sequence[Path]) -> dict[str, Path]:
    """A label for every run: the directory's name, or the whole path where two share a name; repeats are left out."""
    resolved = list(dict.fromkeys(path.resolve() for path in paths))
    names = [path.name for path in resolved]
    return {(path.name if names.count(path.name) == 1 else str(path)): path for path in resolved}


def data_overrides(
    data: str | None, synthetic: str | None, contract: str | None, tz: str | None, label: str | None
) -> list[str]:
    """Configuration overrides for the data options; a file replaces a generated market and the reverse."""
    if data is not None and synthetic is not None:
        raise ConfigError("--data and --synthetic exclude each other; give one")
    overrides = []
    if data is not None:
        overrides += [
            f"data.file={path_of(data, '--data').resolve()}",
            "data.synthetic=none",
        ]  # the run may go on elsewhere
    if synthetic is not None:
        if contract is not None:
            raise ConfigError("--contract names the contract of a file; leave it out with --synthetic")
        overrides += [f"data.synthetic={synthetic}", "data.file=none"]
    named = {"contract": contract, "tz": tz, "label": label}
    return overrides + [f"data.{key}={value}" for key, value in named.items() if value is not None]


def preset_config(
    preset: str, presets: Path, overrides: list[str], *, rules: Path | None = None
) -> RunConfig:
    """Configuration from a preset's name or a TOML file, with overrides.

    A preset by name is laid over that of the same name in the folder ``rules``, whose section agent does not count.
    """
    path = _preset_file(preset, presets)
    below = rules / path.name if rules is not None and not preset.endswith(".toml") else None
    return load_run_config(path, overrides, rules=below)


def _preset_file(preset: str, presets: Path) -> Path:
    """File of a preset's name in a folder, or the TOML file itself."""
    if preset.endswith(".toml"):
        return Path(preset)
    known = sorted(path.stem for path in presets.glob("*.toml"))
    if preset not in known:
        raise ConfigError(f"unknown preset {preset!r} given to --preset: {nearest(preset, known)}")
    return presets / f"{preset}.toml"


def agent_preset(name: str, preset: str, presets: Path, changes: list[str]) -> RunConfig:
    """Configuration of an agent by name from a preset of the folder ``presets``, with overrides.

    An agent of Stable-Baselines3 takes its settings from the folder ``sb3`` in it. A rule takes what is not a
    learner's: neither the section agent nor overrides of it, which may ask of the environment what a rule does not.
    """
    if name not in AGENTS:
        own = [change for change in changes if change.partition(".")[0] != "agent"]
        own.append(
            f"train.algorithm={TrainConfig.algorithm}"
        )  # nothing is trained: its defaults ask for nothing
        return load_run_config(None, own, rules=_preset_file(preset, presets))
    changes = [f"train.algorithm={name}", *changes]
    if name in {config.algorithm for config in SB3_CONFIGS}:
        return preset_config(preset, presets / "sb3", changes, rules=presets)
    return preset_config(preset, presets, changes)


def fresh_logdir(root: Path, name: str) -> Path:
    """A directory under ``root``, called after ``name`` and the time, that no other run uses."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    candidates = (root / (f"{name}-{stamp}" + (f"-{i}" if i else "")) for i in range(10_000))
    return next(path for path in candidates if not path.exists())
