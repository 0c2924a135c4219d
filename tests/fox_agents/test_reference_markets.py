"""The scores know the right answers: the optimum scores 100 %, others what enumeration or the physics say."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from fox_agents import make, reference_scores
from fox_agents.fixed_rules import best_rules
from fox_agents.oracle import Oracle
from fox_agents.reference_markets import (
    FIRST_SCORING_SEED,
    REFERENCE_MARKETS,
    MarketOrderEnv,
    RuleAgent,
    contract_cost,
    planted_rule,
    reference_market,
)
from fox_agents.reference_scores import improved, martingale_test, score
from fox_agents.rules import Flat
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market
from fox_env._layout import Direction, Magnitude, OrderType, Urgency
from fox_env.errors import ConfigError, FoxError
from fox_env.optimum import REFERENCE, expected_money, signal_optimum

BARS = 100_000
SIGNAL, ORDERS = 42, slice(7, 10)


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


class Follower(Flat):
    """Full long or short by the sign of the signal beyond a threshold, else flat."""

    name = "follower"

    def __init__(self, threshold: float, order: OrderType = OrderType.MARKET) -> None:
        super().__init__()
        self.threshold, self.order = threshold, order

    def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
        signal = obs[:, SIGNAL]
        actions = np.tile(
            np.array([Direction.FLAT, Magnitude.FULL, self.order, Urgency.AGGRESSIVE]), (len(obs), 1)
        )
        actions[signal > self.threshold, 0] = Direction.LONG
        actions[signal < -self.threshold, 0] = Direction.SHORT
        return actions


class TorchFollower(Follower):
    output = "torch"

    def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
        return torch.from_numpy(super().act(obs.numpy(), deterministic=deterministic))


# ---- the known optimum ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["signal", "signal_strongest", "signal_dear", "sparse"])
def test_the_optimum_scores_one_hundred_percent(name: str) -> None:
    """Through the physics it earns on every window exactly what the account-free recursion says."""
    reference = reference_market(name)
    rule = planted_rule(reference)
    got = score(RuleAgent(rule), reference, BARS)
    assert got.answer == signal_optimum(reference.market(0, 2), reference.config).money_per_bar
    assert abs(got.share - 1.0) < 3.0 * got.share_error < 0.06
    assert got.adjusted_share == pytest.approx(1.0, abs=1e-9) and got.adjusted_error < 1e-9
    assert got.passed and not got.above_optimum
    assert got.bars >= BARS and got.other_orders == 0.0


def test_a_score_above_the_optimum_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit orders, were they let through: their bars count drift that came before the fill."""
    reference = reference_market("signal")

    class Limit(RuleAgent):
        def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
            actions = super().act(obs, deterministic=deterministic).copy()
            actions[:, 2:] = OrderType.LIMIT, Urgency.AGGRESSIVE
            return actions

    agent = Limit(planted_rule(reference))
    assert not score(agent, reference, 20_000).above_optimum
    monkeypatch.setattr(reference_scores, "MarketOrderEnv", FoxFuturesVectorEnv)
    got = score(agent, reference, 2 * BARS)
    assert got.above_optimum and got.share > 1.05 and got.realised.mean() < 0.95 * got.answer


def test_the_oracle_scores_it_from_the_observation_alone() -> None:
    reference = reference_market("signal")
    assert score(Oracle(), reference, BARS).adjusted_share == pytest.approx(1.0, abs=1e-9)


def test_other_policies_score_what_they_earn() -> None:
    reference = reference_market("signal_strong")
    flat, long = score(make("flat"), reference, 20_000), score(make("buy_and_hold"), reference, BARS)
    assert flat.money == flat.exposure == flat.contracts_traded == 0.0 and not flat.passed
    assert flat.share == flat.adjusted_share == flat.adjusted_error == 0.0
    assert long.exposure == 1.0 and abs(long.share) < 3.0 * long.share_error < 0.1
    reversed_rule = score(RuleAgent(planted_rule(reference), sign=-1.0), reference, BARS)
    assert reversed_rule.share < -1.0
    memoryless = score(Follower(0.0), reference, BARS)
    assert 0.7 < memoryless.share < 0.9 and not memoryless.passed
    assert abs(memoryless.adjusted_share - memoryless.share) < 3.0 * memoryless.share_error
    assert memoryless.adjusted_error < 0.7 * memoryless.share_error


def test_the_expectation_is_that_of_the_realised_money() -> None:
    """The two differ by the luck of the noise alone: 200 money a bar, held in every bar."""
    reference = reference_market("signal_strongest")
    got = score(RuleAgent(planted_rule(reference)), reference, BARS)
    error = got.realised.std(ddof=1) / np.sqrt(len(got.realised))
    assert abs(got.realised.mean() - got.money) < 3.0 * error < 0.05 * got.answer


