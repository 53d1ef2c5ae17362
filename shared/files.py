"""Atomic writes of files and folders, and memory-mapped tensors."""

import errno
import fcntl
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.errors import FedGTError
from shared.tensor_layout import (
    PREFIX,
    TensorEntry,
    describe,
    header_length,
    parse_layout,
    write_header,
)

Array = NDArray[Any]

# Bytes of a header: a coordinator's checkpoint has some tensors for each of its institutions.
_LONGEST_HEADER = 2**26
# Of a header that is remembered: the state of the next round has the same.
_SHORT = 2**15
# Bytes that are gathered before they are written: a state has a hundred small tensors.
_GATHERED = 2**18
# Bytes of a memory-mapped file that stay in memory at most while it is copied.
_MAPPED = 2**27


@contextmanager
def atomic_folder(target: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield an empty folder that becomes ``target`` when the block ends without an error.

    An existing ``target`` is an error, or with ``force`` replaced at the very end.
    """
    if target.exists() and not force:
        raise _exists_error(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield staging
        staging.chmod(0o777 & ~_umask())
        if force and target.exists():
            _replace_folder(staging, target)
        else:
            _rename_to_new(staging, target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def check_writable(target: Path) -> None:
    """Raise FedGTError if ``target``, with the folders above it, could not be made."""
    parent = target.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise FedGTError(f"{target} cannot be written: {parent} is not a folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise FedGTError(f"{target} cannot be written: {parent} is not writable")


def _exists_error(target: Path) -> FedGTError:
    return FedGTError(f"{target} exists already: choose another folder or add --force")


def _rename_to_new(staging: Path, target: Path) -> None:
    """Rename ``staging`` to ``target``, which another process may have made meanwhile."""
    try:
        staging.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise _exists_error(target) from None
        raise


def _replace_folder(staging: Path, target: Path) -> None:
    """Replace ``target`` by ``staging``; ``target`` stays if that fails."""
    backup = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    target.rename(backup / "old")
    try:
        staging.rename(target)
    except BaseException:
        (backup / "old").rename(target)
        raise
    finally:
        shutil.rmtree(backup, ignore_errors=True)


def _umask() -> int:
    """Return the process's umask: temporary files are private, finished ones follow it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Say which file it was where an error of the system, such as a full disk's, does not."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(file)
        raise


@contextmanager
def atomic_file(
    target: Path, *, mode: int = 0o666, durable: bool = False, over: Path | None = None
) -> Iterator[Path]:
    """Yield a path to write to; it replaces ``target`` when the block ends without an error.

    It then has the permissions ``mode``, less the umask. With ``durable`` it is flushed to disk
    before the rename, which takes some milliseconds: a power cut then leaves no partial file.

    ``over`` is a file in the same folder that nobody needs any more. If it is there, the path is
    that of its content: to write over it takes a tenth of the time of a new file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    staging = Path(name)
    try:
        if over is not None:
            _take_over(over, staging)
        with naming(target):
            yield staging
            staging.chmod(mode & ~_umask())
            if durable:
                _sync(staging)
            staging.replace(target)
    except BaseException:
        staging.unlink(missing_ok=True)
        raise


def _take_over(used: Path, staging: Path) -> None:
    """Rename a used file to ``staging``; delete it if a reader, such as a backup, has locked it."""
    with suppress(FileNotFoundError), used.open("r+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # or there are no locks on this file system
            used.unlink()
        else:
            used.replace(staging)


def _sync(path: Path) -> None:
    """Flush a file's content to disk."""
    with path.open("rb") as stream:
        os.fdatasync(stream.fileno())  # times of access need not be there


def write_json(
    target: Path, document: Any, *, indent: int | None = 2, durable: bool = False
) -> None:
    """Write ``document`` as JSON, atomically; on one line if ``indent`` is None."""
    with atomic_file(target, durable=durable) as staging:
        staging.write_text(json.dumps(document, indent=indent, ensure_ascii=False) + "\n")


def write_tensors(
    target: Path,
    tensors: Mapping[str, Array],
    *,
    durable: bool = False,
    over: Path | None = None,
) -> None:
    """Write named arrays in the safetensors format, atomically, one after the other.

    The ``safetensors`` package first makes a copy of all of them together. ``over`` is as that of
    ``atomic_file``: nobody may have it open, memory-mapped least of all.
    """
    described = describe(tensors)
    header = write_header(described)
    with (
        atomic_file(target, durable=durable, over=over) as staging,
        staging.open("r+b", buffering=_GATHERED) as stream,
    ):
        stream.write(header)
        for array in release_after_reading(tensors[name] for name, _, _ in described):
            stream.write(np.ascontiguousarray(array).data)
        stream.truncate()


def release_after_reading(arrays: Iterable[Array]) -> Iterator[Array]:
    """Yield arrays that are read once, and release what a memory-mapped file takes of memory.

    The arrays stay usable: pages that are read again are loaded again.
    """
    held = 0
    for array in arrays:
        yield array
        base: object = array
        while isinstance(base, np.ndarray):
            base = base.base
        # Not where it can be written to: a private mapping would lose what was written.
        if isinstance(base, mmap.mmap) and not array.flags.writeable:
            held += array.nbytes
            if held > _MAPPED:
                base.madvise(mmap.MADV_DONTNEED)
                held = 0


def open_tensors(source: Path) -> dict[str, Array]:
    """Open a safetensors file memory-mapped: data is read when it is accessed.

    The ``safetensors`` package copies each tensor on reading. An institution's graph can be larger
    than the part a round needs, so the header, which is simple and documented, is parsed here.

    Raises
    ------
    FedGTError
        When the file is not whole, or not one that ``write_tensors`` wrote.
    """
    available = source.stat().st_size - PREFIX
    try:
        with source.open("rb") as stream:
            size = header_length(stream.read(PREFIX), available, _LONGEST_HEADER)
            header = stream.read(size)
        parse = _known_layout if size <= _SHORT else parse_layout
        layout = parse(header, available - size)
        if not layout.tensors:
            return {}
        # A plain array: numpy takes ten times as long for a part of its own kind of mapping.
        payload = np.asarray(np.memmap(source, dtype=np.uint8, mode="r"))[PREFIX + size :]
        return {name: _tensor(payload, entry) for name, entry in layout.tensors.items()}
    except (FedGTError, ValueError) as error:
        raise FedGTError(f"{source} is damaged ({error}): write it again") from None


_known_layout = lru_cache(maxsize=8)(parse_layout)


def _tensor(payload: Array, entry: TensorEntry) -> Array:
    return payload[entry.start : entry.stop].view(entry.dtype).reshape(entry.shape)
