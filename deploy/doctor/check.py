"""What a check finds."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a check ended."""

    ok = "ok"
    warning = "warning"
    failed = "failed"
    skipped = "skipped"  # a check before it failed


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    state: State
    finding: str
    remedy: str = ""


def ok(name: str, finding: str) -> Check:
    """Return a check that passed."""
    return Check(name, State.ok, finding)


def warning(name: str, finding: str, remedy: str) -> Check:
    """Return a check that passed but will fail soon."""
    return Check(name, State.warning, finding, remedy)


def failed(name: str, finding: str, remedy: str) -> Check:
    """Return a check that failed."""
    return Check(name, State.failed, finding, remedy)


def skipped(name: str, because: str) -> Check:
    """Return a check that could not be made."""
    return Check(name, State.skipped, f"not asked: {because}")
