"""8-bit integers with scales, wrong input first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import FedGTError
from shared.quantisation import BLOCK, Floats, count_blocks, dequantise, quantise


def normal(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def by_value(scales: Floats, size: int) -> Floats:
    return np.repeat(scales, BLOCK)[:size]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    array = normal(3, BLOCK)
    array[1, 7] = value
    with pytest.raises(FedGTError, match="not finite"):
        quantise(array)


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, -1e-3])
def test_hostile_scales_are_refused(scale: float) -> None:
    codes, scales = quantise(normal(2 * BLOCK))
    scales[1] = scale
    with pytest.raises(FedGTError, match="not a finite number of at least 0"):
        dequantise(codes, scales)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 1), (1, 2)])
def test_another_number_of_scales_is_refused(shape: tuple[int, ...]) -> None:
    codes, _ = quantise(normal(2 * BLOCK))
    with pytest.raises(FedGTError, match=r"512 quantised values .*, expected \[2\]"):
        dequantise(codes, np.ones(shape, np.float32))


def test_a_scale_as_large_as_float32_holds_is_no_error_here() -> None:
    """The admission of updates refuses what is not finite."""
    found = dequantise(np.array([1, 127], np.int8), np.array([3e38], np.float32))
    assert found.tolist() == [pytest.approx(3e38), np.inf]


def test_by_hand() -> None:
    codes, scales = quantise(np.array([254.0, -254.0, 3.1, 0.9, 0.0], np.float32))
    assert codes.tolist() == [127, -127, 2, 0, 0]
    assert scales.tolist() == [2.0]
    assert dequantise(codes, scales).tolist() == [254.0, -254.0, 4.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "shape", [(), (0,), (0, 4), (1,), (BLOCK,), (BLOCK + 1,), (3, 100), (2, 3, 7), (128, 1433)]
)
def test_shapes(shape: tuple[int, ...]) -> None:
    array = np.asarray(normal(*shape), np.float32)
    codes, scales = quantise(array)
    assert (codes.dtype.name, codes.shape) == ("int8", shape)
    assert (scales.dtype.name, scales.shape) == ("float32", (count_blocks(array.size),))
    found = dequantise(codes, scales)
    assert (found.dtype.name, found.shape) == ("float32", shape)


def test_blocks_of_zeros() -> None:
    array = np.zeros(3 * BLOCK, np.float32)
    array[BLOCK] = -1.0
    codes, scales = quantise(array)
    assert scales[0] == scales[2] == 0.0
    np.testing.assert_allclose(dequantise(codes, scales), array, rtol=1e-4)


def test_a_block_does_not_feel_the_large_values_of_another() -> None:
    array = normal(2 * BLOCK)
    array[:BLOCK] *= 1e6
    codes, scales = quantise(array)
    errors = np.abs(dequantise(codes, scales) - array)
    assert errors[BLOCK:].max() < 0.02


def test_an_array_that_is_not_contiguous() -> None:
    array = normal(300, 200).T[::2]
    codes, scales = quantise(array)
    expected_codes, expected_scales = quantise(array.copy())
    assert codes.tolist() == expected_codes.tolist()
    assert scales.tolist() == expected_scales.tolist()


@pytest.mark.parametrize("size", [1e-45, 1e-40, 1e-37, 1e-30, 1.0, 1e30, 3e38])
def test_magnitudes(size: float) -> None:
    array = np.clip(normal(1000), -1.0, 1.0) * np.float32(size)
    codes, scales = quantise(array)
    errors = np.abs(dequantise(codes, scales) - array)
    assert (errors <= np.maximum(0.5001 * by_value(scales, 1000), 1e-36)).all()


@given(st.integers(0, 2**32), st.integers(0, 1000), st.floats(0.1, 10.0))
def test_error_is_at_most_half_a_scale(seed: int, size: int, power: float) -> None:
    """Values of very different magnitudes, with the largest at most a 127th too large a scale."""
    array = np.sign(normal(size, seed=seed)) * np.abs(normal(size, seed=seed)) ** np.float32(power)
    codes, scales = quantise(array)
    errors = np.abs(dequantise(codes, scales) - array)
    assert (errors <= 0.50001 * by_value(scales, size)).all()
    for index in range(len(scales)):
        largest = np.abs(array[index * BLOCK : (index + 1) * BLOCK]).max()
        assert largest / 127 * 0.999999 <= scales[index] <= largest / 127 * 1.00002


@given(st.integers(0, 2**32), st.integers(1, 1000), st.integers(-44, 35))
def test_what_was_dequantised_is_quantised_exactly(seed: int, size: int, exponent: int) -> None:
    codes, scales = quantise(normal(size, seed=seed) * np.float32(10.0**exponent))
    again_codes, again_scales = quantise(dequantise(codes, scales))
    assert again_codes.tolist() == codes.tolist()
    assert again_scales.tolist() == scales.tolist()
