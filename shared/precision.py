"""The precision in which arrays travel.

Values are float32 at both ends. On the way they may be float16 or 8-bit integers with scales; an
array's type says which, so a receiver needs no setting to read it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from shared.errors import FedGTError
from shared.files import Array
from shared.quantisation import BLOCK, count_blocks, dequantise, quantise

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
    if SCALES in arrays:
        raise FedGTError(f"an array is called '{SCALES}': that name has a meaning of its own")
    encoded, small = dict(arrays), []
    for name, array in arrays.items():
        chosen = "float16" if precision == "int8" and name in keep_half else precision
        if chosen == "float32" or array.dtype != np.float32 or not np.isfinite(array).all():
            continue
        if chosen == "int8":
            small.append(name)
        elif np.abs(array).max(initial=0.0) <= _LARGEST_HALF:
            encoded[name] = array.astype(np.float16)
    if small:
        whole = [arrays[name] for name in small]
        codes, encoded[SCALES] = quantise(_joined(whole, np.float32))
        encoded |= zip(small, _parts(codes, whole), strict=True)
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
    arrays = {name: array for name, array in encoded.items() if name != SCALES}
    wanted = [
        name
        for name, array in arrays.items()
        if shapes is None or list(array.shape) == list(shapes.get(name, [-1]))
    ]
    small = [name for name in wanted if arrays[name].dtype == np.int8]
    if small:
        codes = [arrays[name] for name in small]
        own = _scales_of(set(small), arrays, scales)
        values = _parts(dequantise(_joined(codes, np.int8), own), codes)
        arrays |= zip(small, values, strict=True)
    for name in wanted:
        if arrays[name].dtype == np.float16:
            arrays[name] = arrays[name].astype(np.float32)
    return arrays


def encoded_sizes(encoded: Mapping[str, Array]) -> dict[str, int]:
    """Return the bytes that each array takes on the way, by name, its scales included."""
    return {
        name: array.nbytes + _count_scales(array) * np.dtype(np.float32).itemsize
        for name, array in encoded.items()
        if name != SCALES
    }


def _joined(arrays: Sequence[Array], kind: type[np.generic]) -> Array:
    """Return arrays one after the other, each filled up with zeros to whole blocks.

    Dozens of small arrays take longer one by one than their values alone.
    """
    joined = np.zeros(BLOCK * sum(count_blocks(array.size) for array in arrays), kind)
    for array, start in zip(arrays, _starts(arrays), strict=True):
        joined[start : start + array.size] = array.reshape(-1)
    return joined


def _parts(joined: Array, arrays: Sequence[Array]) -> Iterator[Array]:
    """Yield what ``_joined`` made of each array, in its shape."""
    for array, start in zip(arrays, _starts(arrays), strict=True):
        yield joined[start : start + array.size].reshape(array.shape)


def _starts(arrays: Sequence[Array]) -> Iterator[int]:
    """Yield where each array starts among the whole blocks of all."""
    start = 0
    for array in arrays:
        yield start
        start += BLOCK * count_blocks(array.size)


def _scales_of(names: Collection[str], arrays: Mapping[str, Array], scales: Array) -> Array:
    """Return the scales of those int8 arrays that are named."""
    counts = [_count_scales(array) for array in arrays.values()]
    chosen = np.repeat([name in names for name in arrays], counts)
    return np.asarray(scales[chosen])


def _count_scales(array: Array) -> int:
    return count_blocks(array.size) if array.dtype == np.int8 else 0
