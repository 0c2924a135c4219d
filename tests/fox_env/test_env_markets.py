"""Batches of several markets: every account trades its own, exactly as it would in a batch of that market alone."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from physics_scenario import make_market, still
from small_market import LONG, make, play, random_actions, rows, same, small_market

from fox_env import ActionError, ConfigError, FoxError, FoxFuturesVectorEnv, Market, write_bars

FINE = {"tick_size": 0.1, "multiplier": 20.0, "fee_per_side": 1.0, "initial_margin": 400.0, "symbol": "FIN"}
FINE["maintenance_margin"] = 300.0


def fine_market() -> Market:
    """Another contract, other prices, a session break every 50 bars, no volume, and fewer bars."""
    rng = np.random.default_rng(3)
    close = 700 + np.cumsum(rng.integers(-9, 10, 220))
    ohlc = 0.1 * np.stack([close, close + 4, close - 4, close], -1)
    return make_market(ohlc, None, np.arange(220) + 600 * (np.arange(220) // 50), FINE)


MARKETS = [small_market(), fine_market(), small_market(300, 5)]
OPTIONS: dict[str, Any] = {
    "horizon": 40,
    "initial_cash": 20_000.0,
    "exploration_scale": 1.0,
    "saboteur": (0.5, 2.0),
    "reward": "risk",
}


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
@pytest.mark.parametrize("market_of", [None, [2, 2, 0, 1, 1, 0, 2]])
def test_every_account_is_what_it_is_in_a_batch_of_its_market(
    mode: AutoresetMode, market_of: list[int] | None
) -> None:
    index = [0, 1, 2, 0, 1, 2, 0] if market_of is None else market_of
    several = make(7, markets=MARKETS, market_of=market_of, autoreset_mode=mode, **OPTIONS)
    alone = [make(7, market=market, autoreset_mode=mode, **OPTIONS) for market in MARKETS]
    first, _ = several.reset(seed=11)
    for i, env in enumerate(alone):
        own = env.reset(seed=11)[0]
        assert all(first[k].tobytes() == own[k].tobytes() for k in range(7) if index[k] == i)
    for row in random_actions(7, 150):
        batch = several.step(row)
        masks = several.action_masks()
        for i, env in enumerate(alone):
            single = env.step(row)
            for k in (k for k in range(7) if index[k] == i):
                assert same([np.asarray(x[k]) for x in batch[:4]], [np.asarray(x[k]) for x in single[:4]])
                for name in ("equity", "cost", "fill_price", "bar_index", "trade_r"):
                    np.testing.assert_array_equal(batch[4][name][k], single[4][name][k])
                assert (masks[k] == env.action_masks()[k]).all()
    assert several.markets == tuple(MARKETS) and several.market_of.tolist() == index


def test_trades_are_told_in_the_times_and_prices_of_their_own_market() -> None:
    env = make(2, markets=MARKETS[:2], random_start=False, half_spread_ticks=0.0, impact_coef=0.0)
    env.reset(seed=0)
    env.step(rows(LONG, 2))
    env.step(rows([3, 0, 0, 1], 2))
    trades = env.trades().to_dicts()
    for trade, market in zip(trades, MARKETS[:2], strict=True):
        assert trade["entry_price"] == pytest.approx(market.bars.open[1])
        assert trade["exit_price"] == pytest.approx(market.bars.open[2])
        assert int(np.datetime64(trade["exit_time"].replace(tzinfo=None), "ns")) == market.bars.ts[2]


def test_state_copies_and_pictures_work() -> None:
    env = make(4, markets=MARKETS, render_mode="ansi", **OPTIONS)
    env.reset(seed=2)
    play(env, random_actions(4, 30))
    frames = env.render()
    assert frames is not None and frames[1].startswith("FIN ") and not frames[0].startswith("FIN ")
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert same(play(copy.deepcopy(env), random_actions(4, 30, 1)), play(twin, random_actions(4, 30, 1)))


def test_a_state_fits_the_markets_in_their_order_only() -> None:
    twins = [small_market(), small_market(seed=8)]
    env, swapped = make(2, markets=twins), make(2, markets=twins[::-1])
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="of other markets"):
        swapped.load_state_dict(env.state_dict())


def test_starts_are_limited_by_each_market() -> None:
    env = make(2, markets=MARKETS[:2])
    env.reset(options={"start": [398, 218]})
    with pytest.raises(ActionError, match="from 0 to 218"):
        env.reset(options={"start": [219, 219]})


def test_names_of_markets_are_resolved() -> None:
    env = FoxFuturesVectorEnv(2, markets=["martingale:seed=1", MARKETS[0]], backend="cpu")
    assert env.markets[1] is MARKETS[0] and env.reset(seed=0)[0].shape == (2, 128)


def test_files_of_several_contracts(tmp_path: Path) -> None:
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in paths:
        write_bars(MARKETS[0].bars, path)
    env = FoxFuturesVectorEnv(2, markets=paths, contract=["NQ", "ES"], backend="cpu")
    assert [market.contract.symbol for market in env.markets] == ["NQ", "ES"]


def test_one_market_of_a_list_is_the_market() -> None:
    assert make(2, markets=[MARKETS[1]]).market is MARKETS[1]
    with pytest.raises(FoxError, match=r"trades 2 markets; use env\.markets"):
        _ = make(2, markets=MARKETS[:2]).market


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"markets": []}, "at least one market"),
        ({"markets": 5}, "must be a list of at least one market"),
        ({"markets": MARKETS}, "3 markets need as many environments, got num_envs=2"),
        ({"markets": MARKETS[:2], "contract": ["ES"]}, "1 contracts for 2 markets"),
        ({"markets": small_market()}, "for one alone use market="),
        ({"markets": MARKETS, "market_of": [0, 3]}, "2 whole numbers from 0 to 2"),
        ({"markets": MARKETS, "market_of": [0, -1]}, "2 whole numbers from 0 to 2"),
        ({"markets": MARKETS, "market_of": [0, 1, 2]}, "2 whole numbers from 0 to 2"),
        ({"markets": MARKETS, "market_of": [0.0, 1.0]}, "2 whole numbers from 0 to 2"),
        ({"markets": [make_market(still(100))]}, "1 bar has no bar to trade in"),
    ],
)
def test_wrong_markets_are_refused_in_one_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(FoxError, match=message):
        make(2, **arguments)


def test_one_market_and_several_contradict() -> None:
    with pytest.raises(FoxError, match="market= or markets=, not both"):
        FoxFuturesVectorEnv(2, MARKETS[0], markets=MARKETS, backend="cpu")
