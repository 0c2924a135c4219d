"""What each synthetic market claims, as statistical tests: fixed seeds, every test at level 0.001.

Where a market claims that something is absent, another market that has it shows that the test would notice.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np
import pytest
from market_statistics import (
    Z,
    autocorrelation_statistic,
    chi_square_limit,
    mean_score,
    regression_statistic,
    slope,
    variance_ratio_score,
)
from numpy.typing import NDArray

from fox_env import Market, synthetic

F64 = NDArray[np.float64]
MINUTES = 390
SIGMA = 4.0


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@cache
def market(text: str) -> Market:
    name, values = synthetic.parse(text)
    return synthetic.MARKETS[name](**values)


def rows(column: F64) -> F64:
    return column.reshape(-1, MINUTES)


def changes(text: str) -> F64:
    """Change in ticks over each bar from the close before it, without the first bar of a session: (sessions, 389)."""
    return np.diff(rows(market(text).columns.close), axis=1)


def deseasonalised(x: F64) -> F64:
    """Size of the changes over the mean size at that minute, less its mean."""
    size = np.abs(x)
    size = size / size.mean(axis=0)
    return size - size.mean()


MARTINGALE = "martingale:seed=21,sessions=300"
SIGNAL = "signal:seed=22,sessions=300"
MOMENTUM = "momentum:seed=23,sessions=300"
REVERSAL = "reversal:seed=24,sessions=300"
REGIMES = "regimes:seed=25,sessions=300"
ALL = (MARTINGALE, SIGNAL, MOMENTUM, REVERSAL, REGIMES)


# ---- what all of them have -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ALL)
def test_the_drift_is_the_expected_change(text: str) -> None:
    """Changes less the known drift have mean zero, no correlation with it, and nothing left to predict."""
    bars = market(text).bars
    drift = rows(bars.extra["drift"])[:, 1:]
    rest = changes(text) - drift
    assert abs(mean_score(rest)) < Z
    assert autocorrelation_statistic(rest, 50) < chi_square_limit(50)
    if drift.any():
        value, error = slope(changes(text), drift)
        assert abs(value - 1.0) < Z * error < 0.2
    else:
        assert text == MARTINGALE


@pytest.mark.parametrize("text", ALL)
def test_volume_and_range_follow_the_path(text: str) -> None:
    """Both grow with the size of the change, and both are larger at the ends of the day if the market's are."""
    columns = market(text).columns
    size, spread = np.abs(changes(text)), rows(columns.high - columns.low)[:, 1:]
    volume = rows(columns.volume)[:, 1:]
    quiet, busy = size <= np.quantile(size, 0.2), size >= np.quantile(size, 0.8)
    assert spread[busy].mean() > 1.5 * spread[quiet].mean()
    assert volume[busy].mean() > 1.1 * volume[quiet].mean()
    for part in (volume[:, :30], volume[:, -30:]):
        assert part.mean() > 1.5 * volume[:, 180:210].mean()


@pytest.mark.parametrize(("text", "seasonal"), [(MARTINGALE, True), (REGIMES, True), (SIGNAL, False)])
def test_volatility_has_a_season_where_it_is_promised(text: str, seasonal: bool) -> None:
    size = np.abs(changes(text))
    ends, middle = (
        np.concatenate([size[:, :30], size[:, -30:]], axis=1).mean(axis=1),
        size[:, 165:225].mean(axis=1),
    )
    score = mean_score(ends - 1.15 * middle) if seasonal else mean_score(ends - middle)
    assert score > Z if seasonal else abs(score) < Z


# ---- martingale: tails and clusters, and nothing to predict --------------------------------------------------


def kurtosis(x: F64) -> tuple[float, float]:
    """Kurtosis, 3 for a normal law, and its standard error from a jackknife over sessions."""
    fourth, second = (x**4).sum(axis=1), (x**2).sum(axis=1)
    left_out = (fourth.sum() - fourth) * (x.size - x.shape[1]) / (second.sum() - second) ** 2
    return float(fourth.sum() * x.size / second.sum() ** 2), float(left_out.std() * np.sqrt(len(x)))


