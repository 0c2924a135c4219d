"""Synthetic markets: same seed, same bits; the stated drift and nothing else; bars of tick paths."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fox_env import synthetic
from fox_env.errors import ConfigError
from fox_env.market import Market
from fox_env.synthetic.draws import Draws, autoregression
from fox_env.synthetic.paths import SUBSTEPS, BarLaw, _steps

MAKERS = list(synthetic.MARKETS)


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def by_session(market: Market, name: str) -> NDArray[np.float64]:
    """Prices in ticks, shape (sessions, minutes)."""
    column: NDArray[np.float64] = getattr(market.columns, name)
    return column.reshape(-1, 390)


def t_statistic(x: NDArray[np.float64]) -> float:
    return float(x.mean() / x.std(ddof=1) * np.sqrt(x.size))


def digest(market: Market) -> str:
    bars = market.bars
    columns = (bars.ts, bars.open, bars.high, bars.low, bars.close, bars.volume)
    return hashlib.sha256(b"".join(np.ascontiguousarray(c).tobytes() for c in columns)).hexdigest()[:16]


# ---- all markets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_same_seed_same_bits(name: str) -> None:
    maker = synthetic.MARKETS[name]
    one, two, other = (maker(seed=seed, sessions=4) for seed in (3, 3, 4))
    assert digest(one) == digest(two) != digest(other)
    np.testing.assert_array_equal(one.features, two.features)


def test_bits_of_the_default_market_are_pinned() -> None:
    # A change here changes every seeded result of users: say so in the changelog.
    assert digest(synthetic.regimes(seed=0, sessions=2)) == "dea01763d288c932"


@pytest.mark.parametrize("name", MAKERS)
def test_bars_belong_to_paths_on_the_grid(name: str) -> None:
    market = synthetic.MARKETS[name](seed=1, sessions=10)
    columns = market.columns
    assert market.contract.symbol == "SYN" and len(market) == 3900
    for prices in (columns.open, columns.high, columns.low, columns.close):
        np.testing.assert_array_equal(prices, np.rint(prices))
    np.testing.assert_array_equal(columns.volume, np.rint(columns.volume))
    assert columns.volume.min() > 0
    np.testing.assert_array_equal(by_session(market, "open")[:, 1:], by_session(market, "close")[:, :-1])
    assert np.corrcoef(columns.volume, columns.high - columns.low)[0, 1] > 0.25
    starts = np.flatnonzero(market.bars.gap)
    np.testing.assert_array_equal(starts, np.arange(390, 3900, 390))
    assert market.bars.session_end[389::390].all() and market.bars.session_end.sum() == 10


def test_sessions_are_weekdays_at_chicago_time() -> None:
    market = synthetic.regimes(seed=0, sessions=60)
    opening = market.bars.ts[::390].astype("datetime64[ns]") - np.timedelta64(1, "m")
    assert np.is_busday(opening.astype("datetime64[D]")).all()
    hours = (opening - opening.astype("datetime64[D]")) / np.timedelta64(1, "m")
    assert set(hours) == {14 * 60 + 30.0, 13 * 60 + 30.0}  # 08:30 in winter and summer


# ---- the path generator ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("drift", "sigma"), [(0.0, 1.0), (0.3, 4.0), (-0.8, 4.0), (2.0, 15.0), (0.0, 40.0)])
def test_steps_have_exactly_the_drift_and_variance(drift: float, sigma: float) -> None:
    count = 40_000
    law = BarLaw(np.full(count, drift), np.full(count, sigma), np.zeros(count))
    change = _steps(law, Draws(1)).sum(axis=1)
    assert abs(change.mean() - drift) < 4.0 * sigma / np.sqrt(count)
    assert change.var() == pytest.approx(sigma**2, rel=0.03)  # four standard errors


@pytest.mark.parametrize("sigma", [4.0, 9.0, 20.0, 300.0])
def test_changes_leave_out_no_tick(sigma: float) -> None:
    """Large moves are not multiples of anything: remainders by 2 and 3 are as frequent as sums of steps make them."""
    count = 30_000
    change = _steps(BarLaw(np.zeros(count), np.full(count, sigma), np.zeros(count)), Draws(5)).sum(axis=1)
    for divisor in (2, 3):
        share = np.bincount(change % divisor, minlength=divisor) / count
        assert share.min() > 0.8 / divisor


def test_jump_is_added_once_inside_the_bar() -> None:
    count = 1000
    law = BarLaw(np.zeros(count), np.full(count, 1e-6), np.full(count, -25.0))
    steps = _steps(law, Draws(2))
    np.testing.assert_array_equal(steps.sum(axis=1), -25)
    assert len(set(np.argmin(steps, axis=1))) > SUBSTEPS // 2


def test_normal_draws_and_autoregression() -> None:
    x = Draws(3).normal(200_000)
    assert abs(x.mean()) < 0.01 and x.var() == pytest.approx(1.0, abs=0.015)
    series = autoregression(Draws(4), 200_000, 0.9)
    assert series.var() == pytest.approx(1.0, abs=0.06)
    innovation = series[1:] - 0.9 * series[:-1]
    assert innovation.var() == pytest.approx(0.19, rel=0.02)
    assert abs(np.corrcoef(innovation[1:], innovation[:-1])[0, 1]) < 0.01


# ---- what each market contains -----------------------------------------------------------------------------


def test_martingale_has_no_drift_that_prices_could_show() -> None:
    """Eight statistics stay within 4 standard errors; a drift of 0.015 deviations fails with power > 0.95."""
    market = synthetic.martingale(seed=11, sessions=400)
    close, high, opening = (by_session(market, name) for name in ("close", "high", "open"))
    change = np.diff(close, axis=1)
    now, before = change[:, 20:], change[:, 19:-1]
    statistics = {
        "drift": now,
        "momentum over 1 bar": now * np.sign(before),
        "momentum over 20 bars": now * np.sign(close[:, 20:-1] - close[:, :-21]),
        "after a big move": now * before * (np.abs(before) > 8.0),
        "overnight": close[1:, 0] - close[:-1, -1],
        "after the gap": change[1:, 0] * np.sign(opening[1:, 0] - close[:-1, -1]),
        "after a close at the high": now * (close[:, 20:-1] == high[:, 20:-1]),
        "start of the session": change[:, :30],
    }
    for name, sample in statistics.items():
        assert abs(t_statistic(sample)) < 4.0, name
    assert now.size > (0.015 / (4.0 + 1.65)) ** -2


def test_martingale_has_clustered_volatility_and_fat_tails() -> None:
    market = synthetic.martingale(seed=5, sessions=200)
    change = np.diff(by_session(market, "close"), axis=1)
    size = np.abs(change)
    assert (change**4).mean() / (change**2).mean() ** 2 > 4.0
    assert np.corrcoef(size[:, :-1].ravel(), size[:, 1:].ravel())[0, 1] > 0.1
    day = size.mean(axis=0)
    assert day[:30].mean() > 1.2 * day[180:210].mean() and day[-30:].mean() > 1.2 * day[180:210].mean()


def test_signal_predicts_the_next_change_exactly() -> None:
    beta, sigma = 0.1, 4.0
    market = synthetic.signal(seed=2, sessions=400, beta=beta)
    observed = market.features[:, 42].astype(np.float64)
    np.testing.assert_array_equal(observed, market.bars.extra["signal"])
    close, opening = market.columns.close, market.columns.open
    np.testing.assert_array_equal(opening[1:], close[:-1])
    change, known = np.diff(close), observed[:-1]
    residual = change - beta * sigma * known
    error = sigma / np.sqrt(len(change))
    assert abs(residual.mean()) < 4 * error
    assert abs((residual * known).mean()) < 4 * error
    assert abs((residual * known**3).mean()) < 4 * error * np.sqrt((known**6).mean())
    assert residual.var() == pytest.approx(sigma**2, rel=0.02)
    assert (known[:-1] * known[1:]).mean() == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize(("name", "sign", "span"), [("momentum", 1.0, 20), ("reversal", -1.0, 10)])
def test_past_changes_predict_the_next_one(name: str, sign: float, span: int) -> None:
    market = synthetic.MARKETS[name](seed=6, sessions=200)
    change = np.diff(by_session(market, "close"), axis=1) / 4.0
    average, weight = np.zeros(200), 2.0 / (span + 1.0)
    earned = []
    for minute in range(change.shape[1]):
        earned.append(change[:, minute] * np.sign(average))
        average = average + weight * (change[:, minute] - average)
    assert sign * t_statistic(np.asarray(earned)) > 8.0


def test_regimes_cluster_jump_and_trend() -> None:
    market = synthetic.regimes(seed=3, sessions=200)
    close = by_session(market, "close")
    change = np.diff(close, axis=1)
    size = np.abs(change)
    assert (change**4).mean() / (change**2).mean() ** 2 > 6.0
    assert np.corrcoef(size[:, :-20].ravel(), size[:, 20:].ravel())[0, 1] > 0.1
    gap = by_session(market, "open")[1:, 0] - close[:-1, -1]
    assert 20.0 < gap.std() < 40.0
    # Trends: the efficient moves of the last 60 bars go on during the next 30.
    past, following = close[:, 60:-30] - close[:, :-90], close[:, 90:] - close[:, 60:-30]
    travelled = np.pad(np.cumsum(size, axis=1), ((0, 0), (1, 0)))
    efficient = np.abs(past) > 0.25 * (travelled[:, 60:-30] - travelled[:, :-90])
    assert t_statistic((np.sign(past) * following)[:, ::30][efficient[:, ::30]]) > 3.0


# ---- names and refusals ------------------------------------------------------------------------------------


def test_from_name() -> None:
    market = synthetic.from_name("regimes:seed=3, sessions=5")
    assert digest(market) == digest(synthetic.regimes(seed=3, sessions=5))
    assert synthetic.from_name("regimes:sessions=5,seed=3") is market
    assert len(synthetic.from_name("signal:sessions=2,beta=0.05,session_minutes=100")) == 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("regime", "did you mean 'regimes'"),
        ("zzz", "known are regimes, martingale"),
        ("regimes:sed=1", "did you mean 'seed'"),
        ("regimes:seed=x", "seed must be an integer, got 'x'"),
        ("regimes:seed=1.5", "seed must be an integer"),
        ("signal:beta=high", "beta must be a number"),
        ("regimes:seed=-1", "integer of 0 or more"),
        ("regimes:sessions=0", "sessions must be at least 1"),
        ("regimes:session_minutes=1", "session_minutes must be 2 to 1380"),
        ("regimes:sigma_ticks=0.1", "sigma_ticks must be within 1 and 1000"),
        ("signal:beta=1", "beta must be within"),
        ("signal:persistence=1", "persistence must be within"),
        ("momentum:strength=0", "strength must be within"),
        ("momentum:span=0", "span must be at least 1"),
        ("reversal:strength=1,sigma_ticks=2", "at least 3 x strength"),
    ],
)
def test_bad_names_are_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        synthetic.from_name(text)


def test_one_session_and_no_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(synthetic.regimes(seed=0, sessions=1)) == 390
