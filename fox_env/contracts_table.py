"""Print the known contracts as Markdown tables: ``python -m fox_env.contracts_table``."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from fox_env.contracts import ContractSpec, known_contracts

_TERMS = (
    "symbol", "contract", "exchange", "tick", "tick value", "fee per side", "initial margin",
    "maintenance margin", "margins of",
)  # fmt: skip
_CALENDAR = ("symbol", "session", "time zone", "months", "last trading day", "roll", "roll by the calendar")


def as_markdown() -> str:
    """Return two tables of :func:`fox_env.contracts.known_contracts`, the sources of the margins between them."""
    specs = list(known_contracts().values())
    sources = list(dict.fromkeys(spec.source for spec in specs if spec.source))
    numbered = [f"{number}. {source}" for number, source in enumerate(sources, start=1)]
    return "\n\n".join(
        (
            _table(_TERMS, (_terms(spec, sources) for spec in specs)),
            "Margins of:",
            "\n".join(numbered),
            _table(_CALENDAR, (_calendar(spec) for spec in specs)),
        )
    )


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ("---",) * len(header), *rows))


def _fees(each: float | None, rate: float | None) -> str:
    """Money a contract and basis points of the notional, those that are charged."""
    parts = [f"{each:g}"] if each else []
    parts += [f"{rate * 1e4:g} bp"] if rate else []
    return " + ".join(parts)


def _terms(spec: ContractSpec, sources: list[str]) -> tuple[str, ...]:
    fees = _fees(spec.fee_per_side, spec.fee_rate)
    if spec.closes_today_apart:
        fees += f" ({_fees(spec.close_today_fee, spec.close_today_rate) or 0} closing the same day)"
    margins = [
        f"{margin:,.10g}" if margin else "none" for margin in (spec.initial_margin, spec.maintenance_margin)
    ]
    return (
        f"`{spec.symbol}`",
        spec.name,
        spec.exchange,
        f"{spec.tick_size:.9f}".rstrip("0").rstrip("."),
        f"{spec.tick_value:.10g} {spec.currency}",
        fees,
        *margins,
        f"{spec.margin_date} ({sources.index(spec.source) + 1})" if spec.source else "",
    )


def _calendar(spec: ContractSpec) -> tuple[str, ...]:
    expires = bool(spec.expiry)
    return (
        f"`{spec.symbol}`",
        spec.session,
        spec.timezone,
        (spec.months or "all") if expires else "",
        spec.expiry.replace("_", " "),
        spec.roll.replace("_", " ") if expires else "",
        f"{spec.roll_days} business days before" if expires else "",
    )


if __name__ == "__main__":
    sys.stdout.write(as_markdown() + "\n")
