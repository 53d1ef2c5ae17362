"""The safetensors layout: 8 bytes of length, a JSON header, the values of all tensors.

The bytes may come from anybody, and a file may be damaged: the header says what is where, and is
believed only as far as the bytes bear it out. A header is parsed only if it is not larger than
its tensors can need: Python objects take thirty times the memory of the text.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from shared.errors import FedGTError
from shared.json_text import parse_json

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}
PREFIX = 8  # bytes, before the header: its length
METADATA = "__metadata__"

_MOST_DIMENSIONS = 8
_LARGEST = 2**62  # bytes or values; a product of more is not computed


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor is in the bytes after the header, and what it is."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """What a header says."""

    tensors: dict[str, TensorEntry] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)


Described = tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]  # names, types and shapes


def describe(tensors: Mapping[str, np.ndarray[Any, Any]]) -> Described:
    """Return names, types and shapes in the order in which values are written.

    Wide types first: then every tensor starts at a multiple of its item size.
    """
    described = ((name, array.dtype, array.shape) for name, array in tensors.items())
    return tuple(sorted(described, key=lambda entry: (-entry[1].itemsize, entry[0])))


@lru_cache(maxsize=8)  # those of a round are the same as in the round before
def write_header(described: Described, metadata: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Return all that comes before the values.

    Raises
    ------
    FedGTError
        When there is no code for a tensor's type.
    """
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    end = 0
    for name, dtype, shape in described:
        if dtype not in _CODES:
            raise FedGTError(f"{name} is of type {dtype}: there is no code for it in a file")
        start, end = end, end + math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": _CODES[dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(PREFIX, "little") + text


def header_length(prefix: bytes, available: int, longest: int) -> int:
    """Return the length of the header from the first 8 bytes.

    Parameters
    ----------
    prefix : the first bytes
    available : bytes that there are after these
    longest : bytes that the header of such tensors takes at most
    """
    if len(prefix) < PREFIX:
        raise FedGTError(f"it has {len(prefix)} bytes, not even a header")
    length = int.from_bytes(prefix[:PREFIX], "little")
    if not 0 < length <= available:
        raise FedGTError(f"its header should have {length} bytes, but {available} are there")
    if length > longest:
        raise FedGTError(f"its header has {length} bytes, at most {longest} are expected")
    return length


def parse_layout(header: bytes, payload: int) -> Layout:
    """Return where each tensor is in the ``payload`` bytes after a header.

    Raises
    ------
    FedGTError
        When the header is not one, or its tensors do not fill these bytes one after the other.
    """
    document = parse_json(header, "its header")
    if not isinstance(document, dict):
        raise FedGTError("its header is not a JSON object")
    metadata = document.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FedGTError("its metadata is not text")
    tensors = {name: _entry(name, described) for name, described in document.items()}
    _check_filled(tensors, payload)
    return Layout(tensors, metadata)


def _entry(name: str, described: object) -> TensorEntry:
    if not isinstance(described, Mapping):
        raise FedGTError(f"{name!r} is not described")
    dtype, shape = described.get("dtype"), _sizes(described.get("shape"))
    offsets = _sizes(described.get("data_offsets"))
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise FedGTError(f"{name!r} has a type that is not known")
    if shape is None or len(shape) > _MOST_DIMENSIONS:
        raise FedGTError(f"{name!r} has no valid shape")
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise FedGTError(f"{name!r} has no valid place")
    entry = TensorEntry(DTYPES[dtype], shape, *offsets)
    if math.prod(shape) * entry.dtype.itemsize != entry.stop - entry.start:
        raise FedGTError(f"{name!r} does not fill its place")
    return entry


def _sizes(value: object) -> tuple[int, ...] | None:
    """Return a list of sizes; None where it is something else."""
    if not isinstance(value, list):
        return None
    # Not isinstance: True is an int, too.
    return tuple(value) if all(type(n) is int and 0 <= n < _LARGEST for n in value) else None


def _check_filled(tensors: Mapping[str, TensorEntry], payload: int) -> None:
    """Refuse gaps and overlaps: what two tensors share, or none has, was not written by us."""
    end = 0
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != end:
            raise FedGTError(f"{name!r} is not where the one before ends")
        end = entry.stop
    if end != payload:
        raise FedGTError(f"its tensors take {end} bytes, but {payload} are there")
