"""Random play of Fox accounts, told as what a broker would see: fills at their prices and marks at closes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from fox_env import Bars, ContractSpec, EnvConfig, FoxFuturesVectorEnv, Market, synthetic
from fox_env._layout import Direction

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "6EH4_1min_202401.csv.gz"
BARS = 1000
CENT = 0.005
HOLD, FLAT = int(Direction.HOLD), int(Direction.FLAT)
COLUMNS = ("position", "fill_quantity", "fill_price", "equity", "fees")


@dataclass(frozen=True)
class Account:
    """One account's play: what it traded, what it was worth, and the trades that Fox counts.

    ``fills`` are (bar, signed contracts, price) in the order of trading. The other arrays have an entry for each of
    ``bars``, which begin with the bar of the first decision: the money at its close, the action decided there, and the
    prices of stop and target after it.
    """

    market: Market
    cash: float
    fee: float
    fills: list[tuple[int, float, float]]
    bars: NDArray[np.int64]
    equity: NDArray[np.float64]
    actions: NDArray[np.int64]
    stops: NDArray[np.float64]
    targets: NDArray[np.float64]
    fees: float
    trades: pl.DataFrame


@dataclass(frozen=True)
class Outside:
    """The same account in another program; ``pnl`` is each finished trade's, net of commission, in order of exit."""

    equity: NDArray[np.float64]
    pnl: NDArray[np.float64]
    fees: float


def agree(fox: Account, other: Outside) -> None:
    """Equity at every close, every trade's P&L and their number, and all commission: to a cent."""
    np.testing.assert_allclose(other.equity, fox.equity, rtol=0, atol=CENT)
    assert len(other.pnl) == len(fox.trades)
    np.testing.assert_allclose(other.pnl, fox.trades["pnl"].to_numpy(), rtol=0, atol=CENT)
    assert other.fees == pytest.approx(fox.fees, abs=CENT)


