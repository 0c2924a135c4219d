"""Replay on the learner's device: compact states and transitions, one ring for every environment.

A slot holds a state (bar, account entries, distinct actions) and, once the environment has stepped from it, the
transition to the next slot. The environments reset themselves in the step that ends an episode (SAME_STEP
autoreset): the final state then takes a slot of its own, without a transition, and the next episode begins in the
slot after it. A sum of rewards that follows the slots therefore stops where the episode ended, at the true last state.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fox_agents.dqn.market_table import ACCOUNT_ENTRIES, MarketTable, account_of, stored_account
from fox_agents.dqn.memory import require_memory
from fox_agents.dqn.priorities import PrioritySum
from fox_env import _layout

__all__ = ["EXPOSURES", "Batch", "Replay"]

EXPOSURES = 8
"""Counterfactual exposures of a step: short full, half, quarter; hold; long quarter, half, full; flat."""

_BRANCHES = len(_layout.ACTION_BRANCHES)
_ACTIONS = sum(_layout.ACTION_BRANCHES)
_HAS_TRANSITION, _TERMINATED = 1, 2


class Batch(NamedTuple):
    """Sampled n-step transitions of B samples.

    ``discount`` is 0 after a termination and gamma^k after k rewards otherwise, truncation included.
    """

    observation: Tensor
    """(B, 128) float32."""
    action: Tensor
    """(B, 4) int64."""
    active: Tensor
    """(B, 4) bool: the branches that had an effect."""
    reward: Tensor
    """(B,) float32: discounted sum of the rewards."""
    discount: Tensor
    """(B,) float32: factor of the bootstrap."""
    next_observation: Tensor
    """(B, 128) float32: the state to bootstrap from."""
    mask: Tensor
    """(B, 13) bool: distinct actions of the state."""
    next_mask: Tensor
    """(B, 13) bool: distinct actions of the state to bootstrap from."""
    weight: Tensor
    """(B,) float32 in (0, 1]: importance weights."""
    slot: Tensor
    """(B,) int64: where the transitions are stored, for new priorities."""
    stamp: Tensor
    """(B,) int32: what `Replay.set_priorities` recognises an overwritten slot by."""
    future_move: Tensor
    """(B,) float32: see `MarketTable.future_move`."""
    future_known: Tensor
    """(B,) bool."""
    exposure_reward: Tensor | None
    """(B, 8) float32: reward of one step under each exposure; None without counterfactuals."""
    exposure_discount: Tensor | None
    """(B, 8) float32: gamma, or 0 where that exposure's step terminates."""
    exposure_observation: Tensor | None
    """(B, 8, 128) float32: the observation that each exposure leads to."""


