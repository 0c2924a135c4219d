"""A training run: data, split, learning with validation, model selection, report."""

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode
from rich.console import Console

from fox_agents.api import Agent, Callback
from fox_agents.callbacks import CURVES, Interrupt, ProgressDisplay, TimeLimit, TrainingCurves, Validation
from fox_agents.checkpoint import (
    CheckpointError,
    CheckpointStore,
    atomic_directory,
    is_checkpoint,
    write_arrays,
    write_state,
)
from fox_agents.config import DataConfig, RunConfig, load_run_config, to_toml
from fox_agents.evaluation import EvaluationResult, evaluate
from fox_agents.evidence import CostPoint, Evidence
from fox_agents.faults import TrainingFault
from fox_agents.jobs import write_result
from fox_agents.lock import require_own, run_lock
from fox_agents.registry import agent_class, load, make
from fox_agents.report import equity_image, write_report
from fox_agents.run_log import RunLog
from fox_agents.stats import TrialLog, cost_sensitivity, evidence, read_trials
from fox_agents.walk_forward import Fold, WalkForward
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, synthetic
from fox_env.errors import ConfigError, FoxError

__all__ = [
    "Outcome",
    "costs_around",
    "folds_of",
    "load_best",
    "load_market",
    "load_run",
    "new_run",
    "plain_evidence",
    "plain_result",
    "selection_rule",
    "split_market",
    "summary",
    "train",
]


@dataclass(frozen=True)
class Outcome:
    """How a training run ended."""

    directory: Path
    """The run directory."""
    env_steps: int
    """Transitions collected."""
    interrupted: bool
    """Stopped by a signal, with everything saved; there are no results then."""
    selected: str | None
    """Winner of the model selection: the agent's name or ``"flat"``; None when interrupted."""
    results: list[EvaluationResult]
    """Validation results of the agent's best checkpoint and of the baselines."""
    evidence: dict[str, Evidence]
    """How sure we are of each of `results`, by name of agent."""


def load_market(data: DataConfig) -> Market:
    """Market named by a configuration; ConfigError unless exactly one of file and synthetic is given."""
    if (data.file is None) == (data.synthetic is None):
        raise ConfigError("give exactly one of data.file (--data FILE) and data.synthetic (--synthetic NAME)")
    hints: dict[str, Any] = {name: getattr(data, name) for name in ("tz", "label", "symbol", "bars")}
    hints = {name: value for name, value in hints.items() if value is not None}
    if data.synthetic is not None and hints:
        raise ConfigError(
            f"{', '.join(f'data.{name}' for name in hints)} describe a file; leave them out with --synthetic"
        )
    if data.synthetic is not None:
        return synthetic.from_name(data.synthetic)
    assert data.file is not None
    if not Path(data.file).is_file():
        raise ConfigError(f"no data file {data.file}; check the path given to --data")
    return Market.from_file(data.file, contract=data.contract, **hints)


def folds_of(market: Market, config: RunConfig) -> list[Fold]:
    """The walk-forward folds that a configuration asks for; ConfigError where the bars are too few."""
    c = config.folds
    return WalkForward(c.count, c.train, c.validation, c.test, config.data.embargo, c.anchored).split(market)


def split_market(market: Market, config: RunConfig) -> tuple[Market, Market]:
    """Training and validation part, the later one for validation, with the embargo between them."""
    if config.folds.number is not None:
        training, validation, _ = folds_of(market, config)[config.folds.number].markets(market)
        assert validation is not None  # FoldConfig asks for one
        return training, validation
    fraction = config.data.validation_fraction
    training, validation = market.split(1.0 - fraction, fraction, embargo=config.data.embargo)
    return training, validation


def new_run(directory: Path, config: RunConfig) -> None:
    """Make a run directory and write the resolved configuration; ConfigError if it holds a run or anything else."""
    path = directory / "config.toml"
    unfinished = ".config.toml.tmp-"
    require_own(directory, path.name, [f"{unfinished}*"], "--logdir")
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f"{unfinished}{os.getpid()}"
    temporary.write_text(to_toml(config.to_dict()), encoding="utf-8")
    try:
        os.link(temporary, path)  # whole or not at all, and fails when two runs race for one name
    except FileExistsError:
        raise ConfigError(
            f"{directory} already holds a run; give another --logdir, or go on with --resume"
        ) from None
    finally:
        temporary.unlink()


