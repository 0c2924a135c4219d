"""The acting rules: nothing masked is ever chosen, and the choices have the distributions they claim.

Where a frequency is tested, 20,000 draws are made and a difference of four standard errors fails: at a share of 0.3
that is 0.013, and a sampler that is off by 0.026 is caught with a probability above 0.9999.
"""

import math
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from fox_agents.dqn.beliefs import DRAWS, Beliefs, Draws, Knobs, Memory, expected_values  # noqa: E402
from fox_agents.dqn.config import ENSEMBLE_RULES  # noqa: E402
from fox_agents.dqn.selection import (  # noqa: E402
    RULES,
    best_distinct,
    contrarian,
    select,
)
from fox_agents.dqn.signals import SignalBus  # noqa: E402

BRANCHES = (4, 3, 3, 3)
COUNT = 20_000
SHORT, HOLD, LONG, FLAT = range(4)
HALF = torch.tensor([0.5])


def generator(seed: int = 0) -> "torch.Generator":
    return torch.Generator().manual_seed(seed)


def draws(count: int, seed: int = 0) -> Draws:
    return Draws.split(torch.rand(count, DRAWS, generator=generator(seed)))


def knobs(**values: "float | list[float]") -> Knobs:
    return Knobs.of(SignalBus("cpu", values))


def random_beliefs(count: int, seed: int = 0) -> Beliefs:
    g = generator(seed)
    probabilities = torch.softmax(2 * torch.randn(count, 13, 11, generator=g), dim=2)
    atoms = torch.linspace(-2.0, 2.0, 11).expand(13, 11)
    quantiles = torch.randn(count, 13, 8, generator=g).sort(dim=2).values
    mask = torch.rand(count, 13, generator=g) < 0.5
    mask[:, [HOLD, 4, 7, 8, 9, 10, 11, 12]] = True
    ensemble = torch.randn(count, 5, 4, generator=g)
    q = expected_values(probabilities, atoms, quantiles, HALF)
    return Beliefs(q, probabilities, atoms, quantiles, ensemble, mask)


def repeated(q: list[float], count: int = COUNT, **others: Tensor) -> Beliefs:
    """The same directions in every state, all distinct unless told otherwise; other branches are worth 0."""
    values = torch.cat([torch.tensor(q), torch.zeros(9)]).expand(count, 13)
    given = {"ensemble": torch.zeros(count, 5, 4), "mask": torch.ones(count, 13, dtype=torch.bool)} | others
    return random_beliefs(1)._replace(q=values, **given)


def close(found: Tensor, share: float, count: int = COUNT) -> bool:
    return abs(found.float().mean().item() - share) < 4 * math.sqrt(share * (1 - share) / count)


def distinct(actions: Tensor, mask: Tensor) -> Tensor:
    offsets = torch.tensor([0, 4, 7, 10])
    return mask.gather(1, actions + offsets)


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_chooses_a_masked_action(rule: str) -> None:
    """1000 environments for 20 steps, with new masks and beliefs at every step, also against the policy."""
    for flag in (0.0, 1.0):
        memory = Memory.empty(1000, "cpu")
        set_to = knobs(explore=0.7, contrarian=flag, temperature=1.5, hold_most=9.0)
        for step in range(20):
            beliefs = random_beliefs(1000, step)
            actions = select(rule, rule, beliefs, draws(1000, step), set_to, memory)
            assert actions.shape == (1000, 4) and actions.dtype == torch.int64
            assert bool(distinct(actions, beliefs.mask).all())


def test_of_equal_values_the_first_distinct_action_is_chosen() -> None:
    mask = torch.ones(2, 13, dtype=torch.bool)
    mask[1, SHORT] = mask[1, 4] = False
    assert best_distinct(torch.zeros(2, 13), mask).tolist() == [[0, 0, 0, 0], [1, 1, 0, 0]]


@pytest.mark.parametrize("rule", ["epsilon_greedy", "sticky_epsilon_greedy", "hierarchical"])
def test_without_exploration_a_rule_is_greedy(rule: str) -> None:
    beliefs = random_beliefs(500)
    actions = RULES[rule](beliefs, draws(500), knobs(explore=0.0), Memory.empty(500, "cpu"))
    assert torch.equal(actions, best_distinct(beliefs.q, beliefs.mask))


