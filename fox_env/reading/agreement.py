"""What the pieces of several files or instruments settle together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from fox_env.errors import DataError
from fox_env.reading.layout import Hints
from fox_env.reading.sources import Piece
from fox_env.reading.stamps import label_told_by


def with_one_label(named: Mapping[str, list[Piece]], hints: Hints) -> dict[str, list[Piece]]:
    """Let pieces whose layout leaves open which end of a bar its times mark follow those whose sessions tell.

    Else a thin day or contract, whose sessions tell nothing, would be read by another end than its neighbours.

    Parameters
    ----------
    named : mapping of str to list of Piece
        The pieces of every instrument.
    hints : Hints
    """
    found = {name: list(pieces) for name, pieces in named.items()}
    places = [
        (name, i)
        for name, pieces in found.items()
        for i, piece in enumerate(pieces)
        if piece.layout.kind == "bars" and not piece.layout.dialect.certain and not piece.table.exact
    ]
    if hints.label or len(places) < 2:
        return found
    votes: dict[tuple[str, bool], Counter[str]] = {}
    for name, i in places:
        piece = found[name][i]
        try:
            label, certain = label_told_by(piece.table, piece.layout, hints)
        except DataError:
            continue  # the piece is judged when it is read
        if label:
            votes.setdefault((piece.layout.dialect.name, certain), Counter())[label] += (
                piece.table.frame.height
            )
    for name, i in places:
        layout = found[name][i].layout
        for certain in (True, False):
            if counted := votes.get((layout.dialect.name, certain)):
                told = (counted.most_common(1)[0][0], certain)
                found[name][i] = replace(found[name][i], layout=replace(layout, told=told))
                break
    return found
