"""The replay: what a stored transition gives back, n-step sums across autoreset, wrap-around, counterfactuals."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium.vector import AutoresetMode  # noqa: E402
from nstep_reference import Stream, stream, windows  # noqa: E402

from fox_agents.dqn.market_table import MarketTable  # noqa: E402
from fox_agents.dqn.replay import Batch, Replay, bytes_per_slot  # noqa: E402
from fox_env import EnvConfig, FoxFuturesVectorEnv, Market, synthetic  # noqa: E402
from fox_env.errors import ConfigError  # noqa: E402

GAMMA = 0.75
CPU = torch.device("cpu")
ONE, ZERO = torch.ones(()), torch.zeros(())


@pytest.fixture(scope="module")
def market() -> Market:
    return synthetic.regimes(seed=0, sessions=3)


def table(market: Market, envs: int) -> MarketTable:
    return MarketTable([market], np.zeros(envs, np.int32), 5, CPU)


def observation(number: float, envs: int = 1) -> Any:
    """An observation that can be told from others by its first account entry."""
    made = torch.zeros(envs, 128)
    made[:, 86] = number
    return made


def fill(replay: Replay, steps: Stream) -> None:
    """Store a stream of one environment; every state gets the bar of its number."""
    mask = torch.ones(1, 13, dtype=torch.bool)
    replay.begin(observation(steps.observation[0]), torch.tensor([0]), mask)
    for k, reward in enumerate(steps.reward):
        done = steps.terminated[k] or steps.truncated[k]
        replay.add(
            action=torch.tensor([[k % 4, 0, 1, 2]]),
            active=torch.tensor([[True, k % 2 == 0, False, True]]),
            reward=torch.tensor([reward]),
            terminated=torch.tensor([steps.terminated[k]]),
            done=torch.tensor([done]),
            final_observation=observation(steps.after[k]),
            final_mask=mask,
            next_observation=observation(steps.returned[k]),
            next_bar=torch.tensor([0]),
            next_mask=mask,
            alpha=ZERO,
        )


def draw(replay: Replay, n_step: int, count: int = 4000) -> Batch:
    uniform = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return replay.sample(uniform, n_step, GAMMA, ZERO)


def facts(batch: Batch) -> set[tuple[float, ...]]:
    """Distinct (state, reward, discount, state to bootstrap from)."""
    columns = (batch.observation[:, 86], batch.reward, batch.discount, batch.next_observation[:, 86])
    return {tuple(round(float(v), 5) for v in row) for row in torch.stack(columns, dim=1)}


@pytest.mark.parametrize("n_step", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [64, 17])
def test_n_step_returns_equal_the_plain_reference(market: Market, n_step: int, rows: int) -> None:
    """Also after the ring went round: then exactly the newest transitions are left, each with its right target."""
    replay, steps = Replay(rows, table(market, 1), False, CPU), stream(40, seed=rows)
    fill(replay, steps)
    wanted = windows(steps.reward, steps.terminated, steps.truncated, n_step, GAMMA)
    all_facts = {
        (steps.observation[k], round(w.reward, 5), round(w.discount, 5), steps.after[w.last])
        for k, w in enumerate(wanted)
    }
    found = facts(draw(replay, n_step))
    after_termination = {f for f in all_facts if f[2] == 0.0}
    assert found <= all_facts and found & after_termination
    kept = sorted(state for state, *_ in found)
    assert (
        kept == sorted(steps.observation)[-len(kept) :]
    )  # the oldest were overwritten, nothing else is missing
    assert len(kept) == 40 if rows == 64 else len(kept) >= rows // 2


def test_a_time_limit_keeps_its_value_and_ruin_does_not(market: Market) -> None:
    """Reward 0.5, then a value of 2 at gamma 0.99: 2.48 where the data ended, 0.5 after ruin, also on the last bar."""
    replay = Replay(4, table(market, 3), False, CPU)
    mask = torch.ones(3, 13, dtype=torch.bool)
    replay.begin(observation(1.0, 3), torch.zeros(3), mask)
    replay.add(
        action=torch.zeros(3, 4), active=torch.ones(3, 4), reward=torch.full((3,), 0.5),
        terminated=torch.tensor([False, True, True]), done=torch.tensor([True, True, True]),
        final_observation=observation(2.0, 3), final_mask=mask, next_observation=observation(3.0, 3),
        next_bar=torch.zeros(3), next_mask=mask, alpha=ZERO,
    )  # fmt: skip
    uniform = torch.linspace(0.0, 0.999, 30, dtype=torch.float64)
    batch = replay.sample(uniform, 1, 0.99, ZERO)
    targets = batch.reward + batch.discount * 2.0
    assert {round(float(v), 6) for v in targets} == {2.48, 0.5}
    assert (batch.next_observation[:, 86] == 2.0).all()  # never the next episode's first state


def environment(market: Market, rules: EnvConfig, envs: int = 6) -> FoxFuturesVectorEnv:
    return FoxFuturesVectorEnv(
        envs, market, rules, backend="cpu", output="torch", autoreset_mode=AutoresetMode.SAME_STEP,
        copy=True, info_level="learn",
    )  # fmt: skip


def played(market: Market, rules: EnvConfig, steps: int) -> tuple[Replay, list[dict[str, Any]]]:
    """A replay fed by random play, and what the environment said at every step."""
    env = environment(market, rules)
    table = MarketTable(env.markets, env.market_of, 5, CPU)
    replay = Replay(2 * steps, table, rules.counterfactual, CPU)
    obs, info = env.reset(seed=0)
    masks = env.action_masks().clone()
    replay.begin(obs, info["bar_index"], masks)
    rng, notes = np.random.default_rng(0), []
    for _ in range(steps):
        action = torch.from_numpy(rng.integers(0, (4, 3, 3, 3), size=(6, 4)))
        following, reward, terminated, truncated, info = env.step(action)
        done, next_masks = terminated | truncated, env.action_masks().clone()
        exposures = {}
        if rules.counterfactual:
            exposures = {
                f"exposure_{n}": info[f"counterfactual_{n}"] for n in ("reward", "terminated", "account")
            }
        replay.add(
            action=action, active=info["branch_active"], reward=reward, terminated=terminated, done=done,
            final_observation=info["final_obs"], final_mask=info["final_masks"], next_observation=following,
            next_bar=info["bar_index"], next_mask=next_masks, alpha=ZERO, **exposures,
        )  # fmt: skip
        last = torch.where(done[:, None], info["final_obs"], following)
        last_masks = torch.where(done[:, None], info["final_masks"], next_masks)
        notes.append({"obs": obs, "action": action, "reward": reward, "active": info["branch_active"], "next": last,
                      "mask": masks, "next_mask": last_masks, "info": info, "terminated": terminated})  # fmt: skip
        obs, masks = following, next_masks
    env.close()
    return replay, notes


def test_a_sample_is_what_the_environment_showed_to_the_bit(market: Market) -> None:
    """Observations are put together again from the bar's features and the stored account."""
    rules = EnvConfig(
        reward="risk", horizon=23, trail_atr=(2.0, 2.0), exploration_scale=1.0, saboteur=(0.5, 2.0)
    )
    replay, notes = played(market, rules, 60)
    batch = draw(replay, 1, 3000)
    seen = {note["obs"][i].numpy().tobytes(): (note, i) for note in notes for i in range(6)}
    assert len(seen) == 360
    ended = 0
    for b in range(0, 3000, 7):
        note, i = seen[batch.observation[b].numpy().tobytes()]
        assert torch.equal(batch.next_observation[b], note["next"][i])
        assert torch.equal(batch.action[b], note["action"][i]) and batch.reward[b] == note["reward"][i]
        assert torch.equal(batch.active[b], note["active"][i])
        assert torch.equal(batch.mask[b], note["mask"][i]) and torch.equal(
            batch.next_mask[b], note["next_mask"][i]
        )
        ended += int(batch.next_observation[b, 86] != 0.0)
    assert ended


