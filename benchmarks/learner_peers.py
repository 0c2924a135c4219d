"""Learners of other libraries for `learner.py`: updates a second on a filled buffer, at Fox's batch and width."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from harness import host_seconds

from fox_env import EnvConfig, FoxFuturesVectorEnv

WIDTHS = [256, 256]
RULES = EnvConfig(reward="risk")
MARKET = "regimes:seed=0"
ENVS = 64
INSTALL = {
    "stable-baselines3": "pip install 'fox-futures[sb3]'",
    "tianshou": "pip install 'fox-futures[tianshou]'",
}

Peer = tuple[str, str, Callable[[int, int], float]]
"""Library, algorithm, and ``train(updates, batch)``, which gives the mean loss."""


def measure(
    device: str, batches: Sequence[int], transitions: int, quick: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the peers that are installed, and why the others are left out."""
    rows, absent = [], []
    for library, peers in (("stable-baselines3", sb3_peers), ("tianshou", tianshou_peers)):
        try:
            found = list(peers(device, transitions))
        except ImportError as error:
            absent.append({"library": library, "why": str(error), "install": INSTALL[library]})
            continue
        for _, algorithm, train in found:
            for batch in batches:
                try:
                    rows.append(peer_row(library, algorithm, train, batch, device, quick))
                except ValueError as error:
                    why = f"{algorithm} at batch {batch}: {error}"
                    absent.append({"library": library, "why": why, "install": INSTALL[library]})
    return rows, absent


def peer_row(
    library: str, algorithm: str, train: Callable[[int, int], float], batch: int, device: str, quick: bool
) -> dict[str, Any]:
    """Time ``train`` once its losses are finite and have fallen."""
    first = train(10, batch)
    train(40, batch)
    last = train(40, batch)
    if not (math.isfinite(first) and math.isfinite(last) and last < first):
        raise ValueError(f"losses from {first:.4g} to {last:.4g}, so nothing is timed")
    updates = 3 if quick and device == "cpu" else 20

    def work() -> None:
        train(updates, batch)
        if device == "cuda":
            torch.cuda.synchronize()

    seconds = host_seconds(work, 3) / updates
    return {
        "library": library,
        "algorithm": algorithm,
        "batch": batch,
        "updates_per_s": 1.0 / seconds,
        "samples_per_s": batch / seconds,
        "first_loss": first,
        "last_loss": last,
    }


def sb3_peers(device: str, transitions: int) -> Iterator[Peer]:
    """DQN and QR-DQN, their buffers filled by their own random phase."""
    from sb3_contrib import QRDQN
    from stable_baselines3 import DQN

    from fox_env.adapters.sb3 import FoxVecEnv

    kinds: list[tuple[str, Any, dict[str, Any]]] = [("DQN", DQN, {}), ("QR-DQN", QRDQN, {"n_quantiles": 32})]
    for name, kind, more in kinds:
        env = FoxVecEnv(num_envs=ENVS, market=MARKET, config=RULES, backend="cpu", action_type="discrete")
        model = kind(
            "MlpPolicy",
            env,
            learning_rate=3e-4,
            buffer_size=transitions,
            learning_starts=2 * transitions,  # it collects only
            gamma=0.98,
            policy_kwargs={"net_arch": list(WIDTHS), **more},
            seed=0,
            device=device,
        )
        model.learn(transitions)
        env.close()

        def train(updates: int, batch: int, model: Any = model) -> float:
            model.train(gradient_steps=updates, batch_size=batch)
            return float(model.logger.name_to_value["train/loss"])

        yield "stable-baselines3", name, train


def tianshou_peers(device: str, transitions: int) -> Iterator[Peer]:
    """C51 on the eight exposures, and the branching DQN on the four branches."""
    from gymnasium.spaces import Discrete
    from tianshou.algorithm.modelfree.bdqn import BDQN, BDQNPolicy
    from tianshou.algorithm.modelfree.c51 import C51, C51Policy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, ReplayBuffer
    from tianshou.utils.net.common import BranchingNet, Net
    from tianshou.utils.torch_utils import policy_within_training_step

    def filled(action_type: str) -> Any:
        buffer = ReplayBuffer(size=transitions)
        for obs, action, reward, terminated, truncated, after in random_play(action_type, transitions):
            row = {"obs": obs, "act": action, "rew": reward, "obs_next": after, "info": {}}
            buffer.add(Batch(**row, terminated=terminated, truncated=truncated))
        return buffer

    optim = AdamOptimizerFactory(lr=3e-4)
    net = Net(state_shape=(128,), action_shape=8, hidden_sizes=WIDTHS, softmax=True, num_atoms=51)
    policy: Any = C51Policy(model=net, action_space=Discrete(8), num_atoms=51, v_min=-5.0, v_max=5.0)
    c51 = C51(policy=policy.to(device), optim=optim, gamma=0.98, target_update_freq=10**9)
    branches = BranchingNet(
        state_shape=128, num_branches=4, action_per_branch=4, common_hidden_sizes=WIDTHS,
        value_hidden_sizes=[], action_hidden_sizes=[],
    )  # fmt: skip
    several: Any = BDQNPolicy(model=branches, action_space=Discrete(4))
    bdqn = BDQN(policy=several.to(device), optim=optim, gamma=0.98, target_update_freq=10**9)
    for name, algorithm, kind in (("C51", c51, "discrete"), ("branching DQN", bdqn, "branches")):
        buffer = filled(kind)

        def train(updates: int, batch: int, algorithm: Any = algorithm, buffer: Any = buffer) -> float:
            with policy_within_training_step(algorithm.policy):
                losses = [algorithm.update(buffer=buffer, sample_size=batch).loss for _ in range(updates)]
            return float(np.mean(losses))

        yield "tianshou", name, train


def random_play(action_type: Any, transitions: int) -> Iterator[tuple[Any, ...]]:
    """Transitions of random actions: observation, action, reward, terminated, truncated, next observation."""
    rng = np.random.default_rng(0)
    env = FoxFuturesVectorEnv(
        ENVS, MARKET, RULES, backend="cpu", action_type=action_type, autoreset_mode="Disabled"
    )
    obs, _ = env.reset(seed=0)
    for _ in range(-(-transitions // ENVS)):
        actions = (
            rng.integers(0, 8, ENVS)
            if action_type == "discrete"
            else rng.integers(0, [4, 3, 3, 3], (ENVS, 4))
        )
        after, reward, terminated, truncated, _ = env.step(actions)
        yield from zip(obs, actions, reward, terminated, truncated, after, strict=True)
        obs = after
        if (terminated | truncated).any():
            obs, _ = env.reset(options={"reset_mask": terminated | truncated})
    env.close()
