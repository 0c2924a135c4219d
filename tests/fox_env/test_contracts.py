"""Contract specifications: known values, look-up by name, and refusal of values that mean nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from fox_env.calendars import TEMPLATES
from fox_env.contracts import ContractSpec, contract, known_contracts, load_contracts
from fox_env.errors import ConfigError

GOOD: dict[str, Any] = {"symbol": "T", "tick_size": 0.25, "multiplier": 50.0}


@pytest.mark.parametrize(
    ("symbol", "tick_value"),
    [
        ("ES", 12.5), ("MES", 1.25), ("NQ", 5.0), ("MNQ", 0.5), ("RTY", 5.0), ("M2K", 0.5), ("YM", 5.0),
        ("MYM", 0.5), ("CL", 10.0), ("MCL", 1.0), ("NG", 10.0), ("RB", 4.2), ("HO", 4.2), ("GC", 10.0),
        ("MGC", 1.0), ("SI", 25.0), ("HG", 12.5), ("PL", 5.0), ("ZN", 15.625), ("ZB", 31.25), ("ZF", 7.8125),
        ("ZT", 7.8125), ("6E", 6.25), ("M6E", 1.25), ("6J", 6.25), ("6B", 6.25), ("6A", 5.0), ("6C", 5.0),
        ("ZC", 12.5), ("ZS", 12.5), ("ZW", 12.5), ("FESX", 10.0), ("FDAX", 25.0), ("FGBL", 10.0),
        ("cu", 50.0), ("au", 20.0), ("ag", 15.0), ("rb", 10.0), ("m", 10.0), ("i", 50.0), ("TA", 10.0),
        ("IF", 60.0), ("IC", 40.0), ("IH", 60.0), ("IM", 40.0), ("T", 50.0),
        ("FX", 1.0), ("EQUITY", 0.01), ("BTCUSDT", 0.0001),
    ],
)  # fmt: skip
def test_tick_value_is_the_exchange_value(symbol: str, tick_value: float) -> None:
    assert contract(symbol).tick_value == pytest.approx(tick_value, rel=1e-12)


def test_every_shipped_contract_is_complete() -> None:
    for spec in known_contracts().values():
        assert spec.fee_per_side > 0 or spec.fee_rate > 0
        assert spec.maintenance_margin <= spec.initial_margin
        assert spec.name and spec.exchange
        assert spec.session in TEMPLATES
        if spec.initial_margin:
            assert spec.margin_date and spec.source
        if spec.symbol not in ("FX", "EQUITY", "BTCUSDT"):
            assert spec.expiry and spec.roll_days > 0


def test_a_specification_can_be_kept_as_json() -> None:
    spec = contract("6E")
    assert ContractSpec(**json.loads(json.dumps(dataclasses.asdict(spec)))) == spec


def test_a_specification_passes_through_unchanged_and_is_immutable() -> None:
    spec = ContractSpec(**GOOD)
    assert contract(spec) is spec
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.tick_size = 1.0  # type: ignore[misc]


def test_integers_become_floats() -> None:
    spec = ContractSpec(symbol="T", tick_size=1, multiplier=5, maker_fee=-1)
    assert isinstance(spec.tick_size, float) and isinstance(spec.maker_fee, float)
    assert spec.tick_value == 5.0


def test_names_are_found_in_any_case() -> None:
    assert contract("es") is contract("ES")
    assert contract("CU").symbol == "cu"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'MEX'.*nearest are .*MES"):
        contract("MEX")
    with pytest.raises(ConfigError, match="known are ES"):
        contract("????")
    with pytest.raises(ConfigError, match="got 5"):
        contract(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("ESU4", "ES"), ("ESU24", "ES"), ("ESU2024", "ES"), ("esu4", "ES"), ("ES 09-24", "ES"),
        ("ES_202409", "ES"), ("6EH4", "6E"),
        ("M6EH4", "M6E"), ("MESM5", "MES"), ("CLK20", "CL"), ("rb2110", "rb"), ("RB2110", "rb"),
        ("RBK4", "RB"), ("TA109", "TA"), ("T2409", "T"), ("M2K", "M2K"), ("M2KZ4", "M2K"),
        ("IF2406", "IF"), ("IH2406", "IH"), ("IM2406", "IM"), ("CU2406", "cu"), ("AG2406", "ag"), ("AU2012", "au"),
        ("IF2006", "IF"), ("ESU2010", "ES"), ("esu2010", "ES"),
    ],
)  # fmt: skip
def test_the_name_of_an_expiry_means_its_contract(name: str, symbol: str) -> None:
    assert contract(name).symbol == symbol


@pytest.mark.parametrize(
    "name", ["TF5", "IFH5", "ES2409", "rb2113", "ES4", "U4", "ESA4", "ESU202", "201312", "M6E4"]
)
def test_names_that_only_resemble_an_expiry_are_unknown(name: str) -> None:
    with pytest.raises(ConfigError, match="Unknown contract"):
        contract(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tick_size": 0.0}, "tick_size must be greater than 0"),
        ({"multiplier": -1.0}, "multiplier must be greater than 0"),
        ({"tick_size": float("nan")}, "tick_size must be a finite number"),
        ({"tick_size": "0.25"}, "tick_size must be a finite number"),
        ({"multiplier": True}, "multiplier must be a finite number"),
        ({"fee_per_side": -2.0}, "fee_per_side must not be negative"),
        ({"fee_rate": float("inf")}, "fee_rate must be a finite number"),
        ({"maker_fee": float("nan")}, "maker_fee must be a finite number"),
        ({"initial_margin": 100.0, "maintenance_margin": 101.0}, "exceeds initial_margin"),
        ({"symbol": " "}, "symbol must be a non-empty text"),
        ({"timezone": "Chicago/America"}, "unknown time zone"),
        ({"timezone": "../../etc/passwd"}, "unknown time zone"),
        ({"months": "MH"}, "months must be codes of FGHJKMNQUVXZ in this order"),
        ({"months": "HH"}, "each once, got 'HH'"),
        ({"expiry": "third_fridays"}, "unknown expiry rule 'third_fridays'; nearest are third_friday"),
        ({"roll": "oi"}, "roll must be one of volume, open_interest, calendar, got 'oi'"),
        ({"roll_days": -1}, "roll_days must be a whole number from 0, got -1"),
        ({"roll_days": 2.0}, "roll_days must be a whole number"),
        ({"margin_date": "June 2025"}, "margin_date must be a date such as '2025-06-30'"),
        ({"source": 3}, "source must be a text, got 3"),
    ],
)
def test_meaningless_fields_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        ContractSpec(**(GOOD | change))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A user's file of two contracts."""
    path = tmp_path / "mine.toml"
    path.write_text(
        "[XY]\ntick_size = 0.5\nmultiplier = 20\nfee_per_side = 1.0\nmargin_date = 2026-01-31\n"
        '[ES]\nlike = "ES"\ninitial_margin = 9_000\nmaintenance_margin = 8_000\n'
    )
    return path


