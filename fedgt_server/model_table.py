"""A vector for each institution, in memory as far as that is granted, the others on disk."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

Array32 = NDArray[np.float32]

_ITEM = 4  # bytes of a float32


class ModelTable(Mapping[str, Array32]):
    """Vectors of the same length P by institution.

    The rows that do not fit into memory are in a scratch file, which has no name and is gone with
    the process. It is read and written rather than mapped, so that a full disk raises an OSError
    and what has been read does not count as the process's memory.

    Parameters
    ----------
    width : P
    memory : bytes that rows in memory may take
    folder : where the scratch file is made when it is needed
    """

    def __init__(self, width: int, memory: int, folder: Path) -> None:
        self.width = width
        self._free = memory // (_ITEM * max(width, 1))  # rows that still fit into memory
        self._folder = folder
        self._rows: dict[str, Array32 | int] = {}  # in memory, or its number in the file
        self._file: IO[bytes] | None = None
        self._written = 0  # rows in the file

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __getitem__(self, name: str) -> Array32:
        """Return a copy of the row, shape (P,)."""
        return np.asarray(self.columns([name], 0, self.width)[0])

    def __setitem__(self, name: str, row: Array32) -> None:
        self.set_columns([name], 0, row[None])

    def columns(self, names: Sequence[str], start: int, stop: int) -> Array32:
        """Return a copy of columns ``start`` to ``stop`` of these rows, shape (rows, columns)."""
        block = np.empty((len(names), stop - start), np.float32)
        for out, name in zip(block, names, strict=True):
            row = self._rows[name]
            if isinstance(row, int):
                self._read(out, row * self.width + start)
            else:
                out[:] = row[start:stop]
        return block

    def set_columns(self, names: Sequence[str], start: int, block: Array32) -> None:
        """Write columns from ``start`` on, shape (rows, columns), of rows that may be new."""
        for name, values in zip(names, np.ascontiguousarray(block, np.float32), strict=True):
            if name not in self._rows:
                self._rows[name] = self._new_row()
            row = self._rows[name]
            if isinstance(row, int):
                self._write(values, row * self.width + start)
            else:
                row[start : start + len(values)] = values

    def remove(self, name: str) -> None:
        """Forget a row; on disk its place stays."""
        if not isinstance(self._rows.pop(name), int):
            self._free += 1

    def views(self) -> dict[str, Array32]:
        """Return all rows without copying them; they change when the table does."""
        shape = (self._written, self.width)
        stored = np.memmap(self._file, np.float32, "r", shape=shape) if self._file else np.empty(0)
        return {
            name: stored[row] if isinstance(row, int) else row for name, row in self._rows.items()
        }

    def _new_row(self) -> Array32 | int:
        if self._free > 0:
            self._free -= 1
            return np.zeros(self.width, np.float32)
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        self._written += 1
        os.ftruncate(self._file.fileno(), _ITEM * self._written * self.width)
        return self._written - 1

    def _read(self, out: Array32, position: int) -> None:
        assert self._file is not None
        rest = out.data.cast("B")
        offset = _ITEM * position
        while rest:
            count = os.preadv(self._file.fileno(), [rest], offset)
            rest, offset = rest[count:], offset + count

    def _write(self, values: Array32, position: int) -> None:
        assert self._file is not None
        rest = values.data.cast("B")
        offset = _ITEM * position
        while rest:
            count = os.pwrite(self._file.fileno(), rest, offset)
            rest, offset = rest[count:], offset + count
