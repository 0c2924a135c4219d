"""The page is one file: complete, escaped, small."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_cases import costs, evidence, result

from fox_agents.evidence import CostPoint, FoldRow, Interval
from fox_agents.report import write_report
from fox_agents.report.health import read_health
from fox_env.errors import ConfigError, DataError

HOSTILE = "</script><img src=x onerror=alert(1)>"
FOLD = FoldRow(3, "a to b", "b to c", "c to d", "flat", -0.012, Interval(-1.0, -2.5, 0.25), 321.0, 17)


def data_of(page: str, name: str) -> Any:
    """What one of the page's blocks of data holds."""
    match = re.search(rf'id="{name}">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def own_part(page: str) -> str:
    """The page without Plotly's own script."""
    start = page.index("<script>") + len("<script>")
    return page[:start] + page[page.index("</script>", start) :]


@pytest.fixture
def health(tmp_path: Path) -> Path:
    path = tmp_path / "health.jsonl"
    lines = [{"step": i, "group": "train", "loss": 1 / (i + 1), "zeal": 2.0} for i in range(2_500)]
    lines += [{"step": i, "group": "val", "sharpe": -0.1} for i in range(4)]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"step": 9, "group": "tr')
    return path


def test_the_verdict_comes_first_and_every_part_follows(tmp_path: Path, health: Path) -> None:
    losing = result([-0.01, 0.0, -0.032], [-500.0, 20.0], costs=12_345.0)
    path = write_report(
        tmp_path / "deep" / "r.html",
        [losing, result([0.0] * 3, agent="flat")],
        ["Chosen by the validation period."],
        evidence={"bdq": evidence(-2.1, -0.4, costs=costs(0.008), break_even=0.3)},
        folds=[FOLD],
        health=health,
    )
    page = own_part(path.read_text(encoding="utf-8"))
    order = [
        "bdq LOST 4.2% after 12,345 USD of costs", "Very likely no edge", "Chosen by the validation period.",
        "Key figures", "Account and drawdown", "Price, fills and position", "Sensitivity to costs", "Break-even",
        "Walk-forward folds", "-1.00 (-2.50 to 0.25)", "Return by month", "R-multiples", "What it chose",
        'id="trades"', ">Training<", "Rules and data", "half_spread_ticks", "Definitions",
    ]  # fmt: skip
    places = [page.index(text) for text in order]
    assert places == sorted(places)
    assert "participation limits and impact are off" in page and "100,000 bars per year" in page
    charts = data_of(page, "chart-data")
    assert list(charts) == [
        "equity",
        "price",
        "sensitivity",
        "r-multiples",
        "health-0",
        "health-1",
        "health-2",
    ]
    assert len(charts["health-0"]["data"][0]["x"]) <= 1_000  # train/loss, thinned
    assert [curve.name for curve in read_health(health)] == ["train/loss", "val/sharpe", "train/zeal"]


def test_parts_without_data_are_left_out(tmp_path: Path) -> None:
    page = own_part(write_report(tmp_path / "r.html", [result([0.0] * 3)]).read_text(encoding="utf-8"))
    assert "NEVER TRADED" in page and "No trade was closed." in page
    for absent in ("Sensitivity", "Walk-forward folds", ">Training<", 'id="trades"', "On the same bars"):
        assert absent not in page
    assert list(data_of(page, "chart-data")) == ["equity", "price"]


def test_every_name_in_the_table_leads_to_its_definition(tmp_path: Path) -> None:
    known = {"bdq": evidence(-1.0, 1.0, deflated_sharpe=0.5, overfitting=0.4)}
    page = write_report(tmp_path / "r.html", [result([0.1, -0.1], [5.0, -4.0])], evidence=known)
    text = own_part(page.read_text(encoding="utf-8"))
    linked = set(re.findall(r'href="#(def-[a-z_]+)"', text))
    assert {"def-sharpe", "def-deflated_sharpe", "def-max_drawdown"} <= linked
    assert linked <= set(re.findall(r'id="(def-[a-z_]+)"', text))


def test_hostile_names_stay_text(tmp_path: Path, health: Path) -> None:
    with health.open("a") as file:
        file.write("\n" + json.dumps({"step": 1, "group": HOSTILE, HOSTILE: 1.0}))
    played = result([0.1, -0.1], [5.0, -4.0], agent=HOSTILE, symbol=HOSTILE, reason=HOSTILE)
    fold = replace(FOLD, train=HOSTILE, selected=HOSTILE)
    path = write_report(tmp_path / "r.html", [played], [HOSTILE], folds=[fold], health=health)
    page = own_part(path.read_text(encoding="utf-8"))
    assert "<img" not in page and page.count("</script>") == page.count("<script")
    charts = data_of(page, "chart-data")
    assert "&lt;img" in charts["equity"]["data"][0]["name"]  # Plotly reads tags in texts
    assert "<" not in json.dumps(charts).replace("<br>", "").replace("<extra></extra>", "").replace(
        "<extra>%{x:,}</extra>", ""
    )


def test_a_million_bars_stay_below_ten_megabytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pnl = (rng.normal(size=60_000) * 100).tolist()
    played = [result(rng.normal(size=1_000_000) * 1e-5, pnl, agent=f"agent {i}") for i in range(4)]
    path = write_report(tmp_path / "r.html", played)
    assert path.stat().st_size < 10e6
    page = path.read_text(encoding="utf-8")
    assert "Too many trades to embed as CSV" in page and "60,000 closed trades; listed are the 5,000" in page
    for trace in data_of(page, "chart-data")["equity"]["data"]:
        assert 1_000 < len(trace["x"]) <= 4_000


def test_what_is_not_a_number_is_shown_as_unknown(tmp_path: Path) -> None:
    nan = float("nan")
    points = (CostPoint(0.0, 0.1, nan, 0.0), CostPoint(1.0, 0.1, 0.3, 9.0))
    path = write_report(
        tmp_path / "r.html",
        [result([0.0, 0.1], [5.0], mean_trade_bars=nan)],
        evidence={"bdq": evidence(nan, nan, costs=points)},
        folds=[replace(FOLD, sharpe=Interval(nan, nan, nan))],
    )
    page = own_part(path.read_text(encoding="utf-8"))
    assert re.search(r"\bnan\b", page.partition("<main>")[2], re.IGNORECASE) is None
    assert "<td>- (unknown)</td>" in page


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least one evaluation result"):
        write_report(str(tmp_path / "r.html"), [])


def test_training_curves_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read the training curves: .*give a run's health\.jsonl"):
        write_report(tmp_path / "r.html", [result([0.0])], health=tmp_path / "absent.jsonl")


def test_importing_the_agents_imports_no_plotly() -> None:
    code = (
        "import sys, fox_agents; print([m for m in ('plotly', 'jinja2', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
