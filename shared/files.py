"""Files that are there whole or not at all: atomic writes, memory-mapped tensors."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from shared.errors import FedGTError

Array = NDArray[Any]

_DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}


@contextmanager
def atomic_folder(target: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield an empty folder that becomes ``target`` when the block ends without an error.

    An existing ``target`` is refused, or with ``force`` replaced at the very end.
    """
    if target.exists() and not force:
        raise FedGTError(f"{target} exists already: choose another folder or add --force")
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield staging
        staging.chmod(0o755)
        if target.exists():
            retired = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            target.rename(retired / "old")
            staging.rename(target)
            shutil.rmtree(retired)
        else:
            staging.rename(target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a path to write to; it replaces ``target`` when the block ends without an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    staging = Path(name)
    try:
        yield staging
        staging.replace(target)
    except BaseException:
        staging.unlink(missing_ok=True)
        raise


def write_json(target: Path, document: Any) -> None:
    """Write ``document`` as indented JSON, atomically."""
    with atomic_file(target) as staging:
        staging.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def write_tensors(target: Path, tensors: Mapping[str, Array]) -> None:
    """Write named arrays in the safetensors format, atomically."""
    with atomic_file(target) as staging:
        save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, staging)


def open_tensors(source: Path) -> dict[str, Array]:
    """Open a safetensors file memory-mapped: nothing is read until it is touched.

    The ``safetensors`` package copies each tensor on reading; institutions' graphs can be larger
    than what a round needs of them, so the (public, simple) header is read here.
    """
    size = source.stat().st_size
    with source.open("rb") as stream:
        header_size = int.from_bytes(stream.read(8), "little")
        if not 0 < header_size <= size - 8:
            raise FedGTError(f"{source} is not a whole safetensors file: write it again")
        header = json.loads(stream.read(header_size))
    payload = np.memmap(source, dtype=np.uint8, mode="r") if size > 8 else np.empty(0, np.uint8)
    tensors: dict[str, Array] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, stop = (8 + header_size + offset for offset in entry["data_offsets"])
        if stop > size:
            raise FedGTError(f"{source} is cut off: write it again")
        flat = payload[start:stop].view(_DTYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors
