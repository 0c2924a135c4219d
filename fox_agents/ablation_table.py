"""The table of an ablation: what each mechanism changes against the baseline, paired by seed."""

import json
import math
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from fox_agents.ablation import Study, jobs_of, label_of
from fox_agents.mechanisms import BASELINE
from fox_agents.stats.seeds import Estimate, paired_difference, paired_ratio, paired_spread_ratio

__all__ = ["Report", "Row", "markdown", "rows_of", "write_report"]

_REACHED = 0.9  # share of the answer that counts as learned
_POOLED = "all markets"
_NOTES = """\
Final: score on fresh bars after training, in % of the known answer (money a bar where it is not to trade). Over
training: mean of the scores along the way, limited to 0 to 100 %. Spread: standard deviation of the final score over
seeds. Effects and ratios are against the baseline of the same seed, with 95 % intervals (Student's t; Pitman and Morgan
for the spread). Times of an update mean something with one job at a time."""


@dataclass(frozen=True)
class Row:
    """One variant on one market, or averaged over all markets that have an answer; effects are against the baseline."""

    market: str
    variant: str
    seeds: int
    """Pairs of runs."""
    unit: str
    """Of `final` and `learning`: ``%`` of the answer, or ``money`` a bar where the answer is not to trade."""
    final: float
    """Mean final score."""
    final_effect: Estimate | None
    """Mean difference; None for the baseline."""
    learning: float
    """Mean over training of the score, limited to 0 to 100 %: the area under the curve."""
    learning_effect: Estimate | None
    reached: str
    """Runs that came to 90 % of the answer."""
    steps: float | None
    """Median environment steps until then, on every market of a pool; None where less than half came there."""
    spread: float | None
    """Standard deviation of the final score over seeds."""
    spread_ratio: Estimate | None
    update_ms: float
    """Median milliseconds of an update."""
    cost_ratio: Estimate | None
    """Geometric mean ratio of the time of an update."""
    fault: bool
    """Whether a run scored above the optimum, which is a fault of the score."""


@dataclass(frozen=True)
class _Run:
    """What a run counts for."""

    final: float
    learning: float
    steps: float  # infinite where 90 % were never reached
    update_seconds: float
    fault: bool


@dataclass(frozen=True)
class Report:
    """What `write_report` wrote."""

    table: str
    """Markdown."""
    values: dict[str, Any]
    """Study, machine, rows and runs, for JSON."""
    missing: int
    """Runs without a result."""