def test_tails_are_fat_where_volatility_varies() -> None:
    for text in (MARTINGALE, REGIMES):
        value, error = kurtosis(changes(text))
        assert value - Z * error > 4.0, text
    for text in (SIGNAL, MOMENTUM, REVERSAL):
        value, error = kurtosis(changes(text))
        assert abs(value - 3.0) < Z * error + 0.03, text  # 60 sub-steps leave a kurtosis of 3.01


def test_volatility_clusters() -> None:
    """The size of changes is correlated over an hour, fades, and is uncorrelated in a market of constant volatility."""
    for text in (MARTINGALE, REGIMES):
        size = deseasonalised(changes(text))
        variance = (size * size).mean()
        level = {lag: (size[:, lag:] * size[:, :-lag]).mean() / variance for lag in (1, 10, 60)}
        assert level[1] > level[10] > level[60] > 0.03, text
        assert autocorrelation_statistic(size, 50) > 10.0 * chi_square_limit(50)
    assert autocorrelation_statistic(deseasonalised(changes(SIGNAL)), 50) < chi_square_limit(50)


@pytest.mark.parametrize("horizon", [2, 5, 15, 60])
def test_variance_ratios_of_the_martingale_are_one(horizon: int) -> None:
    assert abs(variance_ratio_score(changes(MARTINGALE), horizon)) < Z
    assert variance_ratio_score(changes(MOMENTUM), horizon) > Z
    assert variance_ratio_score(changes(REVERSAL), horizon) < -Z


def test_changes_of_the_martingale_are_uncorrelated_at_a_hundred_lags() -> None:
    assert autocorrelation_statistic(changes(MARTINGALE), 100) < chi_square_limit(100)
    assert autocorrelation_statistic(changes(MOMENTUM), 100) > chi_square_limit(100)


@pytest.mark.parametrize("horizon", [1, 15])
def test_no_feature_predicts_the_martingale(horizon: int) -> None:
    """All 86 features together say nothing about the change over the next bars; on signal, one does."""

    def statistic(text: str) -> tuple[float, int]:
        close, first = market(text).columns.close, market(text).first_ready
        stride = max(horizon, 2)
        ahead = close[first + horizon :: stride] - close[first:-horizon:stride]
        return regression_statistic(ahead, market(text).features[first:-horizon:stride])

    found, freedom = statistic(MARTINGALE)
    assert freedom > 60 and found < chi_square_limit(freedom)
    found, freedom = statistic(SIGNAL)
    assert found > chi_square_limit(freedom)


# ---- signal --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beta", "persistence", "sigma"), [(0.1, 0.9, 4.0), (-0.3, 0.5, 2.0), (0.05, 0.98, 12.0), (0.2, 0.0, 4.0)]
)
def test_the_planted_parameters_are_recovered(beta: float, persistence: float, sigma: float) -> None:
    """beta by regression of the next change on the feature, the AR(1) coefficient, and both residuals' deviations."""
    planted = synthetic.signal(seed=31, sessions=300, beta=beta, persistence=persistence, sigma_ticks=sigma)
    known = planted.features[:-1, 42].astype(np.float64)
    scaled = np.diff(planted.columns.close) / sigma
    value, error = slope(scaled, known)
    assert abs(value - beta) < Z * error < 0.012
    assert np.std(scaled - beta * known) == pytest.approx(1.0, abs=Z / np.sqrt(2.0 * len(known)))
    series = planted.bars.extra["signal"]
    value, error = slope(series[1:], series[:-1])
    assert abs(value - persistence) < Z * error < 0.012
    rest = series[1:] - persistence * series[:-1]
    assert np.std(rest) == pytest.approx(np.sqrt(1.0 - persistence**2), rel=Z / np.sqrt(2.0 * len(rest)))
    assert autocorrelation_statistic(rest[None], 20) < chi_square_limit(20)


