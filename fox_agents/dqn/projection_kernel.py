"""The categorical projection as one GPU kernel, which `fox_agents.dqn.c51.project` uses when it is compiled."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

__all__ = ["project_rows"]

_ROWS = 4  # of one program: at 51 atoms 256 sums, two for each thread of four warps


@triton_op("fox::project_rows", mutates_args={})
def project_rows(probabilities: Tensor, places: Tensor, onto: Tensor) -> Tensor:
    """Project rows of probabilities at given places onto given atoms.

    A thread owns a target atom and adds up what each atom of its row gives it, in their order, so that nothing is
    exchanged between threads and every run gives the same bits.

    Parameters
    ----------
    probabilities, places : Tensor
        (rows, atoms) float32, contiguous.
    onto : Tensor
        (rows, target atoms) float32, contiguous, increasing, at least 2.

    Returns
    -------
    Tensor
        (rows, target atoms) float32.
    """
    rows, atoms = probabilities.shape
    targets = onto.shape[1]
    projected = torch.empty_like(onto)
    wrap_triton(_project)[(triton.cdiv(rows, _ROWS),)](
        probabilities,
        places,
        onto,
        projected,
        rows,
        ATOMS=atoms,
        TARGETS=targets,
        ROWS=_ROWS,
        WIDTH=triton.next_power_of_2(targets),
        num_warps=4,
    )
    return projected


@triton.jit  # type: ignore[untyped-decorator]
def _project(  # type: ignore[no-untyped-def]
    probabilities,
    places,
    onto,
    projected,
    rows,
    ATOMS: tl.constexpr,
    TARGETS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    # In 64 bits: rows times atoms may pass 2^31.
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    target = tl.arange(0, WIDTH)[None, :]
    there = (row < rows) & (target < TARGETS)
    at = row * TARGETS + target
    inside = row < rows
    atom = tl.load(onto + at, mask=there, other=0.0)
    lowest = tl.load(onto + row * TARGETS, mask=inside, other=0.0)
    highest = tl.load(onto + row * TARGETS + TARGETS - 1, mask=inside, other=0.0)
    before = tl.load(onto + at - 1, mask=there & (target > 0), other=0.0)
    after = tl.load(onto + at + 1, mask=there & (target < TARGETS - 1), other=0.0)
    # Nothing lies beyond an end, whose share is bounded from its other side only.
    rise = tl.where(target > 0, 1.0 / (atom - before), 0.0)
    fall = tl.where(target < TARGETS - 1, 1.0 / (after - atom), 0.0)
    total = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    for i in range(ATOMS):
        place = tl.load(places + row * ATOMS + i, mask=inside, other=0.0)
        # A place that is no number has to show in the loss, as it does on a CPU.
        place = tl.maximum(place, lowest, propagate_nan=tl.PropagateNan.ALL)
        place = tl.minimum(place, highest, propagate_nan=tl.PropagateNan.ALL)
        weight = tl.load(probabilities + row * ATOMS + i, mask=inside, other=0.0)
        # The distance to this atom over the gap on the side where the place is.
        apart = place - atom
        share = 1.0 - tl.maximum(apart * fall, -apart * rise, propagate_nan=tl.PropagateNan.ALL)
        total += weight * tl.maximum(share, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(projected + at, total, mask=there)
