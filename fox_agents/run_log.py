"""TensorBoard curves and the health lines of a training run."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["RunLog"]


class RunLog:
    """TensorBoard curves and ``health.jsonl`` of a run; the x-axis is environment steps everywhere.

    Parameters
    ----------
    directory : Path
        The run directory.
    step : int
        Step the run goes on from; what was logged later, by a run that was killed, is purged.
    """

    def __init__(self, directory: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._health = directory / "health.jsonl"
        self.judged: list[int] = []
        """Steps of the validations that are logged, one an epoch."""
        if self._health.exists():
            lines = self._health.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if _step_of(line) <= step]
            whole = self._health.with_suffix(".tmp")
            whole.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
            whole.replace(self._health)  # at every moment one of the two is there
            self.judged = [_step_of(line) for line in kept if '"group": "val"' in line]
        purge = step + 1 if (directory / "tb").exists() else None
        self._writer = SummaryWriter(str(directory / "tb"), purge_step=purge)

    def write(self, group: str, values: Mapping[str, Any], step: int) -> None:
        """Log numbers under ``group/``; what is not finite is left out of the curves."""
        numbers = {k: float(v) for k, v in values.items() if isinstance(v, (int, float)) and math.isfinite(v)}
        for name, value in numbers.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)
        with self._health.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "group": group, **numbers}) + "\n")

    def counts(self, tag: str, counts: Mapping[str, int], step: int) -> None:
        """Log how often each of some choices was made, as a histogram over their places 0, 1, ..."""
        places, numbers = np.arange(len(counts)), np.array(list(counts.values()), dtype=np.float64)
        self._writer.add_histogram_raw(
            tag,
            min=0.0,
            max=float(len(counts) - 1),
            num=float(numbers.sum()),
            sum=float(places @ numbers),
            sum_squares=float(places**2 @ numbers),
            bucket_limits=(places + 0.5).tolist(),
            bucket_counts=numbers.tolist(),
            global_step=step,
        )

    def histogram(self, tag: str, values: npt.NDArray[Any], step: int) -> None:
        """Log the distribution of values."""
        self._writer.add_histogram(tag, values, step)

    def picture(self, tag: str, pixels: npt.NDArray[np.uint8], step: int) -> None:
        """Log an image (height, width, 3)."""
        self._writer.add_image(tag, pixels, step, dataformats="HWC")

    def settings(
        self, values: Mapping[str, Mapping[str, Any]], metrics: Mapping[str, float], step: int
    ) -> None:
        """Log sections of settings beside final metrics, for TensorBoard's table of runs."""
        from torch.utils.tensorboard.summary import hparams

        flat = {f"{section}.{key}": v for section, keys in values.items() for key, v in keys.items()}
        plain = {key: v if isinstance(v, (bool, int, float, str)) else str(v) for key, v in flat.items()}
        final = {f"final/{name}": value for name, value in metrics.items() if math.isfinite(value)}
        # add_hparams would begin a second folder of curves.
        writer = self._writer._get_file_writer()  # type: ignore[no-untyped-call]
        for summary in hparams(plain, final):  # type: ignore[no-untyped-call]
            writer.add_summary(summary)
        for tag, value in final.items():
            self._writer.add_scalar(tag, value, step)

    def close(self) -> None:
        """Flush and close the files."""
        self._writer.close()


def _step_of(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):  # the line a kill cut short
        return 1 << 62
