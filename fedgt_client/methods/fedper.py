"""FedPer (Arivazhagan et al. 2019): base layers are shared, the last layer is personal."""

from fedgt_client.methods.fedavg import FedAvg


class FedPer(FedAvg):
    """GraphSAGE whose classification layer never leaves the institution."""

    def _travels(self, name: str) -> bool:
        """The base layers of Algorithm 1; in a model of one layer, nothing but the head."""
        return not name.startswith(f"layers.{self._config.layers - 1}.")