def test_counterfactuals_come_back_as_the_environment_gave_them(market: Market) -> None:
    rules = EnvConfig(reward="risk", horizon=23, counterfactual=True, capital_floor=0.99)
    replay, notes = played(market, rules, 60)
    batch = draw(replay, 1, 2000)
    assert batch.exposure_reward is not None and batch.exposure_observation is not None
    assert batch.exposure_discount is not None
    seen = {note["obs"][i].numpy().tobytes(): (note, i) for note in notes for i in range(6)}
    for b in range(0, 2000, 7):
        note, i = seen[batch.observation[b].numpy().tobytes()]
        info = note["info"]
        assert torch.equal(batch.exposure_reward[b], info["counterfactual_reward"][i])
        assert torch.equal(batch.exposure_observation[b, :, 86:], info["counterfactual_account"][i])
        market_part = batch.exposure_observation[b, :, :86]
        assert torch.equal(market_part, note["next"][i][:86].expand(8, -1))
        assert torch.equal(batch.exposure_discount[b] == 0.0, info["counterfactual_terminated"][i])
    assert (batch.exposure_discount == 0.0).any()


def test_the_future_move_is_the_change_of_the_close(market: Market) -> None:
    table = MarketTable([market], np.zeros(1, np.int32), 5, CPU)
    close = market.columns.close
    last = len(close) - 1
    move, known = table.future_move(torch.tensor([0, 100, last - 5, last - 4, last]))
    assert known.tolist() == [True, True, True, False, False]
    wanted = [close[k + 5] - close[k] for k in (0, 100, last - 5)]
    assert move[:3].tolist() == pytest.approx(wanted)