@pytest.mark.parametrize(("beta", "sigma"), [(0.66, 4.0), (0.7, 6.9), (-0.7, 20.0), (0.16, 1.0)])
def test_tails_of_the_signal_are_carried_in_full(beta: float, sigma: float) -> None:
    """At the largest beta, bars with a signal beyond 2.5 still move by beta sigma s."""
    planted = synthetic.signal(seed=32, sessions=300, beta=beta, persistence=0.0, sigma_ticks=sigma)
    known, change = planted.bars.extra["signal"][:-1], np.diff(planted.columns.close)
    far = np.abs(known) > 2.5
    value, error = slope(change[far], known[far])
    assert abs(value - beta * sigma) < Z * error < 0.06 * sigma


# ---- momentum and reversal -----------------------------------------------------------------------------------


def planted_score(x: F64, span: int) -> F64:
    """The average of past changes that drives the next bar, from prices alone, in its own deviations: as `x`."""
    weight = 2.0 / (span + 1.0)
    average, out = np.zeros(len(x)), np.empty_like(x)
    for minute in range(x.shape[1]):
        out[:, minute] = average
        average = average + weight * (x[:, minute] / SIGMA - average)
    return out / np.sqrt(weight / (2.0 - weight))


@pytest.mark.parametrize(("text", "strength", "span"), [(MOMENTUM, 0.1, 20), (REVERSAL, -0.2, 10)])
def test_the_planted_rule_earns_what_the_parameters_say(text: str, strength: float, span: int) -> None:
    """Following the sign of the score earns strength sigma E|score| a bar.

    The score is nearly an AR(1) series with coefficient a = 1 - w + b strength and innovation b, where
    w = 2 / (span + 1) and b = sqrt(w (2 - w)); so E|score| = sqrt(2 / pi) b / sqrt(1 - a a).
    """
    columns = market(text).columns
    whole = rows(columns.close) - rows(columns.open)
    score = planted_score(whole, span)
    drift = rows(market(text).bars.extra["drift"])
    np.testing.assert_allclose(drift, strength * SIGMA * np.clip(score, -3.0, 3.0), atol=1e-9)
    rule = np.sign(strength) * np.sign(score[:, 60:])
    earned = (rule * whole[:, 60:]).mean(axis=1)
    w = 2.0 / (span + 1.0)
    b = np.sqrt(w * (2.0 - w))
    a = 1.0 - w + b * strength
    said = abs(strength) * SIGMA * np.sqrt(2.0 / np.pi) * b / np.sqrt(1.0 - a * a)
    assert (rule * drift[:, 60:]).mean() == pytest.approx(said, rel=0.03)
    assert abs(earned.mean() - said) < Z * earned.std(ddof=1) / np.sqrt(len(earned)) + 0.03 * said
    assert mean_score(earned) > 10.0


@pytest.mark.parametrize(("text", "span"), [(MOMENTUM, 20), (REVERSAL, 10)])
def test_the_edge_is_invisible_without_past_prices(text: str, span: int) -> None:
    """Time, volume and range of the bar say nothing about the next change; the score made of past prices does."""
    columns = market(text).columns
    x = changes(text)
    ahead = x[:, 1:].ravel()
    minute = np.broadcast_to(np.arange(1, MINUTES - 1) / MINUTES, x[:, 1:].shape).ravel()
    volume, spread = rows(columns.volume)[:, 1:-1].ravel(), rows(columns.high - columns.low)[:, 1:-1].ravel()
    blind = np.stack([minute, minute**2, volume, spread, volume * spread], axis=1)
    found, freedom = regression_statistic(ahead, blind)
    assert found < chi_square_limit(freedom)
    score = planted_score(rows(columns.close) - rows(columns.open), span)[:, 2:].reshape(-1, 1)
    found, freedom = regression_statistic(ahead, score)
    assert found > 20.0 * chi_square_limit(freedom)


