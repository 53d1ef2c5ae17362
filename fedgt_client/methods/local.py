"""FedGT's model trained locally: nothing is exchanged but the metrics."""

from typing import ClassVar

from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.fedgt import FedGT
from shared.config import RunConfig


class Local(FedGT):
    """The baseline of every federation: what an institution reaches alone."""

    uploads: ClassVar[tuple[str, ...]] = ()

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        # Nobody to train a model with.
        super().__init__(graph, config.model_copy(update={"common_model": "off"}), institution)

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Continue training from the end of the last round."""
        return self._train(round_number)
