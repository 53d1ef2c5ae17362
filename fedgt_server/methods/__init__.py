"""The server half of every method."""

from collections.abc import Callable

from fedgt_server.methods.base import RoundReport, ServerMethod
from fedgt_server.methods.fedavg import FedAvg
from fedgt_server.methods.fedgt import FedGT
from fedgt_server.methods.fedper import FedPer
from fedgt_server.methods.fedpub import FedPub
from fedgt_server.methods.fedsage import FedSage
from fedgt_server.methods.gcfl import GCFL
from fedgt_server.methods.gcn import GCNAtHome
from fedgt_server.methods.gophormer import FedGophormer
from fedgt_server.methods.graphgps import FedGraphGPS
from fedgt_server.methods.local import Local
from shared.config import RunConfig

__all__ = ["METHODS", "RoundReport", "ServerMethod", "server_method"]

METHODS: dict[str, Callable[[RunConfig], ServerMethod]] = {
    "fedgt": FedGT,
    "local": lambda _: Local(),
    "gcn": lambda _: GCNAtHome(),
    "fedavg": lambda _: FedAvg(),
    "fedper": lambda _: FedPer(),
    "gcfl": lambda _: GCFL(),
    "fedsage": FedSage,
    "fedpub": FedPub,
    "gophormer": lambda _: FedGophormer(),
    "graphgps": lambda _: FedGraphGPS(),
}


def server_method(config: RunConfig) -> ServerMethod:
    """The method that the configuration names."""
    return METHODS[config.method](config)
