"""The benchmark of the learner times nothing that does not learn, and knows every mechanism."""

import argparse
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from fox_agents.dqn.config import BDQConfig
from fox_agents.mechanisms import MECHANISMS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SMALL = {
    "backend": "cpu",
    "envs": 16,
    "fill": 256,
    "repeats": 1,
    "calls": 1,
    "checked": 10,
    "precision": "float32",
}


@pytest.fixture(scope="module")
def tool() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import learner

        yield learner


def test_the_configurations_span_from_nothing_to_everything(tool: Any) -> None:
    default = BDQConfig()
    everything, bare = BDQConfig(**tool.all_on()), BDQConfig(**tool.BARE)
    assert {field.name for field in fields(default)} >= set(tool.BARE)
    chosen = {"exploration", "full_information", "spectral"}
    for name in set(MECHANISMS) - chosen:
        assert getattr(everything, name) in (True, "on"), name
        if name != "c51":
            assert getattr(bare, name) in (False, "off"), name
    assert (everything.spectral, bare.spectral, bare.c51) == ("all", "none", "on")


def test_a_learner_that_does_not_learn_is_not_timed(tool: Any) -> None:
    options = argparse.Namespace(**SMALL)
    row = tool.learner_row("bare", False, 64, "eager", options)
    assert row["first_loss"] > row["last_loss"] > 0.0 and row["updates_per_s"] > 0.0
    assert row["samples_per_s"] == pytest.approx(64 * row["updates_per_s"])
    agent = tool.agent_of("bare", False, 64, options)
    agent.learner.optimiser.step = lambda rates, ok: agent.learner.ok.float()
    with pytest.raises(SystemExit, match="nothing is timed"):
        tool.checked_step(agent, 64, 10)


def test_a_peer_is_compared_at_its_own_batch(tool: Any) -> None:
    ours = [
        {"configuration": name, "batch": batch, "full_information": full, "updates_per_s": speed}
        for name, batch, full, speed in [
            ("bare", 64, False, 30.0),
            ("bare", 64, False, 60.0),
            ("bare", 64, True, 900.0),
            ("bare", 128, False, 7.0),
        ]
    ]
    (peer,) = tool.with_ratios([{"batch": 64, "updates_per_s": 20.0}], ours)
    assert (peer["bare_over_it"], peer["all_over_it"]) == (3.0, None)


@pytest.mark.slow
def test_it_runs_and_writes_machine_facts(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    command = [
        sys.executable,
        BENCHMARKS / "learner.py",
        "--backend=cpu",
        "--quick",
        "--batches=32",
        f"--out={out}",
    ]
    done = subprocess.run(
        [*command, "--envs=16", "--updates=1", "--full=no"],
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert {"cpu", "cores", "commit"} <= result["machine"].keys()
    assert {row["configuration"] for row in result["updates"]} == {
        "bare",
        "core",
        "default",
        "all",
        "qrdqn_ref",
    }
    assert all(row["of_parts"] > 0.0 for row in result["loop"])
    named = {row["library"] for row in (*result["peers"], *result["missing"])}
    assert named == {"stable-baselines3", "tianshou"}
