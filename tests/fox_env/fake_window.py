"""Windows of a toolkit that is not there, for machines without a display."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fox_env import window


class FakeManager:
    """Counts what a toolkit's window would do."""

    def __init__(self, figure: Any) -> None:
        self.figure, self.drawn, self.shown, self.destroyed, self.title = figure, 0, False, False, ""
        figure.canvas.draw_idle = self._draw
        figure.canvas.flush_events = lambda: None

    def _draw(self) -> None:
        self.drawn += 1

    def set_window_title(self, title: str) -> None:
        self.title = title

    def show(self) -> None:
        self.shown = True

    def destroy(self) -> None:
        self.destroyed = True


def open_nothing(monkeypatch: pytest.MonkeyPatch) -> list[FakeManager]:
    """Let every window be a fake one; the list grows with each that is opened."""
    managers: list[FakeManager] = []

    def new_manager(figure: Any, number: int) -> FakeManager:
        managers.append(FakeManager(figure))
        return managers[-1]

    monkeypatch.setenv("DISPLAY", ":0")
    toolkit = SimpleNamespace(FigureCanvas=SimpleNamespace(new_manager=new_manager))
    monkeypatch.setattr(window, "import_module", lambda name: toolkit)
    return managers
