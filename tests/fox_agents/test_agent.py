"""The branching agent in the environment: learning loop, bit-exact resume, acting, and what the loop may not do."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium.vector import AutoresetMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import fox_agents  # noqa: E402
from fox_agents.api import Agent, Callback  # noqa: E402
from fox_agents.checkpoint import CheckpointError  # noqa: E402
from fox_agents.dqn import memory  # noqa: E402
from fox_agents.dqn.agent import BDQAgent  # noqa: E402
from fox_agents.dqn.replay import Replay  # noqa: E402
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, _layout, synthetic  # noqa: E402
from fox_env._layout import Direction  # noqa: E402
from fox_env.errors import ConfigError, FoxError  # noqa: E402

ENVS = 8
SIDE = _layout.Observation.PORTFOLIO + _layout.Portfolio.SIDE
SMALL = {
    "hidden": 16,
    "atoms": 11,
    "batch_size": 16,
    "replay_size": 400,
    "learning_starts": 64,
    "epsilon_steps": 600,
    "epoch_steps": 160,
}
RULES = EnvConfig(reward="risk", horizon=23, exploration_scale=1.0, saboteur=(0.5, 2.0))


@pytest.fixture(scope="module")
def market() -> Market:
    return synthetic.regimes(seed=0, sessions=3)


def environment(
    market: Market, rules: EnvConfig = RULES, envs: int = ENVS, **options: Any
) -> FoxFuturesVectorEnv:
    return FoxFuturesVectorEnv(
        envs,
        market,
        rules,
        backend="cpu",
        output="torch",
        autoreset_mode=AutoresetMode.SAME_STEP,
        copy=False,
        info_level="learn",
        **options,
    )


def new(market: Market, **changes: Any) -> BDQAgent:
    agent = fox_agents.make("bdq", environment(market), {**SMALL, **changes})
    assert isinstance(agent, BDQAgent)
    return agent


def fingerprint(agent: BDQAgent) -> dict[str, bytes]:
    """Every byte that decides how learning goes on."""
    assert agent.env is not None
    tensors = {**agent.learner.tensors(), **agent._loop_tensors()}
    state = {name: tensor.cpu().numpy().tobytes() for name, tensor in tensors.items()}
    return state | {name: np.asarray(a).tobytes() for name, a in agent.env.state_dict().items()}


class Until(Callback):
    """Stops after a number of iterations, and notes the diagnostics of the epochs."""

    def __init__(self, iterations: int | None = None) -> None:
        self.left, self.epochs = iterations, []  # type: ignore[var-annotated]

    def on_iteration(self, agent: Agent) -> bool:
        if self.left is None:
            return True
        self.left -= 1
        return self.left > 0

    def on_epoch(self, agent: Agent, diagnostics: Mapping[str, float]) -> None:
        self.epochs.append((agent.env_steps, dict(diagnostics)))


def test_a_cut_off_episode_is_stored_as_truncated_not_terminated(market: Market) -> None:
    agent = new(market)
    agent.learn(640)
    assert agent._replay is not None
    stored = agent._replay.tensors()
    assert stored["done"].any() and not stored["terminated"].any()


def test_the_learner_samples_as_configured(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, original = set(), Replay.sample

    def spy(self: Replay, batch_size: int, n_step: int, gamma: float, generator: Any) -> Any:
        seen.add((batch_size, n_step, gamma))
        return original(self, batch_size, n_step, gamma, generator)

    monkeypatch.setattr(Replay, "sample", spy)
    agent = new(market, gamma=0.9, n_step=2)
    agent.learn(SMALL["learning_starts"] - ENVS)
    assert not seen
    agent.learn(320)
    assert seen == {(SMALL["batch_size"], 2, 0.9)}


def test_the_agent_follows_the_protocol(market: Market) -> None:
    assert isinstance(new(market), Agent)


def test_same_seed_same_bytes_and_another_seed_other_bytes(market: Market) -> None:
    agents = [new(market, seed=seed) for seed in (3, 3, 4)]
    for agent in agents:
        agent.learn(320)
    assert fingerprint(agents[0]) == fingerprint(agents[1])
    assert fingerprint(agents[0])["network.heads.bias"] != fingerprint(agents[2])["network.heads.bias"]


def test_two_epochs_and_a_resume_equal_four_epochs(market: Market, tmp_path: Path) -> None:
    whole, notes = new(market), Until()
    whole.learn(640, [notes])
    first, notes1 = new(market), Until()
    first.learn(320, [notes1])
    first.save(tmp_path / "c")
    second, notes2 = fox_agents.load(tmp_path / "c", environment(market)), Until()
    assert isinstance(second, BDQAgent)
    assert fingerprint(second) == fingerprint(first)
    second.learn(640, [notes2])
    assert fingerprint(second) == fingerprint(whole)
    assert notes1.epochs + notes2.epochs == notes.epochs
    assert [step for step, _ in notes.epochs] == [160, 320, 480, 640]


def test_a_stop_in_the_middle_of_an_epoch_resumes_bit_for_bit(market: Market, tmp_path: Path) -> None:
    whole, notes = new(market), Until()
    whole.learn(480, [notes])
    first, stopped = new(market), Until(iterations=27)
    first.learn(480, [stopped])
    assert first.env_steps == 27 * ENVS
    first.save(tmp_path / "c")
    second, rest = fox_agents.load(tmp_path / "c", environment(market)), Until()
    assert isinstance(second, BDQAgent)
    second.learn(480, [rest])
    assert fingerprint(second) == fingerprint(whole)
    assert stopped.epochs + rest.epochs == notes.epochs


def test_learning_changes_the_network_and_reports_it(market: Market) -> None:
    agent = new(market)
    before = agent.learner.parameters.clone()
    notes = Until()
    agent.learn(320, [notes])
    assert not torch.equal(before, agent.learner.parameters)
    values = notes.epochs[-1][1]
    assert values["updates"] == 160 / ENVS
    assert values["epsilon"] == pytest.approx(1.0 - 0.95 * 320 / 600)
    assert values["episodes"] == pytest.approx(ENVS * 20 / 23, abs=ENVS)
    shares = [values[f"share_{name}"] for name in ("short", "hold", "long", "flat")]
    assert sum(shares) == pytest.approx(1.0)
    assert all(np.isfinite(v) for v in values.values())


def test_replay_holds_what_the_environment_did(market: Market) -> None:
    """Within an episode the stored next observation is the next row's observation; at its end it is not."""
    agent = new(market)
    agent.learn(40 * ENVS)
    assert agent._replay is not None
    stored = {name: tensor[:40] for name, tensor in agent._replay.tensors().items() if tensor.dim() > 1}
    done = stored["done"][:-1]
    same = (stored["next_observation"][:-1] == stored["observation"][1:]).all(-1)
    assert done.any() and not done.all()
    assert same[~done].all()
    assert not same[done].any()
    assert not (stored["observation"][1:] == stored["observation"][:-1]).all(-1).any()
    masks, side = stored["next_mask"][:-1][done], stored["next_observation"][:-1][done][:, SIDE]
    assert (masks[:, Direction.FLAT] == (side != 0)).all() and (side != 0).any() and (side == 0).any()
    assert masks[:, [i for i in range(13) if i != Direction.FLAT]].all()
    assert stored["active"][..., 0].all()
    assert not stored["active"][..., 1:].all()