def walk(bars: int = BARS, *, jumps: bool = True, seed: int = 0) -> Market:
    """One long session of whole ticks; with ``jumps`` a bar may open away from the close before it."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-7, 8, bars)
    close = 4_000 + np.cumsum(steps)
    opened = close - steps
    if jumps:
        opened = opened + rng.integers(-2, 3, bars)
    high = np.maximum(opened, close) + rng.integers(0, 6, bars)
    low = np.minimum(opened, close) - rng.integers(0, 6, bars)
    ts = np.datetime64("2024-01-02T15:00", "ns") + np.arange(bars) * np.timedelta64(60, "s")
    prices = (0.25 * column for column in (opened, high, low, close))
    spec = ContractSpec("T", 0.25, 50.0, 2.0, initial_margin=1000.0, maintenance_margin=1000.0)
    volume = rng.integers(50, 900, bars).astype(np.float64)
    return Market.from_bars(Bars.from_arrays(ts, *prices, volume), contract=spec, warmup=0, cache=False)


def real() -> Market:
    """The first bars of a month of euro futures, or a skip where the file is not at hand."""
    if not REAL.exists():
        pytest.skip(f"market data file {REAL.name} is not at hand")
    market = Market.from_file(REAL, contract="6E", warmup=0, cache=False)
    return market.split(BARS / len(market))[0]


MARKETS = {
    "a walk": walk,
    "regimes": lambda: synthetic.regimes(seed=3, sessions=4, session_minutes=BARS // 4),
    "euro futures": real,
}


def random_actions(steps: int, accounts: int, seed: int) -> NDArray[np.int64]:
    """(steps, accounts, 4) random actions; Hold more often than the rest, so that trades last."""
    rng = np.random.default_rng(seed)
    actions = np.stack([rng.integers(0, k, (steps, accounts)) for k in (4, 3, 3, 3)], -1)
    actions[..., 0] = np.where(rng.random((steps, accounts)) < 0.4, HOLD, actions[..., 0])
    return actions


def make(market: Market, accounts: int, **options: Any) -> FoxFuturesVectorEnv:
    """Accounts that begin on the second bar and end with the data: no program trades before it has seen a bar."""
    env = FoxFuturesVectorEnv(
        accounts,
        market,
        EnvConfig(**options),
        backend="cpu",
        autoreset_mode="DISABLED",
        trade_capacity=2 * BARS,
    )
    env.reset(seed=7, options={"start": [1] * accounts})
    return env


def play(
    market: Market, accounts: int, seed: int, *, order: int | None = None, wait: int = 0, **options: Any
) -> list[Account]:
    """Play random actions to the end of the data.

    Parameters
    ----------
    order
        Order type of every action; None draws it.
    wait
        Bars that an open trade is left to its stop and target before it is closed.
    """
    env = make(market, accounts, **options)
    actions = random_actions(len(market) - 2, accounts, seed)
    if order is not None:
        actions[..., 2] = order
    tick = market.contract.tick_size
    rows = []
    position, held = np.zeros(accounts), np.zeros(accounts, dtype=np.int64)
    for action in actions:
        held = np.where(position != 0, held + 1, 0)
        if wait:
            action[held > 0, 0] = np.where(held < wait, HOLD, FLAT)[held > 0]
        *_, terminated, truncated, info = env.step(action)
        row = {name: np.array(info[name]) for name in COLUMNS}
        levels = {name: tick * np.array(env.state_dict()[f"state.{name}"]) for name in ("stop", "target")}
        rows.append({**row, **levels, "action": action})
        position = row["position"]
    assert truncated.all() and not terminated.any()
    steps = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return [account(env, i, {name: values[:, i] for name, values in steps.items()}) for i in range(accounts)]


def account(env: FoxFuturesVectorEnv, number: int, steps: dict[str, NDArray[Any]]) -> Account:
    """Put together one account: the agent's fills from the info, those it did not ask for from the trade list."""
    trades = env.trades().filter(pl.col("env") == number)
    unasked = trades.filter(pl.col("reason") != "agent")
    exits = dict(zip(unasked["exit_bar"], unasked["exit_price"], strict=True))
    fills, before = [], 0.0
    for bar, (position, quantity, price) in enumerate(
        zip(steps["position"], steps["fill_quantity"], steps["fill_price"], strict=True), start=2
    ):
        if quantity:
            fills.append((bar, float(quantity), float(price)))
        if rest := position - before - quantity:
            fills.append((bar, float(rest), float(exits[bar])))
        before = position
    contract = env.market.contract
    return Account(
        market=env.market,
        cash=env.config.initial_cash,
        fee=contract.fee_per_side,
        fills=fills,
        bars=np.arange(1, len(env.market)),
        equity=np.append(env.config.initial_cash, steps["equity"]),
        actions=steps["action"],
        stops=np.append(0.0, steps["stop"]),
        targets=np.append(0.0, steps["target"]),
        fees=float(steps["fees"].sum()),
        trades=trades.sort("exit_bar", maintain_order=True),
    )


@dataclass(frozen=True)
class Tape:
    """A price series of fills and closes: what fills at row i is ordered at row i - 1, as a market order."""

    prices: NDArray[np.float64]
    orders: NDArray[np.float64]
    marks: NDArray[np.int64]


def tape(fox: Account) -> Tape:
    """A row for every fill at its price and a row for every close of ``fox.bars``."""
    closes = np.asarray(fox.market.bars.close)
    prices, orders, marks = [closes[0]], [0.0], []
    waiting = list(fox.fills)
    for bar in fox.bars:
        while waiting and waiting[0][0] == bar:
            _, quantity, price = waiting.pop(0)
            orders[-1] = quantity
            prices.append(price)
            orders.append(0.0)
        prices.append(closes[bar])
        orders.append(0.0)
        marks.append(len(prices) - 1)
    return Tape(np.array(prices), np.array(orders), np.array(marks))
