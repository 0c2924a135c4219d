"""Measure what each mechanism of the branching agent is worth: seeds times mechanisms on the reference markets.

Example: python scripts/ablate.py --mechanisms noisy,cql,exploration=thompson,reference --seeds 5 --jobs 4
"""

import sys
from pathlib import Path
from typing import Annotated

try:
    from fox_agents import cli
except ImportError as error:  # it names the missing extra
    sys.exit(str(error))

import typer

from fox_agents.ablation import run_study, study_of
from fox_agents.ablation_table import write_report
from fox_agents.config import load_run_config
from fox_env.errors import FoxError

PRESETS = Path(__file__).resolve().parents[1] / "configs"


def main(
    mechanisms: Annotated[
        str, typer.Option(help="Names to switch, name=value|value, reference, or all.")
    ] = "all",
    markets: Annotated[str, typer.Option(help="Reference markets, as signal,signal:beta=0.3.")] = "signal",
    seeds: Annotated[int, typer.Option(help="Seeds 0, 1, ... of market and agent.", min=1)] = 5,
    steps: Annotated[float, typer.Option(help="Environment steps of a run.")] = 2e6,
    preset: Annotated[
        str | None,
        typer.Option(help="Preset or TOML file with the baseline's agent section; else the defaults."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="agent., env. or reference.key=value, or train.num_envs=N."),
    ] = None,
    bars: Annotated[float, typer.Option(help="Fresh bars of the final score.")] = 4e6,
    jobs: Annotated[int, typer.Option(help="Processes side by side; 1 to compare times.", min=1)] = 1,
    device: cli.Device = "auto",
    out: Annotated[
        str, typer.Option(help="Directory of the table; finished runs in it are kept.")
    ] = "runs/ablation",
    quick: Annotated[bool, typer.Option("--quick", help="Tiny runs: shows that it works, no more.")] = False,
    quiet: cli.Quiet = False,
    as_json: cli.Json = False,
) -> None:
    """Run what has no result yet, and write ablation.md and ablation.json."""
    folder = cli.path_of(out, "--out")
    console = cli.console(quiet, as_json)
    study = study_of(
        mechanisms=mechanisms,
        markets=markets,
        seeds=seeds,
        steps=cli.count_of(steps, "--steps"),
        config=cli.preset_config(preset, PRESETS, []) if preset else load_run_config(None),
        overrides=overrides or [],
        bars=cli.count_of(bars, "--bars"),
        device=cli.backend_of(device),
        quick=quick,
    )
    results = list(run_study(study, folder / "runs", jobs, lambda line: console.print(line, markup=False)))
    report = write_report(study, results, folder)
    console.print(report.table, markup=False, highlight=False, soft_wrap=True)
    console.print(f"written: {folder / 'ablation.md'}, {folder / 'ablation.json'}", soft_wrap=True)
    if as_json:
        cli.show_json(report.values)
    if report.missing:
        total = report.missing + len(results)
        raise FoxError(f"{report.missing} of {total} runs failed, see {folder / 'runs'}; run again to go on")


if __name__ == "__main__":
    cli.run(main)
