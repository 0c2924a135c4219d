"""The sums of the metrics through episodes, batches, resets, states, backends and CUDA graphs."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from metered_accounts import OPTIONS, STOPS, account, same_sums, sums_of
from physics_scenario import BUY, KEEP, make_market, still
from small_market import FLAT, HOLD, LONG, make, play, random_actions, rows, small_market

from fox_env import ConfigError, FoxError
from fox_env.backends.cuda import gpu_problem
from fox_env.metrics import summary


class TestJoining:
    def test_the_autoreset_mode_does_not_show(self) -> None:
        """The same bars give the same bits, whatever call began the episodes."""
        found = []
        actions = random_actions(4, 23 * 4)
        for mode in ("SAME_STEP", "NEXT_STEP", "DISABLED"):
            env = make(4, autoreset_mode=mode, margin=False, capital_floor=0.0, **{**OPTIONS, **STOPS})
            env.reset(seed=5)
            for step, row in enumerate(actions):
                done = env.step(row)[3]
                if (step + 1) % 23 == 0:
                    assert done.all()
                    if mode == "NEXT_STEP":
                        env.step(rows(LONG, 4))
                    elif mode == "DISABLED":
                        env.reset()
            found.append(sums_of(env))
            assert (found[0]["metrics.bars"] == len(actions)).all()
        assert same_sums(found[0], found[1]) and same_sums(found[0], found[2])

    def test_an_episode_that_a_reset_breaks_off_counts_as_far_as_it_went(self) -> None:
        env = make(2, metrics=True)
        env.reset(seed=0)
        env.step(rows(LONG, 2))
        env.reset(options={"reset_mask": np.array([True, False])})
        env.step(rows(FLAT, 2))
        found = env.metrics().per_env
        assert found["bars"].tolist() == [2, 2] and found["n_trades"].tolist() == [0, 1]

    def test_lost_equity_stays_lost(self) -> None:
        bars = still(100.0, 100.0, 10.0, 20.0, 40.0, 80.0)
        env = account(make_market(bars), initial_cash=5000.0, capital_floor=0.0)
        env.reset(seed=0, options={"start": [0]})
        env.step(np.array([BUY]))
        assert env.step(np.array([KEEP]))[2].all()  # two contracts lose 9000 of 5000
        env.step(np.array([KEEP]))
        env.step(np.array([BUY]))
        pooled = env.metrics().pooled
        assert pooled["total_return"] < -0.8 and pooled["cagr"] == -1.0
        assert "lost" in pooled["notes"]["cagr"] and pooled["max_drawdown"] == pooled["total_return"]


class TestIndependence:
    @pytest.mark.parametrize("threads", [1, 2])
    def test_neither_the_batch_nor_threads_nor_outputs_show(self, threads: int) -> None:
        """300 accounts run in parallel; the first ones add up as if they were alone and looked at."""
        actions = random_actions(300, 60)
        many = make(300, info_level="none", threads=threads, **{**OPTIONS, **STOPS})
        few = make(3, output="torch", **{**OPTIONS, **STOPS})
        for env, given in ((many, actions), (few, actions[:, :3])):
            env.reset(seed=8)
            for row in given:
                env.step(row)
        whole = {name: np.ascontiguousarray(value[..., :3]) for name, value in sums_of(many).items()}
        assert same_sums(whole, sums_of(few))

    def test_keeping_them_changes_nothing_else(self) -> None:
        plain, metered = (
            make(5, info_level="none", horizon=9),
            make(5, info_level="none", horizon=9, metrics=True),
        )
        for env in (plain, metered):
            env.reset(seed=1)
        for row in random_actions(5, 40):
            for one, other in zip(plain.step(row)[:4], metered.step(row)[:4], strict=True):
                assert one.tobytes() == other.tobytes()
        state = metered.state_dict()
        assert all(value.tobytes() == state[name].tobytes() for name, value in plain.state_dict().items())


class TestLife:
    def test_reset_metrics_begins_anew_and_the_episodes_go_on(self) -> None:
        env, twin = make(3, **OPTIONS), make(3, **OPTIONS)
        first, second = random_actions(3, 31), random_actions(3, 50, seed=1)
        for each in (env, twin):
            each.reset(seed=2)
            play(each, first)
        env.reset_metrics()
        assert env.metrics().pooled["bars"] == 0
        returns: list[Any] = []
        for row in second:
            before = twin.state_dict()["state.done"] != 0
            info = twin.step(row)[4]
            env.step(row)
            returns.append(np.where(before, np.nan, info["step_return"]))
        found = env.metrics().per_env
        for i in range(3):
            own = np.array(returns)[:, i]
            wanted = summary(own[~np.isnan(own)], bars_per_year=100_800)
            for name in ("total_return", "sharpe", "sortino", "max_drawdown", "max_drawdown_bars", "bars"):
                assert found[name][i] == pytest.approx(wanted[name], rel=1e-9), name
        assert env.state_dict()["state.bar"].tolist() == twin.state_dict()["state.bar"].tolist()

    def test_seeding_begins_anew_where_it_reseeds(self) -> None:
        env = make(3, metrics=True)
        env.reset(seed=0)
        play(env, random_actions(3, 5))
        env.reset()
        assert env.metrics().per_env["bars"].tolist() == [5, 5, 5]
        env.reset(seed=[7, 8, 9], options={"reset_mask": np.array([False, True, False])})
        assert env.metrics().per_env["bars"].tolist() == [5, 0, 5]
        env.reset(seed=0)
        assert env.metrics().pooled["bars"] == 0

    @pytest.mark.parametrize("through", ["state", "pickle", "deepcopy"])
    def test_they_continue_exactly_with_the_state(self, through: str) -> None:
        env = make(3, **{**OPTIONS, **STOPS})
        env.reset(seed=2)
        play(env, random_actions(3, 40))
        if through == "state":
            other = make(3, **{**OPTIONS, **STOPS})
            other.load_state_dict(env.state_dict())
        else:
            other = pickle.loads(pickle.dumps(env)) if through == "pickle" else copy.deepcopy(env)
        for each in (env, other):
            play(each, random_actions(3, 40, seed=1))
        assert same_sums(sums_of(env), sums_of(other)) and sums_of(env)["metrics.bars"].min() > 70

    def test_a_state_without_them_is_refused(self) -> None:
        env, plain = make(2, metrics=True), make(2)
        for each in (env, plain):
            each.reset(seed=0)
        with pytest.raises(ConfigError, match=r"no 'metrics\.bars'"):
            env.load_state_dict(plain.state_dict())
        plain.load_state_dict(env.state_dict())

    def test_an_environment_that_keeps_none_says_so(self) -> None:
        env = make(2)
        for call in (env.metrics, env.reset_metrics):
            with pytest.raises(FoxError, match="make it with metrics=True"):
                call()


@pytest.mark.gpu
@pytest.mark.skipif(gpu_problem() is not None, reason=f"needs a GPU: {gpu_problem()}")
class TestGpu:
    @pytest.mark.parametrize(
        ("num_envs", "several"), [(1, False), (33, False), (1025, False), (33, True), (1025, True)]
    )
    @pytest.mark.parametrize("info_level", ["none", "full"])
    @pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
    @pytest.mark.parametrize("exits", [{}, STOPS], ids=["plain", "exits"])
    def test_the_gpu_adds_up_the_same_bits(
        self, num_envs: int, info_level: str, mode: str, exits: dict[str, Any], several: bool
    ) -> None:
        arguments = {**OPTIONS, **exits, "info_level": info_level, "autoreset_mode": mode}
        if several:
            arguments["markets"] = [small_market(), small_market(250, 1)]
        cpu, gpu = (make(num_envs, backend=backend, **arguments) for backend in ("cpu", "cuda"))
        for env in (cpu, gpu):
            env.reset(seed=3)
            for row in random_actions(num_envs, 80):
                env.step(row)
        assert same_sums(sums_of(cpu), sums_of(gpu))
        assert str(cpu.metrics()) == str(gpu.metrics())
        for env in (cpu, gpu):
            env.reset(seed=4, options={"reset_mask": np.arange(num_envs) % 2 == 0})
        assert same_sums(sums_of(cpu), sums_of(gpu))
        for env in (cpu, gpu):
            env.reset_metrics()
        assert same_sums(sums_of(cpu), sums_of(gpu)) and gpu.metrics().pooled["bars"] == 0

    def test_a_captured_graph_adds_up_its_steps_and_clears_in_stream_order(self) -> None:
        torch = pytest.importorskip("torch")
        arguments = {**OPTIONS, "info_level": "none", "autoreset_mode": "SAME_STEP"}
        cpu = make(129, **arguments)
        gpu = make(129, backend="cuda", output="torch", copy=False, **arguments)
        cpu.reset(seed=5)
        gpu.reset(seed=5)
        action = torch.as_tensor(rows(HOLD, 129), device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # a warm-up outside of the graph
            gpu.step(action)
        torch.cuda.current_stream().wait_stream(side)
        cpu.step(rows(HOLD, 129))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            gpu.step(action)
        for step, row in enumerate(random_actions(129, 60)):
            action.copy_(torch.from_numpy(row))
            graph.replay()
            cpu.step(row)
            if step == 30:
                cpu.reset_metrics()
                gpu.reset_metrics()
        assert same_sums(sums_of(cpu), sums_of(gpu)) and cpu.metrics().pooled["bars"] == 29 * 129
