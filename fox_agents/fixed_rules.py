"""Fixed trading rules for the market of regimes: the best one throughout, and the best one for each phase."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fox_env import Market

__all__ = ["best_rules"]

Float = npt.NDArray[np.float64]

_SPANS = (10, 30, 100)  # bars
_THRESHOLDS = (0.0, 1.0)  # deviations of the average beyond which a rule changes its position
_SESSION_BARS = 390
_SETTLING = 100  # bars played before the scored ones


def best_rules(
    market: Market, starts: npt.NDArray[np.int64], steps: int, size: float, cost: float
) -> tuple[float, float]:
    """Return the expected money a bar of the best rule for each phase, and of the best rule that ignores phases.

    Parameters
    ----------
    market : Market
        Made by `fox_env.synthetic.regimes`, with sessions of 390 bars.
    starts : int64 (windows,)
        First scored decision bar of each window.
    steps : int
        Scored bars of each window.
    size : float
        Contracts held on either side.
    cost : float
        Money that a contract costs on each side.

    Notes
    -----
    The rules are long, short, and following or opposing the exponential average of the session's changes, of
    three spans, with and without a dead zone in which the position is kept. The rule for each phase is
    chosen by what the rules earn in its bars, and is told the phase of the bar that it decides at.
    """
    desires = np.stack(list(_desires(market)))
    pay = market.bars.extra["drift"] * market.contract.tick_value
    phase = market.bars.extra["phase"].astype(np.int64)
    single = np.zeros((3, len(desires)))  # money by the phase known at the decision
    for known, money in _played(desires, None, phase, pay, starts, steps, size, cost):
        for number in range(3):
            single[number] += money[:, known == number].sum(axis=1)
    best = single.argmax(axis=1)
    together = sum(
        float(money.sum()) for _, money in _played(desires, best, phase, pay, starts, steps, size, cost)
    )
    bars = len(starts) * steps
    return together / bars, max(float(single.sum(axis=0).max()), 0.0) / bars


def _desires(market: Market) -> Iterator[Float]:
    """The wish of each rule after each bar: 1 long, -1 short, 0 keep; arrays (T,)."""
    yield np.ones(len(market))
    yield -np.ones(len(market))
    change = np.diff(market.bars.close, prepend=market.bars.close[0]).reshape(-1, _SESSION_BARS)
    change[:, 0] = 0.0  # the gap between sessions
    for span in _SPANS:
        weight = 2.0 / (span + 1.0)
        average, mean = np.empty_like(change), np.zeros(len(change))
        for minute, column in enumerate(change.T):
            mean = mean + weight * (column - mean)
            average[:, minute] = mean
        scaled = average.ravel() / (change.std() * np.sqrt(weight / (2.0 - weight)))
        for threshold in _THRESHOLDS:
            wish = np.sign(scaled) * (np.abs(scaled) > threshold)
            yield wish
            yield -wish


def _played(
    desires: Float,
    by_phase: npt.NDArray[np.intp] | None,
    phase: npt.NDArray[np.int64],
    pay: Float,
    starts: npt.NDArray[np.int64],
    steps: int,
    size: float,
    cost: float,
) -> Iterator[tuple[npt.NDArray[np.int64], Float]]:
    """For each scored step the phases (windows,) at its decision and the money (rules, windows) of the bar after it.

    With ``by_phase`` there is one rule, which follows the one named for the phase.
    """
    held = np.zeros((len(desires) if by_phase is None else 1, len(starts)))
    for step in range(-_SETTLING, steps):
        bar = starts + step
        wish = desires[:, bar] if by_phase is None else desires[by_phase[phase[bar]], bar][None]
        target = np.where(wish == 0.0, held, size * wish)
        if step >= 0:
            yield phase[bar], pay[bar + 1] * target - cost * np.abs(target - held)
        held = target
