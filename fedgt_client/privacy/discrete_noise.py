"""Noise on the integers, drawn exactly.

Laplace noise that is computed in floating point is not private: which doubles can be a value's
release depends on the value, and often a single release tells two values apart for certain
(Mironov 2012, "On significance of the least significant bits for differential privacy"). Here no
release is ever rounded: the algorithms are those of Canonne, Kamath and Steinke (2020), "The
discrete Gaussian for differential privacy", on integers, with scales that are powers of two.
Their one irrational probability, exp(−γ), is compared with a uniform number of which as many bits
are drawn as the comparison takes; floating point decides only where its error cannot matter.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from fedgt_client.privacy.random_bits import RandomBits, Words

Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Of a scale, in bits: larger ones would overflow the integers below.
LARGEST_SCALE = 24
# Draws at once beyond the number that is expected to be needed: a second lot takes as long.
_SPARE = 64
# Bits of a uniform number that are drawn first: more are needed once in four thousand million.
_FIRST = 32
# In units of the last of these bits: a thousand times the error of exp in floating point.
_MARGIN = 2.0**-10


def discrete_laplace(scale_bits: int, count: int, random: RandomBits) -> Integers:
    """Draw X with P(X = x) ∝ exp(−|x| / t), t = 2^scale_bits: algorithm 2 of the paper.

    Returns
    -------
    shape (count,)
    """
    _check(scale_bits)
    found: list[Integers] = [np.zeros(0, np.int64)]
    while (missing := count - sum(map(len, found))) > 0:
        # As many as are likely to be enough: 0.63 of them are kept, and each draw stands alone.
        rest = random.integers(scale_bits, missing + 3 * missing // 4 + _SPARE)
        rest = rest[_is_exp(rest, scale_bits, random)].astype(np.int64)
        magnitude = rest + (_count_exp(len(rest), random) << scale_bits)
        negative = random.integers(1, len(rest)).astype(np.bool_)
        valid = ~(negative & (magnitude == 0))  # zero would come twice as often
        found.append(np.where(negative, -magnitude, magnitude)[valid])
    return np.concatenate(found)[:count]


def discrete_gaussian(scale_bits: int, count: int, random: RandomBits) -> Integers:
    """Draw X with P(X = x) ∝ exp(−x² / 2σ²), σ = 2^scale_bits: algorithm 3 with t = σ.

    Returns
    -------
    shape (count,)
    """
    _check(scale_bits)
    found, pending = np.zeros(count, np.int64), np.arange(count)
    bits = 2 * scale_bits + 1
    while len(pending):
        drawn = discrete_laplace(scale_bits, len(pending), random)
        # Kept with probability exp(−γ), γ = (|Y| − σ)² / 2σ²: e^{-1} as often as γ has wholes.
        gamma = (np.abs(drawn) - (1 << scale_bits)) ** 2
        wholes, rest = gamma >> bits, (gamma & ((1 << bits) - 1)).astype(np.uint64)
        kept = _count_exp(len(drawn), random) >= wholes
        kept[kept] = _is_exp(rest[kept], bits, random)
        found[pending[kept]] = drawn[kept]
        pending = pending[~kept]
    return found


def _is_exp(numerators: Words, bits: int, random: RandomBits) -> Bools:
    """Return True with probability exp(−γ), γ = numerator / 2^bits in [0, 1]: U < exp(−γ)."""
    limits = np.exp(numerators / -(2.0**bits)) * 2.0**_FIRST
    words = random.integers(_FIRST, len(numerators))  # U's first bits
    below, unsure = _compared(words, limits)
    for place in unsure:
        below[place] = _is_below_exp(int(words[place]), int(numerators[place]), bits, random)
    return below


def _is_exp_of_one(count: int, random: RandomBits) -> Bools:
    """Return True with probability e^{-1}, ``count`` times."""
    words = random.integers(_FIRST, count)
    below, unsure = _compared(words, math.exp(-1.0) * 2.0**_FIRST)
    for place in unsure:
        below[place] = _is_below_exp(int(words[place]), 1, 0, random)
    return below


def _compared(words: Words, limits: NDArray[np.float64] | float) -> tuple[Bools, Integers]:
    """Return whether numbers that begin with ``words`` are below limits, and whose is not sure."""
    drawn = words.astype(np.float64)
    below = drawn + 1.0 <= limits - _MARGIN  # whatever bits follow
    return below, np.flatnonzero(~below & (drawn < limits + _MARGIN))


def _is_below_exp(word: int, numerator: int, bits: int, random: RandomBits) -> bool:
    """Return whether U < exp(−γ), from U's first bits, with as many more as it takes."""
    known = _FIRST
    while numerator:
        word, known = word << 64 | int(random.integers(64, 1)[0]), known + 64
        with localcontext(prec=known) as context:  # more than three times the digits it takes
            limit = int(context.exp(-Decimal(numerator) / 2**bits) * 2**known)
        if word < limit - 1:
            return True
        if word > limit + 1:
            return False
    return True  # exp(0) = 1


def _count_exp(count: int, random: RandomBits) -> Integers:
    """Return how often in a row a draw of probability e^{-1} was True, shape (count,).

    The draws of all are one sequence, in which every False ends a row.
    """
    draws, ends = np.zeros(0, np.bool_), np.zeros(0, np.intp)
    while len(ends) < count:
        missing = count - len(ends)
        more = missing + 3 * missing // 4 + _SPARE
        draws = np.concatenate([draws, _is_exp_of_one(more, random)])
        ends = np.flatnonzero(~draws)
    return np.asarray(np.diff(ends[:count], prepend=-1) - 1, np.int64)


def _check(scale_bits: int) -> None:
    if not 0 <= scale_bits <= LARGEST_SCALE:
        raise ValueError(f"scale_bits is {scale_bits}, expected 0 to {LARGEST_SCALE}")
