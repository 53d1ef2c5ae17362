"""What both sides of FedSage+ (Zhang et al. 2021) agree on: what is uploaded in which round.

A run's first rounds train the generators of missing neighbours. What an institution generates in
round r reaches another in round r + 1, whose gradients come back in round r + 2.
"""

from shared.wire import GENERATED_FEATURES, GENERATED_GRADIENTS

# Of a run's rounds, those that train generators; at least three, so that a gradient comes back.
GENERATOR_SHARE = 0.1
_FEWEST = 3
# Generated rows that an institution offers in a round: what travels does not grow with its nodes.
OFFERED_ROWS = 64


def generator_rounds(rounds: int) -> int:
    """Return how many of a run's first rounds train generators; in short runs up to half."""
    return min(max(round(GENERATOR_SHARE * rounds), _FEWEST), rounds // 2)


def exchanged(round_number: int, rounds: int) -> tuple[str, ...]:
    """Return the arrays uploaded in a generator round, without those nobody could use later."""
    last = generator_rounds(rounds)
    names = [GENERATED_FEATURES] if round_number + 2 <= last else []
    return (*names, GENERATED_GRADIENTS) if 2 <= round_number < last else tuple(names)
