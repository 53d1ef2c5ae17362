"""The precision in which arrays travel.

Values are float32 at both ends. On the way they may be float16 or 8-bit integers with scales; an
array's type says which, so a receiver needs no setting to read it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np

from shared.errors import FedGTError
from shared.files import Array
from shared.quantisation import count_blocks, dequantise, quantise

Precision = Literal["float32", "float16", "int8"]

# The scales of all int8 arrays of a message, one array after the other in the message's order.
SCALES = "quantisation_scales"

_LARGEST_HALF = float(np.finfo(np.float16).max)


def encode(
    arrays: Mapping[str, Array], precision: Precision, keep_half: Collection[str] = ()
) -> dict[str, Array]:
    """Return float32 arrays as they travel in ``precision``.

    With int8, those named in ``keep_half`` become float16. An array that the precision cannot
    express, because a value is too large or not finite, stays float32; so does any other type.
    """
    encoded: dict[str, Array] = {}
    scales: list[Array] = []
    for name, array in arrays.items():
        if name == SCALES:
            raise FedGTError(f"an array is called '{SCALES}': that name has a meaning of its own")
        chosen = "float16" if precision == "int8" and name in keep_half else precision
        encoded[name] = array
        if chosen == "float32" or array.dtype != np.float32 or not np.isfinite(array).all():
            continue
        if chosen == "int8":
            encoded[name], found = quantise(array)
            scales.append(found)
        elif np.abs(array).max(initial=0.0) <= _LARGEST_HALF:
            encoded[name] = array.astype(np.float16)
    if scales:
        encoded[SCALES] = np.concatenate(scales)
    return encoded


def decode(
    encoded: Mapping[str, Array], shapes: Mapping[str, Sequence[int]] | None = None
) -> dict[str, Array]:
    """Return what ``encode`` was given, up to rounding; the arrays may come from anybody.

    Where the ``shapes`` to expect are given, an array of another name or shape stays as it came:
    it is not expanded before whoever knows them refuses it.

    Raises
    ------
    FedGTError
        When scales do not fit the int8 arrays.
    """
    scales = encoded.get(SCALES, np.zeros(0, np.float32))
    if scales.dtype != np.float32 or scales.ndim != 1:
        raise FedGTError(
            f"{SCALES} is of type {scales.dtype} and shape {list(scales.shape)}, "
            "expected float32 and one dimension"
        )
    needed = sum(_count_scales(array) for array in encoded.values())
    if needed != len(scales):
        raise FedGTError(f"a message holds {len(scales)} scales, expected {needed}")
    arrays: dict[str, Array] = {}
    for name, array in encoded.items():
        if name != SCALES:
            own, scales = np.split(scales, [_count_scales(array)])
            expected = shapes is None or list(array.shape) == list(shapes.get(name, [-1]))
            arrays[name] = _decoded(array, own) if expected else array
    return arrays


def encoded_sizes(encoded: Mapping[str, Array]) -> dict[str, int]:
    """Return the bytes that each array takes on the way, by name, its scales included."""
    return {
        name: array.nbytes + _count_scales(array) * np.dtype(np.float32).itemsize
        for name, array in encoded.items()
        if name != SCALES
    }


def _decoded(array: Array, scales: Array) -> Array:
    if array.dtype == np.int8:
        return dequantise(array, scales)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _count_scales(array: Array) -> int:
    return count_blocks(array.size) if array.dtype == np.int8 else 0
