"""Pictures and windows of an account: what they show, where they work, and what they leave behind."""

from __future__ import annotations

import dataclasses
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fake_window import FakeManager, open_nothing
from numpy.typing import NDArray
from small_market import FLAT, HOLD, LONG, SHORT, SPEC, make, random_actions, rows, small_market

from fox_env import BackendError, Bars, FoxError, FoxFuturesEnv, Market

pytest.importorskip("matplotlib", reason="pictures need the render extra")

STOP, TARGET, BUY, SELL = (244, 109, 67), (50, 136, 189), (26, 152, 80), (215, 48, 39)
STOPPED_OUT, MARGIN_CALL, EQUITY = (253, 174, 97), (84, 39, 136), (94, 60, 153)
PRICES, POSITIONS, EQUITIES = slice(75, 358), slice(372, 440), slice(453, 550)


def ink(frame: NDArray[np.uint8], color: tuple[int, int, int], panel: slice) -> int:
    """How many pixels of a panel have about this colour."""
    part = frame[panel, 100:770].astype(int)
    return int((np.abs(part - np.array(color)).max(axis=2) < 12).sum())


def picture(*actions: list[int], **options: Any) -> NDArray[np.uint8]:
    """The frame of one account after these actions, from the first bar on."""
    env = make(1, render_mode="rgb_array", random_start=False, **options)
    env.reset(seed=0)
    for action in actions:
        env.step([action])
    (frame,) = env.render()
    return frame


class TestWhatAPictureShows:
    def test_size_and_type(self) -> None:
        frame = picture(LONG, HOLD)
        assert frame.shape == (600, 800, 3) and frame.dtype == np.uint8

    @pytest.mark.parametrize(
        ("options", "color"), [({"trail_atr": (9.0, 9.0)}, STOP), ({"profit_target_atr": 9.0}, TARGET)]
    )
    def test_levels_only_while_a_position_has_them(self, options: dict[str, Any], color: Any) -> None:
        held = [LONG, *[HOLD] * 8]
        assert ink(picture(*held, **options), color, PRICES) > 30
        assert ink(picture(*held), color, PRICES) == 0
        assert ink(picture(*[HOLD] * 9, **options), color, PRICES) == 0

    @pytest.mark.parametrize(("action", "color"), [(LONG, BUY), (SHORT, SELL)])
    def test_fills_and_positions(self, action: list[int], color: Any) -> None:
        flat, held = picture(*[HOLD] * 9), picture(*[HOLD] * 4, action, *[HOLD] * 4)
        assert ink(held, color, PRICES) > ink(flat, color, PRICES)
        assert np.abs(held[POSITIONS].astype(int) - flat[POSITIONS]).sum() > 0
        assert ink(held, EQUITY, EQUITIES) > 0

    def test_exits_that_nobody_asked_for(self) -> None:
        narrow = {"trail_atr": (0.5, 0.5)}
        held = [LONG, *[HOLD] * 8]
        assert ink(picture(*held, **narrow), STOPPED_OUT, PRICES) > 5
        assert ink(picture(*held, **narrow, trade_capacity=0), STOPPED_OUT, PRICES) == 0
        dear = dataclasses.replace(SPEC, initial_margin=6_000.0, maintenance_margin=5_995.0)
        market = Market.from_bars(small_market().bars, contract=dear, warmup=0, cache=False)
        frame = picture(LONG, *[HOLD] * 12, market=market, initial_cash=60_500.0, margin="intrabar")
        assert ink(frame, MARGIN_CALL, PRICES) > 5

    def test_the_exits_of_an_earlier_episode_are_gone(self) -> None:
        env = make(1, render_mode="rgb_array", random_start=False, trail_atr=(0.5, 0.5))
        env.reset(seed=0)
        for action in [LONG, *[HOLD] * 8]:
            env.step([action])
        assert ink(env.render()[0], STOPPED_OUT, PRICES) > 5
        env.reset()
        for _ in range(9):
            env.step([HOLD])
        assert ink(env.render()[0], STOPPED_OUT, PRICES) == 0

    def test_each_account_has_its_own(self) -> None:
        env = make(2, render_mode="rgb_array", random_start=False)
        env.reset(seed=0)
        for step in range(6):
            env.step([LONG if step == 0 else HOLD, HOLD])
        held, flat = env.render()
        assert (held != flat).any()
        np.testing.assert_array_equal(flat, picture(*[HOLD] * 6))

    def test_days_and_single_steps_can_be_drawn(self) -> None:
        bars = small_market(60).bars
        ts = np.datetime64("2024-01-01", "ns") + np.arange(60) * np.timedelta64(1, "D")
        days = Bars.from_arrays(ts, bars.open, bars.high, bars.low, bars.close, bars.volume)
        market = Market.from_bars(days, contract=SPEC, warmup=0, cache=False)
        assert (picture(LONG, market=market) != picture(LONG)).any()
        assert picture().std() > 0


