"""The layout, the host library, the NVRTC build and the choice of a backend, as far as no GPU is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_market import HOLD, LONG, make, rows, small_market

from fox_env import BackendError, ConfigError, FoxFuturesVectorEnv, _layout, _native
from fox_env.backends import nvrtc, resolve_backend
from fox_env.backends.buffers import plan_buffers
from fox_env.backends.cuda import gpu_problem
from fox_env.params import seed_arrays, seed_key

MOST_SPILLED = 96
"""Bytes that a thread of any kernel may spill, stores and loads together."""


def one_sentence(error: BaseException) -> str:
    text = str(error)
    assert text and "\n" not in text and len(text) < 400, text
    return text


class TestLayout:
    def test_every_name_exists(self) -> None:
        assert all(getattr(_layout, name) is not None for name in _layout.__all__)
        assert _layout.ACTION_BRANCHES == (4, 3, 3, 3)

    def test_enums_have_the_public_values(self) -> None:
        expected = {
            _layout.Direction: ["SHORT", "HOLD", "LONG", "FLAT"],
            _layout.Magnitude: ["QUARTER", "HALF", "FULL"],
            _layout.OrderType: ["MARKET", "LIMIT", "IOC"],
            _layout.Urgency: ["PATIENT", "NORMAL", "AGGRESSIVE"],
            _layout.ExitReason: [
                "NONE",
                "AGENT",
                "STOP",
                "TARGET",
                "MARGIN",
                "SESSION",
                "EPISODE_END",
                "FLOOR",
            ],
            _layout.AutoresetMode: ["NEXT_STEP", "SAME_STEP", "DISABLED"],
        }
        for enum, names in expected.items():
            assert issubclass(enum, IntEnum)
            assert {member.name: int(member) for member in enum} == {n: i for i, n in enumerate(names)}

    def test_the_observation_blocks_fill_128_entries(self) -> None:
        o = _layout.Observation
        starts = [o.MARKET, o.ORDER_FLOW, o.TIMEFRAMES, o.PORTFOLIO, o.CONTEXT, o.SIZE]
        assert np.diff(starts).tolist() == [42, 20, 24, 32, 10]
        assert starts[0] == 0 and o.SIZE == 128
        assert sum(_layout.ACTION_BRANCHES) == _layout.ActionSpace.BRANCH_ENTRIES == 13
        assert _layout.ActionSpace.EXPOSURES == 8 and _layout.Launch.BLOCK % _layout.Launch.WARP == 0
        assert o.FEATURES == o.PORTFOLIO and o.ACCOUNT == o.SIZE - o.FEATURES
        assert _layout.Portfolio.SIZE == 32 and _layout.Context.SIZE == 10
        assert (o.FEATURE_STRIDE * 4) % 16 == 0 and o.FEATURE_STRIDE >= o.FEATURES

    def test_structures_are_what_the_library_was_compiled_with(self) -> None:
        assert _native.library() is not None
        assert _layout.MARKET_ROW.itemsize == 64 and _layout.TRADE_RECORD.itemsize % 8 == 0
        assert set(_layout.STRUCTURES) == {
            *("EnvParams", "MarketRow", "StateArrays", "InfoArrays", "CounterfactualArrays"),
            *("TradeRecord", "TradedMarket", "Batch", "Actions", "ResetRequest"),
            *("OutputCopies", "MetricArrays"),
        }

    @pytest.mark.parametrize("num_envs", [1, 33, 1025])
    def test_buffers_are_aligned_and_apart(self, num_envs: int) -> None:
        plan = plan_buffers(
            num_envs,
            _layout.INFO_FIELDS,
            same_step=True,
            final_info=True,
            final_masks=True,
            counterfactual=True,
            ledger_capacity=3,
            metrics=True,
        )
        end = 0
        for name, slot in plan.slots.items():
            assert slot.offset % 256 == 0 and slot.offset >= end, name
            end = slot.offset + slot.nbytes
        assert 0 <= plan.total_bytes - end < 256
        outputs = [n for n, s in plan.slots.items() if s.offset < plan.output_bytes]
        assert not any(name.startswith(("state.", "knobs", "ledger", "metrics.")) for name in outputs)
        assert {"obs", "reward", "terminated", "truncated", "final_obs"} <= set(outputs)
        assert [n for n in outputs if plan.slots[n].offset >= plan.step_bytes] == ["final_obs", "final_masks"]
        assert list(plan.outputs) == outputs

    @pytest.mark.parametrize("torch_output", [False, True])
    def test_what_a_step_copies(self, torch_output: bool) -> None:
        options: dict[str, Any] = {"final_info": False, "final_masks": False, "ledger_capacity": 0}
        rest = {"same_step": False, "counterfactual": False}
        returned = ["obs", "reward", "terminated", "truncated"]
        plain = plan_buffers(33, (), **options, **rest).copies(torch_output=torch_output)
        assert list(plain) == returned
        assert [slot.nbytes for slot in plain.values()] == [33 * 512, 33 * 4, 33, 33]
        for fields, changed in (
            (("bar_index",), {}),
            ((), {"same_step": True}),
            ((), {"counterfactual": True}),
            (("bar_index",), {"same_step": True, "counterfactual": True}),
        ):
            plan = plan_buffers(33, fields, **options, **{**rest, **changed})
            copied = plan.copies(torch_output=torch_output)
            assert list(copied) == [*returned, "info"] and len(copied) <= _layout.Launch.COPIES
            assert all(slot.offset % 16 == 0 for slot in copied.values())  # the GPU copies 16 bytes a thread
            block = copied["info"]
            inside = [
                name
                for name, slot in plan.outputs.items()
                if block.offset <= slot.offset and slot.offset + slot.nbytes <= block.offset + block.nbytes
            ]
            left_out = {"obs", "reward"} if torch_output else {"obs", "reward", "final_obs"}
            assert set(inside) == plan.outputs.keys() - left_out


class TestRandomNumbers:
    @pytest.mark.parametrize(
        ("counter", "key", "expected"),
        [  # Random123, kat_vectors: philox4x32-10
            ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
            ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
            (
                (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
                (0xA4093822, 0x299F31D0),
                (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
            ),
        ],
    )
    def test_philox_gives_the_published_vectors(self, counter: Any, key: Any, expected: Any) -> None:
        found = _native.philox(np.array(counter, np.uint32), np.array(key, np.uint32))
        assert tuple(found.tolist()) == expected

    def test_seed_keys_are_splitmix64(self) -> None:
        # The first outputs of Vigna's splitmix64.c from these states.
        assert seed_key(0) == 0xE220A8397B1DCDAF
        assert seed_key(0x9E3779B97F4A7C15) == 0x6E789E6AA1B965F4
        assert seed_key(1234567) == 6457827717110365317
        assert seed_key(2**64 + 5) == seed_key(5)

    def test_keys_and_counter_words_of_a_batch(self) -> None:
        keys, streams = seed_arrays(7, 3)
        assert keys.tolist() == [seed_key(7)] * 3 and streams.tolist() == [0, 1, 2]
        keys, streams = seed_arrays([7, 8], 2)
        assert keys.tolist() == [seed_key(7), seed_key(8)] and streams.tolist() == [0, 0]

    def test_the_start_is_drawn_from_the_documented_counter(self) -> None:
        """Counter (environment, episode, 0, purpose 0), key of the seed; multiply-and-shift of the first word."""
        env = make(5, horizon=100)
        starts = env.reset(seed=42)[1]["bar_index"]
        key = seed_key(42)
        count = len(small_market()) - 1 - 100 + 1
        for i, start in enumerate(starts.tolist()):
            word = _native.philox(
                np.array([i, 0, 0, 0], np.uint32), np.array([key & 0xFFFFFFFF, key >> 32], np.uint32)
            )[0]
            assert start == (int(word) * count) >> 32


class TestHostLibrary:
    def test_it_names_its_level(self) -> None:
        assert _native.cpu_level() in ("v2", "v3", "v4", "generic")
        assert _native.max_threads() >= 1

    def test_an_unknown_level_is_refused(self) -> None:
        code = "import fox_env; fox_env.FoxFuturesVectorEnv(1, backend='cpu')"
        environment = {**os.environ, "FOX_CPU_LEVEL": "v9"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert "FOX_CPU_LEVEL=v9 is not a level of this processor" in done.stderr

    def test_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_native, "_NAMES", ("nowhere.so",))
        with pytest.raises(BackendError, match="host library of Fox is missing; install a C") as caught:
            _native.library.__wrapped__()
        one_sentence(caught.value)

    def test_unloadable(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        broken = tmp_path / "libfox_host.so"
        broken.write_bytes(b"not a library")
        monkeypatch.setattr(_native, "_library_path", lambda: broken)
        with pytest.raises(BackendError, match=r"cannot be loaded .*run `pip install \.` again") as caught:
            _native.library.__wrapped__()
        one_sentence(caught.value)

    def test_built_from_other_sources(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_native, "source_digest", lambda: "0" * 64)
        with pytest.raises(BackendError, match="built from other sources") as caught:
            _native.library.__wrapped__()
        one_sentence(caught.value)

    def test_other_sizes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(_layout.STRUCTURES, "Batch", _layout.STRUCTURES["Batch"] + 8)
        with pytest.raises(BackendError, match="structure sizes") as caught:
            _native.library.__wrapped__()
        one_sentence(caught.value)

    def test_a_digest_covers_every_source(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for path in _layout.source_dir().iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        monkeypatch.setattr(_layout, "source_dir", lambda: tmp_path)
        same = _native.source_digest()
        (tmp_path / "rng.cuh").write_text((tmp_path / "rng.cuh").read_text() + "\n")
        assert _native.source_digest() != same


class TestNvrtc:
    def test_the_flags_of_the_arithmetic_contract(self) -> None:
        pytest.importorskip("cuda.core")
        flags = {flag.decode() for flag in nvrtc.options("sm_90").as_bytes("nvrtc")}
        assert {"--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false", "-arch=sm_90"} <= flags
        assert not any("fast" in flag for flag in flags)

    def test_one_source_without_includes_checks_every_structure(self) -> None:
        source = nvrtc.kernel_source()
        assert "#include" not in source and "#pragma once" not in source
        assert source.count("FOX_FN Philox philox(") == 1
        assert source.count("static_assert(sizeof(") == len(_layout.STRUCTURES)

    @pytest.mark.parametrize("rules", nvrtc.COMPILED_RULES)
    def test_every_kernel_compiles_and_hardly_spills(self, rules: int) -> None:
        """For one architecture; `make kernels` compiles for all."""
        pytest.importorskip("cuda.core")
        found = {use.kernel: use for use in nvrtc.kernel_use("sm_90", rules)}
        batch = {
            "fox_step",
            "fox_step_quiet",
            "fox_step_metrics",
            "fox_reset",
            "fox_masks",
            "fox_counterfactual",
        }
        once = {"fox_clear_metrics", "fox_copy_outputs", "fox_set_knob"}
        assert set(found) == {*batch, *(f"{name}_markets" for name in batch), *once}
        for use in found.values():
            assert 0 < use.registers <= 255
            assert use.spill_bytes <= MOST_SPILLED, use
            assert use.shared_bytes <= 48 * 1024, use

    def test_a_source_with_an_error_shows_the_compilers_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("cuda.core")
        monkeypatch.setattr(
            nvrtc, "kernel_source", lambda: "__global__ void broken() { undeclared_name = 1; }"
        )
        with pytest.raises(BackendError, match="undeclared_name"):
            nvrtc.compile_kernels("sm_90", cached=False)

    @pytest.mark.parametrize(
        ("capability", "supported", "expected"),
        [
            ((9, 0), [75, 80, 90, 100], ("sm_90", "cubin")),
            ((8, 6), [75, 80, 90], ("sm_80", "cubin")),  # an older member of the family
            ((12, 1), [80, 90, 120], ("compute_120", "ptx")),
            ((12, 1), [75, 80, 90], ("compute_90", "ptx")),  # an NVRTC older than the GPU
            ((13, 0), [100, 80, 120], ("compute_120", "ptx")),  # in any order
            ((9, 0), [75, 80, 100], ("compute_80", "ptx")),  # a family that this NVRTC left out
        ],
    )
    def test_targets(self, capability: tuple[int, int], supported: list[int], expected: Any) -> None:
        assert nvrtc.target_for(capability, supported) == expected

    def test_a_gpu_older_than_nvrtc_is_refused(self) -> None:
        with pytest.raises(BackendError, match=r"capability 6\.1.*compiles for 7\.5 and newer") as caught:
            nvrtc.target_for((6, 1), [75, 80, 90])
        assert "backend='cpu'" in one_sentence(caught.value)


def alone(code: str) -> str:
    """The last line that ``code`` prints in an interpreter of its own."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip().splitlines()[-1]


