"""How a coordinator or an institution is doing, for people and for monitoring."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from deploy.doctor.check import Check, State

_WORST = {State.ok: 0, State.skipped: 0, State.warning: 1, State.failed: 2}


@dataclass
class Status:
    """Lines for people, and the same as numbers."""

    lines: list[Check] = field(default_factory=list)
    metrics: list[tuple[str, dict[str, str], float]] = field(default_factory=list)

    def add(self, line: Check) -> None:
        """Add a line."""
        self.lines.append(line)

    def measure(self, name: str, value: float, **labels: str) -> None:
        """Add a number; names get the prefix ``fedgt_``."""
        self.metrics.append((f"fedgt_{name}", labels, value))

    @property
    def exit_code(self) -> int:
        """Return 0 where all is well, 1 for a warning, 2 for a failure, as monitoring expects."""
        return max((_WORST[line.state] for line in self.lines), default=0)


def prometheus_text(metrics: Iterable[tuple[str, Mapping[str, str], float]]) -> str:
    """Return numbers in Prometheus' text format."""
    lines, seen = [], set()
    for name, labels, value in sorted(metrics, key=lambda one: (one[0], sorted(one[1].items()))):
        if name not in seen:
            seen.add(name)
            lines.append(f"# TYPE {name} gauge")
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in sorted(labels.items()))
        lines.append(f"{name}{{{shown}}} {value:.10g}" if shown else f"{name} {value:.10g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def free_bytes(folder: Path) -> int:
    """Return the free space where ``folder`` is, or would be."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def age(time: str) -> float:
    """Return the seconds since an ISO 8601 time."""
    then = datetime.fromisoformat(time)
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max((datetime.now(UTC) - then).total_seconds(), 0.0)


def age_text(seconds: float) -> str:
    """Return a time span in words."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
