"""The market's part of stored transitions: features and later moves of every bar, looked up by bar when sampling.

A stored state keeps the index of its bar and the account's entries; the 86 market features of the bar are shared by
every environment and every visit, so they are kept once.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fox_env import Market
from fox_env._layout import Observation, Portfolio

__all__ = ["ACCOUNT_ENTRIES", "MarketTable"]

_FIRST, _USED = int(Observation.PORTFOLIO), int(Portfolio.USED)
_UNUSED = int(Portfolio.SIZE) - _USED
ACCOUNT_ENTRIES = int(Observation.ACCOUNT) - _UNUSED
"""Entries of the account that can differ from zero: those are stored."""


class MarketTable:
    """Features of every bar of every market of a batch, on the learner's device.

    Parameters
    ----------
    markets : Sequence[Market]
        Markets of the batch.
    market_of : int (N,)
        Index of the market of each environment.
    horizon : int
        Bars ahead that `future_move` looks.
    device : torch.device
        Where the table lives.
    """

    def __init__(
        self, markets: Sequence[Market], market_of: npt.NDArray[np.int32], horizon: int, device: torch.device
    ) -> None:
        lengths = np.array([len(market) for market in markets])
        first = np.cumsum(lengths) - lengths
        self.first = torch.from_numpy(first[market_of].astype(np.int64)).to(device)
        """(N,) int64: row of bar 0 of each environment's market."""
        features = np.concatenate([market.features for market in markets])
        self._features = torch.from_numpy(features).to(device)
        moves, known = zip(*(_future_moves(market, horizon) for market in markets), strict=True)
        self._moves = torch.from_numpy(np.concatenate(moves)).to(device)
        self._known = torch.from_numpy(np.concatenate(known)).to(device)

    def observation(self, row: Tensor, account: Tensor) -> Tensor:
        """Observations (..., 128) of table rows (...) int64 and stored account entries (..., ACCOUNT_ENTRIES)."""
        portfolio, context = account[..., :_USED], account[..., _USED:]
        unused = account.new_zeros(*account.shape[:-1], _UNUSED)
        return torch.cat([self._features[row], portfolio, unused, context], dim=-1)

    def future_move(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Change of the close over the next `horizon` bars in ticks, rolls taken out, and whether it is known.

        It is a target for a loss and never a part of an observation. float32 (...) and bool (...).
        """
        return self._moves[row], self._known[row]


def stored_account(account: Tensor) -> Tensor:
    """The stored entries (..., ACCOUNT_ENTRIES) of the account's part of an observation (..., 42)."""
    return torch.cat([account[..., :_USED], account[..., int(Portfolio.SIZE) :]], dim=-1)


def account_of(observation: Tensor) -> Tensor:
    """The stored entries (..., ACCOUNT_ENTRIES) of observations (..., 128)."""
    return stored_account(observation[..., _FIRST:])


def _future_moves(market: Market, horizon: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    columns = market.columns
    close = columns.close - np.cumsum(columns.roll_gap)
    ahead = np.minimum(np.arange(len(close)) + horizon, len(close) - 1)
    known = np.arange(len(close)) + horizon < len(close)
    return (close[ahead] - close).astype(np.float32), known
