"""What rounding takes from an update is added to the next one (Seide et al. 2014)."""

from collections.abc import Collection

from fedgt_client.named_arrays import NamedArrays
from fedgt_client.state import RESIDUAL
from shared.files import Array
from shared.precision import Precision, decode
from shared.wire import encode_message

Arrays = dict[str, Array]


class ErrorFeedback:
    """Rounds uploads to what the coordinator will read, and keeps the difference.

    Over many rounds the sum of what it reads is the sum of the updates, up to the rounding of the
    last one: a change too small for one round's precision is not lost, but sent later.

    Parameters
    ----------
    precision : of the messages
    parameters : names of the arrays with feedback. The others are states, not changes that add
        up. Arrays with privacy noise must not be among them: each upload should depend on one
        release alone, and the noise is far larger than the rounding.
    """

    def __init__(self, precision: Precision, parameters: Collection[str]) -> None:
        self.precision = precision
        self._parameters = frozenset(parameters)
        self._residuals: Arrays = {}

    def apply(self, upload: Arrays) -> NamedArrays:
        """Return what the coordinator will read of ``upload`` and what is left of the last one."""
        if self.precision == "float32":
            return NamedArrays(upload)
        due = {
            name: array + self._residuals[name] if name in self._residuals else array
            for name, array in upload.items()
        }
        encoded = encode_message(due, self.precision)
        sent = decode(encoded)
        self._residuals = {
            name: due[name] - sent[name]
            for name in upload
            # An array that could not be rounded travels as it is, and may not be finite.
            if name in self._parameters and encoded[name].dtype != due[name].dtype
        }
        return NamedArrays(sent, encoded)

    def state_dict(self) -> Arrays:
        """Return what is left of the last upload."""
        return {RESIDUAL + name: array for name, array in self._residuals.items()}

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned, among other arrays."""
        self._residuals = {
            name.removeprefix(RESIDUAL): array
            for name, array in saved.items()
            if name.startswith(RESIDUAL)
        }
