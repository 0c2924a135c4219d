"""An ablation pairs runs by seed, trains and times each variant, and says what a mechanism changes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fox_agents.ablation import Study, jobs_of, run_one, study_of, update_seconds
from fox_agents.ablation_table import markdown, rows_of, write_report
from fox_agents.config import RunConfig
from fox_agents.dqn.config import BDQConfig, ReferenceConfig
from fox_env import EnvConfig
from fox_env.errors import ConfigError

SMALL = [
    *("agent.hidden=8", "agent.atoms=5", "agent.quantiles=4", "agent.experts=2", "agent.batch_size=8"),
    *("agent.noisy=true", "agent.learning_starts=32", "reference.hidden=8", "train.num_envs=8"),
]


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def study(mechanisms: str = "noisy,reference", *overrides: str, **changes: Any) -> Study:
    arguments: dict[str, Any] = {"markets": "signal", "seeds": 2, "steps": 160, "bars": 1_000, "quick": True}
    arguments |= {"mechanisms": mechanisms, "config": RunConfig(), "device": "cpu", **changes}
    return study_of(overrides=[*SMALL, *overrides], **arguments)


# ---- what is run ---------------------------------------------------------------------------------------------


def test_every_market_and_seed_gets_the_baseline_and_the_variants(tmp_path: Path) -> None:
    jobs = jobs_of(study(markets="signal,signal:beta=0.3"), tmp_path)
    assert len(jobs) == len({job.file for job in jobs}) == 12
    assert [job.label for job in jobs[:3]] == [
        "signal / baseline / seed 0", "signal / noisy=false / seed 0", "signal / reference / seed 0"
    ]  # fmt: skip
    base, noisy, reference = (job.options["settings"] for job in jobs[:3])
    assert {key for key in base if base[key] != noisy[key]} == {"noisy"}
    assert all(
        job.options["settings"]["seed"] == seed for seed in (0, 1) for job in jobs[3 * seed : 3 * seed + 3]
    )
    # The yardstick keeps its own losses and rates, and gets as much data and as many samples.
    assert reference["batch_size"] == base["batch_size"] == 8 and reference["hidden"] == "8"
    assert not {"lr", "noisy", "n_step"} & set(reference)


def test_other_options_make_other_jobs(tmp_path: Path) -> None:
    plain = jobs_of(study(), tmp_path)[0]
    assert plain.options == jobs_of(study(), tmp_path)[0].options
    for other in (study("noisy", "agent.lr=1e-3"), study("noisy", "env.half_spread_ticks=1")):
        assert jobs_of(other, tmp_path)[0].options != plain.options


def test_the_run_of_a_job(tmp_path: Path) -> None:
    """Its curve has the points asked for, the last one at the end; the yardstick gets the counterfactuals it needs."""
    base, reference = jobs_of(study("reference", seeds=1), tmp_path)
    results = [run_one(json.loads(job.command[3])) for job in (base, reference)]
    for job, found in zip((base, reference), results, strict=True):
        assert json.loads(json.dumps(found["options"])) == json.loads(json.dumps(job.options))
        assert [point["env_steps"] for point in found["curve"]] == [80, 160]
        assert found["env_steps"] == 160 and found["update_seconds"] > 0.0 < found["train_seconds"]
        assert found["diagnostics"]["updates"] > 0 and found["score"]["bars"] >= 1_000
    assert results[0]["curve"] != results[1]["curve"]


def test_scoring_along_the_way_changes_nothing_that_is_learned(tmp_path: Path) -> None:
    (job, *_) = jobs_of(study("noisy"), tmp_path)
    spec = json.loads(job.command[3])
    few, many = ({**spec, "settings": {**spec["settings"], "epoch_steps": n}} for n in (160, 56))
    found = [run_one(each) for each in (few, many)]
    assert [len(each["curve"]) for each in found] == [1, 3]
    assert found[0]["score"] == found[1]["score"]


def test_an_update_is_timed_by_readings_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this test moves a second an update, but for a first reading that is disturbed."""
    clock = [0.0]
    monkeypatch.setattr("fox_agents.ablation.time.perf_counter", lambda: clock[0])

    class Agent:
        device = torch.device("cpu")
        updates = 0

        def _update(self) -> None:
            self.updates += 1
            clock[0] += 50.0 if self.updates == 1 else 1.0

    agent: Any = Agent()
    assert update_seconds(agent, 4) == 1.0 and agent.updates == 20


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("agent.lrr=1", "unknown key agent.lrr: did you mean 'lr'"),
        ("agnt.lr=1", "takes no section 'agnt': did you mean 'agent'"),
        ("data.file=x", "takes no section 'data'"),
        ("train.total_steps=9", "no train.total_steps: of that section only train.num_envs"),
        ("agent.lr", "cannot read the override 'agent.lr'"),
        ("env.half_spread=1", "unknown key env.half_spread"),
        ("reference.quantils=3", "unknown key reference.quantils: did you mean 'quantiles'"),
        ("agent.learning_starts=160", "steps = 160 must be above 160, where learning starts"),
    ],
)
def test_mistakes_are_named_before_anything_runs(override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        study("noisy", override)


def test_another_agents_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match="an ablation changes bdq, not qrdqn_ref"):
        study(config=RunConfig(env=EnvConfig(counterfactual=True), agent=ReferenceConfig()))


