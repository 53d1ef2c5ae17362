"""Text from another party: at most so long, on one line, and such that it can be written down."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

# Control characters would forge lines of a log, those of the writing direction turn them round;
# with one that has no width, a name looks like another's. Halves of a surrogate pair cannot be
# encoded. Joiners of letters and marks of direction stay: some languages need them.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
# Whatever has a slash in it: quoted, with its blanks; or up to the next blank.
_PATH = re.compile(r"(?<!\w)'[^'\n]*/[^'\n]*'|\"[^\"\n]*/[^\"\n]*\"|[^\s'\"(=]*/[^\s'\",;)]*")


def without_paths(text: str) -> str:
    """Return ``text`` with words in the place of paths, which are nobody else's business."""
    for known in sorted(map(str, (Path.cwd(), Path.home())), key=len, reverse=True):
        if len(known) > 1:
            text = text.replace(known, "/")  # which may have blanks
    return _PATH.sub("(a path)", text)


def text_problem(text: str, longest: int) -> str | None:
    """Describe why ``text`` is not a line of 1 to ``longest`` characters; None where it is."""
    if not text:
        return "is empty"
    if len(text) > longest:
        return f"has {len(text)} characters, at most {longest} are allowed"
    if found := _UNSAFE.search(text):
        return f"holds the character U+{ord(found[0]):04X}"
    return None


def plain_line(text: str, longest: int) -> str:
    """Return ``text`` as one line of at most ``longest`` characters that can be written down."""
    shown = " ".join(_UNSAFE.sub(" ", text[: 4 * longest]).split())
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return what to say after an unknown name: the known one that is most like it, or all."""
    names = list(known)
    longer = [name for name in names if len(word) > 2 and word in name]
    found = get_close_matches(word, names, n=1) or longer
    return f"did you mean '{found[0]}'?" if found else f"there are: {', '.join(names)}"
