"""Visit counts of hashed observations: a bonus for what the agent has rarely seen."""

import torch
from torch import Tensor

__all__ = ["VisitCounts"]


class VisitCounts:
    """Counts of SimHash codes and the bonus made of them (Tang et al. 2017, "#Exploration", section 2.2).

    An observation's code is the signs of ``bits`` fixed random projections, so that observations in about the
    same direction share a code. The bonus of a transition is asked for when it is sampled, from the counts of
    that moment: a stored one would go on paying for what has become familiar.

    Parameters
    ----------
    observation_size : int
        Width of an observation.
    device : torch.device
        Where the counts live.
    bits : int
        Length of a code; there are 2^bits counts.
    seed : int
        Seed of the projections.
    """

    def __init__(self, observation_size: int, device: torch.device, bits: int = 12, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.projection = torch.randn(observation_size, bits, generator=generator).to(device)
        self.counts = torch.zeros(2**bits, dtype=torch.int64, device=device)
        self._places = 2 ** torch.arange(bits, dtype=torch.int64, device=device)

    def codes(self, observation: Tensor) -> Tensor:
        """SimHash code of each observation, (B, observation_size) float32 to (B,) int64."""
        return ((observation @ self.projection > 0.0) * self._places).sum(dim=1)

    @torch.no_grad()
    def visit(self, observation: Tensor) -> None:
        """Count one visit of each observation, (B, observation_size) float32."""
        codes = self.codes(observation)
        self.counts.scatter_add_(0, codes, torch.ones_like(codes))  # integers: the order does not matter

    @torch.no_grad()
    def bonus(self, observation: Tensor, beta: Tensor) -> Tensor:
        """``beta / sqrt(visits)`` of each observation, (B,) float32; of one never visited, ``beta``.

        Parameters
        ----------
        observation : Tensor
            (B, observation_size) float32.
        beta : Tensor
            () float32, in units of the reward; 0 switches the bonus off.
        """
        visits = self.counts[self.codes(observation)].clamp(min=1)
        return beta * visits.float().rsqrt()

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name, for a checkpoint; copying into them restores the counts."""
        return {"projection": self.projection, "counts": self.counts}
