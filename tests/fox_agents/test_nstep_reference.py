"""The reference for n-step returns itself, on numbers worked out by hand."""

import pytest
from nstep_reference import Window, stream, windows

GAMMA = 0.99


@pytest.mark.parametrize(
    ("terminated", "truncated", "target"), [(False, True, 2.48), (True, False, 0.5), (True, True, 0.5)]
)
def test_the_last_state_has_a_value_unless_the_episode_terminated(
    terminated: bool, truncated: bool, target: float
) -> None:
    """End of data, ruin, and both on the same bar, with max Q(s') = 2."""
    (window,) = windows([0.5], [terminated], [truncated], 1, GAMMA)
    assert window.reward + window.discount * 2.0 == pytest.approx(target)
    assert window.last == 0


@pytest.mark.parametrize("terminates", [True, False])
def test_sums_stop_at_the_end_of_the_episode_and_at_the_newest_step(terminates: bool) -> None:
    """Episodes of four steps that pay 1, 2, 3, 4; the second is cut after its second step."""
    ends = [False, False, False, True, False, False]
    never = [False] * 6
    g, b = 0.5, 0.0 if terminates else 1.0
    got = windows([1, 2, 3, 4, 1, 2], *((ends, never) if terminates else (never, ends)), 3, g)
    assert got == [
        Window(1 + 2 * g + 3 * g**2, g**3, 2),
        Window(2 + 3 * g + 4 * g**2, b * g**3, 3),
        Window(3 + 4 * g, b * g**2, 3),
        Window(4.0, b * g, 3),
        Window(1 + 2 * g, g**2, 5),
        Window(2.0, g, 5),
    ]


def test_a_stream_never_gives_the_next_episodes_first_state_as_the_state_after() -> None:
    steps = stream(500, seed=0)
    done = [a or b for a, b in zip(steps.terminated, steps.truncated, strict=True)]
    assert steps.observation[1:] == steps.returned[:-1]
    assert [a != r for a, r in zip(steps.after, steps.returned, strict=True)] == done
    assert {(True, False), (False, True), (True, True)} <= set(
        zip(steps.terminated, steps.truncated, strict=True)
    )
    starts = [True, *done[:-1]]
    firsts = {o for o, start in zip(steps.observation, starts, strict=True) if start}
    assert not firsts & set(steps.after)