def test_each_bar_is_scored_once_after_settling() -> None:
    """Against a plain loop over the environment with one account for each window."""
    reference = reference_market("signal")
    got = score(Follower(0.5), reference, 1_500)
    market = reference.market(FIRST_SCORING_SEED, 5)
    env = FoxFuturesVectorEnv(1, market, reference.config.replace(random_start=False), backend="cpu")
    sums, counted = np.zeros(3), []
    for window in range(3):
        obs, _ = env.reset(seed=0, options={"start": [market.first_ready + 500 * window]})
        for step in range(600):
            obs, _, _, _, info = env.step(Follower(0.5).act(obs, deterministic=True))
            if step >= 100:
                counted.append(int(info["bar_index"][0]))
                sums[window] += expected_money(market, info["bar_index"], info["position"], info["cost"])[0]
    assert len(set(counted)) == len(counted) == got.bars == 1_500
    # Windows of equal bars of another market length have the same prices: the generator draws by session.
    assert got.money == pytest.approx(sums.sum() / 1_500, rel=1e-9)


def test_torch_and_numpy_agents_score_alike() -> None:
    reference = reference_market("signal_strong")
    first, second = (score(kind(0.4), reference, 20_000) for kind in (Follower, TorchFollower))
    assert first.money == pytest.approx(second.money, rel=1e-12)
    assert first.exposure == second.exposure and 0.0 < first.exposure < 1.0


# ---- market orders only --------------------------------------------------------------------------------------


def test_limit_orders_become_market_orders() -> None:
    """Unforced, the expectation of a limit order's bar would count drift that came before its fill."""
    reference = reference_market("signal_strong")
    plain, limit = (score(Follower(0.4, order), reference, 20_000) for order in list(OrderType)[:2])
    assert (limit.money, limit.other_orders) == (plain.money, 1.0)


def test_the_training_environment_has_market_orders_alone() -> None:
    market = reference_market("signal").market(0, 3)
    arguments: Any = {"backend": "cpu", "seed": 3, "horizon": 5, "autoreset_mode": AutoresetMode.SAME_STEP}
    ours = MarketOrderEnv(8, market, REFERENCE, output="torch", info_level="learn", **arguments)
    theirs = FoxFuturesVectorEnv(8, market, REFERENCE, output="torch", info_level="learn", **arguments)
    np.testing.assert_array_equal(ours.reset()[0], theirs.reset()[0])
    rng = np.random.default_rng(0)
    for step in range(12):
        actions = torch.from_numpy(rng.integers(0, [4, 3, 3, 3], (8, 4)))
        asked = actions.clone()
        values = ours.step(actions)
        assert torch.equal(actions, asked)  # the caller's own
        asked[:, 2] = int(OrderType.MARKET)
        expected = theirs.step(asked)
        assert torch.equal(values[0], expected[0]) and torch.equal(values[1], expected[1])
        masks, whole = ours.action_masks(), theirs.action_masks()
        assert masks[:, ORDERS].tolist() == [[True, False, False]] * 8
        whole[:, 8:10] = False
        assert torch.equal(masks, whole)
        if step % 5 == 4:
            assert values[-1]["final_masks"][:, ORDERS].tolist() == [[True, False, False]] * 8
    discrete = MarketOrderEnv(2, market, REFERENCE, backend="cpu", action_type="discrete", seed=0)
    discrete.reset()
    assert discrete.action_masks().shape == (2, 8)
    discrete.step(np.array([0, 6]))


# ---- momentum and reversal -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["momentum", "reversal"])
def test_the_planted_rule_is_close_to_its_programme_and_above_its_sign(name: str) -> None:
    """The programme leaves out the openings and the limit of the drift: within 4 %."""
    reference = reference_market(name)
    rule = planted_rule(reference)
    got = score(RuleAgent(rule), reference, BARS)
    assert got.adjusted_share == got.share == pytest.approx(1.0, abs=1e-9)
    assert got.share_error < 1e-9
    assert got.answer == pytest.approx(rule.optimum.money_per_bar, rel=0.04)
    market = reference.market(FIRST_SCORING_SEED, 100)
    assert rule.score(market)[:-1].std() == pytest.approx(1.0, rel=0.05)

    class Sign(RuleAgent):
        def act(self, obs: Any, *, deterministic: bool, masks: Any = None) -> Any:
            return self._table[np.where(self._score[self._bar] > 0.0, -1, 0)]

    assert score(Sign(rule), reference, BARS).share < 0.95
    assert score(RuleAgent(rule, sign=-1.0), reference, BARS).share < -1.0


# ---- martingale and regimes ----------------------------------------------------------------------------------


