"""How far one institution's update may move the models of others: lengths and directions.

Two measures, both relative to what others send, because no absolute one fits every model:
- an update much longer than those of others is shortened, one longer still is refused;
- in the first rounds of FedGT, where groups of institutions disagree, and for a while after an
  institution was worse off with what it was sent, updates that do not agree with its own are left
  out of its average; always, with the setting ``agreeing-only``.

The second is what personalisation makes possible. Δθ_i is the way downhill for institution i, so
a step Δθ_j with cos(Δθ_i, Δθ_j) > 0 does not lead uphill for i, whatever j intends; and to i it
does not matter whether j is hostile or has data that ask for the opposite. Not always, because
where all solve the same task, averages over those who disagree for a while are what federated
learning lives on (Cora, ten institutions: 1 to 2 points of test accuracy).
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedgt_server.transport import Floats
from shared.wire import Arrays

# Times the median of others: a longer update is shortened to that median.
SHORTENED = 2.0
# Times the median of others: a longer update is refused.
REFUSED = 30.0
# Times the median of others: global nodes that are longer are refused.
NODES_REFUSED = 3.0
# Cosines of updates below it are no agreement: those of random directions are about 1/√P, and of
# sketches of 4,096 values 0.016.
_AGREEMENT = 0.015
# Cosines of updates above it: two that were made on different data are never so much alike.
_COPY = 0.95
_ROWS = 256  # institutions that are compared with all at once
# Rounds for which one is wary at first, and at most.
_WARY, _WARY_LONGEST = 10, 80
# Times the median of others that a number of training examples counts at most.
_EXAMPLES = 3.0


def length(arrays: Arrays, names: Iterable[str]) -> float:
    """Return the Euclidean length of the named arrays together."""
    # In float64: squares of large float32 values are no float32 any more.
    parts = (arrays[name].reshape(-1).astype(np.float64) for name in names if name in arrays)
    return float(np.sqrt(sum(float(part @ part) for part in parts)))


def medians_of_others(values: Mapping[str, float]) -> dict[str, float]:
    """Return for each the median of all others' values; without others its own.

    Of two in the middle the larger: the smaller may be that of a liar who wants others refused.
    """
    names = list(values)
    found = {}
    for name in names:
        others = [values[other] for other in names if other != name]
        found[name] = sorted(others)[len(others) // 2] if others else values[name]
    return found


def allowed_length(others: float, history: Sequence[float]) -> float:
    """Return how long an institution's update may be.

    Parameters
    ----------
    others : median length of the others' updates in this round
    history : lengths of its own in earlier rounds; these make the limit only lower
    """
    limit = SHORTENED * others
    if not history:
        return limit
    return min(limit, max(SHORTENED * float(np.median(history)), others))


class UpdateAgreement:
    """How far updates agree with those of others, some rows at a time.

    All rows at once, with all that they are made of, would take a hundred bytes for each pair of
    institutions.
    """

    def __init__(self, products: Floats, sums: NDArray[np.float32] | None = None) -> None:
        """Take scalar products of this round's updates, and what all rounds' updates add up to.

        Parameters
        ----------
        products : shape (M, M)
        sums : float32, shape (M, d), whose cosines count as much as this round's; None: not known
        """
        self._products, self._sums = products, sums
        self._lengths = np.sqrt(np.maximum(np.diag(products), 0.0))
        if sums is not None:
            self._sum_lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums, dtype=np.float64))
        # How often an update was sent: who sends it under two names has no more say.
        copies = [(self._now(rows) > _COPY).sum(axis=1) for rows in row_blocks(len(products))]
        self._copies = np.maximum(np.concatenate(copies), 1)

    def rows(self, rows: slice) -> Floats:
        """Return how far the updates of some agree with all: 0 to 1, with themselves 1.

        Copies of one update count together as one. Shape: (rows, M).
        """
        both = self._now(rows)
        if self._sums is not None:
            products = (self._sums[rows] @ self._sums.T).astype(np.float64)
            so_far = _scaled(products, self._sum_lengths[rows], self._sum_lengths)
            both = (both + so_far) / 2.0
        agreement = np.where(both > _AGREEMENT, 1.0 / self._copies, 0.0)
        own = np.arange(rows.start, rows.stop)
        agreement[own - rows.start, own] = 1.0
        return agreement

    def _now(self, rows: slice) -> Floats:
        return _scaled(self._products[rows], self._lengths[rows], self._lengths)


def _scaled(products: Floats, lengths: Floats, others: Floats) -> Floats:
    """Return cosines from scalar products, shape (r, M); of a vector of zeros they are 0."""
    return np.asarray(products / np.maximum(np.outer(lengths, others), 1e-300))


def row_blocks(count: int) -> list[slice]:
    """Return the rows of a matrix, some at a time."""
    return [slice(start, min(start + _ROWS, count)) for start in range(0, count, _ROWS)]


def trusted_weights(weights: NDArray[np.float32], agreement: Floats, first: int = 0) -> Floats:
    """Leave out who does not agree, and give nobody a larger weight than the institution itself.

    Parameters
    ----------
    weights : rows of α, shape (r, M), each a distribution
    agreement : of these rows with all, shape (r, M)
    first : the number of the first row
    """
    kept = weights * agreement
    own = np.diagonal(kept, offset=first)[:, None]
    capped = np.minimum(kept, own)
    totals = capped.sum(axis=1, keepdims=True)
    return np.asarray(capped / np.where(totals > 0, totals, 1.0))


class Wary:
    """Who is averaged only with those that agree, and for how many rounds."""

    def __init__(self, saved: Arrays | None = None) -> None:
        # By institution: rounds left, rounds that the next time lasts.
        self._rounds = {n: (int(two[0]), int(two[1])) for n, two in (saved or {}).items()}

    def __contains__(self, institution: str) -> bool:
        return self._rounds.get(institution, (0, 0))[0] > 0

    def __bool__(self) -> bool:
        return any(left > 0 for left, _ in self._rounds.values())

    def complain(self, institution: str) -> None:
        """Note that an institution kept its own model; each time counts longer than before."""
        left, lasts = self._rounds.get(institution, (0, _WARY))
        self._rounds[institution] = (lasts, lasts if left else min(2 * lasts, _WARY_LONGEST))

    def next_round(self) -> None:
        """Count a round."""
        self._rounds = {n: (max(left - 1, 0), at) for n, (left, at) in self._rounds.items()}

    def state_dict(self) -> Arrays:
        """Return all that is noted, an array for each institution."""
        return {name: np.array(two, np.int64) for name, two in self._rounds.items()}


def capped_counts(counts: Floats) -> Floats:
    """Return numbers of examples, none of them above three times the median of the others."""
    medians = medians_of_others({str(i): float(count) for i, count in enumerate(counts)})
    limits = _EXAMPLES * np.maximum(np.array(list(medians.values())), 1.0)
    return np.minimum(counts, limits) if len(counts) > 1 else counts