def test_epsilon_greedy_explores_each_branch_at_its_own_share_uniformly() -> None:
    beliefs = repeated([0.0, 0.0, 1.0, 0.0])
    shares = [0.4, 0.0, 0.3, 1.0]
    actions = RULES["epsilon_greedy"](
        beliefs, draws(COUNT), knobs(explore=shares), Memory.empty(COUNT, "cpu")
    )
    for direction in (SHORT, HOLD, FLAT):
        assert close(actions[:, 0] == direction, 0.1)
    assert not actions[:, 1].any()
    assert close(actions[:, 2] == 1, 0.1) and close(actions[:, 3] == 2, 1 / 3)


def test_boltzmann_draws_from_the_softmax() -> None:
    q = [0.1, -0.2, 0.3, 0.0]
    temperatures = [0.2, 1.0, 1.0, 1.0]
    beliefs = repeated(q)
    beliefs.mask[:, FLAT] = False
    set_to = knobs(boltzmann_temperature=temperatures)
    actions = RULES["boltzmann"](beliefs, draws(COUNT), set_to, Memory.empty(COUNT, "cpu"))
    shares = torch.softmax(torch.tensor(q[:3]) / 0.2, dim=0).tolist()
    for direction, share in enumerate(shares):
        assert close(actions[:, 0] == direction, share)
    assert close(actions[:, 1] == 1, 1 / 3)


def test_thompson_follows_one_head_at_a_time() -> None:
    """Three heads of five prefer Short and two Long; the mean over heads would always say Long."""
    ensemble = torch.zeros(COUNT, 5, 4)
    ensemble[:, :3, SHORT], ensemble[:, 3:, LONG] = 1.0, 5.0
    beliefs = repeated([0.0, 0.5, 0.0, 0.0], ensemble=ensemble)
    memory = Memory.empty(COUNT, "cpu")
    actions = RULES["thompson"](beliefs, draws(COUNT), knobs(), memory)
    assert close(actions[:, 0] == SHORT, 0.6) and close(actions[:, 0] == LONG, 0.4)
    assert not actions[:, 1:].any()
    actions = RULES["thompson"](beliefs, draws(COUNT), knobs(temperature=0.0), memory)
    assert bool((actions[:, 0] == HOLD).all())
    # Half-way, Short is worth 1/2 and Hold 1/4; at 0.3, Short is worth 0.3 and Hold 0.35.
    actions = RULES["thompson"](beliefs, draws(COUNT), knobs(temperature=0.5), memory)
    assert close(actions[:, 0] == SHORT, 0.6)
    actions = RULES["thompson"](beliefs, draws(COUNT), knobs(temperature=0.3), memory)
    assert close(actions[:, 0] == HOLD, 0.6)


