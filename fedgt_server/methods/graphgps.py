"""GraphGPS's coordinator."""

from fedgt_server.methods.fedavg import FedAvg


class FedGraphGPS(FedAvg):
    """The paper extends GraphGPS to federations with FedAvg."""
