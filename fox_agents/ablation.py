"""Ablations: seeds times mechanisms on the reference markets, every run a process of its own, paired by seed.

A run trains one variant on the market of its seed, scores the greedy policy along the way on few fresh bars and at the
end on many, and times one update after all that. ``python -m fox_agents.ablation SPEC FILE`` is such a run.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from fox_agents.api import Agent, Callback
from fox_agents.config import RunConfig, TrainConfig
from fox_agents.dqn.config import BDQConfig, ReferenceConfig
from fox_agents.dqn.loop import DeviceAgent
from fox_agents.experiments import markets_of, reference_of, train_on
from fox_agents.jobs import Job, run_jobs, source_digest, write_result
from fox_agents.mechanisms import BASELINE, Variant, variants_of
from fox_agents.plain_values import build, nearest
from fox_agents.ranges import require, require_between
from fox_agents.reference_markets import FIRST_SCORING_SEED, TRAINING_SESSIONS, ReferenceMarket
from fox_agents.reference_scores import SCORED_BARS, score
from fox_env import EnvConfig, Market
from fox_env.errors import ConfigError

__all__ = ["Study", "jobs_of", "run_one", "run_study", "study_of", "update_seconds"]

_CURVE_SEED = 2 * FIRST_SCORING_SEED  # of the markets that the curve is scored on
# What the reference agent takes over from the baseline: how much is collected and learned from, and how it is run.
_SHARED = (
    "gamma",
    "batch_size",
    "accumulate",
    "replay_size",
    "collect_steps",
    "updates",
    "learning_starts",
    "schedule_steps",
    "compile",
    "precision",
)
_READINGS = 5
_QUICK_AGENT = {"hidden": 32, "batch_size": 64, "learning_starts": 500, "schedule_steps": 2_000}
_QUICK = {"bars": 20_000, "curve_points": 2, "curve_bars": 5_000, "sessions": 10, "timed_updates": 3}
_QUICK_REFERENCE = {"hidden": 32}
_QUICK_STEPS, _QUICK_SEEDS, _QUICK_ENVS = 4_000, 2, 64


@dataclass(frozen=True)
class Study:
    """What is run."""

    baseline: BDQConfig
    """Configuration that every variant changes in one point."""
    variants: Sequence[Variant]
    """What is compared with it."""
    markets: Sequence[str] = ("signal",)
    """Reference markets, with changes after a colon as in ``signal:beta=0.3``."""
    seeds: int = 5
    """Seeds 0, 1, ... of training market and agent."""
    steps: int = 2_000_000
    """Environment steps of a run, over all environments."""
    num_envs: int = 1024
    """Environments stepped together."""
    device: str = "cpu"
    """``cpu`` or ``cuda``."""
    bars: int = SCORED_BARS
    """Fresh bars of the final score."""
    curve_points: int = 20
    """Scores along the way, the last one at the end."""
    curve_bars: int = 200_000
    """Fresh bars of each of them."""
    sessions: int = TRAINING_SESSIONS
    """Sessions of a training market."""
    timed_updates: int = 50
    """Updates of each of the readings whose median is the time of an update."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """Options of `fox_env.EnvConfig` that differ from the reference market's."""
    reference: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the reference agent that differ from its own, or from what it shares with the baseline."""

    def __post_init__(self) -> None:
        for name, most in (("seeds", 10_000), ("num_envs", 2**22), ("curve_points", 1000)):
            require_between(name, getattr(self, name), 1, most)
        first = max(self.baseline.learning_starts, self.num_envs)
        require(self.steps > first, "steps", self.steps, f"above {first}, where learning starts")
        for name in self.markets:
            build(EnvConfig, self.rules, "env", reference_of(name).config)
        build(ReferenceConfig, self.reference, "reference")


def study_of(
    *,
    config: RunConfig,
    overrides: Sequence[str],
    mechanisms: str,
    markets: str,
    seeds: int,
    steps: int,
    bars: int,
    device: str,
    quick: bool,
) -> Study:
    """The study that a command line asks for.

    Parameters
    ----------
    config : RunConfig
        Its agent and number of environments are the baseline's; the trading rules are those of the markets.
    overrides : Sequence[str]
        ``agent.key=value``, ``env.key=value``, ``reference.key=value`` and ``train.num_envs=N``; they win.
    mechanisms : str
        As for `fox_agents.mechanisms.variants_of`.
    device : str
        ``auto`` takes the GPU where there is one.
    quick : bool
        Replace sizes and lengths by tiny ones.

    Raises
    ------
    ConfigError
        For a name that there is not, with the nearest one, and values that do not fit.
    """
    given = _sections(overrides)
    if not isinstance(config.agent, BDQConfig):
        raise ConfigError(f"an ablation changes bdq, not {config.agent.algorithm}; give another preset")
    num_envs = build(TrainConfig, given["train"], "train", config.train).num_envs
    small: dict[str, Any] = {}
    if quick:
        small, steps, seeds = dict(_QUICK), min(steps, _QUICK_STEPS), min(seeds, _QUICK_SEEDS)
        bars, num_envs = min(bars, small.pop("bars")), min(num_envs, _QUICK_ENVS)
    baseline = build(BDQConfig, (_QUICK_AGENT if quick else {}) | given["agent"], "agent", config.agent)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return Study(
        baseline=baseline,
        variants=variants_of(mechanisms, baseline),
        markets=markets_of(markets),
        seeds=seeds,
        steps=steps,
        num_envs=num_envs,
        device=device,
        bars=bars,
        rules=given["env"],
        reference=(_QUICK_REFERENCE if quick else {}) | given["reference"],
        **small,
    )


def _sections(overrides: Sequence[str]) -> dict[str, dict[str, str]]:
    """The overrides by section; ConfigError for one that an ablation does not take."""
    given: dict[str, dict[str, str]] = {"agent": {}, "env": {}, "reference": {}, "train": {}}
    for text in overrides:
        key, equals, value = text.partition("=")
        section, dot, name = key.strip().partition(".")
        if not (equals and dot and name):
            raise ConfigError(
                f"cannot read the override {text!r}; write section.key=value, as in agent.lr=1e-4"
            )
        if section not in given:
            raise ConfigError(f"an ablation takes no section {section!r}: {nearest(section, given)}")
        if section == "train" and name != "num_envs":
            raise ConfigError(f"an ablation takes no train.{name}: of that section only train.num_envs")
        given[section][name] = value.strip()
    return given


def jobs_of(study: Study, folder: Path) -> list[Job]:
    """Every run of a study: for each market and seed the baseline and the variants."""
    variants = [Variant(BASELINE, "bdq", {}), *study.variants]
    return [
        _job(study, variant, market, seed, folder)
        for market in study.markets
        for seed in range(study.seeds)
        for variant in variants
    ]


def _job(study: Study, variant: Variant, market: str, seed: int, folder: Path) -> Job:
    base = asdict(study.baseline)
    if variant.agent == "bdq":
        settings = base | dict(variant.changes)
    else:
        settings = {name: base[name] for name in _SHARED} | dict(study.reference)
    settings |= {"seed": seed, "epoch_steps": max(study.steps // study.curve_points, 1)}
    names = ("steps", "num_envs", "device", "bars", "curve_bars", "sessions", "timed_updates")
    spec = {name: getattr(study, name) for name in names}
    spec |= {"variant": variant.name, "agent": variant.agent, "market": market, "seed": seed}
    spec |= {"settings": settings, "rules": dict(study.rules), "code": source_digest()}
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in f"{market}-{variant.name}-{seed}")
    file = folder / f"{name}.json"
    command = [sys.executable, "-m", "fox_agents.ablation", json.dumps(spec), str(file)]
    return Job(label_of(spec), file, command, spec)


def label_of(run: Mapping[str, Any]) -> str:
    """Market, variant and seed of a run, in words."""
    return f"{run['market']} / {run['variant']} / seed {run['seed']}"


def run_study(
    study: Study, folder: Path, parallel: int, say: Callable[[str], object]
) -> Iterator[dict[str, Any]]:
    """Run what has no result in ``folder`` yet, ``parallel`` processes at a time; yield every result there is."""
    yield from run_jobs(jobs_of(study, folder), parallel, _describe, say)


def _describe(result: Mapping[str, Any]) -> str:
    share = result["score"]["adjusted_share"]
    money = f"{result['score']['money']:.4g} a bar"
    said = money if share is None else f"{100.0 * share:.1f} % of the answer"
    return f"{said}, {result['train_seconds']:.0f} s, {1e3 * result['update_seconds']:.3g} ms an update"


def run_one(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Train, score and time one variant; the result holds plain values."""
    made = {**spec, "code": source_digest()}  # the sources as they are when the work begins
    reference = reference_of(spec["market"])
    rules = build(EnvConfig, spec["rules"], "env", reference.config)
    curve = _Curve(reference, spec["curve_bars"])
    trained = train_on(
        reference.market(spec["seed"], spec["sessions"]),
        rules,
        spec["agent"],
        spec["settings"],
        num_envs=spec["num_envs"],
        steps=spec["steps"],
        backend=spec["device"],
        callbacks=[curve],
    )
    agent: Any = trained.agent
    diagnostics = agent.diagnostics()
    got = score(agent, reference, spec["bars"])
    return {
        **{name: spec[name] for name in ("variant", "agent", "market", "seed")},
        "options": made,
        "score": {key: value for key, value in got.to_dict().items() if key not in ("agent", "market")},
        "curve": curve.points,
        "env_steps": trained.env_steps,
        "train_seconds": trained.seconds - curve.seconds,
        "update_seconds": update_seconds(agent, spec["timed_updates"]),
        "diagnostics": diagnostics,
    }


