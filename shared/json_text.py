"""JSON from another party or from a file that may be damaged."""

import json
import re
from typing import Any, NoReturn

from shared.errors import FedGTError

_DEEPEST = 64  # nested lists and objects; Python gives up at about a thousand
# A string, in which brackets do not count, or a bracket; also a string without an end, from which
# the search would otherwise start again at every quote in it.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


def parse_json(text: str | bytes, what: str, *, longest: int | None = None) -> Any:
    """Return what ``text`` says; ``what`` names it in errors.

    Parameters
    ----------
    longest : bytes or characters that are parsed at most; None where the size is known to be right

    Raises
    ------
    FedGTError
        When it is longer, nested too deeply, not JSON, or holds text that cannot be encoded.
    """
    if longest is not None and len(text) > longest:
        raise FedGTError(f"{what} is {len(text)} long, at most {longest} is allowed")
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        if nesting(decoded) > _DEEPEST:
            raise FedGTError(f"{what} is nested more than {_DEEPEST} deep")
        document = json.loads(decoded, parse_constant=_refuse_constant)
        # "\ud800" is an escape of JSON, but no text.
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # UnicodeError and JSONDecodeError included
        raise FedGTError(f"{what} is not valid JSON: {_reason(error)}") from None
    return document


def nesting(text: str) -> int:
    """Return how deeply lists and objects are nested; more than ``_DEEPEST`` is not counted."""
    depth = deepest = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        mark = found[0]
        if mark in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > _DEEPEST:
                break
        elif mark in "]}":
            depth -= 1
    return deepest


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "it holds text that is not UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} in line {error.lineno}, column {error.colno}"
    return " ".join(str(error).split()) or type(error).__name__
