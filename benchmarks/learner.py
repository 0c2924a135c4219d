"""How fast the learner updates, alone and in the loop, and beside the learners of other libraries.

Run: python benchmarks/learner.py [--backend cpu|cuda] [--configurations bare,default] [--batches 1024,4096]
[--modes eager,graph,compiled] [--quick]. An update samples from a filled replay, computes the losses, takes a step and
writes the priorities; ``step_per_s`` is the learner's part of it on one fixed batch. The losses must be finite and fall
on that batch before anything is timed. The loop's figure stands beside the sum of its parts, timed one by one.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import learner_peers
import torch
from gymnasium.vector import AutoresetMode
from harness import (
    arguments,
    cuda_present,
    device_seconds,
    host_seconds,
    launch_seconds,
    print_table,
    write_json,
)

import fox_agents
from fox_agents.dqn.config import BDQConfig
from fox_agents.dqn.graphs import Repeated
from fox_agents.dqn.loop import DeviceAgent
from fox_agents.mechanisms import MECHANISMS
from fox_env import EnvConfig, FoxFuturesVectorEnv

BARE: dict[str, Any] = {
    **dict.fromkeys(("variable_selection", "gated", "mixture", "noisy", "prioritised", "surgery"), False),
    **dict.fromkeys(("ensemble", "repulsion", "auxiliary", "confidence", "balance"), "off"),
}
CORE = (
    BARE | {"noisy": True, "prioritised": True} | dict.fromkeys(("ensemble", "auxiliary", "confidence"), "on")
)
CONFIGURATIONS = {
    "bare": (BARE, "C51 and quantile heads on a plain trunk, uniform replay"),
    "core": (CORE, "with noisy heads, prioritised replay, ensemble, auxiliary and confidence heads"),
    "default": ({}, "as configured by default"),
    "all": ({}, "every mechanism on"),
    "qrdqn_ref": ({}, "the reference agent, always with full information"),
}
LEAST_FALL = 1e-3  # of the loss on one batch; the target alone, moving, changes it by less
FEW = 4  # updates whose mean loss counts as the first, or the last


def all_on() -> dict[str, Any]:
    """Every mechanism of the configuration switched on."""
    default = BDQConfig()
    values: dict[str, Any] = {
        "spectral": "all",
        "exploration": default.exploration,
        "full_information": False,
    }
    for name in MECHANISMS:
        values.setdefault(name, True if isinstance(getattr(default, name), bool) else "on")
    return values


def agent_of(
    name: str,
    full: bool,
    batch: int,
    options: argparse.Namespace,
    *,
    compiled: bool = False,
    updates: int = 1,
) -> Any:
    """An agent whose replay is filled and whose learner has seen its first transitions."""
    settings = all_on() if name == "all" else dict(CONFIGURATIONS[name][0])
    settings |= {"batch_size": batch, "learning_starts": options.fill, "replay_size": options.fill}
    settings |= {
        "updates": updates,
        "epoch_steps": 10**12,
        "compile": compiled,
        "precision": options.precision,
    }
    if name != "qrdqn_ref":
        settings |= {"full_information": full, "n_step": 1 if full else 3}
    env = FoxFuturesVectorEnv(
        options.envs,
        "regimes:seed=0",
        EnvConfig(reward="risk", counterfactual=full),
        backend=options.backend,
        output="torch",
        autoreset_mode=AutoresetMode.SAME_STEP,
        copy=False,
        info_level="learn",
    )
    agent = fox_agents.make("qrdqn_ref" if name == "qrdqn_ref" else "bdq", env, settings)
    agent.learn(options.fill + options.envs)
    return agent


def checked_step(agent: DeviceAgent, batch_size: int, updates: int) -> tuple[Repeated, float, float]:
    """The learner's step on one fixed batch, after checking that it lowers the losses; their first and last mean."""
    learner: Any = agent.learner
    batch = agent._sample(batch_size, torch.zeros((), device=agent.device))
    progress = torch.zeros((), device=agent.device)

    def once() -> None:
        learner.update([batch], progress)

    step = Repeated(once, agent.device, precision=agent.config.precision)
    column = learner.STATISTICS.index("loss")
    losses = []
    for _ in range(updates):
        learner.statistics.zero_()
        step()
        losses.append(float(learner.statistics[column]))
    first, last = statistics.fmean(losses[:FEW]), statistics.fmean(losses[-FEW:])
    if not (all(map(math.isfinite, losses)) and bool(learner.ok) and last < (1.0 - LEAST_FALL) * first):
        raise SystemExit(
            f"losses from {first} to {last} on one batch: nothing was learned, so nothing is timed"
        )
    learner.statistics.zero_()
    return step, first, last