@dataclass(frozen=True)
class _Kept(ReferenceMarket):
    """A reference market that makes each of its markets once."""

    made: dict[tuple[int, int], Market] = field(default_factory=dict)

    def market(self, seed: int, sessions: int = TRAINING_SESSIONS) -> Market:
        if (seed, sessions) not in self.made:
            self.made[seed, sessions] = super().market(seed, sessions)
        return self.made[seed, sessions]


class _Curve(Callback):
    """Scores the greedy policy at the end of every epoch, on the same fresh bars each time."""

    def __init__(self, reference: ReferenceMarket, bars: int) -> None:
        self._reference, self._bars = _Kept(**vars(reference)), bars
        self.points: list[dict[str, float | None]] = []
        self.seconds = 0.0
        """What scoring took."""

    def on_epoch(self, agent: Agent, diagnostics: Mapping[str, float]) -> None:
        """Add a point."""
        begin = time.perf_counter()
        got = score(agent, self._reference, self._bars, seed=_CURVE_SEED).to_dict()
        self.points.append(
            {"env_steps": agent.env_steps, "share": got["adjusted_share"], "money": got["money"]}
        )
        self.seconds += time.perf_counter() - begin


def update_seconds(agent: DeviceAgent, updates: int) -> float:
    """Median wall time of one update of an agent that has learned: sampling, losses, optimiser, priorities."""
    readings = []
    for _ in range(_READINGS):
        _wait(agent.device)
        begin = time.perf_counter()
        for _ in range(updates):
            agent._update()
        _wait(agent.device)
        readings.append((time.perf_counter() - begin) / updates)
    return statistics.median(readings)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main(spec: str, file: str) -> None:
    """Run one job and write its result."""
    write_result(Path(file), run_one(json.loads(spec)))


if __name__ == "__main__":
    main(*sys.argv[1:])
