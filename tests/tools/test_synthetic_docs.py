"""The page about synthetic markets names every parameter, and its figures are small and can be drawn again."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fox_env import synthetic
from fox_env.optimum import REFERENCE, signal_optimum

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "synthetic-markets.md").read_text()


@pytest.mark.parametrize("name", list(synthetic.MARKETS))
def test_the_page_names_every_parameter_with_its_default(name: str) -> None:
    common, section = PAGE.split("\n## ")[1], PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]
    for parameter in inspect.signature(synthetic.MARKETS[name]).parameters.values():
        said = re.search(rf"`{parameter.name}` \(([0-9.]+)[;)]", common + section)
        assert said is not None and float(said.group(1)) == parameter.default, parameter.name


def test_the_page_gives_the_optimum_that_is_computed() -> None:
    rows = re.findall(r"^\| ([0-9.]+) \| ([0-9.]+) \| ([0-9.]+) \| ([0-9.]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 7
    for beta, half_spread, money, threshold in rows[::3]:
        market = synthetic.signal(seed=0, sessions=2, beta=float(beta))
        found = signal_optimum(market, REFERENCE.replace(half_spread_ticks=float(half_spread)))
        assert found.money_per_bar == pytest.approx(float(money), abs=0.006)
        assert (
            found.target(float(threshold) + 0.02, 0.0) == found.target(float(threshold) + 0.02, -4.0) == 4.0
        )
        assert found.target(float(threshold) - 0.04, -4.0) < 4.0


@pytest.mark.parametrize("name", list(synthetic.MARKETS))
def test_the_page_shows_a_small_figure_of_each_market(name: str) -> None:
    assert f"](figures/{name}.png)" in PAGE
    assert 5_000 < (DOCS / "figures" / f"{name}.png").stat().st_size < 80_000


def test_the_figures_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the figures need the render extra")
    script = DOCS / "figures" / "stylised_facts.py"
    subprocess.run([sys.executable, script, "--out", tmp_path, "--sessions", "8"], check=True, timeout=120)
    assert {path.stem for path in tmp_path.glob("*.png")} == set(synthetic.MARKETS)
