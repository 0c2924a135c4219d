"""How fast training runs: environment steps and updates per second of the bare loop and of the whole command.

Run: python benchmarks/train_throughput.py [--backend cpu|cuda] [--preset NAME] [--quick]. The loop is timed after
the replay is warm and, on the GPU, the graphs are captured. The command is timed from its first step and includes
validation, curves and checkpoints. Compare devices by running the same line on both.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode
from harness import ROOT, arguments, cuda_present, print_table, write_json

import fox_agents
from fox_agents import cli  # it sets how idle threads wait, as for the command
from fox_agents.config import RunConfig
from fox_agents.dqn.config import LoopConfig
from fox_env import FoxFuturesVectorEnv, synthetic

ITERATIONS = {"cpu": 200, "cuda": 2_000}


def settings_of(config: RunConfig) -> LoopConfig:
    """The settings of the agent, which must be one of Fox's own."""
    if not isinstance(config.agent, LoopConfig):
        raise SystemExit(f"{config.train.algorithm} has no loop on the device; choose a preset of bdq")
    return config.agent


def loop_row(config: RunConfig, backend: str, iterations: int) -> dict[str, Any]:
    """Time ``agent.learn`` alone: collect, store, sample, update."""
    env = FoxFuturesVectorEnv(
        config.train.num_envs,
        synthetic.regimes(seed=0),
        config.env,
        backend=backend,
        output="torch",
        autoreset_mode=AutoresetMode.SAME_STEP,
        copy=False,
        info_level="learn",
    )
    settings = settings_of(config)
    agent = fox_agents.make("bdq", env, settings)
    per_iteration = settings.collect_steps * config.train.num_envs
    warm = max(settings.learning_starts, 3 * per_iteration) + 50 * per_iteration
    agent.learn(warm)
    begin = time.perf_counter()
    agent.learn(agent.env_steps + iterations * per_iteration)  # ends by reading diagnostics, so it waits
    seconds = time.perf_counter() - begin
    diagnostics = agent.diagnostics()
    if not diagnostics["loss"] > 0.0:
        raise SystemExit(f"the loss is {diagnostics['loss']}: nothing was learned, so nothing is timed")
    env.close()
    return row(
        "loop",
        backend,
        config,
        iterations * per_iteration / seconds,
        iterations * settings.updates / seconds,
    )


def command_row(config: RunConfig, preset: str, backend: str, seconds: float) -> dict[str, Any]:
    """Run the training script for ``seconds`` of learning and count what it got done."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        command = [sys.executable, str(ROOT / "scripts" / "train_dqn.py"), "--preset", preset]
        command += ["--synthetic", "regimes", "--device", backend, "--logdir", str(run), "--quiet"]
        command += ["--time-limit", f"{seconds:g}", "--set", "train.total_steps=1000000000000"]
        subprocess.run(command, check=True)
        steps = json.loads((run / "metrics.json").read_text())["env_steps"]
    settings = settings_of(config)
    iterations = (steps - settings.learning_starts) / (settings.collect_steps * config.train.num_envs)
    return row("command", backend, config, steps / seconds, iterations * settings.updates / seconds)


def row(what: str, backend: str, config: RunConfig, steps: float, updates: float) -> dict[str, Any]:
    """One line of the table."""
    batch = settings_of(config).batch_size
    return {
        "what": what,
        "backend": backend,
        "envs": config.train.num_envs,
        "batch": batch,
        "env_steps_per_s": steps,
        "updates_per_s": updates,
        "samples_per_env_step": updates * batch / steps,
    }


def main() -> None:
    """Measure, print, write."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--preset", default="default", help="a preset in configs/ (default: %(default)s)")
    options = parser.parse_args()
    backend = options.backend
    if backend == "auto":
        backend = "cuda" if cuda_present() else "cpu"
    config = cli.preset_config(options.preset, ROOT / "configs", [])
    scale = 0.25 if options.quick else 1.0
    rows = [
        loop_row(config, backend, int(scale * ITERATIONS[backend])),
        command_row(config, options.preset, backend, scale * 120),
    ]
    print_table(f"Training, preset {options.preset}", rows)
    write_json("train_throughput", options.out, {"preset": options.preset, "rows": rows})


if __name__ == "__main__":
    main()
