"""The eight exposures as branch actions are what the environment's discrete actions do."""

import numpy as np

from fox_agents.exposures import EXPOSURE_ACTIONS
from fox_env import FoxFuturesVectorEnv, synthetic
from fox_env.optimum import REFERENCE


def test_exposures_are_those_of_the_discrete_actions() -> None:
    """From flat, from a position to every other, and with the same costs."""
    market = synthetic.signal(seed=0, sessions=2)
    played = {}
    for kind in ("discrete", "branches"):
        env = FoxFuturesVectorEnv(64, market, REFERENCE, backend="cpu", action_type=kind)
        env.reset(seed=0, options={"start": [300] * 64})
        for exposures in (np.repeat(np.arange(8), 8), np.tile(np.arange(8), 8)):
            *_, info = env.step(exposures if kind == "discrete" else EXPOSURE_ACTIONS[exposures])
        played[kind] = np.stack([info["position"], info["cost"], info["equity"]])
        env.close()
    np.testing.assert_array_equal(played["discrete"], played["branches"])
    held = played["discrete"][0].reshape(8, 8)
    assert held[:, :3].tolist() == [[-4, -2, -1]] * 8 and held[:, 4:].tolist() == [[1, 2, 4, 0]] * 8
    assert held[:, 3].tolist() == [-4, -2, -1, 0, 1, 2, 4, 0]  # hold