# ---- regimes -------------------------------------------------------------------------------------------------


def test_phases_persist_as_stated() -> None:
    """Stays of 120, 120 and 60 bars in the mean; either other phase follows; shares 2 : 2 : 1."""
    phase = rows(market(REGIMES).bars.extra["phase"])
    now, following = phase[:, :-1], phase[:, 1:]
    for state, stay in enumerate((1 - 1 / 120, 1 - 1 / 120, 1 - 1 / 60)):
        kept = following[now == state] == state
        assert abs(kept.mean() - stay) < Z * np.sqrt(stay * (1 - stay) / kept.size)
        left = following[(now == state) & (following != state)]
        first = (left == (state + 1) % 3).mean()
        assert abs(first - 0.5) < Z * 0.5 / np.sqrt(left.size)
        share = (phase == state).mean(axis=1)
        assert abs(mean_score(share - (0.4, 0.4, 0.2)[state])) < Z


def test_phases_trend_revert_and_shake() -> None:
    drift, phase = rows(market(REGIMES).bars.extra["drift"]), rows(market(REGIMES).bars.extra["phase"])
    columns = market(REGIMES).columns
    change = rows(columns.close) - rows(columns.open)
    same = phase[:, 1:] == phase[:, :-1]
    trend = same & (phase[:, 1:] == 0)
    assert (np.sign(drift[:, 1:])[trend] == np.sign(drift[:, :-1])[trend]).mean() > 0.99
    assert (drift[phase == 2] == 0.0).all()
    # Within a phase a trend continues, a range takes back: the sum of ten changes against the ten before.
    for state, sign in ((0, 1.0), (1, -1.0)):
        whole = np.all([phase[:, i : 370 + i] == state for i in range(20)], axis=0)
        total = np.cumsum(np.pad(change, ((0, 0), (1, 0))), axis=1)
        before, after = total[:, 10:380] - total[:, :370], total[:, 20:390] - total[:, 10:380]
        taken = np.where(whole, sign * np.sign(before) * after, 0.0).sum(axis=1) / np.maximum(
            whole.sum(axis=1), 1
        )
        assert mean_score(taken) > Z
    deviation = [change[phase == state].std() for state in range(3)]
    assert deviation[2] > 2.0 * deviation[0] > 2.0 * deviation[1]


def test_jumps_and_overnight_gaps_have_no_side() -> None:
    columns, phase = market(REGIMES).columns, rows(market(REGIMES).bars.extra["phase"])
    change = rows(columns.close) - rows(columns.open)
    large = np.abs(change) > 40.0
    assert large[phase == 2].mean() > 5.0 * large[phase != 2].mean()
    assert abs(mean_score(np.sign(change[large]))) < Z
    gap = rows(columns.open)[1:, 0] - rows(columns.close)[:-1, -1]
    assert abs(mean_score(gap)) < Z
    assert gap.std() == pytest.approx(30.0, rel=Z / np.sqrt(2.0 * len(gap)))


def test_the_default_market_is_built_in_a_second_and_kept() -> None:
    synthetic.regimes(seed=98, sessions=1)  # libraries are loaded once
    began = time.process_time()
    synthetic.regimes(seed=99)
    assert time.process_time() - began < 1.0
    assert synthetic.from_name("regimes:seed=0") is synthetic.from_name("regimes")


@pytest.mark.parametrize("name", list(synthetic.MARKETS))
def test_a_market_knows_how_it_was_made(name: str) -> None:
    made = synthetic.MARKETS[name](seed=6, sessions=3, sigma_ticks=5.5)
    again = synthetic.from_name(made.generator)
    np.testing.assert_array_equal(again.bars.close, made.bars.close)
    assert made.split(0.5, 0.5)[1].generator == again.generator == made.generator
