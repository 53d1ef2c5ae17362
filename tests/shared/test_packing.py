"""Many arrays as one, wrong bytes first."""

import json
import tracemalloc

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from shared.errors import FedGTError
from shared.files import Array
from shared.packing import Shapes, pack, unpack

ARRAYS: dict[str, Array] = {
    "zeta": np.arange(6, dtype=np.float32).reshape(2, 3),
    "größe": np.array(2.5, np.float64),
    "alpha": np.arange(6, dtype=np.int64).reshape(2, 3).T,
    "none": np.zeros((0, 4), np.float32),
    "half": np.ones(3, np.float16),
}


def laid_out(header: object, payload: bytes) -> bytes:
    """Bytes with a header of one's own."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + payload


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100])
def test_cut_off(size: int) -> None:
    with pytest.raises(FedGTError, match="cannot be read"):
        unpack(pack(ARRAYS)[:size])


def test_one_byte_is_missing_or_too_many() -> None:
    whole = pack(ARRAYS)
    for torn in (whole[:-1], whole + b"\0"):
        with pytest.raises(FedGTError, match="cannot be read"):
            unpack(torn)


@given(st.binary(max_size=200))
def test_foreign_bytes(data: bytes) -> None:
    with pytest.raises(FedGTError, match="cannot be read"):
        unpack(data)


def test_a_shape_that_its_bytes_do_not_fill() -> None:
    order = {"__metadata__": {"order": '["a"]'}}
    for shape, stop in (([3], 8), ([2], 12), ([2**40, 2**40], 8), ([-2], 8)):
        entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, stop]}
        with pytest.raises(FedGTError, match="cannot be read"):
            unpack(laid_out(order | {"a": entry}, bytes(8)))


def test_without_or_with_another_order() -> None:
    arrays = {"a": np.ones(2, np.float32)}
    for metadata in (None, {"order": "["}, {"order": '["b"]'}, {"order": "3"}, {"order": "[]"}):
        with pytest.raises(FedGTError, match="cannot be read"):
            unpack(save(arrays, metadata))
    with pytest.raises(FedGTError, match="cannot be read"):
        unpack(save(arrays, {"order": '["a", "a"]'}))


def test_no_numbers() -> None:
    with pytest.raises(FedGTError, match=r"a is of type bool, expected numbers"):
        unpack(pack({"a": np.zeros(2, np.bool_)}))
    with pytest.raises(FedGTError, match=r"'a' has a type that is not known"):
        unpack(save({"a": np.zeros(2, np.complex64)}, {"order": '["a"]'}))
    with pytest.raises(FedGTError, match="a is of type complex64: there is no code for it"):
        pack({"a": np.zeros(2, np.complex64)})


def test_safetensors_reads_it() -> None:
    arrays = {"b": np.arange(3, dtype=np.int8), "a": np.array(2.5), "c": np.eye(2)}
    found = load(pack(arrays))
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in arrays.items()
    }
    assert list(unpack(pack(arrays))) == ["b", "a", "c"]


def test_what_is_remembered_of_a_header_does_not_pass_for_other_bytes() -> None:
    packed = pack({"a": np.ones(4, np.float32)})
    assert unpack(packed)["a"].tolist() == [1.0] * 4
    for damaged in (packed[:-4], packed + b"\0" * 4, packed.replace(b"F32", b"F64")):
        with pytest.raises(FedGTError, match="cannot be read"):
            unpack(damaged)


def test_a_type_that_numpy_does_not_have() -> None:
    entry = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    with pytest.raises(FedGTError, match="cannot be read"):
        unpack(laid_out({"__metadata__": {"order": '["a"]'}, "a": entry}, bytes(4)))


def test_comes_back() -> None:
    found = unpack(pack(ARRAYS))
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tolist() == array.tolist()
        assert found[name].flags.writeable
    assert unpack(pack({})) == {}


@pytest.mark.parametrize("shapes", [None, {"a": [4]}])
def test_a_large_header_is_refused_before_it_is_read(shapes: Shapes | None) -> None:
    size = 80_000_000
    data = size.to_bytes(8, "little") + b'{"a":' + b" " * (size - 5)
    tracemalloc.start()
    try:
        with pytest.raises(FedGTError, match="cannot be read"):
            unpack(data, shapes)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_two_gigabytes_are_refused_by_their_size_alone() -> None:
    data = bytes(2**31)  # zeros that nobody has touched take no memory
    before = psutil.Process().memory_info().rss
    with pytest.raises(FedGTError, match="2147483648 bytes, at most"):
        unpack(data, {"a": [4]})
    assert psutil.Process().memory_info().rss - before < 50_000_000
