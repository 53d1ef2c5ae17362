"""FedPer at the coordinator (Arivazhagan et al. 2019, Algorithm 2)."""

from fedgt_server.methods.fedavg import FedAvg


class FedPer(FedAvg):
    """Averages base layers as FedAvg does.

    What is personal is not in an institution's profile: an update that holds it is left out.
    """
