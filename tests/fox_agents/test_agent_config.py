"""Configuration: strict types, nearest names, override order, and a lossless TOML round trip."""

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest

from fox_agents import cli, make
from fox_agents.agent_config import LearnerConfig, ReplayConfig
from fox_agents.config import (
    AGENTS,
    BDQConfig,
    DataConfig,
    RunConfig,
    TrainConfig,
    load_run_config,
    run_config_from_dict,
    to_toml,
)
from fox_agents.dqn.config import ReferenceConfig
from fox_agents.plain_values import build
from fox_agents.rule_config import RULES, RuleConfig
from fox_agents.sb3.config import SB3_CONFIGS, PPOConfig, QRDQNConfig
from fox_env import EnvConfig
from fox_env.errors import ConfigError

PRESETS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("text", ["False", "false", "0", "no", "off"])
def test_every_spelling_of_false_is_false(text: str) -> None:
    assert load_run_config(None, [f"env.random_start={text}"]).env.random_start is False


@pytest.mark.parametrize("text", ["nope", "", "2", "None"])
def test_other_spellings_are_refused_and_never_true(text: str) -> None:
    with pytest.raises(ConfigError, match=r"env\.random_start"):
        load_run_config(None, [f"env.random_start={text}"])


def test_scientific_notation_is_accepted_for_whole_numbers() -> None:
    config = load_run_config(None, ["train.total_steps=1e6", "agent.lr=1e-4", "agent.seed=12345678901234567"])
    assert config.train.total_steps == 1_000_000 and isinstance(config.train.total_steps, int)
    assert config.agent.lr == 1e-4
    assert config.agent.seed == 12345678901234567


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("agent.lrr=1", r"unknown key agent\.lrr: did you mean 'lr'"),
        ("agnt.lr=1", r"unknown section 'agnt': did you mean 'agent'"),
        ("agent.lr=fast", r"agent\.lr = 'fast' must be a number"),
        ("agent.lr=nan", r"agent\.lr"),
        ("agent.lr=-1", r"agent\.lr = -1\.0 must be positive"),
        ("agent.atoms=2.5", r"agent\.atoms = '2\.5' must be a whole number"),
        ("agent.gamma=1", r"agent\.gamma"),
        ("agent.v_max=-9", r"agent\.v_max"),
        ("agent.v_max=1e300", r"agent\.v_max = 1e\+300 must be from"),
        ("agent.v_max=-4.9999999999", r"agent\.v_max = .* further above agent\.v_min = -5\.0 for 51 atoms"),
        ("agent.hidden=1e12", r"agent\.hidden = 1000000000000 must be from 1 to 16,384"),
        ("agent.atoms=1e9", r"agent\.atoms = 1000000000 must be from 2 to 4,096"),
        ("agent.n_step=1e9", r"agent\.n_step"),
        ("agent.batch_size=1e12", r"agent\.batch_size"),
        ("agent.replay_size=1e30", r"agent\.replay_size"),
        ("train.num_envs=1e9", r"train\.num_envs = 1000000000 must be from 1 to 4,194,304"),
        ("train.total_steps=1e300", r"train\.total_steps"),
        ("data.embargo=1e300", r"data\.embargo"),
        ("env.reward=rsk", r"env\.reward = 'rsk'.*did you mean 'risk'"),
        ("env.saboteur=1", r"env\.saboteur"),
        ("momentum.window=40", r"unknown key momentum\.window: .*lookback"),
        ("momentum.lookback=0", r"momentum\.lookback = 0 must be from 1"),
        ("mean_reversion.exit=3", r"mean_reversion\.exit = 3\.0 must be .* mean_reversion\.entry = 2\.0"),
        ("lr=1", r"section\.key=value"),
        ("agent.lr", r"section\.key=value"),
    ],
)
def test_mistakes_are_refused_in_one_sentence(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_run_config(None, [override])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["[agent]\nlr = true", "[agent]\nhidden = 64.5", "agent = 3", "[agent]\nlr = [1]", "[agent\n"]
)
def test_wrong_types_in_a_file_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError):
        load_run_config(tmp_path / "c.toml")


@pytest.mark.parametrize(
    ("content", "place", "mend"),
    [
        (b"[agent]\nlr = fast\n", "at line 2, column 6", "words in quotes"),
        (b"[agent]\nlr = 1\nlr = 2\n", "at line 3, column 7", "each key once"),
        (b"[agent\nlr = 1\n", "at line 1, column 7", r"a section as \[agent\]"),
        (b"[agent]\nlr\n", "at line 2, column 3", "such as lr = 1e-4"),
        (b"[agent]\n# \xff\n", "in position 10", "save it as UTF-8"),
    ],
)
def test_what_is_no_toml_is_named_by_place_and_mend(
    content: bytes, place: str, mend: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"cannot read {path}: .*{place}.*; .*{mend}") as caught:
        load_run_config(path)
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_at_the_beginning_of_a_file_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[agent]\nlr = 0.25\n", encoding="utf-8-sig")
    assert load_run_config(tmp_path / "c.toml").agent.lr == 0.25


