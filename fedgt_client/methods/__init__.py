"""The client half of every method."""

from fedgt_client.methods.base import ClientMethod
from fedgt_client.methods.fedgt import FedGT
from fedgt_client.methods.local import Local

METHODS: dict[str, type[FedGT]] = {"fedgt": FedGT, "local": Local}

__all__ = ["METHODS", "ClientMethod"]
