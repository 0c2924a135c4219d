"""A training run: data, split, learning with validation, model selection, report."""

import json
import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode
from rich.console import Console

from fox_agents.api import Agent, Callback
from fox_agents.callbacks import Interrupt, ProgressDisplay, RunLog, TimeLimit, TrainingCurves, Validation
from fox_agents.checkpoint import CheckpointError, CheckpointStore
from fox_agents.config import DataConfig, RunConfig, load_run_config, to_toml
from fox_agents.evaluation import EvaluationResult, evaluate
from fox_agents.registry import load, make
from fox_agents.report import write_report
from fox_env import FoxFuturesVectorEnv, Market, synthetic
from fox_env.errors import ConfigError

__all__ = [
    "Outcome",
    "load_best",
    "load_market",
    "load_run",
    "new_run",
    "plain_metrics",
    "split_market",
    "summary",
    "train",
]

_BASELINES = ("flat", "random", "buy_and_hold")


@dataclass(frozen=True)
class Outcome:
    """How a training run ended."""

    directory: Path
    """The run directory."""
    env_steps: int
    """Transitions collected."""
    interrupted: bool
    """Stopped by a signal; there are no results then."""
    selected: str | None
    """Winner of the model selection: the agent's name or ``"flat"``; None when interrupted."""
    results: list[EvaluationResult]
    """Validation results of the agent's best checkpoint and of the baselines."""


def load_market(data: DataConfig) -> Market:
    """Market named by a configuration; ConfigError unless exactly one of file and synthetic is given."""
    if (data.file is None) == (data.synthetic is None):
        raise ConfigError("give exactly one of data.file (--data FILE) and data.synthetic (--synthetic NAME)")
    if data.synthetic is not None and (data.tz, data.label) != (None, None):
        raise ConfigError(
            "data.tz and data.label (--tz, --label) describe a file; leave them out with --synthetic"
        )
    if data.synthetic is not None:
        return synthetic.from_name(data.synthetic)
    assert data.file is not None
    if not Path(data.file).is_file():
        raise ConfigError(f"no data file {data.file}; check the path given to --data")
    hints: dict[str, Any] = {
        key: value for key, value in {"tz": data.tz, "label": data.label}.items() if value is not None
    }
    return Market.from_file(data.file, contract=data.contract, **hints)


def split_market(market: Market, data: DataConfig) -> tuple[Market, Market]:
    """Training and validation part, the later one for validation, with the embargo between them."""
    fraction = data.validation_fraction
    training, validation = market.split(1.0 - fraction, fraction, embargo=data.embargo)
    return training, validation


def new_run(directory: Path, config: RunConfig) -> None:
    """Make a run directory and write the resolved configuration; ConfigError if it already holds a run."""
    path = directory / "config.toml"
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:  # fails when two runs race for one name
            file.write(to_toml(config.to_dict()))
    except FileExistsError:
        raise ConfigError(
            f"{directory} already holds a run; give another --logdir, or go on with --resume"
        ) from None


def load_run(directory: Path) -> RunConfig:
    """Configuration of an existing run; ConfigError when the directory holds none."""
    path = directory / "config.toml"
    if not path.is_file():
        raise ConfigError(
            f"no run in {directory}: config.toml is missing; give the directory of an earlier run"
        )
    return load_run_config(path)


def load_best(directory: Path) -> Agent:
    """The best agent of a run directory, or the agent of a checkpoint directory."""
    store = CheckpointStore(directory / "checkpoints")
    return load(store.find("best") or store.find("last") or directory)


def train(
    config: RunConfig,
    directory: Path,
    *,
    backend: str = "auto",
    resume: bool = False,
    time_limit: float | None = None,
    console: Console | None = None,
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
        Go on from the last checkpoint, bit for bit.
    time_limit : float, optional
        Seconds of learning after which to stop and report.
    console : Console, optional
        Where progress goes; a quiet one by default.

    Raises
    ------
    ConfigError, DataError, CheckpointError
        When something does not fit.
    """
    console = console or Console(quiet=True)
    training, validation = split_market(load_market(config.data), config.data)
    console.print(
        f"{len(training):,} training and {len(validation):,} validation bars of {training.contract.symbol}"
        + ("" if training.has_volume else "; no volume: participation limits and impact are off"),
        highlight=False,
    )
    env = FoxFuturesVectorEnv(
        config.train.num_envs,
        training,
        config.env,
        backend=backend,
        output="torch",
        autoreset_mode=AutoresetMode.SAME_STEP,
        copy=False,  # the agent copies what it keeps
        info_level="learn",
    )
    with ExitStack() as stack:
        stack.callback(env.close)
        store = CheckpointStore(directory / "checkpoints")
        agent = _agent(config, env, store, resume)
        log = RunLog(directory, agent.env_steps)
        stack.callback(log.close)

        def score(agent: Agent) -> EvaluationResult:
            return evaluate(
                agent,
                validation,
                config.env,
                num_envs=min(config.train.validation_envs, len(validation) // 2),
            )

        judge = Validation(log, store, score, config.train.checkpoint_seconds)
        interrupt = stack.enter_context(Interrupt())
        display = stack.enter_context(ProgressDisplay(console, config.train.total_steps, judge))
        callbacks: list[Callback] = [TrainingCurves(log, agent), judge, display, interrupt]
        if time_limit is not None:
            callbacks.append(TimeLimit(time_limit))
        agent.learn(config.train.total_steps, callbacks)
        if interrupt.requested:
            judge.save_last(agent)
            return Outcome(directory, agent.env_steps, True, None, [])
        if judge.judged != agent.env_steps:  # the time limit fell inside an epoch: judge what there is
            judge.on_epoch(agent, agent.diagnostics())
        judge.save_last(agent)
    return _conclude(config, directory, store, validation, agent.env_steps)


def _agent(config: RunConfig, env: FoxFuturesVectorEnv, store: CheckpointStore, resume: bool) -> Agent:
    if not resume:
        return make("bdq", env, config.agent)
    last = store.find("last")
    if last is None:
        raise CheckpointError(
            f"no checkpoint in {store.root}; the run was stopped before its first one: start it anew"
        )
    return load(last, env)


def _conclude(
    config: RunConfig, directory: Path, store: CheckpointStore, validation: Market, env_steps: int
) -> Outcome:
    """Evaluate the best checkpoint and the baselines, one pass each; Flat wins unless the agent earns."""
    best = store.find("best")
    assert best is not None  # validation ran at least once
    agents = [load(best), *(make(name, config={"seed": config.agent.seed}) for name in _BASELINES)]
    results = [evaluate(agent, validation, config.env) for agent in agents]
    selected = agents[0].name if results[0].metrics["mean_return_lower_bound"] > 0.0 else "flat"
    write_report(directory / "report.html", [results[0], *(r for r in results if r.agent == "buy_and_hold")])
    outcome = Outcome(directory, env_steps, False, selected, results)
    (directory / "metrics.json").write_text(json.dumps(summary(outcome), indent=1), encoding="utf-8")
    return outcome


def summary(outcome: Outcome) -> dict[str, Any]:
    """What metrics.json holds: plain values, with null for what is not a finite number."""
    return {
        "run": str(outcome.directory),
        "env_steps": outcome.env_steps,
        "interrupted": outcome.interrupted,
        "selected": outcome.selected,
        "validation": {result.agent: plain_metrics(result.metrics) for result in outcome.results},
    }


def plain_metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics as JSON can hold them."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in metrics.items()}
