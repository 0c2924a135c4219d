"""Scores of agents on the reference markets: expected money a bar on fresh bars, beside the known answer."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fox_agents.api import Agent, Planner
from fox_agents.evaluation import _own_backend
from fox_agents.fixed_rules import best_rules
from fox_agents.reference_markets import (
    FIRST_SCORING_SEED,
    MarketOrderEnv,
    PlantedRule,
    ReferenceMarket,
    contract_cost,
    planted_rule,
)
from fox_agents.trading_rules import evaluation_config, require_own_rules
from fox_env import EnvConfig, Market
from fox_env.errors import FoxError

__all__ = ["EARLY", "Score", "improved", "martingale_test", "score"]

Float = npt.NDArray[np.float64]

EARLY = 0.1
"""Share of its training after which an agent is scored for the first time where it has to improve."""

SCORED_BARS = 4_000_000
_MARKET_BARS = 1_000_000  # most bars of one scoring market, whose features take 344 bytes a bar
_SESSION_BARS = 390
_STEPS = 500  # scored bars of a window
_LEAST_GAP = 0.1  # of the early value gap; a critic that collapses loses orders of magnitude
_SETTLING = 100  # bars before them, in which the position leaves behind that it began flat


@dataclass(frozen=True, eq=False)
class Score:
    """What an agent earns on a reference market. Money is an expectation a bar, after costs, unless it says realised.

    Standard errors are over windows of 500 bars, each begun 100 bars earlier with a fresh account.
    """

    market: str
    """Name of the reference market."""
    agent: str
    """Name of the agent."""
    bars: int
    """Bars scored, each once."""
    money: float
    """Money a bar: drift of the bar times position times tick value, less costs."""
    error: float
    """Its standard error."""
    answer: float
    """Money a bar of the known answer; 0 for ``martingale``."""
    needed: float
    """Money a bar that passes."""
    share: float
    """`money` / `answer`; NaN where the answer is 0."""
    share_error: float
    """Its standard error."""
    adjusted_share: float
    """`share` without the luck of the signals: `share` - b (share of the optimum on the same bars - 1), b by regression
    over the windows (a control variate, Glasserman 2004, section 4.1); `share` itself where there is no optimum."""
    adjusted_error: float
    """Its standard error."""
    above_optimum: bool
    """Whether an agent beat what nobody can beat, by more than three errors and 0.3 %: a fault of the test."""
    exposure: float
    """Share of bars with a position."""
    contracts_traded: float
    """Contracts bought or sold a bar."""
    other_orders: float
    """Share of steps in which the agent asked for a limit or IOC order; it got a market order."""
    realised: Float
    """Realised change of equity, money a bar, of each window; with all luck."""

    @property
    def passed(self) -> bool:
        """Whether the money suffices; on ``martingale`` it cannot, and `martingale_test` judges the realised."""
        return self.money >= self.needed

    def to_dict(self) -> dict[str, Any]:
        """Plain values, None for NaN, with the realised money as mean and standard error."""
        mean, error = _mean(self.realised)
        plain = {**vars(self), "passed": self.passed, "realised_money": mean, "realised_error": error}
        del plain["realised"]
        return {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in plain.items()
        }


@dataclass(frozen=True, eq=False)
class _Played:
    """Sums over the scored bars of each window, arrays (windows,)."""

    money: Float
    realised: Float
    held: Float
    traded: Float
    other: Float


def score(
    agent: Agent,
    reference: ReferenceMarket,
    bars: int = SCORED_BARS,
    *,
    seed: int = FIRST_SCORING_SEED,
    backend: str = "auto",
    threads: int | None = None,
) -> Score:
    """Play ``agent`` greedily on fresh bars of a reference market and compare its expected money with the answer.

    Parameters
    ----------
    agent : Agent
        Acts greedily on (N, 128) observations, in the array kind of ``agent.output``. Orders of any type are market
        orders here.
    reference : ReferenceMarket
        What to trade; the agent's own rules must be its rules.
    bars : int
        Bars to score, at least; markets of a million bars are made from the seeds ``seed``, ``seed + 1``, ...
    backend : str
        As for `fox_agents.evaluate`.
    threads : int, optional
        CPU threads of the environment.

    Raises
    ------
    ConfigError
        The agent was trained under other rules.
    FoxError
        An account was ruined, so that its windows cannot be compared.
    """
    count = math.ceil(bars / _MARKET_BARS)
    windows = math.ceil(bars / count / _STEPS)
    rule = planted_rule(reference) if reference.answer in ("optimum", "planted rule") else None
    played, known, fixed = [], [], []
    for number in range(count):
        sessions = math.ceil((windows * _STEPS + _SETTLING + 241) / _SESSION_BARS)
        market = reference.market(seed + number, sessions)
        starts = market.first_ready + _STEPS * np.arange(windows)
        chosen = _own_backend(agent) if backend == "auto" else backend
        played.append(_play(agent, market, reference.config, starts, chosen, threads))
        if rule is not None:
            known.append(_rule_money(rule, market, starts))
        elif reference.answer == "fixed rules":
            cost = contract_cost(market, reference.config)
            fixed.append(best_rules(market, starts + _SETTLING, _STEPS, reference.config.max_position, cost))
    total = _Played(
        *(np.concatenate([getattr(p, name) for p in played]) / _STEPS for name in vars(played[0]))
    )
    if fixed:
        answer, needed = (float(np.mean(values)) for values in zip(*fixed, strict=True))
        return _score(agent, reference, total, answer, reference.bar * needed, None)
    if rule is None:
        return _score(agent, reference, total, 0.0, 0.0, None)
    rule_money = np.concatenate(known) / _STEPS
    answer = rule.optimum.money_per_bar if reference.answer == "optimum" else float(rule_money.mean())
    return _score(agent, reference, total, answer, reference.bar * answer, rule_money)


def improved(early: Score, late: Score, early_gap: float | None, late_gap: float | None) -> bool:
    """Whether an agent learned on, with a reward that comes rarely, instead of losing what it had.

    Parameters
    ----------
    early, late : Score
        After `EARLY` of the training and after all of it, on the same bars.
    early_gap, late_gap : float, optional
        Mean difference of the two best values of a direction then and now; None for agents without such values.

    Returns
    -------
    bool
        The money is no less, and the gap is at least a tenth of the early one.
    """
    kept = early_gap is None or late_gap is None or late_gap >= _LEAST_GAP * early_gap
    return kept and late.money >= early.money


def martingale_test(realised: Float) -> float:
    """One-sided p-value of "this agent made money", pooled over the windows of all seeds.

    Parameters
    ----------
    realised : float64 (n,)
        Realised money of windows that are independent under the null hypothesis, of at least 1,000 windows for the
        normal approximation.

    Returns
    -------
    float
        Probability of a mean this large, or larger, when the true mean is 0. Costs make the mean of an
        agent that trades a martingale negative, so that it stays far from small values. 1 for an agent that never
        traded.
    """
    mean, error = _mean(np.asarray(realised, dtype=np.float64).ravel())
    return (
        1.0 if error == 0.0 and mean <= 0.0 else 0.5 * math.erfc(mean / max(error, 1e-300) / math.sqrt(2.0))
    )


def _score(
    agent: Agent,
    reference: ReferenceMarket,
    total: _Played,
    answer: float,
    needed: float,
    rule_money: Float | None,
) -> Score:
    money, error = _mean(total.money)
    share = money / answer if answer else math.nan
    share_error = error / answer if answer else math.nan
    adjusted, adjusted_error = share, share_error
    if rule_money is not None and reference.answer == "optimum":
        spread = rule_money - rule_money.mean()
        slope = float(spread @ total.money) / float(spread @ spread)
        adjusted, adjusted_error = _mean((total.money - slope * (rule_money - answer)) / answer)
    elif rule_money is not None:  # the answer is the mean of these very windows: a ratio of two means
        share_error = adjusted_error = _mean((total.money - share * rule_money) / answer)[1]
    return Score(
        market=reference.name,
        agent=agent.name,
        bars=len(total.money) * _STEPS,
        money=money,
        error=error,
        answer=answer,
        needed=needed,
        share=share,
        share_error=share_error,
        adjusted_share=adjusted,
        adjusted_error=adjusted_error,
        above_optimum=reference.answer == "optimum" and adjusted - 1.0 > 3.0 * adjusted_error + 0.003,
        exposure=float(total.held.mean()),
        contracts_traded=float(total.traded.mean()),
        other_orders=float(total.other.mean()),
        realised=total.realised,
    )


def _mean(values: Float) -> tuple[float, float]:
    """Mean and its standard error, values taken as independent."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    return float(values.mean()), spread / math.sqrt(len(values))


