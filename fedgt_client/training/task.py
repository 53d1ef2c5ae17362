"""What the training loop asks of a model and its data."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from fedgt_client.model.global_nodes import GlobalNodes
from fedgt_client.model.graph_model import GraphModel
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.transformer import GraphTransformer, TransformerOutput
from fedgt_client.sampling import Sampler
from fedgt_client.training.batches import BatchPlan, batches


class LearningTask(ABC):
    """A model and the subgraph it learns from."""

    model: nn.Module
    graph: GraphTensors
    class_weights: Tensor | None = None  # shape: (classes,), in the training loss; None: all 1

    @abstractmethod
    def training_passes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield node ids, shape (t,), and their class scores, shape (t, classes), of one epoch.

        The training loop takes its step before it asks for the next pass.
        """

    def penalty(self) -> Tensor | float:
        """Return the term added to the cross entropy of a step."""
        return 0.0

    def after_step(self) -> None:  # noqa: B027 (most tasks have nothing to do)
        """Do what must follow an optimiser step."""

    @torch.no_grad()
    def predict(self, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes`` in evaluation mode, shape (len(nodes), classes)."""
        self.model.eval()
        return self._scores(nodes)

    @abstractmethod
    def _scores(self, nodes: Tensor) -> Tensor: ...


class GraphTask(LearningTask):
    """A baseline's model, which reads the graph itself."""

    def __init__(self, model: GraphModel, graph: GraphTensors, batch_size: int) -> None:
        self.model = model.to(graph.device)
        self.graph = graph
        self._batch_size = batch_size  # 0: all training nodes

    def training_passes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the training nodes in random order, ``batch_size`` at a time."""
        train = self.graph.splits["train"]
        shuffled = train[torch.randperm(len(train))]
        for nodes in shuffled.split(self._batch_size or max(len(train), 1)):
            if len(nodes):
                yield nodes, self.model(self.graph, nodes)

    def _scores(self, nodes: Tensor) -> Tensor:
        scores: Tensor = self.model(self.graph, nodes)
        return scores


class TransformerTask(LearningTask):
    """The graph transformer with its sampler and its global nodes."""

    def __init__(
        self,
        model: GraphTransformer,
        graph: GraphTensors,
        sampler: Sampler,
        global_nodes: GlobalNodes,
        plan: BatchPlan,
    ) -> None:
        self.model: GraphTransformer = model.to(graph.device)
        self.graph = graph
        self.sampler = sampler
        self.global_nodes = global_nodes.to(graph.device)
        self._plan = plan

    def training_passes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield one pass over the labelled training nodes, lines 7 and 8 of Algorithm 2.

        Samples and signs of the positional encoding are redrawn; after each step the global nodes
        are updated with every node that the pass computed, labelled or not.
        """
        plan, train = self._plan, self.graph.splits["train"]
        order = train if plan.train_batch == 0 else train[torch.randperm(len(train))]
        for batch in batches(
            self.graph.inputs().with_flipped_signs(),
            self.sampler.draw(),
            order,
            size=plan.train_batch,
            layers=len(self.model.layers),
        ):
            with plan.precision():
                output = self.model(batch.inputs, self.global_nodes.centres, batch.blocks)
            yield batch.targets, batch.wanted(output.logits).float()
            self.global_nodes.update(output.representations)

    @torch.no_grad()
    def representations(self) -> Tensor:
        """Return normalised representations of all nodes after the last layer, shape (n, d)."""
        self.model.eval()
        return self._infer(self.graph.all_nodes(), lambda output: output.representations[-1])

    def _scores(self, nodes: Tensor) -> Tensor:
        return self._infer(nodes, lambda output: output.logits)

    def _infer(self, nodes: Tensor, part: Callable[[TransformerOutput], Tensor]) -> Tensor:
        """Return a part of the output for ``nodes``, with each node's top samples."""
        found = []
        with self._plan.precision():
            for batch in batches(
                self.graph.inputs(),
                self.sampler.top_k(),
                nodes,
                size=self._plan.predict_batch,
                layers=len(self.model.layers),
            ):
                output = self.model(batch.inputs, self.global_nodes.centres, batch.blocks)
                found.append(batch.wanted(part(output)).float())
        return torch.cat(found)
