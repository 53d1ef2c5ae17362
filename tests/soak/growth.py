"""What a process holds while a long run goes on, and whether it grows."""

import statistics
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

# Growth of the last quarter over the third that is put down to chance.
TOLERATED = 0.05


@dataclass
class Held:
    """What one process, or one kind of them, held over time."""

    memory: list[float] = field(default_factory=list)  # megabytes
    files: list[int] = field(default_factory=list)  # open files and sockets

    def look(self, process: psutil.Process) -> None:
        """Add what a process holds now, unless it is gone."""
        with suppress(psutil.Error):
            memory, files = process.memory_info().rss / 1e6, process.num_fds()
            self.memory.append(memory)
            self.files.append(files)

    def growth(self) -> float:
        """Return by which share the last quarter's median memory is above the third quarter's."""
        third, last = _quarters(self.memory)
        return last / third - 1.0

    def text(self) -> str:
        """Return it in a line."""
        third, last = _quarters(self.memory)
        files = _quarters([float(count) for count in self.files])
        return (
            f"memory {third:.1f} MB, then {last:.1f} MB ({100 * self.growth():+.1f} %); "
            f"open files and sockets {files[0]:.0f}, then {files[1]:.0f}"
        )


def _quarters(values: list[float]) -> tuple[float, float]:
    """Return the medians of the third and of the last quarter."""
    middle, late = len(values) // 2, 3 * len(values) // 4
    return statistics.median(values[middle:late]), statistics.median(values[late:])
