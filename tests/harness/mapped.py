"""Whether an array is a part of a memory-mapped file."""

import mmap

import numpy as np

from shared.files import Array


def is_mapped(array: Array) -> bool:
    """Tell whether the array's values are those of a file, and no copy of them."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)
