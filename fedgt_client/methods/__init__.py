"""The client half of every method."""

from collections.abc import Callable

from fedgt_client.graph import Graph
from fedgt_client.methods.base import ClientMethod
from fedgt_client.methods.fedavg import FedAvg
from fedgt_client.methods.fedgt import FedGT
from fedgt_client.methods.fedper import FedPer
from fedgt_client.methods.fedpub import FedPub
from fedgt_client.methods.fedsage import FedSage
from fedgt_client.methods.gcfl import GCFL
from fedgt_client.methods.gcn import GCNAtHome
from fedgt_client.methods.gophormer import FedGophormer
from fedgt_client.methods.graphgps import FedGraphGPS
from fedgt_client.methods.local import Local
from shared.config import RunConfig

# Each makes a method from the institution's graph, the settings and the institution's name.
METHODS: dict[str, Callable[[Graph, RunConfig, str], ClientMethod]] = {
    "fedgt": FedGT,
    "local": Local,
    "gcn": GCNAtHome,
    "fedavg": FedAvg,
    "fedper": FedPer,
    "gcfl": GCFL,
    "fedsage": FedSage,
    "fedpub": FedPub,
    "gophormer": FedGophormer,
    "graphgps": FedGraphGPS,
}

__all__ = ["METHODS", "ClientMethod"]