class TestWhatPicturesLeaveBehind:
    def test_neither_pyplot_nor_a_backend_nor_matplotlib_before_the_first_one(self) -> None:
        code = (
            "import sys, fox_env\n"
            "env = fox_env.FoxFuturesEnv(render_mode='rgb_array'); env.reset(seed=0)\n"
            "assert 'matplotlib' not in sys.modules\n"
            "env.render()\n"
            "assert 'matplotlib.pyplot' not in sys.modules\n"
        )
        for display in (None, "localhost:64.0"):
            outside = {
                k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")
            }
            if display:
                outside["DISPLAY"] = display
            subprocess.run([sys.executable, "-c", code], env=outside, check=True, timeout=120)

    def test_worker_threads_draw(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            first, second = (pool.submit(picture, LONG, HOLD) for _ in range(2))
            np.testing.assert_array_equal(first.result(), second.result())

    @pytest.mark.slow
    def test_memory_stays_over_200_frames(self) -> None:
        env = make(1, render_mode="rgb_array", trail_atr=(2.0, 2.0), autoreset_mode="SAME_STEP")
        env.reset(seed=0)
        held = []
        for row in random_actions(1, 200):
            env.step(row)
            env.render()
            held.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        assert held[-1] - held[40] < 8 * 1024, "KiB grown over the last 160 frames"

    def test_a_closed_environment_draws_no_more(self) -> None:
        env = make(1, render_mode="rgb_array")
        env.reset(seed=0)
        env.close()
        with pytest.raises(FoxError, match="closed"):
            env.render()


class TestWindows:
    @pytest.fixture
    def opened(self, monkeypatch: pytest.MonkeyPatch) -> list[FakeManager]:
        return open_nothing(monkeypatch)

    def test_every_reset_and_step_is_shown_until_the_close(self, opened: list[FakeManager]) -> None:
        env = FoxFuturesEnv(small_market(), render_mode="human")
        env.reset(seed=0)
        for _ in range(3):
            env.step(LONG)
        assert env.render() is None
        (manager,) = opened
        assert manager.shown and manager.drawn == 4 and "SML" in manager.title
        env.close()
        assert manager.destroyed

    def test_closing_the_window_lets_the_account_go_on(self, opened: list[FakeManager]) -> None:
        env = make(2, render_mode="human")
        env.reset(seed=0)
        canvas = opened[0].figure.canvas
        canvas.callbacks.process("close_event", SimpleNamespace(name="close_event", canvas=canvas))
        env.step(rows(FLAT, 2))
        assert opened[0].drawn == 1 and len(opened) == 1
        env.close()
        assert not opened[0].destroyed

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="displays are named by DISPLAY on Linux")
    @pytest.mark.parametrize("display", ["", "localhost:64.0"])
    def test_without_a_display_one_error_names_pictures(
        self, display: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import matplotlib.pyplot as plt

        backend = plt.get_backend()
        monkeypatch.setenv("DISPLAY", display)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        env = make(1, render_mode="human")
        with pytest.raises(BackendError, match=r"'human' needs a window.*use render_mode='rgb_array'"):
            env.reset(seed=0)
        assert plt.get_fignums() == [] and plt.get_backend() == backend


class TestGymnasiumVideos:
    def test_videos_of_one_and_of_a_batch(self, tmp_path: Path) -> None:
        pytest.importorskip("moviepy", reason="RecordVideo needs moviepy")
        from gymnasium.wrappers import RecordVideo
        from gymnasium.wrappers.vector import RecordVideo as RecordVectorVideo

        single = FoxFuturesEnv(small_market(), horizon=5, render_mode="rgb_array")
        one = RecordVideo(single, str(tmp_path / "one"), episode_trigger=lambda _: True)
        one.reset(seed=0)
        while not any(one.step(np.array(LONG))[2:4]):
            pass
        one.close()
        batch = RecordVectorVideo(
            make(2, horizon=5, render_mode="rgb_array"), str(tmp_path / "two"), episode_trigger=lambda _: True
        )
        batch.reset(seed=0)
        for _ in range(8):
            batch.step(rows(LONG, 2))
        batch.close()
        for folder in ("one", "two"):
            assert [p for p in (tmp_path / folder).glob("*.mp4") if p.stat().st_size > 1_000]

    def test_gymnasium_knows_the_modes_and_the_speed(self) -> None:
        env = gym.make("Fox-Futures-v0", render_mode="rgb_array")
        assert (
            env.metadata["render_modes"] == ["ansi", "rgb_array", "human"] and env.metadata["render_fps"] == 8
        )
        assert make(1).metadata["render_fps"] == 8