def test_a_loaded_policy_acts_alike_without_an_environment(market: Market, tmp_path: Path) -> None:
    agent = new(market)
    agent.learn(320)
    agent.save(tmp_path / "c", policy_only=True)
    loaded = fox_agents.load(tmp_path / "c")
    obs = np.random.default_rng(0).normal(size=(50, 128)).astype(np.float32)
    masks = np.ones((50, 13), dtype=bool)
    masks[:, 2] = False
    actions = agent.act(obs, deterministic=True, masks=masks)
    assert isinstance(actions, np.ndarray) and actions.dtype == np.int64 and actions.shape == (50, 4)
    assert (actions[:, 0] != 2).all()
    assert (actions.max(axis=0) < (4, 3, 3, 3)).all()
    np.testing.assert_array_equal(loaded.act(obs, deterministic=True, masks=masks), actions)
    tensor = agent.act(torch.from_numpy(obs), deterministic=True, masks=torch.from_numpy(masks))
    assert isinstance(tensor, torch.Tensor) and tensor.numpy().tolist() == actions.tolist()
    assert isinstance(loaded, BDQAgent) and loaded.env_config is not None
    assert loaded.env_config.replace(risk_unit=None) == RULES
    mean_atr = market.columns.atr[market.first_ready :].mean()
    unit = RULES.risk_atr * mean_atr * RULES.max_position * market.contract.tick_value
    assert loaded.env_config.risk_unit == pytest.approx(unit, rel=1e-12)
    with pytest.raises(ConfigError, match="no environment"):
        loaded.learn(1000)


