"""The server half of every method, with its metadata and defaults, by name."""

from fedgt_server.methods import fedavg, fedgt, fedpub, fedsage, gcfl, local
from fedgt_server.methods.base import (
    BASELINE_DEFAULTS,
    SAGE_DEFAULTS,
    MethodInfo,
    RoundReport,
    ServerMethod,
)
from shared.config import RunConfig
from shared.registry import lookup

__all__ = ["METHODS", "MethodInfo", "RoundReport", "ServerMethod", "method_info", "server_method"]

# In the order of the paper's tables. A method without a server half of its own needs no file here.
METHODS: dict[str, MethodInfo] = {
    "local": local.INFO,
    "gcn": MethodInfo(
        "GCN, alone",
        "a plain GCN, trained by each institution on its own",
        local.Local,
        defaults=BASELINE_DEFAULTS,
        uploads=(),
    ),
    "fedavg": fedavg.INFO,
    "fedper": MethodInfo(
        "FedPer",
        "GraphSAGE, averaged, with a classification layer that stays at the institution",
        # An update that holds the personal layer is rejected: it is not in the profile.
        fedavg.FedAvg,
        defaults=SAGE_DEFAULTS,
    ),
    "gcfl": gcfl.INFO,
    "fedsage": fedsage.INFO,
    "fedpub": fedpub.INFO,
    "gophormer": MethodInfo(
        "Gophormer",
        "a transformer over sampled ego-graphs, averaged",
        fedavg.FedAvg,
        defaults=SAGE_DEFAULTS | {"lr": 0.001},
    ),
    "graphgps": MethodInfo(
        "GraphGPS",
        "GIN and Performer layers, averaged",
        fedavg.FedAvg,
        defaults=BASELINE_DEFAULTS | {"lr": 0.001},
    ),
    "fedgt": fedgt.INFO,
}


def method_info(name: str) -> MethodInfo:
    """Return the metadata of a method; raise FedGTError if there is no such method."""
    return lookup(METHODS, "method", name)


def server_method(config: RunConfig) -> ServerMethod:
    """Create the server half of the method that the configuration names.

    Raises
    ------
    FedGTError
        If there is no such method, or if it cannot keep the privacy that is configured.
    """
    info = method_info(config.method)
    config.check_privacy(private_updates=info.private_updates)
    return info.server(config)