REPORT = """
try:
    {use}
except fox_env.BackendError as error:
    print(error)
"""


class TestWhatIsMissing:
    @pytest.mark.skipif(gpu_problem() is None, reason="there is a GPU here")
    @pytest.mark.parametrize("output", ["numpy", "torch"])
    def test_no_gpu(self, output: str) -> None:
        with pytest.raises(BackendError, match=r"NVIDIA|GPU|cuda") as caught:
            FoxFuturesVectorEnv(1, small_market(), backend="cuda", output=output)
        assert "or use backend='cpu'" in one_sentence(caught.value)
        env = make(1, backend="auto", output=output)
        assert env.device == "cpu"

    @pytest.mark.parametrize("module", ["cuda", "cuda.bindings", "cuda.pathfinder"])
    def test_no_cuda_python_keeps_the_real_cause(self, module: str) -> None:
        use = "fox_env.FoxFuturesVectorEnv(1, backend='cuda')"
        said = alone(f"import sys; sys.modules[{module!r}] = None; import fox_env" + REPORT.format(use=use))
        assert module in said and "pip install 'fox-futures[cuda]'" in said and "backend='cpu'" in said

    def test_auto_without_cuda_python_is_the_cpu(self) -> None:
        code = "import sys; sys.modules['cuda'] = None; import fox_env; print(fox_env.FoxFuturesVectorEnv(1).device)"
        assert alone(code) == "cpu"

    def test_no_nvrtc(self) -> None:
        pytest.importorskip("cuda.core")
        hide = """
import cuda.pathfinder as finder
def missing(name, load=finder.load_nvidia_dynamic_lib):
    if name == "nvrtc":
        raise finder.DynamicLibNotFoundError("libnvrtc.so is nowhere\\nsecond line")
    return load(name)
finder.load_nvidia_dynamic_lib = missing
import fox_env
from fox_env.backends import nvrtc
"""
        for use in ("nvrtc.supported_architectures()", "nvrtc.compile_kernels('sm_90', cached=False)"):
            said = alone(hide + REPORT.format(use=use))
            assert "NVRTC" in said and "pip install" in said and "backend='cpu'" in said, use

    def test_no_torch(self) -> None:
        use = "fox_env.FoxFuturesVectorEnv(1, output='torch', backend='cpu')"
        said = alone("import sys; sys.modules['torch'] = None; import fox_env" + REPORT.format(use=use))
        assert "output='torch' needs PyTorch" in said and "output='numpy'" in said

    def test_no_matplotlib(self) -> None:
        use = "env.render()"
        code = (
            "import sys; sys.modules['matplotlib'] = None; import fox_env\n"
            "env = fox_env.FoxFuturesVectorEnv(1, backend='cpu', render_mode='rgb_array'); env.reset(seed=0)"
        )
        assert "rgb_array' needs matplotlib" in alone(code + REPORT.format(use=use))

    def test_unknown_names(self) -> None:
        with pytest.raises(ConfigError, match="unknown backend 'gpu'; use one of auto, cpu, cuda") as caught:
            resolve_backend("gpu")
        one_sentence(caught.value)


class TestCpu:
    @pytest.mark.parametrize("num_envs", [1, 33, 255, 256, 257, 1025])
    def test_threads_and_batch_size_change_no_bit(self, num_envs: int) -> None:
        outs = []
        for threads in (1, 2, 5):
            env = make(num_envs, threads=threads, horizon=7, info_level="none", autoreset_mode="SAME_STEP")
            env.reset(seed=0)
            steps = [env.step(rows(action, num_envs)) for action in (LONG, HOLD, LONG, HOLD) * 3]
            outs.append(b"".join(step[0].tobytes() + step[1].tobytes() for step in steps))
        assert outs[0] == outs[1] == outs[2]

    def test_the_callers_rounding_and_flush_modes_do_not_matter(self) -> None:
        torch = pytest.importorskip("torch")
        env, twin = make(300), make(300)
        try:
            torch.set_flush_denormal(True)
            env.reset(seed=0)
            a = [env.step(rows(LONG, 300))[0] for _ in range(5)]
        finally:
            torch.set_flush_denormal(False)
        twin.reset(seed=0)
        assert all(x.tobytes() == twin.step(rows(LONG, 300))[0].tobytes() for x in a)
