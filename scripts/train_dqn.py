"""Train the branching agent, or its yardstick, on futures bars and validate it on later ones.

Example: python scripts/train_dqn.py --preset smoke --synthetic regimes:seed=0
"""

import sys
from pathlib import Path

try:
    from fox_agents import cli, train_cli
except ImportError as error:  # it names the missing extra
    sys.exit(str(error))

PRESETS = Path(__file__).resolve().parents[1] / "configs"


def main(
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
    options = train_cli.Options(
        changes, preset, seed, folds, logdir, resume, device, time_limit, quiet=quiet, as_json=as_json
    )
    train_cli.start(options, PRESETS)


if __name__ == "__main__":
    cli.run(main)
