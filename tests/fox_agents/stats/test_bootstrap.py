"""Bootstrap intervals: arch's own on short series, theory, long series in runs, and the cases without variance."""

import math
import subprocess
import sys

import numpy as np
import pytest
from arch.bootstrap import StationaryBootstrap, optimal_block_length

from fox_agents.stats import bootstrap, bootstrap_intervals
from fox_env import metrics
from fox_env.errors import DataError

YEAR = 98_280.0


def figures(returns: np.ndarray) -> list[float]:
    """The figures of a series itself, in the order of FIGURES."""
    found = metrics.summary(returns, bars_per_year=YEAR)
    return [found["sharpe"], returns.mean(), found["total_return"], found["max_drawdown"]]


def fat_tails(bars: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_t(4, bars) * 1e-3


def test_short_series_have_the_intervals_of_arch() -> None:
    noise = fat_tails(300)
    returns = noise + 0.6 * np.roll(noise, 1)
    length = optimal_block_length(returns)["stationary"].iloc[0]
    assert length > 2.0
    drawn = StationaryBootstrap(length, returns, seed=np.random.default_rng(7))
    low, high = drawn.conf_int(lambda x: np.array(figures(x)), reps=500, method="percentile")
    found = bootstrap_intervals(returns, YEAR, seed=7, resamples=500)
    assert list(found) == list(bootstrap.FIGURES)
    np.testing.assert_allclose([x.value for x in found.values()], figures(returns), rtol=1e-12)
    np.testing.assert_allclose([x.low for x in found.values()], low, rtol=1e-9)
    np.testing.assert_allclose([x.high for x in found.values()], high, rtol=1e-9)


def test_the_mean_of_independent_normal_returns_has_its_interval_of_theory() -> None:
    returns = np.random.default_rng(1).standard_normal(4000) * 1e-3 + 1e-4
    found = bootstrap_intervals(returns, YEAR, resamples=4000)["mean_return"]
    half = 1.96 * returns.std() / math.sqrt(4000)
    assert found.low == pytest.approx(returns.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(returns.mean() + half, abs=0.1 * half)


def test_dependence_widens_the_interval_of_the_mean() -> None:
    """An AR(1) of 0.8 has a mean of (1 + 0.8) / (1 - 0.8) = 9 times the variance of independent returns."""
    returns = np.random.default_rng(2).standard_normal(5000) * 1e-3
    for t in range(1, len(returns)):
        returns[t] += 0.8 * returns[t - 1]
    found = bootstrap_intervals(returns, YEAR)["mean_return"]
    independent = 2 * 1.96 * returns.std() / math.sqrt(5000)
    assert 2.2 < (found.high - found.low) / independent < 3.3


@pytest.mark.parametrize("bars", [5_000, 5_001, 12_345, 100_000])
def test_the_figures_of_a_series_in_runs_are_those_of_its_returns(bars: int) -> None:
    returns = fat_tails(bars)
    runs = bootstrap._runs(returns)
    assert len(runs) == 5_000 and runs[:, 0].sum() == bars
    assert np.ptp(runs[:, 0]) <= 1
    np.testing.assert_allclose(bootstrap._figures(bootstrap._sums(runs), YEAR), figures(returns), rtol=1e-8)
    order = np.random.default_rng(3).integers(5_000, size=5_000)
    pieces = np.split(returns, np.cumsum(runs[:-1, 0]).astype(int))
    resampled = np.concatenate([pieces[k] for k in order])
    np.testing.assert_allclose(
        bootstrap._figures(bootstrap._sums(runs[order]), YEAR), figures(resampled), rtol=1e-8
    )


def test_a_fall_that_begins_and_ends_inside_of_a_run_counts() -> None:
    returns = fat_tails(20_000)
    returns[8:11] = 0.5, -0.6, 1.5  # of the run of bars 8 to 11, whose end is as high as its peak
    sums = bootstrap._sums(bootstrap._runs(returns))
    np.testing.assert_allclose(bootstrap._figures(sums, YEAR), figures(returns), rtol=1e-8)
    assert bootstrap._figures(sums, YEAR)[3] < -0.59


def test_a_long_series_in_runs_has_the_intervals_of_its_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    returns = fat_tails(8_000)
    monkeypatch.setattr(bootstrap, "_RUNS", 1_000)
    runs = bootstrap_intervals(returns, YEAR, resamples=3000)
    monkeypatch.setattr(bootstrap, "_RUNS", len(returns))
    bars = bootstrap_intervals(returns, YEAR, resamples=3000)
    for name in bootstrap.FIGURES:
        width = bars[name].high - bars[name].low
        assert runs[name].low == pytest.approx(bars[name].low, abs=0.1 * width), name
        assert runs[name].high == pytest.approx(bars[name].high, abs=0.1 * width), name


def test_an_account_that_never_trades_is_certain() -> None:
    found = bootstrap_intervals(np.zeros(10_000), YEAR)
    assert set(found.values()) == {(0.0, 0.0, 0.0)}


def test_equal_returns_have_no_spread() -> None:
    found = bootstrap_intervals(np.full(100, 1e-4), YEAR)
    assert found["mean_return"] == pytest.approx((1e-4, 1e-4, 1e-4))
    assert all(
        math.isnan(x) for x in found["sharpe"]
    )  # as the reported Sharpe ratio, which has no denominator


def test_too_few_returns_have_a_value_and_no_interval() -> None:
    returns = fat_tails(29)
    for name, found in bootstrap_intervals(returns, YEAR).items():
        assert math.isfinite(found.value) and math.isnan(found.low) and math.isnan(found.high), name
    assert all(math.isfinite(x.low) for x in bootstrap_intervals(fat_tails(30), YEAR).values())
    assert bootstrap_intervals([], YEAR)["mean_return"].value == 0.0


def test_rare_trades_and_a_lost_account_give_numbers() -> None:
    rare = np.zeros(200)
    rare[50] = 0.01
    ruined = fat_tails(200)
    ruined[20], ruined[21:] = -1.3, 0.0
    for returns in (rare, ruined):
        found = bootstrap_intervals(returns, YEAR, resamples=200)
        assert np.isfinite([x for each in found.values() for x in each]).all()
    assert found["total_return"].low == found["max_drawdown"].low == -1.0  # no more than all can be lost


def test_the_seed_decides() -> None:
    returns = fat_tails(500)
    first, same, other = (bootstrap_intervals(returns, YEAR, seed=s, resamples=200) for s in (1, 1, 2))
    assert first == same and first != other


def test_bad_returns_are_refused() -> None:
    with pytest.raises(DataError, match="finite"):
        bootstrap_intervals([0.1] * 50 + [math.nan], YEAR)


def test_the_package_imports_without_the_slow_libraries() -> None:
    code = "import sys, fox_agents.stats.seeds; print({'arch', 'pandas', 'scipy', 'statsmodels'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
