"""Flower's lists of arrays, with names."""

from collections.abc import Mapping

from shared.files import Array


class NamedArrays(list[Array]):
    """What ``NumPyClient`` takes and returns, a list of arrays, whose arrays keep their names."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        super().__init__(arrays.values())
        self.names = tuple(arrays)

    def as_dict(self) -> dict[str, Array]:
        """Return the arrays by name."""
        return dict(zip(self.names, self, strict=True))