class Replay:
    """Rings of states and transitions, written by all environments at once and sampled by priority.

    Nothing here reads a value back to the host: positions and priorities are device tensors, so that a captured graph
    sees them change.

    Parameters
    ----------
    rows : int
        Slots kept for every environment.
    table : MarketTable
        Market features of the batch; gives the number of environments.
    counterfactual : bool
        Keep what the eight exposures of every step would have led to.
    device : torch.device
        Where everything lives.

    Raises
    ------
    ConfigError
        When the device has not the memory.
    """

    def __init__(self, rows: int, table: MarketTable, counterfactual: bool, device: torch.device) -> None:
        self.rows, self.num_envs = rows, len(table.first)
        self._table = table
        slots = rows * self.num_envs
        mend = "lower agent.replay_size, or train.num_envs where it is above it"
        require_memory(slots * bytes_per_slot(counterfactual), "the replay", mend, device)

        def ring(*width: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(slots, *width, dtype=dtype, device=device)

        self._rings = {
            "account": ring(ACCOUNT_ENTRIES, dtype=torch.float32),
            "bar": ring(dtype=torch.int32),
            "mask": ring(dtype=torch.int16),  # a bit an action
            "kind": ring(dtype=torch.uint8),  # _HAS_TRANSITION and _TERMINATED
            "stamp": ring(dtype=torch.int32),  # the step that wrote the slot last
            "action": ring(_BRANCHES, dtype=torch.uint8),
            "active": ring(_BRANCHES, dtype=torch.bool),
            "reward": ring(dtype=torch.float32),
        }
        if counterfactual:
            self._rings["exposure_reward"] = ring(EXPOSURES, dtype=torch.float32)
            self._rings["exposure_terminated"] = ring(EXPOSURES, dtype=torch.bool)
            self._rings["exposure_account"] = ring(EXPOSURES, ACCOUNT_ENTRIES, dtype=torch.float32)
        self._counterfactual = counterfactual
        self.priorities = PrioritySum(slots, device)
        self._first_slot = torch.arange(self.num_envs, device=device) * rows
        self._bits = 2 ** torch.arange(_ACTIONS, dtype=torch.int16, device=device)
        self.position = torch.zeros(self.num_envs, dtype=torch.int64, device=device)
        """(N,): the slot that holds the present state of each environment."""
        self.step = torch.zeros((), dtype=torch.int32, device=device)

    def begin(self, observation: Tensor, bar: Tensor, mask: Tensor) -> None:
        """Store the states (N, ...) that the environments begin in."""
        self._write_state(self._first_slot + self.position, observation, bar, mask)

    def add(
        self,
        *,
        action: Tensor,
        active: Tensor,
        reward: Tensor,
        terminated: Tensor,
        done: Tensor,
        final_observation: Tensor,
        final_mask: Tensor,
        next_observation: Tensor,
        next_bar: Tensor,
        next_mask: Tensor,
        alpha: Tensor,
        exposure_reward: Tensor | None = None,
        exposure_terminated: Tensor | None = None,
        exposure_account: Tensor | None = None,
    ) -> None:
        """Append one transition of every environment, N rows each.

        Parameters
        ----------
        action, active, reward, terminated
            Of the step from the present state.
        done
            Where the episode ended: the transition leads to ``final_observation``, and the next one begins at
            ``next_observation``. Elsewhere it leads to ``next_observation``.
        next_bar
            (N,) bar of ``next_observation``; a final observation belongs to the bar after the present one.
        alpha
            () exponent of the priorities; new transitions get the largest seen so far.
        exposure_reward, exposure_terminated, exposure_account
            (N, 8), (N, 8) and (N, 8, 42) counterfactuals of the step, where they are kept.
        """
        here = self._first_slot + self.position
        kind = _HAS_TRANSITION + _TERMINATED * terminated.to(torch.uint8)
        transition = {"kind": kind, "action": action, "active": active, "reward": reward}
        if self._counterfactual:
            assert (
                exposure_reward is not None
                and exposure_terminated is not None
                and exposure_account is not None
            )
            transition["exposure_reward"] = exposure_reward
            transition["exposure_terminated"] = exposure_terminated
            transition["exposure_account"] = stored_account(exposure_account)
        for name, values in transition.items():
            ring = self._rings[name]
            ring.index_copy_(0, here, values.to(ring.dtype))
        after = self._first_slot + (self.position + 1).remainder(self.rows)
        bar_after = torch.where(done, self._rings["bar"][here] + 1, next_bar.to(torch.int32))
        last = torch.where(done[:, None], final_observation, next_observation)
        self._write_state(after, last, bar_after, torch.where(done[:, None], final_mask, next_mask))
        self.position.add_(1).add_(done.to(torch.int64)).remainder_(self.rows)
        begins = self._first_slot + self.position
        self._write_state(begins, next_observation, next_bar, next_mask)
        fresh = self.priorities.fresh(alpha).expand(self.num_envs)
        nothing = torch.zeros_like(fresh)
        self.priorities.set(torch.cat([here, after, begins]), torch.cat([fresh, nothing, nothing]))
        self.step.add_(1)

    def _write_state(self, slot: Tensor, observation: Tensor, bar: Tensor, mask: Tensor) -> None:
        state = {
            "account": account_of(observation),
            "bar": bar,
            "mask": (mask * self._bits).sum(1, dtype=torch.int16),
            "kind": torch.zeros_like(slot),
            "stamp": self.step.expand(self.num_envs),
        }
        for name, values in state.items():
            ring = self._rings[name]
            ring.index_copy_(0, slot, values.to(ring.dtype))

    def sample(self, uniform: Tensor, n_step: int, gamma: float, beta: Tensor) -> Batch:
        """Draw n-step transitions by priority, one for each entry of ``uniform`` (B,) float64 in [0, 1).

        The sum of rewards ends with the episode, and at the newest state stored; the bootstrap observation is the
        one after the last reward taken. ``beta`` () is the exponent of the importance weights.
        """
        return self.at(self.priorities.sample(uniform), n_step, gamma, beta)

    def at(self, index: Tensor, n_step: int, gamma: float, beta: Tensor) -> Batch:
        """The n-step transitions that begin in slots ``index`` (B,); see `sample`."""
        rings = self._rings
        env = index.div(self.rows, rounding_mode="floor")
        base, start = self._first_slot[env], index - self._first_slot[env]
        reward = torch.zeros_like(rings["reward"][index])
        weight = torch.ones_like(reward)  # gamma^k after k rewards
        alive = torch.ones_like(index, dtype=torch.bool)
        last, terminated = index, torch.zeros_like(alive)
        for k in range(n_step):
            slot = base + (start + k).remainder(self.rows)
            alive = alive & (rings["kind"][slot] != 0)
            reward = reward + torch.where(alive, weight * rings["reward"][slot], 0.0)
            weight = torch.where(alive, weight * gamma, weight)
            terminated = terminated | (alive & (rings["kind"][slot] >= _TERMINATED))
            last = torch.where(alive, base + (start + k + 1).remainder(self.rows), last)
        row = self._table.first[env] + rings["bar"][index]
        move, known = self._table.future_move(row)
        exposures = self._exposures(index, row, gamma)
        return Batch(
            observation=self._table.observation(row, rings["account"][index]),
            action=rings["action"][index].long(),
            active=rings["active"][index],
            reward=reward,
            discount=torch.where(terminated, 0.0, weight),
            next_observation=self._state(last, env),
            mask=self._unpacked(index),
            next_mask=self._unpacked(last),
            weight=self.priorities.weights(index, beta),
            slot=index,
            stamp=rings["stamp"][index],
            future_move=move,
            future_known=known,
            exposure_reward=exposures[0],
            exposure_discount=exposures[1],
            exposure_observation=exposures[2],
        )

    def _state(self, slot: Tensor, env: Tensor) -> Tensor:
        row = self._table.first[env] + self._rings["bar"][slot]
        return self._table.observation(row, self._rings["account"][slot])

    def _unpacked(self, slot: Tensor) -> Tensor:
        return (self._rings["mask"][slot][:, None] & self._bits) != 0

    def _exposures(self, slot: Tensor, row: Tensor, gamma: float) -> tuple[Tensor | None, ...]:
        if not self._counterfactual:
            return None, None, None
        discount = gamma * (~self._rings["exposure_terminated"][slot]).float()
        after = (row + 1)[:, None].expand(-1, EXPOSURES)
        return (
            self._rings["exposure_reward"][slot],
            discount,
            self._table.observation(after, self._rings["exposure_account"][slot]),
        )

    def set_priorities(self, batch: Batch, priority: Tensor, alpha: Tensor) -> None:
        """New priorities (B,) of the slots of ``batch``; a slot overwritten since then keeps its own."""
        self.priorities.update(batch.slot, batch.stamp, self._rings["stamp"], priority, alpha)

    def rings(self) -> dict[str, Tensor]:
        """What the slots hold, by field: (num_envs * rows, ...), the slots of one environment together."""
        return dict(self._rings)

    FIGURES = ("fill", "age", "least_priority", "largest_priority")
    """What `figures` gives."""

    def figures(self) -> Tensor:
        """(4,) float64: share of slots with a transition, their mean age in steps, smallest and largest priority."""
        stored = self._rings["kind"] != 0
        count = stored.sum().clamp(min=1)
        age = ((self.step - self._rings["stamp"]) * stored).sum() / count
        return torch.cat([torch.stack([count / stored.numel(), age]).double(), self.priorities.spread()])

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of the buffer by name, for a checkpoint; copying into them restores the buffer."""
        own = {**self._rings, "position": self.position, "step": self.step}
        return own | {f"priority.{name}": tensor for name, tensor in self.priorities.tensors().items()}


def bytes_per_slot(counterfactual: bool) -> int:
    """Bytes that a stored transition takes, priorities included."""
    state = 4 * ACCOUNT_ENTRIES + 4 + 2 + 1 + 4
    transition = 2 * _BRANCHES + 4
    exposures = EXPOSURES * (4 * ACCOUNT_ENTRIES + 5)
    return state + transition + 8 + (exposures if counterfactual else 0)
