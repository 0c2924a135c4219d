"""What the training scripts share: their options, and one run from the configuration to the printed results."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fox_agents import cli
from fox_agents.config import RunConfig
from fox_agents.fold_training import WalkForwardOutcome, train_folds, walk_forward_summary
from fox_agents.registry import agent_class, make
from fox_agents.report import comparison_table, folds_table, orders_table
from fox_agents.training import (
    Outcome,
    folds_of,
    load_market,
    load_run,
    new_run,
    selection_rule,
    split_market,
    summary,
    train,
)
from fox_env.errors import ConfigError, FoxError

__all__ = ["Folds", "Logdir", "Options", "Overrides", "Preset", "Resume", "Seed", "TimeLimit", "start"]

Preset = Annotated[str | None, typer.Option(help="smoke, default, or a TOML file. [default: default]")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="section.key=value, as in agent.lr=1e-4.")]
Seed = Annotated[int | None, typer.Option(help="Seed of everything random in the run.")]
Folds = Annotated[
    int | None, typer.Option(help="Walk-forward folds, each trained and tested by itself.", min=1)
]
Logdir = Annotated[str | None, typer.Option(help="Run directory. [default: runs/AGENT-TIME]")]
Resume = Annotated[str | None, typer.Option(help="Run directory to go on with, under its own settings.")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds of learning after which to stop.", min=0.0)]


@dataclass(frozen=True)
class Options:
    """What a user may say about a run; None where nothing is said."""

    changes: list[str]
    """Overrides of the configuration, those of the data options among them."""
    preset: str | None
    seed: int | None
    folds: int | None
    logdir: str | None
    resume: str | None
    device: str
    time_limit: float | None
    quiet: bool
    as_json: bool


def start(options: Options, presets: Path, rules: Path | None = None) -> None:
    """Train, validate, and print the agent beside the baselines.

    Parameters
    ----------
    options : Options
        Of the command line.
    presets : Path
        Folder of the presets.
    rules : Path, optional
        Folder of the presets that they are laid over.

    Raises
    ------
    ConfigError
        For options that do not go together.
    FoxError
        When interrupted before anything could be saved.
    """
    backend = cli.backend_of(options.device)
    if options.seed is not None:
        options = replace(options, changes=[*options.changes, f"agent.seed={options.seed}"])
    if options.folds is not None:
        options = replace(options, changes=[*options.changes, f"folds.count={options.folds}"])
    config, directory = _resumed(options) if options.resume is not None else _new(options, presets, rules)
    console = cli.console(options.quiet, options.as_json)
    resume = options.resume is not None
    try:
        if config.folds.count > 0 and config.folds.number is None:
            study = train_folds(
                config, directory, backend=backend, time_limit=options.time_limit, console=console
            )
            _show_study(study, console)
            found = walk_forward_summary(study)
        else:
            outcome = train(
                config,
                directory,
                backend=backend,
                resume=resume,
                time_limit=options.time_limit,
                console=console,
            )
            _show_run(outcome, console)
            found = summary(outcome)
    except KeyboardInterrupt:
        raise FoxError(
            f"interrupted before it could save; go on from the last checkpoint, if any, with --resume {directory}"
        ) from None
    if options.as_json:
        cli.show_json(found)


def _resumed(options: Options) -> tuple[RunConfig, Path]:
    assert options.resume is not None
    if options.changes or options.preset or options.logdir is not None:
        raise ConfigError(
            "--resume goes on under the run's own settings; leave out algo, data, preset, seed, folds, set and "
            "logdir"
        )
    directory = cli.path_of(options.resume, "--resume")
    return load_run(directory), directory


def _new(options: Options, presets: Path, rules: Path | None) -> tuple[RunConfig, Path]:
    config = cli.preset_config(options.preset or "default", presets, options.changes, rules=rules)
    name = config.train.algorithm
    directory = (
        cli.fresh_logdir(Path("runs"), name)
        if options.logdir is None
        else cli.path_of(options.logdir, "--logdir")
    )
    market = load_market(config.data)  # a mistake must not use up the run directory
    if config.folds.count:
        folds_of(market, config)
    else:
        split_market(market, config)
    make(name, config=config.agent)
    for rule in config.train.baselines:
        if agent_class(rule).learns:
            raise ConfigError(f"train.baselines names {rule}, which has to be trained; give rules")
    new_run(directory, config)
    return config, directory


def _show_run(outcome: Outcome, console: Console) -> None:
    """Print what one run found, or how to go on."""
    directory = outcome.directory
    if outcome.interrupted:
        _say_saved(console, f"step {outcome.env_steps:,}", directory)
        return
    console.print(comparison_table(outcome.results, "Validation (also used to pick the checkpoint)"))
    console.print(orders_table(outcome.results))
    console.print(selection_rule(outcome), highlight=False)
    _say_where(console, directory, directory / "tb")


def _show_study(outcome: WalkForwardOutcome, console: Console) -> None:
    """Print what a walk-forward study found, or how to go on."""
    directory = outcome.directory
    if outcome.interrupted:
        _say_saved(console, f"fold {len(outcome.folds)}", directory)
        return
    console.print(folds_table(outcome.rows))
    console.print(comparison_table(outcome.results, "Out of sample: the joined test windows"))
    console.print(orders_table(outcome.results))
    _say_where(console, directory, directory)


def _say_saved(console: Console, where: str, directory: Path) -> None:
    console.print(f"saved at {where}; go on with --resume {directory}", highlight=False, soft_wrap=True)


def _say_where(console: Console, directory: Path, curves: Path) -> None:
    console.print(
        f"report: {directory / 'report.html'}\ncurves: tensorboard --logdir {curves}", soft_wrap=True
    )
