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
    """All is well."""
    return Check(name, State.ok, finding)


def warning(name: str, finding: str, remedy: str) -> Check:
    """It works, but not for ever."""
    return Check(name, State.warning, finding, remedy)


def failed(name: str, finding: str, remedy: str) -> Check:
    """It will not work."""
    return Check(name, State.failed, finding, remedy)


def skipped(name: str, because: str) -> Check:
    """It cannot be asked."""
    return Check(name, State.skipped, f"not asked: {because}")
