"""The server half of every method."""

from fedgt_server.methods.base import RoundReport, ServerMethod
from fedgt_server.methods.fedgt import FedGT
from fedgt_server.methods.local import Local
from shared.config import RunConfig

__all__ = ["RoundReport", "ServerMethod", "server_method"]


def server_method(config: RunConfig) -> ServerMethod:
    """The method that the configuration names."""
    return FedGT(config) if config.method == "fedgt" else Local()
