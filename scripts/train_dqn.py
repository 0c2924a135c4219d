"""Train the branching agent, or its yardstick, on futures bars and validate it on later ones.

Example: python scripts/train_dqn.py --preset smoke --synthetic regimes:seed=0
"""

import sys
from pathlib import Path
from typing import Annotated

try:
    from fox_agents import cli
except ImportError as error:  # it names the missing extra
    sys.exit(str(error))

import typer

from fox_agents.registry import make
from fox_agents.report import comparison_table, orders_table
from fox_agents.training import load_market, load_run, new_run, selection_rule, summary, train
from fox_env.errors import ConfigError, FoxError

PRESETS = Path(__file__).resolve().parents[1] / "configs"


def main(
    data: cli.Data = None,
    synthetic: cli.Synthetic = None,
    contract: cli.Contract = None,
    tz: cli.Zone = None,
    label: cli.Label = None,
    preset: Annotated[
        str | None, typer.Option(help="smoke, default, or a TOML file. [default: default]")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, as in agent.lr=1e-4.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random in the run.")] = None,
    device: cli.Device = "auto",
    logdir: Annotated[str | None, typer.Option(help="Run directory. [default: runs/bdq-TIME]")] = None,
    resume: Annotated[
        str | None, typer.Option(help="Run directory to go on with, under its own settings.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds of learning after which to stop.", min=0.0)
    ] = None,
    quiet: cli.Quiet = False,
    as_json: cli.Json = False,
) -> None:
    """Train, validate, and print the agent beside the baselines. Ctrl-C saves; --resume DIR goes on."""
    backend = cli.backend_of(device)
    changes = cli.data_overrides(data, synthetic, contract, tz, label) + (overrides or [])
    if seed is not None:
        changes.append(f"agent.seed={seed}")
    if resume is not None:
        if changes or preset or logdir is not None:
            raise ConfigError(
                "--resume goes on under the run's own settings; leave out data, preset, seed, set and logdir"
            )
        directory = cli.path_of(resume, "--resume")
        config = load_run(directory)
    else:
        config = cli.preset_config(preset or "default", PRESETS, changes)
        directory = cli.fresh_logdir(Path("runs")) if logdir is None else cli.path_of(logdir, "--logdir")
        load_market(config.data)  # a mistake must not use up the run directory
        make(config.train.algorithm, config=config.agent)
        new_run(directory, config)
    console = cli.console(quiet, as_json)
    try:
        outcome = train(
            config,
            directory,
            backend=backend,
            resume=resume is not None,
            time_limit=time_limit,
            console=console,
        )
    except KeyboardInterrupt:
        raise FoxError(
            f"interrupted before it could save; go on from the last checkpoint, if any, with --resume {directory}"
        ) from None
    if outcome.interrupted:
        console.print(
            f"saved at step {outcome.env_steps:,}; go on with --resume {directory}", highlight=False
        )
    else:
        console.print(comparison_table(outcome.results, "Validation (also used to pick the checkpoint)"))
        console.print(orders_table(outcome.results))
        console.print(selection_rule(outcome), highlight=False)
        console.print(
            f"report: {directory / 'report.html'}\ncurves: tensorboard --logdir {directory / 'tb'}",
            soft_wrap=True,
        )
    if as_json:
        cli.show_json(summary(outcome))


if __name__ == "__main__":
    cli.run(main)
