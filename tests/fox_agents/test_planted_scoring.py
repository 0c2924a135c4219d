"""Scoring with something of training on: each check holds, and raises once the mistake is planted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from rich.console import Console
from small_agents import BRANCHING

from fox_agents import evaluate, evaluation, make, training
from fox_agents.checkpoint import CheckpointStore
from fox_agents.config import RunConfig, run_config_from_dict
from fox_agents.dqn.loop import DeviceAgent
from fox_agents.rules import Random
from fox_agents.run_log import RunLog
from fox_agents.stats import TrialLog, read_trials
from fox_agents.training import split_market
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, synthetic

MARKET = synthetic.regimes(seed=0, sessions=4)
CONFIG: RunConfig = run_config_from_dict(
    {
        "data": {"embargo": 40},
        "env": {
            "reward": "risk",
            "horizon": 50,
            "shaping_scale": 1.0,
            "exploration_scale": 1.0,
            "saboteur": [0.5, 2.0],
        },
        "agent": {**BRANCHING, "hidden": 8},
        "train": {"num_envs": 8, "total_steps": 160, "validation_envs": 4},
    }
)
TRAINING_ONLY: dict[str, Any] = {
    "shaping_scale": 1.0,
    "exploration_scale": 1.0,
    "saboteur": (3.0, 3.0),
    "random_start": True,
    "horizon": 10,
    "counterfactual": True,
}
PLAIN = EnvConfig(reward="risk", random_start=False)


class Watched(FoxFuturesVectorEnv):
    """Keeps everything that it shows, and refuses what only training has."""

    seen: list[bytes]
    made = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        rules = self.present_config
        assert rules.exploration_scale == rules.shaping_scale == 0.0
        assert not rules.random_start and not rules.counterfactual
        Watched.seen, Watched.made = [], Watched.made + 1

    def _keep(self, shown: Any) -> None:
        *arrays, info = shown
        Watched.seen += [np.asarray(a).tobytes() for a in arrays]
        Watched.seen += [np.asarray(info[name]).tobytes() for name in sorted(info)]

    def reset(self, **options: Any) -> Any:
        shown = super().reset(**options)
        self._keep(shown)
        return shown

    def step(self, actions: Any, conviction: Any | None = None) -> Any:
        shown = super().step(actions, conviction)
        self._keep(shown)
        return shown


def check_scoring_knows_nothing_of_training() -> None:
    """Where a trained agent is scored, everything shown is byte for byte that of rules without training's options."""
    shown = []
    for rules in (PLAIN.replace(**TRAINING_ONLY), PLAIN):
        agent: Any = Random(config={"seed": 5})
        agent.env_config = rules
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(evaluation, "FoxFuturesVectorEnv", Watched)
            evaluate(agent, MARKET.rows(0, 700))
        shown.append(Watched.seen)
    assert len(shown[0]) > 700 and shown[0] == shown[1]


def new_agent() -> Any:
    return make("bdq", training._training_env(CONFIG, split_market(MARKET, CONFIG)[0], "cpu"), CONFIG.agent)


def check_checkpoints_are_judged_where_nothing_of_training_is_on(directory: Path) -> None:
    """Every validation of a training run is played in such an environment, made for it."""
    agent, log, console = new_agent(), RunLog(directory, 0), Console(quiet=True)
    store, trials = CheckpointStore(directory / "checkpoints"), TrialLog(directory)
    before = Watched.made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "FoxFuturesVectorEnv", Watched)
        training._learn(CONFIG, agent, split_market(MARKET, CONFIG)[1], log, store, trials, None, console)
    log.close()
    assert Watched.made - before == len(read_trials([directory])) == 2


def check_scoring_is_greedy() -> None:
    """A trained agent plays the same twice, and its generators stay where they are."""
    agent = new_agent()
    agent.learn(80)
    assert isinstance(agent, DeviceAgent)
    before = [g.get_state().tolist() for g in (agent.generator, agent._aside)]
    played = [evaluate(agent, MARKET.rows(0, 400)).actions for _ in range(2)]
    assert played[0] == played[1]
    assert [g.get_state().tolist() for g in (agent.generator, agent._aside)] == before


def test_scoring_knows_nothing_of_training() -> None:
    check_scoring_knows_nothing_of_training()


def test_checkpoints_are_judged_where_nothing_of_training_is_on(tmp_path: Path) -> None:
    check_checkpoints_are_judged_where_nothing_of_training_is_on(tmp_path)


def test_scoring_is_greedy() -> None:
    check_scoring_is_greedy()


@pytest.mark.parametrize("option", ["shaping_scale", "exploration_scale", "random_start", "counterfactual"])
def test_a_training_option_left_on_in_scoring_is_caught(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = evaluation.evaluation_config

    def left_on(cfg: EnvConfig) -> EnvConfig:
        return honest(cfg).replace(**{option: getattr(cfg, option)})

    monkeypatch.setattr(evaluation, "evaluation_config", left_on)
    with pytest.raises(AssertionError):
        check_scoring_knows_nothing_of_training()
    if getattr(CONFIG.env, option):
        with pytest.raises(AssertionError):
            check_checkpoints_are_judged_where_nothing_of_training_is_on(tmp_path)


def test_validation_in_the_environment_of_training_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_its_own(agent: Any, market: Market, **options: Any) -> Any:
        rules, starts = agent.env_config, np.full(4, market.first_ready)
        env = FoxFuturesVectorEnv(4, market, rules, backend="cpu", output="torch")
        record = evaluation._play(agent, env, starts, 40, 0)
        padded = market.rows(0, market.first_ready + 161)
        return evaluation._result(agent.name, padded, rules, record, env.trades())

    monkeypatch.setattr(training, "evaluate", in_its_own)
    with pytest.raises(AssertionError, match=r"\d - \d\) == 2"):
        check_checkpoints_are_judged_where_nothing_of_training_is_on(tmp_path)


def test_exploration_in_scoring_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = DeviceAgent.act

    def exploring(self: DeviceAgent, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
        return honest(self, obs, deterministic=False, masks=masks)

    monkeypatch.setattr(DeviceAgent, "act", exploring)
    with pytest.raises(AssertionError):
        check_scoring_is_greedy()
