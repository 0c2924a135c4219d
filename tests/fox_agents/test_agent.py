"""The agents that learn values in the environment: loop, bit-exact resume, acting, and what the loop may not do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from small_agents import (  # noqa: E402
    ENVS,
    KINDS,
    LOOP,
    MARKET,
    NAMES,
    RULES,
    Until,
    environment,
    fingerprint,
    loaded,
    new,
    parameters,
)
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import fox_agents  # noqa: E402
from fox_agents.api import Agent  # noqa: E402
from fox_agents.checkpoint import CheckpointError  # noqa: E402
from fox_agents.dqn import memory  # noqa: E402
from fox_agents.dqn.replay import Replay  # noqa: E402
from fox_env import EnvConfig, FoxFuturesVectorEnv, synthetic  # noqa: E402
from fox_env.errors import ConfigError  # noqa: E402

every_kind = pytest.mark.parametrize("kind", KINDS)
every_agent = pytest.mark.parametrize("kind", NAMES)


@every_agent
def test_the_agent_follows_the_protocol(kind: str) -> None:
    assert isinstance(new(kind), Agent)


@every_kind
def test_same_seed_same_bytes_and_another_seed_other_bytes(kind: str) -> None:
    agents = [new(kind, seed=seed) for seed in (3, 3, 4)]
    for agent in agents:
        agent.learn(240)
    assert fingerprint(agents[0]) == fingerprint(agents[1])
    assert parameters(agents[0]) != parameters(agents[2])


@every_agent
def test_making_an_agent_leaves_torchs_generator_alone(kind: str) -> None:
    torch.manual_seed(5)
    new(kind)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), drawn)


@every_kind
def test_two_epochs_and_a_resume_equal_four_epochs(kind: str, tmp_path: Path) -> None:
    whole, notes = new(kind), Until()
    whole.learn(320, [notes])
    first, notes1 = new(kind), Until()
    first.learn(160, [notes1])
    first.save(tmp_path / "c")
    second, notes2 = loaded(tmp_path / "c", environment()), Until()
    assert fingerprint(second) == fingerprint(first)
    second.learn(320, [notes2])
    assert fingerprint(second) == fingerprint(whole)
    assert notes1.epochs + notes2.epochs == notes.epochs
    assert [step for step, _ in notes.epochs] == [80, 160, 240, 320]


@every_kind
@pytest.mark.parametrize("iterations", [3, 27])
def test_a_stop_in_the_middle_of_an_epoch_resumes_bit_for_bit(
    kind: str, iterations: int, tmp_path: Path
) -> None:
    """Before the first update, where the value scale is not yet measured, and after."""
    whole, notes = new(kind), Until()
    whole.learn(320, [notes])
    first, stopped = new(kind), Until(iterations)
    first.learn(320, [stopped])
    assert first.env_steps == iterations * ENVS
    first.save(tmp_path / "c")
    second, rest = loaded(tmp_path / "c", environment()), Until()
    second.learn(320, [rest])
    assert fingerprint(second) == fingerprint(whole)
    assert stopped.epochs + rest.epochs == notes.epochs


def test_every_mechanism_that_remembers_something_is_resumed(tmp_path: Path) -> None:
    """Held choices, followed heads, visit counts, singular vectors, accumulated batches."""
    changes: dict[str, Any] = {
        "exploration": "persistent_thompson",
        "exploration_others": "sticky_epsilon_greedy",
        "curiosity": 0.1,
        "spectral": "all",
        "accumulate": 2,
        "surgery": True,
    }
    whole = new("bdq", **changes)
    whole.learn(320)
    first = new("bdq", **changes)
    first.learn(320, [Until(27)])
    first.save(tmp_path / "c")
    second = loaded(tmp_path / "c", environment())
    second.learn(320)
    assert fingerprint(second) == fingerprint(whole)


@every_kind
def test_learning_changes_the_network_and_reports_it(kind: str) -> None:
    agent, notes = new(kind, epsilon_start=1.0, epsilon_end=0.05), Until()
    before = parameters(agent)
    agent.learn(240, [notes])
    assert parameters(agent) != before
    values = notes.epochs[-1][1]
    assert values["updates"] == 80 / ENVS
    assert values["epsilon"] == pytest.approx(1.0 - 0.95 * 240 / 600)
    assert sum(epoch["episodes"] for _, epoch in notes.epochs) == ENVS  # each has ended its 23 steps once
    shares = [values[f"share_{name}"] for name in ("short", "hold", "long", "flat")]
    assert sum(shares) == pytest.approx(1.0)
    assert all(np.isfinite(v) for v in values.values())


@every_agent
def test_updates_per_collection_are_those_asked_for(kind: str) -> None:
    agent, notes = new(kind, collect_steps=2, updates=3), Until()
    agent.learn(160, [notes])
    assert notes.epochs[-1][1]["updates"] == 3 * 80 / (2 * ENVS)


@every_agent
def test_the_learner_samples_as_configured(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, original = [], Replay.sample

    def spy(self: Replay, uniform: Any, n_step: int, gamma: float, beta: Any) -> Any:
        seen.append((len(uniform), n_step, gamma))
        return original(self, uniform, n_step, gamma, beta)

    monkeypatch.setattr(Replay, "sample", spy)
    agent = new(kind, gamma=0.9, accumulate=2)
    steps = agent.config.n_step
    assert steps == {"bdq": 3, "qrdqn_ref": 1}[kind]
    agent.learn(LOOP["learning_starts"] - ENVS)
    assert not seen
    agent.learn(LOOP["learning_starts"] + ENVS)
    preparation, *updates = seen
    assert preparation[1:] == (steps, 0.9)
    assert updates == [(LOOP["batch_size"], steps, 0.9)] * 4


def test_a_cut_off_episode_keeps_its_future() -> None:
    """Truncation shortens the sum of rewards and does not take the bootstrap away."""
    agent = new("bdq")
    agent.learn(240)
    assert agent._replay is not None and agent.diagnostics()["terminations"] == 0.0
    uniform = torch.rand(2000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    discount = agent._replay.sample(uniform, 3, 0.5, torch.zeros(())).discount
    assert set(discount.tolist()) == {0.5, 0.25, 0.125}


@every_agent
def test_a_loaded_policy_acts_alike_without_an_environment(kind: str, tmp_path: Path) -> None:
    agent = new(kind)
    agent.learn(120)
    agent.save(tmp_path / "c", policy_only=True)
    policy = loaded(tmp_path / "c")
    obs = np.random.default_rng(0).normal(size=(50, 128)).astype(np.float32)
    masks = np.ones((50, 13), dtype=bool)
    if kind == "bdq":  # equal exposures have equal values, so the reference agent needs no masks
        masks[:, 2] = False
    actions = agent.act(obs, deterministic=True, masks=masks)
    assert isinstance(actions, np.ndarray) and actions.dtype == np.int64 and actions.shape == (50, 4)
    assert masks[np.arange(50), actions[:, 0]].all()
    assert (actions.max(axis=0) < (4, 3, 3, 3)).all()
    np.testing.assert_array_equal(policy.act(obs, deterministic=True, masks=masks), actions)
    tensor = agent.act(torch.from_numpy(obs), deterministic=True, masks=torch.from_numpy(masks))
    assert isinstance(tensor, torch.Tensor) and tensor.numpy().tolist() == actions.tolist()
    assert policy.env_config is not None
    assert policy.env_config.replace(risk_unit=None) == RULES
    mean_atr = MARKET.columns.atr[MARKET.first_ready :].mean()
    unit = RULES.risk_atr * mean_atr * RULES.max_position * MARKET.contract.tick_value
    assert policy.env_config.risk_unit == pytest.approx(unit, rel=1e-12)
    with pytest.raises(ConfigError, match="no environment"):
        policy.learn(1000)


@every_agent
def test_physics_knobs_travel_with_the_policy(kind: str, tmp_path: Path) -> None:
    """They are part of the rules that the agent is scored under, and come back when learning goes on."""
    stops = RULES.replace(trail_atr=(2.0, 2.0), kelly=True)
    agent = new(kind, environment(stops))
    agent.learn(120)
    assert agent.env is not None
    agent.env.set_knob("trail_long", 3.5)
    agent.env.set_knob("kelly_safety", 0.5)
    agent.save(tmp_path / "c")
    policy = loaded(tmp_path / "c")
    assert policy.env_config is not None
    assert policy.env_config.trail_atr == (2.0, 3.5) and policy.env_config.kelly_safety == 0.5
    assert fox_agents.evaluate(policy, MARKET).config.trail_atr == (2.0, 3.5)
    with pytest.raises(ConfigError, match="kelly_safety"):
        fox_agents.evaluate(policy, MARKET, stops)
    env = environment(stops)
    loaded(tmp_path / "c", env)
    assert env.knobs["trail_long"]["value"] == 3.5 and env.knobs["kelly_safety"]["value"] == 0.5


@every_agent
def test_acting_leaves_learning_alone(kind: str) -> None:
    agent = new(kind)
    agent.learn(120)
    before = fingerprint(agent)
    agent.act(np.zeros((ENVS, 128), np.float32), deterministic=True)
    assert fingerprint(agent) == before
    agent.act(np.zeros((ENVS, 128), np.float32), deterministic=False)
    assert fingerprint(agent) == before  # acting outside of training has draws of its own


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("bdq", {"exploration": "sticky_epsilon_greedy", "curiosity": 0.1}),
        ("bdq", {"exploration": "persistent_thompson"}),
        ("qrdqn_ref", {}),
    ],
)
@pytest.mark.parametrize("count", [3, ENVS, 40])
def test_exploring_elsewhere_leaves_what_training_remembers_alone(
    kind: str, changes: dict[str, Any], count: int
) -> None:
    """Of the held choices and the visits; random numbers are drawn."""
    agent = new(kind, epsilon_start=1.0, **changes)
    agent.learn(120)
    before = fingerprint(agent)
    actions = [agent.act(np.zeros((count, 128), np.float32), deterministic=False) for _ in range(3)]
    assert all(a.shape == (count, 4) for a in actions)
    after = fingerprint(agent)
    assert {name for name in before if before[name] != after[name]} <= {"generator", "draws"}
    agent.learn(160)


@every_agent
@pytest.mark.parametrize(
    ("rules", "envs", "message"),
    [
        (RULES.replace(half_spread_ticks=1.0), ENVS, "environment differs in half_spread_ticks"),
        (RULES, 4, "num_envs: saved 8, now 4"),
    ],
)
def test_a_resume_in_another_environment_names_the_difference(
    kind: str, tmp_path: Path, rules: EnvConfig, envs: int, message: str
) -> None:
    agent = new(kind)
    agent.learn(80)
    agent.save(tmp_path / "c")
    with pytest.raises(CheckpointError, match=message):
        loaded(tmp_path / "c", environment(rules, envs))


@every_agent
def test_a_resume_on_other_data_is_refused(kind: str, tmp_path: Path) -> None:
    agent = new(kind)
    agent.learn(80)
    agent.save(tmp_path / "c")
    with pytest.raises(CheckpointError, match="data differs in digest"):
        loaded(tmp_path / "c", environment(market=synthetic.regimes(seed=1, sessions=3)))


@every_agent
def test_a_batch_of_several_markets_is_learned_in_and_resumed(kind: str, tmp_path: Path) -> None:
    def batch(second: int) -> FoxFuturesVectorEnv:
        return environment(market=None, markets=[MARKET, synthetic.regimes(seed=second, sessions=3)])

    agent = new(kind, batch(1))
    agent.learn(120)
    agent.save(tmp_path / "c")
    assert fingerprint(loaded(tmp_path / "c", batch(1))) == fingerprint(agent)
    with pytest.raises(CheckpointError, match="data differs in digest of market 1"):
        loaded(tmp_path / "c", batch(2))


@every_agent
def test_an_environment_that_does_not_fit_is_refused(kind: str) -> None:
    env = FoxFuturesVectorEnv(4, MARKET, RULES, backend="cpu", output="torch", info_level="learn")
    with pytest.raises(ConfigError, match="SAME_STEP"):
        new(kind, env).learn(100)


@pytest.mark.parametrize("kind", ["bdq_full", "qrdqn_ref"])
def test_full_information_needs_counterfactuals(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"env\.counterfactual=true"):
        new(kind, environment(RULES.replace(counterfactual=False))).learn(100)


@every_agent
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"replay_size": 2**40},
            r"the replay takes .* GiB and the cpu has 0\.5 GiB; lower agent\.replay_size",
        ),
        (
            {"hidden": 2**14},
            r"the network .* takes \d+\.\d GiB and the cpu has 0\.5 GiB; lower agent\.hidden",
        ),
    ],
)
def test_what_does_not_fit_into_memory_is_refused_before_it_is_allocated(
    kind: str, changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**17}
    monkeypatch.setattr(memory.os, "sysconf", lambda name: sizes[name])
    with pytest.raises(ConfigError, match=message):
        new(kind, **changes).learn(100)


class _CountReads(TorchDispatchMode):
    """Counts the operations that would make the host wait for a GPU."""

    WAITING = ("_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "_to_copy", "multinomial")

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        moves = name != "_to_copy" or (kwargs or {}).get("device") is not None
        by_mask = name == "index" and any(t is not None and t.dtype == torch.bool for t in args[1])
        if (name in self.WAITING and moves) or by_mask:
            self.reads.append(name)
        return func(*args, **(kwargs or {}))


EVERYTHING: dict[str, Any] = {
    **dict.fromkeys(("cql", "barrier", "spread", "predictive"), "on"),
    "surgery": True,
    "accumulate": 2,
    "spectral": "all",
    "exploration": "thompson",
}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *((kind, {}) for kind in KINDS),
        ("bdq", {**EVERYTHING, "curiosity": 0.1, "orders": "market"}),
        ("bdq_full", EVERYTHING),
    ],
)
def test_the_loop_never_reads_a_value_back(kind: str, changes: dict[str, Any]) -> None:
    agent = new(kind, **changes)
    agent.learn(120)
    with _CountReads() as counter:
        for _ in range(3):
            agent._collect()
            agent._update()
    assert counter.reads == []


def test_the_counter_of_reads_itself_works() -> None:
    vector = torch.arange(3.0)
    with _CountReads() as counter:
        vector.sum().item()
        vector[vector > 1.0]
        vector.to("meta")
    assert counter.reads == ["_local_scalar_dense", "index", "_to_copy"]
