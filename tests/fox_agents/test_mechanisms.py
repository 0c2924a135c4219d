"""Variants change one mechanism of the baseline, with what it cannot do without, or are refused by name."""

from typing import Any

import pytest

from fox_agents.dqn.config import BDQConfig
from fox_agents.dqn.learner import BDQLearner
from fox_agents.dqn.objective import TERMS
from fox_agents.mechanisms import MECHANISMS, variants_of
from fox_env.errors import ConfigError

BASELINE = BDQConfig(
    hidden=8, atoms=5, quantiles=4, experts=2, expert_width=4, ensemble_width=4,
    noisy=True, c51="on", cql="off", ensemble="on", repulsion="on", auxiliary="on", balance="on", spectral="none",
)  # fmt: skip


def changes(text: str, baseline: BDQConfig = BASELINE) -> list[dict[str, Any]]:
    return [dict(variant.changes) for variant in variants_of(text, baseline)]


def test_a_name_stands_for_its_other_values() -> None:
    assert changes("noisy") == [{"noisy": False}]
    assert changes("cql, auxiliary") == [{"cql": "on"}, {"auxiliary": "off"}]
    assert changes("cql", BDQConfig(cql="measure")) == [{"cql": "on"}]
    assert changes("spectral") == [{"spectral": "trunk"}, {"spectral": "heads"}, {"spectral": "all"}]
    assert changes("c51") == [{"c51": "measure"}]
    rules = [change["exploration"] for change in changes("exploration")]
    assert "thompson" in rules and BASELINE.exploration not in rules and len(rules) == len(set(rules))


def test_values_are_read_as_the_configuration_reads_them() -> None:
    assert changes("cql=measure|on") == [{"cql": "measure"}, {"cql": "on"}]
    assert changes("curiosity=0.1|1,n_step=5") == [{"curiosity": 0.1}, {"curiosity": 1.0}, {"n_step": 5}]
    assert [variant.name for variant in variants_of("noisy=no,lr=1e-3", BASELINE)] == [
        "noisy=false", "lr=0.001"
    ]  # fmt: skip


def test_what_a_change_needs_comes_with_it_and_is_named() -> None:
    (full,) = variants_of("full_information", BASELINE)
    assert (full.name, full.changes) == (
        "full_information=true, n_step=1", {"full_information": True, "n_step": 1}
    )  # fmt: skip
    with_full = BDQConfig(full_information=True, n_step=1)
    assert changes("n_step=3", with_full) == [{"n_step": 3, "full_information": False}]
    assert changes("curiosity=1", with_full) == [{"curiosity": 1.0, "full_information": False}]
    assert changes("mixture") == [{"mixture": False, "balance": "off"}]
    bare = BDQConfig(mixture=False, balance="off", ensemble="off", repulsion="off")
    assert changes("balance", bare) == [{"balance": "on", "mixture": True}]
    assert changes("repulsion", bare) == [{"repulsion": "on", "ensemble": "on"}]
    assert changes("ensemble", BDQConfig(exploration="thompson", repulsion="off")) == [
        {"ensemble": "off", "exploration": "sticky_epsilon_greedy"}
    ]
    assert changes("ensemble") == [{"ensemble": "off", "repulsion": "off"}]
    assert changes("exploration=thompson", bare) == [{"exploration": "thompson", "ensemble": "on"}]


def test_all_is_every_mechanism_and_every_variant_can_be_made(torch_cpu: Any) -> None:
    assert set(TERMS) | {"c51", "noisy", "prioritised", "surgery", "full_information"} <= set(MECHANISMS)
    every = variants_of("all", BASELINE)
    assert {next(iter(v.changes)) for v in every[:-1]} == set(MECHANISMS)
    assert (every[-1].name, every[-1].agent, dict(every[-1].changes)) == ("reference", "qrdqn_ref", {})
    assert variants_of("all,noisy,reference", BASELINE) == every
    for variant in every[:-1]:
        BDQLearner(BDQConfig(**{**vars(BASELINE), **variant.changes}), torch_cpu)


@pytest.fixture
def torch_cpu() -> Any:
    import torch

    return torch.device("cpu")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cqll", "unknown mechanism 'cqll': did you mean 'cql'"),
        ("hiden=3", "unknown mechanism 'hiden': did you mean 'hidden'"),
        ("referense", "did you mean 'reference'"),
        ("noisy,,cql", "unknown mechanism ''"),
        ("curiosity", "curiosity needs the values to try, as in curiosity=VALUE"),
        ("orders", "orders needs the values to try"),
        ("spectral=trunks", "did you mean 'trunk'"),
        ("noisy=maybe", "agent.noisy = 'maybe' must be true or false"),
        ("n_step=0", "agent.n_step = 0 must be from 1"),
        ("noisy=true", "noisy=true is the baseline's own value"),
        ("cql=on|off", "cql=off is the baseline's own value"),
    ],
)
def test_mistakes_are_named(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        variants_of(text, BASELINE)