def test_users_add_contracts_in_a_file(mine: Path) -> None:
    specs = load_contracts(mine)
    assert specs["XY"] == ContractSpec("XY", 0.5, 20.0, fee_per_side=1.0, margin_date="2026-01-31")
    assert contract(f"{mine}:XY") == specs["XY"]


def test_an_entry_like_another_differs_only_in_what_it_names(mine: Path) -> None:
    expected = dataclasses.replace(contract("ES"), initial_margin=9_000.0, maintenance_margin=8_000.0)
    assert contract(f"{mine}:ES") == expected
    mine.write_text(mine.read_text() + '[XZ]\nlike = "XY"\nmultiplier = 2\n')
    assert load_contracts(mine)["XZ"] == dataclasses.replace(
        contract(f"{mine}:XY"), symbol="XZ", multiplier=2.0
    )


def test_a_file_with_one_entry_needs_no_symbol(tmp_path: Path, mine: Path) -> None:
    single = tmp_path / "one.toml"
    single.write_text("[XY]\ntick_size = 0.5\nmultiplier = 20\n")
    assert contract(str(single)).symbol == "XY"
    with pytest.raises(ConfigError, match=r"mine.toml' holds XY, ES; name one as '.*mine.toml:SYM'"):
        contract(str(mine))
    with pytest.raises(ConfigError, match=r"mine.toml' has no entry 'AB'; it holds XY, ES"):
        contract(f"{mine}:AB")


def test_the_environment_variable_adds_and_replaces_contracts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mine: Path
) -> None:
    later = tmp_path / "later.toml"
    later.write_text("[XY]\ntick_size = 1\nmultiplier = 1\n[ZZ]\ntick_size = 1\nmultiplier = 1\n")
    monkeypatch.setenv("FOX_CONTRACTS", f"{mine}{os.pathsep}{later}")
    assert contract("XY").tick_size == 0.5  # of the first file
    assert contract("zz").symbol == "ZZ"
    assert contract("ES").initial_margin == 9_000.0 and contract("ESU4").initial_margin == 9_000.0
    monkeypatch.delenv("FOX_CONTRACTS")
    assert contract("ES").initial_margin == 23_100.0
    monkeypatch.setenv("FOX_CONTRACTS", str(tmp_path / "absent.toml"))
    with pytest.raises(ConfigError, match=r"absent.toml' cannot be read"):
        contract("ES")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[XY]\ntick_size = 0.5\n", "lacks multiplier"),
        ("[XY]\ntick_size = 0.5\nmultiplier = 1\nticksize = 2\n", "unknown field 'ticksize'"),
        ("[XY]\nlike = 'none'\n", "is like 'none', which is neither above it in the file nor shipped"),
        ("[XY]\nlike = 3\n", "is like 3, which"),
        ("XY = 3\n", "is not a table"),
        ("[XY\n", "is not valid TOML"),
    ],
)
def test_a_wrong_contracts_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_contracts(path)


def test_a_missing_contracts_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_contracts(tmp_path / "absent.toml")