def test_several_markets_keep_their_own_features() -> None:
    markets = [synthetic.regimes(seed=s, sessions=2) for s in (0, 1)]
    made = MarketTable(markets, np.array([1, 0], np.int32), 5, CPU)
    row = made.first + torch.tensor([7, 9])
    found = made.observation(row, torch.zeros(2, 30))[:, :86].numpy()
    np.testing.assert_array_equal(found, np.stack([markets[1].features[7], markets[0].features[9]]))


def test_priorities_steer_the_draw_and_an_overwritten_slot_keeps_its_own(market: Market) -> None:
    replay, steps = Replay(20, table(market, 1), False, CPU), stream(12, seed=3)
    fill(replay, steps)
    batch = draw(replay, 1, 64)
    replay.set_priorities(batch, torch.where(batch.observation[:, 86] == steps.observation[4], 9.0, 1.0), ONE)
    again = draw(replay, 1, 2000)
    share = (again.observation[:, 86] == steps.observation[4]).float().mean().item()
    assert share == pytest.approx(9 / 20, abs=0.01)
    old = draw(replay, 1, 64)
    fill_on = stream(40, seed=4)
    before = replay.priorities.total.clone()
    fill(replay, fill_on)  # every slot is written again
    total = replay.priorities.total.clone()
    replay.set_priorities(old, torch.full((64,), 1e3), ONE)
    assert replay.priorities.total == total and total != before


def test_a_transition_takes_less_than_200_bytes() -> None:
    assert bytes_per_slot(counterfactual=False) <= 200


def test_the_stated_bytes_are_those_allocated(market: Market) -> None:
    for counterfactual in (False, True):
        replay = Replay(1000, table(market, 1), counterfactual, CPU)
        used = sum(t.numel() * t.element_size() for t in replay.tensors().values())
        assert used == pytest.approx(1000 * bytes_per_slot(counterfactual), rel=0.03)


def test_a_replay_beyond_the_memory_is_refused(market: Market) -> None:
    with pytest.raises(ConfigError, match=r"the replay takes .* lower agent\.replay_size"):
        Replay(2**40, table(market, 1), False, CPU)
