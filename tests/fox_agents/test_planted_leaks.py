"""Leaks from the future into what is learned: each check holds, and raises once its leak is planted.

Those into scoring are in test_planted_scoring.py, a win rate by bars in stats/test_win_rate.py.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("torch")

from small_agents import BRANCHING, fingerprint

from fox_agents import make, training
from fox_agents.config import RunConfig, run_config_from_dict
from fox_agents.dqn import market_table
from fox_agents.dqn.loop import DeviceAgent
from fox_agents.training import folds_of, split_market
from fox_agents.walk_forward import Fold, FoldMarkets, WalkForward
from fox_env import Market, synthetic
from fox_env.features import FEATURES, Feature, Inputs
from fox_env.features import evaluation as features

MARKET = synthetic.regimes(seed=0, sessions=4)
EMBARGO = 40
CONFIG: RunConfig = run_config_from_dict(
    {
        "data": {"embargo": EMBARGO},
        "folds": {"count": 2, "number": 0},
        "env": {"reward": "risk", "horizon": 50, "exploration_scale": 1.0, "saboteur": [0.5, 2.0]},
        "agent": {**BRANCHING, "hidden": 8, "replay_size": 1_000, "n_step": 3, "move_horizon": 30},
        "train": {"num_envs": 8},
    }
)
STEPS = 640


def fresh(market: Market) -> Market:
    """The market of the same bars with its features computed anew."""
    return Market.from_bars(market.bars, market.contract, cache=False)


# ---- features ---------------------------------------------------------------------------------------------


def check_features_need_no_later_bar() -> None:
    """Features of the first t bars are the first t rows of the features of all bars."""
    table = fresh(MARKET).features
    for t in (391, 700, 1_200):
        first = Market.from_bars(MARKET.bars[:t], MARKET.contract, cache=False).features
        np.testing.assert_array_equal(first, table[:t])


def check_no_feature_earns_on_a_martingale() -> None:
    """Going with the sign of a feature, or against it, earns nothing beyond chance before costs.

    The score is the sum of the gains over the root of the sum of their squares, about standard normal; the highest
    of 86 passes 5 with a probability below 1e-4.
    """
    market = fresh(synthetic.martingale(seed=1, sessions=12))
    ready = slice(market.first_ready, len(market) - 1)
    moves = np.diff(market.bars.close, append=0.0)[ready]
    gains = np.sign(market.features[ready]) * moves[:, None]
    scores = gains.sum(axis=0) / np.sqrt((gains**2).sum(axis=0)).clip(min=1e-12)
    high = {market.feature_names[i]: round(float(scores[i]), 1) for i in np.flatnonzero(abs(scores) > 5.0)}
    assert not high


def plant_in_features(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[npt.NDArray[np.float64]], Any], *names: str
) -> None:
    """Let the builder change the column of some features, or of all, as a whole."""

    def planted(feature: Feature) -> Feature:
        def compute(inputs: Inputs) -> Any:
            return change(feature.compute(inputs))

        return dataclasses.replace(feature, compute=compute)

    table = tuple(planted(f) if not names or f.name in names else f for f in FEATURES)
    monkeypatch.setattr(features, "FEATURES", table)


def next_bar(column: npt.NDArray[np.float64]) -> Any:
    return np.append(column[1:], column[-1])


def standardised(column: npt.NDArray[np.float64]) -> Any:
    """Mean and deviation of all bars there are."""
    return (column - np.nanmean(column)) / max(float(np.nanstd(column)), 1e-9)


def test_features_need_no_later_bar() -> None:
    check_features_need_no_later_bar()


def test_no_feature_earns_on_a_martingale() -> None:
    check_no_feature_earns_on_a_martingale()


@pytest.mark.parametrize("name", ["return_1", "rsi_14"])
def test_a_feature_that_shows_the_next_bar_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_in_features(monkeypatch, next_bar, name)
    with pytest.raises(AssertionError):
        check_features_need_no_later_bar()
    with pytest.raises(AssertionError, match=name):
        check_no_feature_earns_on_a_martingale()


def test_a_scaler_fitted_on_all_data_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_in_features(monkeypatch, standardised)
    with pytest.raises(AssertionError):
        check_features_need_no_later_bar()
    with pytest.raises(AssertionError):
        check_learning_ends_before_validation(CONFIG)


# ---- edges of the windows ---------------------------------------------------------------------------------


def rows_of(part: Market) -> tuple[int, int]:
    """First row of a part in the whole market, and the one after the last."""
    first, last = np.searchsorted(MARKET.bars.ts, part.bars.ts[[0, -1]]).tolist()
    return first, last + 1


def check_windows_keep_the_embargo(config: RunConfig) -> None:
    """No bar that is learned from lies within the embargo of one that is scored, nor validation within that of test.

    The first bar of a scored window is only decided at; the next one is the first whose return counts.
    """
    training, validation = split_market(MARKET, config)
    parts = [rows_of(training), rows_of(validation)]
    counted = [parts[1][0]]
    if config.folds.number is not None:
        test = folds_of(MARKET, config)[config.folds.number].markets(MARKET).test
        parts.append(rows_of(test))
        counted = [first + 1 for first, _ in parts[1:]]
    for (_, stop), first in zip(parts, counted, strict=False):
        assert first - stop >= config.data.embargo
    assert all(stop - first > 50 for first, stop in parts)


def with_bars_changed_from(row: int) -> Market:
    """Other prices from a bar on."""
    bars = MARKET.bars
    moved = np.where(np.arange(len(bars)) >= row, 25.0, 0.0)
    prices = {name: getattr(bars, name) + moved for name in ("open", "high", "low", "close")}
    return Market.from_bars(dataclasses.replace(bars, **prices), MARKET.contract, cache=False)


def learned(market: Market, config: RunConfig) -> dict[str, bytes]:
    """Every byte of the weights, the optimiser, the replay and the environments after learning in a fold."""
    env = training._training_env(config, split_market(market, config)[0], "cpu")
    agent = make(config.train.algorithm, env, config.agent)
    agent.learn(STEPS)
    assert isinstance(agent, DeviceAgent)
    batch = agent._sample(256, agent._progress())  # with the labels that updates see
    labels = {f"sample.{name}": v.numpy().tobytes() for name, v in batch._asdict().items() if v is not None}
    return fingerprint(agent) | labels


def check_learning_ends_before_validation(config: RunConfig) -> None:
    """Other bars from the validation window on change nothing of what is learned: no input, return or label."""
    fold = folds_of(MARKET, config)[config.folds.number or 0]
    first, second = (
        learned(with_bars_changed_from(row), config) for row in (len(MARKET), fold.validation[0])
    )
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_windows_keep_the_embargo() -> None:
    for number in (None, 0, 1):
        folds = dataclasses.replace(CONFIG.folds, number=number)
        check_windows_keep_the_embargo(dataclasses.replace(CONFIG, folds=folds))


@pytest.mark.parametrize("edge", ["train", "validation"])
def test_folds_without_an_embargo_are_caught(edge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = WalkForward.split
    following = {"train": "validation", "validation": "test"}[edge]

    def adjacent(self: WalkForward, market: Market | int) -> list[Fold]:
        windows = [
            (fold, (getattr(fold, edge)[0], getattr(fold, following)[0])) for fold in honest(self, market)
        ]
        return [dataclasses.replace(fold, **{edge: window}) for fold, window in windows]

    monkeypatch.setattr(WalkForward, "split", adjacent)
    with pytest.raises(AssertionError):
        check_windows_keep_the_embargo(CONFIG)


def test_a_split_without_an_embargo_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Market.split
    monkeypatch.setattr(Market, "split", lambda self, *parts, embargo=0: honest(self, *parts))
    folds = dataclasses.replace(CONFIG.folds, number=None)
    with pytest.raises(AssertionError):
        check_windows_keep_the_embargo(dataclasses.replace(CONFIG, folds=folds))


def without_embargo() -> RunConfig:
    return dataclasses.replace(CONFIG, data=dataclasses.replace(CONFIG.data, embargo=0))


def test_learning_ends_before_validation() -> None:
    """Even without an embargo."""
    check_learning_ends_before_validation(without_embargo())


def test_training_that_runs_into_validation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Fold.markets

    def longer(self: Fold, market: Market) -> FoldMarkets:
        parts = honest(self, market)
        return parts._replace(training=market.rows(self.train[0], self.validation[1]))

    monkeypatch.setattr(Fold, "markets", longer)
    with pytest.raises(AssertionError):
        check_windows_keep_the_embargo(CONFIG)
    with pytest.raises(AssertionError):
        check_learning_ends_before_validation(CONFIG)


def test_labels_that_reach_into_validation_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels made on all bars before they are cut: an embargo as long as they reach would have kept them out."""
    honest, whole = market_table._future_moves, {"market": MARKET}
    made = Market.from_bars.__func__  # type: ignore[attr-defined]

    def noting(cls: type[Market], *arguments: Any, **options: Any) -> Market:
        whole["market"] = made(cls, *arguments, **options)
        return whole["market"]

    def on_all_bars(market: Market, horizon: int) -> Any:
        first, stop = rows_of(market)
        moves, known = honest(whole["market"], horizon)
        return moves[first:stop], known[first:stop]

    monkeypatch.setattr(Market, "from_bars", classmethod(noting))
    monkeypatch.setattr(market_table, "_future_moves", on_all_bars)
    with pytest.raises(AssertionError):
        check_learning_ends_before_validation(without_embargo())
    check_learning_ends_before_validation(CONFIG)
