"""FedPer (Arivazhagan et al. 2019): base layers are shared, the last layer is personal."""

from fedgt_client.methods.fedavg import FedAvg


class FedPer(FedAvg):
    """GraphSAGE whose classification layer never leaves the institution."""

    def _is_exchanged(self, name: str) -> bool:
        """Exchange the base layers of Algorithm 1; with a single layer, nothing."""
        return not name.startswith(f"layers.{self._config.layers - 1}.")
