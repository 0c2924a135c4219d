"""Proportional prioritised replay: priorities as integers in a wide sum tree on the learner's device.

Integers make the tree exact: sums do not depend on the order of their terms, so that two runs, or a CPU and a
GPU, sample the same rows from the same priorities. Nothing here reads a value back to the host.
"""

from itertools import pairwise

import torch
from torch import Tensor

__all__ = ["PrioritySum"]

_ONE = 2**24  # the integer that stands for a priority of 1
_LARGEST_TOTAL = 2**62
_EXACT = 2**53  # float64 holds every integer up to here
_NOTHING = 2**63 - 1  # smallest priority of a group without any
_WIDE = 2**22  # up to this capacity one level of sums is enough


class PrioritySum:
    """Sum tree over the priorities of ``capacity`` slots (Schaul et al. 2016, proportional variant).

    Every node sums a whole group of the level below, hundreds to thousands of nodes wide: a GPU reads a group
    at once, whereas every level costs it several kernels. A priority of zero takes a slot out of the draw.
    Slot ``capacity`` is a spare one, for writes that should have no effect; its priority stays zero.

    Parameters
    ----------
    capacity : int
        Slots, at most 2^31.
    device : torch.device
        Where everything lives.
    epsilon : float
        Added to every priority before the exponent, so that no row is forgotten.
    """

    def __init__(self, capacity: int, device: torch.device, epsilon: float = 1e-6) -> None:
        self.capacity, self.epsilon = capacity, epsilon
        self.limit = min(_LARGEST_TOTAL // capacity, _EXACT)
        levels_of_sums = 1 if capacity <= _WIDE else 2
        self._bits = -(-capacity.bit_length() // (levels_of_sums + 1))  # log2 of the width of a group
        self._levels: list[Tensor] = []  # leaves first
        width = capacity + 1
        for _ in range(levels_of_sums):
            groups = ((width - 1) >> self._bits) + 1
            self._levels.append(torch.zeros(groups << self._bits, dtype=torch.int64, device=device))
            width = groups
        self._levels.append(torch.zeros(width, dtype=torch.int64, device=device))
        self._before = torch.zeros(
            width + 1, dtype=torch.int64, device=device
        )  # sums of the top's first n nodes
        self._smallest = torch.full((self._groups(0).shape[0],), _NOTHING, dtype=torch.int64, device=device)
        # Of one dimension: the compiler (torch 2.13) loses a copy into a float64 tensor of none.
        self._largest = torch.ones(1, dtype=torch.float64, device=device)

    @property
    def leaves(self) -> Tensor:
        """Integer priorities of the slots, (capacity,) int64; a view."""
        return self._levels[0][: self.capacity]

    @property
    def total(self) -> Tensor:
        """Sum of all integer priorities, () int64; a view."""
        return self._before[-1]

    @property
    def max_priority(self) -> Tensor:
        """Largest priority ever given, at least 1, before the exponent; () float64, a view."""
        return self._largest[0]

    def to_fixed(self, priority: Tensor, alpha: Tensor) -> Tensor:
        """Integer of ``(priority + epsilon)^alpha``, between 1 and ``limit``; same shape, int64.

        A priority that is negative or not finite counts as zero.
        """
        scaled = (_sane(priority) + self.epsilon).pow(alpha) * _ONE
        return scaled.round().clamp(1.0, float(self.limit)).long()

    def set(self, index: Tensor, value: Tensor) -> None:
        """Give slots their integer priorities; of several values for one slot the largest counts.

        Parameters
        ----------
        index : Tensor
            (M,) int64, 0 to ``capacity`` inclusive; the spare slot takes zero only.
        value : Tensor
            (M,) int64 between 0 and ``limit``.
        """
        _write(self._levels[0], index, value)
        for level, (below, above) in enumerate(pairwise(self._levels)):
            groups = self._groups(level)
            # Reading everything in order beats fetching groups one by one when they are much of the whole.
            if 2 * (index.shape[0] << self._bits) < below.shape[0]:
                index = index >> self._bits
                changed = groups.index_select(0, index)
                _write(above, index, changed.sum(dim=1))
                if level == 0:
                    _write(self._smallest, index, _smallest(changed))
            else:
                above[: groups.shape[0]].copy_(groups.sum(dim=1))
                if level == 0:
                    self._smallest.copy_(_smallest(groups))
        self._before[1:].copy_(self._levels[-1].cumsum(dim=0))

    def fresh(self, alpha: Tensor) -> Tensor:
        """Integer priority (1,) of a row that was never sampled: the largest seen so far."""
        return self.to_fixed(self.max_priority, alpha)

    def update(
        self, index: Tensor, stamp: Tensor, current_stamps: Tensor, priority: Tensor, alpha: Tensor
    ) -> None:
        """Give sampled rows new priorities, except where another row has taken the slot since.

        Parameters
        ----------
        index, stamp : Tensor
            (B,) int64, slots and their generation stamps when they were sampled.
        current_stamps : Tensor
            (capacity,) int64, stamps of all slots now.
        priority : Tensor
            (B,) float, at least 0.
        alpha : Tensor
            () float, the exponent: 0 samples uniformly.
        """
        fresh = current_stamps[index] == stamp
        largest = (_sane(priority) * fresh).amax()
        self._largest.copy_(torch.maximum(self._largest, largest))
        self.set(torch.where(fresh, index, self.capacity), self.to_fixed(priority, alpha) * fresh)

    def sample(self, uniform: Tensor) -> Tensor:
        """Draw a slot from each of B equal parts of the total; some priority must be above zero.

        Parameters
        ----------
        uniform : Tensor
            (B,) float64 in [0, 1): draw b looks up the point (b + u_b) / B of the total.

        Returns
        -------
        Tensor
            (B,) int64, slots with a priority above zero.
        """
        size = uniform.shape[0]
        part = torch.arange(size, dtype=torch.float64, device=uniform.device)
        # float64 has 53 bits and the total up to 62, so that a point may round up to the total itself.
        point = torch.minimum(((part + uniform) * self.total / size).long(), self.total - 1)
        # The count of sums that do not exceed the point is the node that it lies in; nodes of zero are passed over.
        # The first sum is 0: a search from the second on would be compiled as one from the first (torch 2.11).
        node = torch.searchsorted(self._before, point, right=True) - 1
        point = point - self._before[node]
        for level in range(len(self._levels) - 2, -1, -1):
            group = self._groups(level).index_select(0, node)
            upto = group.cumsum(dim=1)
            child = torch.searchsorted(upto, point[:, None], right=True)
            if level > 0:
                point = point - (upto - group).gather(1, child)[:, 0]
            node = torch.add(child[:, 0], node, alpha=1 << self._bits)
        return node

    def weights(self, index: Tensor, beta: Tensor) -> Tensor:
        """Importance weights (N P)^-beta over their maximum in the whole buffer, (B,) float32 in (0, 1].

        The maximum is that of the smallest priority, p_min, so that the size N and the total drop out and
        (p_min / p)^beta remains (Schaul et al. 2016, section 3.4).
        """
        own = self._levels[0][index].double()
        return (self._smallest.amin() / own).pow(beta).float()

    def spread(self) -> Tensor:
        """Smallest priority in the draw and largest one, both to the power alpha, (2,) float64; for a log."""
        return torch.stack([self._smallest.amin(), self.leaves.amax()]).double() / _ONE

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name, for a checkpoint; copying into them restores the tree."""
        levels = {f"level{level}": tensor for level, tensor in enumerate(self._levels)}
        return levels | {
            "before": self._before, "smallest": self._smallest, "max_priority": self._largest
        }  # fmt: skip

    def _groups(self, level: int) -> Tensor:
        return self._levels[level].view(-1, 1 << self._bits)


@torch.library.custom_op("fox::write_largest", mutates_args=("target",))
def _write(target: Tensor, index: Tensor, value: Tensor) -> None:
    """``target[index] = value``, the largest of several values for one place, whatever their order.

    An operation of its own, because the compiler would copy the whole target to change some places.
    """
    target.scatter_reduce_(0, index, value, "amax", include_self=False)


@_write.register_fake
def _(target: Tensor, index: Tensor, value: Tensor) -> None:
    """Nothing to tell the compiler: there is no result."""


def _sane(priority: Tensor) -> Tensor:
    """Priorities as float64, zero where they are negative or not finite."""
    return torch.nan_to_num(priority.double(), nan=0.0, posinf=0.0, neginf=0.0).clamp(min=0.0)


def _smallest(groups: Tensor) -> Tensor:
    return torch.where(groups > 0, groups, _NOTHING).amin(dim=1)
