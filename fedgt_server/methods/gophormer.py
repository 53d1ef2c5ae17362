"""Gophormer's coordinator."""

from fedgt_server.methods.fedavg import FedAvg


class FedGophormer(FedAvg):
    """The paper extends Gophormer to federations with FedAvg."""
