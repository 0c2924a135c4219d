"""The page in headless Chromium, without a network: it draws, sorts, fits a phone and complains about nothing."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_cases import costs, evidence, result

from fox_agents.evidence import FoldRow, Interval
from fox_agents.report import write_report

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no chromium and chromedriver (apt-get install chromium-driver)",
)
HOSTILE = "</script><img src=x onerror=alert(1)>"
STEPS, TRADES = 300, 120


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every part, and a name that would run a script."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    pnl = [float(x) for x in rng.permutation(TRADES) - 60]
    health = folder / "health.jsonl"
    lines = [{"step": i, "group": "train", "loss": 1 / (i + 1), "zeal": 1.0} for i in range(40)]
    health.write_text("\n".join(map(json.dumps, lines)))
    rows = [
        FoldRow(i, "2020 to 2021", "2021", "2022", HOSTILE, 0.1, Interval(1, -1, 2), 9.0, 5) for i in range(3)
    ]
    played = result(rng.normal(size=STEPS) * 1e-3, pnl, range(0, STEPS, 3), agent=HOSTILE, symbol=HOSTILE)
    others = [result(rng.normal(size=STEPS) * 1e-3, agent=f"baseline_{i}") for i in range(7)]
    known = {HOSTILE: evidence(-2.0, 0.5, HOSTILE, costs=costs(0.01), break_even=0.4)}
    return write_report(
        folder / "report.html", [played, *others], ["x" * 300], evidence=known, folds=rows, health=health
    )


def show(browser: Any, page: Path, width: int, scheme: str = "light") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page.as_uri())


def points(browser: Any) -> dict[str, list[int]]:
    """Points of every curve of every chart that is drawn."""
    found: dict[str, list[int]] = browser.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.js-plotly-plot')]"
        ".map((chart) => [chart.id, chart.data.map((trace) => Math.min(trace.x.length, trace.y.length))]))"
    )
    return found


def column(browser: Any, heading: str) -> list[str]:
    """Texts of one column of the trade list as it is shown."""
    texts: list[str] = browser.execute_script(
        "const table = document.getElementById('trades');"
        "const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === arguments[0]);"
        "return [...table.tBodies[0].rows].map((row) => row.cells[at].textContent)",
        heading,
    )
    return texts


def click(browser: Any, heading: str) -> None:
    browser.execute_script(
        "[...document.querySelectorAll('#trades th button')].find((b) => b.textContent === arguments[0]).click()",
        heading,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_loads_without_an_error_and_asks_for_nothing(browser: Any, page: Path, scheme: str) -> None:
    browser.get_log("performance")
    show(browser, page, 1280, scheme)
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked == [page.as_uri()]
    assert browser.execute_script("return document.images.length") == 0
    assert HOSTILE in browser.execute_script("return document.querySelector('h1').textContent")
    legend = browser.execute_script("return document.querySelector('#equity .legendtext').textContent")
    assert legend == HOSTILE


def test_charts_have_the_points_of_the_data(browser: Any, page: Path) -> None:
    show(browser, page, 1280)
    drawn = points(browser)
    assert drawn["equity"] == [STEPS + 1] * 16  # account and drawdown of eight agents
    assert drawn["price"] == [STEPS + 1, 50, 50, 59, 61, STEPS + 1]
    assert drawn["sensitivity"] == [3]
    assert drawn["health-0"] == [40] and "health-1" not in drawn  # in a part that is closed
    browser.execute_script("[...document.querySelectorAll('#health details')][0].open = true")
    browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 50))")
    assert points(browser)["health-1"] == [40]
    assert browser.execute_script("return document.querySelectorAll('#r-multiples .bars .point').length") > 3


def test_the_trade_list_sorts_numbers_as_numbers(browser: Any, page: Path) -> None:
    show(browser, page, 1280)
    assert len(column(browser, "P&L")) == 50
    click(browser, "P&L")
    assert column(browser, "P&L")[:2] == ["59.00", "58.00"]
    assert browser.execute_script("return document.querySelectorAll('#trades [aria-sort]').length") == 1
    click(browser, "P&L")
    assert [float(text) for text in column(browser, "P&L")] == list(range(-60, -10))
    browser.execute_script("document.getElementById('next').click()")
    assert column(browser, "P&L")[0] == "-10.00"
    assert browser.execute_script("return document.getElementById('page').textContent") == "page 2 of 3"
    click(browser, "entry")
    assert column(browser, "entry") == sorted(column(browser, "entry"))


def test_the_download_holds_every_trade(browser: Any, page: Path) -> None:
    show(browser, page, 1280)
    text = browser.execute_async_script(
        "const done = arguments[0]; const link = document.getElementById('download');"
        "done(link.href.startsWith('blob:') ? JSON.parse(document.getElementById('trade-csv').textContent) : '')"
    )
    assert len(text.splitlines()) == TRADES + 1


def test_a_phone_scrolls_down_only(browser: Any, page: Path) -> None:
    show(browser, page, 375)
    width, inner = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert width == inner == 375
    assert browser.execute_script(
        "return [...document.querySelectorAll('.chart svg.main-svg')].every((svg) => svg.clientWidth <= 375)"
    )
    box, table = browser.execute_script(
        "const box = document.querySelector('#key-figures .box'); return [box.clientWidth, box.scrollWidth]"
    )
    assert table > box  # eight agents scroll inside their box


def test_colours_follow_the_scheme(browser: Any, page: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        show(browser, page, 1280, scheme)
        colours.append(
            browser.execute_script(
                "const style = (place) => getComputedStyle(document.querySelector(place));"
                "return [style('body').color, style('#equity .xtick text').fill]"
            )
        )
    light, dark = colours
    assert light[0] == light[1] != dark[0] == dark[1]
