import numpy as np
import pytest

from fedgt_client.data.column_figures import Figures, numeric_column, pooled


def test_figures_too_large_to_square_are_not_finite() -> None:
    assert not Figures.of(np.array([1e300, -1e300])).is_finite


def test_figures_by_hand() -> None:
    assert Figures.of(np.array([1.0, 3.0])) == Figures(2, 2.0, 1.0)
    assert Figures.of(np.full(3, 0.1)) == Figures(3, 0.1, 0.0)


def test_rounding_is_relative_to_the_deviation() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(1_700_000_000.123, 86_400, 1234)
    found = Figures.of(values).rounded(3)
    assert len(f"{found.std:g}") <= 5
    assert abs(found.mean - values.mean()) < found.std / 100
    assert found.mean == round(found.mean, -2)
    assert found.rows == 1230
    assert Figures.of(np.full(3, 0.123456)).rounded(3).mean == 0.123456
    assert str(Figures(9, -0.0001, 1.0).rounded(3).mean) == "0.0"


@pytest.mark.parametrize("offset", [0.0, 1.7e9])
def test_pooled_figures_are_those_of_all_rows(offset: float) -> None:
    rng = np.random.default_rng(1)
    parts = [offset + rng.normal(size, size, 10 * size) for size in (1, 5, 40)]
    whole = Figures.of(np.concatenate(parts))
    for order in (parts, parts[::-1]):
        found = pooled([Figures.of(part) for part in order])
        assert found.rows == whole.rows
        assert found.mean == pytest.approx(whole.mean, rel=1e-14)
        assert found.std == pytest.approx(whole.std, rel=1e-8)
    figures = [Figures.of(part) for part in parts]
    assert pooled(figures) == pooled(figures[::-1])
    assert pooled([Figures(2, 0.0, 0.0), Figures(2, 2.0, 0.0)]) == Figures(4, 1.0, 1.0)


@pytest.mark.parametrize(
    ("std", "has_logs", "expected"),
    [(20.1, True, "log"), (20.0, True, "linear"), (20.1, False, "linear")],
)
def test_the_rule_for_logarithms(std: float, has_logs: bool, expected: str) -> None:
    logs = Figures(9, 1.0, 1.0) if has_logs else None
    assert numeric_column("x", Figures(9, 10.0, std), logs).scale == expected