def write_report(study: Study, results: Sequence[Mapping[str, Any]], folder: Path) -> Report:
    """Write ``ablation.md`` and ``ablation.json`` into ``folder`` and return what is in them."""
    order = {job.label: place for place, job in enumerate(jobs_of(study, folder))}
    results = sorted(results, key=lambda result: order[label_of(result)])
    rows = rows_of(results)
    on_gpu = study.device == "cuda"
    machine = {
        "device": torch.cuda.get_device_name() if on_gpu else platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    values = {"study": asdict(study), "machine": machine, "rows": [plain(row) for row in rows]}
    values |= {"runs": list(results)}
    table = _head(study, machine) + markdown(rows)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ablation.md").write_text(table, encoding="utf-8")
    (folder / "ablation.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return Report(table, values, len(order) - len(results))


def _head(study: Study, machine: Mapping[str, str]) -> str:
    settings = asdict(study.baseline)
    own = asdict(type(study.baseline)())
    changed = [f"{key}={value}" for key, value in settings.items() if value != own[key]]
    changed += [f"env.{key}={value}" for key, value in study.rules.items()]
    said = ", ".join(changed) or "the defaults"
    return (
        f"# Ablation of {study.baseline.algorithm}\n\n{study.steps:,} environment steps in {study.num_envs:,} "
        f"environments, seeds 0 to {study.seeds - 1}, scored on {study.bars:,} bars; {machine['device']}, torch "
        f"{machine['torch']}. Baseline: {said}.\n\n"
    )


def rows_of(results: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows by market and variant in the order of the results; what has no pair with the baseline is left out."""
    runs: dict[str, dict[str, dict[int, _Run]]] = {}
    for result in results:
        of_market = runs.setdefault(result["market"], {})
        of_market.setdefault(result["variant"], {})[result["seed"]] = _run(result)
    answered = {r["market"] for r in results if r["score"]["adjusted_share"] is not None}
    units = {market: "%" if market in answered else "money" for market in runs}
    rows = [row for market in runs for row in _rows(market, units[market], runs[market])]
    if len(answered) > 1:
        rows += _rows(_POOLED, "%", _pooled([runs[market] for market in runs if market in answered]))
    return rows


def _run(result: Mapping[str, Any]) -> _Run:
    score, curve = result["score"], result["curve"]
    shares = [point["share"] for point in curve]
    if score["adjusted_share"] is None:
        final, learning = score["money"], statistics.fmean(point["money"] for point in curve)
    else:
        final = 100.0 * score["adjusted_share"]
        learning = 100.0 * statistics.fmean(min(max(share, 0.0), 1.0) for share in shares)
    there = (p["env_steps"] for p in curve if p["share"] is not None and p["share"] >= _REACHED)
    return _Run(final, learning, next(there, math.inf), result["update_seconds"], score["above_optimum"])


def _pooled(markets: Sequence[dict[str, dict[int, _Run]]]) -> dict[str, dict[int, _Run]]:
    """The mean over markets of each variant and seed that every market has."""
    pooled: dict[str, dict[int, _Run]] = {}
    for variant in markets[0]:
        groups = [market.get(variant, {}) for market in markets]
        seeds = sorted(set.intersection(*(set(group) for group in groups)))
        if seeds:
            pooled[variant] = {seed: _mean([group[seed] for group in groups]) for seed in seeds}
    return pooled


def _mean(runs: Sequence[_Run]) -> _Run:
    return _Run(
        statistics.fmean(run.final for run in runs),
        statistics.fmean(run.learning for run in runs),
        max(run.steps for run in runs),
        statistics.fmean(run.update_seconds for run in runs),
        any(run.fault for run in runs),
    )


def _rows(market: str, unit: str, variants: Mapping[str, Mapping[int, _Run]]) -> list[Row]:
    base = variants.get(BASELINE, {})
    rows = []
    for variant, group in variants.items():
        seeds = sorted(set(group) & set(base))
        if seeds:
            pairs = [group[seed] for seed in seeds], [base[seed] for seed in seeds]
            rows.append(_row(market, variant, unit, *pairs))
    return rows


def _row(market: str, variant: str, unit: str, runs: Sequence[_Run], base: Sequence[_Run]) -> Row:
    final, base_final = [run.final for run in runs], [run.final for run in base]
    itself = variant == BASELINE
    steps = statistics.median_high(run.steps for run in runs)
    reached = sum(math.isfinite(run.steps) for run in runs)
    return Row(
        market=market,
        variant=variant,
        seeds=len(runs),
        unit=unit,
        final=statistics.fmean(final),
        final_effect=None if itself else paired_difference(final, base_final),
        learning=statistics.fmean(run.learning for run in runs),
        learning_effect=None
        if itself
        else paired_difference([run.learning for run in runs], [run.learning for run in base]),
        reached=f"{reached}/{len(runs)}",
        steps=steps if math.isfinite(steps) else None,
        spread=statistics.stdev(final) if len(runs) > 1 else None,
        spread_ratio=None if itself else paired_spread_ratio(final, base_final),
        update_ms=1e3 * statistics.median(run.update_seconds for run in runs),
        cost_ratio=None
        if itself
        else paired_ratio([run.update_seconds for run in runs], [run.update_seconds for run in base]),
        fault=any(run.fault for run in runs),
    )


def plain(row: Row) -> dict[str, Any]:
    """Values for JSON: an estimate is [value, low, high]."""
    return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(row).items()}


def markdown(rows: Sequence[Row]) -> str:
    """One table for each market, with what the columns mean."""
    heads = ["variant", "seeds", "final", "effect", "over training", "effect", "90 % reached", "after steps"]
    heads += ["spread", "ratio", "ms an update", "ratio"]
    lines: list[str] = []
    for market in dict.fromkeys(row.market for row in rows):
        lines += [f"## {market}", "", _line(heads), _line("---" for _ in heads)]
        lines += [_line(_cells(row)) for row in rows if row.market == market]
        lines.append("")
    compared = sum(row.final_effect is not None for row in rows if row.market != _POOLED)
    lines += [
        _NOTES,
        f"Of {compared} intervals of a column about {0.05 * compared:.1f} miss the truth by chance.",
    ]
    if any(row.fault for row in rows):
        lines.append("A run scored above the optimum (marked !), which is a fault of the score.")
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> list[str]:
    spread = "-" if row.spread is None else f"{row.spread:.3g}"
    return [
        row.variant,
        str(row.seeds),
        f"{row.final:.2f}{' %' if row.unit == '%' else ''}{' !' if row.fault else ''}",
        _effect(row.final_effect),
        f"{row.learning:.2f}",
        _effect(row.learning_effect),
        row.reached if row.unit == "%" else "-",
        "-" if row.steps is None else f"{row.steps:.3g}",
        spread,
        _ratio(row.spread_ratio),
        f"{row.update_ms:.3g}",
        _ratio(row.cost_ratio),
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _effect(found: Estimate | None) -> str:
    return _text(found, "+.2f")


def _ratio(found: Estimate | None) -> str:
    return _text(found, ".2f")


def _text(found: Estimate | None, form: str) -> str:
    if found is None:
        return "-"
    ends = "" if found.low is None else f" [{found.low:{form}}, {found.high:{form}}]"
    return f"{found.value:{form}}{ends}"
