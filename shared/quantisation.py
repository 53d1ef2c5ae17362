"""Arrays as 8-bit integers with a scale for each block of values, and back."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shared.errors import FedGTError

# Values, in C order, that share a scale: the scales add 4 bytes to 256.
BLOCK = 256
_LEVELS = 127
# Of a scale: with the 7 bits of a code, a product has 24, as many as float32 holds. It is exact,
# and so an array that comes from ``dequantise`` is quantised without any further error.
_SCALE_BITS = 17

Floats = NDArray[np.float32]
Codes = NDArray[np.int8]
Number = TypeVar("Number", np.float32, np.int8)


def quantise(array: Floats) -> tuple[Codes, Floats]:
    """Round each value to the nearest of the 255 multiples −127 s … 127 s of its block's scale s.

    The scale is a 127th of the block's largest magnitude, rounded up: the error of a value is at
    most s / 2. A block whose magnitudes are all below 1e-36 becomes 0.

    Returns
    -------
    codes : shape of ``array``
    scales : one for each block of ``BLOCK`` values in C order, shape (⌈size / BLOCK⌉,)

    Raises
    ------
    FedGTError
        When a value is not finite.
    """
    blocks = _in_blocks(np.asarray(array, np.float32))
    # NaN where a value is NaN.
    largest = np.maximum(blocks.max(axis=1, initial=0.0), -blocks.min(axis=1, initial=0.0))
    if not np.isfinite(largest).all():
        raise FedGTError("an array holds values that are not finite: it cannot be quantised")
    scales = _short(np.divide(largest, _LEVELS, dtype=np.float32))
    # Below this float32 loses bits: such a block is 0.
    scales = np.where(scales >= np.finfo(np.float32).tiny, scales, np.float32(0.0))
    divisors = np.where(scales > 0, scales, np.float32(np.inf))
    rounded = np.divide(blocks, divisors[:, None])
    codes = np.rint(rounded, out=rounded).astype(np.int8).reshape(-1)[: array.size]
    return codes.reshape(array.shape), scales


def dequantise(codes: Codes, scales: Floats) -> Floats:
    """Return code times scale of its block: shapes as ``quantise`` returns them, to ``codes``'s.

    Raises
    ------
    FedGTError
        When there is another number of scales than of blocks, or a scale is not a finite number
        of at least 0.
    """
    if scales.shape != (count_blocks(codes.size),):
        found = f"{codes.size} quantised values come with scales of shape {list(scales.shape)}"
        raise FedGTError(f"{found}, expected [{count_blocks(codes.size)}]")
    if not (np.isfinite(scales) & (scales >= 0)).all():
        raise FedGTError("a scale of quantised values is not a finite number of at least 0")
    with np.errstate(over="ignore"):  # infinite where a sender's scale is absurd
        values = np.multiply(_in_blocks(codes), scales[:, None], dtype=np.float32)
    return values.reshape(-1)[: codes.size].reshape(codes.shape)


def count_blocks(size: int) -> int:
    """Return the number of scales for ``size`` values."""
    return -(-size // BLOCK)


def _short(scales: Floats) -> Floats:
    """Round up to ``_SCALE_BITS`` significant bits."""
    mantissas, exponents = np.frexp(scales)
    whole = np.ceil(np.ldexp(mantissas, _SCALE_BITS))
    return np.asarray(np.ldexp(whole, exponents - _SCALE_BITS), np.float32)


def _in_blocks(array: NDArray[Number]) -> NDArray[Number]:
    """Return values in C order as rows of ``BLOCK``, with zeros after the last of them."""
    blocks = count_blocks(array.size)
    if array.size == blocks * BLOCK:
        return array.reshape(blocks, BLOCK)
    padded = np.zeros(blocks * BLOCK, array.dtype)
    padded[: array.size] = array.reshape(-1)
    return padded.reshape(blocks, BLOCK)
