"""Checkpoint directories: whole or not at all, readable without pickle, clear about damage."""

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fox_agents.checkpoint import (
    CheckpointError,
    CheckpointStore,
    atomic_directory,
    market_fingerprint,
    read_arrays,
    read_state,
    require_same,
    write_arrays,
    write_state,
)
from fox_env import synthetic


def save(directory: Path, value: float) -> None:
    with atomic_directory(directory) as temporary:
        write_arrays(temporary, "a", {"x": np.full(1000, value), "flag": np.array(True), "n": np.array(7)})
        write_state(temporary, {"value": value})


def value(directory: Path) -> float:
    x = float(read_arrays(directory, "a")["x"][0])
    assert read_state(directory)["value"] == x
    return x


def test_round_trip_keeps_shapes_and_dtypes(tmp_path: Path) -> None:
    save(tmp_path / "c", 1.5)
    arrays = read_arrays(tmp_path / "c", "a")
    assert arrays["x"].dtype == np.float64
    assert arrays["flag"].shape == () and arrays["flag"].dtype == bool
    assert arrays["n"].shape == () and arrays["n"] == 7


def test_a_failed_save_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    save(tmp_path / "c", 1.0)

    def fail() -> None:
        with atomic_directory(tmp_path / "c") as temporary:
            write_state(temporary, {"value": 2.0})
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert value(tmp_path / "c") == 1.0
    save(tmp_path / "c", 3.0)
    assert value(tmp_path / "c") == 3.0
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_kill_in_the_middle_of_a_save_leaves_the_last_good_one(tmp_path: Path) -> None:
    program = """
        import os, signal, sys
        from pathlib import Path
        import numpy as np
        from fox_agents.checkpoint import CheckpointStore, atomic_directory, write_arrays, write_state

        def good(directory):
            with atomic_directory(directory) as t:
                write_arrays(t, "a", {"x": np.full(1000, 1.0)})
                write_state(t, {"value": 1.0})

        def killed(directory):
            with atomic_directory(directory) as t:
                write_arrays(t, "a", {"x": np.full(1000, 2.0)})
                os.kill(os.getpid(), signal.SIGKILL)

        store = CheckpointStore(Path(sys.argv[1]))
        store.save("last", 100, good)
        store.save("last", 200, killed)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert any(
        ".tmp-" in name for name in os.listdir(tmp_path)
    )  # the torn save is there, and is not taken for one
    store = CheckpointStore(tmp_path)
    found = store.find("last")
    assert found is not None and value(found) == 1.0
    store.save("last", 200, lambda d: save(d, 5.0))
    found = store.find("last")
    assert found is not None and value(found) == 5.0
    assert sorted(os.listdir(tmp_path)) == ["index.json", found.name]


def test_a_kill_between_the_two_renames_is_survived(tmp_path: Path) -> None:
    save(tmp_path / "c", 1.0)
    os.rename(tmp_path / "c", tmp_path / ".c.previous")
    assert value(tmp_path / "c") == 1.0


def test_the_store_keeps_last_and_best_only(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints")
    assert store.find("last") is None
    for step in (10, 20, 30):
        store.save("last", step, lambda d, s=step: save(d, float(s)))  # type: ignore[misc]
        if step == 20:
            store.save("best", step, lambda d: save(d, 20.0), score=0.5)
    store.save("last", 30, lambda d: save(d, 31.0))  # the same step once more
    best, last = store.find("best"), store.find("last")
    assert best is not None and value(best) == 20.0
    assert last is not None and value(last) == 31.0
    entry = store.entry("best")
    assert entry is not None and (entry["step"], entry["score"]) == (20, 0.5)
    assert len(list((tmp_path / "checkpoints").iterdir())) == 3


def test_a_directory_that_is_no_checkpoint_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        save(tmp_path / "mine", 1.0)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_damage_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        read_state(tmp_path / "missing")
    save(tmp_path / "c", 1.0)
    path = tmp_path / "c" / "a.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"damaged checkpoint file .*a\.safetensors"):
        read_arrays(tmp_path / "c", "a")
    (tmp_path / "c" / "state.json").write_text('{"format": 1')
    with pytest.raises(CheckpointError, match="damaged"):
        read_state(tmp_path / "c")


def test_an_index_cannot_point_outside_its_directory(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"last": {"directory": "../../etc", "step": 1, "score": null}}')
    assert CheckpointStore(tmp_path).find("last") == tmp_path / "etc"


def test_data_are_the_same_while_money_and_bars_are() -> None:
    market = synthetic.martingale(seed=0, sessions=1)
    mine = market_fingerprint(market)
    reworded = replace(market, contract=replace(market.contract, source="another page"))
    assert market_fingerprint(reworded) == mine
    dearer = replace(market, contract=replace(market.contract, fee_per_side=9.0))
    gaps = np.zeros(len(market))
    gaps[7] = 1.0
    rolled = replace(market, bars=replace(market.bars, roll_gap=gaps))
    assert market_fingerprint(dearer) != mine != market_fingerprint(rolled)


def test_the_first_difference_is_named() -> None:
    require_same("environment", {"a": 1, "b": (1, 2)}, {"a": 1, "b": [1, 2]})
    with pytest.raises(CheckpointError, match="environment differs in b: saved 2, now 3"):
        require_same("environment", {"a": 1, "b": 2, "c": 0}, {"a": 1, "b": 3, "c": 9})