def test_nothing_is_expected_on_a_martingale() -> None:
    reference = reference_market("martingale")
    got = score(make("random"), reference, BARS)
    assert got.money == pytest.approx(
        -contract_cost(reference.market(0, 2), REFERENCE) * got.contracts_traded
    )
    assert got.money < 0.0 and not got.passed and np.isnan(got.share)
    assert martingale_test(got.realised) > 0.5
    flat = score(make("flat"), reference, 20_000)
    assert flat.passed and martingale_test(flat.realised) == 1.0
    assert flat.to_dict()["share"] is None and "realised" not in flat.to_dict()


def test_the_martingale_test_has_its_level_and_finds_an_edge() -> None:
    rng = np.random.default_rng(0)
    level = np.mean([martingale_test(rng.standard_normal(1_000)) < 0.05 for _ in range(2_000)])
    assert 0.035 < level < 0.065
    assert martingale_test(0.2 + rng.standard_normal((10, 200))) < 1e-6
    assert martingale_test(-0.2 + rng.standard_normal((10, 200))) > 0.999


def test_the_best_fixed_rules_of_regimes() -> None:
    """Knowing the phase is worth more than any single rule; a rule played in the environment earns no more."""
    reference = reference_market("regimes")
    got = score(make("buy_and_hold"), reference, BARS)
    assert 0.0 < got.needed < got.answer and got.money < got.needed and not got.passed


def planted_regimes(drift: Any, phase: Any) -> Market:
    """Five sessions of the market with another drift and other phases."""
    market = reference_market("regimes").market(0, 5)
    extra = {"drift": np.broadcast_to(drift, len(market)), "phase": np.broadcast_to(phase, len(market))}
    return replace(market, bars=replace(market.bars, extra={k: v.astype(float) for k, v in extra.items()}))


def test_fixed_rules_by_hand() -> None:
    """Half a tick a bar for 4 contracts is 25 a bar; the best position was taken before the scored bars."""
    starts = np.array([600, 1_100])
    always = planted_regimes(0.5, 1.0)
    assert best_rules(always, starts, 400, size=4.0, cost=8.5) == pytest.approx((25.0, 25.0))
    assert best_rules(planted_regimes(0.0, 1.0), starts, 400, size=4.0, cost=8.5) == (0.0, 0.0)
    phase = np.arange(5 * 390) // 100 % 2  # the drift of a bar has the side of the phase before it
    market = planted_regimes(np.roll(np.where(phase == 0, 0.5, -0.5), 1), phase)
    together, single = best_rules(market, starts, 400, size=4.0, cost=8.5)
    assert together == pytest.approx(25.0 - 8.5 * 8.0 / 100.0) and single < 10.0


# ---- the table and refusals ----------------------------------------------------------------------------------


def test_the_table_has_the_markets_of_the_plan() -> None:
    kinds = {"martingale", "signal", "momentum", "reversal", "sparse", "regimes"}
    assert kinds <= set(REFERENCE_MARKETS)
    for reference in REFERENCE_MARKETS.values():
        config = reference.config
        assert (config.kelly, config.margin, config.impact_coef) == (False, False, 0.0)
        assert reference.market(1, 2).generator.startswith(reference.generator.split(":")[0])
    assert reference_market("sparse").config.reward == "trade"


def test_changes_name_themselves() -> None:
    changed = reference_market("signal", beta=0.3, half_spread_ticks=2.0)
    assert changed.name == "signal:beta=0.3,half_spread_ticks=2.0"
    assert changed.config.half_spread_ticks == 2.0 and "beta=0.3" in changed.market(5, 2).generator
    assert contract_cost(changed.market(5, 2), changed.config) == pytest.approx(2.0 * 12.5 + 2.25)


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="unknown reference market 'x'; they are martingale"):
        reference_market("x")
    with pytest.raises(ConfigError, match="unknown parameter 'betta'"):
        reference_market("signal", betta=0.3)
    with pytest.raises(ConfigError, match="no planted score"):
        planted_rule(reference_market("regimes"))
    agent: Any = Follower(0.0)
    agent.env_config = EnvConfig()
    with pytest.raises(ConfigError, match="was trained with"):
        score(agent, reference_market("signal"), 1_000)
    poor = reference_market("signal", initial_cash=1_000.0)
    with pytest.raises(FoxError, match="was ruined"):
        score(make("buy_and_hold"), poor, 2_000)


@pytest.mark.parametrize(
    ("money", "gap", "passes"),
    [(5.0, 0.5, True), (4.9, 0.5, False), (6.0, 0.02, False), (6.0, 0.2, True), (6.0, None, True)],
)
def test_an_agent_improves_unless_its_money_falls_or_its_values_collapse(
    money: float, gap: float | None, passes: bool
) -> None:
    reference = reference_market("sparse")
    assert reference.improves
    early = score(make("flat"), reference, 1_000, backend="cpu")
    early, late = replace(early, money=5.0), replace(early, money=money)
    assert improved(early, late, 0.5, gap) is passes
