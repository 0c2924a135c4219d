"""A window on the screen for a figure, with the toolkits that matplotlib knows and without pyplot."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fox_env.errors import BackendError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Window"]

_TOOLKITS = ("tkagg", "qtagg", "gtk4agg", "gtk3agg", "wxagg")


class Window:
    """Shows one figure; when its user closes it, later frames go nowhere.

    Parameters
    ----------
    figure
        The figure to show; it gets the window's canvas.
    title
        Text of the window's frame.

    Raises
    ------
    BackendError
        If no window can be opened here.
    """

    def __init__(self, figure: Figure, title: str) -> None:
        self._figure = figure
        self._manager: Any = _open(figure)
        self._manager.set_window_title(title)
        figure.canvas.mpl_connect("close_event", self._forget)
        self._manager.show()

    def refresh(self) -> None:
        """Draw the figure as it is now and answer the toolkit's events."""
        if self._manager is not None:
            self._figure.canvas.draw_idle()
            self._figure.canvas.flush_events()

    def close(self) -> None:
        """Close the window."""
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.destroy()

    def _forget(self, _: Any) -> None:
        self._manager = None


def _open(figure: Figure) -> Any:
    """A manager of the first toolkit that works here; the one that MPLBACKEND names comes first."""
    if sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        raise _no_window("neither DISPLAY nor WAYLAND_DISPLAY is set")
    toolkits = ("macosx", *_TOOLKITS) if sys.platform == "darwin" else _TOOLKITS
    wished = os.environ.get("MPLBACKEND", "").lower()
    problems = []
    for name in sorted(toolkits, key=lambda toolkit: toolkit != wished):
        try:
            module = import_module(f"matplotlib.backends.backend_{name}")
            return module.FigureCanvas.new_manager(figure, 1)
        except _toolkit_errors() as error:
            problems.append(f"{name}: {str(error).splitlines()[0]}")
    raise _no_window("; ".join(problems))


def _toolkit_errors() -> tuple[type[Exception], ...]:
    """What a toolkit raises that is not installed or finds no display."""
    try:
        from tkinter import TclError
    except ImportError:
        return (ImportError, RuntimeError)
    return (ImportError, RuntimeError, TclError)


def _no_window(why: str) -> BackendError:
    return BackendError(
        f"render_mode='human' needs a window, and none can be opened here ({why}); use render_mode='rgb_array'"
    )