def seconds(work: Callable[[], object], options: argparse.Namespace) -> float:
    """Median time of one call of ``work`` among several, on the device."""

    def several() -> None:
        for _ in range(options.calls):
            work()

    timed = device_seconds if options.backend == "cuda" else host_seconds
    return timed(several, options.repeats) / float(options.calls)


def learner_rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Updates a second by configuration, information, batch and way of running."""
    for name in options.configurations:
        for full in (True,) if name == "qrdqn_ref" else options.full:
            for batch in options.batches:
                for mode in options.modes:
                    yield learner_row(name, full, batch, mode, options)


def learner_row(name: str, full: bool, batch: int, mode: str, options: argparse.Namespace) -> dict[str, Any]:
    """One line of the table."""
    agent = agent_of(name, full, batch, options, compiled=mode == "compiled")
    step, first, last = checked_step(agent, batch, options.checked)
    update: Callable[[], object] = agent._update
    host = None
    if mode == "eager" and options.backend == "cuda":
        update, step_alone = agent._update_step, step._step
    else:
        step_alone = step
        for _ in range(5):  # the first calls run eagerly, then comes the capture
            update()
        if options.backend == "cuda":
            host = launch_seconds(agent._update, options.repeats * options.calls)
    updating, stepping = seconds(update, options), seconds(step_alone, options)
    agent.env.close()
    row = {
        "configuration": name,
        "full_information": full,
        "batch": batch,
        "mode": "compiled + graph" if mode == "compiled" and options.backend == "cuda" else mode,
        "updates_per_s": 1.0 / updating,
        "samples_per_s": batch / updating,
        "step_per_s": 1.0 / stepping,
        "host_share": None if host is None else host / updating,
        "first_loss": first,
        "last_loss": last,
    }
    print(
        " ".join(
            f"{key}={value:.4g}" if isinstance(value, float) else str(value) for key, value in row.items()
        )
    )
    return row


def loop_rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Collecting and learning together, beside the two timed one by one."""
    batch = options.batches[0]
    for name in (name for name in options.configurations if name in ("default", "qrdqn_ref")):
        for full in (True,) if name == "qrdqn_ref" else options.full:
            for updates in options.updates:
                yield loop_row(name, full, batch, updates, options)


def loop_row(name: str, full: bool, batch: int, updates: int, options: argparse.Namespace) -> dict[str, Any]:
    """One line of the loop's table; ``of_parts`` is the sum of the parts over the time of the loop."""
    agent = agent_of(
        name,
        full,
        batch,
        options,
        compiled="compiled" in options.modes,
        updates=updates,
    )
    agent.learn(agent.env_steps + 10 * options.envs)  # past the captures
    collecting, updating = seconds(agent._collect, options), seconds(agent._update, options)
    stretches = []
    for _ in range(options.repeats):
        begin = time.perf_counter()
        agent.learn(
            agent.env_steps + options.calls * options.envs
        )  # ends by reading diagnostics, so it waits
        stretches.append((time.perf_counter() - begin) / options.calls)
    looping = statistics.median(stretches)
    host = None
    if options.backend == "cuda":
        host = launch_seconds(agent._update, options.repeats * options.calls) / updating
    agent.env.close()
    return {
        "configuration": name,
        "full_information": full,
        "envs": options.envs,
        "batch": batch,
        "samples_per_env_step": updates * batch / options.envs,
        "env_steps_per_s": options.envs / looping,
        "updates_per_s": updates / looping,
        "collect_ms": 1e3 * collecting,
        "update_ms": 1e3 * updating,
        "of_parts": (collecting + updates * updating) / looping,
        "host_share": host,
    }


