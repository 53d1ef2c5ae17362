"""Text of another party, and text for another party."""

from pathlib import Path

import pytest

from shared.text import plain_line, text_problem, without_paths


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


@pytest.mark.parametrize("character", "\x00\x1b\x9b\u2028\u202e\u2066\u200b\u2060\ufeff\ud800")
def test_characters_that_forge_other_text_are_refused(character: str) -> None:
    assert text_problem(f"bank{character}a", 10) == f"holds the character U+{ord(character):04X}"
    assert plain_line(f"bank{character}a", 10) == "bank a"


@pytest.mark.parametrize("name", ["بانک\u200cها", "क्\u200dष", "\u200fבנק", "naïve 銀行 🏦"])
def test_characters_that_languages_need_are_allowed(name: str) -> None:
    assert text_problem(name, 20) is None
