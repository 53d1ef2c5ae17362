"""The client half of every method, by name."""

from fedgt_client.graph import Graph
from fedgt_client.methods.base import ClientMethod
from shared.config import RunConfig
from shared.registry import import_object, lookup

__all__ = ["METHODS", "ClientMethod", "client_method", "method_class"]

# Paths of ClientMethod classes, imported when chosen: some import PyG, which takes seconds.
METHODS: dict[str, str] = {
    "local": "fedgt_client.methods.local:Local",
    "gcn": "fedgt_client.methods.gcn:LocalGCN",
    "fedavg": "fedgt_client.methods.fedavg:FedAvg",
    "fedper": "fedgt_client.methods.fedper:FedPer",
    "gcfl": "fedgt_client.methods.gcfl:GCFL",
    "fedsage": "fedgt_client.methods.fedsage:FedSage",
    "fedpub": "fedgt_client.methods.fedpub:FedPub",
    "gophormer": "fedgt_client.methods.gophormer:FedGophormer",
    "graphgps": "fedgt_client.methods.graphgps:FedGraphGPS",
    "fedgt": "fedgt_client.methods.fedgt:FedGT",
}


def method_class(name: str) -> type[ClientMethod]:
    """Import the client half of a method; raise FedGTError if there is none here."""
    found: type[ClientMethod] = import_object(lookup(METHODS, "method", name))
    return found


def client_method(graph: Graph, config: RunConfig, institution: str) -> ClientMethod:
    """Create the method that the configuration names.

    Raises
    ------
    FedGTError
        If there is no such method here, or if it cannot keep the privacy that is configured.
    """
    method = method_class(config.method)
    config.check_privacy(private_updates=method.private_updates)
    return method(graph, config, institution)
