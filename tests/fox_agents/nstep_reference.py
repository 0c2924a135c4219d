"""n-step returns in plain Python and float64, one environment at a time: what the replay is compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from random import Random


@dataclass(frozen=True)
class Window:
    """The n-step target that starts at one step: ``reward + discount * V(state after the step last)``."""

    reward: float
    discount: float
    """0 after a termination, else gamma^k for k rewards taken."""
    last: int
    """Index of the last step whose reward was taken; the bootstrap state is the true state after it, the final
    observation where the episode ended there."""


def windows(
    reward: Sequence[float], terminated: Sequence[bool], truncated: Sequence[bool], n: int, gamma: float
) -> list[Window]:
    """Window of every step of one environment, whose steps are given from the oldest stored to the newest.

    The sum stops at the end of the episode and at the newest step. Both flags at once are a termination.
    """
    found = []
    for start in range(len(reward)):
        total, discount, last = 0.0, 1.0, start
        for step in range(start, min(start + n, len(reward))):
            total += discount * float(reward[step])
            discount *= gamma
            last = step
            if terminated[step]:
                discount = 0.0
            if terminated[step] or truncated[step]:
                break
        found.append(Window(total, discount, last))
    return found


@dataclass(frozen=True)
class Stream:
    """Steps of one environment under SAME_STEP autoreset; every state of every episode has a number of its own."""

    observation: list[float]
    """State that the action was chosen in."""
    after: list[float]
    """True state after the step, the final one where the episode ended."""
    returned: list[float]
    """State that the environment returned: the next episode's first where the episode ended."""
    reward: list[float]
    terminated: list[bool]
    truncated: list[bool]


def stream(steps: int, seed: int) -> Stream:
    """Episodes of 1 to 6 steps that end by termination, truncation or both, with rewards in quarters."""
    random, states = Random(seed), count(1)
    observation, after, returned = [], [], []
    reward, terminated, truncated = [], [], []
    state = float(next(states))
    while len(reward) < steps:
        length, end = random.randint(1, 6), random.choice([(True, False), (False, True), (True, True)])
        for k in range(length):
            following = float(next(states))
            observation.append(state)
            after.append(following)
            reward.append(random.randint(-8, 8) / 4)
            last = k == length - 1
            terminated.append(last and end[0])
            truncated.append(last and end[1])
            state = float(next(states)) if last else following
            returned.append(state)
    return Stream(
        *(values[:steps] for values in (observation, after, returned, reward, terminated, truncated))
    )
