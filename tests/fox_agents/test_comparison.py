"""Comparisons of agents: which processes there are, what is kept of them, and equal bars for all."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from fox_agents import comparison_command, evaluate, make
from fox_agents.checkpoint import read_arrays
from fox_agents.comparison import Comparison, run_comparison, run_one
from fox_agents.comparison_command import comparison_of
from fox_agents.config import BDQConfig, run_config_from_dict
from fox_agents.training import folds_of, load_market
from fox_env.errors import ConfigError

ROOT = Path(__file__).parents[2]
MARKET = "regimes:seed=0,sessions=4"
SMALL = (
    "data.embargo=20",
    "env.horizon=50",
    "train.num_envs=8",
    "train.validation_envs=4",
    *(
        f"qrdqn_ref:agent.{setting}"
        for setting in ("hidden=8", "quantiles=4", "batch_size=8", "replay_size=400", "learning_starts=64")
    ),
)


def compared(agents: str = "qrdqn_ref,random,flat", *more: str, **changes: Any) -> Comparison:
    options: dict[str, Any] = {
        "agents": agents.split(","),
        "files": [],
        "synthetic": [MARKET],
        "hints": [],
        "preset": "smoke",
        "presets": ROOT / "configs",
        "overrides": [*(s for s in SMALL if ":" not in s or s.partition(":")[0] in agents), *more],
        "folds": 2,
        "seeds": 1,
        "steps": 160,
        "seconds": None,
        "backend": "cpu",
    }
    return comparison_of(**{**options, **changes})


def plain(value: Any) -> Any:
    """As a process reads it."""
    return json.loads(json.dumps(value))


# ---- processes --------------------------------------------------------------------------------------------


def test_there_is_a_process_for_each_market_agent_seed_and_budget_that_makes_a_difference() -> None:
    """One seed after the other; rules once, those that draw once a seed, and time as a budget of learners only."""
    other = "martingale:sessions=4"
    specs = compared(synthetic=[MARKET, other], seeds=2, seconds=5.0).specs()
    found = [(spec["seed"], spec["market"], spec["agent"], spec["budget"]) for spec in specs]
    assert found == [
        (0, MARKET, "qrdqn_ref", "steps"),
        (0, MARKET, "qrdqn_ref", "seconds"),
        (0, MARKET, "random", "steps"),
        (0, MARKET, "flat", "steps"),
        (0, other, "qrdqn_ref", "steps"),
        (0, other, "qrdqn_ref", "seconds"),
        (0, other, "random", "steps"),
        (0, other, "flat", "steps"),
        (1, MARKET, "qrdqn_ref", "steps"),
        (1, MARKET, "qrdqn_ref", "seconds"),
        (1, MARKET, "random", "steps"),
        (1, other, "qrdqn_ref", "steps"),
        (1, other, "qrdqn_ref", "seconds"),
        (1, other, "random", "steps"),
    ]
    assert {spec["seconds"] for spec in specs if spec["budget"] == "steps"} == {None}
    assert {spec["seconds"] for spec in specs if spec["budget"] == "seconds"} == {5.0}
    for spec in specs:
        config = run_config_from_dict(plain(spec["config"]))
        assert (config.folds.count, config.data.synthetic) == (2, spec["market"])
        if spec["agent"] != "qrdqn_ref":
            assert set(spec["config"]) == {"data", "folds", "env"}  # what a rule's result depends on
            continue
        assert config.agent.seed == spec["seed"]
        if spec["budget"] == "steps":
            assert config.train.total_steps == 160
        else:
            assert config.train.total_steps > 10**9


def test_an_override_reaches_all_agents_or_the_one_it_names() -> None:
    configs = compared(
        "bdq,qrdqn_ref,flat", "agent.lr=0.002", "bdq:agent.lr=0.004", "env.half_spread_ticks=2"
    ).configs
    rates = {name: getattr(config.agent, "lr", None) for name, config in configs.items()}
    assert (rates["bdq"], rates["qrdqn_ref"]) == (0.004, 0.002)
    assert {config.env.half_spread_ticks for config in configs.values()} == {2.0}
    assert {name: config.train.algorithm for name, config in configs.items() if name != "flat"} == {
        "bdq": "bdq",
        "qrdqn_ref": "qrdqn_ref",
    }


def test_settings_of_a_rule_reach_it_alone() -> None:
    plainly, other = (
        {spec["agent"]: plain(spec["config"]) for spec in compared("qrdqn_ref,momentum,flat", *more).specs()}
        for more in ([], ["momentum.lookback=40"])
    )
    assert plainly["momentum"]["momentum"] == {"lookback": 60}
    assert other["momentum"].pop("momentum") == {"lookback": 40} and plainly["momentum"].pop("momentum")
    assert other == plainly  # nothing of the others is run again


def test_a_rule_asks_for_nothing_that_a_learner_of_the_preset_asks_for() -> None:
    """The preset smoke is of an agent that learns from counterfactuals; so are overrides for all agents."""
    with pytest.raises(ConfigError, match="full_information learns from counterfactuals"):
        compared("bdq,flat", "env.counterfactual=false")
    for more in ([], ["agent.full_information=true", "agent.n_step=1"]):
        agents = "ppo,momentum,flat" if not more else "qrdqn_ref,flat"
        configs = compared(agents, *more, f"env.counterfactual={bool(more)}").configs
        assert configs["flat"].env.counterfactual is bool(more) and configs["flat"].agent == BDQConfig()


def test_settings_of_the_data_reach_every_process(tmp_path: Path) -> None:
    file = tmp_path / "bars.csv"
    write_bars(file)
    found = compared("flat", files=[str(file)], hints=["data.contract=ES"])
    data = [run_config_from_dict(plain(spec["config"])).data for spec in found.specs()]
    assert [(d.embargo, d.contract) for d in data] == [(20, "ES"), (20, None)]


def write_bars(path: Path) -> None:
    bars = load_market(run_config_from_dict({"data": {"synthetic": MARKET}}).data).bars
    lines = ["time,open,high,low,close,volume"]
    for i, ts in enumerate(bars.ts.astype("datetime64[ns]")):
        prices = ",".join(f"{getattr(bars, name)[i]:.2f}" for name in ("open", "high", "low", "close"))
        lines.append(f"{ts}Z,{prices},1000")
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("agents", "overrides", "changes", "words"),
    [
        (" ,", [], {}, "give --agents NAMES"),
        ("flatt", [], {}, r"'flatt' given to --agents: did you mean 'flat'"),
        ("flat", [], {"synthetic": []}, "give --data FILE or --synthetic NAME"),
        ("flat", [], {"preset": "smoek"}, "given to --preset: did you mean 'smoke'"),
        ("flat", [], {"folds": 90}, rf"{MARKET} cannot be cut as --folds asks: .*use fewer folds"),
        ("flat", [], {"files": ["a/es-1.csv", "b/es_1.csv"]}, r"two markets .* --data b/es_1\.csv; rename"),
        ("flat", [], {"files": ["a/regimes.csv"], "synthetic": ["regimes"]}, "two markets"),
        ("flat", [], {"hints": ["data.tz=UTC"]}, "--tz tell of files"),
        ("bdq,flat", ["bqd:agent.lr=1e-3"], {}, "--set bqd:agent.lr=1e-3: .*did you mean 'bdq'"),
        ("bdq,flat", ["flat:agent.lr=1e-3"], {}, "--set flat:agent.lr=1e-3: flat is a rule"),
        ("bdq,momentum", ["momentum:agent.lookback=9"], {}, r"write momentum\.key=value"),
        ("bdq,momentum", ["bdq:momentum.lookback=9"], {}, "all agents have the same momentum"),
        ("momentum,flat", ["momentum.window=9"], {}, r"unknown key momentum\.window: .*lookback"),
        ("momentum,flat", ["momentum.lookback=0"], {}, r"momentum\.lookback = 0 must be"),
        ("bdq,flat", ["momentum.lookback=9"], {}, r"'momentum' is none of the --agents"),
        ("momentum,flat", ["agent.lr=1e-3"], {}, r"--set agent\.lr=1e-3: none of the --agents learns"),
        ("bdq,flat", ["train.algorithm=ppo"], {}, r"--set train\.algorithm=ppo: name the agents by --agents"),
        ("bdq,flat", ["bdq:train.algorithm=ppo"], {}, "name the agents by --agents"),
        ("bdq,flat", ["bdq:folds.count=3"], {}, "--set bdq:folds.count=3: all agents have the same folds"),
        ("bdq,flat", ["bdq:data.embargo=0"], {}, "--set bdq:data.embargo=0: all agents have the same data"),
        ("bdq,flat", ["bdq:env.half_spread_ticks=0"], {}, r"bdq would trade with half_spread_ticks=0\.0 and flat"),
        ("bdq,flat", ["agent.lrr=1"], {}, "agent.lrr"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_one_sentence(
    agents: str, overrides: list[str], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        compared(agents, *overrides, **changes)
    assert "\n" not in str(caught.value)


# ---- results ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """By agent."""
    folder, found = tmp_path_factory.mktemp("comparison"), {}
    for spec in compared("qrdqn_ref,random,buy_and_hold,flat").specs():
        file = folder / f"{spec['agent']}.json"
        run_one(plain(spec), file)
        found[spec["agent"]] = json.loads(file.read_text())
    return found


def returns_of(result: Mapping[str, Any]) -> Any:
    return read_arrays(Path(result["joined"]), "series")["returns"]


def test_rules_and_learners_are_scored_on_the_same_bars(results: dict[str, dict[str, Any]]) -> None:
    config = compared().configs["flat"]
    data = dataclasses.replace(config.data, synthetic=MARKET)
    market = load_market(data)
    folds = folds_of(market, dataclasses.replace(config, data=data))
    first, last = folds[0].test[0], folds[-1].test[1]
    period = market.bars.ts[[first - 1, last - 1]].astype("datetime64[ns]").astype(str).tolist()
    assert {name: result["period"] for name, result in results.items()} == dict.fromkeys(results, period)
    assert {len(returns_of(result)) for result in results.values()} == {last - first}
    windows = [fold.markets(market).test for fold in folds]
    alone = [evaluate(make("buy_and_hold"), window, config.env).returns for window in windows]
    np.testing.assert_array_equal(returns_of(results["buy_and_hold"]), np.concatenate(alone))


def test_a_rule_plays_with_its_settings(tmp_path: Path) -> None:
    (spec,) = compared("momentum", "momentum.lookback=5").specs()
    run_one(plain(spec), tmp_path / "momentum.json")
    found = returns_of(json.loads((tmp_path / "momentum.json").read_text()))
    config = run_config_from_dict(plain(spec["config"]))
    market = load_market(config.data)
    windows = [fold.markets(market).test for fold in folds_of(market, config)]
    for lookback, same in ((5, True), (60, False)):
        rule = make("momentum", config={"lookback": lookback})
        alone = np.concatenate([evaluate(rule, window, config.env).returns for window in windows])
        assert np.array_equal(alone, found) is same


def test_a_result_says_what_learning_took(results: dict[str, dict[str, Any]]) -> None:
    learner = results["qrdqn_ref"]
    assert learner["env_steps"] == 2 * 160 and learner["learning_seconds"] > 0.0
    assert 0 <= learner["flat_folds"] <= 2
    assert learner["options"]["config"]["folds"]["count"] == 2
    for name in ("random", "buy_and_hold", "flat"):
        result = results[name]
        assert (result["env_steps"], result["learning_seconds"], result["flat_folds"]) == (0, 0, 0)
        assert result["metrics"] == result["selected_metrics"]
    assert results["flat"]["metrics"]["total_return"] == 0.0
    if learner["flat_folds"] == 2:
        assert learner["selected_metrics"]["n_trades"] == 0


def test_a_study_goes_on_under_the_same_settings_and_begins_anew_under_others(tmp_path: Path) -> None:
    file = tmp_path / "flat.json"
    spec, dear = (plain(compared("flat", *more).specs()[0]) for more in ([], ["env.half_spread_ticks=2"]))
    run_one(spec, file)
    mark = tmp_path / "flat" / "kept"
    mark.touch()
    run_one(spec, file)
    assert mark.exists()
    for other in (dear, {**dear, "code": "other sources"}):
        mark.touch()
        run_one(other, file)
        assert not mark.exists() and json.loads(file.read_text())["options"] == other
    (tmp_path / "flat" / "spec.json").unlink()  # killed before it was written
    mark.touch()
    run_one(dear, file)
    assert not mark.exists()


def test_finished_processes_are_kept_and_a_failed_one_does_not_stop_the_rest(tmp_path: Path) -> None:
    said: list[str] = []
    file = tmp_path / "bars.csv"
    write_bars(file)
    found = compared("flat", files=[str(file)])
    file.unlink()
    first = run_comparison(found, tmp_path / "runs", 1, said.append)
    assert [result["market"] for result in first] == [MARKET]
    assert (
        len(said) == 2 and said[0].startswith("[1/2] failed: bars flat 0 steps: ") and "bars.csv" in said[0]
    )
    assert said[1] == f"[2/2] done: {MARKET} flat 0 steps: return +0.00%, Sharpe 0.00"
    said.clear()
    console = Console(quiet=True)
    report = comparison_command.run(found, tmp_path, 1, console)
    assert report.missing == 1 and [row["market"] for row in report.values["markets"]] == [MARKET]
    assert MARKET in (tmp_path / "comparison.md").read_text()
    assert json.loads((tmp_path / "comparison.json").read_text())["runs"] == first
    alone = compared("flat")
    assert run_comparison(alone, tmp_path / "runs", 1, said.append) == first
    assert said == [f"[1/1] kept: {MARKET} flat 0 steps"]
    (dear,) = run_comparison(compared("flat", "env.half_spread_ticks=2"), tmp_path / "runs", 1, said.append)
    assert said[1].startswith("[1/1] done: ") and dear["options"]["config"]["env"]["half_spread_ticks"] == 2.0
