"""docs/mechanisms.md and docs/agent.md name what there is, with the defaults that the configuration has."""

import re
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("torch")

from fox_agents.dqn.config import BDQConfig
from fox_agents.dqn.selection import RULES
from fox_agents.mechanisms import MECHANISMS
from fox_agents.plain_values import nearest

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "docs" / "mechanisms.md").read_text().split("## Learning")[1].split("\n## ")[0]
AGENT = (ROOT / "docs" / "agent.md").read_text()
SETTINGS = re.findall(r"`(\w+) = ([^`]+)`", TABLE)


def test_every_mechanism_has_a_row() -> None:
    assert set(MECHANISMS) <= {name for name, _ in SETTINGS}
    rows = [line for line in TABLE.splitlines() if line.startswith("| ")]
    assert all(line.count("|") == 6 for line in rows) and len(rows) > 40


@pytest.mark.parametrize(("name", "value"), SETTINGS, ids=[name for name, _ in SETTINGS])
def test_the_default_of_the_table_is_that_of_the_configuration(name: str, value: str) -> None:
    default = getattr(BDQConfig(), name)
    wanted = None if value == "none" else tomllib.loads(f"x = {value}")["x"]
    assert default == wanted, f"{name} is {default!r} by default"


@pytest.mark.parametrize("text", [TABLE, AGENT], ids=["mechanisms", "agent"])
def test_every_module_is_there(text: str) -> None:
    names = set(re.findall(r"`(\w+\.py)`", text))
    places = [ROOT / "fox_agents" / "dqn", ROOT / "scripts"]
    assert names and not {name for name in names if not any((place / name).exists() for place in places)}


def test_every_rule_of_acting_is_explained() -> None:
    assert not [rule for rule in RULES if f"`{rule}`" not in AGENT]


def test_every_setting_that_is_named_exists() -> None:
    fields = BDQConfig.__dataclass_fields__
    named = re.findall(r"`(\w+) = [^`]+`", AGENT) + re.findall(
        r"agent\.(\w+)=", AGENT.replace("agent.key", "")
    )
    assert named and not [nearest(name, fields) for name in named if name not in fields]
