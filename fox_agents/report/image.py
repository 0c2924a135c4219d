"""The equity curves as an array of pixels, for TensorBoard."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fox_agents.report.thinning import kept
from fox_env import metrics
from fox_env.errors import BackendError

if TYPE_CHECKING:
    from fox_agents.evaluation import EvaluationResult

__all__ = ["equity_image"]


def equity_image(results: Sequence["EvaluationResult"]) -> npt.NDArray[np.uint8]:
    """Account value over drawdown of every result, (480, 800, 3).

    For ``SummaryWriter.add_image("val/equity", equity_image(results), step, dataformats="HWC")``.

    Raises
    ------
    BackendError
        Without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BackendError(
            "a picture of the equity needs matplotlib; install it with `pip install 'fox-futures[render]'`"
        ) from error
    figure = Figure(figsize=(8.0, 4.8), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
    for result in results:
        _plot(above, result.times, result.equity, result.agent)
        _plot(below, result.times, 100.0 * metrics.drawdowns(result.returns), result.agent)
    above.set_ylabel(f"account ({result.market.contract.currency})".replace("$", r"\$"))
    below.set_ylabel("drawdown (%)")
    above.legend(loc="best", fontsize=8, frameon=False)
    for axes in (above, below):
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(labelsize=8)
        axes.margins(x=0)
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]


def _plot(axes: Any, times: npt.NDArray[np.datetime64], values: npt.NDArray[np.float64], name: str) -> None:
    chosen = kept(values, 2_000)
    label = name.replace("$", r"\$")  # no mathematical text
    axes.plot(times[chosen], values[chosen], linewidth=1.1, label=label)