def load_run(directory: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Configuration of an existing run with ``section.key=value`` overrides; ConfigError when there is none."""
    path = directory / "config.toml"
    if not path.is_file():
        raise ConfigError(
            f"no run in {directory}: config.toml is missing; give the directory of an earlier run"
        )
    return load_run_config(path, overrides)


def load_best(directory: Path) -> Agent:
    """The best agent of a run directory, or the agent of a checkpoint directory."""
    store = CheckpointStore(directory / "checkpoints")
    found = store.find("best") or store.find("last")
    if found is None and not is_checkpoint(directory):
        if (fold := directory / "fold-0").is_dir():
            raise CheckpointError(
                f"{directory} is a walk-forward study with an agent in every fold; give one of them, such as {fold}"
            )
        if (directory / "config.toml").is_file():
            raise CheckpointError(
                f"the run in {directory} has no checkpoint yet; go on with --resume, by the script that began it"
            )
        raise CheckpointError(
            f"no run and no checkpoint in {directory}; give the --logdir of an earlier training run"
        )
    return load(found or directory)


def train(
    config: RunConfig,
    directory: Path,
    *,
    backend: str = "auto",
    resume: bool = False,
    time_limit: float | None = None,
    console: Console | None = None,
    market: Market | None = None,
) -> Outcome:
    """Train in ``directory`` (see `new_run`), select on the validation period, and write the results there.

    Parameters
    ----------
    config : RunConfig
        The run; with ``resume`` it must be the one the run was started with.
    directory : Path
        Holds config.toml, checkpoints/, tb/, health.jsonl and, at the end, metrics.json and report.html.
    backend : str
        "auto", "cpu" or "cuda".
    resume : bool
        Go on from the last checkpoint, bit for bit; from the beginning when there is none yet.
    time_limit : float, optional
        Seconds of learning after which to stop and report.
    console : Console, optional
        Where progress goes; a quiet one by default.
    market : Market, optional
        The whole market of ``config.data``, where it is loaded already.

    Raises
    ------
    ConfigError, DataError, CheckpointError
        When something does not fit, or another process trains in ``directory``.
    KeyboardInterrupt
        When interrupted before learning has begun, or a second time before the checkpoint is written.
    """
    console = console or Console(quiet=True)
    with ExitStack() as stack:
        stack.enter_context(run_lock(directory))
        training, validation = split_market(market or load_market(config.data), config)
        console.print(
            f"{len(training):,} training and {len(validation):,} validation bars of {training.contract.symbol}"
            + ("" if training.has_volume else "; no volume: participation limits and impact are off"),
            highlight=False,
        )
        env = _training_env(config, training, backend)
        stack.callback(env.close)
        store = CheckpointStore(directory / "checkpoints")
        last = store.find("last") if resume else None
        agent = make(config.train.algorithm, env, config.agent) if last is None else load(last, env)
        log = RunLog(directory, agent.env_steps)
        stack.callback(log.close)
        try:
            best = store.entry("best")  # perhaps later than the last: its trial stays
            trials = TrialLog(directory, step=max(agent.env_steps, 0 if best is None else best["step"]))
            if _learn(config, agent, validation, log, store, trials, time_limit, console):
                return _conclude(config, directory, store, validation, agent, log)
        except TrainingFault as fault:
            place = directory / f"fault-{agent.env_steps}"
            with atomic_directory(place) as temporary:
                write_arrays(temporary, "batch", fault.arrays)
                write_state(temporary, fault.state)
            raise FoxError(f"{fault}; the batch is kept in {place}") from None
        except KeyboardInterrupt:  # nothing is lost when all is saved, as it is during the final evaluation
            if _saved_step(store) != agent.env_steps:
                raise
        return Outcome(directory, agent.env_steps, True, None, [], {})


def _training_env(config: RunConfig, market: Market, backend: str) -> FoxFuturesVectorEnv:
    return FoxFuturesVectorEnv(
        config.train.num_envs,
        market,
        config.env,
        backend=backend,
        output=agent_class(config.train.algorithm).output,
        autoreset_mode=AutoresetMode.SAME_STEP,
        copy=False,  # the agent copies what it keeps
        info_level="learn",
    )


def _saved_step(store: CheckpointStore) -> int | None:
    last = store.entry("last")
    return last["step"] if last is not None else None


def _learn(
    config: RunConfig,
    agent: Agent,
    validation: Market,
    log: RunLog,
    store: CheckpointStore,
    trials: TrialLog,
    time_limit: float | None,
    console: Console,
) -> bool:
    """Learn to the end or to an interruption, and save; whether it was the end."""

    def score(agent: Agent) -> EvaluationResult:
        windows = min(config.train.validation_envs, len(validation) // 2)
        return evaluate(agent, validation, num_envs=windows)

    judge = Validation(log, store, trials, score, config.train.checkpoint_seconds, config.train.patience)
    interrupt = Interrupt()
    with interrupt, ProgressDisplay(console, config.train.total_steps, judge) as display:
        callbacks: list[Callback] = [TrainingCurves(log, agent), judge, display, interrupt]
        if time_limit is not None:
            callbacks.append(TimeLimit(time_limit))
        agent.learn(config.train.total_steps, callbacks)
        if not interrupt.requested and judge.judged != agent.env_steps:
            judge.on_epoch(
                agent, agent.diagnostics()
            )  # the time limit fell inside an epoch: judge what there is
        judge.save_last(agent)
    return not interrupt.requested


def _conclude(
    config: RunConfig,
    directory: Path,
    store: CheckpointStore,
    validation: Market,
    agent: Agent,
    log: RunLog,
) -> Outcome:
    """Evaluate the best checkpoint and the baselines, one pass each; Flat wins unless the agent earns."""
    path = store.find("best")
    assert path is not None  # validation ran at least once
    best = load(path, getattr(agent, "env", None))  # on the device that it learned on
    rules: EnvConfig = getattr(best, "env_config", None) or config.env
    seed = config.agent.seed
    baselines = [make(name, config=config.rule_settings(name, seed)) for name in config.train.baselines]
    results = [evaluate(player, validation, rules) for player in (best, *baselines)]
    selected = best.name if results[0].metrics["mean_return_lower_bound"] > 0.0 else "flat"
    found = {result.agent: evidence(result) for result in results[1:]}
    costs = costs_around(results[0], cost_sensitivity(best, validation, rules, config.train.cost_multiples))
    found[best.name] = evidence(results[0], trials=read_trials([directory]), costs=costs)
    outcome = Outcome(directory, agent.env_steps, False, selected, results, found)
    shown = [results[0], *(r for r in results if r.agent == "buy_and_hold")]
    remarks = [selection_rule(outcome)]
    health = directory / "health.jsonl"
    write_report(directory / "report.html", shown, remarks, evidence=found, health=health)
    done = directory / "metrics.json"
    if not done.exists():  # a run that is asked for its results again has its curves already
        _log_final(config, log, outcome, shown)
    write_result(done, summary(outcome))
    return outcome


def costs_around(result: EvaluationResult, others: Sequence[CostPoint]) -> list[CostPoint]:
    """The cost points with that of the result itself among them, by their multiples."""
    metrics = result.metrics
    own = CostPoint(1.0, metrics["total_return"], metrics["sharpe"], metrics["costs"])
    return sorted({point.multiple: point for point in (*others, own)}.values())


def _log_final(config: RunConfig, log: RunLog, outcome: Outcome, shown: Sequence[EvaluationResult]) -> None:
    """The settings with the final metrics for TensorBoard's table of runs, and the equity as a picture."""
    metrics = {name: outcome.results[0].metrics[name] for name in CURVES}
    log.settings(config.to_dict(), metrics, outcome.env_steps)
    if find_spec("matplotlib") is not None:
        log.picture("val/equity", equity_image(shown), outcome.env_steps)


def selection_rule(outcome: Outcome) -> str:
    """One sentence: what was selected and by which rule."""
    bound = outcome.results[0].metrics["mean_return_lower_bound"]
    return (
        f"Model selection: {outcome.selected}. The checkpoint shown has the highest lower 95 % confidence bound of the "
        f"mean step return on this same validation period, {bound:+.2e} in one pass; flat, which scores zero, is "
        "selected unless that bound is above zero."
    )


def summary(outcome: Outcome) -> dict[str, Any]:
    """What metrics.json holds: plain values, with null for what is not a finite number."""
    return {
        "run": str(outcome.directory),
        "env_steps": outcome.env_steps,
        "interrupted": outcome.interrupted,
        "selected": outcome.selected,
        "validation": {result.agent: plain_result(result) for result in outcome.results},
        "evidence": {name: plain_evidence(found) for name, found in outcome.evidence.items()},
    }


def plain_evidence(found: Evidence) -> dict[str, Any]:
    """How sure we are, as JSON can hold it: intervals and cost points by the names of their parts."""
    plain = asdict(found)
    plain["intervals"] = {name: _finite(part._asdict()) for name, part in found.intervals.items()}
    plain["costs"] = [_finite(point._asdict()) for point in found.costs]
    return _finite(plain)


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def plain_result(result: EvaluationResult) -> dict[str, Any]:
    """Metrics, and the histograms of the actions chosen and executed, as JSON can hold them."""
    return {**_finite(result.metrics), "actions": result.actions, "executed": result.executed}
