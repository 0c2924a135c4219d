"""Walk-forward studies: every fold a run of its own, its test window played once, the windows joined to one curve."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from fox_agents.api import Agent
from fox_agents.checkpoint import is_checkpoint
from fox_agents.config import RunConfig
from fox_agents.evaluation import evaluate
from fox_agents.evidence import CostPoint, Evidence, FoldRow
from fox_agents.jobs import write_result
from fox_agents.lock import run_lock
from fox_agents.registry import make
from fox_agents.report import write_report
from fox_agents.results import EvaluationResult, joined, load_result, save_result
from fox_agents.stats import bootstrap_intervals, evidence
from fox_agents.stats.costs import with_costs
from fox_agents.training import (
    costs_around,
    folds_of,
    load_best,
    load_market,
    new_run,
    plain_evidence,
    plain_result,
    train,
)
from fox_agents.walk_forward import Fold, periods
from fox_env import EnvConfig, Market

__all__ = ["FoldResult", "WalkForwardOutcome", "tested_market", "train_folds", "walk_forward_summary"]

METRICS = "metrics.json"
REMARK = (
    "Out of sample: in every fold the checkpoint was chosen on the validation window alone and played once in the "
    "test window that follows, with a fresh account; the curve joins those windows. The line 'or flat' stays out of "
    "the market in the folds whose validation was not above zero with 95 % confidence. Returns compound from window to "
    "window; money figures are sums over the windows' accounts, each begun anew."
)


@dataclass(frozen=True)
class FoldResult:
    """One fold, trained and tested."""

    fold: Fold
    directory: Path
    """Its run directory."""
    selected: str
    """What the validation period chose: the agent's name or ``"flat"``."""
    test: dict[str, EvaluationResult]
    """By name: the agent's best checkpoint, and the baselines, on the test window."""
    repriced: dict[float, EvaluationResult]
    """The agent's under other costs, by their multiple."""


@dataclass(frozen=True)
class WalkForwardOutcome:
    """How a walk-forward study ended."""

    directory: Path
    folds: list[FoldResult]
    """Those that are finished, in order of time."""
    interrupted: bool
    """Stopped by a signal, with everything saved; there are no results then."""
    results: list[EvaluationResult]
    """On the joined test windows: the agent, the agent or flat as each fold's validation chose, and the baselines."""
    evidence: dict[str, Evidence]
    """How sure we are of each of `results`, by name of agent."""
    rows: list[FoldRow]
    """The folds as a report shows them."""


def train_folds(
    config: RunConfig,
    directory: Path,
    *,
    backend: str = "auto",
    time_limit: float | None = None,
    console: Console | None = None,
) -> WalkForwardOutcome:
    """Train and test every fold of ``config.folds``; folds that are finished are kept, begun ones go on.

    The checkpoint of a fold is chosen on its validation window, the test window is played once, and its result is
    written to ``fold-K/test``; a repeated call reads it from there.

    Parameters
    ----------
    config : RunConfig
        With ``folds.count`` folds.
    directory : Path
        The run directory (see `new_run`); the folds are runs in ``fold-0``, ``fold-1``, ...
    backend : str
        "auto", "cpu" or "cuda".
    time_limit : float, optional
        Seconds of learning, in equal parts for all folds.
    console : Console, optional
        Where progress goes; a quiet one by default.

    Raises
    ------
    ConfigError, DataError, CheckpointError
        When something does not fit.
    """
    console = console or Console(quiet=True)
    market = load_market(config.data)
    folds = folds_of(market, config)
    finished: list[FoldResult] = []
    names = periods(market.bars.ts, [fold.test for fold in folds])
    with run_lock(directory):
        for fold, name in zip(folds, names, strict=True):
            console.print(f"fold {fold.number + 1} of {len(folds)}: tested on {name}", highlight=False)
            place = directory / f"fold-{fold.number}"
            own = dataclasses.replace(config, folds=dataclasses.replace(config.folds, number=fold.number))
            if not (place / "config.toml").exists():
                new_run(place, own)
            limit = None if time_limit is None else time_limit / len(folds)
            try:
                if not (place / METRICS).exists() and _trained(own, place, backend, limit, console, market):
                    return WalkForwardOutcome(directory, finished, True, [], {}, [])
                finished.append(_tested(fold, place, market, config, backend))
            except KeyboardInterrupt:  # between two writes: whatever was begun is done again
                return WalkForwardOutcome(directory, finished, True, [], {}, [])
        return _conclude(directory, finished, market)


def _trained(
    config: RunConfig,
    place: Path,
    backend: str,
    time_limit: float | None,
    console: Console,
    market: Market,
) -> bool:
    """Train one fold, or go on; whether it was interrupted."""
    outcome = train(
        config,
        place,
        backend=backend,
        resume=True,
        time_limit=time_limit,
        console=console,
        market=market,
    )
    return outcome.interrupted


