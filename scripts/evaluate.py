"""Compare trained runs and rule-based agents on the same bars.

Example: python scripts/evaluate.py --run runs/one --agents flat,buy_and_hold --data bars.csv --contract ES
"""

import sys
from dataclasses import replace
from typing import Annotated

try:
    from fox_agents import cli
except ImportError as error:  # it names the missing extra
    sys.exit(str(error))

import typer

from fox_agents import EvaluationResult, evaluate, make
from fox_agents.config import load_run_config
from fox_agents.plain_values import nearest
from fox_agents.registry import agent_class
from fox_agents.report import comparison_table, orders_table, write_report
from fox_agents.rule_config import RULES
from fox_agents.stats import evidence, read_trials
from fox_agents.trading_rules import first_difference
from fox_agents.training import load_best, load_market, load_run, plain_result, split_market
from fox_env.errors import ConfigError


def main(
    runs: Annotated[
        list[str] | None, typer.Option("--run", help="Run directory or checkpoint; may be repeated.")
    ] = None,
    agents: Annotated[
        str, typer.Option(help="Comma-separated names, for example flat,random,buy_and_hold.")
    ] = "",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Settings of a rule, as momentum.lookback=40.")
    ] = None,
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
    out: Annotated[str | None, typer.Option(help="HTML report to write.")] = None,
    quiet: cli.Quiet = False,
    as_json: cli.Json = False,
) -> None:
    """Evaluate on the whole of the data given, or without any on the validation part of the first run."""
    backend = cli.backend_of(device)
    names = list(dict.fromkeys(name.strip() for name in agents.split(",") if name.strip()))
    directories = cli.run_labels([cli.path_of(text, "--run") for text in runs or []])
    report = None if out is None else cli.path_of(out, "--out")
    if not directories and not names:
        raise ConfigError("nothing to evaluate; give --run DIR or --agents NAMES")
    for name in names:
        require_rule(name)
    for text in overrides or []:
        require_played(text, names)
    players = {label: load_best(path) for label, path in directories.items()}
    changes = cli.data_overrides(data, synthetic, contract, tz, label) + (overrides or [])
    first = next(iter(directories.values()), None)
    source = load_run_config(None, changes) if first is None else load_run(first, changes)
    market = load_market(source.data)
    if not data and not synthetic:
        market = split_market(market, source)[1]
    results = []
    for run, agent in players.items():
        result = evaluate(agent, market, backend=backend, num_envs=windows, seed=seed)
        results.append(replace(result, agent=f"{agent.name} ({run})"))
    rules = results[0].config if results else None
    remarks = [remark for result in results[1:] if (remark := other_rules(result, results[0]))]
    for name in names:
        rule = make(name, config=source.rule_settings(name, seed))
        results.append(evaluate(rule, market, rules, backend=backend, num_envs=windows, seed=seed))
    console = cli.console(quiet, as_json)
    console.print(comparison_table(results, f"{market.contract.symbol}"))
    console.print(orders_table(results))
    for remark in remarks:
        console.print(remark, highlight=False)
    if report is not None:
        own = [] if data or synthetic else list(directories.values())  # chosen on these very bars
        found = {
            result.agent: evidence(
                result, trials=read_trials(own[i : i + 1]) if i < len(own) else None, seed=seed
            )
            for i, result in enumerate(results)
        }
        page = write_report(report, results, remarks, evidence=found)
        console.print(f"report: {page}", soft_wrap=True)
    if as_json:
        cli.show_json({result.agent: plain_result(result) for result in results})


def require_rule(name: str) -> None:
    """ConfigError for an agent that has to be trained."""
    if agent_class(name).learns:
        raise ConfigError(f"{name} has to be trained first; give the directory of its run with --run")


def require_played(override: str, names: list[str]) -> None:
    """ConfigError for an override of what is none of the rules to be played, and would have no effect."""
    section = override.partition(".")[0]
    settable = [name for name in names if name in RULES]
    if section not in settable:
        known = nearest(section, settable) if settable else f"name one of {', '.join(RULES)} there"
        raise ConfigError(
            f"--set {override}: {section!r} is no rule with settings given to --agents: {known}"
        )


def other_rules(result: EvaluationResult, first: EvaluationResult) -> str | None:
    """A sentence where a run plays under other costs or limits than the first one, as it was trained to."""
    difference = first_difference(first.config, result.config, result.market.contract)
    if difference is None:
        return None
    option, own, other = difference
    return f"{result.agent} was trained and is scored with {option}={other!r}, {first.agent} with {own!r}"


if __name__ == "__main__":
    cli.run(main)
