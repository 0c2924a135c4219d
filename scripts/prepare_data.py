"""Check market data files and write them as one Parquet file for training.

Example: python scripts/prepare_data.py raw/*.csv.gz --contract ES --tz America/Chicago --out market.parquet
"""

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

try:
    from fox_agents import cli
except ImportError as error:  # it names the missing extra
    sys.exit(str(error))

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fox_env import Bars, contracts, read_bars, validate_bars
from fox_env.checks.report import DataReport
from fox_env.errors import ConfigError, DataError
from fox_env.prepared import Source, stored_contract, write_prepared
from fox_env.repair import check_repairs
from fox_env.validation import KINDS, repairs_of, suspected_roll_gap

STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}
ROWS_SHOWN = 3


def main(
    files: Annotated[list[Path], typer.Argument(metavar="IN...", help="Files of one market, in any order.")],
    contract: Annotated[
        str | None,
        typer.Option(
            help="Contract of the bars: its ticks and sessions are checked, and it is kept. "
            "[default: that of prepared files]"
        ),
    ] = None,
    tz: Annotated[
        str | None, typer.Option(help="Time zone of the stamps, where the files have none.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Whether a bar is stamped at its open or close.")] = None,
    symbol: Annotated[
        str | None, typer.Option(help="Instrument to take from files that hold several.")
    ] = None,
    bars: Annotated[
        str | None, typer.Option(help="Bar size to build, as in 1min, 5min, 1h, 1d, 500t, 1000v.")
    ] = None,
    repair: Annotated[
        str | None, typer.Option(help="Repairs to apply, separated by commas (docs/data-checks.md).")
    ] = None,
    mark_rolls: Annotated[
        bool, typer.Option("--mark-rolls", help="Fill roll_gap where open interest tells of a roll.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Report only. Leaves with 2 if there is an error, with 0 otherwise."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="File to write. [default: market.parquet]")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    quiet: cli.Quiet = False,
    as_json: cli.Json = False,
) -> None:
    """Check bars, apply the repairs asked for, and write them with their contract and provenance.

    Exit codes: 0 done (warnings and notes included), 2 wrong usage, unreadable files or unusable bars.
    """
    target = _target(files, out, check, force)
    spec = _contract(contract, files)
    given = {"tz": tz, "label": label, "symbol": symbol, "bars": bars}
    hints: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if repair is not None:
        hints["repair"] = check_repairs(name.strip() for name in repair.split(",") if name.strip())
    console = cli.console(quiet, as_json)
    if target is None and not (mark_rolls or hints.keys() & {"bars", "repair"}):
        report = _check(console, files, spec, hints)
    else:
        report = _prepare(console, files, target, spec, hints, mark_rolls)
    if as_json:
        cli.show_json({"report": report.to_dict(), "out": None if target is None else str(target)})
    if not report.ok:
        raise _unusable(_names(files), report)


def _contract(given: str | None, files: list[Path]) -> contracts.ContractSpec | None:
    """Return the contract given, or the one that prepared files hold; refuse to replace one by another."""
    if given is None:
        return stored_contract(files)
    spec = contracts.contract(given)
    for path in files:
        stored = stored_contract(path)
        if stored is not None and stored.symbol != spec.symbol:
            raise ConfigError(
                f"{path} holds the contract {stored.symbol}, not {spec.symbol}; leave --contract out, or prepare "
                "the original files again"
            )
    return spec


def _check(
    console: Console, files: list[Path], spec: contracts.ContractSpec | None, hints: dict[str, Any]
) -> DataReport:
    """Report every faulty row, where reading the bars would refuse the first."""
    with _step(console, f"checking {_names(files)}"):
        report = validate_bars(files[0] if len(files) == 1 else files, spec, **hints)
    _show(console, report)
    return report


def _prepare(
    console: Console,
    files: list[Path],
    target: Path | None,
    spec: contracts.ContractSpec | None,
    hints: dict[str, Any],
    mark_rolls: bool,
) -> DataReport:
    """Read, check and write; without a target the report alone."""
    sources = [Source.of(path) for path in files]
    with _step(console, f"reading {_names(files)}"):
        bars = read_bars(files[0] if len(files) == 1 else files, contract=spec, **hints)
        for source in sources:
            source.check_unchanged()
    if mark_rolls:
        bars = _with_rolls(bars)
    with _step(console, f"checking {len(bars):,} bars"):
        report = validate_bars(bars, spec)
    _show(console, report)
    if target is not None:
        with _step(console, f"writing {target}"):
            write_prepared(bars, target, spec, sources, hints)
        console.print(f"{len(bars):,} bars in {target}", highlight=False, soft_wrap=True)
    return report


def _names(files: list[Path]) -> str:
    return str(files[0]) + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def _target(files: list[Path], out: Path | None, check: bool, force: bool) -> Path | None:
    """Return the file to write, None for a check; refuse to lose data."""
    if check:
        if out is not None or force:
            raise ConfigError("--check writes nothing; leave out --out and --force")
        return None
    target = out or Path("market.parquet")
    if any(path.exists() and target.exists() and path.samefile(target) for path in files):
        raise ConfigError(f"--out {target} is one of the files to read; name another")
    if target.is_dir():
        raise ConfigError(f"--out {target} is a directory; name a file in it")
    if target.exists() and not force:
        raise ConfigError(f"{target} exists; pass --force to replace it, or --out with another name")
    if not target.parent.is_dir():
        raise ConfigError(f"no directory {target.parent} for --out; create it first")
    return target


def _with_rolls(bars: Bars) -> Bars:
    if bars.adjusted != "none":
        raise DataError(
            f"--mark-rolls: the bars are adjusted by {bars.adjusted}, so their rolls have no gaps left to mark; leave "
            "the option out"
        )
    gaps = suspected_roll_gap(bars)
    if gaps is None:
        raise DataError(
            "--mark-rolls found no roll: no column of open interest changes by more than 15 % over a session "
            "break; leave the option out"
        )
    if bars.roll_gap is not None and bars.roll_gap.any():
        raise DataError(
            "--mark-rolls: the bars have their rolls in the column roll_gap; leave the option out"
        )
    marked = int((gaps != 0).sum())
    rows = "1 row marked as a roll" if marked == 1 else f"{marked:,} rows marked as rolls"
    sentence = f"mark_rolls: {rows} by open interest, first row {int((gaps != 0).argmax())}"
    gaps.flags.writeable = False
    return dataclasses.replace(bars, roll_gap=gaps, repairs=(*bars.repairs, sentence))


def _unusable(source: str, report: DataReport) -> DataError:
    """Make the one line for bars with errors: the first of the gravest kind, and its mend."""
    kind = next(iter(report.counts))
    problem = report.first_of(kind)
    names = " or ".join(f"--repair {name}" for name in repairs_of(kind))
    return DataError(
        f"{source}: row {problem.row}, column {problem.column}: {problem.message}; {KINDS[kind].mend}"
        + (f" ({names})" if names else "")
    )


@contextmanager
def _step(console: Console, what: str) -> Iterator[None]:
    """Show what is going on: a spinner on a terminal, a line elsewhere."""
    if console.is_terminal:
        with console.status(what):
            yield
    else:
        console.print(what, highlight=False, soft_wrap=True)
        yield


def _show(console: Console, report: DataReport) -> None:
    """Print the report: what was read, then one row for every kind of problem."""
    verdict = "ok" if report.ok else "not usable"
    console.print(
        f"{report.rows:,} bars every {report.interval_s:g} s from {report.first} to {report.last} UTC: {verdict}",
        highlight=False,
    )
    console.print(f"gaps judged by {report.sessions}", highlight=False)
    for sentence in report.repairs:
        console.print(f"reading: {sentence}", highlight=False)
    if not report.counts:
        return
    table = Table("kind", "rows", "first finding, and the mend")
    table.columns[0].no_wrap = True
    severity = ""
    for kind, count in report.counts.items():
        facts, problem = KINDS[kind], report.first_of(kind)
        if severity and facts.severity != severity:
            table.add_section()
        severity = facts.severity
        rows = sorted({found.row for found in report.problems if found.kind == kind})[:ROWS_SHOWN]
        shown = ", ".join(map(str, rows)) + (", ..." if count > len(rows) else "")
        names = " or ".join(f"--repair {name}" for name in repairs_of(kind))
        table.add_row(
            f"[{STYLES[severity]}]{kind}[/]\n{severity}",
            f"{count:,}\nfirst {shown}",
            f"{problem.column}: {escape(problem.message)}\n{facts.mend}{f' ({names})' if names else ''}",
        )
    console.print(table, highlight=False)


if __name__ == "__main__":
    cli.run(main)
