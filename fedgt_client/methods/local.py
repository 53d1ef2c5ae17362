"""FedGT's model trained locally: nothing is exchanged but the metrics."""

from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.fedgt import FedGT


class Local(FedGT):
    """The baseline of every federation: what an institution reaches alone."""

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Continue training from the end of the last round."""
        return self._train(round_number)
