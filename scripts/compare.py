"""Compare agents out of sample by walk-forward folds: same markets, costs and budget, several seeds, one table.

Example: python scripts/compare.py --agents bdq,ppo,momentum,flat --synthetic regimes:sessions=60 --folds 2 --seeds 3
"""

import sys
from pathlib import Path
from typing import Annotated

try:
    from fox_agents import cli
except ImportError as error:  # it names the missing extra
    sys.exit(str(error))

import typer

from fox_agents import comparison_command
from fox_env.errors import FoxError

PRESETS = Path(__file__).resolve().parents[1] / "configs"


def main(
    agents: Annotated[str, typer.Option(help="Names; what others are compared with comes first.")] = (
        "bdq,ppo,a2c,dqn,qrdqn,momentum,mean_reversion,buy_and_hold,random,flat"
    ),
    data: Annotated[
        list[str] | None, typer.Option(help="File of bars; may be repeated. See prepare_data.py.")
    ] = None,
    synthetic: Annotated[
        list[str] | None, typer.Option(help="Generated market, as regimes:seed=0; may be repeated.")
    ] = None,
    contract: cli.Contract = None,
    tz: cli.Zone = None,
    label: cli.Label = None,
    preset: Annotated[
        str, typer.Option(help="smoke or default: rules and settings of every agent.")
    ] = "smoke",
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="section.key=value for all agents, AGENT:section.key=value for one; momentum.lookback=40 of a rule.",
        ),
    ] = None,
    folds: Annotated[int, typer.Option(help="Walk-forward folds.", min=1)] = 4,
    seeds: Annotated[int, typer.Option(help="Seeds 0, 1, ...", min=1)] = 3,
    steps: Annotated[
        float, typer.Option(help="Environment steps of learning in every fold.", min=1, max=1e12)
    ] = 160_000,
    seconds: Annotated[
        float | None, typer.Option(help="Also compare at this wall time of learning in every fold.", min=0.1)
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes side by side; 1 for equal times.", min=1)] = 1,
    device: cli.Device = "auto",
    out: Annotated[str, typer.Option(help="Directory; finished runs in it are kept.")] = "runs/comparison",
    quiet: cli.Quiet = False,
    as_json: cli.Json = False,
) -> None:
    """Run what has no result yet, and write comparison.md and comparison.json."""
    folder, console = cli.path_of(out, "--out"), cli.console(quiet, as_json)
    comparison = comparison_command.comparison_of(
        agents=agents.split(","),
        files=data or [],
        synthetic=synthetic or [],
        hints=cli.data_overrides(None, None, contract, tz, label),
        preset=preset,
        presets=PRESETS,
        overrides=overrides or [],
        folds=folds,
        seeds=seeds,
        steps=cli.count_of(steps, "--steps"),
        seconds=seconds,
        backend=cli.backend_of(device),
    )
    report = comparison_command.run(comparison, folder, jobs, console)
    if as_json:
        cli.show_json(report.values)
    if report.missing:
        raise FoxError(f"{report.missing} runs failed, see {folder / 'runs'}; run again to go on")


if __name__ == "__main__":
    cli.run(main)
