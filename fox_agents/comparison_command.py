"""What `scripts/compare.py` does: a comparison from options, run, and written as tables."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from fox_agents import cli, registry
from fox_agents.comparison import Comparison, file_name, run_comparison
from fox_agents.comparison_table import MARKETS, OVERALL, markdown, market_rows, overall_rows, terminal
from fox_agents.config import AGENTS, DataConfig, RunConfig
from fox_agents.evidence import Interval
from fox_agents.jobs import write_result
from fox_agents.lock import require_own, run_lock
from fox_agents.plain_values import build, nearest
from fox_agents.rule_config import RULES
from fox_agents.trading_rules import first_difference
from fox_agents.training import folds_of, load_market
from fox_env.errors import ConfigError

__all__ = ["Report", "comparison_of", "lengths", "run"]

_ENDINGS = {".arrow", ".csv", ".dbn", ".feather", ".gz", ".parquet", ".txt", ".zip", ".zst"}
_EPOCHS = 4  # of every fold's learning, each a checkpoint to choose from


class Report(NamedTuple):
    """What was found."""

    values: dict[str, Any]
    """The tables as plain values."""
    missing: int
    """Processes that failed."""


def comparison_of(
    *,
    agents: Sequence[str],
    files: Sequence[str],
    synthetic: Sequence[str],
    hints: Sequence[str],
    preset: str,
    presets: Path,
    overrides: Sequence[str],
    folds: int,
    seeds: int,
    steps: int,
    seconds: float | None,
    backend: str,
) -> Comparison:
    """The comparison that options ask for, with everything checked that can be before the first process.

    Parameters
    ----------
    agents : Sequence[str]
        Names in the registry.
    files, synthetic : Sequence[str]
        Markets: paths of bars, and names of generated ones.
    hints : Sequence[str]
        ``data.key=value`` for all files.
    preset : str
        Name of a preset in the folder ``presets``.
    overrides : Sequence[str]
        ``section.key=value`` for all agents, or ``AGENT:section.key=value``; a rule's section, such as ``momentum``,
        is read by the rule alone.
    folds, seeds, steps, seconds, backend
        As `Comparison` and its configurations have them.

    Raises
    ------
    ConfigError, DataError
        For what does not fit.
    """
    names = _names(agents)
    _require_common(overrides, names)
    common = [
        f"folds.count={folds}",
        f"train.total_steps={steps}",
        "train.baselines=flat",  # the rules are compared as agents
        "train.cost_multiples=()",  # the tables have no room for them
        *(f"data.{key}=none" for key in ("file", "synthetic")),
        *overrides_of(None, overrides),
    ]
    configs = {}
    for name in names:
        changes = [*lengths(name, steps), *common, *overrides_of(name, overrides)]
        configs[name] = cli.agent_preset(name, preset, presets, changes)
    markets = _markets(files, synthetic, hints, configs[names[0]].data)
    _require_fair(configs, markets)
    return Comparison(configs, markets, seeds, seconds, backend)


def _names(agents: Sequence[str]) -> list[str]:
    """The agents once each; ConfigError for one that cannot be compared."""
    names = list(dict.fromkeys(name.strip() for name in agents if name.strip()))
    if not names:
        raise ConfigError("no agent to compare; give --agents NAMES")
    for name in names:
        if name not in registry.names():
            raise ConfigError(f"unknown agent {name!r} given to --agents: {nearest(name, registry.names())}")
        if registry.agent_class(name).learns and name not in AGENTS:
            raise ConfigError(
                f"{name} learns, but has no settings to train it with; leave it out of --agents"
            )
    return names


def _require_common(overrides: Sequence[str], names: Sequence[str]) -> None:
    """ConfigError for an override that would have no effect, or give one agent other bars than the others."""
    for text in overrides:
        name, section, setting = _parts(text)
        if setting.startswith("train.algorithm="):
            raise ConfigError(f"--set {text}: name the agents by --agents; leave it out")
        played = section if name is None and section in RULES else name
        if played is not None and played not in names:
            raise ConfigError(f"--set {text}: {played!r} is none of the --agents: {nearest(played, names)}")
        if name is None:
            if section == "agent" and not set(names) & set(AGENTS):
                raise ConfigError(f"--set {text}: none of the --agents learns; leave it out")
            continue
        if name in RULES:
            raise ConfigError(
                f"--set {text}: the settings of this rule have a section; write {name}.key=value"
            )
        if name not in AGENTS:
            raise ConfigError(f"--set {text}: {name} is a rule without settings; leave it out")
        if section in ("data", "folds", *RULES):
            raise ConfigError(
                f"--set {text}: all agents have the same {section}; leave out {name!r} and the colon"
            )


def _require_fair(configs: Mapping[str, RunConfig], markets: Mapping[str, DataConfig]) -> None:
    """ConfigError where a market has too few bars, or agents trade under other costs or limits than the first."""
    first, reference = next(iter(configs.items()))
    for label, data in markets.items():
        market = load_market(data)
        try:
            folds_of(market, dataclasses.replace(reference, data=data))
        except ConfigError as error:
            raise ConfigError(f"{label} cannot be cut as --folds asks: {error}") from None
        for name, config in configs.items():
            difference = first_difference(reference.env, config.env, market.contract)
            if difference is not None:
                option, ours, theirs = difference
                raise ConfigError(
                    f"{first} would trade with {option}={ours!r} and {name} with {theirs!r}; set it for all agents, "
                    "by --set without an agent's name"
                )


def _parts(override: str) -> tuple[str | None, str, str]:
    """Agent, None for all of them, section, and ``section.key=value`` of an override."""
    name, colon, rest = override.partition(":")
    agent, rest = (name, rest) if colon and "=" not in name else (None, override)
    return agent, rest.partition(".")[0], rest


def overrides_of(agent: str | None, texts: Sequence[str]) -> list[str]:
    """The overrides of one agent, or those of all."""
    parts = [_parts(text) for text in texts]
    return [rest for name, _, rest in parts if name == agent]


def lengths(name: str, steps: int) -> list[str]:
    """Overrides that fit the schedules and the epochs of an agent to its steps; a rule has none."""
    if name not in AGENTS:
        return []
    return [f"agent.schedule_steps={steps}", f"agent.epoch_steps={-(-steps // _EPOCHS)}"]


def _markets(
    files: Sequence[str], synthetic: Sequence[str], hints: Sequence[str], base: DataConfig
) -> dict[str, DataConfig]:
    """What to trade, by label: the name of a file without its ending, or that of a generated market."""
    if not files and not synthetic:
        raise ConfigError("no market to compare on; give --data FILE or --synthetic NAME")
    given = {key.removeprefix("data."): value for key, _, value in (hint.partition("=") for hint in hints)}
    if given and not files:
        raise ConfigError(f"--{', --'.join(given)} tell of files; leave them out without --data")
    generated = {name: dataclasses.replace(base, synthetic=name) for name in synthetic}
    taken = {file_name(name) for name in generated}
    markets: dict[str, DataConfig] = {}
    for file in files:
        path = cli.path_of(file, "--data").resolve()
        label = path.name
        while Path(label).suffix in _ENDINGS:
            label = Path(label).stem
        if file_name(label) in taken:
            raise ConfigError(
                f"two markets would be called {label}, one of them --data {file}; rename that file"
            )
        taken.add(file_name(label))
        markets[label] = build(DataConfig, {"file": str(path), **given}, "data", base)
    return markets | generated


def run(comparison: Comparison, folder: Path, parallel: int, console: Console) -> Report:
    """Run what has no result yet in ``folder``, print the tables, and write comparison.md and comparison.json.

    ConfigError where ``folder`` holds something else than a comparison.
    """

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    require_own(folder, "runs/*.spec.json", ["runs"], "--out")
    folder.mkdir(parents=True, exist_ok=True)
    with run_lock(folder):
        results = run_comparison(comparison, folder / "runs", parallel, say)
    missing = len(comparison.specs()) - len(results)
    rows = market_rows(results)
    overall = overall_rows(rows)
    console.print(terminal(rows, MARKETS, "Out of sample, net of costs"))
    console.print(terminal(overall, OVERALL, "Over all markets"))
    values = {"markets": [_plain(row) for row in rows], "overall": [_plain(row) for row in overall]}
    write_result(folder / "comparison.json", {**values, "runs": results})
    text = markdown(rows, MARKETS) + "\n" + markdown(overall, OVERALL)
    (folder / "comparison.md").write_text(text, encoding="utf-8")
    say(f"written: {folder / 'comparison.md'}, {folder / 'comparison.json'}")
    return Report(values, missing)


def _plain(value: Any) -> Any:
    """A row, or what is in one, as JSON can hold it: null for what is not a finite number."""
    if isinstance(value, Interval):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
