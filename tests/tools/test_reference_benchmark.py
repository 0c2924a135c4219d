"""The benchmark of the reference markets trains, scores, goes on where it stopped, and reads its command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fox_env.optimum import REFERENCE

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def tools() -> Any:
    """The benchmark's two modules, imported as its own directory sees them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import reference_agents
        import reference_markets

        yield reference_agents, reference_markets


def run(out: Path, cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "reference_markets.py"), "--device", "cpu", "--out", str(out)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, check=False, timeout=280, env=environment
    )


def test_it_scores_and_goes_on_from_finished_jobs(tmp_path: Path) -> None:
    words = [
        "--agents",
        "flat,nobody",
        "--markets",
        "martingale,signal:beta=0.3,half_spread_ticks=0",
        "--quick",
    ]
    words += ["--jobs", "2", "--bars", "5000", "--sessions", "3"]
    done = run(tmp_path / "r.json", tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "left out: nobody: no such agent" in done.stdout and done.stdout.count("done: flat") == 2
    result = json.loads((tmp_path / "r.json").read_text())
    martingale, signal = result["rows"]
    assert (martingale["passed"], martingale["martingale_p"], martingale["share_%"]) == ("1/1", 1.0, None)
    assert (signal["market"], signal["passed"], signal["share_%"]) == (
        "signal:beta=0.3,half_spread_ticks=0", "0/1", 0.0
    )  # fmt: skip
    assert signal["answer"] > 40.0 and {"cpu", "commit"} <= result["machine"].keys()
    page = (tmp_path / "r.md").read_text()
    assert "| martingale | flat | - | - | 0.00 | 0 % | met (p = 1.00) |" in page
    assert "| signal:beta=0.3,half_spread_ticks=0 | flat | 0.0 | 0.0 | 0.00 | 0 % | missed |" in page
    assert "`signal:beta=0.3,half_spread_ticks=0`: the computed optimum" in page and "--bars 5000" in page
    again = run(tmp_path / "r.json", tmp_path, *words)
    assert again.stdout.count("kept: flat") == 2 and "done:" not in again.stdout
    other = run(tmp_path / "r.json", tmp_path, *words, "--steps", "7")
    assert other.stdout.count("done: flat") == 2


@pytest.mark.slow
def test_learners_train_and_are_scored(tmp_path: Path) -> None:
    pytest.importorskip("sb3_contrib", reason="needs the extra sb3")
    words = ["--agents", "bdq,ppo,qrdqn", "--quick", "--steps", "9000", "--set", "bdq.num_envs=64"]
    words += ["--set", "bdq.learning_starts=1000", "--set", "qrdqn.learning_starts=1000"]
    done = run(tmp_path / "r.json", tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [row["agent"] for row in rows] == ["bdq", "ppo", "qrdqn"]
    assert all(row["env_steps"] >= 9_000 and row["train_s"] > 0.0 for row in rows)


def test_a_sparse_reward_is_judged_by_what_comes_early_and_late(tmp_path: Path) -> None:
    words = ["--agents", "bdq", "--markets", "sparse", "--quick", "--steps", "3000", "--bars", "2000"]
    words += ["--preset", "smoke", "--set", "bdq.learning_starts=512", "--set", "bdq.hidden=16"]
    done = run(tmp_path / "r.json", tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    [job], [row] = result["jobs"], result["rows"]
    early, late = job["early"], job["score"]
    kept = job["gap"] >= 0.1 * early["gap"] > 0.0
    assert job["passed"] is (kept and late["money"] >= early["money"])
    assert row["passed"] == f"{int(job['passed'])}/1"
    assert "no less money than after a tenth of the training" in (tmp_path / "r.md").read_text()


def test_an_agent_that_was_not_scored_early_is_not_seen_to_improve(tmp_path: Path) -> None:
    words = ["--agents", "flat", "--markets", "sparse", "--quick", "--bars", "2000", "--sessions", "3"]
    done = run(tmp_path / "r.json", tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["jobs"][0]["early"] is None and result["rows"][0]["passed"] == "0/1"


def test_the_page_says_what_the_bar_of_fixed_rules_is(tools: Any) -> None:
    import reference_table

    row: dict[str, Any] = dict.fromkeys(("share_%", "low_%", "high_%", "worst_%", "martingale_p"))
    row |= {"market": "regimes", "agent": "flat", "money": 0.0, "exposure": 0.0, "train_s": 0.0}
    row |= {"passed": "0/1", "fault": False, "answer": 8.39}
    machine = {"date": "2026-12-01", "commit": "0", "cpu": "CPU", "cores": 2}
    text = "- `regimes`: the best fixed rule of every phase, 8.39 a bar; bar: the best rule that ignores the phase, "
    assert text in reference_table.page([row], machine, 1)


@pytest.mark.parametrize(
    ("p", "exposure", "passes"), [(0.5, 0.01, True), (0.5, 0.5, False), (0.001, 0.01, False)]
)
def test_on_a_martingale_an_agent_has_to_stay_out_and_earn_nothing(
    tools: Any, p: float, exposure: float, passes: bool
) -> None:
    import reference_table

    assert reference_table.met({"martingale_p": p, "exposure": exposure}) is passes


def test_the_command_line(tools: Any) -> None:
    agents, markets = tools
    assert markets.markets_of("signal,signal:beta=0.3,half_spread_ticks=2,sparse") == [
        "signal", "signal:beta=0.3,half_spread_ticks=2", "sparse"
    ]  # fmt: skip
    reference = markets.reference_of("signal:beta=0.3,half_spread_ticks=2")
    assert "beta=0.3" in reference.generator and reference.config.half_spread_ticks == 2.0
    texts = ["bdq.lr=1e-3", "bdq.env.counterfactual=True", "ppo.env.trail_atr=(5.0, 5.0)"]
    assert agents.overrides(texts, "bdq") == {"lr": 1e-3, "env.counterfactual": True}
    assert agents.overrides(texts, "ppo") == {"env.trail_atr": (5.0, 5.0)}
    settings = agents.overrides(texts, "bdq")
    assert agents._training_rules(REFERENCE, settings).counterfactual and settings == {"lr": 1e-3}
    with pytest.raises(SystemExit, match=r"write AGENT\.key=value"):
        agents.overrides(["lr=3"], "bdq")


def test_intervals_over_seeds(tools: Any) -> None:
    """Student's t: 4.303 for three seeds, 2.201 for twelve."""
    _, markets = tools
    assert markets.interval([1.0]) == (None, None)
    assert markets.interval([1.0, 2.0, 3.0]) == pytest.approx((2.0 - 4.303 / 3**0.5, 2.0 + 4.303 / 3**0.5))
    twelve = np.arange(12.0)
    half = 2.201 * twelve.std(ddof=1) / 12**0.5
    assert markets.interval(twelve.tolist()) == pytest.approx((5.5 - half, 5.5 + half), rel=1e-3)