def test_physics_knobs_travel_with_the_policy(market: Market, tmp_path: Path) -> None:
    """They are part of the rules that the agent is scored under, and come back when learning goes on."""
    stops = RULES.replace(trail_atr=(2.0, 2.0), kelly=True)
    agent = BDQAgent(environment(market, stops), SMALL)
    agent.learn(320)
    assert agent.env is not None
    agent.env.set_knob("trail_long", 3.5)
    agent.env.set_knob("kelly_safety", 0.5)
    agent.save(tmp_path / "c")
    loaded = fox_agents.load(tmp_path / "c")
    assert loaded.env_config.trail_atr == (2.0, 3.5) and loaded.env_config.kelly_safety == 0.5
    assert fox_agents.evaluate(loaded, market).config.trail_atr == (2.0, 3.5)
    with pytest.raises(ConfigError, match="kelly_safety"):
        fox_agents.evaluate(loaded, market, stops)
    env = environment(market, stops)
    fox_agents.load(tmp_path / "c", env)
    assert env.knobs["trail_long"]["value"] == 3.5 and env.knobs["kelly_safety"]["value"] == 0.5


def test_acting_greedily_draws_nothing(market: Market) -> None:
    agent = new(market)
    before = agent.generator.get_state().clone()
    agent.act(np.zeros((4, 128), np.float32), deterministic=True)
    assert torch.equal(agent.generator.get_state(), before)
    agent.act(np.zeros((4, 128), np.float32), deterministic=False)
    assert not torch.equal(agent.generator.get_state(), before)


@pytest.mark.parametrize(
    ("rules", "envs", "message"),
    [
        (RULES.replace(half_spread_ticks=1.0), ENVS, "environment differs in half_spread_ticks"),
        (RULES, 4, "num_envs: saved 8, now 4"),
    ],
)
def test_a_resume_in_another_environment_names_the_difference(
    market: Market, tmp_path: Path, rules: EnvConfig, envs: int, message: str
) -> None:
    agent = new(market)
    agent.learn(80)
    agent.save(tmp_path / "c")
    with pytest.raises(CheckpointError, match=message):
        fox_agents.load(tmp_path / "c", environment(market, rules, envs))


def test_a_resume_on_other_data_is_refused(market: Market, tmp_path: Path) -> None:
    agent = new(market)
    agent.learn(80)
    agent.save(tmp_path / "c")
    with pytest.raises(CheckpointError, match="data differs in digest"):
        fox_agents.load(tmp_path / "c", environment(synthetic.regimes(seed=1, sessions=3)))


def test_a_batch_of_several_markets_is_learned_in_and_resumed(market: Market, tmp_path: Path) -> None:
    def batch(second: int) -> FoxFuturesVectorEnv:
        return environment(None, markets=[market, synthetic.regimes(seed=second, sessions=3)])

    agent = BDQAgent(batch(1), SMALL)
    agent.learn(160)
    agent.save(tmp_path / "c")
    again = fox_agents.load(tmp_path / "c", batch(1))
    assert isinstance(again, BDQAgent) and fingerprint(again) == fingerprint(agent)
    with pytest.raises(CheckpointError, match="data differs in digest of market 1"):
        fox_agents.load(tmp_path / "c", batch(2))


def test_a_diverged_run_fails_loudly(market: Market) -> None:
    agent = new(market, lr=1e30)
    with pytest.raises(FoxError, match=r"diverged.*lower agent\.lr"):
        agent.learn(3200)


