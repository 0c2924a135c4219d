"""The probability of overfitting: a plain computation from full returns, and what it says of known cases."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from fox_agents.stats.overfitting import probability_of_overfitting, sharpe_of_sums
from fox_agents.stats.trials import block_sums
from fox_env import metrics
from fox_env.errors import ConfigError


def blocks_of(returns: np.ndarray, count: int) -> np.ndarray:
    """Sums (trials, count, 3) of returns (bars, trials)."""
    parts = np.array_split(returns, count)
    sums = [[np.full(part.shape[1], len(part)), part.sum(axis=0), (part**2).sum(axis=0)] for part in parts]
    return np.array(sums, dtype=float).transpose(2, 0, 1)


def by_hand(returns: np.ndarray, count: int) -> float:
    """The paper's algorithm word by word, over returns (bars, trials)."""
    frame = pd.DataFrame(returns)
    cuts = np.array_split(np.arange(len(frame)), count)
    overfit = []
    for chosen in itertools.combinations(range(count), count // 2):
        within = frame.iloc[np.concatenate([cuts[k] for k in chosen])]
        outside = frame.drop(within.index)
        scores, others = (
            (part.mean() / part.std()).where(part.std() > 0, 0.0).round(12) for part in (within, outside)
        )
        ranks = others.rank()
        logits = []
        for best in scores.index[scores == scores.max()]:
            w = ranks[best] / (len(ranks) + 1)
            logits.append(math.log(w / (1 - w)))
        overfit.append(np.mean([1.0 if x < -1e-12 else 0.5 if x < 1e-12 else 0.0 for x in logits]))
    return float(np.mean(overfit))


@pytest.mark.parametrize("trials", [2, 5, 8])
@pytest.mark.parametrize("count", [2, 6, 8])
def test_it_is_what_the_full_returns_give(trials: int, count: int) -> None:
    returns = np.random.default_rng(trials + count).standard_normal((203, trials)) * 0.01
    returns[:, 0] += 0.001
    assert probability_of_overfitting(blocks_of(returns, count)) == pytest.approx(by_hand(returns, count))


def test_it_is_so_with_ties_and_with_trials_that_never_trade() -> None:
    rng = np.random.default_rng(4)
    traded = rng.standard_normal((120, 3)) * 0.01
    returns = np.column_stack([np.zeros(120), traded, traded[:, 1], np.zeros(120), traded[:, 1]])
    for _ in range(5):
        returns = returns[rng.permutation(120)]
        assert probability_of_overfitting(blocks_of(returns, 6)) == pytest.approx(by_hand(returns, 6))


def test_it_is_so_with_trials_that_trade_in_few_blocks() -> None:
    """In most halves several unequal trials have not traded yet and are best together, some of them repeated."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        traded = rng.random((6, 1, 5)) < 0.35
        returns = (traded * (rng.standard_normal((6, 20, 5)) - 0.8)).reshape(120, 5)
        returns = returns[:, [0, 1, 2, 2, 2, 3, 4, 4]]
        assert probability_of_overfitting(blocks_of(returns, 6)) == pytest.approx(by_hand(returns, 6))


def test_a_choice_without_information_is_a_half() -> None:
    """The same trial many times, never a trade, and, on average over 30 draws, pure noise."""
    one = np.random.default_rng(0).standard_normal((160, 1))
    assert probability_of_overfitting(blocks_of(np.repeat(one, 7, axis=1), 16)) == pytest.approx(0.5)
    assert probability_of_overfitting(np.tile([10.0, 0.0, 0.0], (5, 16, 1))) == pytest.approx(0.5)
    noise = [np.random.default_rng(k).standard_normal((160, 9)) for k in range(30)]
    found = [probability_of_overfitting(blocks_of(returns, 8)) for returns in noise]
    assert np.mean(found) == pytest.approx(0.5, abs=0.12)  # a single one deviates by about 0.2


def test_one_trial_that_is_truly_better_is_no_overfitting() -> None:
    returns = np.random.default_rng(1).standard_normal((1600, 20)) * 0.01
    returns[:, 7] += 0.003
    assert probability_of_overfitting(blocks_of(returns, 16)) < 0.01  # type: ignore[operator]


def test_what_is_best_by_its_luck_in_one_half_is_all_overfitting() -> None:
    """Gains in some blocks are paid back in the others: the best half has the worst complement."""
    rng = np.random.default_rng(2)
    luck = rng.standard_normal((6, 10))
    luck -= luck.mean(axis=0)
    noise = rng.standard_normal((6, 30, 10))
    noise = (noise - noise.mean(axis=1, keepdims=True)) / noise.std(axis=1, keepdims=True)
    returns = (luck[:, None, :] + noise).reshape(180, 10)
    assert probability_of_overfitting(blocks_of(returns, 6)) > 0.95  # type: ignore[operator]


def test_the_sharpe_ratio_of_sums_is_the_one_reported() -> None:
    returns = np.random.default_rng(5).standard_normal(100) * 1e-3 + 1e-4
    sums = block_sums(returns).sum(axis=0)
    assert sharpe_of_sums(sums) == pytest.approx(metrics.summary(returns, bars_per_year=1.0)["sharpe"])
    assert sharpe_of_sums(block_sums(np.full(99, 0.1)).sum(axis=0)) == 0.0  # all equal but for rounding
    assert sharpe_of_sums(np.array([[1.0, 0.1, 0.01], [0.0, 0.0, 0.0]])).tolist() == [0.0, 0.0]


def test_too_little_gives_none_and_another_shape_is_refused() -> None:
    assert probability_of_overfitting(np.ones((1, 16, 3))) is None
    assert probability_of_overfitting(np.zeros((0, 16, 3))) is None
    short = np.array([block_sums(np.ones(10)), block_sums(np.zeros(10))])  # fewer bars than blocks
    assert probability_of_overfitting(short) is None
    for shape in ((3, 15, 3), (3, 16, 2), (3, 16), (3, 0, 3)):
        with pytest.raises(ConfigError, match="even number of blocks"):
            probability_of_overfitting(np.ones(shape))
