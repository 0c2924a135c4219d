"""Probabilistic and deflated Sharpe ratios: published examples, and the distributions they claim to describe."""

import math

import numpy as np
import pytest
from scipy import stats

from fox_agents.stats.sharpe import (
    Moments,
    annual,
    deflated_sharpe,
    expected_maximum_sharpe,
    minimum_track_record,
    moments,
    per_bar,
    probabilistic_sharpe,
)
from fox_env import metrics
from fox_env.errors import ConfigError, DataError


def test_the_published_probabilistic_sharpe_ratios() -> None:
    """Two years of months at 0.458 a month: 0.982 if they were normal, 0.913 as skewed as they are (2012 paper)."""
    assert probabilistic_sharpe(Moments(24, 0.458)) == pytest.approx(0.982, abs=5e-4)
    assert probabilistic_sharpe(Moments(24, 0.458, -2.448, 10.164)) == pytest.approx(0.913, abs=5e-4)


@pytest.mark.parametrize(
    ("bars_per_year", "skewness", "kurtosis", "years"),
    [(250, 0.0, 3.0, 2.73), (52, 0.0, 3.0, 2.83), (12, 0.0, 3.0, 3.24), (12, -0.72, 5.78, 4.99)],
)
def test_the_published_track_records(
    bars_per_year: int, skewness: float, kurtosis: float, years: float
) -> None:
    """A Sharpe ratio of 2 a year to be above 1 at 95 %, by frequency and shape (2012 paper)."""
    of = Moments(0, per_bar(2.0, bars_per_year), skewness, kurtosis)
    needed = minimum_track_record(of, per_bar(1.0, bars_per_year))
    assert needed is not None and needed / bars_per_year == pytest.approx(years, abs=5e-3)


@pytest.mark.parametrize(
    ("trials", "skewness", "kurtosis", "expected"),
    [(100, -3.0, 10.0, 0.9004), (46, -3.0, 10.0, 0.9505), (88, 0.0, 3.0, 0.9505)],
)
def test_the_published_deflated_sharpe_ratios(
    trials: int, skewness: float, kurtosis: float, expected: float
) -> None:
    """2.5 a year over 1,250 days of 250 a year, the variance of the tries' annual ratios 1/2 (2014 paper)."""
    of = Moments(1250, per_bar(2.5, 250), skewness, kurtosis)
    assert deflated_sharpe(of, trials, 0.5 / 250) == pytest.approx(expected, abs=5e-5)
    if trials == 100:
        assert expected_maximum_sharpe(trials, 0.5 / 250) == pytest.approx(0.1132, abs=5e-5)


def test_the_moments_are_scipys_and_the_sharpe_ratio_is_the_one_reported() -> None:
    returns = np.random.default_rng(3).gamma(2.0, 1e-3, 500) - 1.5e-3
    found = moments(returns)
    assert found is not None and found.bars == 500
    assert found.skewness == pytest.approx(stats.skew(returns))
    assert found.kurtosis == pytest.approx(stats.kurtosis(returns, fisher=False))
    reported = metrics.summary(returns, bars_per_year=252.0)["sharpe"]
    assert annual(found.sharpe, 252.0) == pytest.approx(reported)
    assert per_bar(annual(0.1, 252.0), 252.0) == pytest.approx(0.1)


def test_the_probability_is_uniform_where_the_true_ratio_is_the_benchmark() -> None:
    """3,000 skewed series with a true ratio of 0.2: a share p of their probabilities above 0.2 is below p."""
    draws = np.random.default_rng(1).gumbel(size=(3000, 400))
    deviation = math.pi / math.sqrt(6.0)
    returns = draws - np.euler_gamma + 0.2 * deviation
    found = [moments(row) for row in returns]
    shares = [probabilistic_sharpe(row, 0.2) for row in found if row is not None]
    for p in (0.05, 0.5, 0.95):
        # Three binomial deviations, and the 0.02 that the normal approximation misses at 400 bars.
        assert np.mean(np.array(shares) < p) == pytest.approx(
            p, abs=0.02 + 3.0 * math.sqrt(p * (1 - p) / 3000)
        )


def test_the_expected_maximum_is_that_of_normal_draws() -> None:
    rng = np.random.default_rng(0)
    for trials in (10, 100):
        best = 0.3 * rng.standard_normal((20_000, trials)).max(axis=1).mean()
        assert expected_maximum_sharpe(trials, 0.09) == pytest.approx(best, rel=0.03)
    assert expected_maximum_sharpe(1, 0.09) == 0.0
    assert deflated_sharpe(Moments(100, 0.1), 1, 0.0) == probabilistic_sharpe(Moments(100, 0.1))


def test_the_track_record_is_the_length_at_which_the_probability_is_the_confidence() -> None:
    of = Moments(0, 0.05, -1.0, 8.0)
    needed = minimum_track_record(of, 0.01, confidence=0.9)
    assert needed is not None
    below, above = (probabilistic_sharpe(of._replace(bars=round(n)), 0.01) for n in (needed - 1, needed + 1))
    assert below < 0.9 < above
    assert minimum_track_record(of, 0.05) is None
    assert minimum_track_record(Moments(0, -0.1)) is None


def test_series_without_a_sharpe_ratio_have_no_moments() -> None:
    assert moments([]) is None and moments([0.1]) is None
    assert moments(np.zeros(50)) is None and moments(np.full(50, 0.01)) is None
    with pytest.raises(DataError, match="finite"):
        moments([0.1, math.nan])


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="excess"):
        probabilistic_sharpe(Moments(100, 0.1, -3.0, 7.0))
    with pytest.raises(ConfigError, match="two bars"):
        probabilistic_sharpe(Moments(1, 0.1))
    with pytest.raises(ConfigError, match="trials=0"):
        expected_maximum_sharpe(0, 0.1)
    with pytest.raises(ConfigError, match="confidence"):
        minimum_track_record(Moments(10, 0.1), confidence=95.0)
    coin = Moments(
        100, 1.0, 0.0, 1.0
    )  # two values of equal weight: the variance 1 + 0 is least at a ratio of 0
    assert 0.0 < probabilistic_sharpe(coin, 1.1) < 0.5
