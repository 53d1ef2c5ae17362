"""What a SuperLink says of a run."""

import pytest

from deploy.flower.control import RunState


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ("ServerApp failed with exception: the folder\nis gone", "the folder is gone"),
        ("No heartbeat received", "No heartbeat received"),
        ("", ""),
    ],
)
def test_the_reason_is_a_line_without_flowers_words(details: str, reason: str) -> None:
    assert RunState("finished", "failed", details).reason == reason
