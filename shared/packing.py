"""Named arrays as bytes, in the safetensors layout."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from shared.errors import FedGTError
from shared.files import Array
from shared.json_text import parse_json
from shared.quantisation import count_blocks
from shared.tensor_layout import (
    PREFIX,
    TensorEntry,
    describe,
    header_length,
    parse_layout,
    write_header,
)

_ORDER = "order"  # of the names; the layout itself has another

# Bytes of a header where it is not known what to expect: a few thousand tensors.
_LONGEST_HEADER = 2**20
# Of what a header says of a tensor: its type, shape and place, without its name.
_ENTRY = 256
# Of a character of a name, which stands in the header twice, once with its escapes escaped.
_CHARACTER = 24

# Bytes of a header whose content is remembered: the next round's message has the same.
_SHORT = 2**15

Shapes = Mapping[str, Sequence[int]]


def pack(arrays: Mapping[str, Array]) -> bytes:
    """Return the names, types, shapes and values of ``arrays`` as bytes."""
    described = describe(arrays)
    header = write_header(described, ((_ORDER, json.dumps(list(arrays))),))
    values = [np.ascontiguousarray(arrays[name]).data for name, _, _ in described]
    return header + b"".join(values)


def unpack(data: bytes, shapes: Shapes | None = None) -> dict[str, Array]:
    """Return the arrays that ``pack`` was given; the bytes may come from anybody.

    Parameters
    ----------
    shapes : what arrays to expect; nothing is read of bytes that are more than they can take

    Raises
    ------
    FedGTError
        When they are torn, of another layout, too many, or hold something else than numbers.
    """
    try:
        return _unpacked(data, shapes)
    except FedGTError as error:
        raise FedGTError(f"a message's arrays cannot be read: {error}") from None


def largest_packed(shapes: Shapes) -> int:
    """Return the bytes that arrays of these shapes take at most, in any precision."""
    values = [math.prod(shape) for shape in shapes.values()]
    return _longest_header(shapes) + sum(4 * (size + count_blocks(size)) for size in values)


def _longest_header(shapes: Shapes) -> int:
    # One more: the scales.
    return _ENTRY * (len(shapes) + 2) + _CHARACTER * sum(len(name) for name in shapes)


def _unpacked(data: bytes, shapes: Shapes | None) -> dict[str, Array]:
    if shapes is not None and len(data) > (largest := largest_packed(shapes)):
        raise FedGTError(f"they take {len(data)} bytes, at most {largest} are expected")
    longest = _LONGEST_HEADER if shapes is None else _longest_header(shapes)
    end = PREFIX + header_length(data[:PREFIX], len(data) - PREFIX, longest)
    arrays = {}
    for name, entry in _ordered(data[PREFIX:end], len(data) - end):
        flat = np.frombuffer(data, entry.dtype, math.prod(entry.shape), end + entry.start)
        arrays[name] = flat.reshape(entry.shape).copy()
    return arrays


def _ordered(header: bytes, payload: int) -> tuple[tuple[str, TensorEntry], ...]:
    """Return the entries of a header in the order of ``pack``."""
    return (_known if len(header) <= _SHORT else _parsed)(header, payload)


def _parsed(header: bytes, payload: int) -> tuple[tuple[str, TensorEntry], ...]:
    layout = parse_layout(header, payload)
    order = parse_json(layout.metadata.get(_ORDER, ""), "their order")
    if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
        raise FedGTError("their order is not a list of names")
    if sorted(order) != sorted(layout.tensors):
        raise FedGTError("they have other names than their order says")
    for name, entry in layout.tensors.items():
        if entry.dtype.kind not in "fiu":
            raise FedGTError(f"{name} is of type {entry.dtype}, expected numbers")
    return tuple((name, layout.tensors[name]) for name in order)


_known = lru_cache(maxsize=8)(_parsed)