def _tested(fold: Fold, place: Path, market: Market, config: RunConfig, backend: str) -> FoldResult:
    """The fold with its results on the test window, played now unless they are there already."""
    backend = "cpu" if backend == "cpu" else "auto"  # a rule is slow on a GPU
    window = fold.markets(market).test
    loaded: list[Agent] = []

    def agent() -> Agent:
        if not loaded:
            loaded.append(load_best(place))
        return loaded[0]

    def rules() -> EnvConfig:
        return getattr(agent(), "env_config", None) or config.env

    def kept(
        name: str, player: Callable[[], Agent], on: Market, other: EnvConfig | None = None
    ) -> EvaluationResult:
        if not is_checkpoint(place / "test" / name):
            played, known = player(), other or rules()
            found = evaluate(played, on, known, backend=backend, other_rules=other is not None)
            save_result(place / "test" / name, found)
        return load_result(place / "test" / name, on)

    learner: str = config.train.algorithm
    test = {learner: kept(learner, agent, window)}
    for name in config.train.baselines:
        settings = config.rule_settings(name, config.agent.seed)
        test[name] = kept(name, partial(make, name, config=settings), window)
    repriced = {}
    for multiple in config.train.cost_multiples:
        priced, options = with_costs(window, test[learner].config, multiple)
        repriced[multiple] = kept(f"{learner}-costs-{multiple!r}", agent, priced, options)
    selected = json.loads((place / METRICS).read_text(encoding="utf-8"))["selected"]
    return FoldResult(fold, place, selected, test, repriced)


def _conclude(directory: Path, folds: list[FoldResult], market: Market) -> WalkForwardOutcome:
    """Join the test windows, and write the report and metrics.json of the study."""
    results = _joined(folds, market)
    first, chosen, *_ = results
    points = []
    for multiple in folds[0].repriced:
        whole = joined([fold.repriced[multiple] for fold in folds], first.market).metrics
        points.append(CostPoint(multiple, whole["total_return"], whole["sharpe"], whole["costs"]))
    found = {first.agent: evidence(first, costs=costs_around(first, points))}
    found |= {result.agent: evidence(result) for result in results[1:]}
    outcome = WalkForwardOutcome(directory, folds, False, results, found, _rows(folds, market))
    shown = [first, chosen, *(result for result in results if result.agent == "buy_and_hold")]
    write_report(directory / "report.html", shown, [REMARK], evidence=found, folds=outcome.rows)
    write_result(directory / METRICS, walk_forward_summary(outcome))
    return outcome


def _joined(folds: Sequence[FoldResult], market: Market) -> list[EvaluationResult]:
    """The results on all test windows together."""
    whole = tested_market([fold.fold for fold in folds], market)
    results = [joined([fold.test[name] for fold in folds], whole) for name in folds[0].test]
    agent = results[0].agent
    chosen = joined([fold.test[fold.selected] for fold in folds], whole)
    return [results[0], dataclasses.replace(chosen, agent=f"{agent} or flat"), *results[1:]]


def tested_market(folds: Sequence[Fold], market: Market) -> Market:
    """All test windows together, with the bar before the first, at whose close the first decision is made."""
    return market.rows(folds[0].test[0] - 1, folds[-1].test[1])


def _rows(folds: Sequence[FoldResult], market: Market) -> list[FoldRow]:
    rows = []
    for done in folds:
        fold = done.fold
        result = next(iter(done.test.values()))
        train, validation, test = periods(market.bars.ts, [fold.train, fold.validation, fold.test])
        rows.append(
            FoldRow(
                fold.number,
                train,
                validation,
                test,
                done.selected,
                result.metrics["total_return"],
                bootstrap_intervals(result.returns, market.bars_per_year)["sharpe"],
                result.metrics["costs"],
                int(result.metrics["n_trades"]),
            )
        )
    return rows


def walk_forward_summary(outcome: WalkForwardOutcome) -> dict[str, Any]:
    """What metrics.json of the study holds: plain values, with null for what is not a finite number."""
    return {
        "run": str(outcome.directory),
        "interrupted": outcome.interrupted,
        "folds": [
            {
                "number": fold.fold.number,
                "train": fold.fold.train,
                "validation": fold.fold.validation,
                "test": fold.fold.test,
                "selected": fold.selected,
                "results": {name: plain_result(result) for name, result in fold.test.items()},
            }
            for fold in outcome.folds
        ],
        "test": {result.agent: plain_result(result) for result in outcome.results},
        "evidence": {name: plain_evidence(found) for name, found in outcome.evidence.items()},
    }
