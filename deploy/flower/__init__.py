"""All of Flower's internals that deploy uses, so that a new release breaks this alone.

``flwr.app``, ``flwr.clientapp`` and ``flwr.serverapp`` are public and imported where needed. Slow
imports stand inside the functions that need them.
"""

from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, uses_nist_ec_curve
from flwr.supercore.run import Run
from flwr.supercore.version import package_version

__all__ = ["FLOWER_VERSION", "NodeInfo", "Run", "public_key_to_bytes", "uses_nist_ec_curve"]

FLOWER_VERSION: str = package_version
