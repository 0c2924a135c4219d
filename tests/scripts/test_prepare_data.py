"""Preparing data as a user does it: reports, exit codes, one-line mistakes, and a file that trains as it is."""

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("pandas_market_calendars")

from fox_agents import cli
from fox_agents.config import DataConfig
from fox_agents.training import load_market
from fox_env import contracts, read_bars
from fox_env.prepared import stored_contract, stored_provenance
from fox_env.readers import write_bars

SCRIPT = Path(__file__).parents[2] / "scripts" / "prepare_data.py"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
HEADER = "timestamp_utc,open,high,low,close,volume,open_interest\n"


class Done(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run the script in an empty directory, within this process."""
    spec = importlib.util.spec_from_file_location("prepare_data", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)
    on_termination = signal.getsignal(signal.SIGTERM)

    def call(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["prepare_data.py", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.run(module.main)
        return Done(int(left.value.code or 0), *capsys.readouterr())

    yield call
    signal.signal(signal.SIGTERM, on_termination)


def csv(rows: int = 300, *, lines: dict[int, str] | None = None, start: str = "2024-05-09T10:00") -> str:
    """Return minute bars of ES as text; `lines` replaces rows by others."""
    rng = np.random.default_rng(1)
    close = 5200 + 0.25 * np.cumsum(rng.integers(-2, 3, rows))
    open_ = np.concatenate(([5200.0], close[:-1]))
    ts = np.datetime64(start) + np.arange(1, rows + 1)
    text = [
        f"{ts[i]},{open_[i]},{max(open_[i], close[i]) + 0.5},{min(open_[i], close[i]) - 0.5},{close[i]},9,{1000 + i}"
        for i in range(rows)
    ]
    for row, line in (lines or {}).items():
        text[row] = line.replace("TIME", str(ts[row]))
    return HEADER + "\n".join(text) + "\n"


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    path = tmp_path / "clean.csv"
    path.write_text(csv())
    return path


FAULTY = {
    50: "TIME,5200,5201,5199,5210,9,1",
    70: "TIME,5200,5201,5199,,9,1",
    90: "TIME,5200,5201,5199.1,5200,0,1",
}


def test_a_clean_file_is_checked_without_writing(run: Run, clean: Path, tmp_path: Path) -> None:
    done = run("clean.csv", "--contract=ES", "--check")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "checking clean.csv",
        "300 bars every 60 s from 2024-05-09T10:01:00 to 2024-05-09T15:00:00 UTC: ok",
        "gaps judged by the sessions CME_EQUITY",
    ]
    assert list(tmp_path.iterdir()) == [clean]


def test_a_faulty_file_is_reported_in_full_and_refused_in_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "faulty.csv").write_text(csv(lines=FAULTY))
    done = run("faulty.csv", "--contract=ES", "--check")
    assert done.code == 2
    assert done.err == (
        "error: faulty.csv: row 70, column close: price is nan; fill in the value or drop the row "
        "(--repair drop_non_finite)\n"
    )
    for words in ("not usable", "non_finite", "ohlc", "off_tick", "zero_volume", "--repair widen"):
        assert words in done.out, words
    assert "\x1b" not in done.out
    report = json.loads(run("faulty.csv", "--contract=ES", "--check", "--json").out)["report"]
    assert report["kinds"]["ohlc"]["repairs"] == ["widen", "drop_bad_ohlc"]
    assert {"kind": "zero_volume", "row": 90, "column": "volume", "message": "nothing traded"} in report[
        "problems"
    ]
    assert run("faulty.csv").code == 2
    assert not (tmp_path / "market.parquet").exists()


def test_a_prepared_file_holds_the_same_bars_and_trains_without_options(
    run: Run, clean: Path, tmp_path: Path
) -> None:
    done = run("clean.csv", "--contract=NQ")
    assert (done.code, done.err) == (0, "")
    assert "300 bars in market.parquet" in done.out
    raw, prepared = read_bars(clean), read_bars("market.parquet")
    for name in ("ts", "open", "high", "low", "close", "volume", "gap", "session_end"):
        np.testing.assert_array_equal(getattr(prepared, name), getattr(raw, name), err_msg=name)
    np.testing.assert_array_equal(prepared.extra["open_interest"], raw.extra["open_interest"])
    assert stored_contract("market.parquet") == contracts.contract("NQ")
    provenance = stored_provenance("market.parquet")
    assert provenance is not None and provenance["sources"][0]["file"] == "clean.csv"
    data = DataConfig(file=str(tmp_path / "market.parquet"))
    assert load_market(data).contract == contracts.contract("NQ")
    assert load_market(DataConfig(file=data.file, contract="ES")).contract == contracts.contract("ES")
    assert load_market(DataConfig(file=str(clean))).contract == contracts.contract("ES")


def test_an_existing_file_is_replaced_only_when_told(run: Run, clean: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.parquet"
    out.write_text("old")
    done = run("clean.csv", "--out=mine.parquet")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: mine.parquet exists; pass --force to replace it, or --out with another name\n"
    assert out.read_text() == "old"
    assert run("clean.csv", "--out=mine.parquet", "--force").code == 0
    assert len(read_bars(out)) == 300
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean.csv", "mine.parquet"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'IN...'"),
        (["absent.csv"], "absent.csv: "),
        (["clean.csv", "--contract=EZ"], "Unknown contract 'EZ': nearest are "),
        (
            ["clean.csv", "--repair=sort,keep_frist"],
            "Unknown repair 'keep_frist': did you mean 'keep_first'?",
        ),
        (["clean.csv", "--repair=keep_first,keep_last"], "keep_first and keep_last exclude each other"),
        (["clean.csv", "--label=middle"], "Unknown label='middle'"),
        (["clean.csv", "--check", "--out=a.parquet"], "--check writes nothing; leave out --out and --force"),
        (["clean.csv", "--out=clean.csv", "--force"], "--out clean.csv is one of the files to read"),
        (["clean.csv", "--out=."], "--out . is a directory"),
        (["clean.csv", "--out=nowhere/a.parquet"], "no directory nowhere for --out; create it first"),
        (["clean.csv", "--mark-rolls"], "--mark-rolls found no roll"),
        (["clean.csv", "--chek"], "No such option: --chek"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    run: Run, clean: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert message in done.err and done.err.startswith("error: ") and done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [clean]


def test_json_is_one_document_and_quiet_prints_nothing(run: Run, clean: Path) -> None:
    done = run("clean.csv", "--contract=ES", "--json")
    values = json.loads(done.out)
    assert (values["out"], values["report"]["rows"], values["report"]["ok"]) == ("market.parquet", 300, True)
    assert list(values["report"]) == [
        "ok", "rows", "first", "last", "interval_s", "contract", "sessions", "repairs", "kinds", "problems",
    ]  # fmt: skip
    assert run("clean.csv", "--contract=ES", "--check", "--quiet") == Done(0, "", "")


def test_repairs_are_applied_listed_and_kept(run: Run, tmp_path: Path) -> None:
    (tmp_path / "faulty.csv").write_text(csv(lines=FAULTY))
    done = run("faulty.csv", "--contract=ES", "--label=close", "--repair=widen,drop_non_finite")
    assert done.code == 0, done.err
    assert "reading: drop_non_finite: 1 row with a price or volume that is not a finite number" in done.out
    assert "reading: widen: 1 row whose high or low lies inside the body, first row 50" in done.out
    bars = read_bars("market.parquet")
    assert len(bars) == 299 and bars.high[50] == 5210
    provenance = stored_provenance("market.parquet")
    assert provenance is not None
    assert [sentence.split(":")[0] for sentence in provenance["repairs"]] == ["drop_non_finite", "widen"]
    assert provenance["hints"] == {"label": "close", "repair": ["drop_non_finite", "widen"]}


def test_several_files_become_one_market(run: Run, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(csv(start="2024-05-10T10:00"))
    (tmp_path / "a.csv").write_text(csv())
    done = run("b.csv", "a.csv", "--contract=ES")
    assert done.code == 0, done.err
    assert "600 bars in market.parquet" in done.out
    assert (np.diff(read_bars("market.parquet").ts) > 0).all()
    provenance = stored_provenance("market.parquet")
    assert provenance is not None
    assert [source["file"] for source in provenance["sources"]] == ["b.csv", "a.csv"]


def test_trades_need_a_bar_size(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"2024-05-09T10:00:{i:02d},5200.{25 * (i % 2):02d},{1 + 7 * i % 50}\n" for i in range(50))
    (tmp_path / "trades.csv").write_text("timestamp_utc,price,size\n" + rows)
    done = run("trades.csv", "--contract=ES", "--check")
    assert done.code == 2
    assert (
        done.err == "error: trades.csv: holds trades, not bars; pass bars= with a size such as bars='1min'.\n"
    )
    done = run("trades.csv", "--contract=ES", "--bars=10s")
    assert done.code == 0, done.err
    bars = read_bars("market.parquet")
    assert len(bars) == 5 and bars.volume is not None and bars.volume.sum() == 50 * 51 / 2


def test_rolls_are_marked_where_open_interest_tells_of_them(run: Run, tmp_path: Path) -> None:
    first = csv()
    second = csv(start="2024-05-10T10:00").replace(",9,1", ",9,2").removeprefix(HEADER)
    (tmp_path / "rolls.csv").write_text(first + second)
    assert "│ roll" in run("rolls.csv", "--contract=ES", "--check").out
    done = run("rolls.csv", "--contract=ES", "--mark-rolls")
    assert done.code == 0, done.err
    assert "reading: mark_rolls: 1 row marked as a roll by open interest, first row 300" in done.out
    bars = read_bars("market.parquet")
    assert bars.roll_gap is not None
    assert np.flatnonzero(bars.roll_gap).tolist() == [300]
    assert bars.roll_gap[300] == bars.open[300] - bars.close[299]


def test_the_script_runs_on_its_own(clean: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "clean.csv", "--contract=ES"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "market.parquet").is_file()


def test_real_chinese_bars_are_prepared(run: Run, tmp_path: Path) -> None:
    path = SHARED / "SHFE_rb_HOT_5min.csv.gz"
    if not path.exists():
        pytest.skip(f"market data file {path.name} is not at hand")
    done = run(str(path), "--contract=rb", "--tz=Asia/Shanghai", "--mark-rolls", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)["report"]
    assert report["kinds"]["open_interest_break"]["rows"] == 1
    bars = read_bars(tmp_path / "market.parquet")
    assert bars.roll_gap is not None and np.count_nonzero(bars.roll_gap) == 10


def test_a_prepared_file_keeps_its_contract_when_it_is_prepared_again(run: Run, clean: Path) -> None:
    assert run("clean.csv", "--contract=6E", "--out=once.parquet").code == 0
    assert run("once.parquet", "--bars=5min", "--out=twice.parquet").code == 0
    assert stored_contract("twice.parquet") == contracts.contract("6E")
    assert "gaps judged by the sessions CME_FX" in run("once.parquet", "--check").out
    assert run("once.parquet", "--contract=6E", "--out=thrice.parquet").code == 0
    done = run("once.parquet", "--contract=ES", "--out=other.parquet")
    assert (done.code, done.err) == (
        2,
        "error: once.parquet holds the contract 6E, not ES; leave --contract out, or prepare the original files "
        "again\n",
    )


def test_rolls_of_adjusted_bars_are_not_marked(run: Run, clean: Path, tmp_path: Path) -> None:
    write_bars(replace(read_bars(clean), adjusted="difference"), tmp_path / "spliced.parquet")
    done = run("spliced.parquet", "--mark-rolls")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert (
        "--mark-rolls: the bars are adjusted by difference, so their rolls have no gaps left to mark"
        in done.err
    )


def test_daily_bars_hold_the_night_before_where_the_contract_says_so(run: Run, tmp_path: Path) -> None:
    hours = [np.datetime64("2024-05-06T00:10") + np.timedelta64(24 * day + hour, "h")
             for day in range(3) for hour in (13, 14, 25, 26)]  # fmt: skip
    (tmp_path / "cu.csv").write_text(HEADER + "".join(f"{t},70000,70010,69990,70000,1,5\n" for t in hours))
    assert run("cu.csv", "--contract=cu", "--bars=1d", "--out=cu.parquet").code == 0
    made = read_bars("cu.parquet")
    assert made.volume is not None and made.volume.tolist() == [4, 4, 4]
