"""FedGT's model trained locally: nothing is exchanged but the metrics."""

from typing import ClassVar

from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.fedgt import FedGT


class Local(FedGT):
    """The baseline of every federation: what an institution reaches alone."""

    uploads: ClassVar[tuple[str, ...]] = ()

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Continue training from the end of the last round."""
        return self._train(round_number)