def test_a_folder_is_no_configuration_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot read {tmp_path}: Is a directory; give a TOML file"):
        load_run_config(tmp_path)


def test_an_override_beats_the_file_which_beats_the_default(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[agent]\nlr = 0.1\nhidden = 64\n")
    config = load_run_config(tmp_path / "c.toml", ["agent.lr=0.2"])
    assert (config.agent.lr, config.agent.hidden, config.agent.atoms) == (0.2, 64, BDQConfig().atoms)


def test_nothing_is_lost_in_the_resolved_file(tmp_path: Path) -> None:
    config = load_run_config(
        None,
        [
            'data.file=/data/q"uo\\te é\n.csv',
            "env.saboteur=(0.5, 2)",
            "env.fee_per_side=1.25",
            "env.margin=false",
            "env.horizon=100",
        ],
    )
    assert config.env.margin is False and config.env.saboteur == (0.5, 2.0)
    for original in (config, RunConfig()):
        (tmp_path / "c.toml").write_text(to_toml(original.to_dict()), encoding="utf-8")
        assert load_run_config(tmp_path / "c.toml") == original


def test_none_is_spelt_out() -> None:
    base = run_config_from_dict({"env": {"horizon": 5}})
    assert run_config_from_dict({"env": {"horizon": "none"}}, base).env.horizon is None
    with pytest.raises(ConfigError, match=r"agent\.lr"):
        run_config_from_dict({"agent": {"lr": "none"}})


def test_build_works_on_a_mapping_of_fields() -> None:
    assert build(EnvConfig, {"reward": "risk"}, "env").reward == "risk"


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (BDQConfig, {"auxiliary": "maybe"}, r"agent\.auxiliary = 'maybe' is not one of its values"),
        (BDQConfig, {"exploration": "thomson"}, r"agent\.exploration .*did you mean 'thompson'"),
        (BDQConfig, {"c51": "off"}, r"agent\.c51 = 'off'"),
        (BDQConfig, {"full_information": True}, r"agent\.n_step = 3 must be 1 with agent\.full_information"),
        (
            BDQConfig,
            {"full_information": True, "n_step": 1, "curiosity": 0.1},
            r"agent\.curiosity = 0\.1 must be 0",
        ),
        (BDQConfig, {"value_scale": 0.0}, r"agent\.value_scale = 0\.0 must be positive"),
        (BDQConfig, {"per_alpha": 1.5}, r"agent\.per_alpha"),
        (
            BDQConfig,
            {"ensemble_heads": 1},
            r"agent\.ensemble_heads = 1 must be 2 or more with agent\.repulsion",
        ),
        (BDQConfig, {"batch_size": 1, "surgery": True}, r"agent\.batch_size = 1 must be 2 or more"),
        (ReferenceConfig, {"full_information": False}, r"agent\.full_information"),
        (ReferenceConfig, {"hold_random": (5, 4)}, r"agent\.hold_random"),
        (ReferenceConfig, {"atoms": 51}, r"unknown key agent\.atoms"),
        (PPOConfig, {"clip_range": 0.0}, r"agent\.clip_range = 0\.0 must be positive"),
        (PPOConfig, {"gae_lambda": 1.5}, r"agent\.gae_lambda = 1\.5 must be from"),
        (PPOConfig, {"gamma": 1.0}, r"agent\.gamma = 1\.0 must be in \[0, 1\)"),
        (BDQConfig, {"epsilon_start": 1.5}, r"agent\.epsilon_start = 1\.5 must be from 0 to 1"),
        (ReferenceConfig, {"updates": 0}, r"agent\.updates = 0 must be from 1"),
        (QRDQNConfig, {"batch_size": 0}, r"agent\.batch_size = 0 must be from 1"),
        (QRDQNConfig, {"target_interval": 0}, r"agent\.target_interval = 0 must be from 1"),
        (QRDQNConfig, {"quantiles": 0}, r"agent\.quantiles = 0 must be from"),
        (QRDQNConfig, {"epsilon_end": -0.1}, r"agent\.epsilon_end = -0\.1 must be from"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    cls: type, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build(cls, values, "agent")


@pytest.mark.parametrize("preset", sorted(p.stem for p in PRESETS.glob("*.toml")))
def test_presets_are_valid_and_train_on_the_risk_reward(preset: str) -> None:
    config = load_run_config(PRESETS / f"{preset}.toml")
    assert config.env.reward == "risk" and config.env.exploration_scale == 1.0


def test_both_presets_exist() -> None:
    assert {"smoke", "default"} <= {p.stem for p in PRESETS.glob("*.toml")}


def test_a_rule_with_options_has_a_section_and_another_gets_the_seed(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[momentum]\nlookback = 30\n[mean_reversion]\nentry = 1.5\n")
    config = load_run_config(tmp_path / "c.toml", ["momentum.lookback=40"])
    assert config.rule_settings("momentum", 7) == {"lookback": 40}
    assert config.rule_settings("mean_reversion", 7) == {"lookback": 20, "entry": 1.5, "exit": 0.0}
    for name in ("random", "flat", "someone_elses"):
        assert config.rule_settings(name, 7) == {"seed": 7}
    for name, cls in RULES.items():
        assert getattr(RunConfig(), name) == cls()
        made: Any = make(name, config=config.rule_settings(name, 7))
        assert made.config == getattr(config, name)
    (tmp_path / "d.toml").write_text(to_toml(config.to_dict()))
    assert load_run_config(tmp_path / "d.toml") == config


def test_every_agent_can_be_named_in_a_run() -> None:
    for name, cls in AGENTS.items():
        config = load_run_config(None, [f"train.algorithm={name}", "env.counterfactual=true"])
        assert type(config.agent) is cls and config.agent == cls() and cls.algorithm == name
    with pytest.raises(ConfigError, match=r"train\.algorithm = 'pp0'.*did you mean 'ppo'"):
        load_run_config(None, ["train.algorithm=pp0"])


def test_learners_from_a_replay_share_its_settings_and_keep_their_own_defaults() -> None:
    names = [field.name for field in dataclasses.fields(ReplayConfig)]
    own = {f.name for f in dataclasses.fields(LearnerConfig)}
    assert set(names) - own == {
        *(
            "batch_size",
            "replay_size",
            "collect_steps",
            "updates",
            "learning_starts",
            "epsilon_start",
            "epsilon_end",
        )
    }
    replaying = {name: cls for name, cls in AGENTS.items() if issubclass(cls, ReplayConfig)}
    sizes = {
        name: (cls().batch_size, cls().replay_size, cls().epsilon_end) for name, cls in replaying.items()
    }
    assert sizes == {
        "bdq": (256, 500_000, 0.05),
        "qrdqn_ref": (256, 500_000, 0.02),
        "dqn": (512, 200_000, 0.05),
        "qrdqn": (512, 200_000, 0.01),
    }


def test_what_a_file_says_of_the_agent_is_kept_for_another_algorithm(tmp_path: Path) -> None:
    """Also a value that is the default of the agent it was written for, and not the other's."""
    assert BDQConfig().lr_end == 3e-4 != ReferenceConfig().lr_end
    (tmp_path / "c.toml").write_text("[agent]\nlr_end = 3e-4\nhidden = 64\natoms = 21\n")
    config = load_run_config(tmp_path / "c.toml", ["train.algorithm=qrdqn_ref", "env.counterfactual=true"])
    assert config.agent == ReferenceConfig(lr_end=3e-4, hidden=64)
    own = load_run_config(tmp_path / "c.toml", ["train.algorithm=ppo", "agent.n_epochs=3"])
    assert own.agent == PPOConfig(lr_end=3e-4, hidden=64, n_epochs=3)


def test_a_file_may_leave_the_algorithm_to_an_override(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[agent]\nn_epochs = 4\n")
    assert load_run_config(tmp_path / "c.toml", ["train.algorithm=ppo"]).agent == PPOConfig(n_epochs=4)
    with pytest.raises(ConfigError, match=r"unknown key agent\.n_epochs"):
        load_run_config(tmp_path / "c.toml", ["train.algorithm=a2c"])


@pytest.mark.parametrize("cls", SB3_CONFIGS, ids=lambda cls: cls.algorithm)
@pytest.mark.parametrize("preset", ["default", "smoke"])
def test_agents_of_stable_baselines3_train_under_the_same_data_and_rules(preset: str, cls: Any) -> None:
    ours = cli.preset_config(preset, PRESETS, [])
    theirs = cli.preset_config(preset, PRESETS / "sb3", [f"train.algorithm={cls.algorithm}"], rules=PRESETS)
    assert theirs.data == ours.data and theirs.env == ours.env.replace(counterfactual=False)
    assert type(theirs.agent) is cls and theirs.agent.lr == cls().lr != ours.agent.lr
    assert theirs.train.total_steps == ours.train.total_steps


@pytest.mark.parametrize(
    "cls",
    [DataConfig, EnvConfig, TrainConfig, RuleConfig, *AGENTS.values(), *RULES.values()],
    ids=lambda cls: cls.__name__,
)
def test_every_field_says_what_it_is(cls: type) -> None:
    """One docstring follows every field, which is where its unit stands; a new default needs no other one."""
    sources = [inspect.getsource(base) for base in cls.__mro__ if dataclasses.is_dataclass(base)]
    for field in dataclasses.fields(cls):
        parts = [source.split(f"    {field.name}: ", 1) for source in sources]
        after = [part[1].split("\n")[1].strip() for part in parts if len(part) == 2]
        assert any(line.startswith('"""') and len(line) > 10 for line in after), (
            f"{cls.__name__}.{field.name}"
        )
