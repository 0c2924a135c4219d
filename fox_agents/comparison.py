"""Agents compared out of sample: the same markets, folds, costs and budget for each, and several seeds.

Every (market, agent, seed, budget) is a process of its own, a walk-forward study in a directory of its own; finished
ones are kept. ``python -m fox_agents.comparison SPEC FILE`` is such a process.
"""

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fox_agents.config import AGENTS, DataConfig, RunConfig, run_config_from_dict
from fox_agents.evaluation import evaluate
from fox_agents.fold_training import WalkForwardOutcome, tested_market, train_folds
from fox_agents.jobs import Job, run_jobs, source_digest, write_result
from fox_agents.registry import make
from fox_agents.results import EvaluationResult, joined, save_result
from fox_agents.rule_config import RULES
from fox_agents.training import folds_of, load_market, new_run, plain_result
from fox_env.errors import FoxError

__all__ = ["Comparison", "file_name", "jobs_of", "run_comparison"]

JOINED = "joined"
"""Directory, in that of a process, of the result on the joined test windows."""
_ENDLESS = 10**12  # steps, where time is the budget


@dataclass(frozen=True)
class Comparison:
    """What is compared."""

    configs: Mapping[str, RunConfig]
    """By agent, without data and seed; all with the same folds and rules. A rule's `agent` and `train` are not read."""
    markets: Mapping[str, DataConfig]
    """By label."""
    seeds: int
    """Seeds 0, 1, ... of every agent that learns or draws."""
    seconds: float | None
    """Wall time of learning in every fold, as a second budget beside ``train.total_steps``; None: that one alone."""
    backend: str
    """"auto", "cpu" or "cuda"."""

    def specs(self) -> list[dict[str, Any]]:
        """The processes, as plain values: one seed after the other, so that a table over all agents comes early."""
        budgets = {"steps": None} if self.seconds is None else {"steps": None, "seconds": self.seconds}
        return [
            self._spec(market, agent, seed, budget, seconds)
            for seed in range(self.seeds)
            for market in self.markets
            for agent in self.configs
            for budget, seconds in budgets.items()
            if seed == 0 or agent in AGENTS or agent == "random"
            if budget == "steps" or agent in AGENTS
        ]

    def _spec(self, market: str, agent: str, seed: int, budget: str, seconds: float | None) -> dict[str, Any]:
        config = dataclasses.replace(self.configs[agent], data=self.markets[market])
        config = dataclasses.replace(config, agent=dataclasses.replace(config.agent, seed=seed))
        if seconds is not None:
            endless = dataclasses.replace(config.train, total_steps=_ENDLESS)
            config = dataclasses.replace(config, train=endless)
        return {
            "market": market,
            "agent": agent,
            "seed": seed,
            "budget": budget,
            "seconds": seconds,
            "backend": self.backend,
            "config": _plain(agent, config),
            "code": source_digest(),
        }


def _plain(agent: str, config: RunConfig) -> dict[str, Any]:
    """Sections that the result of an agent depends on: a rule is not trained, and reads its own settings alone."""
    sections = config.to_dict()
    played = ("data", "folds", "env", agent)
    return {
        name: values
        for name, values in sections.items()
        if (name not in RULES if agent in AGENTS else name in played)
    }


def jobs_of(comparison: Comparison, folder: Path) -> list[Job]:
    """The processes of a comparison, with their specifications written below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    for spec in comparison.specs():
        words = [str(spec[name]) for name in ("market", "agent", "seed", "budget")]
        name = "-".join(map(file_name, words))
        given, file = folder / f"{name}.spec.json", folder / f"{name}.json"
        write_result(given, spec)
        command = [sys.executable, "-m", "fox_agents.comparison", str(given), str(file)]
        jobs.append(Job(" ".join(words), file, command, spec))
    return jobs


def file_name(label: str) -> str:
    """A label as it can be part of a file's name; some labels share one."""
    return "".join(c if c.isalnum() or c in "._" else "_" for c in label)


def run_comparison(
    comparison: Comparison, folder: Path, parallel: int, say: Callable[[str], object]
) -> list[dict[str, Any]]:
    """Run what has no result yet; returns the results there are, in the order of the markets and agents.

    Parameters
    ----------
    comparison : Comparison
        What is compared.
    folder : Path
        Where the processes keep their runs and results.
    parallel : int
        Most processes at a time; budgets of time mean something with 1 only.
    say : Callable
        Takes a line of progress.
    """

    def described(result: dict[str, Any]) -> str:
        made, sharpe = (result["metrics"][name] for name in ("total_return", "sharpe"))
        return f"return {made:+.2%}, Sharpe {'-' if sharpe is None else format(sharpe, '.2f')}"

    found = list(run_jobs(jobs_of(comparison, folder), parallel, described, say))
    markets, agents = list(comparison.markets), list(comparison.configs)
    return sorted(
        found, key=lambda r: (markets.index(r["market"]), r["budget"], agents.index(r["agent"]), r["seed"])
    )


def run_one(spec: Mapping[str, Any], file: Path) -> None:
    """Train and test one agent in every fold, and write the result."""
    config, place = run_config_from_dict(spec["config"]), file.with_suffix("")
    kept = place / "spec.json"
    if place.exists() and not (kept.exists() and json.loads(kept.read_text()) == spec):
        shutil.rmtree(place)  # a study of other settings or other sources
    learns = spec["agent"] in AGENTS
    if not place.exists():
        if learns:
            new_run(place, config)
        place.mkdir(exist_ok=True)
        write_result(kept, spec)
    if learns:
        limit = None if spec["seconds"] is None else spec["seconds"] * config.folds.count
        outcome = train_folds(config, place, backend=spec["backend"], time_limit=limit)
        if outcome.interrupted:
            raise FoxError("interrupted; run again to go on")
        result, chosen = outcome.results[:2]
        learned = _learned(outcome)
    else:
        result = chosen = _played(spec["agent"], config, spec["seed"])
        learned = {"env_steps": 0.0, "learning_seconds": 0.0, "flat_folds": 0}
    save_result(place / JOINED, result)
    plain = plain_result(result)
    write_result(
        file,
        {
            **{name: spec[name] for name in ("market", "agent", "seed", "budget")},
            **learned,
            "joined": str(place / JOINED),
            "bars_per_year": result.market.bars_per_year,
            "period": [str(result.times[0]), str(result.times[-1])],
            "metrics": plain,
            "selected_metrics": plain_result(chosen),
            "options": spec,
        },
    )


def _played(agent: str, config: RunConfig, seed: int) -> EvaluationResult:
    """A rule on the joined test windows, with a fresh account in each, as the agents that learn are tested."""
    market = load_market(config.data)
    folds = folds_of(market, config)
    player = make(agent, config=config.rule_settings(agent, seed))
    results = [evaluate(player, fold.markets(market).test, config.env) for fold in folds]
    return joined(results, tested_market(folds, market))


def _learned(outcome: WalkForwardOutcome) -> dict[str, float]:
    """Environment steps and wall time of learning over all folds, and the folds whose validation chose flat."""
    steps = seconds = 0.0
    for fold in outcome.folds:
        before = 0
        for line in (fold.directory / "health.jsonl").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["group"] == "perf":
                seconds += (entry["step"] - before) / entry["env_steps_per_second"]
                before = entry["step"]
        steps += before
    flat = sum(fold.selected == "flat" for fold in outcome.folds)
    return {"env_steps": steps, "learning_seconds": seconds, "flat_folds": flat}


if __name__ == "__main__":
    run_one(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
