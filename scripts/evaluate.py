"""Compare trained runs and rule-based agents on the same bars.

Example: python scripts/evaluate.py --run runs/one --agents flat,buy_and_hold --data bars.csv --contract ES
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

try:
    from fox_agents import cli
except ImportError as error:  # it names the missing extra
    sys.exit(str(error))

import typer

from fox_agents import evaluate, make
from fox_agents.config import load_run_config
from fox_agents.registry import agent_class
from fox_agents.report import comparison_table, write_report
from fox_agents.training import load_best, load_market, plain_metrics, split_market
from fox_env.errors import ConfigError


def main(
    runs: Annotated[
        list[Path] | None, typer.Option("--run", help="Run directory or checkpoint; may be repeated.")
    ] = None,
    agents: Annotated[
        str, typer.Option(help="Comma-separated names, for example flat,random,buy_and_hold.")
    ] = "",
    data: cli.Data = None,
    synthetic: cli.Synthetic = None,
    contract: cli.Contract = None,
    tz: cli.Zone = None,
    label: cli.Label = None,
    device: cli.Device = "auto",
    windows: Annotated[
        int, typer.Option(help="Equal windows to cut the period into; 1 is one pass.", min=1)
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the environment and of the random agent.")] = 0,
    out: Annotated[Path | None, typer.Option(help="HTML report to write.")] = None,
    quiet: cli.Quiet = False,
    as_json: cli.Json = False,
) -> None:
    """Evaluate on the whole of the data given, or without any on the validation part of the first run."""
    backend = cli.backend_of(device)
    names = [name.strip() for name in agents.split(",") if name.strip()]
    runs = runs or []
    if not runs and not names:
        raise ConfigError("nothing to evaluate; give --run DIR or --agents NAMES")
    changes = cli.data_overrides(data, synthetic, contract, tz, label)
    source = load_run_config(runs[0] / "config.toml" if runs else None, changes).data
    market = load_market(source)
    if not data and not synthetic:
        market = split_market(market, source)[1]
    results, rules = [], None
    for path in runs:
        agent = load_best(path)
        result = evaluate(agent, market, backend=backend, num_envs=windows, seed=seed)
        results.append(replace(result, agent=f"{agent.name} ({path.name})"))
        rules = rules or result.config
    for name in names:
        if agent_class(name).learns:
            raise ConfigError(f"{name} has to be trained first; give the directory of its run with --run")
        agent = make(name, config={"seed": seed})
        results.append(evaluate(agent, market, rules, backend=backend, num_envs=windows, seed=seed))
    console = cli.console(quiet, as_json)
    console.print(comparison_table(results, f"{market.contract.symbol}"))
    if out is not None:
        console.print(f"report: {write_report(out, results)}", soft_wrap=True)
    if as_json:
        cli.show_json({result.agent: plain_metrics(result.metrics) for result in results})


if __name__ == "__main__":
    cli.run(main)
