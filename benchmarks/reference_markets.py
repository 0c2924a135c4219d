"""What agents reach of the known answers of the reference markets, at equal environment steps or equal time.

Run: python benchmarks/reference_markets.py --agents bdq,ppo,flat --markets signal,momentum --seeds 3 --steps 1e6
[--seconds 60] [--jobs 4] [--set bdq.lr=1e-3] [--quick]. Every (agent, market, seed) is a process of its own, trained on
a market of its seed and scored on the same fresh bars as all others. Finished ones are kept beside the JSON file, and a
second run with the same options goes on from there; a page with the bars met and missed lies beside it. Equal time
means something with --jobs 1 only.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import ROOT, arguments, cuda_present, machine_facts, print_table, write_json
from reference_table import MARTINGALE_LEVEL, write

from fox_agents.experiments import markets_of, reference_of
from fox_agents.jobs import Job, run_jobs, source_digest, write_result
from fox_agents.stats.seeds import interval


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--device", dest="backend", choices=("auto", "cpu", "cuda"), help="as --backend")
    parser.add_argument("--agents", default="bdq,ppo,qrdqn,flat", help="names (default: %(default)s)")
    parser.add_argument(
        "--markets", default="signal", help="names, with changes after a colon: signal:beta=0.3"
    )
    parser.add_argument(
        "--seeds", type=int, default=3, help="training seeds 0, 1, ... (default: %(default)s)"
    )
    parser.add_argument("--steps", type=float, default=2e6, help="environment steps (default: %(default)g)")
    parser.add_argument("--seconds", type=float, help="most wall time of learning (default: no limit)")
    parser.add_argument("--bars", type=float, default=4e6, help="bars to score (default: %(default)g)")
    parser.add_argument(
        "--sessions", type=int, default=2_500, help="of a training market (default: %(default)s)"
    )
    parser.add_argument("--preset", help="settings of the agents, a name in configs/ (default: their own)")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (default: %(default)s)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="AGENT.KEY=VALUE",
        help="a setting of an agent, its num_envs, or env.OPTION",
    )
    parser.add_argument("--job", nargs=4, help=argparse.SUPPRESS)  # agent, market, seed, file: one process
    options = parser.parse_args()
    if options.quick:
        options.steps, options.bars = min(options.steps, 2e4), min(options.bars, 5e4)
        options.seeds, options.sessions = 1, min(options.sessions, 30)
    options.steps, options.bars = int(options.steps), int(options.bars)
    if options.backend == "auto":
        options.backend = "cuda" if cuda_present() else "cpu"
    return options


def job_settings(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    """What a finished job must have been run with to count."""
    return {
        "steps": options.steps,
        "seconds": options.seconds,
        "bars": options.bars,
        "sessions": options.sessions,
        "preset": options.preset,
        "backend": options.backend,
        "code": source_digest(ROOT / "benchmarks"),
        "set": sorted(text for text in options.set if text.startswith(f"{agent}.")),
    }


def run_job(options: argparse.Namespace) -> None:
    """Train one agent, score it, write the result: what a process of its own does."""
    from reference_agents import Budget, EarlyScore, overrides, preset_settings, train, value_gap

    from fox_agents.reference_scores import EARLY, improved, score

    agent, market, seed, file = options.job
    settings = job_settings(options, agent)  # with the sources as they are when the work begins
    reference = reference_of(market)
    began = time.perf_counter()
    training = reference.market(int(seed), options.sessions)
    made = time.perf_counter() - began
    budget = Budget(options.steps, options.seconds)
    changes = preset_settings(agent, options.preset, options.steps) | overrides(options.set, agent)
    early = EarlyScore(EARLY * options.steps, lambda half: score(half, reference, options.bars))
    callbacks = [early] if reference.improves else []
    trained = train(agent, reference, training, int(seed), budget, options.backend, changes, callbacks)
    began = time.perf_counter()
    got = score(trained.agent, reference, options.bars)
    passed, gap = got.passed, value_gap(trained.agent)
    if reference.improves:
        # Who learns nothing, or is stopped before the first score, has shown no progress.
        passed = early.score is not None and improved(early.score, got, early.gap, gap)
    result = {
        "agent": agent,
        "market": market,
        "seed": int(seed),
        "options": settings,
        "settings": trained.settings,
        "env_steps": trained.env_steps,
        "training_bars": len(training),
        "train_seconds": trained.seconds,
        "market_seconds": made,
        "score_seconds": time.perf_counter() - began,
        "score": {key: value for key, value in got.to_dict().items() if key not in ("agent", "market")},
        "early": None if early.score is None else {"gap": early.gap, "money": early.score.money},
        "gap": gap,
        "passed": passed,
        "diagnostics": trained.agent.diagnostics(),
        # Only there is the realised money tested.
        "realised": got.realised.tolist() if reference.answer == "no trade" else None,
    }
    write_result(Path(file), result)


def job_of(options: argparse.Namespace, folder: Path, agent: str, market: str, seed: int) -> Job:
    """The process that trains and scores one agent."""
    words = [agent, market, str(seed)]
    file = folder / ("-".join(words).replace(":", "_").replace("=", "_") + ".json")
    command = [sys.executable, __file__, *sys.argv[1:], "--job", *words, str(file)]
    return Job(" ".join(words), file, command, job_settings(options, agent))


def description(result: dict[str, Any]) -> str:
    """What a finished job says of itself."""
    said = {key: result["score"][key] for key in ("money", "share", "adjusted_share")}
    return ", ".join(f"{key} {value:.4g}" for key, value in said.items() if value is not None)


def say(line: str) -> None:
    """Print a line of progress at once."""
    print(line, flush=True)


def summary_rows(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each market and agent, over its seeds."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["market"], result["agent"]), []).append(result)
    rows = []
    for (market, agent), group in groups.items():
        scores = [result["score"] for result in group]
        shares = [100.0 * s["adjusted_share"] for s in scores if s["adjusted_share"] is not None]
        low, high = interval(shares)
        rows.append(
            {
                "market": market,
                "agent": agent,
                "seeds": len(group),
                "money": statistics.fmean(s["money"] for s in scores),
                "answer": scores[0]["answer"],
                "share_%": statistics.fmean(shares) if shares else None,
                "low_%": low,
                "high_%": high,
                "worst_%": min(shares, default=None),
                "scoring_error_%": max((100.0 * s["adjusted_error"] for s in scores if shares), default=None),
                "passed": f"{sum(result['passed'] for result in group)}/{len(group)}",
                "fault": any(s["above_optimum"] for s in scores),
                "exposure": statistics.fmean(s["exposure"] for s in scores),
                "martingale_p": pooled_p(group),
                "env_steps": statistics.fmean(result["env_steps"] for result in group),
                "train_s": statistics.fmean(result["train_seconds"] for result in group),
            }
        )
    return rows


def pooled_p(group: Sequence[dict[str, Any]]) -> float | None:
    """The p-value of a profit on the martingale, pooled over seeds; None on other markets.

    Seeds are scored on the same bars, so the mean over seeds of each window is what is independent.
    """
    from fox_agents.reference_scores import martingale_test

    if group[0]["realised"] is None:
        return None
    return martingale_test(np.mean([result["realised"] for result in group], axis=0))


def main() -> None:
    """Run, print, write."""
    options = read_options()
    if options.job:
        run_job(options)
        return
    from reference_agents import missing

    names = options.agents.split(",")
    absent = [why for name in names if (why := missing(name))]
    for why in absent:
        print(f"left out: {why}")
    names = [name for name in names if missing(name) is None]
    markets = markets_of(options.markets)
    for market in markets:
        reference_of(market)  # refuses a wrong name before anything is trained
    out = options.out or ROOT / "runs" / "benchmarks" / "reference_markets.json"
    jobs = [
        job_of(options, out.with_suffix(""), agent, market, seed)
        for market in markets
        for seed in range(options.seeds)
        for agent in names
    ]
    results = list(run_jobs(jobs, options.jobs, description, say))
    results.sort(key=lambda r: (markets.index(r["market"]), names.index(r["agent"]), r["seed"]))
    rows = summary_rows(results)
    print_table("Share of the known answer, 95 % intervals over seeds", rows)
    print(f"\nmartingale: a p below {MARTINGALE_LEVEL} would be a profit; others pass by their money")
    write_json("reference_markets", out, {"rows": rows, "left_out": absent, "jobs": results})
    write(out.with_suffix(".md"), rows, machine_facts(), options.seeds)
    print(f"written: {out.with_suffix('.md')}")
    if len(results) < len(jobs):
        raise SystemExit(f"{len(jobs) - len(results)} of {len(jobs)} jobs failed; run again to go on")


if __name__ == "__main__":
    main()