def with_ratios(peers: list[dict[str, Any]], ours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often Fox's fastest way of each plain configuration updates for one update of a peer, at equal batch."""
    for peer in peers:
        for name in ("bare", "default", "all"):
            speeds = [
                row["updates_per_s"]
                for row in ours
                if (row["configuration"], row["batch"], row["full_information"])
                == (name, peer["batch"], False)
            ]
            peer[f"{name}_over_it"] = max(speeds) / peer["updates_per_s"] if speeds else None
    return peers


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--configurations", default=",".join(CONFIGURATIONS), help="of %(default)s")
    parser.add_argument("--batches", help="samples of an update (default: 1024,4096,8192)")
    parser.add_argument("--modes", help="eager, graph, compiled (default: all on a GPU, eager on a CPU)")
    parser.add_argument(
        "--precision", default="float32", choices=("float32", "tf32"), help="of products on a GPU"
    )
    parser.add_argument("--full", default="no,yes", help="full information (default: %(default)s)")
    parser.add_argument(
        "--updates", default="1,4", help="a loop's updates after each step of all environments"
    )
    parser.add_argument("--envs", type=int, help="environments (default: 1024)")
    options = parser.parse_args()
    if options.backend == "auto":
        options.backend = "cuda" if cuda_present() else "cpu"
    on_gpu, quick = options.backend == "cuda", options.quick
    options.envs = options.envs or (128 if quick and not on_gpu else 1024)
    sizes = "1024,4096,8192" if not quick else "1024" if on_gpu else "256"
    options.batches = [int(n) for n in (options.batches or sizes).split(",")]
    options.modes = (options.modes or ("eager,graph,compiled" if on_gpu else "eager")).split(",")
    options.configurations = options.configurations.split(",")
    options.full = [word == "yes" for word in options.full.split(",")]
    options.updates = [int(n) for n in options.updates.split(",")]
    unknown = {*options.configurations} - {*CONFIGURATIONS} | {*options.modes} - {
        "eager",
        "graph",
        "compiled",
    }
    if unknown or ("graph" in options.modes and not on_gpu):
        parser.error(
            f"no such configuration or mode here: {', '.join(sorted(unknown)) or 'graph, without a GPU'}"
        )
    options.fill = max(8 * options.batches[-1], 16 * options.envs)
    options.repeats, options.calls, options.checked = (5, 100, 100) if on_gpu else (5, 10, 40)
    if quick:
        options.repeats, options.calls, options.checked = 3, 20 if on_gpu else 2, 30
    return options


def main() -> None:
    """Measure, print, write."""
    options = read_options()
    for name in options.configurations:
        print(f"{name}: {CONFIGURATIONS[name][1]}")
    updates = list(learner_rows(options))
    loop = list(loop_rows(options))
    peers, absent = learner_peers.measure(options.backend, options.batches, options.fill, options.quick)
    with_ratios(peers, updates)
    print_table("Updates", updates)
    print_table("Collecting and learning", loop)
    print_table("Other libraries, two layers of 256 units", peers)
    for row in absent:
        print(f"left out: {row['library']}: {row['why']}; {row['install']}")
    tables = {"updates": updates, "loop": loop, "peers": peers, "missing": absent}
    write_json("learner", options.out, {"backend": options.backend, "precision": options.precision, **tables})


if __name__ == "__main__":
    main()
