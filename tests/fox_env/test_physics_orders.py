"""What limits or delays an order: Kelly cap, minimum hold, latency, price limits, session gaps, the day's margins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from physics_scenario import (
    AGGRESSIVE,
    BUY,
    CLOSE,
    FREE,
    FULL,
    IOC,
    KEEP,
    LIMIT,
    LONG,
    NORMAL,
    PATIENT,
    QUARTER,
    RISING,
    SELL,
    SHORT,
    Case,
    check,
    make_account,
    make_market,
    named,
    play,
    still,
)

from fox_env import ConfigError, EnvConfig, _layout
from fox_env._layout import ExitReason, OrderStatus, Portfolio

DAY = 24 * 60
KELLY: dict[str, Any] = {**FREE, "kelly": True, "max_position": 20.0}
DAY_MARGIN = {"day_initial_margin": 100.0, "day_maintenance_margin": 90.0}
TODAY = {"close_today_fee": 5.0}
HARD: dict[str, Any] = {"min_hold_bars": 3, "min_hold": "hard"}


def entry(obs: Any, name: str) -> float:
    """An entry of the portfolio block of one observation."""
    return float(obs[_layout.Observation.PORTFOLIO + Portfolio[name]])


CASES = [
    Case(
        "without a record the Kelly cap is half the limit",
        still(100, 100, 100),
        [BUY],
        [{"position": 10, "order_status": OrderStatus.KELLY}],
        options=KELLY,
    ),
    Case(
        "the safety factor multiplies it",
        still(100, 100, 100),
        [BUY],
        [{"position": 5}],
        options={**KELLY, "kelly_safety": 0.5},
    ),
    Case(
        "a lot is always allowed",
        still(100, 100, 100),
        [BUY],
        [{"position": 1}],
        options={**KELLY, "kelly_safety": 0.0},
    ),
    Case(  # W 0, losses 1, loss 1 %: p 1/3, f 0, maturity 0.1, so 0.9 / 2 of 20
        "a losing trade lowers it a little, as one trade says little",
        still(100, 100, 98, 98, 98),
        [BUY, CLOSE, BUY],
        [{"position": 10}, {"trade_return": -0.01}, {"position": 9, "order_status": OrderStatus.KELLY}],
        options=KELLY,
    ),
    Case(
        "the Kelly cap never reduces a position",
        still(100, 100, 98, 98, 98, 98),
        [BUY, KEEP, BUY],
        [{"position": 10}, {"position": 10}, {"position": 10}],
        options=KELLY,
    ),
    Case(
        "the tighter cap is named",
        still(100, 100, 100),
        [BUY],
        [{"position": 3, "order_status": OrderStatus.MARGIN}],
        options={**KELLY, "margin": "close", "initial_cash": 3_000.0},
    ),
    Case(
        "a hard minimum hold keeps a trade until its bars are over",
        still(*[100] * 6),
        [BUY, CLOSE, SELL, CLOSE],
        [
            {"position": 2, "order_status": OrderStatus.FILLED},
            {"position": 2, "order_status": OrderStatus.MIN_HOLD},
            {"position": 2, "order_status": OrderStatus.MIN_HOLD},
            {"position": 0, "trade_bars": 3},
        ],
        options=HARD,
    ),
    Case(
        "a soft one does not",
        still(*[100] * 6),
        [BUY, CLOSE],
        [{"position": 2}, {"position": 0}],
        options={"min_hold_bars": 3},
    ),
    Case(
        "with latency an order is executed one bar later",
        RISING,
        [BUY, KEEP, CLOSE, KEEP],
        [
            {"position": 0, "cost": 0, "order_status": OrderStatus.NONE},
            {"position": 2, "fill_price": 101.625, "order_status": OrderStatus.FILLED},
            {"position": 2, "fill_quantity": 0},
            {"position": 0, "fill_price": 99.875},
        ],
        options={"latency_bars": 1},
    ),
    Case(
        "a limit that was under way refers to the close it was decided at",
        [(100, 100, 100, 100), (104, 104, 104, 104), (100, 101, 99.25, 100), (100, 100, 100, 100)],
        [(LONG, FULL, LIMIT, PATIENT), KEEP],
        [{"position": 0}, {"position": 2, "fill_price": 99.5}],
        options={"latency_bars": 1},
    ),
    Case(
        "an order under way moves with the contract over a roll",
        [(100, 100, 100, 100), (104, 104, 104, 104), (110, 111, 109.25, 110), (110, 110, 110, 110)],
        [(LONG, FULL, LIMIT, PATIENT), KEEP],
        [{"position": 0}, {"position": 2, "fill_price": 109.5}],
        options={"latency_bars": 1},
        rolls={2: 10.0},
    ),
    Case(
        "conviction goes with the order under way",
        still(*[100] * 5),
        [BUY, KEEP, KEEP],
        [{"position": 0}, {"position": 10}, {"position": 10}],
        options={"latency_bars": 1, "max_position": 20.0},
        conviction=[0.5, 1.0, 0.0],
    ),
    Case(
        "a session gap cancels a limit order",
        [*still(100, 100, 100), (100, 100.5, 98, 100), (100, 100, 100, 100)],
        [(LONG, FULL, LIMIT, PATIENT)],
        [{"position": 0, "order_status": OrderStatus.UNFILLED}],
        minutes=[0, 1, 2, 300, 301],
        start=2,
    ),
    Case(
        "unless it is good till cancelled",
        [*still(100, 100, 100), (100, 100.5, 98, 100), (100, 100, 100, 100)],
        [(LONG, FULL, LIMIT, PATIENT)],
        [{"position": 2, "fill_price": 99.5}],
        minutes=[0, 1, 2, 300, 301],
        start=2,
        options={"gtc": True},
    ),
    Case(
        "also the gap that an order under way has behind it",
        [*still(100, 100, 100, 100), (100, 100.5, 98, 100), (100, 100, 100, 100)],
        [(LONG, FULL, LIMIT, PATIENT), KEEP],
        [{"position": 0}, {"position": 0, "order_status": OrderStatus.UNFILLED}],
        minutes=[0, 1, 2, 300, 301, 302],
        start=2,
        options={"latency_bars": 1},
    ),
    Case(
        "the day's margins allow more than may be held overnight",
        still(100, 100, 100, 100, 100),
        [BUY, KEEP, KEEP],
        [
            {"position": 2},
            {"position": 0, "exit_reason": ExitReason.MARGIN},
            {"position": 0},
        ],
        spec=DAY_MARGIN,
        options={"margin": "close", "initial_cash": 1_500.0},
        minutes=[0, 1, 2, DAY, DAY + 1],
    ),
    Case(
        "who has the overnight margin keeps the position",
        still(100, 100, 100, 100, 100),
        [BUY, KEEP, KEEP],
        [{"position": 2}, {"position": 2}, {"position": 2}],
        spec=DAY_MARGIN,
        options={"margin": "close", "initial_cash": 1_850.0},
        minutes=[0, 1, 2, DAY, DAY + 1],
    ),
    Case(
        "closing what was opened today has a fee of its own",
        still(100, 100, 100, 100),
        [BUY, CLOSE],
        [{"fees": 2 * 2.0}, {"fees": 2 * 5.0}],
        spec=TODAY,
    ),
    Case(
        "closing what was opened yesterday has not",
        still(100, 100, 100, 100, 100),
        [BUY, KEEP, CLOSE],
        [{"fees": 2 * 2.0}, {"fees": 0}, {"fees": 2 * 2.0}],
        spec=TODAY,
        minutes=[0, 1, DAY, DAY + 1, DAY + 2],
    ),
    Case(
        "yesterday's lots are closed first",
        still(100, 100, 100, 100, 100, 100),
        [(LONG, QUARTER, 0, NORMAL), BUY, (LONG, QUARTER, 0, NORMAL), CLOSE],
        [
            {"position": 1, "fees": 2.0},
            {"position": 4, "fees": 6.0},
            {"position": 1, "fees": 12.0},
            {"fees": 5.0},
        ],
        spec=TODAY,
        options={"max_position": 4.0},
        minutes=[0, 1, DAY, DAY + 1, DAY + 2, DAY + 3],
    ),
    Case(
        "a flip pays today's fee on what it closes only",
        still(100, 100, 100, 100),
        [BUY, SELL],
        [{"fees": 4.0}, {"fees": 2 * 5.0 + 2 * 2.0}],
        spec=TODAY,
    ),
]


@named(CASES)
def test_case(case: Case) -> None:
    check(case)


class TestKellyRecord:
    def played(self, prices: list[float], **options: Any) -> Any:
        env = make_account(make_market(still(*prices)), **{**KELLY, **options})
        play(env, [BUY, CLOSE] * ((len(prices) - 1) // 2))
        return env

    def allowed(self, env: Any) -> float:
        return float(env.step(np.array([BUY]))[4]["position"][0])

    def test_it_is_kept_over_episodes_and_cleared_by_seeding(self) -> None:
        env = self.played([100, 100, 98])
        env.reset(options={"start": [0]})
        assert self.allowed(env) == 9.0
        env.reset(seed=1, options={"start": [0]})
        assert self.allowed(env) == 10.0

    def test_a_losing_record_leaves_the_floor(self) -> None:
        env = self.played([100, 100] + [100 - k // 2 for k in range(99)], initial_cash=1e6)
        env.reset(options={"start": [0]})
        obs, *_, info = env.step(np.array([BUY]))
        assert info["position"][0] == 5.0 and entry(obs[0], "KELLY_CAP") == pytest.approx(0.25)

    def test_a_winning_record_leaves_more_than_half(self) -> None:
        env = self.played([100, 100] + [100 + k // 2 for k in range(99)], initial_cash=1e6)
        env.reset(options={"start": [0]})
        assert self.allowed(env) > 15.0

    def test_floor_and_safety_are_knobs_of_the_physics(self) -> None:
        env = self.played([100, 100] + [100 - k // 2 for k in range(99)], initial_cash=1e6)
        env.set_knob("kelly_floor", 0.5)
        env.set_knob("kelly_safety", 0.8)
        env.reset(options={"start": [0]})
        assert self.allowed(env) == 8.0


class TestMinimumHold:
    def test_only_hold_is_distinct_in_a_young_trade_and_the_observation_counts_down(self) -> None:
        env = make_account(make_market(still(*[100] * 8)), **HARD)
        steps = play(env, [BUY])
        assert np.flatnonzero(env.action_masks()[0, :4]).tolist() == [_layout.Direction.HOLD]
        left = [entry(steps[0]["obs"], "MIN_HOLD_LEFT")]
        for _ in range(3):
            left.append(entry(env.step(np.array([KEEP]))[0][0], "MIN_HOLD_LEFT"))
        assert left == pytest.approx([2 / 3, 1 / 3, 0, 0])
        assert env.action_masks()[0, _layout.Direction.FLAT]

    def test_stops_and_liquidations_do_not_wait(self) -> None:
        bars = [(100, 100.5, 99.5, 100)] * 20 + [(99, 99, 90, 90)]
        steps = play(make_account(make_market(bars), trail_atr=(2.0, 2.0), **HARD), [BUY, KEEP], start=18)
        assert steps[1]["exit_reason"] == ExitReason.STOP


class TestLatency:
    def test_the_order_under_way_is_in_the_observation_and_unmasks_every_action(self) -> None:
        env = make_account(make_market(still(*[100] * 6)), latency_bars=1)
        steps = play(env, [BUY])
        assert entry(steps[0]["obs"], "ORDER_UNDER_WAY") == 1.0
        assert env.action_masks().all()
        obs = env.step(np.array([KEEP]))[0]
        assert entry(obs[0], "ORDER_UNDER_WAY") == 0.0

    def test_while_flat_with_nothing_under_way_masks_are_those_of_the_state(self) -> None:
        late, prompt = (make_account(make_market(still(*[100] * 6)), latency_bars=bars) for bars in (1, 0))
        for env in (late, prompt):
            play(env, [KEEP])
        assert (
            late.action_masks().tolist() == prompt.action_masks().tolist() and not late.action_masks().all()
        )

    def test_a_new_episode_has_nothing_under_way(self) -> None:
        env = make_account(make_market(still(*[100] * 9)), latency_bars=1, horizon=2)
        play(env, [KEEP, BUY])  # the last order of the episode
        env.step(np.array([KEEP]))  # the reset
        assert env.step(np.array([KEEP]))[4]["position"][0] == 0.0

    def test_branches_are_those_of_the_order_that_the_action_will_lead_to(self) -> None:
        env = make_account(make_market(still(*[100] * 9)), latency_bars=1)
        steps = play(env, [BUY, BUY, KEEP])
        assert steps[0]["branch_active"].tolist() == [True] * 4
        assert steps[1]["branch_active"].tolist() == [True, True, False, False]  # at the target by then

    def test_in_a_position_no_action_is_masked_since_a_bar_passes_first(self) -> None:
        options = {"latency_bars": 1, **HARD}
        env = make_account(make_market(still(*[100] * 9)), **options)
        steps = play(env, [BUY, KEEP])
        assert steps[1]["position"] == 2.0 and env.action_masks().all()
        assert entry(steps[1]["obs"], "MIN_HOLD_LEFT") == pytest.approx(
            1 / 3
        )  # an exit decided now is 2 bars away

    def test_a_size_without_effect_under_a_small_conviction_is_not_active(self) -> None:
        env = make_account(make_market(still(*[100] * 9)), latency_bars=1)
        factors = [0.1, 0.0, 1.0]  # of two lots: one, none, two
        steps = play(env, [BUY, BUY, BUY], conviction=factors)
        assert [step["branch_active"][1] for step in steps] == [False, False, True]

    def test_more_than_a_bar_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="latency_bars=2 must be 0 or 1"):
            EnvConfig(latency_bars=2)


class TestPriceLimits:
    """A bar that lies at the limit as a whole is locked on one side."""

    def market(self, bars: Any, **limits: dict[int, float]) -> Any:
        extra = {}
        for name, at in limits.items():
            extra[name] = np.full(len(bars), np.nan)
            for bar, price in at.items():
                extra[name][bar] = price
        return make_market(bars, extra=extra)

    @pytest.mark.parametrize(("limit", "unfilled"), [("upper_limit", BUY), ("lower_limit", SELL)])
    def test_the_locked_side_fills_nothing(self, limit: str, unfilled: Any) -> None:
        env = make_account(self.market(still(100, 104, 104), **{limit: {1: 104}}))
        for action in (BUY, SELL):
            step = play(env, [action])[0]
            assert (step["position"] == 0) == (action == unfilled)
            assert step["order_status"] == (
                OrderStatus.UNFILLED if action == unfilled else OrderStatus.FILLED
            )

    def test_a_bar_that_only_touches_its_limit_trades(self) -> None:
        env = make_account(
            self.market([*still(100), (100, 104, 100, 104), *still(104)], upper_limit={1: 104})
        )
        assert play(env, [BUY])[0]["position"] == 2.0

    @pytest.mark.parametrize(
        ("limit", "opens", "unfilled", "resting"),
        [("upper_limit", 104, BUY, LONG), ("lower_limit", 96, SELL, SHORT)],
    )
    def test_nobody_is_on_the_other_side_of_an_open_at_the_limit(
        self, limit: str, opens: float, unfilled: Any, resting: int
    ) -> None:
        low, high = sorted((100.0, opens))
        bars = [*still(100), (opens, high, low, 100), *still(100)]
        market = self.market(bars, **{limit: {1: opens}})
        for action in (BUY, SELL):
            step = play(make_account(market), [action])[0]
            assert step["order_status"] == (
                OrderStatus.UNFILLED if action == unfilled else OrderStatus.FILLED
            )
        at_close = (resting, FULL, LIMIT, AGGRESSIVE)
        step = play(make_account(market, queue_prob=1.0), [at_close])[0]
        assert abs(step["position"]) == 2.0 and step["fill_price"] == 100.0 and step["spread_cost"] == 0.0
        ioc = (resting, FULL, IOC, AGGRESSIVE)
        far = make_account(market, ioc_tolerance_ticks=(0.0, 0.0, 99.0))
        assert play(far, [ioc])[0]["order_status"] == OrderStatus.UNFILLED

    def test_limits_beside_the_bars_or_missing_lock_nothing(self) -> None:
        for limit in (-np.inf, np.inf, np.nan, 0.0, 200.0):
            env = make_account(
                self.market(still(100, 104, 104), upper_limit={1: limit}, lower_limit={1: limit})
            )
            assert play(env, [BUY])[0]["position"] == 2.0 and play(env, [SELL])[0]["position"] == -2.0

    def test_a_stop_waits_for_a_buyer(self) -> None:
        bars = [(100, 100.5, 99.5, 100)] * 20 + still(96, 95, 94)
        market = self.market(bars, lower_limit={20: 96})
        steps = play(make_account(market, trail_atr=(2.0, 2.0), **FREE), [BUY, KEEP, KEEP], start=18)
        assert steps[1]["position"] == 2.0
        assert steps[2]["exit_reason"] == ExitReason.STOP and steps[2]["equity"] == 100_000 - 2 * 5 * 50

    def test_a_margin_call_waits_too(self) -> None:
        market = self.market(still(100, 100, 90, 89, 88), lower_limit={2: 90})
        env = make_account(market, margin="close", initial_cash=2_500.0, capital_floor=0.0, **FREE)
        steps = play(env, [BUY, KEEP, KEEP])
        assert [step["position"] for step in steps] == [2.0, 2.0, 0.0]
        assert steps[2]["exit_reason"] == ExitReason.MARGIN

    def test_nothing_is_liquidated_in_a_bar_without_volume(self) -> None:
        market = make_market(still(100, 100, 90, 89, 88), volume=[1e6, 1e6, 0, 1e6, 1e6])
        env = make_account(market, margin="close", initial_cash=2_500.0, capital_floor=0.0, **FREE)
        assert [step["position"] for step in play(env, [BUY, KEEP, KEEP])] == [2.0, 2.0, 0.0]

    def test_a_session_that_cannot_be_left_is_left_in_the_next_bar_that_trades(self) -> None:
        market = make_market(
            still(100, 100, 100, 101, 102, 103),
            volume=[1e6, 1e6, 0, 0, 1e6, 1e6],
            minutes=[0, 1, 2, 600, 601, 602],
        )
        env = make_account(market, flat_at_session_end=True, **FREE)
        steps = play(env, [BUY, KEEP, KEEP, KEEP, BUY])
        assert [step["position"] for step in steps[:4]] == [2.0, 2.0, 2.0, 0.0]
        assert steps[3]["exit_reason"] == ExitReason.SESSION
        assert steps[3]["equity"] == 100_000 + 2 * 2 * 50

    def test_a_trade_begun_after_the_session_is_held(self) -> None:
        market = make_market(
            still(100, 100, 100, 100, 100), volume=[1e6, 1e6, 0, 1e6, 1e6], minutes=[0, 1, 2, 600, 601]
        )
        env = make_account(market, flat_at_session_end=True, **FREE)
        assert [step["position"] for step in play(env, [BUY, KEEP, SELL])] == [2.0, 2.0, -2.0]
        late = [step["position"] for step in play(env, [KEEP, KEEP, BUY])]
        assert late == [0.0, 0.0, 2.0]

    def test_the_overnight_margin_is_asked_for_in_the_next_bar_that_trades(self) -> None:
        market = make_market(
            still(*[100] * 7), volume=[1e6, 1e6, 0, 0, 1e6, 1e6, 1e6],
            minutes=[0, 1, 2, DAY, DAY + 1, DAY + 2, DAY + 3], spec=DAY_MARGIN,
        )  # fmt: skip
        env = make_account(market, margin="close", initial_cash=1_500.0, **FREE)
        steps = play(env, [BUY, KEEP, KEEP, KEEP, BUY])
        assert [step["position"] for step in steps] == [2.0, 2.0, 2.0, 0.0, 2.0]
        assert steps[3]["exit_reason"] == ExitReason.MARGIN
        rich = make_account(market, margin="close", initial_cash=1_850.0, **FREE)
        assert [step["position"] for step in play(rich, [BUY, KEEP, KEEP, KEEP])] == [2.0] * 4


class TestOffGridRoll:
    def test_levels_stay_on_the_tick_grid(self) -> None:
        bars = (
            [(100, 100.5, 99.5, 100)] * 20
            + [(105.125, 105.625, 104.625, 105.125)] * 2
            + still(100.125, 100.125)
        )
        market = make_market(bars, rolls={20: 5.125})
        options = {"trail_atr": (2.0, 2.0), **FREE}
        steps = play(make_account(market, **options), [BUY, KEEP, KEEP, KEEP], start=18)
        exits = [step for step in steps if step["exit_reason"] == ExitReason.STOP]
        assert exits and float(exits[0]["equity"]) == pytest.approx(100_000 + 2 * (100.125 - 105.125) * 50)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_hold": "firm"}, "min_hold='firm' must be 'soft' or 'hard'"),
        ({"min_hold_bars": -1}, "min_hold_bars=-1 must be a whole number"),
        ({"kelly": 1}, "kelly=1 must be True or False"),
        ({"kelly_safety": 1.5}, "kelly_safety=1.5 must lie between 0 and 1"),
        ({"gtc": "yes"}, "gtc='yes' must be True or False"),
        ({"counterfactual": True, "latency_bars": 1}, "use latency_bars=0"),
        ({"initial_cash": 10**400}, "initial_cash=.* must be a finite number"),
        ({"reward": np.array(["risk", "trade"])}, "reward=.* must be one of"),
        ({"margin": [False]}, "margin=.* must be False"),
        ({"profit_target_atr": np.array([1.0, 2.0])}, "profit_target_atr=.* must be above 0"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EnvConfig(**options)
