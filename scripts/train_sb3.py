"""Train an agent of Stable-Baselines3 as train_dqn.py trains Fox's own: same data, rules, validation and run directory.

Example: python scripts/train_sb3.py --algo ppo --preset smoke --synthetic regimes:seed=0
"""

import sys
from pathlib import Path
from typing import Annotated

try:
    from fox_agents import cli, train_cli
except ImportError as error:  # it names the missing extra
    sys.exit(str(error))

import typer

from fox_agents.plain_values import nearest
from fox_agents.sb3.config import SB3_CONFIGS
from fox_env.errors import ConfigError

RULES = Path(__file__).resolve().parents[1] / "configs"  # the presets whose data and rules apply here too
NAMES = [config.algorithm for config in SB3_CONFIGS]


def main(
    algo: Annotated[str | None, typer.Option(help=f"One of {', '.join(NAMES)}.")] = None,
    data: cli.Data = None,
    synthetic: cli.Synthetic = None,
    contract: cli.Contract = None,
    tz: cli.Zone = None,
    label: cli.Label = None,
    preset: train_cli.Preset = None,
    overrides: train_cli.Overrides = None,
    seed: train_cli.Seed = None,
    folds: train_cli.Folds = None,
    device: cli.Device = "auto",
    logdir: train_cli.Logdir = None,
    resume: train_cli.Resume = None,
    time_limit: train_cli.TimeLimit = None,
    quiet: cli.Quiet = False,
    as_json: cli.Json = False,
) -> None:
    """Train, validate, and print the agent beside the baselines. Ctrl-C saves; --resume DIR goes on."""
    changes = cli.data_overrides(data, synthetic, contract, tz, label) + (overrides or [])
    if algo is not None:
        if algo not in NAMES:
            raise ConfigError(f"unknown algorithm {algo!r} given to --algo: {nearest(algo, NAMES)}")
        if any(change.startswith("train.algorithm=") for change in changes):
            raise ConfigError("the agent is that of --algo; leave out --set train.algorithm")
        changes.insert(0, f"train.algorithm={algo}")
    elif resume is None:
        raise ConfigError(f"which agent? give --algo with one of {', '.join(NAMES)}")
    options = train_cli.Options(
        changes, preset, seed, folds, logdir, resume, device, time_limit, quiet=quiet, as_json=as_json
    )
    train_cli.start(options, RULES / "sb3", RULES)


if __name__ == "__main__":
    cli.run(main)
