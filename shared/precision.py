"""The precision in which arrays travel.

Values are float32 at both ends. On the way they may be float16 or 8-bit integers with scales; an
array's type says which, so a receiver needs no setting to read it.
"""

from collections.abc import Collection, Mapping
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
        encoded[name] = array
        largest = np.abs(array).max(initial=0.0)  # NaN where a value is NaN
        if precision == "float32" or array.dtype != np.float32 or not np.isfinite(largest):
            continue
        if precision == "int8" and name not in keep_half:
            encoded[name], found = quantise(array)
            scales.append(found)
        elif largest <= _LARGEST_HALF:
            encoded[name] = array.astype(np.float16)
    if scales:
        encoded[SCALES] = np.concatenate(scales)
    return encoded


def decode(encoded: Mapping[str, Array], max_values: int | None = None) -> dict[str, Array]:
    """Return what ``encode`` was given, up to rounding; the arrays may come from anybody.

    Raises
    ------
    FedGTError
        When scales do not fit the int8 arrays, or, before anything is decoded, there are more
        than ``max_values`` values in all.
    """
    arrays = {name: array for name, array in encoded.items() if name != SCALES}
    scales = encoded.get(SCALES, np.zeros(0, np.float32))
    if scales.dtype != np.float32 or scales.ndim != 1:
        raise FedGTError(
            f"{SCALES} is of type {scales.dtype} and shape {list(scales.shape)}, "
            "expected float32 and one dimension"
        )
    values = sum(array.size for array in arrays.values())
    if max_values is not None and values > max_values:
        raise FedGTError(f"a message holds {values} values, expected at most {max_values}")
    quantised = [name for name, array in arrays.items() if array.dtype == np.int8]
    blocks = [count_blocks(arrays[name].size) for name in quantised]
    if sum(blocks) != len(scales):
        raise FedGTError(f"a message holds {len(scales)} scales, expected {sum(blocks)}")
    parts = np.split(scales, np.cumsum(blocks)[:-1]) if blocks else []
    for name, part in zip(quantised, parts, strict=True):
        arrays[name] = dequantise(arrays[name], part)
    return {
        name: array.astype(np.float32) if array.dtype == np.float16 else array
        for name, array in arrays.items()
    }


def encoded_sizes(encoded: Mapping[str, Array]) -> dict[str, int]:
    """Return the bytes that each array takes on the way, by name, its scales included."""
    scale = np.dtype(np.float32).itemsize
    return {
        name: array.nbytes + (scale * count_blocks(array.size) if array.dtype == np.int8 else 0)
        for name, array in encoded.items()
        if name != SCALES
    }
