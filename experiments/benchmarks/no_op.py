"""A method whose institutions do nothing: what is left of a round is the framework's."""

import numpy as np

from fedgt_client.graph import Graph
from fedgt_client.methods import METHODS as CLIENT_METHODS
from fedgt_client.methods.base import Arrays, ClientMethod, LocalResult
from fedgt_client.methods.fedgt import FedGT
from fedgt_client.training.seeding import stable_hash
from fedgt_server.methods import METHODS as SERVER_METHODS
from fedgt_server.methods import MethodInfo, method_info
from shared.config import RunConfig
from shared.wire import GLOBAL_NODES

NAME = "no-op"


class NoOp(ClientMethod):
    """Uploads arrays of FedGT's names and shapes that are the same in every round."""

    private_updates = True
    uploads = FedGT.uploads

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        self._initial = FedGT(graph, config, institution).initial_arrays()
        rng = np.random.default_rng(stable_hash(institution))
        shape = (config.layers + 1, config.global_nodes, config.hidden)
        self._upload: Arrays = {
            name: np.zeros_like(array) for name, array in self._initial.items()
        } | {GLOBAL_NODES: rng.standard_normal(shape, dtype=np.float32)}

    def initial_arrays(self) -> Arrays:
        """Return FedGT's starting point."""
        return self._initial

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Train nothing."""
        return LocalResult(self._upload, {"val_accuracy": 0.5, "test_accuracy": 0.5})

    def state_dict(self) -> Arrays:
        """Return as much as FedGT keeps without its optimiser."""
        return self._initial

    def load_state_dict(self, saved: Arrays) -> None:
        """Keep nothing: there is nothing that changes."""


def register() -> None:
    """Make the method known in this process, with FedGT's server half."""
    fedgt = method_info("fedgt")
    CLIENT_METHODS[NAME] = f"{__name__}:{NoOp.__name__}"
    SERVER_METHODS[NAME] = MethodInfo(
        "No-op",
        "institutions that train nothing",
        fedgt.server,
        uploads=fedgt.uploads,
        private_updates=fedgt.private_updates,
    )
