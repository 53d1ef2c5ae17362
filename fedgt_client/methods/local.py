"""FedGT's model trained at home: nothing is exchanged but the metrics."""

from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.fedgt import FedGT
from fedgt_client.training.optimiser import seed_round


class Local(FedGT):
    """The yardstick of every federation: what an institution reaches alone."""

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Train on from where the last round ended."""
        seed_round(self._config, self._institution, round_number)
        reports = self._train(round_number)
        return LocalResult({}, self._evaluate(reports), self._warnings(reports))