def test_persistent_thompson_keeps_its_head_and_forgets_it_at_an_end() -> None:
    ensemble = torch.zeros(COUNT, 5, 4)
    ensemble[:, :2, SHORT] = ensemble[:, 2:, LONG] = 1.0
    beliefs, memory = repeated([0.0] * 4, ensemble=ensemble), Memory.empty(COUNT, "cpu")
    set_to = knobs(hold_most=3.0)
    done = torch.arange(COUNT) < COUNT // 2
    chosen = []
    for step in range(5):
        chosen.append(RULES["persistent_thompson"](beliefs, draws(COUNT, step), set_to, memory)[:, 0])
        if step == 0:
            memory.forget(done)
    assert close(chosen[0] == SHORT, 0.4)
    kept = [a[~done] == b[~done] for a, b in pairwise(chosen)]
    assert bool(kept[0].all()) and bool(kept[1].all()) and bool(kept[3].all())
    assert close(kept[2], 0.52, COUNT // 2)  # a new head: 0.4^2 + 0.6^2
    ended = [a[done] == b[done] for a, b in pairwise(chosen)]
    assert close(ended[0], 0.52, COUNT // 2)
    assert bool(ended[1].all()) and bool(ended[2].all()) and not bool(ended[3].all())


def sampled(p: list[float], uniform: float) -> float:
    """Index of the atom that a uniform draws, seen through the rule: a sample is compared with constants."""
    count = len(p)
    chosen = []
    for level in range(count):
        constant = torch.zeros(1, 13, count)
        constant[0, :, level] = 1.0
        probabilities = constant.clone()
        probabilities[0, SHORT] = torch.tensor(p)
        atoms = torch.arange(float(count)).expand(13, count).clone()
        atoms[1:] -= 0.5
        beliefs = Beliefs(
            torch.zeros(1, 13),
            probabilities,
            atoms,
            torch.zeros(1, 13, 1),
            torch.zeros(1, 1, 4),
            torch.ones(1, 13, dtype=torch.bool),
        )
        draw = Draws.split(torch.full((1, DRAWS), uniform))
        chosen.append(RULES["thompson_returns"](beliefs, draw, knobs(), Memory.empty(1, "cpu"))[0, 0].item())
    return chosen.count(SHORT) - 1


@pytest.mark.parametrize(
    ("p", "uniform", "expected"),
    [
        ([0.1, 0.2, 0.4, 0.2, 0.1], 0.05, 0),
        ([0.1, 0.2, 0.4, 0.2, 0.1], 0.25, 1),
        ([0.1, 0.2, 0.4, 0.2, 0.1], 0.5, 2),
        ([0.1, 0.2, 0.4, 0.2, 0.1], 0.95, 4),
        ([0.0, 0.0, 0.5, 0.5, 0.0], 0.0, 2),  # never an atom without probability
        ([0.0, 0.0, 0.5, 0.5, 0.0], 0.5, 3),
        ([0.0, 0.3, 0.3, 0.3, 0.0], 1 - 2**-24, 3),  # nor where the sum falls short of 1
    ],
)
def test_the_inverse_distribution_function(p: list[float], uniform: float, expected: int) -> None:
    assert sampled(p, uniform) == expected


def test_thompson_on_returns_chooses_with_the_probability_of_being_best() -> None:
    """Short pays 1 with probability 0.3 and else 0; Long surely 1/2: so Short is drawn as the best at 0.3."""
    atoms = torch.tensor([0.0, 0.5, 1.0]).expand(13, 3)
    probabilities = torch.zeros(COUNT, 13, 3)
    probabilities[:, :, 0] = 1.0
    probabilities[:, SHORT] = torch.tensor([0.7, 0.0, 0.3])
    probabilities[:, LONG] = torch.tensor([0.0, 1.0, 0.0])
    beliefs = repeated([0.3, 0.0, 0.5, 0.0], probabilities=probabilities, atoms=atoms)
    actions = RULES["thompson_returns"](beliefs, draws(COUNT), knobs(), Memory.empty(COUNT, "cpu"))
    assert close(actions[:, 0] == SHORT, 0.3) and close(actions[:, 0] == LONG, 0.7)


def test_triple_averages_the_three_samples() -> None:
    beliefs = random_beliefs(50)
    draw = draws(50)
    actions = RULES["triple"](beliefs, draw, knobs(temperature=0.5), Memory.empty(50, "cpu"))
    for n in range(50):
        values = []
        for action in range(13):
            total = torch.cumsum(beliefs.probabilities[n, action].double(), 0)
            atom = min(int((total <= draw.returns[n, action]).sum()), 10)
            samples = [beliefs.atoms[action, atom].item()]
            samples.append(beliefs.quantiles[n, action, int(draw.choice[n, action] * 8)].item())
            if action < 4:
                samples.append(beliefs.ensemble[n, int(draw.head[n] * 5), action].item())
            values.append(0.5 * beliefs.q[n, action].item() + 0.5 * sum(samples) / len(samples))
        start = 0
        for branch, size in enumerate(BRANCHES):
            allowed = [a for a in range(size) if beliefs.mask[n, start + a]]
            best = max(allowed, key=lambda a, start=start, values=values: values[start + a])
            assert actions[n, branch] == best
            start += size


@pytest.mark.parametrize(("alpha", "expected"), [(0.0, LONG), (0.25, LONG), (0.375, HOLD), (1.0, SHORT)])
def test_cvar_is_the_mean_of_the_lowest_share(alpha: float, expected: int) -> None:
    """Over shares 1/8 to 1: Short -10 up to mean 7.5; Hold -3, (-3 + 9/2) / 1.5 = 1; Long 0, 0; Flat -1."""
    quantiles = torch.zeros(1, 13, 4)
    quantiles[0, SHORT] = torch.tensor([-10.0, 0.0, 15.0, 25.0])
    quantiles[0, HOLD] = torch.tensor([-3.0, 9.0, 9.0, 9.0])
    quantiles[0, FLAT] = -1.0
    beliefs = repeated([0.0] * 4, 1, quantiles=quantiles)
    actions = RULES["cvar"](beliefs, draws(1), knobs(cvar_alpha=alpha), Memory.empty(1, "cpu"))
    assert actions[0, 0] == expected


def test_information_directed_agrees_with_the_definition() -> None:
    beliefs = random_beliefs(200)
    ends = torch.zeros(11)
    ends[0] = ends[-1] = 0.5
    wide = torch.where(
        beliefs.mask[:, :, None], beliefs.probabilities, ends
    )  # masked actions are of no account
    beliefs = beliefs._replace(probabilities=wide)
    actions = RULES["information_directed"](beliefs, draws(200), knobs(), Memory.empty(200, "cpu"))
    greedy = best_distinct(beliefs.q, beliefs.mask)
    assert torch.equal(actions[:, 1:], greedy[:, 1:]) and not torch.equal(actions, greedy)
    for n in range(200):
        allowed = [a for a in range(4) if beliefs.mask[n, a]]
        mean, deviation, noise = {}, {}, {}
        for a in allowed:
            heads = beliefs.ensemble[n, :, a].double()
            mean[a], deviation[a] = beliefs.q[n, a].item(), heads.std(correction=0).item()
            p, z = beliefs.probabilities[n, a].double(), beliefs.atoms[a].double()
            noise[a] = ((p * z * z).sum() - (p * z).sum() ** 2).item()
        top = max(mean[a] + 0.1 * deviation[a] for a in allowed)
        average = sum(noise.values()) / len(noise)
        score = {}
        for a in allowed:
            ratio = max(noise[a] / (average + 1e-5), 0.25)
            information = math.log(1 + deviation[a] ** 2 / ratio) + 1e-5
            score[a] = (top - mean[a] + 0.1 * deviation[a]) ** 2 / information
        assert actions[n, 0] == min(allowed, key=lambda a, score=score: score[a])


def test_information_directed_is_greedy_where_the_ensemble_agrees() -> None:
    beliefs = random_beliefs(200)
    beliefs = beliefs._replace(ensemble=torch.zeros(200, 5, 4))
    actions = RULES["information_directed"](beliefs, draws(200), knobs(), Memory.empty(200, "cpu"))
    assert torch.equal(actions, best_distinct(beliefs.q, beliefs.mask))


def test_sticky_choices_last_eight_to_sixteen_steps_and_make_up_their_share() -> None:
    count, steps = 400, 600
    beliefs, memory = repeated([0.0, 0.0, 1.0, 0.0], count), Memory.empty(count, "cpu")
    set_to, lengths, random_steps = knobs(explore=0.3), set(), 0
    for step in range(steps):
        before = memory.left.clone()
        RULES["sticky_epsilon_greedy"](beliefs, draws(count, step), set_to, memory)
        begun = (before == 0) & (memory.left > 0)
        lengths |= set((memory.left[begun] + 1).tolist())
        random_steps += int((begun | (before > 0)).sum())
    assert lengths == set(range(8, 17))
    # Holds are about 12 steps long: some 24,000 of them, and a standard error below 0.003.
    assert random_steps / (4 * count * steps) == pytest.approx(0.3, abs=0.012)


def test_a_held_choice_is_kept_and_goes_on_as_hold_where_it_is_no_longer_distinct() -> None:
    beliefs, memory = repeated([0.0, 0.0, 0.0, 1.0], 4), Memory.empty(4, "cpu")
    memory.held.copy_(torch.tensor([[LONG, 2, 1, 1]]))
    memory.left.copy_(torch.tensor([5, 5, 1, 0]).expand(4, 4))
    beliefs.mask[1, LONG] = beliefs.mask[2, 4 + 2] = False
    actions = RULES["sticky_epsilon_greedy"](beliefs, draws(4), knobs(explore=0.0), memory)
    assert actions.tolist() == [[LONG, 2, 1, 0], [HOLD, 2, 1, 0], [LONG, 0, 1, 0], [LONG, 2, 1, 0]]
    assert memory.left[0].tolist() == [4, 4, 0, 0]
    memory.forget(torch.tensor([True, False, False, False]))
    assert memory.left[:2].tolist() == [[0, 0, 0, 0], [4, 4, 0, 0]]


def test_half_of_what_the_hierarchy_does_at_random_is_no_trade() -> None:
    beliefs = repeated([0.0, 0.0, 1.0, 0.0])
    beliefs.mask[:, SHORT] = False  # among three distinct directions a plain draw would trade in a third
    beliefs.mask[:100, LONG] = False
    memory = Memory.empty(COUNT, "cpu")
    actions = RULES["hierarchical"](beliefs, draws(COUNT), knobs(explore=[1.0, 0, 0, 0]), memory)[:, 0]
    assert close(actions[100:] == LONG, 0.5, COUNT - 100) and close(actions[100:] == FLAT, 0.25, COUNT - 100)
    assert not (actions[:100] == LONG).any()
    # The two levels explore on their own: P(trade) = 0.6 + 0.4 / 2, of which Short gets 0.4 / 2.
    beliefs = repeated([0.0, 0.0, 1.0, 0.0])
    actions = RULES["hierarchical"](beliefs, draws(COUNT), knobs(explore=0.4), memory)[:, 0]
    assert close(actions == SHORT, 0.16) and close(actions == LONG, 0.64)


def test_contrarian_turns_the_side_at_the_smallest_size() -> None:
    actions = torch.tensor([[SHORT, 2, 1, 2], [LONG, 2, 0, 0], [HOLD, 1, 0, 0], [LONG, 2, 0, 0]])
    mask = torch.ones(4, 13, dtype=torch.bool)
    mask[1, 4] = False  # the smallest size is not distinct: the next is
    mask[3, SHORT] = False
    assert torch.equal(contrarian(actions, mask, knobs(contrarian=0.0)), actions)
    expected = [[LONG, 0, 1, 2], [SHORT, 1, 0, 0], [HOLD, 0, 0, 0], [HOLD, 0, 0, 0]]
    assert contrarian(actions, mask, knobs(contrarian=1.0)).tolist() == expected


def test_select_takes_the_direction_by_one_rule_and_the_rest_by_another() -> None:
    beliefs, memory = random_beliefs(300), Memory.empty(300, "cpu")
    actions = select("greedy", "epsilon_greedy", beliefs, draws(300), knobs(explore=1.0), memory)
    assert torch.equal(actions[:, 0], best_distinct(beliefs.q, beliefs.mask)[:, 0])
    assert torch.equal(actions[:, 1:], best_distinct(draws(300).choice, beliefs.mask)[:, 1:])


def test_expected_value_is_the_share_of_each_head() -> None:
    p = torch.tensor([0.5, 0.25, 0.25]).expand(1, 13, 3)
    atoms = torch.arange(39.0).view(13, 3)
    quantiles = torch.tensor([0.0, 1.0, 5.0]).expand(1, 13, 3)
    for share in (0.0, 0.25, 0.5):
        got = expected_values(p, atoms, quantiles, torch.tensor([share]))
        torch.testing.assert_close(got[0], share * (3.0 * torch.arange(13) + 0.75) + (1.0 - share) * 2.0)


def test_draws_are_disjoint_and_knobs_follow_the_bus() -> None:
    uniforms = torch.arange(float(2 * DRAWS)).view(2, DRAWS)
    parts = torch.cat([part.reshape(2, -1) for part in Draws.split(uniforms)], dim=1)
    assert torch.equal(parts, uniforms)
    bus = SignalBus("cpu")
    view = Knobs.of(bus)
    bus.set("explore", [0.1, 0.2, 0.3, 0.4])
    bus.set("cvar_alpha", 0.5)
    torch.testing.assert_close(view.explores, torch.tensor([0.1, 0.2, 0.3, 0.4]))
    assert view.cvar_alpha.tolist() == [0.5]


@pytest.mark.parametrize("rule", RULES)
def test_only_the_rules_that_say_so_read_the_ensemble(rule: str) -> None:
    beliefs = random_beliefs(300)
    other = beliefs._replace(ensemble=torch.randn(300, 5, 4, generator=generator(9)))
    choices = [
        RULES[rule](b, draws(300), knobs(explore=0.5), Memory.empty(300, "cpu")) for b in (beliefs, other)
    ]
    assert torch.equal(*choices) == (rule not in ENSEMBLE_RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_one_graph_without_a_host_value(rule: str) -> None:
    torch._dynamo.reset()
    beliefs, set_to, memory = random_beliefs(4), knobs(), Memory.empty(4, "cpu")
    explained = torch._dynamo.explain(lambda b, d: select(rule, rule, b, d, set_to, memory))(
        beliefs, draws(4)
    )
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
