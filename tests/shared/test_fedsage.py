"""Which rounds of FedSage+ train generators, and what goes up in them."""

import pytest

from shared.fedsage import exchanged, generator_rounds
from shared.wire import GENERATED_FEATURES, GENERATED_GRADIENTS


@pytest.mark.parametrize(
    ("rounds", "expected"), [(1, 0), (2, 1), (3, 1), (5, 2), (6, 3), (10, 3), (30, 3), (100, 10)]
)
def test_a_tenth_but_enough_for_a_gradient_to_come_back(rounds: int, expected: int) -> None:
    assert generator_rounds(rounds) == expected


def test_nothing_goes_up_that_nobody_could_use() -> None:
    """Of 50 rounds, five train generators: features of the last two would come back too late."""
    assert generator_rounds(50) == 5
    both = (GENERATED_FEATURES, GENERATED_GRADIENTS)
    assert [exchanged(number, 50) for number in range(1, 7)] == [
        (GENERATED_FEATURES,),
        both,
        both,
        (GENERATED_GRADIENTS,),
        (),
        (),
    ]
    assert {exchanged(number, 4) for number in range(1, 5)} == {()}
