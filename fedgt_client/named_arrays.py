"""Flower's lists of arrays, with names."""

from collections.abc import Mapping

from shared.files import Array
from shared.packing import pack
from shared.precision import Precision
from shared.wire import encode_message


class NamedArrays(list[Array]):
    """What ``NumPyClient`` takes and returns, a list of arrays, whose arrays keep their names.

    Parameters
    ----------
    encoded : the same arrays as they travel, where that is known already
    """

    def __init__(
        self, arrays: Mapping[str, Array], encoded: dict[str, Array] | None = None
    ) -> None:
        super().__init__(arrays.values())
        self.names = tuple(arrays)
        self._encoded = encoded
        self._packed: bytes | None = None

    def as_dict(self) -> dict[str, Array]:
        """Return the arrays by name."""
        return dict(zip(self.names, self, strict=True))

    def packed(self, precision: Precision) -> bytes:
        """Return the arrays as they travel; computed once."""
        if self._packed is None:
            encoded = self._encoded
            self._packed = pack(
                encode_message(self.as_dict(), precision) if encoded is None else encoded
            )
        return self._packed
