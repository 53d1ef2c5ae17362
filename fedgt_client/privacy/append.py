"""Lines added to a file so that they are there when the call returns, whatever happens then."""

import os
from pathlib import Path

from shared.files import naming


def append_line(path: Path, line: bytes) -> int:
    """Add a line, without its end, to a file that its owner alone can read; return its size."""
    is_new = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(handle).st_size
        # A line that a crash cut off must not spoil this one.
        cut_off = size and os.pread(handle, 1, size - 1) != b"\n"
        view = memoryview((b"\n" if cut_off else b"") + line + b"\n")
        with naming(path):
            while view:
                view = view[os.write(handle, view) :]
            os.fdatasync(handle)
        size = os.fstat(handle).st_size
    finally:
        os.close(handle)
    if is_new:
        _sync_folder(path.parent)
    return size


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