def test_an_unknown_market_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown reference market 'signl'"):
        study(markets="signl")


# ---- what comes out ------------------------------------------------------------------------------------------


def result(variant: str, seed: int, share: float | None, ms: float = 10.0, **more: Any) -> dict[str, Any]:
    curve = [
        {"env_steps": 100 * (i + 1), "share": s, "money": 5.0}
        for i, s in enumerate(more.get("curve", [share]))
    ]
    score = {"adjusted_share": share, "money": -3.0 - seed, "above_optimum": more.get("fault", False)}
    return {
        "variant": variant, "market": more.get("market", "signal"), "seed": seed, "score": score, "curve": curve,
        "update_seconds": ms / 1e3,
    }  # fmt: skip


def test_effects_are_paired_by_seed() -> None:
    """Seeds differ by a lot, the mechanism gains 2 to 4 points on each; seed 3 has no pair."""
    base = [result("baseline", seed, share) for seed, share in enumerate([0.1, 0.5, 0.9])]
    better = [result("x", seed, share, 20.0) for seed, share in [(2, 0.93), (0, 0.12), (1, 0.54), (3, 0.0)]]
    baseline, row = rows_of([*base, *better])
    assert (baseline.variant, baseline.final_effect, baseline.cost_ratio) == ("baseline", None, None)
    assert baseline.final == pytest.approx(50.0) and baseline.spread == pytest.approx(40.0)
    assert row.seeds == 3 and row.final_effect is not None and row.cost_ratio is not None
    assert row.final_effect == pytest.approx((3.0, 3.0 - 4.303 / 3**0.5, 3.0 + 4.303 / 3**0.5))
    assert row.cost_ratio == pytest.approx((2.0, 2.0, 2.0)) and row.update_ms == pytest.approx(20.0)
    assert row.spread_ratio is not None and row.spread_ratio.value == pytest.approx(
        row.spread / baseline.spread
    )


def test_learning_is_the_area_under_the_curve_and_the_steps_to_ninety_percent() -> None:
    curves = {"baseline": [[-5.0, 0.5, 0.9], [0.0, 0.5, 0.8]], "x": [[0.92, 0.85, 1.05], [0.0, 0.91, 0.91]]}
    found = [
        result(variant, seed, 0.9, curve=curve)
        for variant, each in curves.items()
        for seed, curve in enumerate(each)
    ]
    baseline, row = rows_of(found)
    assert baseline.learning == pytest.approx(100.0 * (1.4 / 3 + 1.3 / 3) / 2)
    assert (baseline.reached, baseline.steps) == ("1/2", None)
    assert (row.reached, row.steps) == ("2/2", 200.0)
    assert row.learning_effect is not None
    assert row.learning_effect.value == pytest.approx(row.learning - baseline.learning)


def test_markets_are_rows_of_their_own_and_those_with_an_answer_are_pooled_by_seed() -> None:
    found = [
        result(variant, seed, share, market=market)
        for market, shares in {"a": (0.2, 0.4, 0.3, 0.6), "b": (0.6, 0.6, 0.2, 0.9)}.items()
        for variant, seed, share in zip("BBxx", (0, 1, 0, 1), shares, strict=True)
    ]
    found = [{**r, "variant": "baseline" if r["variant"] == "B" else "x"} for r in found]
    found += [
        result(variant, seed, None, market="martingale") for variant in ("baseline", "x") for seed in (0, 1)
    ]
    rows = {(row.market, row.variant): row for row in rows_of(found)}
    assert len(rows) == 8
    pooled = rows["all markets", "x"]
    assert pooled.final == pytest.approx(50.0) and pooled.final_effect is not None
    assert pooled.final_effect.value == pytest.approx(5.0)  # of -15 and 25
    assert pooled.final_effect.high == pytest.approx(5.0 + 12.706 * 20.0)
    assert (pooled.reached, rows["b", "x"].reached) == ("0/2", "1/2")  # on every market
    still = rows["martingale", "x"]
    assert (still.unit, still.final, still.reached) == ("money", -3.5, "0/2")


def test_the_report_is_in_the_order_of_the_study_and_counts_what_is_missing(tmp_path: Path) -> None:
    asked = study("noisy,cql=on")
    found = [
        result("noisy=false", 1, 0.4, fault=True),
        result("baseline", 1, 0.3),
        result("noisy=false", 0, 0.2),
    ]
    report = write_report(asked, [*found, result("baseline", 0, 0.25)], tmp_path)
    assert report.missing == 2
    saved = json.loads((tmp_path / "ablation.json").read_text())
    assert [row["variant"] for row in saved["rows"]] == ["baseline", "noisy=false"]
    assert saved["rows"][1]["final_effect"][0] == pytest.approx(2.5) and len(saved["runs"]) == 4
    assert saved["study"]["baseline"]["hidden"] == 8
    text = (tmp_path / "ablation.md").read_text()
    assert text == report.table and "## signal" in text and "hidden=8" in text
    assert "| noisy=false | 2 | 30.00 % ! | +2.50 [-92." in text
    assert "scored above the optimum" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1


def test_nothing_without_the_baseline_is_compared() -> None:
    assert rows_of([result("x", 0, 0.5)]) == [] and "intervals" in markdown([])


def test_the_defaults_are_a_study() -> None:
    assert Study(baseline=BDQConfig(), variants=[]).steps > BDQConfig().learning_starts
