"""Contract specifications: known values, look-up by name, and refusal of values that mean nothing."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from fox_env.contracts import ContractSpec, contract, known_contracts, load_contracts
from fox_env.errors import ConfigError

GOOD: dict[str, Any] = {"symbol": "T", "tick_size": 0.25, "multiplier": 50.0}


@pytest.mark.parametrize(
    ("symbol", "tick_value"),
    [
        ("ES", 12.5), ("MES", 1.25), ("NQ", 5.0), ("MNQ", 0.5), ("RTY", 5.0), ("YM", 5.0),
        ("CL", 10.0), ("MCL", 1.0), ("NG", 10.0), ("GC", 10.0), ("MGC", 1.0), ("SI", 25.0), ("HG", 12.5),
        ("ZN", 15.625), ("ZB", 31.25), ("ZF", 7.8125), ("ZT", 7.8125), ("6E", 6.25), ("6J", 6.25),
        ("6B", 6.25), ("ZC", 12.5), ("ZS", 12.5), ("ZW", 12.5), ("FESX", 10.0),
        ("cu", 50.0), ("rb", 10.0), ("m", 10.0), ("TA", 10.0), ("IF", 60.0), ("FX", 1.0), ("EQUITY", 0.01),
    ],
)  # fmt: skip
def test_tick_value_is_the_exchange_value(symbol: str, tick_value: float) -> None:
    assert contract(symbol).tick_value == pytest.approx(tick_value, rel=1e-12)


def test_every_shipped_contract_costs_something_and_keeps_margins_in_order() -> None:
    for spec in known_contracts().values():
        assert spec.fee_per_side > 0 or spec.fee_rate > 0
        assert spec.maintenance_margin <= spec.initial_margin


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
    ],
)
def test_meaningless_fields_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        ContractSpec(**(GOOD | change))


def test_users_add_contracts_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[XY]\ntick_size = 0.5\nmultiplier = 20\nfee_per_side = 1.0\n")
    assert load_contracts(path)["XY"] == ContractSpec("XY", 0.5, 20.0, fee_per_side=1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[XY]\ntick_size = 0.5\n", "lacks multiplier"),
        ("[XY]\ntick_size = 0.5\nmultiplier = 1\nticksize = 2\n", "unknown field 'ticksize'"),
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