def _play(
    agent: Agent, market: Market, config: EnvConfig, starts: Any, backend: str, threads: int | None
) -> _Played:
    """Play one window from each start; nothing waits for the device before the end."""
    trained: EnvConfig | None = getattr(agent, "env_config", None)
    if trained is not None:
        require_own_rules(trained, config, market.contract)
    env = MarketOrderEnv(
        len(starts),
        market,
        evaluation_config(config),
        backend=backend,
        output=agent.output,
        copy=False,
        trade_capacity=0,
        threads=threads,
    )
    try:
        if isinstance(agent, Planner):
            agent.prepare(env)
        drift: Any = market.bars.extra["drift"] * market.contract.tick_value
        if agent.output == "torch":
            import torch

            sums: Any = torch.zeros(5, len(starts), dtype=torch.float64, device=env.device)
            drift = torch.as_tensor(drift, device=env.device)
        else:
            sums = np.zeros((5, len(starts)))
        ended = _step_through(agent, env, starts, drift, sums)
    finally:
        env.close()
    if bool(ended.any()):
        raise FoxError(f"{agent.name} was ruined on {market.generator}; use rules without a capital floor")
    host: Float = sums if isinstance(sums, np.ndarray) else sums.cpu().numpy()
    return _Played(*host)


def _step_through(agent: Agent, env: MarketOrderEnv, starts: Any, drift: Any, sums: Any) -> Any:
    """Add what happened in the scored steps to ``sums``; return which accounts ended."""
    obs, _ = env.reset(seed=0, options={"start": starts})
    info = {name: env.outputs[f"info.{name}"] for name in ("bar_index", "position", "cost", "equity")}
    filled = env.outputs["info.fill_quantity"]
    ended: Any = False
    for step in range(_SETTLING + _STEPS):
        if step == _SETTLING:
            sums[1] -= info["equity"]
        actions = agent.act(obs, deterministic=True, masks=env.action_masks())
        obs, _, terminated, truncated, _ = env.step(actions)
        ended = ended | terminated | truncated
        if step < _SETTLING:
            continue
        position = info["position"]
        sums[0] += drift[info["bar_index"]] * position - info["cost"]
        sums[2] += position != 0
        sums[3] += abs(filled)
        sums[4] += actions[:, 2] != 0
    sums[1] += info["equity"]
    return ended


def _rule_money(rule: PlantedRule, market: Market, starts: Any) -> Float:
    """Expected money (windows,) of a planted rule in the scored bars of the windows, without the environment."""
    score_at, cost = rule.score(market), rule.contract_cost
    pay = rule.drift_ticks * market.contract.tick_value
    held, money = np.zeros(len(starts)), np.zeros(len(starts))
    for step in range(_SETTLING + _STEPS):
        known = score_at[starts + step]
        target = rule.optimum.target(known, held)
        if step >= _SETTLING:
            money += pay * known * target - cost * np.abs(target - held)
        held = target
    return money