def test_an_environment_that_does_not_fit_is_refused(market: Market) -> None:
    env = FoxFuturesVectorEnv(4, market, RULES, backend="cpu", output="torch", info_level="learn")
    with pytest.raises(ConfigError, match="SAME_STEP"):
        fox_agents.make("bdq", env, SMALL).learn(100)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"replay_size": 2**40},
            r"the replay takes .* GiB and the cpu has 0\.5 GiB; lower agent\.replay_size",
        ),
        ({"hidden": 2**14}, r"the network .* takes 5\.1 GiB and the cpu has 0\.5 GiB; lower agent\.hidden"),
    ],
)
def test_what_does_not_fit_into_memory_is_refused_before_it_is_allocated(
    market: Market, changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**17}
    monkeypatch.setattr(memory.os, "sysconf", lambda name: sizes[name])
    with pytest.raises(ConfigError, match=message):
        new(market, **changes).learn(100)


class _CountReads(TorchDispatchMode):
    """Counts the operations that would make the host wait for a GPU."""

    WAITING = ("_local_scalar_dense", "nonzero", "is_nonzero", "masked_select")

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in self.WAITING:
            self.reads.append(name)
        return func(*args, **(kwargs or {}))


def test_the_loop_never_reads_a_value_back(market: Market) -> None:
    agent = new(market)
    agent.learn(160)
    with _CountReads() as counter:
        for _ in range(3):
            agent._collect()
            agent._update()
    assert counter.reads == []
    with _CountReads() as counter:  # the counter itself works
        agent.learner.updates.item()
    assert counter.reads == ["_local_scalar_dense"]


def gpu_agent(**changes: Any) -> BDQAgent:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    env = FoxFuturesVectorEnv(
        ENVS,
        synthetic.regimes(seed=0, sessions=3),
        RULES,
        backend="cuda",
        output="torch",
        autoreset_mode=AutoresetMode.SAME_STEP,
        copy=False,
        info_level="learn",
    )
    return BDQAgent(env, {**SMALL, **changes})


@pytest.mark.gpu
def test_on_a_gpu_the_captured_loop_equals_the_eager_one() -> None:
    runs = []
    for eager_calls in (3, 1_000_000):
        agent = gpu_agent()
        agent.learn(ENVS)
        agent._collect.eager_calls = agent._update.eager_calls = eager_calls
        notes = Until()
        agent.learn(640, [notes])
        assert sum(values["updates"] for _, values in notes.epochs) == (640 - 64) / ENVS + 1
        runs.append((agent.learner.parameters.cpu(), agent._loop_tensors()["observation"].cpu()))
    torch.testing.assert_close(runs[0], runs[1], atol=1e-5, rtol=1e-4)


@pytest.mark.gpu
def test_on_a_gpu_the_loop_never_waits_for_the_device() -> None:
    agent = gpu_agent()
    agent.learn(160)  # captured by now
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            agent._collect()
            agent._update()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_on_a_gpu_a_run_resumes(tmp_path: Path) -> None:
    agent = gpu_agent()
    agent.learn(320)
    agent.save(tmp_path / "c")
    env = gpu_agent().env
    again = fox_agents.load(tmp_path / "c", env)
    assert isinstance(again, BDQAgent)
    assert fingerprint(again) == fingerprint(agent)
    agent.learn(640)
    again.learn(640)
    torch.testing.assert_close(again.learner.parameters, agent.learner.parameters, atol=1e-4, rtol=1e-3)


@pytest.mark.gpu
def test_a_loaded_policy_works_where_its_observations_are(tmp_path: Path) -> None:
    agent = gpu_agent()
    agent.learn(320)
    agent.save(tmp_path / "c", policy_only=True)
    loaded = fox_agents.load(tmp_path / "c")
    assert isinstance(loaded, BDQAgent) and loaded.device.type == "cpu"
    obs = torch.randn(20, 128, device="cuda")
    actions = loaded.act(obs, deterministic=True)
    assert actions.is_cuda and loaded.learner.parameters.is_cuda
    assert torch.equal(actions, agent.act(obs, deterministic=True))
    result = fox_agents.evaluate(loaded, synthetic.regimes(seed=1, sessions=3), backend="cuda")
    assert loaded.learner.parameters.is_cuda and len(result.returns) > 0


@pytest.mark.gpu
def test_a_learner_on_a_gpu_is_evaluated_there() -> None:
    agent = gpu_agent()
    agent.learn(160)
    result = fox_agents.evaluate(agent, synthetic.regimes(seed=1, sessions=3), num_envs=4)
    assert len(result.returns) > 0 and agent.learner.parameters.is_cuda
