"""Text of another party, and text for another party."""

from pathlib import Path

import pytest

from shared.text import without_paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'bank a/data' is gone, 3/4 of it", "(a path) is gone, (a path) of it"),
        ("/srv/data: Permission denied", "(a path) Permission denied"),
        (
            "[Errno 13] Permission denied: '/srv/my data/x'",
            "[Errno 13] Permission denied: (a path)",
        ),
        ("state/run.json is missing", "(a path) is missing"),
        (f"{Path.home()}/my data/x", "(a path) (a path)"),
        ("this institution's data isn't here", "this institution's data isn't here"),
    ],
)
def test_paths_stay_at_home(text: str, expected: str) -> None:
    assert without_paths(text) == expected
