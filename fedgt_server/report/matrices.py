"""Similarities and weights of the rounds, for the page."""

from collections.abc import Sequence

import numpy as np

from fedgt_server.events import RoundEvent
from fedgt_server.report.packing import (
    cluster_order,
    placed,
    similarity_codes,
    thinned,
    to_base64,
    upper_triangle,
    weight_codes,
)
from fedgt_server.report.view import Matrices, Strongest


def ordered_names(rounds: Sequence[RoundEvent], names: Sequence[str]) -> list[str]:
    """Return institutions with similar ones together, by the last matrix; else as they are."""
    last = next((event for event in reversed(rounds) if event.similarity), None)
    if last is None or last.similarity is None or last.order is None:
        return list(names)
    index = {name: place for place, name in enumerate(names)}
    order = cluster_order(placed(last.similarity, last.order, index))
    return [names[place] for place in order]


def matrices(rounds: Sequence[RoundEvent], names: Sequence[str], room: int) -> Matrices | None:
    """Return the matrices of as many rounds as fit into ``room`` bytes; None where there are none.

    Rows and columns are in the order of ``names``.
    """
    compared = {event.round: event for event in rounds if event.similarity and event.order}
    if not compared:
        return None
    count = len(names)
    size = count * (count - 1) // 2 + count * count
    chosen = thinned(sorted(compared), max(room // max(size, 1), 2), rounds[-1].best_round)
    index = {name: place for place, name in enumerate(names)}
    triangles, weights, lows, highs = [], [], [], []
    for event in (compared[number] for number in chosen):
        similarity = placed(event.similarity or [], event.order or [], index)
        others = similarity[~np.eye(count, dtype=bool)]
        if np.isfinite(others).any():
            lows.append(float(np.nanmin(others)))
            highs.append(float(np.nanmax(others)))
        triangles.append(to_base64(upper_triangle(similarity_codes(similarity))))
        shares = placed(event.weights or [], event.order or [], index)
        weights.append(to_base64(weight_codes(shares)))
    return Matrices(
        rounds=chosen,
        similarity=triangles,
        weights=weights,
        low=min(lows, default=0.0),
        high=max(highs, default=1.0),
    )


def strongest(rounds: Sequence[RoundEvent], names: Sequence[str]) -> Strongest | None:
    """Return the largest weights of the last round that has them; None where none has."""
    last = next((event for event in reversed(rounds) if event.strongest), None)
    if last is None or last.strongest is None:
        return None
    index = {name: place for place, name in enumerate(names)}
    rows = [last.strongest.get(name, {}) for name in names]
    return Strongest(
        round=last.round,
        weights=[
            [(index[other], round(weight, 4)) for other, weight in row.items() if other in index]
            for row in rows
        ],
    )
