"""The interval of a Sharpe ratio covers the truth as often as it claims, where the truth is known to be 0.

On a martingale, without costs, no policy that takes prices as they come has an expected profit. (One with limit
orders does lose: they are filled when the price goes on against them.) So 0 is to be in the 95 % interval in 95 % of
runs. Accepted are the counts within the central 99 % of a binomial distribution of 0.95.
"""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fox_agents import evaluate
from fox_agents.rules import Random
from fox_agents.stats import bootstrap_intervals
from fox_env import EnvConfig, _layout, synthetic

FREE = EnvConfig(half_spread_ticks=0.0, fee_per_side=0.0, fee_rate=0.0, maker_fee=0.0, impact_coef=0.0)


class RandomTaker(Random):
    """Random directions and sizes, all by market orders."""

    def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
        actions = super().act(obs, deterministic=deterministic, masks=masks)
        actions[:, 2:] = _layout.OrderType.MARKET, _layout.Urgency.NORMAL
        return actions


def covering(runs: int, sessions: int) -> int:
    """Number of runs, each on a market of its own, whose interval has 0 inside."""
    count = 0
    for seed in range(runs):
        market = synthetic.martingale(seed=seed, sessions=sessions)
        result = evaluate(RandomTaker(config={"seed": seed}), market, FREE, backend="cpu")
        assert result.metrics["costs"] == 0.0 and result.metrics["n_trades"] > 10
        found = bootstrap_intervals(result.returns, market.bars_per_year, resamples=1000)["sharpe"]
        count += found.low <= 0.0 <= found.high
    return count


def test_a_random_agents_interval_covers_zero_quick() -> None:
    """40 runs: passes at 95 % with probability 0.99, catches a true rate of 70 % with probability 0.97."""
    least, most = binom.interval(0.99, 40, 0.95)
    assert binom.cdf(least - 1, 40, 0.7) > 0.97
    assert least <= covering(40, sessions=1) <= most


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_random_agents_interval_covers_zero_at_its_nominal_rate() -> None:
    """200 runs: catches a true rate of 85 % with probability 0.98, and one of 99.9 % with probability 0.98."""
    least, most = binom.interval(0.99, 200, 0.95)
    assert binom.cdf(least - 1, 200, 0.85) > 0.98
    assert binom.sf(most, 200, 0.999) > 0.98
    assert least <= covering(200, sessions=3) <= most


@pytest.mark.parametrize(("mean", "bars"), [(0.0, 100), (0.3, 200)])
def test_the_interval_of_independent_returns_covers_the_true_ratio(mean: float, bars: int) -> None:
    rng = np.random.default_rng(9)
    found = [
        bootstrap_intervals((rng.standard_normal(bars) + mean) * 1e-3, 1.0, resamples=300)["sharpe"]
        for _ in range(200)
    ]
    least, most = binom.interval(0.99, 200, 0.95)
    assert least <= sum(x.low <= mean <= x.high for x in found) <= most
