"""What only a GPU can show: torch's streams, CUDA graphs, launches that do not wait, odd batches, sticky faults."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from small_market import FLAT, HOLD, LONG, make, random_actions, rows, same, small_market

from fox_env import ActionError, FoxError, _layout
from fox_env.backends import cuda
from fox_env.backends.cuda import gpu_problem

torch = pytest.importorskip("torch")

PROBLEM = gpu_problem() or (None if torch.cuda.is_available() else "torch sees no GPU")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(PROBLEM is not None, reason=f"needs a GPU: {PROBLEM}")]

BUSY = {
    "horizon": 17,
    "exploration_scale": 1.0,
    "saboteur": (0.5, 2.0),
    "autoreset_mode": AutoresetMode.SAME_STEP,
}


def on_gpu(num_envs: int, **arguments: Any) -> Any:
    return make(num_envs, backend="cuda", **{"output": "torch", **arguments})


def tensors(actions: Any) -> Any:
    return torch.as_tensor(actions, device="cuda")


def host(values: Any) -> np.ndarray[Any, Any]:
    return values.cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def occupy_the_device(seconds: float) -> None:
    """Enqueue work of about this length on the current stream, without waiting for it."""
    torch.cuda._sleep(int(seconds * 1.5e9))  # clock cycles; no present GPU runs much faster than 2 GHz


class TestSameBits:
    @pytest.mark.parametrize("num_envs", [1, 31, 32, 33, 127, 128, 129, 1025])
    @pytest.mark.parametrize("info_level", ["none", "full"])
    @pytest.mark.parametrize("output", ["torch", "numpy"])
    def test_outputs_infos_masks_and_state_equal_the_cpu(
        self, num_envs: int, info_level: str, output: str
    ) -> None:
        cpu = make(num_envs, info_level=info_level, trade_capacity=8, **BUSY)
        gpu = on_gpu(num_envs, info_level=info_level, trade_capacity=8, output=output, **BUSY)
        assert gpu.device.startswith("cuda")
        a, b = cpu.reset(seed=3), gpu.reset(seed=3)
        assert a[0].tobytes() == host(b[0]).tobytes()
        for row in random_actions(num_envs, 60):
            here, there = cpu.step(row), gpu.step(tensors(row) if output == "torch" else row)
            assert same(list(here[:4]), [host(x) for x in there[:4]])
            for name in here[4] if info_level == "full" else ():
                if name in ("final_obs", "final_info"):
                    continue
                np.testing.assert_array_equal(here[4][name], host(there[4][name]), err_msg=name)
            if "final_obs" in here[4]:
                for i in np.flatnonzero(here[4]["_final_obs"]):
                    np.testing.assert_array_equal(here[4]["final_obs"][i], host(there[4]["final_obs"][i]))
            assert (cpu.action_masks() == host(gpu.action_masks())).all()
        mine, other = cpu.state_dict(), gpu.state_dict()
        assert mine.keys() == other.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], other[name], err_msg=name)

    @pytest.mark.parametrize("num_envs", [1, 7, 33, 129, 1025])
    @pytest.mark.parametrize("share", [8, 16, 32])
    def test_any_number_of_environments_a_warp_gives_the_same_bits(
        self, share: int, num_envs: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cuda, "_envs_per_warp", lambda *_: share)
        cpu, gpu = make(num_envs, info_level="none", **BUSY), on_gpu(num_envs, info_level="none", **BUSY)
        assert cpu.reset(seed=3)[0].tobytes() == host(gpu.reset(seed=3)[0]).tobytes()
        for row in random_actions(num_envs, 40):
            assert same(list(cpu.step(row)[:4]), [host(x) for x in gpu.step(tensors(row))[:4]])
        mine, other = cpu.state_dict(), gpu.state_dict()
        assert all(mine[name].tobytes() == other[name].tobytes() for name in mine)

    @pytest.mark.parametrize("num_envs", [3, 33, 1025])
    @pytest.mark.parametrize("info_level", ["none", "full"])
    def test_batches_of_several_markets_equal_the_cpu(self, num_envs: int, info_level: str) -> None:
        arguments = {"markets": [small_market(), small_market(250, 1), small_market(300, 2)], **BUSY}
        cpu = make(num_envs, info_level=info_level, trade_capacity=8, **arguments)
        gpu = on_gpu(num_envs, info_level=info_level, trade_capacity=8, **arguments)
        assert cpu.reset(seed=3)[0].tobytes() == host(gpu.reset(seed=3)[0]).tobytes()
        for row in random_actions(num_envs, 60):
            here, there = cpu.step(row), gpu.step(tensors(row))
            assert same(list(here[:4]), [host(x) for x in there[:4]])
            assert (cpu.action_masks() == host(gpu.action_masks())).all()
        mine, other = cpu.state_dict(), gpu.state_dict()
        for name in mine:
            np.testing.assert_array_equal(mine[name], other[name], err_msg=name)

    @pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
    @pytest.mark.parametrize("form", ["plain", "strided", "misaligned"])
    def test_device_actions_of_every_dtype_and_layout(self, dtype: Any, form: str) -> None:
        cpu, gpu = make(33, horizon=9), on_gpu(33, horizon=9)
        cpu.reset(seed=1)
        gpu.reset(seed=1)
        for row in random_actions(33, 20):
            given = tensors(row).to(dtype)
            if form == "strided":
                given = given.t().contiguous().t()
            elif form == "misaligned":
                room = torch.zeros(given.numel() + 1, dtype=dtype, device="cuda")
                room[1:] = given.reshape(-1)
                given = room[1:].view(33, 4)
            assert same(list(cpu.step(row)[:2]), [host(x) for x in gpu.step(given)[:2]])

    @pytest.mark.parametrize("action_type", ["discrete", "continuous"])
    def test_other_action_types_and_convictions(self, action_type: str) -> None:
        cpu, gpu = (f(65, horizon=9, action_type=action_type) for f in (make, on_gpu))
        cpu.reset(seed=1)
        gpu.reset(seed=1)
        cpu.action_space.seed(0)
        rng = np.random.default_rng(0)
        for _ in range(20):
            action, conviction = cpu.action_space.sample(), rng.random(65).astype(np.float32)
            there = gpu.step(tensors(action), conviction=tensors(conviction))
            assert same(list(cpu.step(action, conviction=conviction)[:2]), [host(x) for x in there[:2]])

    def test_a_state_crosses_the_backends_both_ways(self) -> None:
        cpu, gpu = make(33, trade_capacity=100, **BUSY), on_gpu(33, trade_capacity=100, **BUSY)
        gpu.reset(seed=9)
        for row in random_actions(33, 40):
            gpu.step(tensors(row))
        cpu.load_state_dict(gpu.state_dict())
        for row in random_actions(33, 40, seed=1):
            assert same(list(cpu.step(row)[:4]), [host(x) for x in gpu.step(tensors(row))[:4]])
        gpu.load_state_dict(cpu.state_dict())
        row = random_actions(33, 1, seed=2)[0]
        assert same(list(cpu.step(row)[:4]), [host(x) for x in gpu.step(tensors(row))[:4]])
        assert gpu.trades().equals(cpu.trades())

    def test_indices_beyond_two_to_the_31_reach_the_right_rows(self) -> None:
        num_envs = 2**24 + 33  # 128 entries each: the last observations begin beyond 2**31
        if torch.cuda.mem_get_info()[0] < 24 * 2**30:
            pytest.skip("needs 24 GiB of GPU memory")
        env = on_gpu(num_envs, horizon=50, info_level="none", copy=False)
        env.reset(seed=0)
        obs = env.reset()[0]
        tail = make(33, horizon=50)
        tail.reset(seed=0)
        state = tail.state_dict()
        state["state.stream"] = np.arange(num_envs - 33, num_envs, dtype=np.uint32)
        tail.load_state_dict(state)
        assert host(obs[-33:]).tobytes() == tail.reset()[0].tobytes()
        row = random_actions(33, 1)[0]
        actions = torch.ones(num_envs, 4, dtype=torch.uint8, device="cuda")
        actions[-33:] = tensors(row).to(torch.uint8)
        obs, reward = env.step(actions)[:2]
        assert same([host(obs[-33:]), host(reward[-33:])], list(tail.step(row)[:2]))
        env.close()

    def test_held_tensors_never_change(self) -> None:
        env = on_gpu(33, **BUSY)
        held = [env.reset(seed=0)[0]]
        copies = [held[0].cpu()]
        for row in random_actions(33, 40):
            obs, reward, terminated, truncated, info = env.step(tensors(row))
            new = [obs, reward, terminated, truncated, info["final_obs"], info["equity"]]
            held += new
            copies += [x.cpu() for x in new]
        assert all(torch.equal(x.cpu(), y) for x, y in zip(held, copies, strict=True))


class TestCopies:
    """Copies are a kernel's, to memory of torch's; what they must equal is the views of a batch of the same life."""

    @staticmethod
    def flat(step: Any) -> dict[str, Any]:
        arrays = dict(zip(("obs", "reward", "terminated", "truncated"), step[:4], strict=True)) | dict(
            step[4]
        )
        final = arrays.pop("final_info", {})
        return arrays | {f"final_info.{name}": value for name, value in final.items()}

    @pytest.mark.parametrize("num_envs", [1, 33, 1025])
    @pytest.mark.parametrize("info_level", ["none", "learn", "full"])
    @pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
    @pytest.mark.parametrize("counterfactual", [False, True])
    def test_copies_equal_the_views_and_stay(
        self, num_envs: int, info_level: str, mode: str, counterfactual: bool
    ) -> None:
        arguments = {"info_level": info_level, "autoreset_mode": mode, "counterfactual": counterfactual}
        copied = on_gpu(num_envs, horizon=5, **arguments)
        viewed = on_gpu(num_envs, horizon=5, copy=False, **arguments)
        assert host(copied.reset(seed=3)[0]).tobytes() == host(viewed.reset(seed=3)[0]).tobytes()
        held, late = [], []
        for row in random_actions(num_envs, 12):
            step = copied.step(tensors(row))
            right = {name: host(values) for name, values in self.flat(viewed.step(tensors(row))).items()}
            late.append((step, right))  # whose info nobody looks at before the steps that follow
            step = copied.step(tensors(row))
            right = {name: host(values) for name, values in self.flat(viewed.step(tensors(row))).items()}
            held.append((self.flat(step), right))
        for arrays, right in (*held, *((self.flat(step), right) for step, right in late)):
            assert arrays.keys() == right.keys()
            for name, values in right.items():
                np.testing.assert_array_equal(host(arrays[name]), values, err_msg=name)

    @pytest.mark.parametrize("info_level", ["none", "full"])
    def test_what_is_kept_of_a_step_keeps_nothing_else_alive(self, info_level: str) -> None:
        env = on_gpu(33, info_level=info_level, **BUSY)
        env.reset(seed=0)
        step = env.step(tensors(rows(LONG, 33)))
        assert all(values.untyped_storage().nbytes() == values.nbytes for values in step[:4])
        apart = {values.untyped_storage().data_ptr() for values in (*step[:4], step[4]["final_obs"])}
        assert len(apart) == 5

    def test_copies_on_a_side_stream_come_after_the_step_there(self) -> None:
        env, twin = on_gpu(256, horizon=29), make(256, horizon=29)
        env.reset(seed=0)
        twin.reset(seed=0)
        given = tensors(random_actions(256, 20))
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            occupy_the_device(0.1)
            steps = [env.step(row)[:4] for row in given]
        side.synchronize()
        for row, step in zip(host(given), steps, strict=True):
            assert same(list(twin.step(row)[:4]), [host(x) for x in step])

    def test_a_captured_step_with_copies_fills_the_same_tensors_at_every_replay(self) -> None:
        env, twin = on_gpu(129, info_level="learn", **BUSY), make(129, info_level="learn", **BUSY)
        env.reset(seed=5)
        twin.reset(seed=5)
        action = tensors(rows(HOLD, 129))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # a warm-up outside of the graph
            env.step(action)
        torch.cuda.current_stream().wait_stream(side)
        twin.step(rows(HOLD, 129))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            *values, info = env.step(action)
            bar = info["bar_index"]
        for row in random_actions(129, 20):
            action.copy_(tensors(row))
            graph.replay()
            *expected, right = twin.step(row)
            assert same([*expected, right["bar_index"]], [host(x) for x in (*values, bar)])


class TestStreams:
    def test_a_side_stream_orders_actions_step_and_observation(self) -> None:
        """Actions written late on a side stream must be what the step reads, and its output what torch reads next."""
        rounds = 100
        actions = random_actions(256, rounds)
        plain = on_gpu(256, horizon=29)
        plain.reset(seed=0)
        expected = [plain.step(tensors(row))[0].cpu() for row in actions]
        env = on_gpu(256, horizon=29, copy=False)
        env.reset(seed=0)
        torch.cuda.synchronize()
        stale = torch.zeros(256, 4, dtype=torch.int64, device="cuda")
        given = tensors(actions)
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        seen = []
        with torch.cuda.stream(side):
            for row in given:
                occupy_the_device(0.002)
                stale.copy_(row)
                seen.append(env.step(stale)[0] * 1.0)
        side.synchronize()
        assert all(torch.equal(a.cpu(), b) for a, b in zip(seen, expected, strict=True))

    def test_the_stream_is_looked_up_at_every_call(self) -> None:
        env, twin = on_gpu(64, horizon=11), make(64, horizon=11)
        env.reset(seed=0)
        twin.reset(seed=0)
        torch.cuda.synchronize()
        streams = [torch.cuda.Stream() for _ in range(3)]
        for i, row in enumerate(random_actions(64, 30)):
            stream = streams[i % 3]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                given = tensors(row)
                obs = env.step(given)[0]
                obs_host = obs.cpu()
            torch.cuda.current_stream().wait_stream(stream)
            np.testing.assert_array_equal(obs_host.numpy(), twin.step(row)[0])

    # A stream takes about 1,000 launches ahead before the host must wait; with copies a step has two of them.
    @pytest.mark.parametrize("copy", [False, True])
    def test_steps_enqueue_while_the_device_is_busy(self, copy: bool) -> None:
        """With seconds of work ahead of them in the stream, the steps must return long before they can have run."""
        steps = 200
        env = on_gpu(1024, horizon=50, info_level="learn", copy=copy, autoreset_mode="SAME_STEP")
        env.reset(seed=0)
        action = tensors(rows(LONG, 1024))
        for _ in range(5):
            env.step(action)
        env.set_knob("shaping_scale", 0.5)
        env.action_masks()
        torch.cuda.synchronize()
        done = torch.cuda.Event()
        torch.cuda.set_sync_debug_mode("error")
        try:
            began = time.perf_counter()
            occupy_the_device(2.0)
            for i in range(steps):
                info = env.step(action)[4]
                if i % 20 == 0:
                    env.set_knob("shaping_scale", i / 200)
                    env.action_masks()
                    assert info["final_obs"].shape == (1024, 128) and info["branch_active"].shape == (1024, 4)
            done.record()
            enqueued, finished_early = time.perf_counter() - began, done.query()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
        total = time.perf_counter() - began
        assert not finished_early, "the device was done before the host: the test proved nothing"
        assert total > 0.8, f"the device was busy for {total:.2f} s only: the test proved nothing"
        assert enqueued < 0.5 * total, f"{steps} steps took the host {enqueued:.3f} s of {total:.3f} s"

    def test_numpy_outputs_wait_for_the_tensors_they_are_given(self) -> None:
        env, twin = on_gpu(64, output="numpy"), make(64)
        env.reset(seed=0)
        twin.reset(seed=0)
        action = torch.zeros(64, 4, dtype=torch.int64, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            for row in random_actions(64, 10):
                occupy_the_device(0.01)
                action.copy_(torch.from_numpy(row).pin_memory(), non_blocking=True)
                np.testing.assert_array_equal(env.step(action)[0], twin.step(row)[0])


class TestGraphs:
    @pytest.mark.parametrize("info_level", ["none", "learn"])
    def test_a_captured_step_replays_with_new_actions_and_knobs(self, info_level: str) -> None:
        arguments: dict[str, Any] = {
            **{"horizon": 13, "saboteur": (3.0, 3.0), "info_level": info_level},
            "autoreset_mode": AutoresetMode.SAME_STEP,
        }
        eager, env = make(129, **arguments), on_gpu(129, copy=False, **arguments)
        eager.reset(seed=5)
        env.reset(seed=5)
        action = torch.zeros(129, 4, dtype=torch.int64, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # a warm-up outside of the graph
            action.copy_(tensors(rows(HOLD, 129)))
            env.step(action)
        torch.cuda.current_stream().wait_stream(side)
        eager.step(rows(HOLD, 129))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            obs, reward, terminated, truncated, _ = env.step(action)
        before = env.state_dict()["state.bar"]
        np.testing.assert_array_equal(before, eager.state_dict()["state.bar"])  # capturing runs nothing
        for step, row in enumerate(random_actions(129, 60)):
            if step in (20, 40):
                for each in (eager, env):
                    each.set_knob("exploration_scale", 1.0 if step == 20 else 0.25)
            action.copy_(tensors(row))
            graph.replay()
            expected = eager.step(row)[:4]
            assert same(list(expected), [host(x) for x in (obs, reward, terminated, truncated)]), step
        changed = env.state_dict()
        for name, value in eager.state_dict().items():
            np.testing.assert_array_equal(value, changed[name], err_msg=name)

    def test_knobs_are_felt_in_a_replay(self) -> None:
        env = on_gpu(8, copy=False, saboteur=(3.0, 3.0), autoreset_mode=AutoresetMode.SAME_STEP)
        action = tensors(rows(LONG, 8))
        env.reset(seed=0, options={"start": [10] * 8})
        env.step(action)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            *_, info = env.step(action)
            cost = info["cost"] * 1.0
        spent = []
        for exploration in (0.0, 1.0):
            env.set_knob("exploration_scale", exploration)
            env.reset(options={"start": [10] * 8})
            graph.replay()
            spent.append(float(cost.sum()))
        assert spent[1] > 1.5 * spent[0] > 0


class TestFaults:
    def test_a_bad_device_action_holds_is_reported_once_and_reads_nothing_outside(self) -> None:
        env = on_gpu(33)
        env.reset(seed=0)
        env.step(tensors(rows(LONG, 33)))
        bad = rows(FLAT, 33)
        bad[32] = [2**62, -(2**62), 7, 3]
        info = env.step(tensors(bad))[4]
        assert host(info["position"]).tolist() == [0.0] * 32 + [10.0]
        assert int(info["order_status"][32]) == _layout.OrderStatus.INVALID
        torch.cuda.synchronize()
        with pytest.raises(ActionError, match="an earlier step got an action outside"):
            env.step(tensors(rows(FLAT, 33)))
        assert host(env.step(tensors(rows(FLAT, 33)))[4]["position"]).tolist() == [0.0] * 33

    def test_stepping_an_ended_episode_changes_nothing_and_is_reported(self) -> None:
        env = on_gpu(2, horizon=1, autoreset_mode=AutoresetMode.DISABLED)
        env.reset(seed=0)
        action = tensors(rows(LONG, 2))
        env.step(action)
        before = env.state_dict()
        env.step(action)
        torch.cuda.synchronize()
        after = env.state_dict()
        assert all(before[name].tobytes() == after[name].tobytes() for name in before)
        with pytest.raises(ActionError, match="episode that had ended"):
            env.step(action)

    def test_a_conviction_that_is_no_number_counts_as_none(self) -> None:
        env = on_gpu(3)
        env.reset(seed=0)
        conviction = tensors(np.array([np.nan, -1.0, 7.0], np.float32))
        info = env.step(tensors(rows(LONG, 3)), conviction=conviction)[4]
        assert host(info["position"]).tolist() == [0.0, 0.0, 10.0]

    @pytest.mark.parametrize(
        "bad",
        [
            lambda: tensors(np.zeros((2, 3), np.int64)),
            lambda: tensors(np.zeros((3, 4), np.int64)),
            lambda: tensors(np.zeros((2, 4), np.float32)),
            lambda: tensors(np.zeros((2, 4), np.int16)),
        ],
    )
    def test_shapes_and_dtypes_of_device_actions_are_refused(self, bad: Any) -> None:
        env = on_gpu(2)
        env.reset(seed=0)
        with pytest.raises(ActionError, match="the batch needs"):
            env.step(bad())

    def test_device_tensors_for_a_cpu_environment_are_refused(self) -> None:
        env = make(2)
        env.reset(seed=0)
        with pytest.raises(ActionError, match="lie on cuda:0, the environment on cpu"):
            env.step(tensors(rows(LONG, 2)))
        with pytest.raises(ActionError, match="convictions lie on cuda:0"):
            env.step(rows(LONG, 2), conviction=torch.ones(2, device="cuda"))
        env.reset(options={"start": tensors(np.array([3, 4])), "reset_mask": tensors(np.array([True, True]))})

    def test_closing_frees_the_memory_and_use_after_it_is_refused(self) -> None:
        torch.cuda.synchronize()
        free = torch.cuda.mem_get_info()[0]
        for _ in range(20):
            env = on_gpu(4096, trade_capacity=1024, market=small_market())
            env.reset(seed=0)
            env.close()
            env.close()
        with pytest.raises(FoxError, match="closed"):
            env.step(tensors(rows(LONG, 4096)))
        assert free - torch.cuda.mem_get_info()[0] < 300 * 2**20  # one batch holds more

    def test_tensors_outlive_their_environment(self) -> None:
        env = on_gpu(64, copy=False)
        obs, _ = env.reset(seed=0)
        kept = obs.clone()
        env.close()
        del env
        others = [on_gpu(64) for _ in range(4)]  # would reuse freed memory
        for other in others:
            other.reset(seed=1)
        assert torch.equal(obs, kept)

    def test_another_thread_may_step(self) -> None:
        env = on_gpu(33)
        twin = on_gpu(33)
        env.reset(seed=0)
        twin.reset(seed=0)
        with ThreadPoolExecutor(1) as pool:
            there = pool.submit(lambda: env.step(tensors(rows(LONG, 33)))[0].cpu()).result()
        assert torch.equal(there, twin.step(tensors(rows(LONG, 33)))[0].cpu())
