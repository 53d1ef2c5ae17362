"""The yardstick at home, seen from the coordinator."""

from fedgt_server.methods.local import Local


class GCNAtHome(Local):
    """Nothing is exchanged but the metrics."""
