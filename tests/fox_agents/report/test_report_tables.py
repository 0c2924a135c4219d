"""The numbers behind the charts and tables of the report."""

import numpy as np
import pytest
from report_cases import costs, evidence, result

from fox_agents.evidence import Evidence, Interval
from fox_agents.report import charts, equity_image, tables
from fox_agents.report.figures import FIGURES, cell, percent
from fox_env import metrics


def rows_of(groups: list[dict[str, object]]) -> dict[str, list[tuple[str, str]]]:
    return {row["figure"].name: row["cells"] for group in groups for row in group["rows"]}  # type: ignore[attr-defined]


def test_a_month_is_the_product_of_its_bars() -> None:
    """The first step ends in November, a day a step from then on."""
    day = 86_400_000_000_000
    returns = np.random.default_rng(0).normal(size=70) * 0.01
    table = tables.monthly(result(returns, spacing=day))
    assert [row["year"] for row in table["rows"]] == [2021, 2022]
    first, second = (row["cells"] for row in table["rows"])
    december, january = np.prod(1 + returns[:31]) - 1, np.prod(1 + returns[31:62]) - 1
    assert first[:11] == [None] * 11 and first[11] == pytest.approx(december)
    assert second[0] == pytest.approx(january) and second[2:] == [None] * 10
    total = (1 + table["rows"][0]["total"]) * (1 + table["rows"][1]["total"]) - 1
    assert total == pytest.approx(np.prod(1 + returns) - 1)
    assert table["largest"] == pytest.approx(max(abs(december), abs(january), abs(second[1])))


def test_key_figures_show_intervals_and_leave_out_what_nobody_knows() -> None:
    known = Evidence("bdq", {"sharpe": Interval(1.0, -0.5, 2.0), "mean_return": Interval(1e-5, -1e-5, 3e-5)})
    table = rows_of(tables.key_figures([result([0.01], [5.0]), result([0.0], agent="flat")], {"bdq": known}))
    assert table["sharpe"][0][1] == "-0.50 to 2.00" and table["sharpe"][1][1] == ""
    assert table["mean_return"] == [("+0.0010%", "-0.0010% to +0.0030%"), ("-", "")]
    assert table["trials"] == [("1", ""), ("-", "")]
    assert "overfitting" not in table and "fees" not in table


def test_every_figure_has_a_definition_and_no_zero_is_negative() -> None:
    assert all(len(figure.definition) > 20 and figure.label for figure in FIGURES.values())
    assert cell(FIGURES["action_entropy"], {"action_entropy": -0.0}) == "0.00"
    assert cell(FIGURES["cagr"], {"cagr": 4.3e9}) == "+4.3e+11%"
    assert cell(FIGURES["sharpe"], {"sharpe": float("nan")}) == cell(FIGURES["sharpe"], {}) == "-"
    assert [percent(x) for x in (0.0, 0.042, -0.0042)] == ["0%", "+4.2%", "-0.42%"]


def test_a_long_trade_list_keeps_the_largest_in_order_of_time() -> None:
    pnl = np.random.default_rng(0).permutation(np.arange(1, tables.MOST_TRADES + 101.0)) * -1
    shown = tables.trade_rows(result(np.zeros(9), pnl.tolist()))
    made = shown["headings"].index("P&L")
    assert [row[made] for row in shown["rows"]] == [p for p in pnl if p < -100]


def test_prices_of_the_trade_list_have_the_decimals_of_a_tick() -> None:
    shown = tables.trade_rows(result([0.1], [12.346]))
    row = dict(zip(shown["headings"], zip(shown["rows"][0], shown["digits"], strict=True), strict=True))
    assert row["in at"] == (1_000.25, 2) and row["size"] == (1.0, 0) and row["P&L"] == (12.35, 2)
    assert row["entry"][0] == "2021-11-30 22:00" and row["side"][0] == "long"


def test_the_csv_holds_every_trade_or_is_left_out() -> None:
    played = result(np.zeros(9), [1.0, -2.0])
    text = tables.trade_csv(played.trades)
    assert text is not None and len(text.splitlines()) == 3
    assert tables.trade_csv(result(np.zeros(9), [1.0] * 20_000).trades) is None


def test_the_histogram_counts_every_trade_on_its_side_of_zero() -> None:
    r = [-30.0, -1.0, -0.5, -0.1, 0.1, 0.3, 2.0, 55.0]
    chart = charts.r_multiples(result(np.zeros(20), [100 * x for x in r]).trades)
    assert chart is not None
    x, y = (np.array(chart["data"][0][axis]) for axis in "xy")
    assert y.sum() == len(r) and y[x > 0].sum() == 4 and len(x) <= 40
    assert y[0] == y[-1] == 1  # what lies beyond ten R
    assert charts.r_multiples(result([0.0], [1.0, 2.0]).trades.with_columns(r=float("nan"))) is None


def test_drawdown_is_that_of_the_whole_curve() -> None:
    """A trough that is neither the highest nor the lowest account value of its stretch."""
    returns = np.random.default_rng(1).normal(size=50_000) * 1e-4
    returns[[25_010, 25_020, 25_021, 25_025]] = -0.1, 1.2, -0.4, 0.3
    played = result(returns)
    chart = charts.equity([played])
    drawn = chart["data"][1]["y"]
    assert min(drawn) == pytest.approx(metrics.drawdowns(returns).min(), abs=1e-6)
    assert max(chart["data"][0]["y"]) == pytest.approx(played.equity.max(), abs=0.01)
    assert chart["data"][0]["y"][-1] == pytest.approx(played.equity[-1], abs=0.01)
    assert len(drawn) <= 4_000


def test_the_price_chart_has_every_fill_and_exit_of_a_short_run() -> None:
    played = result(np.zeros(30), [5.0, -5.0, 0.0], [0, 3, 9, 10, 20])
    sizes = {trace["name"]: len(trace["x"]) for trace in charts.price(played)["data"]}
    assert sizes == {
        "T close": 31,
        "buy": 3,
        "sell": 2,
        "winning exit": 1,
        "losing exit": 2,
        "position": 31,
    }
    times = charts.price(played)["data"][1]["x"]
    assert times[0] == played.times[1].astype("datetime64[ms]").astype(int)


def test_break_even_is_marked_where_it_lies_within_the_study() -> None:
    near, far = (charts.sensitivity(evidence(-1, 1, costs=costs(0.1), break_even=e)) for e in (0.3, 40.0))
    assert near["layout"]["shapes"][0]["x0"] == 0.3 and "shapes" not in far["layout"]
    assert near["data"][0]["x"] == [0.0, 1.0, 2.0]


def test_the_image_shows_the_curves() -> None:
    pytest.importorskip("matplotlib")
    flat, fallen = (equity_image([result(returns, agent="a $x$ b")]) for returns in ([0.0] * 9, [-0.05] * 9))
    assert flat.shape == (480, 800, 3) and flat.dtype == np.uint8
    assert (flat != fallen).any()


def test_many_exits_are_hidden_at_first() -> None:
    few, many = (charts.price(result(np.zeros(9), [1.0] * count))["data"] for count in (300, 301))
    exits = [next(trace for trace in data if trace["name"] == "winning exit") for data in (few, many)]
    assert [trace["visible"] for trace in exits] == [True, "legendonly"]
