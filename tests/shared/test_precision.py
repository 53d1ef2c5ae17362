"""Arrays as they travel, wrong messages first."""

from typing import Any

import numpy as np
import pytest

from shared.errors import FedGTError
from shared.files import Array
from shared.precision import SCALES, Precision, decode, encode, encoded_sizes


def weights() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {
        "head": rng.standard_normal((3, 200)).astype(np.float32),
        "bias": rng.standard_normal(3).astype(np.float32),
        "temperature": np.array(0.25, np.float32),
        "none": np.zeros((0, 4), np.float32),
        "nodes": rng.standard_normal((2, 5)).astype(np.float32),
    }


def int8(**changed: Any) -> dict[str, Array]:
    """Return a message whose arrays are int8, changed by name; None removes one."""
    message = encode(weights(), "int8") | changed
    return {name: array for name, array in message.items() if array is not None}


# --- hostile messages -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 5, 7, 10**6])
def test_another_number_of_scales(count: int) -> None:
    scales = np.ones(count, np.float32)
    with pytest.raises(FedGTError, match=f"{count} scales, expected 6"):
        decode(int8(**{SCALES: scales}))


def test_without_scales() -> None:
    with pytest.raises(FedGTError, match="0 scales, expected 6"):
        decode(int8(**{SCALES: None}))


def test_scales_of_nothing() -> None:
    with pytest.raises(FedGTError, match="1 scales, expected 0"):
        decode(weights() | {SCALES: np.ones(1, np.float32)})


@pytest.mark.parametrize(
    "scales",
    [np.ones(6), np.ones(6, np.float16), np.ones(6, np.int8), np.ones((6, 1), np.float32)],
)
def test_scales_of_another_kind(scales: Array) -> None:
    with pytest.raises(FedGTError, match=f"{SCALES} is of type"):
        decode(int8(**{SCALES: scales}))


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0])
def test_a_hostile_scale(scale: float) -> None:
    scales = np.ones(6, np.float32)
    scales[4] = scale
    with pytest.raises(FedGTError, match="not a finite number"):
        decode(int8(**{SCALES: scales}))


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_arrays_of_other_names_and_shapes_stay_as_they_came(kind: Precision) -> None:
    expected = {name: list(array.shape) for name, array in weights().items()}
    expected["head"] = [200, 3]
    del expected["bias"], expected["temperature"]
    encoded = encode(weights(), kind)
    found = decode(encoded, expected)
    assert {name: array.dtype.name for name, array in found.items()} == {
        "head": kind,
        "bias": kind,
        "temperature": kind,
        "none": "float32",
        "nodes": "float32",
    }
    # With its own scale, not one of those that were skipped.
    assert found["nodes"].tolist() == decode(encoded)["nodes"].tolist()


def test_the_name_of_the_scales_is_taken() -> None:
    with pytest.raises(FedGTError, match=SCALES):
        encode({SCALES: np.ones(2, np.float32)}, "int8")


# --- what is sent ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float32", 0.0), ("float16", 2e-3), ("int8", 2e-2)]
)
def test_comes_back_up_to_rounding(precision: Precision, tolerance: float) -> None:
    found = decode(encode(weights(), precision))
    assert list(found) == list(weights())
    for name, array in weights().items():
        assert (found[name].dtype.name, found[name].shape) == ("float32", array.shape)
        np.testing.assert_allclose(found[name], array, rtol=0, atol=tolerance)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_what_came_travels_on_exactly(precision: Precision) -> None:
    came = decode(encode(weights(), precision, keep_half=("nodes",)))
    again = decode(encode(came, precision, keep_half=("nodes",)))
    for name, array in came.items():
        assert again[name].tobytes() == array.tobytes()


def test_types_on_the_way() -> None:
    encoded = encode(weights(), "int8", keep_half=("nodes",))
    assert {name: array.dtype.name for name, array in encoded.items()} == {
        "head": "int8",
        "bias": "int8",
        "temperature": "int8",
        "none": "int8",
        "nodes": "float16",
        SCALES: "float32",
    }
    halves = encode(weights(), "float16").values()
    assert {array.dtype.name for array in halves} == {"float16"}
    assert encode(weights(), "float32").keys() == weights().keys()


@pytest.mark.parametrize("precision", ["float16", "int8"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_cannot_be_expressed_stays_float32(precision: Precision, value: float) -> None:
    """Whoever receives it refuses it by name."""
    spoilt = weights()
    spoilt["bias"][1] = value
    encoded = encode(spoilt, precision)
    assert encoded["bias"].dtype == np.float32
    assert encoded["head"].dtype != np.float32
    assert decode(encoded)["bias"].tobytes() == spoilt["bias"].tobytes()


def test_values_too_large_for_half_precision_stay_float32() -> None:
    large = {"a": np.array([1.0, -65504.0], np.float32), "b": np.array([1.0, -7e4], np.float32)}
    encoded = encode(large, "float16")
    assert [array.dtype.name for array in encoded.values()] == ["float16", "float32"]


def test_other_types_are_left_to_the_receiver() -> None:
    whole = {"a": np.arange(3), "b": np.ones(2)}
    assert decode(encode(whole, "int8")).keys() == whole.keys()
    assert encode(whole, "int8")["a"].dtype == np.int64


def test_sizes_count_what_travels() -> None:
    assert encoded_sizes(int8()) == {
        "head": 600 + 3 * 4,
        "bias": 3 + 4,
        "temperature": 1 + 4,
        "none": 0,
        "nodes": 10 + 4,
    }
    assert encoded_sizes(encode(weights(), "float16"))["head"] == 1200
    assert encoded_sizes(weights())["head"] == 2400
    total = sum(array.nbytes for array in int8().values())
    assert sum(encoded_sizes(int8()).values()) == total
