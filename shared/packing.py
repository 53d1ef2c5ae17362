"""Named arrays as bytes, in the safetensors layout."""

import json
from collections.abc import Mapping

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from shared.errors import FedGTError
from shared.files import Array

_ORDER = "order"  # of the names; the layout itself has another


def pack(arrays: Mapping[str, Array]) -> bytes:
    """Return the names, types, shapes and values of ``arrays`` as bytes."""
    # Not np.ascontiguousarray, which makes a vector of a scalar.
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return save(whole, {_ORDER: json.dumps(list(whole))})


def unpack(data: bytes) -> dict[str, Array]:
    """Return the arrays that ``pack`` was given; the bytes may come from anybody.

    Raises
    ------
    FedGTError
        When they are torn, of another layout, or hold something else than numbers.
    """
    try:
        arrays = load(data)  # checks that sizes, shapes and types fit the bytes
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        order = json.loads(header["__metadata__"][_ORDER])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise FedGTError(f"a message's arrays cannot be read: {error!r}") from None
    if not isinstance(order, list) or sorted(map(str, order)) != sorted(arrays):
        raise FedGTError("a message's arrays cannot be read: they have other names than it says")
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise FedGTError(f"{name} is of type {array.dtype}, expected numbers")
    return {name: arrays[name] for name in order}
