"""The reference table as a page: every market with its right answer and its bar, and whether each agent met it."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fox_agents.experiments import reference_of

MARTINGALE_LEVEL = 0.01
MARTINGALE_EXPOSURE = 0.05
"""Share of the bars with a position that counts as near none."""
HEADINGS = (
    "market",
    "agent",
    "share of the answer, %",
    "worst seed",
    "money a bar",
    "exposure",
    "bar",
    "seconds",
)
ANSWERS = {
    "no trade": "do not trade; bar: no profit at 1 %, pooled over the seeds, and a position in at most 5 % of the bars",
    "optimum": "the computed optimum, {answer:.2f} a bar; bar: {bar:.0%} of it, every seed",
    "planted rule": "the planted rule, {answer:.2f} a bar; bar: {bar:.0%} of it, every seed",
    "fixed rules": (
        "the best fixed rule of every phase, {answer:.2f} a bar; bar: the best rule that ignores the phase, every seed"
    ),
}
IMPROVES = (
    "the computed optimum, {answer:.2f} a bar; bar: no less money than after a tenth of the training, and a value gap "
    "of at least a tenth of the one then, every seed"
)


def met(row: dict[str, Any]) -> bool:
    """Whether an agent met the bar of a market."""
    if row["martingale_p"] is not None:
        return bool(row["martingale_p"] >= MARTINGALE_LEVEL and row["exposure"] <= MARTINGALE_EXPOSURE)
    passed, _, of = row["passed"].partition("/")
    return bool(passed == of and not row["fault"])


def page(rows: Sequence[dict[str, Any]], machine: dict[str, Any], seeds: int) -> str:
    """The page in Markdown, with the command, the machine and the date."""
    command = " ".join(["python", "benchmarks/reference_markets.py", *map(shlex.quote, sys.argv[1:])])
    lines = [
        "# Reference table",
        "",
        f"`{command}`",
        "",
        f"{machine['date'][:10]}, commit {machine['commit']}, {_hardware(machine)}. {seeds} seeds of market and agent; "
        "means with 95 % intervals over seeds, scored on fresh bars. Above 100 % is luck of the scored bars, or a "
        "fault of the test where the page says so.",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
    ]
    for row in rows:
        cells = (
            row["market"],
            row["agent"],
            _interval(row),
            _number(row["worst_%"], ".1f"),
            _number(row["money"], ".2f"),
            _number(100.0 * row["exposure"], ".0f") + " %",
            ("met" if met(row) else "missed") + (", fault" if row["fault"] else "") + _p(row),
            _number(row["train_s"], ".0f"),
        )
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Right answers:", ""]
    for name in dict.fromkeys(row["market"] for row in rows):
        reference, answer = reference_of(name), next(r["answer"] for r in rows if r["market"] == name)
        text = IMPROVES if reference.improves else ANSWERS[reference.answer]
        lines.append(f"- `{name}`: {text.format(answer=answer, bar=reference.bar)}.")
    return "\n".join(lines) + "\n"


def _hardware(machine: dict[str, Any]) -> str:
    gpu = machine.get("gpu")
    return f"{machine['cpu']}, {machine['cores']} cores" + ("" if gpu is None else f", {gpu['name']}")


def _interval(row: dict[str, Any]) -> str:
    if row["share_%"] is None:
        return "-"
    ends = "" if row["low_%"] is None else f" ({row['low_%']:.1f} to {row['high_%']:.1f})"
    return f"{row['share_%']:.1f}{ends}"


def _number(value: float | None, style: str) -> str:
    return "-" if value is None else format(value, style)


def _p(row: dict[str, Any]) -> str:
    return "" if row["martingale_p"] is None else f" (p = {row['martingale_p']:.2f})"


def write(path: Path, rows: Sequence[dict[str, Any]], machine: dict[str, Any], seeds: int) -> None:
    """Write the page beside the JSON file."""
    path.write_text(page(rows, machine, seeds), encoding="utf-8")
